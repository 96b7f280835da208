"""Exchanges that stand alike go on in unison; what each says and does is the same as alone."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from choir import Choir, Line, alone, unison
from exchanges import note
from small_limits import hold_to

from lace.answering.member import Heard
from lace.driving.unison import Turn, Unison, Voice
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.stream.binding import farewell


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what voices do."""
    counts: Counter[str] = Counter()
    take, keep = Voice._pass, Voice._keep

    def count_passed(voice: Voice, turn: Turn, seen: Heard | None) -> bool:
        passed = take(voice, turn, seen)
        counts["said again" if passed else "not current"] += 1
        return passed

    def count_kept(voice: Voice, turn: Turn) -> bool:
        kept = keep(voice, turn)
        counts["found out" if kept else "apart"] += 1
        return kept

    monkeypatch.setattr(Voice, "_pass", count_passed)
    monkeypatch.setattr(Voice, "_keep", count_kept)
    return counts


def full(
    unison: Unison | None, peers: int, held: int = 20, limits: Limits = DEFAULT_LIMITS
) -> Choir:
    """Return a server whose peers have come to rest, all alike."""
    choir = Choir(random.Random(0), unison, limits=limits)
    choir.store.save([note(i) for i in range(held)])
    for _ in range(peers):
        choir.join()
    choir.calm()
    assert all(line.server.idle for line in choir.lines)
    return choir


def has(line: Line, hash: str) -> bool:
    return line.store.has(hash)  # type: ignore[arg-type]


