"""Working is not silence, and talking is not working: what time may end, and what it may not.

``phase_timeout`` is one second throughout. What works for longer than that must not be ended.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

import pytest
from exchanges import NOW, note, participant, stored
from meeting import within
from sides import Pair
from wires import EVERYTHING, OPEN, End, hashes, nonce, notes, store_of

import lace
from lace.answering.store import StoreAnswers
from lace.clock import tai_now
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.errors import Code, Outcome, TransportError
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.phases import Phase
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Job
from lace.record import Record, build_blob
from lace.recordstore import MemoryStore
from lace.recordstore.base import RecordStore
from lace.stream.binding import WORKING, Endpoint
from lace.tai import NS_PER_SECOND, Tai, add_ns
from lace.transport.address import parse_address
from lace.transport.base import ByteStream
from lace.transport.dial import connect, listen
from lace.transport.memory import MemoryStream, memory_streams
from lace.transport.sockets import SystemStream

HASTY: Final = replace(DEFAULT_LIMITS, phase_timeout=1)
LONG: Final = 1.6  # seconds of work: longer than a peer may be silent


class Slow(StoreAnswers):
    """Answers that take their time, each time that one kind of question is asked."""

    slow = ""

    def _work(self, name: str) -> None:
        if name == self.slow:
            time.sleep(LONG)

    def recall(self, asked: m.Recall) -> m.Recalled:
        self._work("recall")
        return super().recall(asked)

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        self._work("evaluate")
        yield from super().evaluate(asked)

    def describe(self, asked: m.Describe) -> m.Described:
        self._work("describe")
        return super().describe(asked)

    def serve(self, asked: m.Serve) -> m.Served:
        self._work("serve")
        return super().serve(asked)

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        self._work("save")
        return super().save(records)


def exchange(
    stream: ByteStream,
    store: RecordStore,
    *,
    accepting: bool,
    worker: ThreadPoolExecutor | None = None,
    slow: str = "",
    limits: Limits = HASTY,
    clock: Callable[[], Tai] = tai_now,
    working_seconds: float = 0.2,
) -> Exchange:
    def answers(side: Side) -> Slow:
        made = Slow.of(store, side, OPEN, limits)
        assert isinstance(made, Slow)
        made.slow = slow
        return made

    endpoint = Endpoint(accepting=accepting, nonce=new_nonce(), addresses=("here",))
    connection = Connection.over(endpoint, EVERYTHING, answers, limits=limits)
    return Exchange(
        stream, connection, limits=limits, worker=worker, clock=clock,
        working_seconds=working_seconds,
    )  # fmt: skip


@asynccontextmanager
async def streams(kind: str) -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Give both ends of a stream: that of the accepting side first."""
    if kind != "tcp":
        yield memory_streams(*([1000] if kind == "narrow" else []))
        return
    accepted: asyncio.Queue[ByteStream] = asyncio.Queue()
    over = asyncio.Event()

    async def accept(stream: ByteStream) -> None:
        accepted.put_nowait(stream)
        await over.wait()

    listener = await listen(parse_address("tcp:127.0.0.1:0"), accept)
    near = await connect(parse_address(listener.address))
    yield await accepted.get(), near
    over.set()
    await listener.close()


class Lazy(MemoryStream):
    """An end that is read from time to time, and then everything at once."""

    async def read(self) -> bytes:
        data = await super().read()
        await asyncio.sleep(0.1)
        while self._incoming._chunks:
            data += await super().read()
        return data


def meet(
    kind: str,
    stores: tuple[RecordStore, RecordStore],
    slow: tuple[str, str],
    *,
    lazy: int | None = None,
    **options: object,
) -> list[m.Closed | m.Aborted]:
    """Let two sides exchange, each with a thread to work in; return how it ended for each."""

    async def work() -> list[m.Closed | m.Aborted]:
        with ThreadPoolExecutor(2) as worker:
            async with streams(kind) as made:
                ends = list(made)
                if lazy is not None:
                    end = ends[lazy]
                    assert isinstance(end, MemoryStream)
                    ends[lazy] = Lazy(end._incoming, end._outgoing)
                runs = [
                    exchange(
                        end, store, accepting=not index, worker=worker, slow=slow[index],
                        **options,  # type: ignore[arg-type]
                    ).run()
                    for index, (end, store) in enumerate(zip(ends, stores, strict=True))
                ]  # fmt: skip
                return list(await asyncio.gather(*runs))

    return within(work(), 120)


