"""Where records are decided on apart, nothing is loaded, and only what changed is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import forge
import pytest
from exchanges import AUTHORITY, BOB, EVE, NOTES, note
from links import EVERYTHING, SELECTED, Meeting, Stores, held, later, two_stores
from small_room import room

from lace.answering.warm import WarmLinks
from lace.codes import Code
from lace.crypto import SigningKey
from lace.errors import LimitExceeded
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.limits import Limits
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.one_by_one import OneByOne
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal
from lace.recordstore.memory import MemorySnapshot
from lace.recordstore.sqlite_snapshot import SqliteSnapshot
from lace.selectors import with_support

BEGUN = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), StartTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
DUE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
ROOM = room("//notes-demo//notes//", authority=AUTHORITY.verifier)
#: Multiplies the fields of a record: each more of them is paid for by those who look.
COSTLY = module_from_text(
    "SelectHave(P) :- Have(P), Pair(P,A,B), A != B.\n"
    "Pair(P,A,B) :- Field(P,_,_,A), Field(P,_,_,B).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Offer(P,S,A,B), A != B.\n"
    "Offer(P,S,A,B) :- AdvertisedField(P,S,_,_,A), AdvertisedField(P,S,_,_,B).\n"
)


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with two_stores(request.param, tmp_path) as made:
        yield made


class Looked:
    """What is read of the records of stores: names that are looked for, and going through all."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.records: set[str] = set()
        self.everything = 0
        for kind in (MemorySnapshot, SqliteSnapshot):
            self._watch(patch, kind)

    def _watch(
        self, patch: pytest.MonkeyPatch, kind: type[MemorySnapshot | SqliteSnapshot]
    ) -> None:
        records, fields, select = kind.records, kind.fields, kind.select

        def looked_for(snapshot: MemorySnapshot, hashes: Sequence[str]) -> Iterator[Record]:
            self.records.update(hashes)
            return records(snapshot, hashes)  # type: ignore[arg-type]

        def gone_through(snapshot: MemorySnapshot, *given: object) -> Iterator[object]:
            self.everything += 1
            return fields(snapshot, *given)  # type: ignore[arg-type]

        def selected(snapshot: MemorySnapshot, *given: object) -> Iterator[object]:
            self.everything += 1
            return select(snapshot, *given)  # type: ignore[arg-type]

        patch.setattr(kind, "records", looked_for)
        patch.setattr(kind, "fields", gone_through)
        patch.setattr(kind, "select", selected)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("deed", ["save", "forget", "save what is not selected"])
