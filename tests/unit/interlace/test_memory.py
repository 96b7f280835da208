"""What is known of a link between exchanges: it saves work, and makes no other difference."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import examples
from exchanges import MEMBERS, NOTES, NOW, by_partitions, note, stored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from links import (
    EVERYTHING,
    GRANTED,
    KEYS,
    TAG,
    Meeting,
    Stores,
    held,
    left_over,
    link_of,
    two_stores,
)

from lace import b64a
from lace.answering.following import Position
from lace.answering.memory import Known, basis_of, change_of, read_known
from lace.answering.warm import WarmLinks
from lace.codes import Code
from lace.crypto.native import digest
from lace.errors import StoreError
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import Facet, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import LinkChange, RecordStore, Snapshot
from lace.tai import Tai

SHY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'tasks'), Advertised(Q,S),"
    " AdvertisedField(Q,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
PAIRED = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Advertised(Q,S), AdvertisedField(Q,S,'App',_,'tasks').\n"
)
NEVER_WITH_TASKS = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), not Busy().\n"
    "Busy() :- Have(P), Field(P,'App',_,'tasks').\n"
)
DUE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: Cannot be decided on record by record, so that a policy is held for it.
OPEN = module_from_text(
    "SelectHave(P) :- Have(P), Open().\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "Open() :- Have(P), Field(P,'App',_,A), A != 'closed'.\n"
)
NOTES_ALONE = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
)
SHOWN = Exposure(default="everything")


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with two_stores(request.param, tmp_path) as made:
        yield made


@pytest.mark.req("050-CUR-01", "050-CUR-03")
def test_while_nothing_changed_nothing_is_looked_at(
    stores: Stores,
) -> None:
    stores[0].save([note(i) for i in range(20)])
    first = Meeting(stores).end()
    assert first.worked == [True, True]
    again = Meeting(stores).end()
    assert again.worked == [False, False]
    summaries = [b for b in again.said if b.startswith(b"Advertise")]
    assert [b.count(b"\n") for b in summaries] == [1, 1]
    assert stored(again.pair.left) == stored(again.pair.right)
    assert Meeting(stores).end().worked == [False, False]


@pytest.mark.parametrize("side", [0, 1])
def test_a_new_record_on_either_side_is_exchanged(stores: Stores, side: int) -> None:
    stores[0].save([note(i) for i in range(20)])
    Meeting(stores).end()
    stores[side].save([note(99)])
    again = Meeting(stores).end()
    assert again.worked == [True, True]
    assert stores[0].has(note(99).hash)
    assert stores[1].has(note(99).hash)
    assert Meeting(stores).end().worked == [False, False]


@pytest.mark.parametrize("side", [0, 1])
def test_what_was_forgotten_is_had_again(stores: Stores, side: int) -> None:
    stores[0].save([note(i) for i in range(20)])
    Meeting(stores).end()
    stores[side].forget([note(3).hash])
    Meeting(stores).end()
    assert stores[side].has(note(3).hash)


def test_what_was_forgotten_during_an_exchange_is_had_again_by_the_next(
    stores: Stores,
) -> None:
    warm = WarmLinks(), WarmLinks()
    stores[0].save([note(i) for i in range(20)])
    meeting = Meeting(stores, stays=True, warm=warm)
    stores[1].forget([note(3).hash])
    meeting.pair.wake(NOW)
    meeting.end()
    assert not stores[1].has(note(3).hash)
    Meeting(stores, warm=warm).end()
    assert stores[1].has(note(3).hash)


def test_few_records_or_none(stores: Stores) -> None:
    Meeting(stores).end()
    assert Meeting(stores).end().worked == [False, False]
    stores[1].save([note(1)])
    Meeting(stores).end()
    assert stores[0].has(note(1).hash)
    assert Meeting(stores).end().worked == [False, False]


def test_other_rules_are_another_matter(stores: Stores) -> None:
    stores[0].save([note(i) for i in range(20)])
    Meeting(stores).end()
    assert Meeting(stores, (EVERYTHING, NOTES)).end().worked == [True, True]
    assert Meeting(stores).end().worked == [False, False]  # each plan has a link of its own
    hidden = module_from_text(
        f"AllowQueryRecord('{KEYS[0].verifier}',P) :- Have(P), Field(P,'Name',_,'n/1').\n",
        Facet.EXPOSE,
    )
    assert Meeting(stores, exposure=Exposure((hidden,), default="selected")).end().worked == [
        True,
        True,
    ]
    assert Meeting(stores, coarse=False).end().worked == [True, True]


def test_time_that_rules_look_at_is_looked_at(stores: Stores) -> None:
    stores[0].save([note(1), note(1_700_000_500)])
    Meeting(stores, (DUE, DUE)).end()
    assert not stores[1].has(note(1_700_000_500).hash)
    Meeting(stores, (DUE, DUE), now=Tai("1700001000:000000000")).end()
    assert stores[1].has(note(1_700_000_500).hash)


def test_what_cannot_be_read_is_as_if_it_were_lost(
    stores: Stores,
) -> None:
    stores[0].save([note(i) for i in range(20)])
    first = Meeting(stores).end()
    link = next(e.link for e in first.asked if isinstance(e, m.Remember) and e.link)
    for text in (b"", b"{}", b"[]", b"\xff", b'{"own": [1, "x"]}'):
        stores[0].keep_link(link, LinkChange(text, {}))
        assert Meeting(stores).end().worked == [True, False]
        assert Meeting(stores).end().worked == [False, False]


def test_what_is_kept_in_another_form_is_as_if_it_were_lost(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digests may mean something else: they would be believed, and never be right again."""
    stores[0].save([note(i) for i in range(20)])
    with monkeypatch.context() as earlier:
        earlier.setattr("lace.answering.parts._FORM", b"lace-link/2")
        Meeting(stores).end()
        assert Meeting(stores).end().worked == [False, False]
    assert Meeting(stores).end().worked == [True, True]
    assert Meeting(stores).end().worked == [False, False]


