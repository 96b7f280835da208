"""Answers to plain GET requests on a port of this machine, and of no other.

Whoever connects and says nothing makes room for whoever comes later, and whoever does not read an
answer is left: no number of connections keeps others from theirs, or takes memory without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from lace.errors import Code, TransportError
from lace.limits import FIXED

_REQUEST_SECONDS: Final = 10.0
_READ_SECONDS: Final = 10.0
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, the type of a text, and the text."""

    status: str
    type: str
    text: str

    def __bytes__(self) -> bytes:
        body = self.text.encode()
        return _head(self.status, self.type, f"Content-Length: {len(body)}\r\n") + body


@dataclass(frozen=True, slots=True)
class Flow:
    """Texts of one type that are written as they come, for as long as somebody reads them."""

    type: str
    texts: AsyncGenerator[str, None]


_TOO_LONG: Final = Answer(
    "431 Request Header Fields Too Large", _PLAIN, "the request is too long\n"
)


async def answer_at(
    port: int, answer: Callable[[bytes], Awaitable[Answer | Flow]]
) -> asyncio.Server:
    """Answer each request by its head, one a connection; 0 stands for any free port."""
    unheard: dict[asyncio.StreamWriter, None] = {}

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unheard[writer] = None
        if len(unheard) > FIXED.unheard_requests:
            oldest = next(iter(unheard))
            del unheard[oldest]  # now: its own task may run after many more have come
            oldest.transport.abort()
        writer.transport.set_write_buffer_limits(high=0)  # to drain is to have it all written
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                try:
                    async with asyncio.timeout(_REQUEST_SECONDS):
                        request = await reader.readuntil(b"\r\n\r\n")
                except asyncio.LimitOverrunError:
                    await _write(writer, bytes(_TOO_LONG))
                else:
                    unheard.pop(writer, None)
                    await _send(writer, await answer(request))
                writer.close()
                async with asyncio.timeout(_READ_SECONDS):
                    await writer.wait_closed()
        finally:
            unheard.pop(writer, None)
            writer.transport.abort()  # what nobody has read by now is not kept for them

    # Tasks of our own: those that asyncio would start say much on the way out when cancelled.
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(respond(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    try:
        return await asyncio.start_server(
            begin, "127.0.0.1", port, limit=FIXED.metrics_request_bytes
        )
    except OSError as error:
        raise TransportError(
            f"cannot listen at 127.0.0.1:{port}: {error.strerror}", code=Code.TRANSPORT_LISTEN
        ) from None


async def _send(writer: asyncio.StreamWriter, answer: Answer | Flow) -> None:
    if isinstance(answer, Answer):
        await _write(writer, bytes(answer))
        return
    async with aclosing(answer.texts) as texts:
        first = await anext(texts, "")  # at once, so that whoever counts readers has this one
        await _write(writer, _head("200 OK", answer.type) + first.encode())
        async for text in texts:
            await _write(writer, text.encode())


async def _write(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(content)
    async with asyncio.timeout(_READ_SECONDS):
        await writer.drain()


def _head(status: str, type: str, length: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {type}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        f"{length}Connection: close\r\n\r\n"
    ).encode()
