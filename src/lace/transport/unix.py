"""Streams over Unix sockets; the socket's file is the owner's alone unless its folder says more."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from lace.errors import Code, TransportError
from lace.transport.address import Address
from lace.transport.base import Handler, reason
from lace.transport.sockets import Accepting, SocketListener, SystemStream, open_writer

_OWNER_ONLY = 0o600


async def connect_unix(address: Address, seconds: float) -> SystemStream:
    """Return a stream to a server on this machine, or raise ``TransportError``."""
    try:
        async with asyncio.timeout(seconds):
            loop = asyncio.get_running_loop()
            reader, writer = await open_writer(
                lambda made: loop.create_unix_connection(made, address.path)
            )
    except OSError as error:
        raise TransportError(
            f"cannot connect to {address}: {reason(error)}", code=Code.TRANSPORT_CONNECT
        ) from None
    return SystemStream(reader, writer, str(address), str(address))


class UnixListener(SocketListener):
    """Removes the socket's file when it is closed."""

    async def close(self) -> None:
        await super().close()
        with suppress(OSError):
            os.unlink(self.address.removeprefix("unix:"))  # noqa: PTH108 (nothing to wait for)


async def listen_unix(address: Address, handler: Handler) -> UnixListener:
    """Take connections at a path; a socket that nobody listens at any more is replaced."""
    path = Path(address.path)
    accepting = Accepting(handler, str(address))
    try:
        _remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(address.path)
            os.chmod(path, _OWNER_ONLY)  # noqa: PTH101 (the same call, before anyone can connect)
            loop = asyncio.get_running_loop()
            server = await loop.create_unix_server(accepting.protocol, sock=sock)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise TransportError(
            f"cannot listen at {address}: {reason(error)}", code=Code.TRANSPORT_LISTEN
        ) from None
    return UnixListener(server, accepting.address)


def _remove_stale(path: Path) -> None:
    """Remove a socket that a dead process left behind; anything else stays where it is."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return  # binding will say that the name is taken
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