def test_an_earlier_version_makes_nothing_of_what_is_kept(stores: Stores) -> None:
    """It reads a head as JSON, and would take the digests for its own."""
    stores[0].save([note(i) for i in range(20)])
    first = Meeting(stores).end()
    link = next(e.link for e in first.asked if isinstance(e, m.Remember) and e.link)
    kept = stores[0].link(link)
    assert kept is not None
    with pytest.raises(ValueError, match=r"Extra data|decode"):
        json.loads(kept.head)
    kept.close()


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, by_partitions(DEFAULT_LIMITS)])
def test_what_is_forgotten_while_a_side_looks_is_not_advertised(
    stores: Stores, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table that is told, and the records that are read for it, are of one moment."""
    stores[0].save([note(i) for i in range(20)])
    first = Meeting(stores, limits=limits).end()
    link = next(e.link for e in first.asked if isinstance(e, m.Remember) and e.link)
    stores[1].keep_link(link, LinkChange(b"", {}))  # so that it asks for what it does not know
    stores[1].forget([note(i).hash for i in range(20)])
    look = stores[0].snapshot

    def late() -> Snapshot:
        stores[0].forget([note(3).hash])
        return look()

    monkeypatch.setattr(stores[0], "snapshot", late)
    last = Meeting(stores, limits=limits)
    assert [type(side.ended) for side in last.pair.sides] == [m.Closed, m.Closed]
    assert held(stores[1]) == {note(i).hash for i in range(20) if i != 3}


def test_what_is_damaged_ends_one_exchange_and_is_forgotten(stores: Stores) -> None:
    stores[0].save([note(i) for i in range(20)])
    first = Meeting(stores).end()
    link = next(e.link for e in first.asked if isinstance(e, m.Remember) and e.link)
    kept = stores[0].link(link)
    assert kept is not None
    parts = {name: data[:-1] for name, data in kept.parts.items()}
    kept.close()
    stores[0].keep_link(link, LinkChange(kept.head, parts, base=kept.head))
    assert Meeting(stores).end().worked == [False, False]  # nobody looked at it
    stores[0].save([note(60)])
    stores[0].forget([note(3).hash])  # so that its partition is looked at
    meeting = Meeting(stores)
    meeting.close()
    last = meeting.pair.sides[0].ended
    assert isinstance(last, m.Aborted)
    assert (last.code, last.blame) == (Code.STORE_LINK, m.Blame.LOCAL)
    Meeting(stores).end()
    assert held(stores[0]) == held(stores[1]) == {note(i).hash for i in (*range(20), 60)}


def test_what_is_found_damaged_while_the_peer_is_busy_ends_one_exchange_too(stores: Stores) -> None:
    """What was sent is looked up in the peer's table before the peer says that it has it."""
    busy = Parameters(foresee_from=1, standard_prefix=1)
    modules = NOTES_ALONE, EVERYTHING
    stores[1].save([note(i, "tasks") for i in range(100)])  # shown, and not asked for
    first = Meeting(stores, modules, exposure=SHOWN, parameters=busy).end()
    link = next(e.link for e in first.asked if isinstance(e, m.Remember) and e.link)
    kept = stores[0].link(link)
    assert kept is not None
    parts = {n: data + b"x" if n.startswith(b"p") else data for n, data in kept.parts.items()}
    kept.close()
    stores[0].keep_link(link, LinkChange(kept.head, parts, base=kept.head))
    stores[0].save([note(i) for i in range(20)])
    meeting = Meeting(stores, modules, exposure=SHOWN, parameters=busy)
    meeting.close()
    last = meeting.pair.sides[0].ended
    assert isinstance(last, m.Aborted)
    assert (last.code, last.blame) == (Code.STORE_LINK, m.Blame.LOCAL)
    Meeting(stores, modules, exposure=SHOWN, parameters=busy).end()
    assert held(stores[1]) >= held(stores[0]) == {note(i).hash for i in range(20)}
    assert link_of(stores[0], link) is not None


def test_no_copy_of_a_whole_table_is_made_to_keep_it(tmp_path: Path) -> None:
    """The table itself is nearly all that an exchange of many records takes of memory."""
    own, size = Partitions(2), 60_000
    names = [f"P.{b64a.encode(digest(b'%d' % i))}.H3" for i in range(size)]
    own.put({name: digest(name.encode()) * 2 for name in names})
    new = Known(b"", Position(1, 1), b"", m.LinkState(own, own.expected(), frozenset()), {})
    with SqliteStore(tmp_path / "x.lace") as store:
        tracemalloc.start()
        try:
            _, change = change_of(new, None)
            store.keep_link(b"x", change)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < own.memory
        kept = store.link(b"x")
        assert kept is not None
        known = read_known(kept, 2)
        assert known is not None
        assert known.state.own.check == own.check
        assert all(known.state.own.run(i) == own.run(i) for i in range(0, 4096, 97))
        assert kept.size > own.memory
        kept.close()


@pytest.mark.usefixtures("_together")
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=st.lists(st.lists(st.integers(0, 60), max_size=5), max_size=5), cut=st.booleans())
def test_a_table_that_was_kept_is_the_table_that_it_was(edits: list[list[int]], cut: bool) -> None:
    """Whatever was looked at in between, and however often it was kept."""
    store = MemoryStore()
    own = Partitions(2, standard=1)
    own.put({note(i).hash: digest(b"%d" % i) * 2 for i in range(40)})
    before: Known | None = None
    for round_ in edits:
        for i in round_:
            if note(i).hash in own:
                own.remove([note(i).hash])
            else:
                own.put({note(i).hash: digest(b"%d" % i) * 2})
        peers = own.expected()
        state = m.LinkState(own.copy(), peers, frozenset())
        new = Known(b"", Position(1, 1), b"", state, {})
        before, change = change_of(new, before)
        store.keep_link(b"x", change)
        kept = store.link(b"x")
        assert kept is not None
        known = read_known(kept, 1)
        assert known is not None
        assert known.state.own.check == own.check
        fresh = Partitions(2, standard=1)
        fresh.put({r: own.find(r) or b"" for r in own.records("")})
        assert fresh.check == own.check
        if cut:
            before, own = known, known.state.own.copy()
        assert list(known.state.own.records("")) == list(fresh.records(""))
        assert all(known.state.own.run(i) == fresh.run(i) for i in range(64))
        assert list(known.state.own.summaries(1)) == list(fresh.summaries(1))


