"""Every limit of 050, at the limit and one beyond: what is documented happens, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from exchanges import NOTES, NOW, aborted, note, participant, result, stored
from sides import Participant
from traffic import Tap, facts_of, instead

from lace import b64a
from lace.codes import Code
from lace.crypto.native import digest
from lace.driving.pair import Tamper, interlace
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.negotiate import CAPABILITIES, WIRE_LIMITS
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.interlace.partition import Partitions
from lace.interlace.reconcile import PeerAdverts
from lace.interlace.sketching import Sketching
from lace.interlace.summary import (
    EMPTY,
    Summary,
)
from lace.interlace.telling import OwnAdverts
from lace.limits import MIB, Limits
from lace.policy.module import module_from_text
from lace.policy.origin import SourceLabel
from lace.record import Record, build_plex
from lace.selectors import with_support


def meet(
    records: list[Record],
    limits: Limits,
    *,
    mine: list[Record] | None = None,
    module: object = NOTES,
    tamper: Tamper | None = None,
    **options: object,
) -> tuple[Participant, Tap]:
    """Let a side with limits meet one that has the records; return it, and what crossed."""
    tap = Tap(tamper)
    left = participant(0, records, module, **options)  # type: ignore[arg-type]
    right = participant(1, mine or [], module, limits=limits, **options)  # type: ignore[arg-type]
    interlace(left, right, NOW, tap)
    return right, tap


def chain(length: int) -> list[Record]:
    """Return records of which each one becomes wanted when the one before it is here."""
    made = [note(0, app="evidence", group="x")]
    for number in range(1, length):
        last = number == length - 1
        plex = build_plex(
            group="notes-demo" if last else "x",
            app="notes" if last else "evidence",
            name=f"{number}",
            tai=f"{number:010d}:{0:09d}",
            extras=[("+Link", f"evidence {made[-1].hash}")],
        )
        made.append(plex)
    return made


@pytest.mark.req("050-LIM-01")
def test_the_defaults_are_those_of_the_table_and_each_has_a_name_on_the_wire() -> None:
    table = {
        "max_fact_block_size": 64 * MIB,
        "max_advertisement_records_listed": 100_000,
        "max_partition_summaries": 16_384,
        "max_narrowing_depth": 12,
        "max_total_transferred_bytes": 1024 * MIB,
        "max_loop_iterations": 16,
        "phase_timeout": 30,
    }
    for name, value in table.items():
        assert getattr(Limits(), name) == value
    assert table.keys() | {"partition_prefix_start"} | CAPABILITIES == WIRE_LIMITS
    _, tap = meet([note(1)], Limits())
    for side in (0, 1):
        told = {name: int(value) for _, name, value in tap.facts("HelloLimit", side)}
        assert table.items() <= told.items()


@pytest.mark.req("050-LIM-01", "050-LIM-02", "050-ERR-12")
def test_a_block_as_large_as_allowed_and_one_byte_more() -> None:
    records = [note(i) for i in range(5)]
    right, tap = meet(records, Limits())
    largest = max(map(len, tap.blocks(0)))
    right, _ = meet(records, Limits(max_fact_block_size=largest))
    assert len(result(right).received) == 5
    # A peer that did not hear of the limit, as an honest one would have kept to it.
    deaf = facts_of(1, lambda b: b.replace(b"%d'" % (largest - 1), b"67108864'"), b"Hello")
    right, _ = meet(records, Limits(max_fact_block_size=largest - 1), tamper=deaf)
    assert aborted(right) is Code.INTERLACE_BLOCK_SIZE
    assert stored(right) == set()


@pytest.mark.req("050-LIM-02", "050-HEL-12")
def test_a_side_says_no_larger_block_than_the_peer_offered_to_take() -> None:
    _, tap = meet([note(i) for i in range(8)], Limits())
    (listing,) = [block for block in tap.blocks(0) if block.startswith(b"Advertised(")]
    assert len(listing) > max(len(block) for block in tap.blocks(0) if block != listing)
    right, _ = meet([note(i) for i in range(8)], Limits(max_fact_block_size=len(listing)))
    assert len(result(right).received) == 8
    left = participant(0, [note(i) for i in range(8)])
    right = participant(1, [], limits=Limits(max_fact_block_size=len(listing) - 1))
    interlace(left, right, NOW)
    (ended,) = [event for event in left.told if isinstance(event, m.Aborted)]
    assert (ended.code, ended.blame) == (Code.LIMIT_EXCEEDED, m.Blame.LOCAL)
    assert str(len(listing)) in ended.detail
    assert stored(right) == set()


@pytest.mark.req("050-LIM-02")
@pytest.mark.parametrize("block", [12_000, 20_000, 60_000])
@pytest.mark.parametrize("common", [0, 150], ids=["nothing", "much in common"])
def test_who_takes_small_blocks_is_asked_for_little_at_a_time(block: int, common: int) -> None:
    """Honest sides ask for no more than the other may say: listings, summaries, requests."""
    shared = [note(1000 + i) for i in range(common)]
    left = participant(0, [note(i) for i in range(150)] + shared)
    right = participant(
        1, [note(500 + i) for i in range(40)] + shared, limits=Limits(max_fact_block_size=block)
    )
    interlace(left, right, NOW)
    assert not [event for event in (*left.told, *right.told) if isinstance(event, m.Aborted)]
    assert stored(left) == stored(right)
    assert len(stored(left)) == 190 + common


@pytest.mark.req("050-LIM-02", "050-HEL-12")
def test_the_peers_lesser_offer_binds_the_peer_too() -> None:
    """The block of a phase is all its fact lines, however they are cut."""
    _, tap = meet([note(i) for i in range(8)], Limits())
    listing = max(map(len, tap.blocks(0)))
    left = participant(0, [note(i) for i in range(8)], limits=Limits(max_fact_block_size=listing))
    right = participant(1, [])

    def twice(index: int, crossing: m.Incoming) -> list[m.Incoming]:
        is_listing = isinstance(crossing, m.PeerFacts) and b"Advertised(" in crossing.content
        return [crossing] * (2 if index == 0 and is_listing else 1)

    interlace(left, right, NOW, twice)
    assert aborted(right) is Code.INTERLACE_BLOCK_SIZE


@pytest.mark.req("050-LIM-01", "050-LIM-03")
@pytest.mark.parametrize("coarse", [True, False])
def test_as_many_advertisements_in_a_listing_as_allowed_and_one_more(coarse: bool) -> None:
    """Where nothing can be narrowed any more, a partition beyond the limit ends the exchange."""
    records = sharing_a_partition(12)
    deep = {"max_narrowing_depth": 0, "max_advertisement_records_listed": 12}
    right, tap = meet(records, Limits(**deep), coarse=coarse)
    assert len(result(right).received) == 12
    assert tap.facts("NarrowAdvertisementPartition") == []
    deep["max_advertisement_records_listed"] = 11
    right, _ = meet(records, Limits(**deep), coarse=coarse)
    assert aborted(right) is Code.LIMIT_EXCEEDED
    assert stored(right) == set()


@pytest.mark.req("050-LIM-03")
@pytest.mark.parametrize("mine", [0, 30])
def test_a_partition_of_more_than_may_be_listed_is_narrowed(mine: int) -> None:
    records = [note(i) for i in range(60)]
    limits = Limits(max_advertisement_records_listed=5)
    right, tap = meet(records, limits, mine=records[:mine])
    assert stored(right) == {record.hash for record in records}
    assert tap.facts("NarrowAdvertisementPartition", 1)
    assert tap.facts("AdvertisementPartition", 0)  # not even the first phase lists too many
    few, _ = meet(records[:6], limits)
    assert len(stored(few)) == 6


@pytest.mark.req("050-LIM-03")
def test_a_peer_that_lists_more_than_allowed_at_once_ends_its_exchange() -> None:
    def more(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        return content + b"".join(line.replace(note(1).hash.encode(), other) for line in lines)

    other = note(2).hash.encode()
    limits = Limits(max_advertisement_records_listed=1)
    right, _ = meet([note(1)], limits)
    assert stored(right) == {note(1).hash}
    right, _ = meet([note(1)], limits, tamper=facts_of(0, more, b"Advertised("))
    assert aborted(right) is Code.LIMIT_EXCEEDED


@cache
def sharing_a_partition(count: int) -> list[Record]:
    """Return notes whose hashes begin with the same two characters."""
    found: list[Record] = []
    number = 0
    while len(found) < count:
        record = note(number)
        number += 1
        if record.hash[2:4] == "ab":
            found.append(record)
    return found


@pytest.mark.req("050-LIM-01", "050-LIM-04")
def test_as_many_summaries_in_a_round_as_allowed_and_one_more() -> None:
    """Counted over all phases of a round, whatever a peer says in them."""
    limits = {
        "max_partition_summaries": 3, "max_advertisement_records_listed": 100,
        "max_narrowing_depth": 12, "max_fact_block_size": MIB,
    }  # fmt: skip
    own = Partitions(2)
    adverts = PeerAdverts(
        SourceLabel("Opq_a"), limits, DEFAULT_PARAMETERS, own, Partitions(),
        Sketching(b"", 0, own, 0),
    )  # fmt: skip
    root = b64a.encode(EMPTY)

    def summaries(*prefixes: str) -> list[tuple[str, ...]]:
        return [("AdvertisementPartition", prefix, "0", root) for prefix in prefixes]

    adverts.take_advertise(summaries("aa", "ab"), 2, {})
    adverts.take_advertise(summaries("ac"), 2, {})
    with pytest.raises(LimitExceeded) as caught:
        adverts.take_advertise(summaries("ad"), 2, {})
    assert caught.value.limit == "max_partition_summaries"
    adverts.begin_round()
    assert adverts.take_advertise(summaries("ad", "ae", "af"), 2, {}) == []


@pytest.mark.req("050-LIM-04", "050-REC-01")
def test_a_side_lists_before_it_would_break_the_summary_limit() -> None:
    records = [note(i) for i in range(40)]
    partitions = len({record.hash[2:4] for record in records})
    right, tap = meet(records, Limits(max_partition_summaries=partitions), coarse=False)
    assert len(tap.facts("AdvertisementPartition", 0)) == partitions
    assert len(stored(right)) == 40
    right, tap = meet(records, Limits(max_partition_summaries=partitions - 1), coarse=False)
    assert tap.facts("AdvertisementPartition", 0) == []
    assert len(tap.facts("Advertised", 0)) == 40
    assert len(stored(right)) == 40


@pytest.mark.req("050-LIM-01", "050-LIM-05")
@pytest.mark.parametrize("coarse", [True, False])
def test_narrowing_goes_as_deep_as_allowed_and_lists_from_there(coarse: bool) -> None:
    records = sharing_a_partition(12) if not coarse else [note(i) for i in range(1200)]
    start = 0 if coarse else 2
    deepest = 2 if coarse else 1

    def steps(limit: int) -> int:
        limits = Limits(max_narrowing_depth=limit)
        right, tap = meet(records, limits, mine=records[1:], coarse=coarse)
        assert stored(right) == {record.hash for record in records}
        asked = tap.facts("NarrowAdvertisementPartition", 1)
        return max((len(prefix) - start + 1 for _, prefix in asked), default=0)

    assert steps(12) == deepest
    assert [steps(limit) for limit in range(deepest + 1)] == list(range(deepest + 1))


@pytest.mark.req("050-LIM-05")
@pytest.mark.parametrize(("coarse", "allowed"), [(True, 11), (False, 13)])
def test_a_question_one_step_too_deep_is_refused(coarse: bool, allowed: int) -> None:
    records = [note(i) for i in range(20)]
    payload = records[0].hash.split(".")[1]
    for length in (allowed, allowed + 1, 43):
        ask = f"NarrowAdvertisementPartition('{payload[:length]}')\n".encode()
        tamper = instead(1, ask, b"ListAdvertisementPartition")
        left, right = participant(0, records, coarse=coarse), participant(1, [], coarse=coarse)
        tap = Tap(tamper)
        interlace(left, right, NOW, tap)
        if length == allowed:
            told = tap.facts("AdvertisementPartition", 0)
            assert [fact[1:3] for fact in told if len(fact[1]) > allowed] == [
                (payload[: allowed + 1], "1")
            ]
        else:
            assert aborted(left) is Code.LIMIT_EXCEEDED


@pytest.mark.req("050-LIM-05", "050-REC-06")
def test_below_a_whole_payload_there_is_nothing() -> None:
    name = note(1).hash
    table = Partitions.of({name: digest(b"x")})
    payload = name.split(".")[1]
    assert [child.prefix for child in table.children(payload[:42])] == [payload]
    assert list(table.children(payload)) == []
    assert table.summary(payload).count == 1


def own_adverts(most_listed: int, most_summaries: int = 16_384) -> OwnAdverts:
    limits = {
        "max_narrowing_depth": 12, "max_advertisement_records_listed": most_listed,
        "max_partition_summaries": most_summaries,
    }  # fmt: skip
    table = Partitions(2)
    return OwnAdverts(limits, DEFAULT_PARAMETERS, table, Sketching(b"", 0, table, 0))


@pytest.mark.req("050-LIM-03", "050-REC-05")
def test_a_side_lists_no_more_than_agreed_whatever_is_asked() -> None:
    own = own_adverts(most_listed=2)
    own.table.put({note(i).hash: digest(b"x") * 2 for i in range(2)})
    ask = ("ListAdvertisementPartition", "")
    assert set(own.answer([ask]).listing) == {note(0).hash, note(1).hash}
    own.table.put({note(2).hash: digest(b"x") * 2})
    own.begin_loop()
    with pytest.raises(LimitExceeded):
        own.answer([ask])


@pytest.mark.req("050-LIM-04", "050-REC-06")
def test_a_side_says_no_more_summaries_than_agreed_whatever_is_asked() -> None:
    names = [note(i).hash for i in range(40)]
    first = {name[2] for name in names}
    deeper = {name[2:4] for name in names}
    own = own_adverts(most_listed=9, most_summaries=len(first) + len(deeper))
    own.table.put({name: digest(b"x") * 2 for name in names})

    def narrow() -> int:
        own.begin_loop()
        asks: list[tuple[str, ...]] = [
            ("NarrowAdvertisementPartition", prefix) for prefix in sorted(first)
        ]
        said = own.answer([("NarrowAdvertisementPartition", "")]).facts + own.answer(asks).facts
        return len(said)

    assert narrow() == len(first) + len(deeper)
    with pytest.raises(LimitExceeded) as caught:
        narrow()
    assert caught.value.limit == "max_partition_summaries"
    own.begin_round()
    assert narrow() == len(first) + len(deeper)


@pytest.mark.req("050-REC-05", "050-REC-06")
@pytest.mark.parametrize("name", ["ListAdvertisementPartition", "NarrowAdvertisementPartition"])
def test_a_question_is_answered_once_in_a_loop(name: str) -> None:
    """Each costs work, and an honest peer has no reason to ask again."""
    own = own_adverts(most_listed=9)
    own.table.put({note(1).hash: digest(b"x") * 2})
    ask = (name, "")
    said = own.answer([ask])
    assert said.listing == [note(1).hash] or len(said.facts) == 1
    with pytest.raises(ProtocolError) as caught:
        own.answer([ask])
    assert caught.value.code is Code.INTERLACE_PHASE
    own.begin_loop()
    assert own.answer([ask]) == said


@pytest.mark.req("050-LIM-01", "050-LIM-06", "050-ERR-13")
def test_as_many_record_bytes_as_allowed_and_one_more() -> None:
    records = [note(i) for i in range(6)]
    size = sum(len(record.raw) for record in records)
    right, _ = meet(records, Limits(max_total_transferred_bytes=size))
    assert result(right).bytes_received == size
    right, _ = meet(records, Limits(max_total_transferred_bytes=size - 1))
    assert aborted(right) is Code.LIMIT_EXCEEDED
    end = right.told[-1]
    assert isinstance(end, m.Aborted)
    assert set(end.result.received) == stored(right)  # what came before is told and kept
    assert len(stored(right)) == 5


@pytest.mark.req("050-LIM-07")
def test_rules_that_offer_what_the_peer_does_not_go_on_to_the_loop_limit() -> None:
    """What ``lace check`` warns of: each side takes back what the other one offers too."""
    turns = module_from_text(
        "SelectHave(P) :- Have(P), not Theirs(P).\n"
        "Theirs(P) :- Advertised(P,_).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    left, right = (participant(index, [note(1)], turns) for index in (0, 1))
    interlace(left, right, NOW)
    for side in (left, right):
        (end,) = side.told
        assert isinstance(end, m.Closed)
        assert end.ending is m.Ending.LOOPS
        assert end.result.loops == Limits().max_loop_iterations + 1


@pytest.mark.req("050-LIM-01", "050-LIM-07")
def test_as_many_loops_as_allowed_and_one_more() -> None:
    records = chain(5)
    module = with_support(NOTES)
    right, _ = meet(records, Limits(), module=module)
    needed = result(right).loops
    assert needed == len(records) + 1
    right, _ = meet(records, Limits(max_loop_iterations=needed), module=module)
    assert result(right).loops == needed
    assert len(stored(right)) == 5
    right, _ = meet(records, Limits(max_loop_iterations=needed - 1), module=module)
    assert not any(isinstance(event, m.FixedPoint) for event in right.told)
    end = right.told[-1]
    assert isinstance(end, m.Closed)
    assert f"max_loop_iterations of {needed - 1}" in end.reason


@pytest.mark.req("050-LIM-07")
def test_seventeen_loops_are_one_too_many() -> None:
    module = with_support(NOTES)
    right, _ = meet(chain(15), Limits(), module=module)
    assert result(right).loops == 16
    right, _ = meet(chain(16), Limits(), module=module)
    assert isinstance(right.told[-1], m.Closed)
    assert "max_loop_iterations" in right.told[-1].reason
    assert len(stored(right)) == 16


@pytest.mark.req("050-LIM-07")
def test_where_no_loop_is_allowed_nothing_is_said_to_have_arrived() -> None:
    right, _ = meet([note(1)], Limits(max_loop_iterations=0))
    (end,) = (event for event in right.told if isinstance(event, m.Closed))
    assert end.ending is m.Ending.LOOPS
    assert (end.result.ending, stored(right)) == (None, set())


@pytest.mark.req("050-LIM-07")
def test_a_last_loop_that_goes_on_is_judged_by_how_it_ended() -> None:
    """It transfers a record at a time, and one more is stored meanwhile, which comes last."""
    *first, late = sorted((note(number) for number in range(4)), key=lambda one: one.hash)
    limits = Limits(max_loop_iterations=1, transfer_phase_bytes=1)
    left, right = participant(0, first, limits=limits), participant(1, [], limits=limits)

    def write(_index: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerRecord | m.PeerValidated):
            left.store.save([late])
        return [crossing]

    interlace(left, right, NOW, write)
    assert stored(right) == {one.hash for one in (*first, late)}
    for side in (left, right):
        (end,) = side.told[-1:]
        assert isinstance(end, m.Closed)
        assert (end.ending, end.result.ending) == (m.Ending.LOOPS, m.Ending.LOOPS)


@pytest.mark.req("050-LIM-01", "050-LIM-08", "050-ERR-11")
def test_each_phase_has_its_time_and_no_more() -> None:
    for limits, seconds in ((Limits(), 30), (Limits(phase_timeout=7), 7)):
        left = participant(0, [note(1)], open=True, limits=limits)
        right = participant(1, [], open=True)
        timers: list[tuple[float | None, bool]] = []
        receive = left.machine.receive

        def watch(
            given: m.Input, now: object, receive: Callable[..., list[m.Effect]] = receive
        ) -> list[m.Effect]:
            effects = receive(given, now)
            timers.extend((e.seconds, e.silence) for e in effects if isinstance(e, m.SetTimer))  # noqa: B023
            return effects

        left.machine.receive = watch  # type: ignore[method-assign]
        interlace(left, right, NOW)
        # One for each phase, and at the end none: an open exchange waits as long as it likes.
        assert timers[-1] == (None, False)
        assert timers[:2] == [(seconds, False)] * 2  # set-up and hello, whatever is said
        assert set(timers[2:-1]) == {(seconds, True)}  # silence, from then on
        assert len(timers) > 8
    machine = InterlaceMachine(Side(index=0, module=NOTES, limits=Limits(phase_timeout=7)))
    assert m.SetTimer(7) in machine.receive(m.Started(), NOW)
    (told, _) = machine.receive(m.TimerFired(), NOW)
    assert isinstance(told, m.Emit)
    assert isinstance(told.event, m.Aborted)
    assert told.event.code is Code.INTERLACE_TIMEOUT


@pytest.mark.req("050-ERR-09", "050-REC-04")
@pytest.mark.parametrize("coarse", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        ("'1'", "'-1'"), ("'1'", "'01'"), ("'1'", "''"), ("'1'", "'one'"), ("')\n", "0')\n"), ("')\n", "!')\n"),
    ],
)  # fmt: skip
def test_a_malformed_summary_ends_the_exchange(change: tuple[str, str], coarse: bool) -> None:
    records = [note(i) for i in range(20)]
    old, new = (("'20'", change[1]) if coarse and change[0] == "'1'" else change)  # fmt: skip
    lie = facts_of(0, lambda b: b.replace(old.encode(), new.encode()), b"AdvertisementPartition")
    right, _ = meet(records, Limits(), tamper=lie, coarse=coarse)
    assert aborted(right) is Code.INTERLACE_SUMMARY
    assert stored(right) == set()


@pytest.mark.req("050-ERR-09")
@pytest.mark.parametrize("coarse", [True, False])
def test_a_summary_of_nothing_has_the_root_of_nothing(coarse: bool) -> None:
    records = [note(i) for i in range(20)]
    for root, fits in ((EMPTY, True), (digest(b"something"), False)):
        prefix = "" if coarse else note(1).hash[2:4]
        none = f"AdvertisementPartition('{prefix}','0','{b64a.encode(root)}')\n".encode()
        lie = instead(0, none, b"AdvertisementPartition")
        right, _ = meet(records, Limits(), tamper=lie, coarse=coarse)
        assert (right.told and isinstance(right.told[0], m.FixedPoint)) is fits
        if not fits:
            assert aborted(right) is Code.INTERLACE_SUMMARY


@pytest.mark.req("050-REC-08", "050-ERR-09")
@pytest.mark.parametrize("length", [0, 1, 3])
def test_reconciliation_starts_at_two_characters_unless_both_agree(length: int) -> None:
    records = [note(i) for i in range(20)]
    one = Summary(note(1).hash[2 : 2 + length], 20, EMPTY)
    other = f"AdvertisementPartition('{one.prefix}','20','{b64a.encode(EMPTY)}')\n".encode()
    lie = instead(0, other, b"AdvertisementPartition")
    right, _ = meet(records, Limits(), tamper=lie, coarse=False)
    assert aborted(right) is Code.INTERLACE_SUMMARY


@pytest.mark.req("050-REC-08")
def test_a_coarse_start_needs_both_sides() -> None:
    records = [note(i) for i in range(20)]
    for mine, theirs in ((True, False), (False, True), (False, False), (True, True)):
        left = participant(0, records, coarse=mine)
        right = participant(1, records, coarse=theirs)
        tap = Tap()
        interlace(left, right, NOW, tap)
        lengths = {len(prefix) for _, prefix, _, _ in tap.facts("AdvertisementPartition")}
        assert lengths == ({0} if mine and theirs else {2})
