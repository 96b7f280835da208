"""Whole flows: snapshots, rounds, cursors, peers in one process, wrappers, and the worked examples."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import forge
import pytest
from exchanges import (
    AUTHORITY,
    BOB,
    MEMBERS,
    NOTES,
    NOW,
    note,
    participant,
    remembered,
    result,
    stored,
)
from sides import Pair, Participant
from simulator import World as Model
from simulator import naive
from traffic import Tap
from wires import EVERYTHING

from lace.crypto import SigningKey
from lace.driving.journal import Journal
from lace.driving.pair import interlace
from lace.interlace import messages as m
from lace.interlace.facts import PREDICATES
from lace.interlace.machine import Side
from lace.interlace.phases import Phase
from lace.limits import Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, build_plex, facts, seal
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import LinkChange, RecordStore, StoreRecordId
from lace.recordstore.memory import MemorySnapshot
from lace.rules import LocalFacts
from lace.selectors import all_of, hashes, selector
from lace.vocabulary import ADVERTISED, HAVE, SELECT_HAVE

SELECTED = Exposure(default="selected")


def sealed(key: SigningKey, app: str, name: str, group: str = "u") -> Record:
    plex = build_plex(group=group, app=app, name=name, tai=f"{1:010d}:{0:09d}")
    return seal(plex, key, aux=forge.AUX)


def left_to_request(one: Participant, other: Participant) -> set[str]:
    """Return what a fixed point must not leave: wanted here, missing here, and sendable there."""
    assert one.local.policy is not None
    assert other.local.policy is not None
    wanted = {row[0] for row in one.local.policy.may_request} - stored(one)
    sendable = {row[0] for row in other.local.policy.may_send} & stored(other)
    return wanted & sendable & set(one.machine._adverts.table.records(""))


def directly(left: Participant, right: Participant) -> list[list[m.Input]]:
    """Run an exchange without any text or bytes between; return what each side heard."""
    sides = (left, right)
    heard: list[list[m.Input]] = [[], []]
    queues: tuple[deque[m.Input], deque[m.Input]] = (deque([m.Started()]), deque([m.Started()]))
    while any(queues):
        for index in (0, 1):
            if queues[index]:
                given = queues[index].popleft()
                heard[index].append(given)
                queues[1 - index].extend(sides[index].give_directly(given, NOW))
    return heard


# --- snapshots ---


class Racing(MemoryStore):
    """Somebody stores a record just after every snapshot, before it is read."""

    def __init__(self, late: list[Record]) -> None:
        super().__init__()
        self.late = late

    def snapshot(self) -> MemorySnapshot:
        taken = super().snapshot()
        if self.late:
            self.save([self.late.pop(0)])
        return taken


@pytest.mark.req("050-SND-03")
@pytest.mark.parametrize("is_open", [True, False])
def test_what_is_stored_during_an_evaluation_belongs_to_the_next(is_open: bool) -> None:
    """An evaluation goes by one moment; what comes after it is neither half seen nor forgotten."""
    late = [note(100 + i) for i in range(6)]
    store = Racing(late.copy())
    store.save([note(1)])
    left = Participant(store, Side(index=0, module=NOTES, open=is_open), SELECTED)
    right = participant(1, [note(2)], open=is_open)
    pair = Pair(left, right)
    pair.start(NOW)
    moments = 0
    while store.late or not pair.quiet:
        if pair.quiet:
            if not is_open:
                break
            pair.give(0, m.Woken(), NOW)
        pair.step(NOW)
        taken = left.local._looking._snapshot
        if taken is not None and left.local.policy is not None:
            source = left.local.policy.source
            seen = {row[0] for row in source.iterate(HAVE)}
            ids = {entry.hash: entry.id for entry in store.read(StoreRecordId(0), 1000)}
            assert seen == {name for name, id in ids.items() if id <= taken.high_water}
            assert seen == set(left.machine.tables[0].records(""))
            moments += 1
    assert moments
    pair.wake(NOW)
    if is_open:
        assert stored(right) == {record.hash for record in [note(1), note(2), *late]}
    else:
        assert left.closed


@pytest.mark.req("050-SND-04", "050-BND-03", "050-BND-02")
def test_what_is_stored_between_loops_takes_part() -> None:
    """A bounded exchange is no snapshot: it goes by the store as it is at each evaluation."""
    left, right = participant(0, [note(1)]), participant(1, [])
    tap = Tap()

    def store_more(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 0 and isinstance(crossing, m.PeerRecord) and left.store.count() < 4:
            left.store.save([note(1 + left.store.count())])
        return [crossing]

    tap.change = store_more
    interlace(left, right, NOW, tap)
    assert stored(right) == {note(i).hash for i in range(1, 5)}
    assert result(right).loops == 5  # one for each, and the one that found no more
    assert left.closed


@pytest.mark.req("050-BND-02", "050-BND-06", "050-XFR-01")
def test_batches_of_any_size_are_no_limit() -> None:
    records = [note(i) for i in range(500)]
    budget = 9 * len(records[400].raw)
    left = participant(0, records, limits=Limits(transfer_phase_bytes=budget))
    right = participant(1, [])
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert stored(right) == {record.hash for record in records}
    assert result(right).not_available == ()
    assert result(right).loops == 2
    phases = [i for i, b in enumerate(tap.blocks(1)) if b.startswith(b"MayRequest(")]
    assert len(phases) >= 500 // 10


@pytest.mark.req("050-EVL-01")
def test_a_claim_is_evaluated_in_the_loop_in_which_it_is_made() -> None:
    """With the records, the time and the claims of that moment, and before anything is requested."""
    left, right = participant(0, [note(1)]), participant(1, [note(2)])
    steps: list[m.Effect] = []
    receive = right.machine.receive

    def watch(given: m.Input, now: object) -> list[m.Effect]:
        effects = receive(given, now)  # type: ignore[arg-type]
        steps.extend(effects)
        return effects

    right.machine.receive = watch  # type: ignore[method-assign]
    interlace(left, right, NOW)
    kinds = [
        effect.facts[0][0] if isinstance(effect, m.SendFacts) else type(effect).__name__
        for effect in steps
        if isinstance(effect, m.SendFacts | m.Evaluate | m.Save)
    ]
    assert kinds == [
        "ExchangeOperand", "HelloExchangePlan",
        "Evaluate", "Advertised", "Evaluate", "MayRequest", "Evaluate", "Save",
        "Evaluate", "AdvertisementPartition", "Evaluate",
    ]  # fmt: skip
    first, second = [effect for effect in steps if isinstance(effect, m.Evaluate)][:2]
    assert first.advertised == ()
    assert [advert.record for advert in second.advertised] == [note(1).hash]
    assert {fact[0]: fact[1:] for fact in second.runtime} == {
        "ClockSkewSeconds": ("0",), "StartTAI": (NOW,), "TickTAI": (NOW,),
    }  # fmt: skip


# --- rules that are not monotone ---

FEW = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Cardinality(Have(_),'<','2').\n"
)
UNLESS = module_from_text(
    "SelectHave(P) :- Have(P), not Revoked(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), not Revoked(P).\n"
    "Revoked(P) :- Have(Q), Field(Q,'App',_,'revoke'), RecordLink(Q,_,_,'revokes',P).\n"
)


@pytest.mark.req("050-DRV-04", "050-COR-08")
def test_schedules_may_end_differently_and_each_is_a_fixed_point() -> None:
    records = [note(i) for i in range(5)]
    ends = []
    for budget in (1, 1 << 20):
        left = participant(0, records, EVERYTHING, limits=Limits(transfer_phase_bytes=budget))
        right = participant(1, [], FEW)
        interlace(left, right, NOW)
        assert left_to_request(right, left) == left_to_request(left, right) == set()
        assert result(right).rejected == result(right).not_available == ()
        assert stored(right) <= stored(left)
        ends.append(len(stored(right)))
    assert ends == [2, 5]  # one by one, and all at once


@pytest.mark.req("050-DRV-03", "050-COR-08")
def test_what_is_selected_may_shrink() -> None:
    """A revocation takes back what was offered and wanted; nothing that is stored is touched."""
    records = [note(i) for i in range(4)]
    revocation = build_plex(
        group="notes-demo", app="revoke", name="r", tai=f"{9:010d}:{0:09d}",
        extras=[("+Link", f"revokes {records[1].hash}"), ("+Link", f"revokes {records[2].hash}")],
    )  # fmt: skip
    left = participant(0, records, UNLESS, open=True)
    right = participant(1, [records[2]], UNLESS, open=True)
    tap = Tap()
    pair = Pair(left, right, tap)
    pair.start(NOW)
    pair.run(NOW)
    assert stored(right) == {record.hash for record in records}
    left.store.save([revocation])
    pair.wake(NOW)
    for side in pair.sides:
        assert stored(side) == {record.hash for record in [*records, revocation]}
        assert side.local.policy is not None
        left_over = {record.hash for record in [records[0], records[3], revocation]}
        assert {row[0] for row in side.local.policy.may_send} == left_over
        assert set(side.machine.tables[0].records("")) == left_over
        assert set(side.machine._adverts.table.records("")) == left_over
        claims = side.local.policy.source.iterate(ADVERTISED)
        assert {row[0] for row in claims} <= left_over  # what was withdrawn is no fact any more
        assert side.idle
    assert left_to_request(left, right) == left_to_request(right, left) == set()
    # A new peer that has heard of nothing is not given what was revoked.
    fresh = participant(1, [], UNLESS)
    interlace(Participant(left.store, Side(index=0, module=UNLESS), SELECTED), fresh, NOW)
    assert stored(fresh) >= {records[0].hash, records[3].hash, revocation.hash}
    assert records[1].hash not in stored(fresh)


# --- what is known of the peer ---


@pytest.mark.req("050-CUR-02", "050-STA-03", "050-CUR-01", "050-CUR-03")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("coarse", [True, False])
def test_a_lost_cursor_costs_a_listing_and_nothing_else(
    kind: str, tmp_path: Path, coarse: bool
) -> None:
    stores: list[RecordStore] = [MemoryStore(), MemoryStore()]
    if kind == "sqlite":
        stores = [SqliteStore(tmp_path / name) for name in "ab"]
    notes = [note(i) for i in range(40)]
    drafts = [note(i, app="drafts") for i in range(40)]  # advertised, and never wanted
    only_notes = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    )
    stores[0].save([*notes, *drafts])

    def meet() -> tuple[Participant, Tap]:
        sides = [
            Participant(
                store,
                Side(index=i, module=only_notes, link=b"k", coarse=coarse),
                SELECTED,
            )
            for i, store in enumerate(stores)
        ]
        tap = Tap()
        interlace(sides[0], sides[1], NOW, tap)
        return sides[1], tap

    everything = {record.hash for record in [*notes, *drafts]}
    first, tap = meet()
    assert {fact[1] for fact in tap.facts("Advertised", 0)} == everything  # all of it is listed
    assert set(first.machine._adverts.table.records("")) == everything
    assert len(result(first).received) == 40
    key = b"k" + str(result(first).plan).encode()
    again, tap = meet()
    assert tap.facts("Advertised", 0) == []
    assert result(again).received == ()
    assert remembered(stores[1], key) == everything
    stores[1].keep_link(key, LinkChange(b"", {}))  # lost
    rebuilt, tap = meet()
    assert set(rebuilt.machine._adverts.table.records("")) == everything
    assert {fact[1] for fact in tap.facts("Advertised", 0)} >= {r.hash for r in drafts}
    assert result(rebuilt).received == ()
    assert tap.records() == []
    assert remembered(stores[1], key) == everything
    # What the peer no longer has leaves the state, also where it was alone in its partition.
    stores[0].forget([drafts[0].hash])
    less, _ = meet()
    assert result(less).received == ()
    assert remembered(stores[1], key) == everything - {drafts[0].hash}
    for store in stores:
        store.close()


@pytest.mark.req("050-STA-03")
def test_what_was_advertised_once_is_no_proof() -> None:
    """What a peer no longer has leaves the state by what the peer says now."""
    refuses = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), Have(Q), Field(Q,'App',_,'grant').\n"
    )
    left = participant(0, [note(1), note(5)], EVERYTHING)
    right = participant(1, [], refuses, link=b"k")
    interlace(left, right, NOW)
    key = b"k" + str(result(left).plan).encode()
    assert remembered(right.store, key) == {note(1).hash, note(5).hash}
    right.store.save([note(9, app="grant")])
    again = Participant(right.store, right.side, SELECTED)
    tap = Tap()
    interlace(participant(0, [note(1)], EVERYTHING), again, NOW, tap)
    assert [fact[1] for fact in tap.facts("MayRequest", 1)] == [note(1).hash]
    assert stored(again) == {note(1).hash, note(9, app="grant").hash}
    assert remembered(right.store, key) == {note(1).hash}


@pytest.mark.req("050-SND-02", "050-CUR-01")
def test_the_first_evaluation_goes_by_what_the_peer_said_last_time() -> None:
    """Tasks are offered to a peer that advertises a note; the second time it is known from the start."""
    shy = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
        "SelectHave(P) :- Have(P), Field(P,'App',_,'tasks'), Advertised(Q,S),"
        " AdvertisedField(Q,S,'App',_,'notes').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(1), note(9, app="tasks")])
    stores[1].save([note(1)])

    def meet() -> tuple[bytes, int]:
        sides = [
            Participant(store, Side(index=i, module=shy, link=b"k"), Exposure(default="everything"))
            for i, store in enumerate(stores)
        ]
        tap = Tap()
        interlace(sides[0], sides[1], NOW, tap)
        first = next(b for b in tap.blocks(0) if b.startswith(b"Advertise"))
        return first, result(sides[0]).loops

    task = note(9, app="tasks").hash.encode()
    first, loops = meet()
    assert task not in first
    assert loops == 3
    first, loops = meet()
    assert task in first
    assert loops == 1
    assert stores[1].has(note(9, app="tasks").hash)


# --- nothing is fetched that is not selected ---


@pytest.mark.req("050-COR-07")
def test_evidence_that_is_not_selected_is_not_fetched() -> None:
    """A rule that needs a grant does not make the grant travel; selecting the grant does."""
    grant = sealed(AUTHORITY, "member", BOB.verifier)
    text = (
        "SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), Granted(V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'),"
        " AdvertisedField(P,S,'Signed-By',_,V), Granted(V).\n"
        "Granted(V) :- Have(G), Field(G,'App',_,'member'), Field(G,'Name',_,V).\n"
    )
    ding = sealed(BOB, "ding", "links/1")
    needs = module_from_text(text)
    left, right = participant(0, [grant, ding], needs), participant(1, [], needs)
    left = Participant(left.store, left.side, Exposure(default="everything"))
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert stored(right) == set()
    assert grant.hash.encode() not in tap.bytes()
    assert tap.facts("MayRequest", 1) == []
    selects = module_from_text(
        text + "SelectHave(G) :- Have(G), Field(G,'App',_,'member').\n"
        "SelectAdvertised(G,S) :- Advertised(G,S), AdvertisedField(G,S,'App',_,'member').\n"
    )
    left, right = participant(0, [grant, ding], selects), participant(1, [], selects)
    interlace(left, right, NOW)
    assert stored(right) == {grant.hash, ding.hash}


# --- peers in one process ---


def both_ways(
    make: Callable[[], tuple[Participant, Participant]],
) -> tuple[tuple[Participant, Participant], tuple[Participant, Participant]]:
    """Run the same exchange as text and directly."""
    text = make()
    interlace(*text, NOW)
    direct = make()
    heard = directly(*direct)
    assert not any(
        isinstance(given, m.PeerFacts | m.PeerRecord) for side in heard for given in side
    )
    assert any(isinstance(given, m.PeerTuples) for side in heard for given in side)
    return text, direct


@pytest.mark.req("050-BLK-07", "050-PRF-01", "050-REC-02")
@pytest.mark.parametrize("size", [0, 3, 60])
@pytest.mark.parametrize("module", [NOTES, EVERYTHING, UNLESS], ids=["notes", "all", "unless"])
def test_tuples_mean_what_text_means(size: int, module: PolicyModule) -> None:
    def make() -> tuple[Participant, Participant]:
        mine = [note(i) for i in range(size)]
        theirs = [note(i, app="notes/x") for i in range(size // 2, size * 2)]
        return participant(0, mine, module), participant(1, theirs, module)

    text, direct = both_ways(make)
    for one, other in zip(text, direct, strict=True):
        assert stored(one) == stored(other)
        assert one.told == other.told
        assert isinstance(one.told[-1], m.Closed)
        adverts = one.machine._adverts.table, other.machine._adverts.table
        assert adverts[0].check == adverts[1].check


@pytest.mark.req("050-PRF-02", "050-BLK-07")
@pytest.mark.parametrize("exposure", [Exposure(), SELECTED])
def test_a_peer_in_this_process_sees_no_more_than_any_other(exposure: Exposure) -> None:
    """Its rules ask for a note only if a diary is here; the diary is not for it to know of."""
    spying = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), Diary('kept').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Diary('kept') :- Have(D), Field(D,'App',_,'diary').\n"
    )
    records = [note(1), note(2, app="diary")]

    def make(shown: Exposure = exposure) -> tuple[Participant, Participant]:
        left, right = participant(0, records, NOTES), participant(1, [], spying)
        return Participant(left.store, left.side, shown), right

    for pair in both_ways(make):
        assert stored(pair[1]) == set()
        assert pair[0].local.policy is not None
        assert note(2, app="diary").hash not in pair[0].local.policy.visible
    for pair in both_ways(lambda: make(Exposure(default="everything"))):
        assert stored(pair[1]) == {note(1).hash}  # the rules do what they say where they may look


@pytest.mark.req("050-PRF-03")
@pytest.mark.parametrize("module", [NOTES, UNLESS, FEW], ids=["notes", "unless", "few"])
def test_facts_that_nobody_asks_for_are_not_made_and_nothing_changes(module: PolicyModule) -> None:
    mine, theirs = [note(i) for i in range(6)], [note(i) for i in range(4, 9)]
    left, right = participant(0, mine, module), participant(1, theirs, module)
    interlace(left, right, NOW)
    for side in (left, right):
        policy = side.local.policy
        assert policy is not None
        kept = {record.hash: record for record in map(side.store.load, sorted(stored(side))) if record}  # type: ignore[arg-type]  # fmt: skip
        whole = LocalFacts(fact for record in kept.values() for fact in facts(record))
        for predicate in policy.source.predicates():
            if predicate.name not in {"Have", "Field", "RecordLink"}:
                for row in policy.source.iterate(predicate):
                    whole.add((predicate.name, *row))
        lazy = sum(policy.source.count(predicate) for predicate in policy.source.predicates())
        assert lazy < sum(whole.count(predicate) for predicate in whole.predicates())
        full = ExchangePolicy(policy.plan, side.side.index, whole, side.local.exposure)
        assert set(full.may_send) == set(policy.may_send)
        assert set(full.may_request) == set(policy.may_request)
    model = Model((MemoryStore(), MemoryStore()), (left.side, right.side), (SELECTED, SELECTED))
    model.stores[0].save(mine)
    model.stores[1].save(theirs)
    assert naive(model, NOW, 0) == (stored(left), stored(right))


# --- wrappers ---


@pytest.mark.req("050-OPS-02", "050-EX-02", "050-OPS-01")
@pytest.mark.parametrize("app", ["notes", "spam"])
def test_storing_is_a_selector_of_exactly_these_records(app: str) -> None:
    """A wrapper selects what it was given; the other side takes it by its own constraints, or not."""
    given, other = note(1, app=app), note(2)
    wrapper = participant(1, [given, other], hashes([given.hash]))
    server = participant(0, [note(3)], NOTES)
    tap = Tap()
    interlace(server, wrapper, NOW, tap)
    assert wrapper.local.policy is not None
    assert {row[0] for row in wrapper.local.policy._local.rows(SELECT_HAVE)} == {given.hash}
    assert other.hash.encode() not in tap.bytes()
    if app == "notes":
        assert stored(server) == {given.hash, note(3).hash}
        assert tap.facts("MayRequest") == [("MayRequest", given.hash)]
        assert tap.records() == [given.raw]
        assert result(server).received == (given.hash,)
    else:
        assert stored(server) == {note(3).hash}
        assert tap.facts("MayRequest") == []
        assert tap.records() == []
    assert stored(wrapper) == {given.hash, other.hash}  # nothing else came back
    assert tap.predicates() <= PREDICATES.keys()


@pytest.mark.req("050-OPS-02")
def test_a_wrapper_narrows_what_its_side_selects() -> None:
    """Its rules are part of the one selector that set-up sends; nothing is added afterwards."""
    both = all_of(NOTES, hashes([note(1).hash, note(5, group="private").hash]))
    left = participant(0, [note(1), note(2), note(5, group="private")], both)
    right = participant(1, [], EVERYTHING)
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert stored(right) == {note(1).hash}
    modules = [c.content for c in tap.by(0) if isinstance(c, m.PeerModule)]
    assert modules == [both.text.encode()]
    assert len(tap.facts("ExchangeOperand", 0)) == 1


@pytest.mark.req("050-OPS-03")
def test_who_listens_makes_no_difference_to_what_crosses() -> None:
    """Events and journals are for this process: the same bytes cross, and stores know nothing."""
    said = []
    for listens in (False, True):
        left, right = participant(0, [note(1), note(2)]), participant(1, [note(3)])
        lines: list[str] = []
        if listens:
            right = Participant(right.store, right.side, SELECTED, journal=Journal(lines.append))
        tap = Tap()
        pair = Pair(left, right, tap)
        pair.start(NOW)
        while not pair.quiet:
            pair.step(NOW)
            if listens:
                right.told.clear()  # read by an application
        said.append(tap.crossed)
        assert bool(lines) is listens
        assert stored(right) == {note(i).hash for i in (1, 2, 3)}
        for event in ("RecordSaved", "FixedPoint", "Closed"):
            assert event.encode() not in tap.bytes()
    assert said[0] == said[1]


# --- the worked examples ---


@pytest.mark.req("050-EX-01", "050-CUR-02")
def test_an_empty_app_is_filled() -> None:
    def link(number: int, group: str = "u", app: str = "ding", path: str = "links/") -> Record:
        return build_plex(
            group=group, app=app, name=f"{path}{number}", tai=f"{number:010d}:{0:09d}"
        )

    links = [link(number) for number in range(1, 6)]
    others = [
        link(1, group="v"),
        link(1, app="dong"),
        link(1, path="notes/"),
        link(1, path="links"),
    ]
    chosen = selector("//u//ding//links/")
    server, app = MemoryStore(), MemoryStore()
    server.save([*links, *others])
    sides = []
    for index, (store, key, peer) in enumerate(((server, AUTHORITY, BOB), (app, BOB, AUTHORITY))):
        side = Side(index=index, module=chosen, verifier=key.verifier, peer_verifier=peer.verifier)
        sides.append(Participant(store, side, SELECTED))
    tap = Tap()
    interlace(sides[0], sides[1], NOW, tap)
    names = {record.hash for record in links}
    assert {fact[1] for fact in tap.facts("Advertised", 0)} == names
    assert {fact[1] for fact in tap.facts("MayRequest", 1)} == names
    assert stored(sides[1]) == set(result(sides[1]).received) == names
    found = result(sides[1])
    assert found.cursor_updated
    assert found.peer == AUTHORITY.verifier
    assert found.link is not None
    assert remembered(app, found.link) == names


@pytest.mark.req("050-EX-03", "050-COR-07")
def test_evidence_comes_first_and_what_it_allows_after_it() -> None:
    member = sealed(AUTHORITY, "member", BOB.verifier)
    dings = [sealed(BOB, "ding", f"links/{i}") for i in range(3)]
    stranger = sealed(SigningKey(b"s" * 32), "ding", "links/9")
    left = participant(0, [member, *dings, stranger], MEMBERS)
    right = participant(1, [], MEMBERS)
    tap = Tap()
    interlace(left, right, NOW, tap)
    asked = [b for b in tap.blocks(1) if b.startswith(b"MayRequest(")]
    assert asked[0] == f"MayRequest('{member.hash}')\n".encode()
    assert sorted(asked[1].decode().split("'")[1::2]) == sorted(ding.hash for ding in dings)
    assert len(asked) == 2
    assert result(right).loops == 3  # the third finds that there is no more
    assert stored(right) == {member.hash, *(ding.hash for ding in dings)}
    assert left.machine.phase is Phase.CLOSED


@pytest.mark.req("050-EX-03")
def test_rules_of_a_peer_find_only_evidence_that_is_shown_to_it() -> None:
    """The members are here, but a peer that may not look them up is given nothing by them."""
    member = sealed(AUTHORITY, "member", BOB.verifier)
    ding = sealed(BOB, "ding", "links/1")
    for shown, count in (("ding", 0), ("member", 1)):
        rule = f"AllowQueryRecord(V,P) :- Have(P), Field(P,'App',_,'{shown}'), Peer(V).\n"
        store = MemoryStore()
        store.save([member, ding])
        side = Side(index=0, module=MEMBERS, peer_verifier=BOB.verifier)
        left = Participant(store, side, Exposure((module_from_text(rule, Facet.EXPOSE),)))
        right = participant(1, [], MEMBERS, verifier=BOB.verifier)
        interlace(left, right, NOW)
        assert left.local.policy is not None
        assert len(left.local.policy.visible) == 1
        assert len(stored(right)) == count  # members only: what they signed is not shown