@pytest.fixture(params=[0, 300, 1 << 15])
def _together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of partitions are kept whole, or in parts, or both, by how large they are."""
    monkeypatch.setattr("lace.answering.parts._TOGETHER", request.param)


def kept_of(store: RecordStore, link: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the head and the parts that a store keeps for a link."""
    kept = store.link(link)
    assert kept is not None
    head, parts = kept.head, dict(kept.parts.items())
    kept.close()
    return head, parts


DAMAGE = st.one_of(
    st.just("gone"), st.just("empty"), st.just("older"), st.just("another"), st.integers(0, 10**6)
)


@pytest.mark.usefixtures("_together")
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    side=st.integers(0, 1),
    place=st.integers(0, 10**6),
    damage=DAMAGE,
    edits=st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 40)), max_size=4),
    grants=st.booleans(),
)
def test_whatever_is_damaged_is_never_believed(
    side: int, place: int, damage: str | int, edits: list[tuple[int, bool, int]], grants: bool
) -> None:
    """At most one exchange ends; the next ones have the outcome of exchanges without memory."""
    modules, small = (GRANTED, EVERYTHING), Parameters(standard_prefix=1)
    met, plain = (MemoryStore(), MemoryStore()), (MemoryStore(), MemoryStore())

    def meet(stores: Stores, *, remembers: bool = True) -> Meeting:
        return Meeting(stores, modules, exposure=SHOWN, parameters=small, remembers=remembers)

    for stores in (met, plain):
        stores[0].save([note(i) for i in range(20)])
        stores[1].save([note(i, extras=TAG) for i in range(20, 40)])  # not asked for yet
    first = meet(met).end()
    meet(plain, remembers=False)
    link = next(e.link for e in first.asked_by[side] if isinstance(e, m.Remember) and e.link)
    _, older = kept_of(met[side], link)
    for stores in (met, plain):
        stores[0].save([note(i) for i in range(50, 60)])
        stores[1].save([note(i, extras=TAG) for i in range(60, 70)])
    meet(met).end()
    meet(plain, remembers=False)
    head, parts = kept_of(met[side], link)
    names = sorted(parts)
    name = names[place % (len(names) + 1)] if place % (len(names) + 1) < len(names) else b""
    if not name:
        at = damage if isinstance(damage, int) else place
        head = flipped(head, at)
    elif damage == "gone":
        del parts[name]
    elif isinstance(damage, int):
        parts[name] = flipped(parts[name], damage)
    else:
        another = parts[names[place // 7 % len(names)]]
        parts[name] = {"empty": b"", "older": older.get(name, b""), "another": another}[damage]
    met[side].keep_link(link, LinkChange(head, parts))
    for stores in (met, plain):
        for where, adds, number in edits:
            extras = () if number < 20 else TAG
            if adds:
                stores[where].save([note(number + 100, extras=extras)])
            else:
                stores[where].forget([note(number, extras=extras).hash])
        if grants:  # what the peer offered before is wanted now
            stores[0].save([note(99, app="grant", extras=TAG)])
    ends = [meet(met).pair.sides[side].ended for _ in range(2)]
    meet(met).end()
    bad = [end for end in ends if isinstance(end, m.Aborted)]
    assert [(end.code, end.blame) for end in bad] in ([], [(Code.STORE_LINK, m.Blame.LOCAL)])
    meet(plain, remembers=False)
    assert [held(store) for store in met] == [held(store) for store in plain]
    assert left_over(met, modules, exposure=SHOWN, parameters=small) == [(), ()]


def kept_as(known: Known, before: Known | None, store: RecordStore) -> Known:
    """Keep a value as the link "x"; return it with its head."""
    made, change = change_of(known, before)
    store.keep_link(b"x", change)
    return made


def refuses_a_part_of(store: RecordStore, name: bytes, data: bytes) -> bool:
    """Whether a part is not believed that stands in place of the one that was kept."""
    head, parts = kept_of(store, b"x")
    other = MemoryStore()
    other.keep_link(b"x", LinkChange(head, parts | {name: data}))
    kept = other.link(b"x")
    assert kept is not None
    known = read_known(kept, 2)
    assert known is not None
    try:
        for table in (known.state.own, known.state.peers):
            table.runs(range(4096))
    except StoreError as error:
        return error.code == Code.STORE_LINK and kept.damaged
    return False


@pytest.mark.usefixtures("_together")
def test_a_part_of_another_moment_is_not_believed_whatever_lies_in_it() -> None:
    """The peer says the same, but part of that follows from this side's table later on."""
    by_group: dict[str, list[str]] = {}
    for number in range(300):
        by_group.setdefault(note(number).hash[2], []).append(note(number).hash)
    one, other = next(  # in one group, in two partitions of it
        (names[0], later)
        for names in by_group.values()
        for later in names[1:]
        if later[3] != names[0][3]
    )
    told = {record: digest(record.encode()) for record in (one, other)}
    own, peers, store = Partitions(2), Partitions.of(told), MemoryStore()
    state = m.LinkState(own.copy(), peers, frozenset())
    first = kept_as(Known(b"", Position(1, 1), b"", state, {}), None, store)
    _, then = kept_of(store, b"x")
    own.put({one: digest(b"mine") + told[one]})
    state = m.LinkState(own.copy(), peers.copy(), frozenset())
    kept_as(Known(b"", Position(2, 1), b"", state, {}), first, store)
    _, now = kept_of(store, b"x")
    changed = [name for name in then if name in now and then[name] != now[name]]
    assert changed
    assert all(refuses_a_part_of(store, name, then[name]) for name in changed)
    assert not any(refuses_a_part_of(store, name, data) for name, data in now.items())


@pytest.mark.usefixtures("_together")
def test_a_part_of_another_link_is_not_believed() -> None:
    own = Partitions(2)
    own.put({note(i).hash: digest(b"%d" % i) + digest(b"one's %d" % i) for i in range(30)})
    others = own.copy()
    others.put({note(i).hash: digest(b"%d" % i) + digest(b"other's %d" % i) for i in range(30)})
    kept: list[dict[bytes, bytes]] = []
    for basis, table in ((b"other", others), (b"one", own)):
        store = MemoryStore()
        state = m.LinkState(table, Partitions.of({note(1).hash: digest(b"")}), frozenset())
        kept_as(Known(basis, Position(1, 1), b"", state, {}), None, store)
        kept.append(kept_of(store, b"x")[1])
    there, here = kept
    assert here.keys() == there.keys()
    assert all(refuses_a_part_of(store, name, there[name]) for name in here)


def test_links_that_differ_in_nothing_but_their_names_differ_in_what_they_depend_on() -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(1)])
    first = Meeting(stores).end()
    asked = next(e for e in first.asked if isinstance(e, m.Recall) and e.link)
    bases = {
        basis_of(asked.plan, 0, asked.schema, SHOWN, DEFAULT_LIMITS, link)
        for link in (None, b"", b"one", b"other")
    }
    assert len(bases) == 4


