"""Streams over pipes and sockets of the system: what stdio, unix and tcp have in common."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from lace.transport.base import CHUNK, LINGER_SECONDS, Handler, Take, broken_as_transport_error

_LINGER_CHUNKS = 16  # who goes on sending after that has no wish to hear our last word


class PromptReader(asyncio.StreamReader):
    """Offers bytes to somebody as they come, unless others wait to be read before them."""

    def __init__(self) -> None:
        super().__init__(limit=CHUNK)
        self.take: Take | None = None
        self._unread = 0  # bytes

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # nothing else comes
        if self.take is None or self._unread or not self.take(data):
            self._unread += len(data)
            super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        data = await super().read(n)
        self._unread -= len(data)
        return data


async def open_writer(
    connect: Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[tuple[Any, Any]]],
) -> tuple[PromptReader, asyncio.StreamWriter]:
    """Return both directions of a connection; ``connect`` makes it for a protocol."""
    reader = PromptReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await connect(lambda: protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


class SystemStream:
    """A stream over an asyncio reader and writer."""

    encrypted = False
    channel = ""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, peer: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._gone = False
        self.address = address
        self.peer = peer
        writer.transport.set_write_buffer_limits(high=CHUNK)
        sock = writer.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            # Lets the system find out when the other machine is gone for good.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    async def read(self) -> bytes:
        with broken_as_transport_error():
            return await self._reader.read(CHUNK)

    async def write(self, data: bytes) -> None:
        with broken_as_transport_error():
            for at in range(0, len(data), CHUNK):
                self._writer.write(data[at : at + CHUNK] if len(data) > CHUNK else data)
                await self._writer.drain()

    def hand_to(self, take: Take | None) -> None:
        if isinstance(self._reader, PromptReader):
            self._reader.take = take

    def write_now(self, data: bytes) -> bool:
        transport = self._writer.transport
        if transport.is_closing() or transport.get_write_buffer_size() + len(data) > CHUNK:
            return False
        transport.write(data)
        return True

    async def finish(self) -> None:
        """Send what is left, then wait a little for the peer's end.

        A socket that is closed while bytes of the peer are unread throws away what the peer has
        not read yet of ours.
        """
        if self._gone:
            return
        with suppress(OSError, RuntimeError):
            async with asyncio.timeout(LINGER_SECONDS):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                    for _ in range(_LINGER_CHUNKS):
                        if not await self._reader.read(CHUNK):
                            break
        self._writer.close()
        with suppress(OSError):
            async with asyncio.timeout(LINGER_SECONDS):
                await self._writer.wait_closed()
        self._let_go()

    def abort(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        if not self._gone:  # a pipe must not be aborted twice
            self._gone = True
            with suppress(AttributeError):  # asyncio's, when it has closed after its last bytes
                self._writer.transport.abort()


class SocketListener:
    """Takes connections from a server of asyncio."""

    def __init__(self, server: asyncio.Server, address: str) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        self._server.close()


class Accepting:
    """Makes a stream of each connection; ``address`` is what rules will see."""

    def __init__(self, handler: Handler, address: str) -> None:
        self._handler = handler
        self.address = address

    def protocol(self) -> asyncio.StreamReaderProtocol:
        """Return what asyncio needs for one connection."""
        return asyncio.StreamReaderProtocol(PromptReader(), self._take)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else self.address
        stream = SystemStream(reader, writer, self.address, peer)
        try:
            await self._handler(stream)
        finally:
            stream.abort()
