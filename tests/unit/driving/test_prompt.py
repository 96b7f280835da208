"""A few bytes are looked at as they come, and sent at once: nobody can tell that from the outside."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from exchanges import NOW
from meeting import within
from wires import EVERYTHING, OPEN, End, hashes, notes, run, store_of

from lace import b64a
from lace.answering.store import StoreAnswers
from lace.driving import exchange as driving
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.driving.ratelimit import RateLimit
from lace.errors import Code, TransportError
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Job
from lace.record import build_blob
from lace.recordstore import MemoryStore
from lace.recordstore.base import RecordStore
from lace.stream.binding import Endpoint
from lace.transport.address import parse_address
from lace.transport.base import ByteStream
from lace.transport.dial import connect, listen

NONCES = [b64a.encode(bytes([number]) * 32) for number in range(2)]


@dataclass
class Met:
    """Both ends of a connection over a real socket; that of the accepting side first."""

    far: ByteStream
    near: ByteStream


async def met(over: asyncio.Event) -> Met:
    accepted: asyncio.Queue[ByteStream] = asyncio.Queue()

    async def accept(stream: ByteStream) -> None:
        accepted.put_nowait(stream)
        await over.wait()

    listener = await listen(parse_address("tcp:127.0.0.1:0"), accept)
    near = await connect(parse_address(listener.address))
    far = await accepted.get()
    await listener.close()
    return Met(far, near)


def side(
    stream: ByteStream, store: RecordStore, index: int, answers: Any = StoreAnswers, **options: Any
) -> Exchange:
    limits: Limits = options.setdefault("limits", DEFAULT_LIMITS)
    endpoint = Endpoint(accepting=not index, nonce=NONCES[index], addresses=("here",))
    connection = Connection.over(
        endpoint,
        EVERYTHING,
        lambda side: answers.of(store, side, OPEN, limits),
        base=Side(index=index, module=EVERYTHING, open=True, limits=limits),
        limits=limits,
    )
    return Exchange(stream, connection, clock=lambda: NOW, **options)


class Spy:
    """Notes what a connection says, and how often its bytes were looked at as they came."""

    def __init__(self, exchange: Exchange) -> None:
        self.said = b""
        self.taken = 0
        send, take = exchange.connection.data_to_send, exchange._take

        def data_to_send() -> list[bytes]:
            pieces = send()
            self.said += b"".join(pieces)
            return pieces

        def taking(chunk: bytes) -> bool:
            took = take(chunk)
            self.taken += took
            return took

        exchange.connection.data_to_send = data_to_send  # type: ignore[method-assign]
        exchange._take = taking  # type: ignore[method-assign]


def meet(seed: int, prompt: tuple[bool, bool], *, threads: bool) -> tuple[list[Spy], list[Any]]:
    """Let two sides meet, and store something on either now and then; return what they said."""
    chance = random.Random(seed)
    stores = store_of(notes(6)), store_of(notes(6, start=4))
    rests: asyncio.Queue[int] = asyncio.Queue()

    async def work() -> tuple[list[Spy], list[Any]]:
        over = asyncio.Event()
        ends = await met(over)
        with ThreadPoolExecutor(2) as worker:
            sides = [
                side(
                    stream, store, index, prompt=prompt[index],
                    worker=worker if threads else None,
                    listen=lambda e, i=index: (
                        rests.put_nowait(i) if isinstance(e, m.FixedPoint) else None
                    ),
                )
                for index, (stream, store) in enumerate(
                    zip((ends.far, ends.near), stores, strict=True)
                )
            ]  # fmt: skip
            spies = list(map(Spy, sides))
            runs = [asyncio.create_task(one.run()) for one in sides]
            for number in range(6):
                assert {await rests.get(), await rests.get()} == {0, 1}
                which = chance.randrange(2)
                stores[which].save(notes(chance.randrange(1, 4), start=20 + 5 * number))
                sides[which].give(m.Woken())
            assert {await rests.get(), await rests.get()} == {0, 1}
            sides[chance.randrange(2)].give(m.CloseRequested())
            ended = await asyncio.gather(*runs)
        over.set()
        assert hashes(stores[0]) == hashes(stores[1])
        assert [one.traffic.bytes_out for one in sides] == [len(spy.said) for spy in spies]
        assert [one.traffic.bytes_in for one in sides] == [len(spy.said) for spy in spies[::-1]]
        return spies, ended

    return within(work())


@pytest.mark.parametrize("threads", [False, True], ids=["here", "threads"])
@pytest.mark.parametrize("seed", range(3))
def test_the_same_is_said_with_and_without_it(seed: int, threads: bool) -> None:
    plain, ended = meet(seed, (False, False), threads=threads)
    assert [spy.taken for spy in plain] == [0, 0]
    for prompt in ((True, True), (True, False), (False, True)):
        spies, ends = meet(seed, prompt, threads=threads)
        assert [spy.said for spy in spies] == [spy.said for spy in plain]
        assert ends == ended
        assert all(spy.taken > 0 for spy, used in zip(spies, prompt, strict=True) if used)


def test_nothing_is_taken_that_is_much_or_too_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not taken as it comes is looked at all the same, in its order."""
    monkeypatch.setattr(driving, "_SMALL", 40)
    limited = RateLimit(bytes_per_minute=10**9, phases_per_minute=10**9)

    async def work() -> None:
        over = asyncio.Event()
        ends = await met(over)
        stores = store_of(notes(40)), MemoryStore()
        far = side(ends.far, stores[0], 0, rate_limit=limited)
        near = side(ends.near, stores[1], 1, rate_limit=RateLimit(10**9, 0))
        spies = [Spy(far), Spy(near)]
        runs = [asyncio.create_task(one.run()) for one in (far, near)]
        while spies[0].taken == 0:
            await asyncio.sleep(0.001)
        assert spies[1].taken <= 2, "it has heard a phase before it is too fast"
        far.give(m.StreamFailed(Code.INTERLACE_TIMEOUT, "enough"))
        near.give(m.StreamFailed(Code.INTERLACE_TIMEOUT, "enough"))
        await asyncio.gather(*runs)
        over.set()

    within(work())


