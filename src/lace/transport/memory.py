"""A stream within one process: two ends, bounded buffers, no system underneath."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from lace.errors import Code, TransportError
from lace.transport.base import CHUNK

ADDRESS: Final = "memory"


class _Pipe:
    """One direction."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self.ended = False
        self.broken = False

    async def put(self, data: bytes) -> None:
        if self.ended or self.broken:
            raise TransportError("the connection is closed", code=Code.TRANSPORT_LOST)
        self._chunks.append(data)
        self._size += len(data)
        self._wake()
        while self._size > self._room and not self.broken:
            await self._wait()
        if self.broken:
            raise TransportError("the connection broke", code=Code.TRANSPORT_LOST)

    async def take(self) -> bytes:
        while not (self._chunks or self.ended or self.broken):
            await self._wait()
        if self.broken:
            raise TransportError("the connection broke", code=Code.TRANSPORT_LOST)
        if not self._chunks:
            return b""
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._wake()
        return chunk

    def end(self) -> None:
        self.ended = True
        self._wake()

    def break_off(self) -> None:
        self.broken = True
        self._chunks.clear()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()


class MemoryStream:
    """One end of a stream within one process."""

    address = ADDRESS
    encrypted = False
    channel = ""
    peer = ADDRESS

    def __init__(self, incoming: _Pipe, outgoing: _Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def read(self) -> bytes:
        return await self._incoming.take()

    async def write(self, data: bytes) -> None:
        await self._outgoing.put(data)

    async def finish(self) -> None:
        self._outgoing.end()

    def abort(self) -> None:
        if not self._outgoing.ended:  # what was finished still arrives
            self._outgoing.break_off()
        self._incoming.break_off()


def memory_streams(room: int = CHUNK) -> tuple[MemoryStream, MemoryStream]:
    """Return both ends of a stream; at most about ``room`` bytes wait in each direction."""
    there, back = _Pipe(room), _Pipe(room)
    return MemoryStream(back, there), MemoryStream(there, back)
