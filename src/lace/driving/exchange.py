"""One exchange over one byte stream: reads while it writes, and never lets memory grow without end.

What the peer sends is handed to the participant in the order it came, in a worker thread where one
is given, so that evaluation and storing never hold up other connections. What the participant sends
waits in a queue of its own. A peer that goes on without taking what it was sent is made to wait: an
honest one is at most a phase ahead of what it has read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lace import collector
from lace.errors import Code, TransportError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.clock import tai_now
from lace.driving.ratelimit import Pace
from lace.driving.participant import Participant
from lace.stream.binding import Binding, Connection
from lace.tai import Tai
from lace.transport.base import ByteStream

MakeParticipant = Callable[[Side], Participant]
Listen = Callable[[m.Event], None]
ModuleFor = Callable[[Verifier], PolicyModule]
"""Says what to exchange with a peer, once it is known who that is."""

_CHUNKS_AHEAD: Final = 2  # read, but not yet handed on
_PHASES_UNSENT: Final = 2  # ended by us, but not yet taken by the peer
_WRITE: Final = 1 << 16  # bytes that must be taken within the time of one phase
_LAST_WORD_SECONDS: Final = 1.0
_UNCHANGED: Final = -1.0  # no machine sets a timer into the past


@dataclass(slots=True)
class Traffic:
    """What one connection has carried."""

    bytes_in: int = 0
    bytes_out: int = 0


class _Over:
    """The peer's bytes have ended."""


@dataclass(frozen=True, slots=True)
class _Fired:
    """A timer has run out; it may have been set anew since."""

    timer: int


