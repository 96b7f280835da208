"""Requests by place: the peer is asked for the same records, whatever words say which (L66)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from effort import examples
from exchanges import NOTES, NOW, aborted, note, participant
from hypothesis import given, settings
from hypothesis import strategies as st
from links import Meeting, held
from simulator import Schedule, World
from traffic import Tap

from lace.codes import Code
from lace.datalog.source import Fact, parse_facts
from lace.driving.pair import interlace
from lace.errors import ProtocolError
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.interlace.places import Listed
from lace.limits import FIXED, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record
from lace.recordstore import MemoryStore

ALWAYS = Parameters(place_from=0)
WITHOUT = Limits(max_places_listed=0)
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
SHY = module_from_text(
    "SelectHave(P) :- Have(P), not Stop('now').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "Stop('now') :- Advertised(Q,S), AdvertisedField(Q,S,'Name',_,'n/9').\n"
)
NAMES = st.lists(st.integers(0, 30), unique=True).map(
    lambda numbers: sorted(f"P.{number:043d}.H3" for number in numbers)
)


def listed(records: Sequence[str], most: int = 100) -> Listed:
    made = Listed(most)
    made.add(records)
    return made


def stores_of(*sides: Sequence[Record]) -> tuple[MemoryStore, MemoryStore]:
    made = MemoryStore(), MemoryStore()
    for store, records in zip(made, sides, strict=True):
        store.save(list(records))
    return made


# --- numbers ---


@settings(max_examples=examples(200))
@given(names=NAMES, wanted=NAMES, twice=NAMES)
def test_requests_say_the_records_in_their_order(
    names: list[str], wanted: list[str], twice: list[str]
) -> None:
    here = listed(names)
    here.add(name for name in twice if name in names)  # a listing may be said again
    facts = here.requests(wanted)
    there = listed(list(reversed(names)))  # in whatever order they came
    assert list(there.requested(facts)) == wanted
    assert list(there.requested([*facts, *facts])) == wanted  # duplicates count once
    plain = [fact[1] for fact in facts if fact[0] == "MayRequest"]
    assert plain == [name for name in wanted if name not in names]


def test_spans_are_as_long_as_they_can_be() -> None:
    names = [f"P.{number:043d}.H3" for number in range(10)]
    assert listed(names).requests(names) == [("RequestListed", "0", "10")]
    other = "P." + "0" * 42 + "4a.H3"  # lies between two of them
    assert listed(names).requests([*names[1:5], other, *names[5:6], names[9]]) == [
        ("RequestListed", "1", "5"),
        ("MayRequest", other),
        ("RequestListed", "5", "6"),
        ("RequestListed", "9", "10"),
    ]


FALSE: list[list[Fact]] = [
    [("RequestListed", "0", "4")],
    [("RequestListed", "3", "4")],
    [("RequestListed", "2", "2")],
    [("RequestListed", "2", "1")],
    [("RequestListed", "00", "1")],
    [("RequestListed", "0", "x")],
    [("RequestListed", "-1", "1")],
    [("RequestListed", "0", "1" * 31)],
    [("RequestListed", "0", "2"), ("RequestListed", "1", "3")],
    [("RequestListed", "2", "3"), ("RequestListed", "0", "1")],
]


@pytest.mark.req("050-REQ-03", "050-ERR-05")
@pytest.mark.parametrize("facts", FALSE)
def test_false_places_are_refused(facts: list[Fact]) -> None:
    with pytest.raises(ProtocolError) as raised:
        list(listed([note(n).hash for n in range(3)]).requested(facts))
    assert raised.value.code is Code.INTERLACE_REQUEST


NUMBERS = st.integers(-1, 12).map(str) | st.text(max_size=3) | st.integers(0).map(str)


@settings(max_examples=examples(200))
@given(names=NAMES, spans=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5))
def test_any_spans_name_what_was_listed_once_or_are_refused(
    names: list[str], spans: list[tuple[str, str]]
) -> None:
    try:
        found = list(listed(names).requested([("RequestListed", *span) for span in spans]))
    except ProtocolError as error:
        assert error.code is Code.INTERLACE_REQUEST
    else:
        assert sorted(set(found)) == found
        assert set(found) <= set(names)
        assert len(found) >= len(set(spans))


def test_too_many_have_no_places() -> None:
    names = [note(n).hash for n in range(4)]
    over = listed(names, most=3)
    assert (len(over), over.memory) == (0, 0)
    over.add(names[:1])
    assert over.requests(names[:1]) == [("MayRequest", names[0])]
    assert len(listed(names[:3], most=3)) == 3
    assert len(listed(names, most=0)) == 0


# --- the same with and without ---


def told_by(meeting: Meeting, side: int) -> list[object]:
    """Return all that one side did but for its hellos and for the words of its requests."""
    found: list[object] = []
    for effect in meeting.asked_by[side]:
        match effect:
            case m.SendFacts():
                facts = [f for f in effect.facts if f[0] not in {"MayRequest", "RequestListed"}]
                if facts and not facts[0][0].startswith("Hello"):
                    found.append(facts)
            case m.Evaluate():
                found.append(replace(effect, adopted=tuple(effect.adopted)))
            case m.Remember() | m.Recall():
                pass  # tables have no equality; what they hold is held against stores below
            case _:
                found.append(effect)
    return found


PARAMETERS = st.builds(
    Parameters,
    list_up_to=st.sampled_from([0, 8]),
    sketch_from=st.sampled_from([0, 64]),
    tell_at_once=st.sampled_from([0, 10_000]),
    list_at_once=st.sampled_from([2, 20_000]),
    describe_at_once=st.sampled_from([1, 1000]),
    serve_at_once=st.sampled_from([2, 256]),
    save_at_once=st.sampled_from([2, 1024]),
    request_at_once=st.sampled_from([5, 100_000]),
    place_from=st.sampled_from([0, 1, 3]),
)


@pytest.mark.req("050-REQ-03", "050-COR-03", "050-COR-04")
@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 10**6),
    parameters=PARAMETERS,
    most=st.sampled_from([1, 5, 100_000]),
    phase_bytes=st.sampled_from([1500, 1 << 25]),
    tables=st.booleans(),
    modules=st.sampled_from([(NOTES, NOTES), (EVERYTHING, NOTES), (SHY, EVERYTHING)]),
    stays=st.booleans(),
)
def test_places_change_nothing_but_the_words_of_requests(
    seed: int, parameters: Parameters, most: int, phase_bytes: int, tables: bool,
    modules: tuple[PolicyModule, PolicyModule], stays: bool,
) -> None:  # fmt: skip
    """What rules are given, what is served, stored and refused, and in which order: all the same."""
    base = Limits(
        max_places_listed=most, transfer_phase_bytes=phase_bytes, max_loop_iterations=200,
        max_advertisements_in_delta=100 if tables else 0, max_cells_in_sketch=1024 if tables else 0,
    )  # fmt: skip
    ways = []
    for limits in (base, replace(base, max_places_listed=0)):
        chance = random.Random(seed)
        everything = [note(n, app=chance.choice(["notes", "notes", "other"])) for n in range(24)]
        sides = [[r for r in everything if chance.random() < 0.7] for _ in (0, 1)]
        stores = stores_of(*sides)
        meeting = Meeting(stores, modules, limits=limits, parameters=parameters, stays=stays)
        if stays:
            for store in stores:
                store.save([note(chance.randrange(100, 200)) for _ in range(6)])
            meeting.wake()
        meeting.end()
        ways.append([told_by(meeting, 0), told_by(meeting, 1), held(stores[0]), held(stores[1])])
    assert ways[0] == ways[1]


@pytest.mark.req("050-REQ-03", "050-COR-03")
@pytest.mark.parametrize("seed", range(examples(40)))
def test_rules_and_stores_end_the_same_in_any_order_of_words(seed: int) -> None:
    """Rooms, hidden records, tiny thresholds, blocks cut anywhere: with places and without."""
    ends = []
    for most in (0, 5, 100_000):
        chance = random.Random(seed)
        world = World.make(chance)
        world.sides = tuple(  # type: ignore[assignment]
            replace(
                side,
                limits=replace(side.limits, max_places_listed=most),
                parameters=replace(side.parameters, place_from=0),
            )
            for side in world.sides
        )
        sides = world.participants()
        Schedule(sides, random.Random(seed)).run()
        for side in sides:
            assert any(isinstance(event, m.FixedPoint) for event in side.told), side.told[-1]
        ends.append([(held(side.store), _facts(side.local.policy)) for side in sides])
    assert ends[0] == ends[1] == ends[2]


def _facts(policy: object) -> set[Fact]:
    """Return all facts that rules were given."""
    source = policy.source  # type: ignore[attr-defined]
    return {(str(p), *row) for p in source.predicates() for row in source.iterate(p)}


# --- in an exchange ---


def spans(meeting: Meeting, side: int) -> list[str]:
    return meeting.facts(side, "RequestListed")


def test_all_that_was_listed_is_one_span() -> None:
    stores = stores_of([note(n) for n in range(60)], [])
    meeting = Meeting(stores, (NOTES, NOTES)).end()
    assert held(stores[0]) == held(stores[1])
    assert spans(meeting, 1) == ["RequestListed('0','60')"]
    assert meeting.facts(1, "MayRequest") == []


def test_differences_found_by_a_sketch_are_asked_for_by_place() -> None:
    many = [note(n) for n in range(300)]
    stores = stores_of(many[20:], many[:-20])
    meeting = Meeting(stores, (NOTES, NOTES)).end()
    assert held(stores[0]) == held(stores[1])
    for side in (0, 1):
        assert spans(meeting, side) == ["RequestListed('0','20')"]
        assert meeting.facts(side, "AdvertisementSketch") or meeting.facts(
            side, "SketchAdvertisements"
        )


def test_few_are_asked_for_in_full() -> None:
    few = Parameters().place_from - 1
    meeting = Meeting(stores_of([note(n) for n in range(few)], []), (NOTES, NOTES)).end()
    assert spans(meeting, 1) == []
    assert len(meeting.facts(1, "MayRequest")) == few


@pytest.mark.parametrize("offers", [(WITHOUT, Limits()), (Limits(), WITHOUT)])
def test_places_need_the_offer_of_both(offers: tuple[Limits, Limits]) -> None:
    stores = stores_of([note(n) for n in range(60)], [note(n) for n in range(50, 99)])
    meeting = Meeting(stores, (NOTES, NOTES), limits=Limits(), parameters=ALWAYS, runs=False)
    for side, limits in zip(meeting.pair.sides, offers, strict=True):
        given = replace(side.machine._side, limits=limits)
        side.machine._side = given
        side.machine._opening._side = given
    meeting.run().end()
    assert held(stores[0]) == held(stores[1])
    assert spans(meeting, 0) == spans(meeting, 1) == []


def test_places_are_those_of_one_loop() -> None:
    """What was put off is asked for in full: nothing is listed in the loop that follows."""
    stores = stores_of([note(n) for n in range(20)], [])
    limits = Limits(transfer_phase_bytes=1)
    meeting = Meeting(stores, (NOTES, NOTES), limits=limits).end()
    assert held(stores[0]) == held(stores[1])
    assert spans(meeting, 1) == ["RequestListed('0','20')"]
    assert len(meeting.facts(1, "MayRequest")) == sum(range(1, 20))


def test_nothing_is_kept_of_places_once_requests_are_said() -> None:
    stores = stores_of([note(n) for n in range(60)], [])
    meeting = Meeting(stores, (NOTES, NOTES), stays=True)
    for side in meeting.pair.sides:
        assert not len(side.machine._own_places) + len(side.machine._peers_places)
    stores[0].save([note(n) for n in range(100, 120)])
    meeting.wake()
    assert spans(meeting, 1) == ["RequestListed('0','60')", "RequestListed('0','20')"]
    meeting.end()


@pytest.mark.req("050-XFR-01", "050-COR-04")
def test_a_place_of_what_may_no_longer_be_sent_is_not_available() -> None:
    stores = stores_of([note(n) for n in range(8)], [note(9)])
    meeting = Meeting(stores, (SHY, EVERYTHING), parameters=ALWAYS).end()
    assert spans(meeting, 1)
    refused = {fact[1] for line in meeting.facts(0, "NotAvailable") for fact in parse_facts(line)}
    assert refused == {note(n).hash for n in range(8)}
    assert meeting.results(1)[-1].not_available == tuple(sorted(refused))


# --- hostile peers ---


class Asking:
    """Says other requests in place of those of one side."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, side: int, crossing: m.Incoming) -> list[m.Incoming]:
        requests = (b"RequestListed", b"MayRequest")
        if (
            not side
            or not isinstance(crossing, m.PeerFacts)
            or not crossing.content.startswith(requests)
        ):
            return [crossing]
        return [m.PeerFacts(self.text.encode())]