@pytest.mark.parametrize("few", [False, True], ids=["", "little is kept"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_each_exchange_says_and_does_what_it_would_alone(
    seed: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:
        hold_to(monkeypatch, kept_passages=1, passage_bytes=4000)
    unison(seed)


def test_one_finds_out_what_the_others_say(counted: Counter[str]) -> None:
    choir = full(Unison(), peers=6)
    machines = [line.server.machine for line in choir.lines]
    fed: Counter[int] = Counter()
    for number, machine in enumerate(machines):
        receive = machine.receive

        def count(given: m.Input, now: object, n: int = number, r: object = receive) -> object:
            fed[n] += 1
            return r(given, now)  # type: ignore[operator]

        machine.receive = count  # type: ignore[method-assign, assignment]
    hash = choir.save()
    choir.wake()
    choir.calm()
    assert all(has(line, hash) for line in choir.lines)
    assert list(fed) == [0]  # the machines of the others were given nothing
    assert counted["said again"] == 5 * counted["found out"]
    assert all(line.server.idle for line in choir.lines)


def test_in_unison_again_and_again_and_then_alone(counted: Counter[str]) -> None:
    choir, plain = full(Unison(), peers=4), full(None, peers=4)
    for each in (choir, plain):
        for _ in range(5):
            each.save()
            each.wake()
            each.calm()
        last = each.lines[-1]
        last.store.save([note(7000)])
        last.client.tell(m.Woken(), each.now)
        each.settle(last)
        each.calm()
        each.wake()
        each.calm()
    assert counted["said again"] > 60
    assert choir.trace == plain.trace
    assert choir.store.has(note(7000).hash)
    assert alone(choir) == alone(plain)


def test_who_says_anything_else_goes_on_alone(counted: Counter[str]) -> None:
    """A client that works aloud in the middle is followed by the machine itself."""
    choir, plain = full(Unison(), peers=3), full(None, peers=3)
    for each in (choir, plain):
        hash = each.save()
        each.wake()
        each.work_aloud(each.lines[2])
        each.calm()
        assert all(has(line, hash) for line in each.lines)
    assert counted["said again"]
    assert choir.trace == plain.trace


def test_who_takes_no_packed_lines_is_told_none() -> None:
    """What is said goes out as bytes, and those depend on what the peer can read."""
    choir = Choir(random.Random(0), Unison())
    for number in range(4):
        choir.join(packs=number % 2 == 0)
    choir.calm()
    hashes = [choir.save() for _ in range(8)]  # enough to be worth packing
    choir.wake()
    choir.calm()
    assert all(line.client.ended is None for line in choir.lines)
    assert all(has(line, hash) for line in choir.lines for hash in hashes)


def test_a_farewell_counts_also_if_others_have_said_the_same() -> None:
    """What a peer says beside the exchange is of its connection alone."""
    choir, plain = full(Unison(), peers=4), full(None, peers=4)
    for each in (choir, plain):
        each.save()
        each.wake()
        for line in each.lines:
            each.work_aloud(line, farewell(Code.INTERLACE_GONE))
        each.calm()
        for line in list(each.lines):
            each.leave(line)
        assert {type(line.server.ended) for line in each.gone} == {m.Aborted}
    assert choir.trace == plain.trace


def test_who_goes_on_in_unison_is_not_idle(counted: Counter[str]) -> None:
    """A server that stops asks those to close that are idle, and waits for the others."""
    choir = full(Unison(), peers=3)
    choir.save()
    choir.wake()
    assert counted["said again"] == 2
    assert not any(line.server.idle for line in choir.lines)
    choir.calm()
    assert all(line.server.idle for line in choir.lines)


@pytest.mark.parametrize("size", [1 << 20, 1], ids=["", "byte by byte"])
def test_a_round_in_unison_has_as_much_time_as_any_other(counted: Counter[str], size: int) -> None:
    """Also if the peer says something again and again, so that it is never silent."""
    hurried = replace(DEFAULT_LIMITS, round_seconds=15)
    choir, plain = full(Unison(), 2, limits=hurried), full(None, 2, limits=hurried)
    for each in (choir, plain):
        each.save()
        each.wake()
        first, second = each.lines
        while first.to_server or first.to_client:
            each.deliver(first, True, 1 << 20)
            each.deliver(first, False, 1 << 20)
        while second.server.ended is None and (second.to_server or second.to_client):
            each.pass_time(6)
            each.deliver(second, True, size)
            each.deliver(second, False, 1 << 20)
        assert first.server.idle
        assert isinstance(second.server.ended, m.Aborted)
    assert counted["said again"]
    assert choir.trace == plain.trace


def test_a_record_that_is_forgotten_meanwhile_leaves_nobody(counted: Counter[str]) -> None:
    """What is said in unison is as new as the question (L-C)."""
    choir = full(Unison(), peers=2)
    first, second = choir.lines
    hash = choir.save()
    choir.wake()
    while not has(first, hash):
        choir.deliver(first, True, 1 << 20)
        choir.deliver(first, False, 1 << 20)
    choir.forget(hash)
    choir.calm()
    assert not has(second, hash)
    assert f"NotAvailable('{hash}')".encode() in second.said
    assert counted["not current"]


def test_a_peer_that_waits_for_each_phase_is_answered_phase_by_phase() -> None:
    """What is kept is cut where the peer ends a phase, however its bytes were cut (050-COR-04)."""
    choir, plain = full(Unison(), peers=2), full(None, peers=2)
    for each in (choir, plain):
        each.save()
        each.wake()
        first, second = each.lines
        while first.to_server or first.to_client:
            each.deliver(first, True, 1 << 20)
            each.deliver(first, False, 1 << 20)
        while second.to_server or second.to_client:
            each.deliver(second, True, 1)
            each.deliver(second, False, 1 << 20)
    assert choir.trace == plain.trace


@pytest.mark.parametrize("is_woken", [False, True])
def test_who_has_left_is_told_no_more_than_alone(is_woken: bool) -> None:
    """Bytes may wait here whose end is known already: no answer to them is of any use."""
    choir, plain = full(Unison(), peers=3), full(None, peers=3)
    for each in (choir, plain):
        each.save()
        last = each.lines[-1]
        last.server.is_left = is_woken
        each.wake()
        last.server.is_left = True
        each.calm()
        each.leave(last)
    assert choir.trace == plain.trace


def test_what_is_kept_counts_with_its_answers_and_its_tables() -> None:
    many = {str(note(i).hash): b"x" * 64 for i in range(100)}
    assert Turn(inputs=[m.Evaluated(sendable=many)]).size > 100 * 100
    passages = Unison()
    choir = full(passages, peers=2, held=100)
    choir.save()
    choir.wake()
    choir.calm()
    own, peers = choir.lines[0].server.machine.tables
    for line in list(choir.lines):
        choir.leave(line)
    assert passages.memory > own.memory + peers.memory


def test_passages_count_as_memory_and_can_be_dropped() -> None:
    passages = Unison()
    choir = full(passages, peers=3)
    choir.save()
    choir.wake()
    assert passages.memory > 0
    passages.clear()
    assert passages.memory == 0
    choir.calm()
    assert all(line.server.idle for line in choir.lines)