class Exchange:
    """Drives one participant over one stream, from the preface to the end."""

    def __init__(
        self,
        stream: ByteStream,
        connection: Connection,
        module: PolicyModule,
        make: MakeParticipant,
        *,
        base: Side | None = None,
        limits: Limits = DEFAULT_LIMITS,
        listen: Listen | None = None,
        worker: Executor | None = None,
        pace: Pace | None = None,
        module_for: ModuleFor | None = None,
        clock: Callable[[], Tai] = tai_now,
    ) -> None:
        self._stream = stream
        self._binding = Binding(connection, limits)
        self._module = module
        self._make = make
        self._base = base
        self._limits = limits
        self._listen = listen or (lambda _event: None)
        self._worker = worker
        self._pace = pace
        self._module_for = module_for
        self._clock = clock
        self.participant: Participant | None = None
        self.traffic = Traffic()
        self._inbox: asyncio.Queue[bytes | m.Input | _Over | _Fired] = asyncio.Queue()
        self._ahead = 0  # bytes that were read and not yet handed on
        self._room = asyncio.Semaphore(_CHUNKS_AHEAD)
        self._outbox: deque[tuple[bytes, bool]] = deque()  # with whether a phase ends there
        self._unsent = 0  # bytes in the outbox
        self._unsent_ends = 0
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timers = 0
        self._is_late = False
        self._last: m.Closed | m.Aborted | None = None

    # --- from outside ---

    def give(self, given: m.Input) -> None:
        """Hand over an input of this side's own (``Woken``, ``CloseRequested``, …)."""
        self._inbox.put_nowait(given)

    @property
    def waiting(self) -> int:
        """Bytes that wait here, in either direction."""
        return self._unsent + self._ahead + self._binding.held

    @property
    def memory(self) -> int:
        """About how many bytes this holds: what waits, facts, and tables."""
        return self.waiting + (0 if self.participant is None else self.participant.memory)

    async def run(self) -> m.Closed | m.Aborted:
        """Run to the end; return how it ended. The stream is closed then."""
        self._set_timer(self._limits.phase_timeout)
        self._send([self._binding.greeting()])
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        try:
            while self._last is None:
                await self._step(await self._inbox.get())
            await self._say_goodbye(reading, writing)
        finally:
            self._set_timer(None)
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            self._stream.abort()
        return self._last

    # --- the loop ---

    async def _step(self, came: bytes | m.Input | _Over | _Fired) -> None:
        inputs: list[m.Input]
        if isinstance(came, bytes):
            while self._unsent_ends > _PHASES_UNSENT and not self._is_late:
                await self._moved.wait()
            inputs = self._binding.receive(came)
            self._ahead -= len(came)
            self._room.release()
            inputs = self._with_module(inputs)
        elif isinstance(came, _Over):
            inputs = [self._binding.end()]
        elif isinstance(came, _Fired):
            inputs = [m.TimerFired()] if came.timer == self._timers else []
        else:
            inputs = [came]
        if self.participant is None:
            if not self._binding.has_met:
                if inputs:
                    self._end_before_start(inputs[-1])
                return
            self.participant = self._make(self._binding.side(self._module, self._base))
            inputs.insert(0, m.Started())
        await self._work(self.participant, inputs)

    async def _work(self, participant: Participant, inputs: list[m.Input]) -> None:
        """Hand inputs to the participant, pass on what it sends, and tell what happened."""
        if not inputs:
            return

        def work() -> list[bytes]:
            pieces: list[bytes] = []
            with collector.paused():
                for given in inputs:
                    now = self._clock()
                    pieces += self._binding.send(participant.give(given, now), now)
                    if participant.closed:
                        break
            return pieces

        participant.timer = _UNCHANGED
        before = self._binding.phases_sent
        if self._worker is None:
            pieces = work()
        else:
            pieces = await asyncio.get_running_loop().run_in_executor(self._worker, work)
        self._send(pieces, ends=self._binding.phases_sent - before)
        if participant.timer != _UNCHANGED:
            self._set_timer(participant.timer)
        events = participant.events.copy()
        participant.events.clear()
        for event in events:
            self._listen(event)
            if isinstance(event, m.Closed | m.Aborted):
                self._last = event

    def _with_module(self, inputs: list[m.Input]) -> list[m.Input]:
        """Change to what is meant for this peer as soon as it has proven who it is.

        Whoever has proven nothing never gets to read what others may do.
        """
        proven = next((given for given in inputs if isinstance(given, m.PeerProven)), None)
        if proven is None or self._module_for is None:
            return inputs
        module = self._module_for(proven.verifier)
        if module.id == self._module.id:
            return inputs
        at = inputs.index(proven) + 1
        return [*inputs[:at], m.OperandChanged(module), *inputs[at:]]

    def _end_before_start(self, given: m.Input) -> None:
        """Tell of an end that came before there was an exchange."""
        match given:
            case m.StreamFailed():
                code, detail, blame = given.code, given.detail, m.Blame.REMOTE
            case m.TimerFired():
                code, blame = Code.INTERLACE_TIMEOUT, m.Blame.LINK
                detail = "the peer did not begin"
            case m.CloseRequested():
                self._last = m.Closed("asked to close", m.InterlaceResult())
                self._listen(self._last)
                return
            case m.PeerGone():
                code, blame = Code.INTERLACE_GONE, m.Blame.LINK
                detail = "the connection ended before an exchange began"
            case _:
                return
        self._last = m.Aborted(code, detail, blame, m.InterlaceResult())
        self._listen(self._last)

    # --- reading ---

    async def _read(self) -> None:
        try:
            while True:
                await self._room.acquire()
                chunk = await self._stream.read()
                if not chunk:
                    break
                self.traffic.bytes_in += len(chunk)
                self._ahead += len(chunk)
                self._inbox.put_nowait(chunk)
                if self._pace is not None:
                    now = asyncio.get_running_loop().time()
                    await asyncio.sleep(
                        self._pace.wait(now, self.traffic.bytes_in, self._binding.phases_received)
                    )
        except TransportError as error:
            if error.code is not Code.TRANSPORT_LOST:
                self._inbox.put_nowait(m.StreamFailed(error.code, error.message))
        self._inbox.put_nowait(_Over())

    # --- writing ---

    def _send(self, pieces: list[bytes], ends: int = 0) -> None:
        data = b"".join(pieces)
        if data:
            self._outbox.extend(
                (data[at : at + _WRITE], False) for at in range(0, len(data), _WRITE)
            )
            self._unsent += len(data)
            self._unsent_ends += ends
            self._outbox.extend([(b"", True)] * ends)
            self._note()

    async def _write(self) -> None:
        try:
            while True:
                while not self._outbox:
                    await self._moved.wait()
                data, is_end = self._outbox[0]
                if data:
                    async with asyncio.timeout(self._limits.phase_timeout):
                        await self._stream.write(data)
                self._outbox.popleft()
                self._unsent -= len(data)
                self.traffic.bytes_out += len(data)
                self._unsent_ends -= is_end
                self._note()
        except TransportError:
            pass  # whoever reads will hear that the connection is gone
        except TimeoutError:
            self.give(m.StreamFailed(Code.INTERLACE_TIMEOUT, "the peer does not take what is sent"))
        # Nothing can be sent any more; nothing may wait for it either.
        self._outbox.clear()
        self._unsent = self._unsent_ends = 0
        self._note()

    def _note(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _say_goodbye(self, reading: asyncio.Task[None], writing: asyncio.Task[None]) -> None:
        """Send what is left, with a word on why if it did not end in order."""
        assert self._last is not None
        if isinstance(self._last, m.Aborted):
            self._send([self._binding.farewell(self._last.code)])
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                while self._outbox and not writing.done():
                    await self._moved.wait()
        reading.cancel()  # finishing reads on its own, so that the last bytes arrive
        await asyncio.gather(reading, return_exceptions=True)
        with suppress(TransportError):
            await self._stream.finish()

    # --- time ---

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timers += 1
        self._is_late = False
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._fire, self._timers)

    def _fire(self, timer: int) -> None:
        self._is_late = True  # what waits for the peer must not wait any longer
        self._inbox.put_nowait(_Fired(timer))
        self._note()
