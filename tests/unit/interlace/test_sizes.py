"""Scale models: dozens of records go through all the ways that tens of thousands would.

Thresholds are a few records, a standard partition is one character, limits are just enough.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import pytest
from effort import examples
from exchanges import NOTES, by_partitions, note
from hypothesis import given, settings
from hypothesis import strategies as st
from links import Meeting, held, left_over

from lace.datalog.source import parse_facts
from lace.ids import RecordHash
from lace.interlace.parameters import Parameters
from lace.limits import Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.record import Record, build_plex
from lace.recordstore import MemoryStore
from lace.selectors import selector, with_support

TINY = Parameters(
    list_up_to=1, list_at_once=3, describe_at_once=2, request_at_once=1000, serve_at_once=2,
    save_at_once=2, hold_bytes=700, hold_fresh_bytes=1000, answer_at_once=3, put_at_once=2, standard_prefix=1,
)  # fmt: skip
ROOMY = Limits(max_loop_iterations=64)
SUPPORTED = with_support(selector("//notes-demo//notes//"))
#: Everything is offered, nothing is taken.
OFFER = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'never').\n"
)


def summaries(meeting: Meeting, side: int) -> int:
    """Return how many summaries a side said, as both sides count them."""
    said = meeting.facts(side, "AdvertisementPartition")
    return sum(1 for fact in said if not fact.startswith("AdvertisementPartition('','0',"))


def converges(
    stores: tuple[MemoryStore, MemoryStore],
    limits: Limits,
    *,
    module: PolicyModule = NOTES,
    parameters: Parameters = TINY,
    coarse: bool = True,
    remembers: bool = True,
) -> Meeting:
    """Run an exchange; fail unless both sides end with everything, within their limits."""
    everything = held(stores[0]) | held(stores[1])
    meeting = Meeting(
        stores, (module, module), limits=limits, parameters=parameters, coarse=coarse,
        remembers=remembers,
    ).end()  # fmt: skip
    assert held(stores[0]) == held(stores[1]) == everything
    for side in (0, 1):
        assert meeting.believed(side) == meeting.advertised(1 - side) == everything
        assert summaries(meeting, side) <= limits.max_partition_summaries
    return meeting


@pytest.mark.req("050-REC-02", "050-REC-06", "050-COR-08", "050-LIM-05")
@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("coarse", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 2, 12])
@pytest.mark.parametrize("more", [(20, 0), (0, 20), (12, 12)])
def test_many_in_common_and_a_few_more(
    more: tuple[int, int], depth: int, coarse: bool, remembers: bool
) -> None:
    """Several partitions are narrowed at once, and each question is asked once."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(300)])
    limits = by_partitions(Limits(max_narrowing_depth=depth))
    converges(stores, limits, coarse=coarse, remembers=remembers)
    for side, number in enumerate(more):
        stores[side].save([note(1000 * (side + 1) + i) for i in range(number)])
    meeting = converges(stores, limits, coarse=coarse, remembers=remembers)
    asked = [meeting.facts(side, "NarrowAdvertisementPartition") for side in (0, 1)]
    assert all(len(set(questions)) == len(questions) for questions in asked)
    if not depth:
        assert not any(asked)
    elif coarse and depth > 1:
        assert max(map(len, asked)) > 5
    assert sum(len(meeting.results(side)[-1].received) for side in (0, 1)) == sum(more)


@pytest.mark.req("050-LIM-04", "050-COR-08", "050-REC-02", "050-XFR-03", "050-XFR-04")
@pytest.mark.parametrize("limit", [0, 1, 2, 64, 70, 130, 16_384])
@pytest.mark.parametrize("coarse", [True, False])
def test_a_first_exchange_in_many_transfer_phases(limit: int, coarse: bool) -> None:
    """Each phase changes what the receiver has to tell; all of it counts for one limit."""
    stores = MemoryStore(), MemoryStore()
    data = b"x" * 300
    records = [
        build_plex(group="notes-demo", app="notes", name=f"{i}", tai=f"{i:010d}:{0:09d}", data=data)
        for i in range(100)
    ]
    stores[0].save(records)
    limits = Limits(max_partition_summaries=limit, transfer_phase_bytes=4000)
    meeting = converges(stores, limits, coarse=coarse)
    spans = [fact for line in meeting.facts(1, "RequestListed") for fact in parse_facts(line)]
    asked = len(meeting.facts(1, "MayRequest")) + sum(int(s[2]) - int(s[1]) for s in spans)
    assert asked > 3 * len(records)  # what was deferred was asked for again
    assert left_over(stores, (NOTES, NOTES)) == [(), ()]