@pytest.mark.parametrize("forgets", [False, True])
def test_what_a_store_kept_that_had_come_further_is_not_believed(forgets: bool) -> None:
    """The file was restored to an earlier state, but not what it had kept of links."""
    stores = MemoryStore(), MemoryStore()
    early = MemoryStore()
    for store in (stores[0], early):
        store.save([note(i) for i in range(30)])
    stores[0].save([note(i) for i in range(30, 60)])
    first = Meeting(stores).end()
    if forgets:
        stores[0].forget([note(i).hash for i in range(10, 60)])
        Meeting((stores[0], MemoryStore())).end()  # over the same link
    link = next(e.link for e in first.asked_by[0] if isinstance(e, m.Remember) and e.link)
    early.keep_link(link, LinkChange(*kept_of(stores[0], link)))
    early.save([note(i) for i in range(100, 105)])
    Meeting((early, stores[1])).end()
    assert held(early) == held(stores[1])
    assert left_over((early, stores[1]), (EVERYTHING, EVERYTHING)) == [(), ()]


@pytest.mark.parametrize("way", ["others", "forgotten", "forgotten as often", "others in part"])
def test_what_was_kept_beside_other_records_is_not_believed(stores: Stores, way: str) -> None:
    """Records of an earlier moment beside what was kept later; then it goes as far another way."""
    here, there = stores
    here.save([note(i) for i in range(20)])
    Meeting(stores).end()
    early = MemoryStore()
    early.save([note(i) for i in range(20)])
    if way == "forgotten as often":
        here.forget([note(3).hash], for_good=True)
    here.save([note(i) for i in range(20, 25)])
    first = Meeting(stores).end()
    link = next(e.link for e in first.asked_by[0] if isinstance(e, m.Remember) and e.link)
    early.keep_link(link, LinkChange(*kept_of(here, link)))
    match way:
        case "others":
            early.save([note(i) for i in range(50, 55)])
        case "forgotten":
            early.forget([note(0).hash])
            early.save([note(50), note(51)])
        case "forgotten as often":
            early.forget([note(4).hash], for_good=True)
            early.save([note(i) for i in range(20, 25)])
        case "others in part":
            early.save([note(50), *(note(i) for i in range(21, 25)), note(60)])
    forgotten = early.all_kept_out()
    met = Meeting((early, there)).end()
    assert [type(side.ended) for side in met.pair.sides] == [m.Closed, m.Closed]
    assert held(early) == held(there) - set(forgotten)
    assert met.advertised(0) == held(early)