def attacked(text: str, records: Sequence[Record], limits: Limits | None = None) -> Meeting:
    return Meeting(
        stores_of(records, []), (NOTES, EVERYTHING), limits=limits or Limits(),
        parameters=ALWAYS, tamper=Asking(text), exposure=Exposure(default="selected"),
    )  # fmt: skip


@pytest.mark.req("050-ERR-05", "050-COR-04")
@pytest.mark.parametrize(
    ("first", "last"), [(0, 13), (12, 13), (0, 10**9), (5, 5), (9, 2), (0, "many"), ("", "")]
)
def test_places_beyond_the_listing_end_the_exchange(first: object, last: object) -> None:
    """The same is said whether hidden records lie there or nothing."""
    notes = [note(n) for n in range(12)]
    hidden = [note(n, app="private") for n in range(50, 70)]
    said = []
    for records in (notes, notes + hidden):
        meeting = attacked(f"RequestListed('{first}','{last}')\n", records)
        ended = meeting.pair.sides[0].told[-1]
        assert isinstance(ended, m.Aborted)
        assert (ended.code, ended.blame) == (Code.INTERLACE_REQUEST, m.Blame.REMOTE)
        assert not any(isinstance(c, m.PeerRecord) for c in meeting.said_by(0))
        said.append((meeting.said_by(0), ended.detail))
    assert said[0] == said[1]


