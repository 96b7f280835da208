"""How much a host is sent: never more than a minute's worth ahead, in turn, and never for nothing."""

from __future__ import annotations

import random
from weakref import ref

import pytest
from effort import examples

from lace.driving.ratelimit import Allowance, Allowances


@pytest.mark.parametrize("seed", range(examples(50)))
def test_what_is_sent_by_any_time_has_room_by_then(seed: int) -> None:
    chance = random.Random(seed)
    most = chance.choice([60, 1000, 10**6])
    room, now, sent = Allowance(most), 100.0, []
    for _ in range(chance.randint(1, 200)):
        now += chance.choice([0, 0, 0.1, 5, 200])
        size = chance.randint(1, max(1, most // 3))
        had = room.has(now, size)
        seconds = room.take(now, size)
        assert had == (seconds == 0)
        sent.append((now + seconds, size))
    times = [time for time, _ in sent]
    assert times == sorted(times)  # whoever asks first is sent to first
    for begin in times:
        for end in times:
            within = sum(size for time, size in sent if begin <= time <= end)
            if begin <= end:
                assert within <= most + (end - begin) * most / 60 + most / 3 + 1e-6


def test_whoever_sends_little_waits_for_nothing_however_long() -> None:
    room = Allowance(6000)
    assert all(room.take(100.0 + second, 100) == 0 for second in range(1000))


def test_the_pieces_of_a_slow_allowance_are_small() -> None:
    assert Allowance(600_000).piece == 100
    assert Allowance(1).piece == 1


def test_a_host_finds_its_own_again_and_those_at_rest_are_let_go() -> None:
    rooms = Allowances(60)
    busy = rooms.of("busy", 0.0)
    busy.take(0.0, 60)
    assert rooms.of("busy", 1.0) is busy
    for number in range(5000):
        rooms.of(f"host {number}", 1.0)
    assert len(rooms) < 2500
    assert rooms.of("busy", 2.0) is busy
    for number in range(5000):
        rooms.of(f"other {number}", 100.0)
    assert len(rooms) < 2500
    assert rooms.of("busy", 100.0) is busy  # a connection may still have it


def test_what_neither_has_been_used_nor_is_held_is_let_go() -> None:
    rooms = Allowances(60)
    gone = ref(rooms.of("gone", 0.0))
    for number in range(5000):
        rooms.of(f"host {number}", 1.0)
    assert gone() is None
