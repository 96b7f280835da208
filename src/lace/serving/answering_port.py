"""Answers to plain GET requests on a port of this machine, and of no other.

Whoever connects and says nothing makes room for whoever comes later, and whoever does not read an
answer is left: no number of connections keeps others from theirs, or takes memory without end.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from lace.errors import Code, TransportError
from lace.limits import FIXED
from lace.serving.watch_proof import address_of

_HOST: Final = re.compile(rb"\r\nhost[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_HERE: Final = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?[ \t]*", re.IGNORECASE)
_REQUEST_SECONDS: Final = 10.0
_READ_SECONDS: Final = 10.0
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, the type of a text, and the text."""

    status: str
    type: str
    text: str
    stays: bool = False
    """Whether the connection may bring another request."""

    def __bytes__(self) -> bytes:
        body = self.text.encode()
        length = f"Content-Length: {len(body)}\r\n"
        return _head(self.status, self.type, length, stays=self.stays) + body


@dataclass(frozen=True, slots=True)
class Flow:
    """Texts of one type that are written as they come, for as long as somebody reads them."""

    type: str
    texts: AsyncGenerator[str, None]


_ELSEWHERE: Final = Answer(
    "421 Misdirected Request",
    _PLAIN,
    "this answers at 127.0.0.1 and localhost, and the Host of the request is another name\n",
)
_TOO_LONG: Final = Answer(
    "431 Request Header Fields Too Large", _PLAIN, "the request is too long\n"
)


async def answer_at(
    port: int, answer: Callable[[bytes, str], Awaitable[Answer | Flow]]
) -> asyncio.Server:
    """Answer each request by its head and the address it came to; port 0 is any that is free."""
    unheard: dict[asyncio.StreamWriter, None] = {}

    async def next_answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Answer | Flow:
        unheard[writer] = None
        if len(unheard) > FIXED.unheard_requests:
            oldest = next(iter(unheard))
            del unheard[oldest]  # now: its own task may run after many more have come
            oldest.transport.abort()
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _TOO_LONG
        unheard.pop(writer, None)
        if not is_meant(request):
            return _ELSEWHERE
        return await answer(request, address_of(writer.get_extra_info("sockname")))

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=0)  # to drain is to have it all written
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                stays = True
                while stays:
                    found = await next_answer(reader, writer)
                    await _send(writer, found)
                    stays = isinstance(found, Answer) and found.stays
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


def is_meant(request: bytes) -> bool:
    """Return whether each Host of a request is this machine.

    A page of the web can lead its own name to this address; its browser still sends that name. A
    request without a Host comes from no browser.
    """
    return all(_HERE.fullmatch(host) for host in _HOST.findall(request))


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


def _head(status: str, type: str, length: str = "", *, stays: bool = False) -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {type}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
        f"{length}Connection: {'keep-alive' if stays else 'close'}\r\n\r\n"
    ).encode()
