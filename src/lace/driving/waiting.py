"""A line before a server of few places: who finds none waits for one, and is let go if it leaves.

What somebody says while it waits is read, as far as there is room for it: so it is known when it
has gone, and nothing is lost of what it said.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from lace.driving.client import new_nonce
from lace.errors import Code, TransportError
from lace.stream.binding import Binding, Endpoint, farewell
from lace.transport.base import CHUNK, ByteStream, StreamOver

_AHEAD: Final = CHUNK  # bytes that are read of somebody who waits
_PATIENCE: Final = 20.0  # seconds, which are fewer than a peer waits for a phase


class Held(StreamOver):
    """A stream of which something was read already."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._reading: asyncio.Task[bytes] | None = None

    async def read(self) -> bytes:
        if self._chunks:
            return self._chunks.popleft()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            return await reading
        return await super().read()

    async def finish(self) -> None:
        if self._reading is not None:  # finishing reads on its own, so that the last bytes arrive
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        await super().finish()

    def abort(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        super().abort()

    async def wait(self, turn: asyncio.Future[None], seconds: float) -> bool:
        """Wait for a turn, at most so long; return False at once if the peer has gone."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not turn.done() and (left := end - loop.time()) > 0:
            if self._reading is None and self._size < _AHEAD:
                self._reading = asyncio.create_task(self._stream.read())
            waits: set[asyncio.Future[None] | asyncio.Task[bytes]] = {turn}
            if self._reading is not None:
                waits.add(self._reading)
            await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._reading is not None and self._reading.done() and not self._keep(self._reading):
                return False
        return True

    def _keep(self, reading: asyncio.Task[bytes]) -> bool:
        """Keep what was read; return False if that was all."""
        self._reading = None
        try:
            chunk = reading.result()
        except TransportError:
            return False
        self._chunks.append(chunk)
        self._size += len(chunk)
        return bool(chunk)


@dataclass(slots=True)
class Places:
    """Who is served at the same time, and who waits for that, in the order of coming."""

    most: int
    most_per_host: int
    most_waiting: int
    """At one time; of one host, half as many."""
    patience: float = _PATIENCE
    taken: Counter[str] = field(default_factory=Counter)
    """How many places each host has."""
    _line: list[tuple[str, asyncio.Future[None]]] = field(default_factory=list)
    _is_closed: bool = False

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._line)

    async def take(self, stream: ByteStream, host: str) -> ByteStream | None:
        """Return a stream that has a place; None if the peer has left, or has to be turned away.

        Whoever has a place gives it back by ``leave``.
        """
        if not self._is_closed and self._has_room_for(host):
            self.taken[host] += 1
            return stream
        if self._is_closed or not self._has_line_for(host):
            await turn_away(stream)
            return None
        held, turn = Held(stream), asyncio.get_running_loop().create_future()
        place = host, turn
        self._line.append(place)
        try:
            is_there = await held.wait(turn, self.patience)
        except BaseException:
            self._give_up(place)
            held.abort()
            raise
        if is_there and turn.done() and not turn.cancelled() and not self._is_closed:
            return held
        self._give_up(place)
        try:
            if is_there:
                await turn_away(held)
        finally:
            held.abort()
        return None

    def leave(self, host: str) -> None:
        """Give a place back, to whoever has waited longest and may have it."""
        self.taken[host] -= 1
        if not self.taken[host]:
            del self.taken[host]
        for place in list(self._line):
            other, turn = place
            if self._has_room_for(other):
                self._line.remove(place)
                self.taken[other] += 1
                turn.set_result(None)

    def open(self) -> None:
        """Give places, as from the beginning; needed after ``close`` only."""
        self._is_closed = False

    def close(self) -> None:
        """Let nobody wait any more, and give no place that is not taken up yet."""
        self._is_closed = True
        line, self._line = self._line, []
        for _, turn in line:
            turn.cancel()

    def _has_room_for(self, host: str) -> bool:
        return self.taken.total() < self.most and self.taken[host] < self.most_per_host

    def _has_line_for(self, host: str) -> bool:
        same = sum(1 for other, _ in self._line if other == host)
        return len(self._line) < self.most_waiting and same < max(1, self.most_waiting // 2)

    def _give_up(self, place: tuple[str, asyncio.Future[None]]) -> None:
        """Leave the line, or the place that was just given."""
        if place in self._line:
            self._line.remove(place)
        elif place[1].done() and not place[1].cancelled():
            self.leave(place[0])


async def turn_away(stream: ByteStream) -> None:
    """Tell somebody that there is no room, and end."""
    greeting = Binding(Endpoint(accepting=True, nonce=new_nonce(), addresses=())).greeting()
    try:
        await stream.write(greeting + farewell(Code.SERVE_FULL))
        await stream.finish()
    except TransportError:
        stream.abort()