def test_after_a_restart_only_what_changed_is_looked_at(
    stores: Stores, side: int, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in stores:
        store.save([note(i) for i in range(100)])
    Meeting(stores).end()
    changed = {"save": note(500), "forget": note(7)}.get(deed, note(500, app="diary"))
    if deed == "forget":
        stores[side].forget([changed.hash])
    else:
        stores[side].save([changed])
    looked = Looked(monkeypatch)
    again = Meeting(stores).end()
    assert stores[1 - side].has(changed.hash) == (changed.hash != note(500, app="diary").hash)
    assert all(made.local.policy is None for made in again.pair.sides)
    assert looked.everything == 0
    assert len(looked.records) < 10  # with neighbours that are listed together with it


def test_while_an_exchange_is_open_only_what_changes_is_looked_at(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores[0].save([note(i) for i in range(50)])
    meeting = Meeting(stores, stays=True)
    looked = Looked(monkeypatch)
    stores[1].save([note(500)])
    meeting.wake()
    stores[0].forget([note(3).hash])
    meeting.wake()
    assert held(stores[0]) == held(stores[1]) - {note(3).hash}
    assert looked.everything == 0
    assert len(looked.records) < 10
    meeting.end()


def test_at_first_everything_is_gone_through_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in stores:
        store.save([note(i) for i in range(100)])
    looked = Looked(monkeypatch)
    Meeting(stores).end()
    assert looked.everything == len(stores)
    assert looked.records == set()


@pytest.mark.parametrize("module", [BEGUN, DUE], ids=["the beginning", "moving time"])
def test_other_runtime_facts_decide_on_everything_anew(
    stores: Stores, module: PolicyModule
) -> None:
    soon, late = note(1_700_000_050), note(1_700_000_500)
    stores[0].save([note(1), soon, late])
    for _ in range(2):
        Meeting(stores, (module, module)).end()
        assert held(stores[1]) == {note(1).hash}
    Meeting(stores, (module, module), now=later(100)).end()
    assert held(stores[1]) == {note(1).hash, soon.hash}
    # Time that is set back takes back what was offered, and nothing that was had.
    back = Meeting(stores, (module, module)).end()
    assert back.advertised(0) == {note(1).hash}
    assert held(stores[1]) == {note(1).hash, soon.hash}
    Meeting(stores, (module, module), now=later(1000)).end()
    assert held(stores[1]) == held(stores[0])


@pytest.mark.parametrize(
    ("modules", "stays", "apart"),
    [
        ((NOTES, NOTES), False, True),
        ((NOTES, EVERYTHING), True, True),
        ((NOTES, ROOM), False, True),
        ((ROOM, ROOM), True, True),
        ((NOTES, with_support(NOTES)), False, False),
        ((DUE, DUE), False, True),
        ((DUE, DUE), True, False),  # to follow the time costs less
    ],
)
def test_a_policy_is_held_only_where_it_is_needed(
    stores: Stores, modules: tuple[PolicyModule, PolicyModule], stays: bool, apart: bool
) -> None:
    stores[0].save([note(i) for i in range(3)])
    meeting = Meeting(stores, modules, stays=stays)
    assert [side.local.policy is None for side in meeting.pair.sides] == [apart, apart]
    assert meeting.worked == [True, True]
    meeting.end()


# --- guards ---


def grant(member: SigningKey, number: int = 0) -> Record:
    plex = build_plex(
        group="notes-demo", app="notes/member", name=f"{number}", tai=f"{1:010d}:{0:09d}",
        extras=[("Member", member.verifier)],
    )  # fmt: skip
    return seal(plex, AUTHORITY, aux=forge.AUX)


def signed(member: SigningKey, number: int) -> Record:
    plex = build_plex(
        group="notes-demo", app="notes", name=f"{number}", tai=f"{number:010d}:{0:09d}"
    )
    return seal(plex, member, aux=forge.AUX)


@pytest.mark.parametrize("side", [0, 1])
def test_after_a_restart_a_room_looks_at_what_changed_and_at_its_grants(
    stores: Stores, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for store in stores:
        store.save([grant(BOB), *(signed(BOB, i) for i in range(60))])
    Meeting(stores, (ROOM, ROOM)).end()
    stores[side].save([signed(BOB, 500), signed(EVE, 501)])
    looked = Looked(monkeypatch)
    again = Meeting(stores, (ROOM, ROOM)).end()
    assert stores[1 - side].has(signed(BOB, 500).hash)
    assert not stores[1 - side].has(signed(EVE, 501).hash)
    assert all(made.local.policy is None for made in again.pair.sides)
    assert looked.everything == 0
    assert len(looked.records) < 12
    assert Meeting(stores, (ROOM, ROOM)).end().worked == [False, False]


@pytest.mark.parametrize("stays", [True, False])
def test_another_grant_decides_on_everything_anew(stores: Stores, stays: bool) -> None:
    stores[0].save([grant(BOB), signed(BOB, 1), *(signed(EVE, i) for i in range(2, 9))])
    meeting = Meeting(stores, (ROOM, ROOM), stays=stays)
    assert held(stores[1]) == {grant(BOB).hash, signed(BOB, 1).hash}
    if not stays:
        meeting.end()
    stores[1].save([grant(EVE)])  # what the other one has to offer is known here by its words
    meeting = meeting.wake() if stays else Meeting(stores, (ROOM, ROOM))
    assert held(stores[1]) == held(stores[0])
    assert stores[1].count() == 10
    stores[0].forget([grant(EVE).hash])
    if stays:
        meeting.wake()
        assert meeting.advertised(0) == {grant(BOB).hash, signed(BOB, 1).hash}
    meeting.end()


@pytest.mark.parametrize(("most", "apart"), [(2, False), (3, True)])
@pytest.mark.parametrize("is_warm", [True, False])
def test_many_guards_are_not_looked_at_again_and_again(
    stores: Stores, most: int, apart: bool, is_warm: bool
) -> None:
    warm = (WarmLinks(), WarmLinks()) if is_warm else None
    parameters = Parameters(most_guards=most)
    stores[0].save([*(grant(BOB, i) for i in range(3)), signed(BOB, 1)])
    for number in range(2, 5):
        meeting = Meeting(stores, (ROOM, ROOM), parameters=parameters, warm=warm).end()
        assert held(stores[1]) == held(stores[0])
        assert (meeting.pair.left.local.policy is None) == apart
        stores[0].save([signed(BOB, number)])


def test_guards_that_a_peer_cannot_see_do_not_count_for_that(stores: Stores) -> None:
    stores[0].save([*(grant(BOB, i) for i in range(9)), signed(BOB, 1)])
    hides = Exposure(), SELECTED
    parameters = Parameters(most_guards=3)
    meeting = Meeting(stores, (ROOM, NOTES), parameters=parameters, exposure=hides).end()
    assert meeting.pair.left.local.policy is None


@pytest.mark.parametrize("stays", [True, False])
def test_own_rules_look_at_guards_that_a_peer_cannot_see(stores: Stores, stays: bool) -> None:
    unless_closed = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), not Closed().\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), not Closed().\n"
        "Closed() :- Field(Q,'App',_,'closed').\n"
    )
    shows = module_from_text(
        "AllowQueryRecord(V,P) :- Have(P), Field(P,'App',_,'notes'), Peer(V).\n", Facet.EXPOSE
    )
    closed = note(1, app="closed")
    stores[0].save([closed, *(note(i) for i in range(5))])
    stores[1].save([note(9)])
    modules, exposure = (unless_closed, NOTES), (Exposure((shows,)), SELECTED)
    meeting = Meeting(stores, modules, exposure=exposure, stays=stays)
    assert meeting.pair.left.local.policy is None
    assert held(stores[1]) == {note(9).hash}
    assert not stores[0].has(note(9).hash)
    stores[0].forget([closed.hash])
    if stays:
        meeting.wake()
    else:
        meeting.end()
        meeting = Meeting(stores, modules, exposure=exposure)
    assert held(stores[0]) == held(stores[1]) == {note(i).hash for i in (0, 1, 2, 3, 4, 9)}
    meeting.end()


