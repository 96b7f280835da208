"""What every byte stream promises; one contract suite holds all of them to it.

Bytes come out as they went in, in order, in chunks of any size. ``read`` and ``write`` may wait at
the same time, each for itself. What was written and not yet taken by the peer is bounded: ``write``
waits. ``finish`` ends in order, ``abort`` ends at once; both may be called again.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, runtime_checkable

from lace.errors import Code, TransportError

CHUNK: Final = 1 << 18
"""Bytes that are read or written at once, and about as many that wait in between."""

LINGER_SECONDS: Final = 1.0
"""How long a side that is done waits for the peer to be done, so that its last bytes arrive."""


class ByteStream(Protocol):
    """A connection that carries bytes both ways."""

    @property
    def address(self) -> str:
        """The canonical address of the connection, as rules see it."""

    @property
    def encrypted(self) -> bool:
        """Whether this process itself ends the encryption of the stream."""

    @property
    def channel(self) -> str | None:
        """What tells the encrypted channel apart, as both ends see it.

        Empty where nothing does, None where it is encrypted and this end cannot see by what.
        """

    @property
    def peer(self) -> str:
        """Where the other end is, for logs only."""

    async def read(self) -> bytes:
        """Return the next bytes, none at the end; raise ``TransportError`` if it broke."""

    async def write(self, data: bytes) -> None:
        """Send bytes; return when the peer, or a bounded buffer on the way, has taken them."""

    async def finish(self) -> None:
        """Send what is left, say that this was all, and let go."""

    def abort(self) -> None:
        """Let go at once."""


class StreamOver:
    """A stream that stands before another one, and is what that one is where it does no more."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    @property
    def address(self) -> str:
        return self._stream.address

    @property
    def encrypted(self) -> bool:
        return self._stream.encrypted

    @property
    def channel(self) -> str | None:
        return self._stream.channel

    @property
    def peer(self) -> str:
        return self._stream.peer

    async def read(self) -> bytes:
        return await self._stream.read()

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def finish(self) -> None:
        await self._stream.finish()

    def abort(self) -> None:
        self._stream.abort()


Take = Callable[[bytes], bool]
"""Takes bytes as they come, or does not; it never waits."""


@runtime_checkable
class PromptStream(Protocol):
    """What a byte stream may do besides: few bytes come and go without a task being woken."""

    def hand_to(self, take: Take | None) -> None:
        """Offer bytes to somebody as they come, from the event loop, one chunk in a turn of it.

        What is not taken is returned by ``read``, and so is all that comes before it was returned.
        None offers them to nobody.
        """

    def write_now(self, data: bytes) -> bool:
        """Send bytes if ``write`` would not wait for it; return whether that was done."""


Handler = Callable[[ByteStream], Awaitable[None]]


class Gate(Protocol):
    """Counts who is connected from where, from before the first byte of a handshake."""

    def enter(self, host: str) -> bool:
        """Whether one more connection from there is taken; it is counted then."""

    def leave(self, host: str) -> None:
        """Take note that a connection from there is closed."""


class Listener(Protocol):
    """Takes connections until it is closed; the ones that stand go on."""

    @property
    def address(self) -> str:
        """Where it listens, with the port that it really has."""

    async def close(self) -> None:
        """Take no more connections."""


class broken_as_transport_error:  # noqa: N801 (it stands where a function would)
    """Turn what the system says about a connection into a ``TransportError``."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError | asyncio.IncompleteReadError):
            raise TransportError(
                f"the connection broke: {reason(error)}", code=Code.TRANSPORT_LOST
            ) from None


def reason(error: Exception) -> str:
    """Return what an error of the system says, in words for people."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    # asyncio writes a call and a tuple, or several of them where a name has several addresses.
    number = re.search(r"\[Errno ([0-9]+)\]", str(error))
    if number:
        return os.strerror(int(number[1]))
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