_OF_RECORDS = ("_records", "_order", "_places", "_last", "_forgets", "_forgotten", "_kept_out")


def records_of(store: MemoryStore) -> dict[str, object]:
    """Return all that a store has but what it keeps of links."""
    return {name: copy.deepcopy(getattr(store, name)) for name in _OF_RECORDS}


RECORDS = st.lists(st.tuples(st.booleans(), st.integers(0, 40)), min_size=1, max_size=6)


@pytest.mark.req("050-COR-01", "050-CUR-03")
@settings(max_examples=examples(40), deadline=None)
@given(rounds=st.lists(st.tuples(RECORDS, RECORDS), min_size=1, max_size=4), side=st.integers(0, 1))
def test_records_may_be_restored_alone_at_any_time(
    rounds: list[tuple[list[tuple[bool, int]], list[tuple[bool, int]]]], side: int
) -> None:
    """What is kept of links is then of a later time, or of another course of things."""
    met, plain = (MemoryStore(), MemoryStore()), (MemoryStore(), MemoryStore())

    def change(store: MemoryStore, edits: list[tuple[bool, int]]) -> None:
        for adds, number in edits:
            if adds:
                store.save([note(number)])
            else:
                store.forget([note(number % 10).hash])

    def meet() -> None:
        Meeting(met, (NOTES, NOTES)).end()
        Meeting(plain, (NOTES, NOTES), remembers=False).end()
        assert [held(store) for store in met] == [held(store) for store in plain]

    for stores in (met, plain):
        stores[side].save([note(i) for i in range(20)])
    meet()
    for before, after in rounds:
        noted = [records_of(stores[side]) for stores in (met, plain)]
        for stores in (met, plain):
            change(stores[side], before)
        meet()
        for stores, records in zip((met, plain), noted, strict=True):
            for name, value in records.items():
                setattr(stores[side], name, value)
            change(stores[side], after)
        meet()