# --- limits count what the peer may see (L62) ---


def plan_of(mine: PolicyModule, theirs: PolicyModule) -> ExchangePlan:
    return ExchangePlan(label_operands(Party(index=0, module=mine), Party(index=1, module=theirs)))


def expose(body: str) -> Exposure:
    text = f"AllowQueryRecord(V,P) :- {body}, StartTAI(V).\nAllowQueryRecord(V,P) :- {body}, Peer(V).\n"
    return Exposure((module_from_text(text, Facet.EXPOSE),))


@pytest.mark.parametrize("default", ["selected", "module"])
def test_a_peer_cannot_count_hidden_records_by_its_limits(default: str) -> None:
    """Hidden ones stand between the others, before them and after them."""
    plan = plan_of(NOTES, COSTLY)
    viewer = plan.operands[1].viewer
    exposure = SELECTED if default == "selected" else expose("Have(P), Field(P,'App',_,'notes')")
    runtime = (("Peer", str(viewer)),)

    def outcome(shown: int, hidden: int, work: int) -> str | int:
        rules = OneByOne(plan, 0, exposure, Limits(work=work), at_once=4)
        secrets = [note(i, app="diary") for i in range(hidden)]
        public = [note(i) for i in range(shown)]
        mixed = [
            record for i in range(hidden + 1) for record in (secrets[i : i + 1] + public[i : i + 1])
        ]
        mixed += public[hidden + 1 :]
        entries = [rules.entry(record, None) for record in mixed]
        batches = [entries[i : i + 3] for i in range(0, len(entries), 3)]
        try:
            return sum(map(len, rules.sendable(batches, runtime)))
        except LimitExceeded as error:
            return error.limit

    for work in (10, 100, 500, 1000, 2000, 10_000):
        for shown in (1, 3, 4, 5, 9):
            alone = outcome(shown, 0, work)
            assert alone in {shown, "work", "derived_facts"}
            assert [outcome(shown, hidden, work) for hidden in (1, 2, 7, 20)] == [alone] * 4
    assert {outcome(5, 0, 10), outcome(5, 0, 10_000)} == {"work", 5}


def tagged(count: int, group: str = "notes-demo") -> Record:
    extras = [("Tag", f"{i}") for i in range(count)]
    return build_plex(group=group, app="x", name="n", tai=f"{1:010d}:{0:09d}", extras=extras)


def test_what_is_here_makes_no_offer_cheaper(tmp_path: Path) -> None:
    """Else a peer could find out by a costly offer whether a record is here."""
    offers = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), Offer(P,S,A,B), A != B.\n"
        "Offer(P,S,A,B) :- AdvertisedField(P,S,_,_,A), AdvertisedField(P,S,_,_,B).\n"
    )
    record = tagged(60)
    ended: dict[bool, list[object]] = {True: [], False: []}
    for work in (4000, 12_000, 1 << 20):
        for is_here in (True, False):
            with two_stores("memory", tmp_path) as stores:
                stores[0].save([record])
                if is_here:
                    stores[1].save([record])
                hides = Exposure(default="everything"), Exposure()
                meeting = Meeting(
                    stores, (offers, offers), limits=Limits(work=work), exposure=hides
                )
                told = meeting.pair.sides[1].told[-1]
                ended[is_here].append(told.code if isinstance(told, m.Aborted) else None)
    assert ended[True] == ended[False]
    assert set(ended[True]) == {None, Code.LIMIT_EXCEEDED}


def test_what_a_peer_advertises_has_a_limit(stores: Stores) -> None:
    stores[0].save([note(i) for i in range(20)])
    for most, aborts in ((19, True), (60, False)):
        meeting = Meeting(stores, (EVERYTHING, EVERYTHING), limits=Limits(advertised_facts=most))
        meeting.close()
        told = meeting.pair.sides[1].told[-1]
        assert isinstance(told, m.Aborted) == aborts
        if isinstance(told, m.Aborted):
            assert "advertised_facts" in told.detail
