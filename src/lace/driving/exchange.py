"""One exchange over one byte stream: reads while it writes, and never lets memory grow without end.

What the peer sends is handed to the connection in the order it came, in a worker thread where one
is given, so that evaluation and storing never hold up other connections. Records that come are
validated in other threads, and stored in the worker, while more are read. What the connection sends
waits in a queue of its own. A peer that goes on without taking what it was sent is made to wait: an
honest one is at most a phase ahead of what it has read. While the worker works for long, the peer
is told so, and does not take it for silence.

Most of what comes and goes is small, and to wake a task for it costs as much as to deal with it. So
a few bytes are looked at as they come if nothing else is to be done, and what is to be sent goes at
once if nothing waits and the stream has room for it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from lace import collector
from lace.clock import tai_now
from lace.driving.connection import Connection, Timer
from lace.driving.pace import Pace
from lace.driving.ratelimit import RateLimit
from lace.driving.saving import Job, Storing
from lace.errors import Code, TransportError
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Job as Errand
from lace.stream.binding import WORKING, farewell
from lace.tai import Tai
from lace.threads import Account, Threads, do
from lace.transport.base import CHUNK, ByteStream, PromptStream

Listen = Callable[[m.Event], None]

_AHEAD: Final = 2 * CHUNK  # bytes that are read, but not yet handed on
_PHASES_UNSENT: Final = 2  # ended by us, but not yet taken by the peer
_WRITE: Final = 1 << 16  # bytes that must be taken before the peer counts as silent
_LAST_WORD_SECONDS: Final = 1.0
_SMALL: Final = 1 << 12  # bytes that are sooner looked at than handed to another thread
_STANDSTILL_SECONDS: Final = 0.25  # by which an alarm is late because nothing ran, not even this
_WORKING_SECONDS: Final = 5.0  # of work, after which the peer is told that it goes on
_REST_SECONDS: Final = 5.0  # after a fixed point; most peers have gone by then
_VALIDATING: Final = 4  # threads at most: a part of their work is done by one at a time


@dataclass(slots=True)
class Traffic:
    """What one connection has carried."""

    bytes_in: int = 0
    bytes_out: int = 0


class _Over:
    """The peer's bytes have ended."""


class _Rest:
    """Both sides have rested for a while, or may have."""


@dataclass(frozen=True, slots=True)
class _Done:
    """A job of the connection's has been done, or has failed."""

    job: Job
    work: asyncio.Future[None] | None = None


_Given = bytes | m.Order | m.StreamFailed | Timer | _Over | _Rest | _Done


@dataclass(frozen=True, slots=True)
class _Turn:
    """A few bytes were looked at as they came: there is more to do, or it ended, or it failed."""

    error: Exception | None = None


_Came = _Given | _Turn


@cache
def _validators() -> Threads:
    """Return the threads that validate, for all exchanges of this process."""
    return Threads(min(_VALIDATING, os.cpu_count() or 1), "lace-validate")


if hasattr(os, "register_at_fork"):  # threads do not come along into a process that was forked
    os.register_at_fork(after_in_child=_validators.cache_clear)


