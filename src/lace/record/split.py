"""Find record boundaries in an endless byte stream, fed in any chunks.

A boundary needs three things only: a markline, the blank line that ends the headers, and a
Data-Length on the line before it. Everything else about a record is for ``validate`` to judge, so
a wrong digest, signature or header never hides the records behind it. Memory stays below one
record, and no length is believed before it is held to the limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lace.errors import Code
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import grammar

_HEAD_END: Final = b"\n\n"
_LENGTH: Final = b"\nData-Length: "
_ZERO: Final = ord("0")
_LONGEST_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Frame:
    """The bytes between two boundaries, not yet validated."""

    offset: int
    """At which byte it begins."""
    raw: bytes
    """Its bytes."""


@dataclass(frozen=True, slots=True)
class BrokenFrame:
    """Where no boundary can be found: the stream cannot be read any further."""

    offset: int
    """At which byte it begins."""
    code: Code
    """What is wrong, for programs."""
    detail: str
    """What is wrong, in words."""


class RecordSplitter:
    """Feed chunks, get frames; the frames do not depend on how the stream was cut into chunks."""

    __slots__ = ("_held", "_limits", "_offset", "_scanned", "_wanted", "broken")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, offset: int = 0) -> None:
        self._limits = limits
        self._held = bytearray()  # the beginning of a record whose end has not come yet
        self._offset = offset  # in the stream, of the next record
        self._scanned = 0  # held bytes that are known not to hold the end of the headers
        self._wanted = 0  # bytes of the held record in all, once they are known
        self.broken: BrokenFrame | None = None

    @property
    def held(self) -> int:
        """Bytes held back until their record is complete."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[Frame | BrokenFrame]:
        """Take a chunk and return what it completes; after a broken frame all input is ignored."""
        if self.broken is not None:
            return []
        frames: list[Frame | BrokenFrame] = []
        at = 0
        if self._held:
            # Only the record that has begun is put together; the others are cut from the chunk.
            before = len(self._held)
            self._held += chunk
            end = self._wanted or self._find_end(self._held, 0)
            if isinstance(end, BrokenFrame):
                return [self._stop(end)]
            if not end or end > len(self._held):
                self._wanted = end
                return []
            frames.append(Frame(self._offset, bytes(memoryview(self._held)[:end])))
            self._offset += end
            self._scanned = self._wanted = 0
            self._held = bytearray()
            at = end - before
        while at < len(chunk):
            end = self._find_end(chunk, at)
            if isinstance(end, BrokenFrame):
                return [*frames, self._stop(end)]
            if not end or end > len(chunk):
                self._wanted = end - at if end else 0
                self._held = bytearray(chunk[at:])
                break
            frames.append(Frame(self._offset, chunk[at:end]))
            self._offset += end - at
            at = end
        return frames

    def close(self) -> list[Frame | BrokenFrame]:
        """Tell the end of the stream; an unfinished record is broken."""
        if self.broken is not None or not self._held:
            return []
        detail = f"the stream ends {len(self._held)} bytes into a record"
        return [self._stop(BrokenFrame(self._offset, Code.RECORD_TRUNCATED, detail))]

    def _stop(self, broken: BrokenFrame) -> BrokenFrame:
        self.broken = broken
        self._held = bytearray()
        return broken

    def _find_end(self, data: bytes | bytearray, at: int) -> int | BrokenFrame:
        """Return where the record at ``at`` ends, 0 while unknown, or why it never will be."""
        end = find_end(data, at, self._scanned, self._limits)
        if isinstance(end, tuple):
            return BrokenFrame(self._offset, *end)
        if not end:
            self._scanned = max(0, len(data) - at - 1)
        return end


def find_end(
    data: bytes | bytearray, at: int, scanned: int, limits: Limits
) -> int | tuple[Code, str]:
    """Return where the record at ``at`` ends, 0 while unknown, or why it never will be.

    ``scanned`` bytes of the record are known not to hold the end of its headers.
    """
    if not data.startswith(grammar.MARK, at):
        return _check_start(bytes(data[at : at + len(grammar.TRAILER_MARK)]))
    head_bytes = limits.record_head_bytes
    head_end = data.find(_HEAD_END, at + scanned, at + head_bytes)
    if head_end < 0:
        if len(data) - at < head_bytes:
            return 0
        detail = f"no blank line within {head_bytes} bytes of headers"
        return Code.RECORD_HEADER_TOO_LONG, detail
    line_at = data.rfind(_LENGTH, at, head_end)
    digits = data[line_at + len(_LENGTH) : head_end]
    if line_at < 0 or not digits.isdigit() or (len(digits) > 1 and digits[0] == _ZERO):
        return Code.RECORD_DATA_LENGTH, "no well-formed Data-Length before the blank line"
    if len(digits) > _LONGEST_DIGITS or int(digits) > limits.blob_bytes:
        return Code.RECORD_DATA_TOO_LARGE, f"the data is over {limits.blob_bytes} bytes"
    return head_end + len(_HEAD_END) + int(digits)


def _check_start(start: bytes) -> int | tuple[Code, str]:
    """Return 0 if ``start`` may still become a markline."""
    if start == grammar.TRAILER_MARK:
        return Code.RECORD_TRAILER_FORM, "a record in trailer-hash form"
    if grammar.MARK.startswith(start) or grammar.TRAILER_MARK.startswith(start):
        return 0
    return Code.RECORD_MARKLINE, "no markline where a record must begin"


def split_records(
    chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS
) -> Iterator[Frame | BrokenFrame]:
    """Yield every frame of a finite stream, then what is wrong with its end, if anything."""
    splitter = RecordSplitter(limits)
    for chunk in chunks:
        yield from splitter.feed(chunk)
        if splitter.broken is not None:
            return
    yield from splitter.close()