# --- a side that works ---


@pytest.mark.req("050-ERR-11", "050-LIM-08")
@pytest.mark.parametrize("kind", ["memory", pytest.param("tcp", marks=pytest.mark.long)])
@pytest.mark.parametrize("question", ["recall", "evaluate", "describe", "serve", "save"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_that_works_for_long_does_not_lose_its_peer(
    side: int, question: str, kind: str
) -> None:
    stores = store_of(notes(5)), store_of(notes(5, start=3))
    slow = (question, "") if side == 0 else ("", question)
    for ended in meet(kind, stores, slow):
        assert isinstance(ended, m.Closed), ended
    assert hashes(stores[0]) == hashes(stores[1])


def test_it_need_not_be_told_how_patient_the_peer_is() -> None:
    """Comments come as often as the agreed time asks for, also if five seconds are the rule."""
    stores = store_of(notes(5)), store_of(notes(5, start=3))
    for ended in meet("memory", stores, ("evaluate", ""), working_seconds=5.0):
        assert isinstance(ended, m.Closed), ended
    assert hashes(stores[0]) == hashes(stores[1])


@pytest.mark.parametrize("side", [0, 1])
def test_nor_does_it_if_it_hears_two_phases_at_once(side: int) -> None:
    """A hello that is held back until the work is done would come too late."""
    stores = store_of(notes(5)), store_of(notes(5, start=3))
    slow = ("recall", "") if side == 0 else ("", "recall")
    for ended in meet("memory", stores, slow, lazy=side):
        assert isinstance(ended, m.Closed), ended
    assert hashes(stores[0]) == hashes(stores[1])


def blobs(seed: int) -> list[Record]:
    chance = random.Random(seed)
    return [build_blob(chance.randbytes(1 << 20)) for _ in range(6)]


@pytest.mark.req("060-TRN-05", "050-ERR-11")
@pytest.mark.parametrize("kind", ["narrow", "tcp"])
@pytest.mark.parametrize(
    "slow", [("save", ""), ("", "save"), ("save", "save"), ("serve", "save"), ("serve", "serve")]
)
def test_nor_while_much_waits_to_be_written_both_ways(slow: tuple[str, str], kind: str) -> None:
    stores = store_of(blobs(1)), store_of(blobs(2))
    for ended in meet(kind, stores, slow):
        assert isinstance(ended, m.Closed), ended
    assert stores[0].count() == stores[1].count() == 12


def test_what_there_is_to_say_is_said_before_work_begins() -> None:
    """Else a peer would wait for our hello until we have looked at all our records."""
    asked: list[Phase] = []

    class Noting(StoreAnswers):
        def recall(self, asked_for: m.Recall) -> m.Recalled:
            asked.append(Phase.HELLO)
            return super().recall(asked_for)

    store = store_of(notes(3))
    ours = End(Endpoint(accepting=True, nonce=nonce(), addresses=()), store)
    theirs = End(Endpoint(accepting=False, nonce=nonce(), addresses=()), MemoryStore())
    ours.local = Noting.of(store, ours.binding.side(EVERYTHING), OPEN)
    connection = ours.connection
    read = 0
    for _ in range(3):
        theirs.take(bytes(ours.sent))
        ours.sent.clear()
        chunk = bytes(theirs.sent[read:])
        read += len(chunk)
        connection.receive_data(chunk, NOW)
        said = b"".join(connection.data_to_send())
        ours.sent += said
        if connection.has_work:
            break
    assert connection.has_work
    assert b"HelloTAI" in said
    assert asked == []
    connection.work(NOW)
    assert asked == [Phase.HELLO]


# --- a peer that does not ---


_LONG = 10**9


async def fall_silent(stream: MemoryStream, last: Phase | None) -> None:
    """Speak as an honest peer does up to the end of a phase, and say nothing after that."""
    endpoint = Endpoint(accepting=False, nonce=new_nonce(), addresses=("here",))
    limits = replace(DEFAULT_LIMITS, clock_seconds=_LONG)
    peer = End(endpoint, store_of(notes(9)), limits=limits)
    send, is_silent = peer.binding.send, last is None

    def saying(sent: Iterable[m.Outgoing], now: Tai) -> list[bytes]:
        nonlocal is_silent
        pieces = []
        for each in sent:
            if not is_silent:
                pieces += send([each], now)
                is_silent = isinstance(each, m.EndPhase) and each.phase is last
        return pieces

    peer.binding.send = saying  # type: ignore[method-assign]
    connection, sent = peer.connection, 0
    while True:
        await stream.write(bytes(peer.sent[sent:]))
        sent = len(peer.sent)
        if is_silent:
            return
        came = await stream.read()
        assert came, "the other side ended before this one fell silent"
        connection.receive_data(came, NOW)
        peer._pass_on()


def faced_with(
    last: Phase | None, drips: bytes, *, worker: bool = False, **limits: int
) -> m.Aborted:
    """Return how an exchange ends with a peer that falls silent, but for something that it drips."""
    # The peer's clock stands still.
    ours = replace(DEFAULT_LIMITS, clock_seconds=_LONG, **limits)

    async def work() -> m.Closed | m.Aborted:
        near, far = memory_streams()
        with ThreadPoolExecutor(1) as thread:
            made = exchange(
                far, store_of(notes(3)), accepting=True, limits=ours,
                worker=thread if worker else None,
            )  # fmt: skip
            running = asyncio.create_task(made.run())
            await fall_silent(near, last)
            with suppress(TransportError):
                while drips and not running.done():
                    await near.write(drips)
                    await asyncio.sleep(0.05)
            return await running

    ended = within(work(), 60)
    assert isinstance(ended, m.Aborted), ended
    assert (ended.code, ended.blame) == (Code.INTERLACE_TIMEOUT, m.Blame.LINK)
    return ended


@pytest.mark.req("050-ERR-11", "050-LIM-08")
@pytest.mark.parametrize("worker", [False, True])
@pytest.mark.parametrize("last", [None, Phase.SETUP, Phase.HELLO, Phase.ADVERTISE, Phase.ASK])
def test_a_peer_that_falls_silent_is_given_up(last: Phase | None, worker: bool) -> None:
    ended = faced_with(last, b"", worker=worker, phase_timeout=1)
    following = {
        None: Phase.SETUP, Phase.SETUP: Phase.HELLO, Phase.HELLO: Phase.ADVERTISE,
        Phase.ADVERTISE: Phase.ASK, Phase.ASK: Phase.ANSWER,
    }  # fmt: skip
    assert ended.detail == f"the peer took more than 1 s in {following[last]}"


@pytest.mark.req("050-ERR-11", "050-LIM-08")
@pytest.mark.parametrize("last", [None, Phase.SETUP])
@pytest.mark.parametrize("drips", [WORKING, b"#"])
def test_before_hello_is_over_nothing_that_a_peer_drips_gives_it_more_time(
    last: Phase | None, drips: bytes
) -> None:
    ended = faced_with(last, drips, phase_timeout=1)
    assert ended.detail.startswith("the peer took more than 1 s in ")


@pytest.mark.req("050-LIM-08", "050-BND-05")
@pytest.mark.parametrize("last", [Phase.HELLO, Phase.ADVERTISE, Phase.ASK])
@pytest.mark.parametrize("drips", [WORKING, b"x"])
def test_after_that_a_round_has_an_end_whatever_is_dripped(last: Phase, drips: bytes) -> None:
    """Comments alone, or an item that never comes to its end."""
    ended = faced_with(last, drips, phase_timeout=1, round_seconds=2)
    assert ended.detail == "a round took more than 2 s"


def test_a_comment_buys_time_but_no_more() -> None:
    ended = faced_with(Phase.HELLO, WORKING, phase_timeout=1, round_seconds=2)
    assert "round" in ended.detail
    ended = faced_with(Phase.HELLO, b"", phase_timeout=1, round_seconds=2)
    assert "advertise" in ended.detail


# --- clocks ---


@pytest.mark.parametrize("years", [-20, 20])
def test_a_clock_that_jumps_does_not_end_a_round(years: int) -> None:
    """It is set once on each side, in the middle of the exchange."""
    stores = store_of(notes(40)), store_of(notes(40, start=20))
    jump = years * 365 * 86400 * NS_PER_SECOND
    calls = 0

    def clock() -> Tai:
        nonlocal calls
        calls += 1
        return add_ns(tai_now(), jump if calls > 12 else 0)

    for ended in meet("memory", stores, ("", ""), clock=clock, limits=DEFAULT_LIMITS):
        assert isinstance(ended, m.Closed), ended
    assert calls > 24
    assert hashes(stores[0]) == hashes(stores[1])


@pytest.mark.req("050-LIM-08")
def test_time_is_counted_for_a_round_and_no_longer() -> None:
    """An hour in all, in any pieces; at rest no time passes, and each round has its own hour."""
    machine_time = 0

    def later(seconds: int) -> Tai:
        nonlocal machine_time
        machine_time += seconds
        return add_ns(NOW, machine_time * NS_PER_SECOND)

    limits = Limits(round_seconds=100)
    pair = Pair(
        participant(0, [note(1)], open=True, limits=limits),
        participant(1, [], open=True, limits=limits),
    )
    pair.start(later(0))
    while pair.step(later(1)):
        pass
    assert pair.left.idle
    for number in (2, 3):
        pair.left.store.save([note(number)])
        pair.tell(0, m.Woken(), later(10_000))
        while pair.step(later(2)):
            pass
        assert pair.left.idle
        assert stored(pair.right) == stored(pair.left)
    pair.left.store.save([note(4)])
    pair.tell(0, m.Woken(), later(0))
    while pair.step(later(29)):
        pass
    assert [side.ended and side.ended.detail for side in pair.sides].count(
        "a round took more than 100 s"
    ) >= 1


# --- within one process ---


def test_a_driver_of_both_sides_takes_all_the_time_it_likes() -> None:
    """It calls no timer, and an hour may pass between any two steps of any number."""
    hours = 0

    def clock() -> Tai:
        nonlocal hours
        hours += 1
        return add_ns(NOW, hours * 3600 * NS_PER_SECOND)

    with lace.open(records=notes(300)) as left, lace.open(records=notes(300, start=200)) as right:
        stepped = lace.SteppedInterlace(left, right, "//g//notes//", stays=False, clock=clock)
        events: list[m.Event | lace.EventsMissed] = []
        while not events or not isinstance(events[-1], m.Closed | m.Aborted):
            events += filter(None, [stepped.try_next_event()])
        stepped.close()
    assert isinstance(events[-1], m.Closed), events[-1]
    assert len(events[-1].result.received) == 200
    assert hours > 120


def test_a_pair_that_is_never_told_of_its_timers_converges() -> None:
    pair = Pair(participant(0, [note(1)], limits=HASTY), participant(1, [note(2)], limits=HASTY))
    pair.start(NOW)
    step = 1
    while pair.step(add_ns(NOW, step * 60 * NS_PER_SECOND)):
        step += 1
    assert stored(pair.left) == stored(pair.right) == {note(1).hash, note(2).hash}


def test_a_standstill_is_not_the_peers_silence() -> None:
    """A machine that was suspended finds both its alarms and the peer's words waiting."""
    stores = store_of(notes(5)), store_of(notes(5, start=10))
    stood: list[bytes] = []

    async def meet() -> list[m.Closed | m.Aborted]:
        async with streams("tcp") as (far, near):
            assert isinstance(near, SystemStream)
            write = near.write_now

            def write_and_stand_still(data: bytes) -> bool:
                if (done := write(data)) and b"Advertised('" in data:
                    stood.append(data)
                    time.sleep(LONG)  # nothing else runs either
                return done

            near.write_now = write_and_stand_still  # type: ignore[method-assign]
            sides = (
                exchange(far, stores[0], accepting=True), exchange(near, stores[1], accepting=False),
            )  # fmt: skip
            return list(await asyncio.gather(*(side.run() for side in sides)))

    ended = within(meet())
    assert stood
    assert all(isinstance(end, m.Closed) for end in ended), ended
    assert hashes(stores[0]) == hashes(stores[1])


def test_many_short_turns_are_told_as_work_too() -> None:
    """Each of them ends before anything would be told; all of them together take long."""

    async def work() -> tuple[bytes, bytes]:
        here, there = memory_streams()
        side = exchange(here, MemoryStore(), accepting=True, limits=DEFAULT_LIMITS)
        running = asyncio.create_task(side.run())
        greeting = await there.read()
        for _ in range(12):
            side._begin_work()
            await asyncio.sleep(0.05)
            side._end_work()
        said = await there.read()
        there.abort()
        await running
        return greeting, said

    greeting, said = within(work(), 20)
    assert WORKING not in greeting
    assert said.startswith(WORKING)