def test_a_span_takes_what_was_listed_and_no_more() -> None:
    notes = [note(n) for n in range(12)]
    hidden = [note(n, app="private") for n in range(50, 70)]
    meeting = attacked("RequestListed('0','12')\n", notes + hidden)
    sent = meeting.pair.sides[0].machine._transfer.tally.sent
    assert sorted(sent) == sorted(record.hash for record in notes)


def test_where_nothing_was_offered_places_have_no_place() -> None:
    meeting = attacked("RequestListed('0','1')\n", [note(n) for n in range(12)], WITHOUT)
    ended = meeting.pair.sides[0].told[-1]
    assert isinstance(ended, m.Aborted)
    assert ended.code is Code.INTERLACE_PHASE


def test_more_listed_than_agreed_has_no_places() -> None:
    notes = [note(n) for n in range(12)]
    meeting = attacked("RequestListed('0','1')\n", notes, Limits(max_places_listed=11))
    ended = meeting.pair.sides[0].told[-1]
    assert isinstance(ended, m.Aborted)
    assert ended.code is Code.INTERLACE_REQUEST
    stores = stores_of(notes, [])
    honest = Meeting(
        stores, (NOTES, NOTES), limits=Limits(max_places_listed=11), parameters=ALWAYS
    ).end()
    assert held(stores[0]) == held(stores[1])
    assert spans(honest, 1) == []


@pytest.mark.parametrize("others", [FIXED.unadvertised_requests, FIXED.unadvertised_requests + 1])
def test_no_more_is_requested_than_is_advertised_and_a_thousand_others(others: int) -> None:
    """What there is not is not available; beyond that nobody is asked whether it is there."""
    records = [note(n) for n in range(20)]
    names = [note(n).hash for n in range(100, 100 + others)] + [r.hash for r in records]
    requests = "".join(f"MayRequest('{name}')\n" for name in names).encode()

    def change(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 1 and isinstance(crossing, m.PeerFacts) and b"Request" in crossing.content:
            return [m.PeerFacts(requests)] * 2  # what is said twice counts once
        return [crossing]

    left, right = participant(0, records), participant(1, [])
    tap = Tap(change)
    interlace(left, right, NOW, tap)
    answered = len(tap.facts("NotAvailable", 0))
    if others > FIXED.unadvertised_requests:
        assert aborted(left) is Code.INTERLACE_REQUEST
        assert (answered, tap.records(0)) == (0, [])
    else:
        assert (answered, len(tap.records(0))) == (others, len(records))