def flipped(data: bytes, place: int) -> bytes:
    """Return data with one bit that is another one."""
    place %= 8 * len(data)
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


EDITS = st.lists(
    st.tuples(st.sampled_from(["own", "peers", "both", "other", "mirror"]), st.integers(0, 60)),
    max_size=6,
)


@pytest.mark.parametrize("standard", [1, 2])
@pytest.mark.usefixtures("_together")
@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds=st.lists(EDITS, min_size=1, max_size=5), cut=st.booleans())
def test_two_tables_are_kept_as_they_are_however_much_they_have_alike(
    standard: int, rounds: list[list[tuple[str, int]]], cut: bool
) -> None:
    """What the peer says as this side would is not kept twice; nobody can see that."""
    store, before = MemoryStore(), None
    own, peers = Partitions(2, standard=standard), Partitions(standard=standard)
    ours: dict[str, bytes] = {}
    theirs: dict[str, bytes] = {}
    for edits in rounds:
        for which, number in edits:
            record, leaf = note(number).hash, digest(b"%d" % number)
            if which == "mirror":
                peers, theirs = own.expected(), {r: d[32:] for r, d in ours.items()}
            if which in {"own", "both"} and ours.pop(record, None) is not None:
                own.remove([record])
            elif which in {"own", "both"}:
                ours[record] = digest(leaf) + leaf
                own.put({record: ours[record]})
            if which in {"peers", "both"} and theirs.pop(record, None) is not None:
                peers.remove([record])
            elif which in {"peers", "both", "other"}:
                # No two records have a digest in common: it is of words that name the record.
                theirs[record] = digest(b"other %d" % number) if which == "other" else leaf
                peers.put({record: theirs[record]})
        unlike = {r for r, leaf in theirs.items() if ours.get(r, b"")[32:] != leaf}
        assert set(peers.unlike(own)) == unlike
        assert peers.unlike_among(own, [note(i).hash for i in range(61)]) == unlike
        state = m.LinkState(own.copy(), peers.copy(), frozenset())
        before, change = change_of(Known(b"", Position(1, 1), b"", state, {}), before)
        store.keep_link(b"x", change)
        kept = store.link(b"x")
        assert kept is not None
        known = read_known(kept, standard)
        assert known is not None
        if cut:
            before, own, peers = known, known.state.own.copy(), known.state.peers.copy()
        for table, digests in ((known.state.own, ours), (known.state.peers, theirs)):
            plain = Partitions(table.columns, standard=standard)
            plain.put(digests)
            assert table.check == plain.check
            assert all(table.run(i) == plain.run(i) for i in range(64**standard))