@pytest.mark.req("050-LIM-04", "050-COR-08", "050-REC-02", "050-DRV-02")
@pytest.mark.parametrize("limit", [0, 1, 64, 70, 130, 200, 16_384])
@pytest.mark.parametrize("coarse", [True, False])
def test_chains_of_links_that_bring_a_generation_in_each_loop(limit: int, coarse: bool) -> None:
    """Each loop changes nearly every partition of the receiver."""
    depth, number = 8, 40
    stores = MemoryStore(), MemoryStore()
    stores[0].save(chains(number, depth))
    limits = Limits(max_partition_summaries=limit)
    meeting = converges(stores, limits, module=SUPPORTED, coarse=coarse)
    assert meeting.results(1)[-1].loops >= depth
    again = converges(stores, limits, module=SUPPORTED, coarse=coarse)
    assert again.results(1)[-1].received == ()


@pytest.mark.req("050-LIM-03", "050-LIM-04", "050-COR-08")
@pytest.mark.parametrize("limit", [130, 200, 4 * 64])
def test_what_was_just_sent_is_neither_listed_back_nor_asked_for(limit: int) -> None:
    """All of it together would be more than may be listed, or summarised, in one exchange."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save(chains(40, 8))
    limits = Limits(max_partition_summaries=limit, max_advertisement_records_listed=100)
    meeting = converges(stores, limits, module=SUPPORTED)
    assert meeting.facts(0, "ListAdvertisementPartition") == []
    assert meeting.facts(0, "NarrowAdvertisementPartition") == []
    assert meeting.facts(1, "Advertised") == []


@pytest.mark.req("050-LIM-03", "050-LIM-04", "050-COR-08")
@pytest.mark.parametrize("phase_bytes", [4000, 1 << 25])
@pytest.mark.parametrize("differ", [40, 300])
def test_more_than_may_be_listed_with_differences_everywhere(differ: int, phase_bytes: int) -> None:
    stores = MemoryStore(), MemoryStore()
    for index, store in enumerate(stores, 1):
        store.save([note(i) for i in range(1500)])
        store.save([note(10_000 * index + i) for i in range(differ)])
    limits = Limits(
        max_partition_summaries=4 * 64, max_advertisement_records_listed=600,
        transfer_phase_bytes=phase_bytes, max_loop_iterations=16,
    )  # fmt: skip
    parameters = Parameters(list_up_to=1, list_at_once=400, standard_prefix=1)
    meeting = converges(stores, limits, parameters=parameters)
    assert [len(meeting.results(side)[-1].received) for side in (0, 1)] == [differ, differ]


def chains(number: int, depth: int) -> list[Record]:
    """Return documents whose newest versions are notes; each links to the version before."""
    made: list[Record] = []
    newest: list[Record] = []
    for version in range(depth):
        app = "notes" if version == depth - 1 else "old"
        newest = [
            build_plex(
                group="notes-demo", app=app, name=f"{i}", tai=f"{version:010d}:{0:09d}",
                extras=[("+Link", f"evidence {newest[i].hash}")] if newest else [],
            )
            for i in range(number)
        ]  # fmt: skip
        made += newest
    return made


SIZES = st.sampled_from([0, 1, 2, 9, 40])
PARAMETERS = st.builds(
    Parameters,
    list_up_to=st.sampled_from([0, 1, 8]),
    summarize_up_to=st.sampled_from([0, 2, 8]),
    tell_at_once=st.sampled_from([0, 3, 10_000]),
    sketch_from=st.sampled_from([0, 1, 64]),
    list_at_once=st.sampled_from([1, 3, 20_000]),
    describe_at_once=st.sampled_from([1, 1000]),
    place_from=st.sampled_from([0, 2, 8]),
    serve_at_once=st.sampled_from([1, 256]),
    save_at_once=st.sampled_from([1, 3, 1024]),
    validate_at_once=st.sampled_from([1, 256]),
    hold_bytes=st.sampled_from([1, 500, 1 << 22]),
    hold_fresh_bytes=st.sampled_from([0, 500, 1 << 26]),
    note_up_to=st.sampled_from([0, 5, 20_000]),
    answer_at_once=st.sampled_from([1, 5000]),
    put_at_once=st.sampled_from([1, 3, 32_768]),
    standard_prefix=st.sampled_from([1, 2]),
)
LIMITS = st.builds(
    Limits,
    max_partition_summaries=st.sampled_from([0, 1, 5, 64, 65, 130, 16_384]),
    max_narrowing_depth=st.sampled_from([0, 1, 3, 12]),
    max_advertisements_in_delta=st.sampled_from([0, 3, 100_000]),
    max_cells_in_sketch=st.sampled_from([0, 8, 64, 65_536]),
    max_places_listed=st.sampled_from([0, 3, 100_000]),
    transfer_phase_bytes=st.sampled_from([1, 1500, 1 << 25]),
    max_loop_iterations=st.just(64),
)


@pytest.mark.req("050-REC-02", "050-COR-08", "050-LIM-04")
@settings(max_examples=examples(80))
@given(
    common=SIZES,
    only=st.tuples(SIZES, SIZES),
    seed=st.integers(0, 10**6),
    turns=st.integers(1, 3),
    parameters=PARAMETERS,
    limits=LIMITS,
    coarse=st.booleans(),
)
def test_sizes_and_limits_make_no_difference_to_what_both_end_up_with(
    common: int, only: tuple[int, int], seed: int, turns: int,
    parameters: Parameters, limits: Limits, coarse: bool,
) -> None:  # fmt: skip
    chance = random.Random(seed)
    stores = MemoryStore(), MemoryStore()
    for store in stores:
        store.save([note(i) for i in range(common)])
    for _ in range(turns):
        for store, number in zip(stores, only, strict=True):
            store.save([note(chance.randrange(1000, 10**6)) for _ in range(number)])
        converges(stores, limits, parameters=parameters, coarse=coarse)


@pytest.mark.req("050-REC-02", "050-CUR-03", "050-LIM-04", "050-REC-06")
@settings(max_examples=examples(80))
@given(
    changes=st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=4),
    seed=st.integers(0, 10**6),
    parameters=PARAMETERS,
    limits=LIMITS,
    coarse=st.booleans(),
    stays=st.booleans(),
)
def test_what_is_believed_is_what_is_advertised_at_any_size(
    changes: list[tuple[int, int]], seed: int, parameters: Parameters, limits: Limits,
    coarse: bool, stays: bool,
) -> None:  # fmt: skip
    """Nothing is taken: all that crosses is what one side offers, and offers no more."""
    chance = random.Random(seed)
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(60)])

    def meet() -> Meeting:
        return Meeting(
            stores, (OFFER, OFFER), limits=limits, parameters=parameters, coarse=coarse, stays=stays
        )

    meeting = meet()
    for less, more in changes:
        assert meeting.believed(1) == meeting.advertised(0) == held(stores[0])
        here = sorted(held(stores[0]))
        stores[0].forget(RecordHash(h) for h in chance.sample(here, min(less, len(here))))
        stores[0].save([note(chance.randrange(1000, 10**6)) for _ in range(more)])
        meeting = meeting.wake() if stays else meet()
    assert meeting.believed(1) == meeting.advertised(0) == held(stores[0])
    meeting.end()


@settings(max_examples=examples(40))
@given(
    changes=st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=4),
    seed=st.integers(0, 10**6),
    most=st.sampled_from([1, 7, 20_000]),
    stays=st.booleans(),
    module=st.sampled_from([selector("//notes-demo//notes//"), SUPPORTED, OFFER]),
)
def test_what_is_noted_of_records_does_not_show(
    changes: list[tuple[int, int]], seed: int, most: int, stays: bool, module: PolicyModule
) -> None:
    said = []
    for noted in (0, most):
        chance = random.Random(seed)
        stores = MemoryStore(), MemoryStore()
        stores[0].save([note(i) for i in range(20)])
        meet = partial(
            Meeting, stores, (module, module), limits=ROOMY, stays=stays,
            parameters=replace(TINY, note_up_to=noted),
        )  # fmt: skip
        meetings = [meet()]
        for less, more in changes:
            here = sorted(held(stores[0]))
            stores[0].forget(RecordHash(h) for h in chance.sample(here, min(less, len(here))))
            stores[0].save([note(chance.randrange(1000, 10**6)) for _ in range(more)])
            if stays:
                meetings[-1].wake()
            else:
                meetings.append(meet())
        said.append([meeting.crossed for meeting in meetings])
    assert said[0] == said[1]
