"""Streams over WebSockets: binary messages whose boundaries mean nothing (G7)."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidHandshake
from websockets.http11 import Request, Response
from websockets.typing import Origin

from lace.errors import Code, TransportError
from lace.limits import FIXED
from lace.transport.address import PATH, Address
from lace.transport.base import CHUNK, Gate, Handler, reason
from lace.transport.tls import channel_of

_MESSAGE: Final = 1 << 16
_UNSUPPORTED_DATA: Final = 1003
_OPEN_SECONDS: Final = 10.0
_QUIET: Final = logging.getLogger("lace.websocket")  # bad handshakes are no news of ours
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class WebSocketStream:
    """A stream over the binary messages of one WebSocket."""

    def __init__(
        self, opened: Connection, address: str, peer: str, *, encrypted: bool, channel: str = ""
    ) -> None:
        self._socket = opened
        self.channel: str | None = channel
        self.address = address
        self.peer = peer
        self.encrypted = encrypted

    async def read(self) -> bytes:
        while True:
            try:
                message = await self._socket.recv()
            except ConnectionClosedOK:
                return b""
            except ConnectionClosed as error:
                raise TransportError(
                    f"the connection broke: {error}", code=Code.TRANSPORT_LOST
                ) from None
            if isinstance(message, str):
                await self._socket.close(_UNSUPPORTED_DATA, "binary messages only")
                raise TransportError("the peer sent a text message", code=Code.TRANSPORT_MESSAGE)
            if message:  # an empty one is no end
                return message

    async def write(self, data: bytes) -> None:
        try:
            for at in range(0, len(data), _MESSAGE):
                await self._socket.send(data[at : at + _MESSAGE])
        except ConnectionClosed as error:
            raise TransportError(
                f"the connection broke: {error}", code=Code.TRANSPORT_LOST
            ) from None

    async def finish(self) -> None:
        with suppress(AttributeError):  # as below
            await self._socket.close()

    def abort(self) -> None:
        with suppress(AttributeError):  # asyncio's, when it has closed after its last bytes
            self._socket.transport.abort()


async def connect_websocket(
    address: Address, seconds: float, context: ssl.SSLContext | None
) -> WebSocketStream:
    """Return a stream to a server; ``context`` is how to encrypt, None for plain ws."""
    try:
        opened = await connect(
            address.url,
            ssl=context,
            compression=None,
            max_size=FIXED.websocket_message_bytes,
            max_queue=4,
            write_limit=CHUNK,
            open_timeout=seconds,
            close_timeout=1,
            proxy=None,
        )
    except ssl.SSLError as error:
        raise TransportError(
            f"cannot connect to {address}: {error.reason or error}", code=Code.TRANSPORT_TLS
        ) from None
    except (OSError, InvalidHandshake, EOFError) as error:
        raise TransportError(
            f"cannot connect to {address}: {reason(error)}", code=Code.TRANSPORT_CONNECT
        ) from None
    channel = ""
    if context is not None:
        seen = opened.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        channel = channel_of(seen)
    place = str(address)
    return WebSocketStream(opened, place, place, encrypted=context is not None, channel=channel)


class WebSocketListener:
    """Takes connections from servers of the websockets library, one for each network address."""

    def __init__(self, servers: Sequence[Server], address: str) -> None:
        self._servers = servers
        self.address = address

    async def close(self) -> None:
        for server in self._servers:
            server.close(close_connections=False)


class _Entrance(socket.socket):
    """A listening socket that asks at a gate before anyone may begin a handshake."""

    gate: Gate | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        taken, address = super().accept()
        if self.gate is None:
            return taken, address
        if not self.gate.enter(address[0]):
            taken.close()
            raise ConnectionAbortedError  # asyncio goes on with the next one
        return _Taken(taken, self.gate, address[0]), address


class _Taken(socket.socket):
    """A connection that is counted until it is closed."""

    def __init__(self, taken: socket.socket, gate: Gate, host: str) -> None:
        super().__init__(taken.family, taken.type, taken.proto, fileno=taken.detach())
        self._leave: Callable[[], None] | None = partial(gate.leave, host)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        super().close()
        if leave is not None:
            leave()


async def _entrances(address: Address, gate: Gate | None) -> list[_Entrance]:
    """Return a listening socket for each network address that a host has, all with one port."""
    found = await asyncio.get_running_loop().getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[_Entrance] = []
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            entrance = _Entrance(family, kind, protocol)
            made.append(entrance)
            entrance.gate = gate
            entrance.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                entrance.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            port = made[0].getsockname()[1] if len(made) > 1 else place[1]
            entrance.bind((place[0], port, *place[2:]))
            entrance.setblocking(False)
    except BaseException:
        for entrance in made:
            entrance.close()
        raise
    return made


async def listen_websocket(
    address: Address,
    handler: Handler,
    context: ssl.SSLContext | None,
    origins: Sequence[str] = (),
    gate: Gate | None = None,
    channel: str = "",
) -> WebSocketListener:
    """Take connections at an address; any other path than the standard one is not found.

    Browsers say which page connects. None is let in but those of ``origins``, or else any page that
    someone looks at could speak to a server on his own machine. Connections are counted by ``gate``
    from the moment they are taken: one that never ends its handshake counts too.
    """
    text = str(address)

    async def take(opened: ServerConnection) -> None:
        name = opened.remote_address
        peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else text
        encrypted = context is not None
        await handler(WebSocketStream(opened, text, peer, encrypted=encrypted, channel=channel))

    def check_path(opened: ServerConnection, request: Request) -> Response | None:
        if request.path != PATH:
            return opened.respond(HTTPStatus.NOT_FOUND, f"Lace listens at {PATH}\n")
        return None

    try:
        servers = [
            await serve(
                take,
                sock=entrance,
                ssl=context,
                origins=[None, *map(Origin, origins)],
                process_request=check_path,
                compression=None,
                max_size=FIXED.websocket_message_bytes,
                max_queue=4,
                write_limit=CHUNK,
                open_timeout=_OPEN_SECONDS,
                close_timeout=1,
                server_header=None,
                ssl_handshake_timeout=_OPEN_SECONDS if context is not None else None,
                logger=_QUIET,
            )
            for entrance in await _entrances(address, gate)
        ]
    except OSError as error:
        raise TransportError(
            f"cannot listen at {address}: {reason(error)}", code=Code.TRANSPORT_LISTEN
        ) from None
    text = str(replace(address, port=next(iter(servers[0].sockets)).getsockname()[1]))
    return WebSocketListener(servers, text)
