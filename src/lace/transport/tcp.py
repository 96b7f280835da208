"""Streams over TCP."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lace.errors import Code, TransportError
from lace.transport.address import Address
from lace.transport.base import Handler, reason
from lace.transport.sockets import Accepting, SocketListener, SystemStream, open_writer


async def connect_tcp(address: Address, seconds: float) -> SystemStream:
    """Return a stream to a server, or raise ``TransportError``."""
    try:
        async with asyncio.timeout(seconds):
            loop = asyncio.get_running_loop()
            reader, writer = await open_writer(
                lambda made: loop.create_connection(made, address.host, address.port)
            )
    except OSError as error:
        raise TransportError(
            f"cannot connect to {address}: {reason(error)}",
            code=Code.TRANSPORT_CONNECT,
        ) from None
    return SystemStream(reader, writer, str(address), str(address))


async def listen_tcp(address: Address, handler: Handler) -> SocketListener:
    """Take connections at an address; port 0 stands for any free one."""
    accepting = Accepting(handler, str(address))
    try:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(accepting.protocol, address.host, address.port)
    except OSError as error:
        raise TransportError(
            f"cannot listen at {address}: {reason(error)}", code=Code.TRANSPORT_LISTEN
        ) from None
    port = server.sockets[0].getsockname()[1]
    accepting.address = str(replace(address, port=port))
    return SocketListener(server, accepting.address)