class Exchange:
    """Drives one connection over one stream, from its first byte to the end."""

    def __init__(
        self,
        stream: ByteStream,
        connection: Connection,
        *,
        limits: Limits = DEFAULT_LIMITS,
        listen: Listen | None = None,
        worker: Executor | None = None,
        reader: Executor | None = None,
        rate_limit: RateLimit | None = None,
        clock: Callable[[], Tai] = tai_now,
        working_seconds: float = _WORKING_SECONDS,
        prompt: bool = True,
    ) -> None:
        self.connection = connection
        connection.hands_out = True
        self.traffic = Traffic()
        self._stream = stream
        self._prompt = stream if prompt and isinstance(stream, PromptStream) else None
        self._limits = limits
        self._listen = listen or (lambda _event: None)
        self._worker = worker
        self._reader = reader
        self._rate_limit = rate_limit
        self._sends = None if rate_limit is None else rate_limit.sends
        self._is_held_back = False  # what waits to be sent may not be sent yet
        self._clock = clock
        self._working_seconds = working_seconds
        self._inbox: deque[_Came] = deque()
        self._done: deque[_Done] = deque()
        self._arrived = asyncio.Event()  # something in one of these two
        self._is_resting = False  # nothing is done until something arrives
        self._ahead = 0  # bytes that were read and not yet handed on
        self._working = 0  # what is being done for this exchange in other threads
        self._tells: asyncio.TimerHandle | None = None
        self._pace = Pace()
        self._account = Account()  # of the work that was done in other threads
        self._errand: Errand | None = None  # what is waited for
        self._turn: tuple[Executor, asyncio.Future[None]] | None = None  # of work, in a thread
        self._is_over = False  # the peer sends no more
        self._is_unheard = False  # nothing can be sent any more
        self._outbox: deque[tuple[bytes, bool]] = deque()  # with whether a phase ends there
        self._unsent = 0  # bytes in the outbox
        self._unsent_ends = 0
        self._offered: float | None = None  # since when the peer is to take what is written
        self._watch: asyncio.TimerHandle | None = None
        self._moved: asyncio.Event | None = None  # while somebody waits for room
        self._heard = 0.0  # when bytes came last, or later by as long as nobody listened
        self._quiet_since = 0.0  # when either side has said anything, or this one was told to
        self._phases_sent = 0
        self._timer: Timer | None = None
        self._due = 0.0  # when the time of the timer is over
        self._alarm: asyncio.TimerHandle | None = None  # rings then, or before
        self._rings = 0.0  # when it does
        self._forgiven: Timer | None = None  # it was over because nothing ran
        self._rests: asyncio.TimerHandle | None = None

    # --- from outside ---

    def give(self, order: m.Order | m.StreamFailed) -> None:
        """Hand over an order of this side's own (``Woken``, ``CloseRequested``, …)."""
        if isinstance(order, m.StreamFailed):
            self._cancel_errand()
        self._put(order)

    def drop(self, why: m.StreamFailed, seconds: float) -> None:
        """End because of this; the peer has so long to hear of it, and is not waited for."""
        self.give(why)
        asyncio.get_running_loop().call_later(seconds, self._stream.abort)

    @property
    def waiting(self) -> int:
        """Bytes that wait here, in either direction."""
        return self._unsent + self._ahead

    @property
    def memory(self) -> int:
        """About how many bytes this holds: what waits, facts, and tables."""
        return self.waiting + self.connection.memory

    @property
    def memory_apart(self) -> int:
        """The same without tables, which exchanges share."""
        return self.waiting + self.connection.memory_apart

    async def run(self) -> m.Closed | m.Aborted:
        """Run to the end; return how it ended. The stream is closed then."""
        self._heard = self._quiet_since = asyncio.get_running_loop().time()
        self._pass_on()
        if self._prompt is not None:
            self._prompt.hand_to(self._take)
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        try:
            while self.connection.ended is None:
                await self._step(await self._next())
            await self._say_goodbye(self.connection.ended, reading, writing)
        finally:
            self._tell_later(None)
            if self._prompt is not None:
                self._prompt.hand_to(None)
            for handle in (self._alarm, self._rests, self._watch):
                if handle is not None:
                    handle.cancel()
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            self._stream.abort()
        return self.connection.ended

    # --- the loop ---

    def _put(self, came: _Came) -> None:
        self._inbox.append(came)
        self._arrived.set()

    async def _next(self) -> _Came:
        """Return what is to be handed on: jobs that are done, and what came if there is room."""
        while True:
            if self._done:
                return self._done.popleft()
            if self._inbox and not self.connection.is_full:
                return self._inbox.popleft()
            self._arrived.clear()
            self._is_resting = True
            await self._arrived.wait()
            self._is_resting = False

    async def _step(self, came: _Came) -> None:
        if isinstance(came, bytes):
            while self._unsent_ends > _PHASES_UNSENT:  # not for ever: see _write_piece
                await self._movement()
        elif not isinstance(came, _Done | _Over | _Rest | _Turn):
            self._quiet_since = asyncio.get_running_loop().time()  # nobody has waited for this
        if not isinstance(came, _Turn):
            await self._do(came)
        elif came.error is not None:
            raise came.error
        while self._has_work():  # others have their turn in between
            if self.connection.errand is not None:
                await self._wait(self.connection.errand)
            if self._has_work():
                await self._do(None)
        if isinstance(came, bytes):
            self._ahead -= len(came)
            self._note()

    def _has_work(self) -> bool:
        """Return whether there is work to go on with; for a peer that has gone there is less."""
        self.connection.is_left = self._is_over
        return self.connection.has_work

    async def _do(self, came: _Given | None) -> None:
        """Let the connection take what came, or go on with its work; send what it has to say."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if isinstance(came, _Done) and came.work is not None:
            came.work.result()
        # Decided once: a job that ends meanwhile may change what is to be done next.
        reads = isinstance(came, bytes | m.Woken | _Over) or (
            came is None and not self.connection.needs_records
        )
        waits = self._worker is None or not reads
        is_short = isinstance(came, m.Woken | _Over) or (
            isinstance(came, bytes) and len(came) <= _SMALL
        )
        if self._worker is None or is_short:
            self._hand_on(came, waits)
        else:
            threads = self._reader if reads and self._reader is not None else self._worker
            self._begin_work()
            work = do(threads, partial(self._hand_on, came, waits), self._account)
            self._turn = (threads, work) if came is None else None
            try:
                await work
            finally:
                self._turn = None
                self._end_work()
        # This side may not have listened meanwhile: that was no silence of the peer's.
        self._heard = min(loop.time(), self._heard + loop.time() - began)
        self._pass_on()

    def _take(self, chunk: bytes) -> bool:
        """Look at a few bytes as they come, if nothing else is to be done; else do not take them.

        It is no longer than what would be looked at in this thread anyway; what is left to do is
        done in turn, as ever.
        """
        if (
            not self._is_resting
            or len(chunk) > _SMALL
            or self._inbox
            or self._done
            or self._unsent_ends > _PHASES_UNSENT
            or self.connection.is_full
        ):
            return False
        loop = asyncio.get_running_loop()
        began, size = loop.time(), self.traffic.bytes_in + len(chunk)
        limit, phases = self._rate_limit, self.connection.phases_received
        if limit is not None and limit.wait(began, size, phases) > 0:
            return False
        self.traffic.bytes_in, self._is_resting = size, False
        self._quiet_since = began
        try:
            self._hand_on(chunk, self._worker is None)
            self._heard = loop.time()
            self._pass_on()
        except Exception as error:  # noqa: BLE001 (whoever runs this meets it)
            self._put(_Turn(error))
        else:
            if self.connection.has_work or self.connection.ended is not None:
                self._put(_Turn())
        self._is_resting = True
        return True

    def _hand_on(self, came: _Given | None, waits: bool) -> None:
        """Let the connection do something; records are looked at only if it ``waits``."""
        connection, now = self.connection, self._clock()
        connection.is_left = self._is_over  # perhaps while this waited for a thread
        with collector.paused():
            match came:
                case None:
                    connection.work(now, self._pace.bytes, waits=waits)
                case bytes():
                    with self._pace.measured() if len(came) > _SMALL else nullcontext():
                        connection.receive_data(came, now, self._pace.bytes, waits=waits)
                case Timer():
                    connection.receive_timer(came, now)
                case _Over():
                    connection.receive_eof(now, waits=waits)
                case _Done():
                    connection.receive_done(came.job, now, self._pace.bytes)
                case _Rest():
                    self._rests = None
                    connection.rest()
                case m.StreamFailed():
                    connection.receive_failure(came, now)
                case _:
                    connection.tell(came, now, waits=waits)

    async def _wait(self, errand: Errand) -> None:
        """Wait for what is done elsewhere, as long as the peer is there to hear of it."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def note() -> None:
            if not done.done():
                done.set_result(None)

        def tell() -> None:
            with suppress(RuntimeError):  # the loop may be gone already
                loop.call_soon_threadsafe(note)

        self._errand = errand
        errand.when_done(tell)
        if self._is_over or self._is_unheard:
            self._cancel_errand()
        self._begin_work()
        try:
            await done
        finally:
            self._end_work()
            self._errand = None
            errand.cancel()  # does nothing to what is done

    def _cancel_errand(self) -> None:
        if self._errand is not None:
            self._errand.cancel()

    def _give_up_turn(self) -> None:
        """Wait for no thread any more, if that is for an answer that nobody waits for."""
        if self._turn is not None and self.connection.machine.needs_peer:
            threads, work = self._turn
            if isinstance(threads, Threads):
                threads.withdraw(work)

    def _pass_on(self) -> None:
        """Send what the connection says, begin its jobs, set its timer, and tell what happened."""
        connection = self.connection
        before, self._phases_sent = self._phases_sent, connection.phases_sent
        self._send(connection.data_to_send(), self._phases_sent - before)
        for job in connection.jobs():
            self._begin(job)
        if connection.timer != self._timer:
            self._set_alarm(connection.timer)
        for event in connection.events():
            if isinstance(event, m.FixedPoint):
                self._rest_later()
            self._listen(event)

    def _rest_later(self) -> None:
        """Let go soon of what others may wait for, unless the exchange is over by then.

        It is over for most peers as soon as they have everything. Whatever they say meanwhile, it
        is not put off.
        """
        if self._rests is None and self.connection.ended is None:
            loop = asyncio.get_running_loop()
            self._rests = loop.call_later(_REST_SECONDS, self._put, _Rest())

    # --- work in other threads ---

    def _begin(self, job: Job) -> None:
        """Let a job be done: beside everything, or where the store is used."""
        executor = self._worker if isinstance(job, Storing) else _validators()
        if executor is None:
            _run(job)
            self._finish(_Done(job))
            return
        self._begin_work()
        work = do(executor, partial(_run, job), self._account)
        work.add_done_callback(lambda work: self._finish(_Done(job, work)))

    def _finish(self, done: _Done) -> None:
        if done.work is not None:
            self._end_work()
        self._done.append(done)
        self._arrived.set()

    def _begin_work(self) -> None:
        self._working += 1
        if self._working == 1:
            patience = self.connection.machine.phase_timeout  # of the peer: a part of it may go
            seconds = min(self._working_seconds, patience / 3)
            # Many short turns, each of which waits for others, are long work too.
            quiet = asyncio.get_running_loop().time() - self._quiet_since
            self._tell_later(seconds, max(0.0, seconds - quiet))

    def _end_work(self) -> None:
        self._working -= 1
        if not self._working:
            self._tell_later(None)

    def _tell_later(self, seconds: float | None, first: float | None = None) -> None:
        """Tell the peer from time to time that work goes on; ``first`` is when that begins."""
        if self._tells is not None:
            self._tells.cancel()
            self._tells = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            after = seconds if first is None else first
            self._tells = loop.call_later(after, self._tell_working, seconds)

    def _tell_working(self, seconds: float) -> None:
        if not self._outbox:  # else there is enough for the peer to hear
            self._send([WORKING], 0)
        self._tell_later(seconds)

    # --- reading ---

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._ahead >= _AHEAD:
                    await self._movement()
                chunk = await self._stream.read()
                self._heard = self._quiet_since = loop.time()
                if not chunk:
                    break
                self.traffic.bytes_in += len(chunk)
                self._ahead += len(chunk)
                self._put(chunk)
                if self._rate_limit is not None:
                    phases = self.connection.phases_received
                    wait = self._rate_limit.wait(loop.time(), self.traffic.bytes_in, phases)
                    await asyncio.sleep(wait)
        except TransportError as error:
            if error.code is not Code.TRANSPORT_LOST:
                self._put(m.StreamFailed(error.code, error.message))
        self._is_over = True
        self._cancel_errand()
        self._give_up_turn()
        self._put(_Over())

    # --- writing ---

    def _send(self, pieces: list[bytes], ends: int) -> None:
        data = b"".join(pieces)
        if data and not self._is_unheard:
            self._quiet_since = asyncio.get_running_loop().time()
            if self._sends_now(data):
                return
            size = _WRITE if self._sends is None else min(_WRITE, self._sends.piece)
            self._outbox.extend((data[at : at + size], False) for at in range(0, len(data), size))
            self._unsent += len(data)
            self._unsent_ends += ends
            self._outbox.extend([(b"", True)] * ends)
            self._note()

    def _sends_now(self, data: bytes) -> bool:
        """Send a few bytes at once, if nothing waits before them; return whether that was done."""
        if self._prompt is None or self._outbox or len(data) > _WRITE:
            return False
        now = asyncio.get_running_loop().time()
        if self._sends is not None and not self._sends.has(now, len(data)):
            return False
        if not self._prompt.write_now(data):
            return False
        if self._sends is not None:
            self._sends.take(now, len(data))
        self.traffic.bytes_out += len(data)
        return True

    async def _write(self) -> None:
        try:
            async with asyncio.timeout(None) as patience:
                while True:
                    while not self._outbox:
                        await self._movement()
                    data, is_end = self._outbox[0]
                    if data:
                        await self._wait_for_room(len(data))
                        await self._write_piece(data, patience)
                    self._outbox.popleft()
                    self._is_held_back &= bool(self._outbox)
                    self._unsent -= len(data)
                    self.traffic.bytes_out += len(data)
                    self._unsent_ends -= is_end
                    self._note()
        except TransportError:
            pass  # whoever reads will hear that the connection is gone
        except TimeoutError:
            self.give(m.StreamFailed(Code.INTERLACE_TIMEOUT, "the peer does not take what is sent"))
        # Nothing can be sent any more; nothing may wait for it either.
        self._is_unheard = True
        self._cancel_errand()
        self._outbox.clear()
        self._unsent = self._unsent_ends = 0
        self._is_held_back = False
        self._note()

    async def _wait_for_room(self, size: int) -> None:
        """Wait until so many bytes may be sent to this host; the peer cannot answer before."""
        if self._sends is None:
            return
        seconds = self._sends.take(asyncio.get_running_loop().time(), size)
        if seconds > 0:
            self._is_held_back = True
            await asyncio.sleep(seconds)

    async def _write_piece(self, data: bytes, patience: asyncio.Timeout) -> None:
        """Write, for as long as the peer takes something, or says something."""
        self._offered = asyncio.get_running_loop().time()
        if self._watch is None:
            self._watch_writing(self._limits.phase_timeout, patience)
        await self._stream.write(data)
        self._offered = None

    def _watch_writing(self, seconds: float, patience: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        self._watch = loop.call_later(seconds, self._look_at_writing, patience)

    def _look_at_writing(self, patience: asyncio.Timeout) -> None:
        """Give up if the peer has taken and said nothing for too long; else look again later."""
        self._watch = None
        if self._offered is None:
            return
        now = asyncio.get_running_loop().time()
        # While this side works it may not read, and that is no silence of the peer's.
        heard = now if self._working else max(self._offered, self._heard)
        left = heard + self._limits.phase_timeout - now
        if left <= 0:
            patience.reschedule(now)
        else:
            self._watch_writing(left, patience)

    def _note(self) -> None:
        """Wake whoever waits for something to be taken, or sent."""
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    async def _movement(self) -> None:
        if self._moved is None:
            self._moved = asyncio.Event()
        await self._moved.wait()

    async def _say_goodbye(
        self,
        ended: m.Closed | m.Aborted,
        reading: asyncio.Task[None],
        writing: asyncio.Task[None],
    ) -> None:
        """Send what is left, with a word on why if there was more to exchange."""
        if ended.code is not None:
            self._send([farewell(ended.code)], 0)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                while self._outbox and not writing.done():
                    await self._movement()
        reading.cancel()  # finishing reads on its own, so that the last bytes arrive
        await asyncio.gather(reading, return_exceptions=True)
        with suppress(TransportError):
            await self._stream.finish()

    # --- time ---

    def _set_alarm(self, timer: Timer | None) -> None:
        """Set another timer. Most are replaced long before: an alarm that rings early stays."""
        self._timer = timer
        if timer is None:
            return
        loop = asyncio.get_running_loop()
        self._due = loop.time() + timer.seconds
        if self._alarm is not None and self._rings > self._due:
            self._alarm.cancel()
            self._alarm = None
        if self._alarm is None:
            self._ring_at(self._due)

    def _ring_at(self, time: float) -> None:
        self._rings = time
        self._alarm = asyncio.get_running_loop().call_at(time, self._ring)

    def _ring(self) -> None:
        """Tell that time is over; after a standstill, what came meanwhile is heard first."""
        self._alarm = None
        if self._timer is None:
            return
        loop = asyncio.get_running_loop()
        late = loop.time() - self._due
        if late < 0:
            self._ring_at(self._due)
        elif self._is_held_back:  # the peer waits for this side
            self._ring_at(loop.time() + self._timer.seconds)
        elif late > _STANDSTILL_SECONDS and self._forgiven is not self._timer:
            self._forgiven = self._timer
            self._ring_at(loop.time() + _STANDSTILL_SECONDS)
        else:
            self._put(self._timer)


def _run(job: Job) -> None:
    with collector.paused():
        job.run()
