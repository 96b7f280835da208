"""Who finds no place waits for one; who leaves meanwhile is let go, and nothing is lost."""

from __future__ import annotations

import asyncio

from meeting import within

from lace.driving.waiting import Held, Places
from lace.errors import Code
from lace.transport.base import ByteStream
from lace.transport.memory import memory_streams

FAREWELL = f"# closing: {Code.SERVE_FULL}".encode()


async def comes(places: Places, host: str) -> tuple[asyncio.Task[ByteStream | None], ByteStream]:
    """Let somebody come; return what becomes of it, and the other end."""
    near, far = memory_streams()
    task = asyncio.create_task(places.take(near, host))
    await asyncio.sleep(0.01)
    return task, far


async def heard(far: ByteStream) -> bytes:
    """Return all that an end hears."""
    found = b""
    while chunk := await far.read():
        found += chunk
    return found


def test_places_are_given_in_the_order_of_coming_as_far_as_a_host_may_have_them() -> None:
    async def work() -> None:
        places = Places(most=3, most_per_host=2, most_waiting=10)
        first = [await comes(places, "a") for _ in range(4)]
        second = [await comes(places, "b") for _ in range(2)]
        done = [task.done() for task, _ in first + second]
        assert done == [True, True, False, False, True, False]
        places.leave("b")
        await asyncio.sleep(0.01)
        assert second[1][0].done()
        places.leave("a")
        await asyncio.sleep(0.01)
        assert [task.done() for task, _ in first] == [True, True, True, False]
        assert places.taken == {"a": 2, "b": 1}
        assert places.waiting == 1
        places.close()
        assert await first[3][0] is None
        assert FAREWELL in await heard(first[3][1])

    within(work())


def test_what_is_said_while_somebody_waits_is_not_lost() -> None:
    async def work() -> None:
        places = Places(most=1, most_per_host=1, most_waiting=10)
        await comes(places, "a")
        task, far = await comes(places, "b")
        await far.write(b"one")
        await asyncio.sleep(0.01)
        await far.write(b"two")
        await asyncio.sleep(0.01)
        places.leave("a")
        stream = await task
        assert isinstance(stream, Held)
        await far.write(b"three")
        found = b""
        while len(found) < 11:
            found += await stream.read()
        assert found == b"onetwothree"
        await stream.write(b"answer")
        assert await far.read() == b"answer"
        await stream.finish()

    within(work())


def test_who_leaves_the_line_is_let_go_at_once() -> None:
    async def work() -> None:
        places = Places(most=1, most_per_host=1, most_waiting=10)
        await comes(places, "a")
        task, far = await comes(places, "b")
        await far.write(b"rules")
        far.abort()
        assert await task is None
        assert places.waiting == 0
        places.leave("a")
        assert not places.taken

    within(work())


def test_who_waits_for_too_long_is_told_so() -> None:
    async def work() -> None:
        places = Places(most=1, most_per_host=1, most_waiting=10, patience=0.05)
        await comes(places, "a")
        task, far = await comes(places, "b")
        assert await task is None
        assert FAREWELL in await heard(far)
        assert places.waiting == 0

    within(work())


def test_a_line_has_an_end_and_one_host_has_half_of_it() -> None:
    async def work() -> None:
        places = Places(most=1, most_per_host=1, most_waiting=4)
        await comes(places, "a")
        lined = [await comes(places, "a") for _ in range(3)]
        assert [task.done() for task, _ in lined] == [False, False, True]
        assert FAREWELL in await heard(lined[2][1])
        others = [await comes(places, host) for host in "bcd"]
        assert [task.done() for task, _ in others] == [False, False, True]
        places.close()

    within(work())


def test_nobody_gets_a_place_when_all_is_over() -> None:
    """Neither who was given one at that very moment, nor who comes behind."""

    async def work() -> None:
        places = Places(most=1, most_per_host=1, most_waiting=10)
        await comes(places, "a")
        waiting, far = await comes(places, "b")
        places.leave("a")
        places.close()
        assert await waiting is None
        assert FAREWELL in await heard(far)
        late, far = await comes(places, "c")
        assert await late is None
        assert FAREWELL in await heard(far)
        assert not places.taken

    within(work())


def test_who_is_turned_away_is_not_read_by_two() -> None:
    """A stream is read while it is finished: else the peer may lose the last word."""

    async def work() -> None:
        reading, most = 0, 0

        async def read() -> bytes:
            nonlocal reading, most
            reading += 1
            most = max(most, reading)
            try:
                return await near_read()
            finally:
                reading -= 1

        async def finish() -> None:
            assert not reading
            await near_finish()

        near, far = memory_streams()
        near_read, near_finish = near.read, near.finish
        near.read, near.finish = read, finish  # type: ignore[method-assign]
        places = Places(most=0, most_per_host=1, most_waiting=10, patience=0.05)
        assert await places.take(near, "a") is None
        assert most == 1
        assert FAREWELL in await heard(far)

    within(work())
