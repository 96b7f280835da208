"""Advertisements that are large for a block: what does not fit is put off, and asked for (L67).

Scale models: blocks of some kilobytes, and a few hundred bytes of fields that rules look at.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from links import Meeting, copied, held, later

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LaceError, LimitExceeded, ProtocolError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.deferring import DEFERRED, GO_ON, Deferral, fact_count, fitting
from lace.interlace.facts import block
from lace.interlace.listing import Listing
from lace.interlace.negotiate import WIRE_LIMITS
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.interlace.sketching import Sketching
from lace.interlace.summary import payload
from lace.interlace.telling import OwnAdverts, Saying
from lace.limits import MIB, Limits
from lace.policy.module import module_from_text
from lace.policy.origin import SourceLabel
from lace.record import Record, build_plex
from lace.recordstore import MemoryStore

BIG = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Big',_,'never').\n"
)
#: Everything is offered, nothing is taken.
OFFER = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Big',_,'never').\n"
)
Stores = tuple[MemoryStore, MemoryStore]
BLOCK = 10_000
SMALL = Limits(max_fact_block_size=BLOCK)
MODELS = Parameters(sketch_from=8, sketch_block=BLOCK)
#: Such sides take an advertisement for small, as all sides do with those of many kilobytes.
LIGHT = replace(MODELS, advert_bytes=100)
#: The offers of a side that knows of no deferral, but of all that came before it.
EARLIER = replace(SMALL, max_deferred_advertisements=0)


def big(number: int, size: int = 900, lines: int = 3) -> Record:
    """Return a note whose advertisement has about so many lines of so many bytes."""
    extras = [("Big", f"{line} " + "x" * size) for line in range(lines)]
    return build_plex(
        group="g", app="notes", name=f"n/{number}", tai=f"{number:010d}:{0:09d}", extras=extras
    )


def phases(meeting: Meeting, side: int) -> list[bytes]:
    """Return the facts that a side has said in each phase."""
    said = [b""]
    for crossing in meeting.said_by(side):
        if isinstance(crossing, m.PeerFacts):
            said[-1] += crossing.content
        elif isinstance(crossing, m.PeerPhaseEnd):
            said.append(b"")
    return said


def meet(stores: Stores, limits: Limits, **options: object) -> Meeting:
    options = {"parameters": MODELS, **options}
    return Meeting(stores, (BIG, BIG), limits=limits, **options)  # type: ignore[arg-type]


def converged(meeting: Meeting, stores: Stores, most: int = BLOCK) -> None:
    """Fail unless both sides have everything, know it, and never said more than fits."""
    told = [event for side in meeting.pair.sides for event in side.told]
    assert not [event for event in told if isinstance(event, m.Aborted)]
    assert held(stores[0]) == held(stores[1]) != set()
    for side in (0, 1):
        assert meeting.believed(side) == meeting.advertised(1 - side) == held(stores[0])
        assert max(map(len, phases(meeting, side))) <= most


def a_first_listing(stores: Stores, limits: Limits) -> Meeting:
    """Eight advertisements are listed before anybody asks."""
    stores[0].save([big(i) for i in range(7)])
    stores[1].save([big(i) for i in range(10, 18)])
    return meet(stores, limits)


def one_partition(stores: Stores, limits: Limits) -> Meeting:
    """All of a table is asked for at one go, since there is nothing here."""
    stores[0].save([big(i) for i in range(9)])
    return meet(stores, limits, parameters=LIGHT)


def several_partitions(stores: Stores, limits: Limits) -> Meeting:
    """Partitions are narrowed, and then listed."""
    stores[0].save([big(i) for i in range(30)])
    stores[1].save([big(i) for i in range(20, 45)])
    return meet(stores, limits, parameters=replace(LIGHT, sketch_from=1000))


def by_summaries(stores: Stores, limits: Limits) -> Meeting:
    """Without tables, from a start of two characters: the summaries alone would not fit."""
    stores[0].save([big(i) for i in range(200)])
    stores[1].save([big(i) for i in range(190, 220)])
    alone = replace(limits, max_advertisements_in_delta=0, max_cells_in_sketch=0)
    return meet(stores, alone, coarse=False)


def no_summaries(stores: Stores, limits: Limits) -> Meeting:
    """Everything is listed in each loop."""
    stores[0].save([big(i) for i in range(20)])
    stores[1].save([big(i) for i in range(15, 40)])
    return meet(stores, replace(limits, max_partition_summaries=0, max_advertisements_in_delta=0))


def a_delta_at_the_next_contact(stores: Stores, limits: Limits) -> Meeting:
    stores[0].save([big(i, 10) for i in range(20)])
    meet(stores, limits).end()
    stores[0].save([big(i) for i in range(100, 120)])
    stores[1].save([big(i) for i in range(200, 220)])
    return meet(stores, limits, parameters=LIGHT)


def a_delta_in_an_open_exchange(stores: Stores, limits: Limits) -> Meeting:
    stores[0].save([big(i, 10) for i in range(9)])
    meeting = meet(stores, limits, stays=True, parameters=LIGHT)
    assert meeting.idle
    stores[0].save([big(i) for i in range(100, 120)])
    stores[1].save([big(i) for i in range(200, 220)])
    return meeting.wake(now=later(1))


def a_sketch(stores: Stores, limits: Limits) -> Meeting:
    """Both sides list what the sketch has found: one as it was asked, the other unasked."""
    for store, first in zip(stores, (100, 200), strict=True):
        store.save([big(i, 10) for i in range(30)])
        store.save([big(i) for i in range(first, first + 25)])
    return meet(stores, limits)


Situation = Callable[[Stores, Limits], Meeting]
#: Each with what has to be said there, by both sides together.
SITUATIONS: list[tuple[Situation, str]] = [
    (a_first_listing, "Advertised"),
    (one_partition, "ListAdvertisementPartition"),
    (several_partitions, "NarrowAdvertisementPartition"),
    (by_summaries, "Advertised"),
    (no_summaries, "Advertised"),
    (a_delta_at_the_next_contact, "AdvertisementDelta"),
    (a_delta_in_an_open_exchange, "AdvertisementDelta"),
    (a_sketch, "ListAdvertisementItems"),
]
each_situation = pytest.mark.parametrize(
    ("situation", "told"), SITUATIONS, ids=[situation.__name__ for situation, _ in SITUATIONS]
)


@pytest.mark.req("050-LIM-02", "050-COR-08")
@each_situation
def test_what_does_not_fit_a_block_is_put_off_and_asked_for(
    situation: Situation, told: str
) -> None:
    stores = MemoryStore(), MemoryStore()
    meeting = situation(stores, SMALL)
    converged(meeting, stores)
    assert [*meeting.facts(0, told), *meeting.facts(1, told)]
    put_off = [meeting.facts(side, "AdvertisementsDeferred") for side in (0, 1)]
    assert any(put_off)
    if situation is a_sketch:
        assert all(put_off)


@pytest.mark.req("050-LIM-02")
@pytest.mark.parametrize("situation", [situation for situation, _ in SITUATIONS])
def test_without_the_offer_it_ends_with_a_limit(situation: Situation) -> None:
    """So it is these situations that need it; a peer that does not know of it is told nothing."""
    meeting = situation((MemoryStore(), MemoryStore()), EARLIER)
    ended = [event for side in meeting.pair.sides for event in side.told]
    codes = [event.code for event in ended if isinstance(event, m.Aborted)]
    assert codes[:1] == [Code.LIMIT_EXCEEDED]
    for side in (0, 1):
        assert meeting.facts(side, "AdvertisementsDeferred") == []
        assert meeting.facts(side, "ListDeferredAdvertisements") == []


@pytest.mark.req("050-LIM-02")
@pytest.mark.parametrize("told", ["in a first phase", "when it is asked for"])
def test_an_advertisement_that_no_block_has_room_for_is_named(told: str) -> None:
    stores = MemoryStore(), MemoryStore()
    large = big(99, lines=12)
    others = [big(i) for i in range(4 if told == "in a first phase" else 30)]
    stores[0].save([*others, large])
    meeting = meet(stores, SMALL)
    (ended,) = [e for e in meeting.pair.sides[0].told if isinstance(e, m.Aborted)]
    assert (ended.code, ended.blame) == (Code.LIMIT_EXCEEDED, m.Blame.LOCAL)
    assert large.hash in ended.detail
    assert "max_fact_block_size is 10000" in ended.detail
    stores[0].forget([RecordHash(large.hash)])
    converged(meet(stores, SMALL), stores)


@pytest.mark.req("050-LIM-02")
def test_what_fits_to_the_last_byte_is_not_put_off() -> None:
    """So nothing is said in another way than before, unless it could not be said at all."""
    records = [big(i) for i in range(8)]
    stores = MemoryStore(), MemoryStore()
    stores[0].save(records)
    size = max(map(len, phases(meet(stores, Limits()), 0)))
    for most, parts in ((size, 0), (size - 1, 1)):
        stores = MemoryStore(), MemoryStore()
        stores[0].save(records)
        meeting = meet(stores, Limits(max_fact_block_size=most))
        converged(meeting, stores, most)
        assert len(meeting.facts(0, "AdvertisementsDeferred")) == parts


def to_say(left: int) -> int:
    return len(f"AdvertisementsDeferred('{left}')\n") if left else 0


@settings(max_examples=examples(300))
@given(
    st.lists(st.integers(80, 300), max_size=20), st.sampled_from([0, 1, 5, 9, 95, 99, 3000]),
    st.integers(0, 20), st.sampled_from([-60, -2, -1, 0, 1, 2, 60]),
)  # fmt: skip
def test_as_many_are_said_as_fit_with_the_number_of_the_others(
    sizes: list[int], behind: int, some: int, more: int
) -> None:
    """Also where some of them fit to the last byte, with that number or without."""
    some = min(some, len(sizes))
    for word in (0, to_say(behind + len(sizes) - some)):
        room = max(0, sum(sizes[:some]) + word + more)
        fit = fitting(sizes, behind, room)
        left = behind + len(sizes) - fit
        if fit:
            assert sum(sizes[:fit]) + to_say(left) <= room
        if fit < len(sizes):
            assert sum(sizes[: fit + 1]) + to_say(left - 1) > room
        if not behind:
            assert (fit == len(sizes)) == (sum(sizes) <= room)


# --- any sizes ---

NUMBERS = st.sampled_from([0, 1, 5, 12, 25])
PARAMETERS = st.builds(
    Parameters,
    list_up_to=st.sampled_from([0, 8]),
    summarize_up_to=st.sampled_from([0, 8]),
    tell_at_once=st.sampled_from([3, 10_000]),
    sketch_from=st.sampled_from([1, 64]),
    sketch_block=st.just(BLOCK),
    list_at_once=st.sampled_from([3, 20_000]),
    advert_bytes=st.sampled_from([1, 300, 1024]),
    describe_at_once=st.sampled_from([1, 4, 1000]),
    put_at_once=st.sampled_from([3, 32_768]),
    standard_prefix=st.sampled_from([1, 2]),
)
LIMITS = st.builds(
    Limits,
    max_partition_summaries=st.sampled_from([0, 70, 16_384]),
    max_narrowing_depth=st.sampled_from([0, 2, 12]),
    max_advertisements_in_delta=st.sampled_from([0, 3, 100_000]),
    max_cells_in_sketch=st.sampled_from([0, 64, 256]),
    max_places_listed=st.sampled_from([0, 5, 100_000]),
    max_loop_iterations=st.just(64),
)


def some(chance: random.Random, number: int) -> list[Record]:
    """Return notes whose advertisements are of any size that fits a block."""
    return [
        big(chance.randrange(10**6), chance.choice([1, 300, 900]), chance.randrange(8))
        for _ in range(number)
    ]


@pytest.mark.req("050-REC-02", "050-COR-08", "050-LIM-02")
@settings(max_examples=examples(40))
@given(
    common=NUMBERS,
    changes=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
    parameters=PARAMETERS,
    limits=LIMITS,
    coarse=st.booleans(),
    stays=st.booleans(),
)
def test_a_small_block_makes_no_difference_to_what_both_end_up_with(
    common: int, changes: list[tuple[int, int, int]], seed: int,
    parameters: Parameters, limits: Limits, coarse: bool, stays: bool,
) -> None:  # fmt: skip
    """Held against the same exchanges with blocks that everything fits."""
    ends = []
    for most in (BLOCK, 64 * MIB):
        chance = random.Random(seed)
        stores = MemoryStore(), MemoryStore()
        both = some(chance, common)
        for store in stores:
            store.save(both)
        held_to = replace(limits, max_fact_block_size=most)
        options = {"parameters": parameters, "coarse": coarse, "stays": stays}
        meeting = meet(stores, held_to, **options)
        for less, *more in changes:
            here = sorted(held(stores[0]))
            gone = [RecordHash(h) for h in chance.sample(here, min(less, len(here)))]
            for store, number in zip(stores, more, strict=True):
                store.forget(gone)
                store.save(some(chance, number))
            meeting = meeting.wake() if stays else meet(stores, held_to, **options)
            everything = held(stores[0])
            for side in (0, 1):
                assert meeting.believed(side) == meeting.advertised(1 - side) == everything
                assert max(map(len, phases(meeting, side))) <= most
        meeting.end()
        ends.append((held(stores[0]), held(stores[1])))
        if most > BLOCK:
            assert not meeting.facts(0, "AdvertisementsDeferred")
    assert ends[0] == ends[1]


@settings(max_examples=examples(20))
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 1000]), st.sampled_from([3, 8, 20]))
def test_batches_do_not_show(seed: int, at_once: int, number: int) -> None:
    """Where a block ends follows from what is said, not from how it was put together."""
    said = []
    for batch in (1000, at_once):
        chance = random.Random(seed)
        stores = MemoryStore(), MemoryStore()
        stores[0].save(some(chance, number))
        stores[1].save(some(chance, number // 2))
        meeting = meet(stores, SMALL, parameters=replace(LIGHT, describe_at_once=batch))
        said.append([phases(meeting, side) for side in (0, 1)])
    assert said[0] == said[1]


# --- peers that lie ---


def listing(*records: str) -> list[Fact]:
    return [("Advertised", record, "s") for record in records]


def put_off(count: object) -> Fact:
    return "AdvertisementsDeferred", str(count)


def heard(*parts: list[Fact], most: int = 10) -> list[Fact] | None:
    """Return what comes of parts, each in a phase of its own."""
    deferral = Deferral(most)
    for number, part in enumerate(parts):
        phase = Phase.ANSWER if number else Phase.ADVERTISE
        whole = deferral.take(phase, part, {})
        assert whole is None or number == len(parts) - 1
    return None if whole is None else whole[0]


def test_parts_are_heard_as_one_phase() -> None:
    first, second = listing("a", "b"), listing("c")
    assert heard(first) == first
    assert heard([*first, put_off(1)]) is None
    assert heard([*first, put_off(10)], most=10) is None
    assert heard([*first, put_off(1)], second) == first + second
    last = listing("d")
    assert heard([*first, put_off(4)], [*second, put_off(3)], last) == first + second + last


def test_what_comes_in_parts_is_listed_once() -> None:
    told = {"a": (Advertisement("a", SourceLabel("s")), b"d")}
    more = {"b": (Advertisement("b", SourceLabel("s")), b"e")}
    deferral = Deferral(10)
    assert deferral.take(Phase.ADVERTISE, [put_off(3)], told) is None
    assert deferral.take(Phase.ANSWER, [put_off(2)], more) is None
    with pytest.raises(ProtocolError) as caught:
        deferral.take(Phase.ANSWER, [], told)
    assert caught.value.code is Code.INTERLACE_LISTING


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([[put_off("x")]], Code.INTERLACE_LISTING),
        ([[put_off(0)]], Code.INTERLACE_LISTING),
        ([[put_off("01")]], Code.INTERLACE_LISTING),
        ([[put_off(1), put_off(2)]], Code.INTERLACE_LISTING),
        ([[put_off(11)]], Code.LIMIT_EXCEEDED),
        ([[put_off(3)], [put_off(3)]], Code.INTERLACE_LISTING),
        ([[put_off(3)], [put_off(2)]], Code.INTERLACE_LISTING),  # nothing was listed
        ([[put_off(3)], [*listing("a", "b"), put_off(2)]], Code.INTERLACE_LISTING),
        ([[put_off(1)], listing("a", "b")], Code.INTERLACE_LISTING),
    ],
)
def test_parts_that_do_not_come_to_an_end_are_refused(parts: list[list[Fact]], code: Code) -> None:
    with pytest.raises(LaceError) as caught:
        heard(*parts)
    assert caught.value.code is code


@pytest.mark.parametrize(
    "asks",
    [
        [],
        [("ListAdvertisementPartition", "a")],
        [GO_ON, ("ListAdvertisementPartition", "a")],
        [GO_ON, GO_ON],
    ],
)
def test_what_was_put_off_is_asked_for_at_once_and_alone(asks: list[Fact]) -> None:
    table = Partitions(2)
    limits = dict.fromkeys(WIRE_LIMITS, 3)
    own = OwnAdverts(limits, Parameters(), table, Sketching(b"", 0, table, 0))
    own.begin_loop()
    own.defer(["x", "y", "z"])
    assert own.answer([GO_ON]) == Saying([], ["x", "y", "z"])
    own.defer(["y", "z"])

    def twice() -> None:
        assert own.answer(asks) == Saying()
        own.answer([GO_ON])

    with pytest.raises(ProtocolError) as caught:
        twice()
    assert caught.value.code is Code.INTERLACE_PHASE
    with pytest.raises(LimitExceeded) as exceeded:
        own.defer(["w", "x", "y", "z"])
    assert exceeded.value.limit == "max_deferred_advertisements"


@pytest.mark.parametrize("count", [0, 5, 1000, 100_001])
def test_a_number_that_is_not_true_ends_the_exchange_of_who_said_it(count: int) -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([big(i) for i in range(8)])

    def lie(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts) and crossing.content.startswith(DEFERRED.encode()):
            return [m.PeerFacts(f"AdvertisementsDeferred('{count}')\n".encode())]
        return [crossing]

    meeting = meet(stores, SMALL, tamper=lie)
    (ended,) = [e for e in meeting.pair.sides[1].told if isinstance(e, m.Aborted)]
    assert ended.blame is m.Blame.REMOTE
    assert ended.code is (Code.LIMIT_EXCEEDED if count > 100_000 else Code.INTERLACE_LISTING)
    assert held(stores[1]) == set()


@pytest.mark.req("050-LIM-02", "050-COR-08")
@pytest.mark.parametrize("most", [1, 9, 24, 25, 100])
def test_a_sketch_that_finds_more_than_may_be_listed_gives_way_to_partitions(most: int) -> None:
    stores = MemoryStore(), MemoryStore()
    limits = Limits(max_advertisement_records_listed=most)
    converged(a_sketch(stores, limits), stores, MIB)


@pytest.mark.req("050-LIM-02", "050-COR-08")
@pytest.mark.parametrize("fresh", [3, 5, 9])
@pytest.mark.parametrize("teller", [0, 1])
def test_a_side_that_was_asked_for_no_cells_is_told_nothing_unasked(
    teller: int, fresh: int
) -> None:
    """One side tells what is new in parts, and the other one has lost what that is new to.

    The other one asks for these parts while it would ask for cells, so that the first does not wait
    for it. Each finds out the difference by itself then.
    """
    both = MemoryStore(), MemoryStore()
    both[0].save([big(i, 10) for i in range(30)])
    meet(both, SMALL).end()
    stores = both[teller], copied(both[1 - teller])
    stores[0].save([big(i, lines=4) for i in range(100, 100 + fresh)])
    stores[1].save([big(i, 10) for i in range(200, 220)])
    stores = stores if teller == 0 else (stores[1], stores[0])
    meeting = meet(stores, SMALL, parameters=LIGHT)
    converged(meeting, stores)
    assert meeting.facts(teller, "AdvertisementsDeferred")
    assert len(meeting.facts(teller, "SketchAdvertisements")) > 1


@pytest.mark.req("050-LIM-02", "050-COR-08")
@pytest.mark.parametrize("fresh", [4, 11, 31])
@pytest.mark.parametrize("teller", [0, 1])
def test_nobody_waits_for_a_peer_that_gave_up_before(teller: int, fresh: int) -> None:
    """One side tells what is new in parts, to another one that has lost what that is new to.

    While the other one asks for these parts, the first asks for cells, gives up, and finds out the
    difference by partitions. It has nothing left to ask when the other one comes to wait for it.
    """
    both = MemoryStore(), MemoryStore()
    both[0].save([big(i, 10) for i in range(30)])
    few = replace(SMALL, max_cells_in_sketch=8)
    meet(both, few).end()
    stores = both[teller], copied(both[1 - teller])
    stores[0].save([big(i, lines=5) for i in range(100, 100 + fresh)])
    stores[1].save([big(200, 10)])
    stores = stores if teller == 0 else (stores[1], stores[0])
    meeting = meet(stores, few, parameters=LIGHT)
    converged(meeting, stores)
    assert meeting.facts(teller, "AdvertisementsDeferred")
    assert meeting.facts(1 - teller, "SketchAdvertisements") == ["SketchAdvertisements('0','0')"]


@pytest.mark.req("050-LIM-02", "050-COR-08")
@pytest.mark.parametrize("room", [0, 1, 20, 28, 29, 200])
@pytest.mark.parametrize("deferred", [0, 100_000])
def test_no_listing_is_asked_for_where_narrowing_fills_the_block(deferred: int, room: int) -> None:
    """Summaries cannot be put off, so that nothing else may need the room that they take."""
    wide: list[Record] = []
    few: list[Record] = []
    number = 0
    while len(few) < 2 or len({payload(record.hash)[1] for record in wide}) < 64:
        number += 1
        record = big(number, 10, 1)
        if payload(record.hash)[0] == "A":
            wide.append(record)
        elif payload(record.hash)[0] == "B" and len(few) < 2:
            few.append(record)
    own = Partitions()
    own.put({record.hash: bytes(32) for record in wide})
    summaries = sum(len(block([child.fact()])) for child in own.children("A"))
    stores = MemoryStore(), MemoryStore()
    stores[0].save([*wide, *few])
    stores[1].save(wide[:9])
    limits = replace(
        SMALL, max_fact_block_size=summaries + room, max_deferred_advertisements=deferred
    )
    meeting = meet(stores, limits)
    converged(meeting, stores, summaries + room)
    assert "NarrowAdvertisementPartition('A')" in meeting.facts(1, "NarrowAdvertisementPartition")


def test_what_a_side_holds_is_counted_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment after a long listing costs what a comment costs."""
    counted = 0

    def count(listing: Listing) -> int:
        nonlocal counted
        counted += len(listing)
        return fact_count(listing)

    monkeypatch.setattr("lace.interlace.hearing.fact_count", count)
    stores = MemoryStore(), MemoryStore()
    stores[0].save([big(i, 10) for i in range(60)])
    meeting = meet(stores, Limits(max_advertisements_in_delta=0, max_cells_in_sketch=0))
    converged(meeting, stores, MIB)
    listed = sum(said.count(b"Advertised(") for side in (0, 1) for said in phases(meeting, side))
    assert listed >= 60
    assert counted <= listed
