"""Connecting from a page: by WebSocket alone. Takes the place of ``lace.transport.dial`` there.

Certificates are checked by the browser, which tells a page nothing about a refusal. A browser takes
what a peer sends whether it is read or not, so that what waits has a limit of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import lace_socket
from pyodide.ffi import to_js

from lace.errors import Code, TransportError
from lace.transport.address import Address, Scheme

_SECONDS = 10.0
_MESSAGE: Final = 1 << 16


class PageStream:
    """A stream over the binary messages of a WebSocket of the page."""

    def __init__(self, socket: Any, address: str, *, encrypted: bool) -> None:
        self._socket = socket
        self.address = address
        self.peer = address
        self.encrypted = encrypted
        # The browser has checked the certificate, and does not tell a page which one it was.
        self.channel = None if encrypted else ""

    async def read(self) -> bytes:
        data = await self._socket.read()  # bytes, none at the end, or a text that says why
        if isinstance(data, str):
            raise TransportError(f"the connection broke: {data}", code=Code.TRANSPORT_LOST)
        return bytes(data.to_bytes())

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _MESSAGE):
            why = await self._socket.write(to_js(data[at : at + _MESSAGE]))
            if why:
                raise TransportError(f"the connection broke: {why}", code=Code.TRANSPORT_LOST)

    async def finish(self) -> None:
        await self._socket.finish()

    def abort(self) -> None:
        self._socket.abort()


async def connect(
    address: Address, *, trust: Path | None = None, seconds: float = _SECONDS
) -> PageStream:
    """Return a stream to an address, or raise ``TransportError``."""
    if address.scheme not in {Scheme.WS, Scheme.WSS} or trust is not None:
        raise TransportError(
            f"cannot connect to {address}: a page connects by ws or wss",
            code=Code.ADDRESS_MALFORMED,
            hint="Serve the lace with: lace serve … wss:host --allow-origin ORIGIN",
        )
    socket = await lace_socket.open(address.url, seconds)
    if isinstance(socket, str):
        raise TransportError(
            f"cannot connect to {address}: {socket}",
            code=Code.TRANSPORT_CONNECT,
            hint="Check the address, and that the server lets this page in: "
            f"lace serve … --allow-origin {lace_socket.origin()}",
        )
    return PageStream(socket, str(address), encrypted=address.scheme is Scheme.WSS)