class Failing(StoreAnswers):
    """Answers with a fault of their own."""

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        yield from super().evaluate(asked)
        raise RuntimeError("a fault of ours")


def test_a_fault_while_bytes_are_looked_at_ends_the_exchange_that_it_is_in() -> None:
    async def work() -> None:
        over = asyncio.Event()
        ends = await met(over)
        far = side(ends.far, store_of(notes(3)), 0, Failing)
        near = side(ends.near, MemoryStore(), 1)
        ended = await asyncio.gather(far.run(), near.run(), return_exceptions=True)
        assert isinstance(ended[0], RuntimeError)
        assert isinstance(ended[1], m.Aborted)
        over.set()

    within(work())


@pytest.mark.parametrize("prompt", [True, False])
def test_a_peer_that_takes_nothing_is_ended(prompt: bool) -> None:
    """It asks for everything, and reads nothing of what it gets; a socket holds some of it."""
    store = store_of([build_blob(bytes([n]) * 1_000_000) for n in range(24)])
    limits = replace(DEFAULT_LIMITS, phase_timeout=1)

    async def work() -> None:
        over = asyncio.Event()
        ends = await met(over)
        for stream in (ends.far, ends.near):
            sock = stream._writer.get_extra_info("socket")  # type: ignore[attr-defined]
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        far = side(ends.far, store, 0, prompt=prompt, limits=limits)
        ours = End(Endpoint(accepting=False, nonce=NONCES[1], addresses=("here",)), MemoryStore())
        run(End(far.connection._bytes._endpoint, store), ours, 10**6)
        running = asyncio.create_task(far.run())
        try:
            for at in range(0, len(ours.sent), 50):
                await ends.near.write(bytes(ours.sent[at : at + 50]))
                await asyncio.sleep(0)
        except TransportError:
            pass
        ended = await running
        assert isinstance(ended, m.Aborted)
        assert ended.code is Code.INTERLACE_TIMEOUT
        assert "take" in ended.detail
        ends.near.abort()
        over.set()

    within(work())