@pytest.mark.parametrize("standard", [1, 2])
@pytest.mark.usefixtures("_together")
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(edits=st.lists(st.lists(st.integers(0, 60), max_size=5), max_size=5), cut=st.booleans())
def test_what_was_kept_of_other_formats_is_what_it_was(
    standard: int, edits: list[list[int]], cut: bool
) -> None:
    """A later version may have such records; here they lie beside what is packed."""
    names = [f"{note(i).hash[:-3]}.{'H9' if i % 3 else 'H3'}" for i in range(61)]
    store, before = MemoryStore(), None
    peers = Partitions(standard=standard)
    peers.put({names[i]: digest(b"%d" % i) for i in range(40)})
    for round_ in edits:
        for i in round_:
            if names[i] in peers:
                peers.remove([names[i]])
            else:
                peers.put({names[i]: digest(b"%d" % i)})
        fresh = Partitions(standard=standard)
        fresh.put({name: peers.digest(name) or b"" for name in peers.records("")})
        assert peers.check == fresh.check
        state = m.LinkState(Partitions(2, standard=standard), peers.copy(), frozenset())
        before, change = change_of(Known(b"", Position(1, 1), b"", state, {}), before)
        store.keep_link(b"x", change)
        kept = store.link(b"x")
        assert kept is not None
        known = read_known(kept, standard)
        assert known is not None
        assert known.state.peers.check == fresh.check
        if cut:
            before, peers = known, known.state.peers.copy()
        assert list(known.state.peers.records("")) == list(fresh.records(""))
        assert list(known.state.peers.summaries(1)) == list(fresh.summaries(1))
        assert list(known.state.peers.summaries(2)) == list(fresh.summaries(2))


@pytest.mark.req("050-OPN-01", "050-OPN-02")
@pytest.mark.parametrize("side", [0, 1])
def test_an_open_exchange_that_began_with_nothing_to_do_goes_on(stores: Stores, side: int) -> None:
    stores[0].save([note(i) for i in range(20)])
    Meeting(stores).end()
    meeting = Meeting(stores, stays=True)
    assert meeting.worked == [False, False]
    stores[side].save([note(50)])
    meeting.pair.wake(NOW)
    assert stored(meeting.pair.left) == stored(meeting.pair.right)
    assert stores[1 - side].has(note(50).hash)
    stores[side].forget([record.hash for record in map(note, range(51))])
    meeting.pair.wake(NOW)
    meeting.end()


def test_all_that_was_advertised_is_gone(
    stores: Stores,
) -> None:
    drafts = [note(i, app="drafts") for i in range(20)]
    only_mine = module_from_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S),"
        " AdvertisedField(P,S,'App',_,'never').\n"
    )
    stores[0].save(drafts)
    Meeting(stores, (only_mine, only_mine)).end()
    meeting = Meeting(stores, (only_mine, only_mine), stays=True)
    assert meeting.worked == [False, False]
    stores[0].forget([record.hash for record in drafts])
    meeting.pair.wake(NOW)
    assert not any(meeting.pair.right.machine.peer_advertises(r.hash) for r in drafts)
    meeting.end()


MODULES = {
    "notes": NOTES, "everything": EVERYTHING, "members": MEMBERS, "shy": SHY, "paired": PAIRED,
    "never with tasks": NEVER_WITH_TASKS,
}  # fmt: skip
DEEDS = st.one_of(
    st.tuples(
        st.just("add"), st.integers(0, 1), st.integers(0, 12), st.sampled_from(["notes", "tasks"])
    ),
    st.tuples(st.just("forget"), st.integers(0, 1), st.integers(0, 12)),
    st.tuples(st.just("for good"), st.integers(0, 1), st.integers(0, 12)),
    st.tuples(st.just("remember"), st.integers(0, 1), st.integers(0, 12)),
    st.tuples(st.just("meet"), st.booleans(), st.integers(0, 2), st.integers(0, 2)),
)


