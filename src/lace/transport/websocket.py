"""Streams over WebSockets: binary messages whose boundaries mean nothing (G7)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, InvalidHandshake
from websockets.http11 import Request, Response
from websockets.typing import Origin

from lace.errors import Code, TransportError
from lace.transport.address import PATH, Address
from lace.transport.base import CHUNK, Handler, reason

LARGEST_MESSAGE: Final = 4 * 1024 * 1024
_MESSAGE: Final = 1 << 16
_UNSUPPORTED_DATA: Final = 1003
_OPEN_SECONDS: Final = 10.0
_QUIET: Final = logging.getLogger("lace.websocket")  # bad handshakes are no news of ours
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class WebSocketStream:
    """A stream over the binary messages of one WebSocket."""

    def __init__(self, socket: Connection, address: str, peer: str, *, encrypted: bool) -> None:
        self._socket = socket
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
        socket = await connect(
            address.url,
            ssl=context,
            compression=None,
            max_size=LARGEST_MESSAGE,
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
    return WebSocketStream(socket, str(address), str(address), encrypted=context is not None)


class WebSocketListener:
    """Takes connections from a server of the websockets library."""

    def __init__(self, server: Server, address: str) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        self._server.close(close_connections=False)


async def listen_websocket(
    address: Address,
    handler: Handler,
    context: ssl.SSLContext | None,
    origins: Sequence[str] = (),
) -> WebSocketListener:
    """Take connections at an address; any other path than the standard one is not found.

    Browsers say which page connects. None is let in but those of ``origins``, or else any page that
    someone looks at could speak to a server on his own machine.
    """
    text = str(address)

    async def take(socket: ServerConnection) -> None:
        name = socket.remote_address
        peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else text
        await handler(WebSocketStream(socket, text, peer, encrypted=context is not None))

    def check_path(socket: ServerConnection, request: Request) -> Response | None:
        if request.path != PATH:
            return socket.respond(HTTPStatus.NOT_FOUND, f"Lace listens at {PATH}\n")
        return None

    try:
        server = await serve(
            take,
            address.host,
            address.port,
            ssl=context,
            origins=[None, *map(Origin, origins)],
            process_request=check_path,
            compression=None,
            max_size=LARGEST_MESSAGE,
            max_queue=4,
            write_limit=CHUNK,
            open_timeout=_OPEN_SECONDS,
            close_timeout=1,
            server_header=None,
            ssl_handshake_timeout=_OPEN_SECONDS if context is not None else None,
            logger=_QUIET,
        )
    except OSError as error:
        raise TransportError(
            f"cannot listen at {address}: {reason(error)}", code=Code.TRANSPORT_LISTEN
        ) from None
    text = str(replace(address, port=next(iter(server.sockets)).getsockname()[1]))
    return WebSocketListener(server, text)
