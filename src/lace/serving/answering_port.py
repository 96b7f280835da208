"""Answers to plain GET requests on a port of this machine, and of no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lace.errors import Code, TransportError
from lace.limits import FIXED

_REQUEST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, the type of a text, and the text."""

    status: str
    type: str
    text: str

    def __bytes__(self) -> bytes:
        body = self.text.encode()
        head = (
            f"HTTP/1.1 {self.status}\r\nContent-Type: {self.type}\r\n"
            "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


async def answer_at(port: int, answer: Callable[[bytes], Awaitable[Answer]]) -> asyncio.Server:
    """Answer each request by its head, one a connection; 0 stands for any free port."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(bytes(await answer(request)))
                await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(
            respond, "127.0.0.1", port, limit=FIXED.metrics_request_bytes
        )
    except OSError as error:
        raise TransportError(
            f"cannot listen at 127.0.0.1:{port}: {error.strerror}", code=Code.TRANSPORT_LISTEN
        ) from None