def test_a_little_that_is_new_is_all_that_is_looked_at(
    stores: Stores,
) -> None:
    warm = WarmLinks(), WarmLinks()
    stores[0].save([note(i) for i in range(100)])
    Meeting(stores, (OPEN, OPEN), warm=warm).end()
    assert [len(kept) for kept in warm] == [1, 1]
    stores[0].save([note(500)])
    again = Meeting(stores, (OPEN, OPEN), warm=warm).end()
    assert stores[1].has(note(500).hash)
    told = [e for side in again.pair.sides for e in side.told if isinstance(e, m.FixedPoint)]
    assert [len(e.result.received) for e in told] == [0, 1]
    described = [e for e in again.asked if isinstance(e, m.Describe)]
    assert sum(len(e.records) for e in described) < 20
    assert [len(kept) for kept in warm] == [1, 1]


def test_what_rests_makes_room_for_what_comes(stores: Stores) -> None:
    stores[0].save([note(i) for i in range(30)])
    warm = WarmLinks(room=10_000), WarmLinks(room=10)
    Meeting(stores, (OPEN, OPEN), warm=warm).end()
    assert [len(kept) for kept in warm] == [0, 0]
    warm = WarmLinks(room=70_000), WarmLinks()
    Meeting(stores, (EVERYTHING, OPEN), warm=warm).end()
    Meeting(stores, (OPEN, EVERYTHING), warm=warm).end()
    assert [len(kept) for kept in warm] == [1, 2]


@pytest.mark.req("050-COR-01", "050-CUR-03")
@settings(max_examples=examples(60), deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(MODULES)), min_size=3, max_size=3),
    many=st.booleans(),
    rests=st.booleans(),
    deeds=st.lists(DEEDS, min_size=3, max_size=14),
)
def test_it_makes_no_difference_but_to_the_work(
    names: list[str], many: bool, rests: bool, deeds: list[tuple[object, ...]]
) -> None:
    kept = (WarmLinks(), WarmLinks()) if rests else None
    quick = MemoryStore(), MemoryStore()
    plain = MemoryStore(), MemoryStore()
    for kind in (quick, plain):
        kind[0].save([note(i) for i in range(100, 120 if many else 101)])
    for deed in [*deeds, ("meet", False, 0, 0)]:
        match deed:
            case ("add", int(side), int(number), str(app)):
                for kind in (quick, plain):
                    kind[side].save([note(number, app=app)])
            case ("forget", int(side), int(number)):
                for kind in (quick, plain):
                    kind[side].forget([note(number).hash, note(number, app="tasks").hash])
            case ("for good", int(side), int(number)):
                for kind in (quick, plain):
                    hashes = [note(number).hash, note(number, app="tasks").hash]
                    kind[side].forget(hashes, for_good=True)
            case ("remember", int(side), int(number)):
                for kind in (quick, plain):
                    kind[side].remember([note(number).hash, note(number, app="tasks").hash])
            case ("meet", bool(stays), int(one), int(other)):
                chosen = MODULES[names[one]], MODULES[names[other]]
                for kind, remembers, warm in ((quick, True, kept), (plain, False, None)):
                    meeting = Meeting(kind, chosen, remembers=remembers, stays=stays, warm=warm)
                    if stays:
                        kind[0].save([note(77), note(78, app="tasks")])
                        meeting.pair.wake(NOW)
                    meeting.end()
                    # What is kept out is not asked for, so that nothing has to be refused.
                    for side, store in enumerate(kind):
                        asked = b"".join(
                            line.encode() for line in meeting.facts(side, "MayRequest")
                        )
                        assert not any(hash.encode() in asked for hash in store.all_kept_out())
                assert [held(store) for store in quick] == [held(store) for store in plain]
                for store in (*quick, *plain):
                    assert not store.kept_out(held(store))


def test_what_is_held_is_counted() -> None:
    warm = WarmLinks(), WarmLinks()
    few, many = (MemoryStore(), MemoryStore()), (MemoryStore(), MemoryStore())
    few[0].save([note(i) for i in range(10)])
    many[0].save([note(i) for i in range(1000)])
    small = Meeting(few, (OPEN, OPEN), stays=True).pair.left.memory
    large = Meeting(many, (OPEN, OPEN), stays=True, warm=warm)
    assert large.pair.left.memory > small * 50
    assert warm[0].memory == 0
    large.end()
    assert warm[0].memory > small * 50
    warm[0].clear()
    assert warm[0].memory == len(warm[0]) == 0
