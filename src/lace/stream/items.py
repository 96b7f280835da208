"""The items of a stream: told apart by their leading bytes, cut from chunks of any size (G7).

Rules of this file: an item is handed out when its last byte is there, and not before; a length is
held to its limit before memory is taken for it; after the first malformed item nothing more is
read. What an item means, and whether this is its place, is for others to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, EncodingError
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.policy.plan import plan_id
from lace.record.split import find_end
from lace.stream import packing
from lace.text import shown

VERSION: Final = "ILTP/1"
PHASE_END: Final = b"\n"
NONCE_BYTES: Final = 32

_KNOT: Final = "🪢: ".encode()
_PIECE: Final = "🧩: ".encode()
_RECORD: Final = "🖧: ".encode()
_LF: Final = ord("\n")
_COMMENT: Final = ord("#")
_HEAD_END: Final = b"\n\n"
_LONGEST_HEAD: Final = 160  # of a preface, a resource or packed lines: a few short lines
_LONGEST_MARK: Final = len(_RECORD)
_AT_ONCE: Final = 1 << 15
"""Most bytes of lines in one item, if a line is not longer: what is made of it takes a moment."""
_TRAILER: Final = "⋯🖧: ".encode()[:_LONGEST_MARK]
_MARKS: Final = (_KNOT, _PIECE, _RECORD, packing.MARK, _TRAILER)

_KNOT_HEAD: Final = re.compile(_KNOT + rb"([^\n]*)\nNonce: ([0-9A-Z_a-z~]{43})\n\n")
_PIECE_HEAD: Final = re.compile(
    _PIECE + rb"([RE]\.[0-9A-Z_a-z~]{43})\nData-Length: (0|[1-9][0-9]{0,14})\n\n"
)
_PACK_HEAD: Final = re.compile(
    packing.MARK + rb"deflate\nData-Length: ([1-9][0-9]{0,6})\nFull-Length: ([1-9][0-9]{0,6})\n\n"
)
_HEADS: Final = ((_KNOT, _KNOT_HEAD), (_PIECE, _PIECE_HEAD), (packing.MARK, _PACK_HEAD))


@dataclass(frozen=True, slots=True)
class Preface:
    """The first item of each direction."""

    offset: int
    nonce: str


@dataclass(frozen=True, slots=True)
class FactLines:
    """Whole fact lines, one or more, not yet parsed; how many at once depends on the chunks."""

    offset: int
    content: bytes
    packed: bool = False
    """Whether they came in one packed block, where lines have no offsets of their own."""


@dataclass(frozen=True, slots=True)
class Comments:
    """Whole lines for people, one or more; how many at once depends on the chunks."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Resource:
    """Canonical text whose id was recomputed and found right."""

    offset: int
    id: str
    content: bytes


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """The bytes of one record, not yet validated."""

    offset: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class PhaseEnd:
    offset: int


@dataclass(frozen=True, slots=True)
class Malformed:
    """Where the stream cannot be read any further, and why."""

    offset: int
    code: Code
    detail: str


Item = Preface | FactLines | Comments | Resource | RecordBytes | PhaseEnd | Malformed


def preface(nonce: str) -> bytes:
    """Return the first bytes of a direction."""
    return _KNOT + f"{VERSION}\nNonce: {nonce}\n\n".encode()


def resource(id: str, content: bytes) -> bytes:
    """Return canonical text as an item."""
    return _PIECE + f"{id}\nData-Length: {len(content)}\n\n".encode() + content


class ItemReader:
    """Feed chunks, get items; they do not depend on how the stream was cut into chunks."""

    __slots__ = (
        "_at_once",
        "_comment_run",
        "_ending",
        "_enough",
        "_fact_run",
        "_held",
        "_limits",
        "_offset",
        "_phase_bytes",
        "_scanned",
        "_unpacks",
        "malformed",
    )  # fmt: skip

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, unpacks: bool = False) -> None:
        self._limits = limits
        self._unpacks = unpacks  # whether packed lines are an item at all
        line = rb"[A-Za-z][^\n]{0,%d}\n" % (limits.stream_line_bytes - 1)
        self._fact_run = re.compile(rb"(?:" + line + rb")+")
        comment = rb"#[^\n]{0,%d}\n" % (limits.stream_line_bytes - 1)
        self._comment_run = re.compile(rb"(?:" + comment + rb")+")
        self._at_once = max(_AT_ONCE, limits.stream_line_bytes + 1)
        self._held = bytearray()  # the beginning of an item whose end has not come yet
        self._offset = 0  # in the stream, of what is held or comes next
        self._phase_bytes = 0  # fact and comment lines since the last end of phase
        # When the held item is worth looking at again: at so many bytes, or at this ending.
        self._enough = 0
        self._ending = b""
        self._scanned = 0
        self.malformed: Malformed | None = None

    @property
    def held(self) -> int:
        """Bytes held back until their item is complete."""
        return len(self._held)

    @property
    def offset(self) -> int:
        """Where in the stream the item begins that comes next."""
        return self._offset

    def pass_over(self, count: int) -> None:
        """Count bytes of whole phases that somebody else has read."""
        self._offset += count

    def feed(self, chunk: bytes) -> list[Item]:
        """Take a chunk and return what it completes; after malformed bytes all is ignored."""
        return list(self.read(chunk))

    def read(self, chunk: bytes) -> Iterator[Item]:
        """Take a chunk and yield what it completes, one by one: nothing is read that nobody takes.

        Whoever feeds on has taken all of them.
        """
        if self.malformed is not None or not chunk:
            return
        if not self._held:
            yield from self._read(chunk)
            return
        held = self._held
        held += chunk
        if len(held) < self._enough:
            if not self._ending:
                return
            if held.find(self._ending, self._scanned) < 0:
                self._scanned = max(0, len(held) - len(self._ending) + 1)
                return
        data = bytes(held)
        held.clear()
        yield from self._read(data)

    def close(self) -> list[Item]:
        """Tell the end of the stream; an unfinished item is malformed."""
        if self.malformed is not None or not self._held:
            return []
        detail = f"the stream ends {len(self._held)} bytes into an item"
        return [self._stop(Code.ILTP_TRUNCATED, detail)]

    # --- one data, many items ---

    def _read(self, data: bytes) -> Iterator[Item]:
        at, size = 0, len(data)
        # Records come in thousands, so that the way to them is the shortest one.
        while at < size:
            scanned, self._scanned = self._scanned, 0
            if data.startswith(_RECORD, at):
                end = find_end(data, at, scanned, self._limits)
                if isinstance(end, tuple):
                    yield self._stop(*end)
                    return
                if not end:
                    self._scanned = max(0, size - at - 1)
                    self._hold(data, at, self._limits.record_head_bytes, _HEAD_END)
                    return
                if end > size:
                    self._hold(data, at, end - at)
                    return
                item: Item = RecordBytes(self._offset, data[at:end])
            else:
                found = self._other(data, at)
                if found is None:
                    return
                item, end = found
            self._offset += end - at
            at = end
            if isinstance(item, FactLines) and item.packed:
                yield from self._pieces(item)
            else:
                yield item
            if isinstance(item, Malformed):
                return

    def _pieces(self, lines: FactLines) -> Iterator[FactLines]:
        """Yield packed lines in pieces that are no larger than what comes unpacked."""
        content, at = lines.content, 0
        while at < len(content):
            end = content.rfind(b"\n", at, at + self._at_once) + 1
            yield replace(lines, content=content[at:end])
            at = end

    def _other(self, data: bytes, at: int) -> tuple[Item, int] | None:
        """Return the item that begins here and where it ends, or None if more is needed."""
        lead = data[at]
        if lead == _LF:
            self._phase_bytes = 0
            return PhaseEnd(self._offset), at + 1
        if 0x41 <= lead <= 0x5A or 0x61 <= lead <= 0x7A:
            run = self._fact_run.match(data, at, at + self._at_once)
            if run is None:
                return self._unfinished_line(data, at)
            end = self._fitting(data, at, run.end())
            if end is None:
                return self._too_large(), at
            return FactLines(self._offset, data[at:end]), end
        if lead == _COMMENT:
            run = self._comment_run.match(data, at, at + self._at_once)
            if run is None:
                return self._unfinished_line(data, at)
            end = self._fitting(data, at, run.end())
            if end is None:
                return self._too_large(), at
            return Comments(self._offset, data[at:end]), end
        return self._marked(data, at)

    def _marked(self, data: bytes, at: int) -> tuple[Item, int] | None:
        pattern = next((head for mark, head in _HEADS if data.startswith(mark, at)), None)
        if pattern is None or (pattern is _PACK_HEAD and not self._unpacks):
            start = data[at : at + _LONGEST_MARK]
            if len(start) < _LONGEST_MARK and any(mark.startswith(start) for mark in _MARKS):
                self._hold(data, at, len(start) + 1)
                return None
            if start == _TRAILER:
                detail = "a record in trailer-hash form"
                return self._stop(Code.RECORD_TRAILER_FORM, detail), at
            detail = f"no item begins with the byte {start[0]:02x} and what follows it"
            return self._stop(Code.ILTP_ITEM, detail), at
        head_end = data.find(_HEAD_END, at, at + _LONGEST_HEAD)
        if head_end < 0 and len(data) - at < _LONGEST_HEAD:
            self._hold(data, at, _LONGEST_HEAD, _HEAD_END)
            return None
        head = pattern.match(data, at) if head_end >= 0 else None
        if pattern is _KNOT_HEAD:
            return self._preface(head, at)
        if pattern is _PIECE_HEAD:
            return self._resource(head, data, at)
        return self._packed(head, data, at)

    def _resource(
        self, head: re.Match[bytes] | None, data: bytes, at: int
    ) -> tuple[Item, int] | None:
        if head is None:
            return self._stop(Code.ILTP_RESOURCE, "a resource with a malformed head"), at
        length = int(head[2])
        most = min(self._limits.lacegram_bytes, self._limits.peer_lacegram_bytes)
        if length > most:
            detail = f"a resource of over {most} bytes"
            return self._stop(Code.ILTP_RESOURCE_SIZE, detail), at
        end = head.end() + length
        if end > len(data):
            self._hold(data, at, end - at)
            return None
        id, content = head[1].decode(), data[head.end() : end]
        if resource_id(id[0], content) != id:
            return self._stop(Code.POLICY_MODULE_ID, "a resource that is not what its id says"), at
        return Resource(self._offset, id, content), end

    def _packed(
        self, head: re.Match[bytes] | None, data: bytes, at: int
    ) -> tuple[Item, int] | None:
        if head is None:
            return self._stop(Code.ILTP_COMPRESSION, "packed lines with a malformed head"), at
        length, full = int(head[1]), int(head[2])
        if max(length, full) > FIXED.packed_bytes:
            detail = f"packed lines of over {FIXED.packed_bytes} bytes"
            return self._stop(Code.ILTP_COMPRESSION, detail), at
        if self._phase_bytes + full > self._limits.max_fact_block_size:
            return self._too_large(), at
        end = head.end() + length
        if end > len(data):
            self._hold(data, at, end - at)
            return None
        lines = packing.unpack(data[head.end() : end], full)
        if lines is None or self._fact_run.fullmatch(lines) is None:
            return self._stop(Code.ILTP_COMPRESSION, "packed bytes that are not fact lines"), at
        self._phase_bytes += full
        return FactLines(self._offset, lines, packed=True), end

    def _preface(self, head: re.Match[bytes] | None, at: int) -> tuple[Item, int]:
        if head is None:
            return self._stop(Code.ILTP_PREFACE, "a malformed preface"), at
        if head[1] != VERSION.encode():
            return self._stop(Code.ILTP_VERSION, f"a stream of version {shown(head[1])}"), at
        nonce = head[2].decode()
        try:
            b64a.decode(nonce)
        except EncodingError:
            return self._stop(Code.ILTP_PREFACE, "a nonce that is not 32 bytes of B64A"), at
        return Preface(self._offset, nonce), head.end()

    def _unfinished_line(self, data: bytes, at: int) -> tuple[Item, int] | None:
        longest = self._limits.stream_line_bytes
        if len(data) - at > longest:
            return self._stop(Code.ILTP_LINE, f"a line of over {longest} bytes"), at
        self._scanned = len(data) - at
        self._hold(data, at, longest + 1, b"\n")
        return None

    def _fitting(self, data: bytes, at: int, end: int) -> int | None:
        """Return how far these lines fit the limit of one block, however they came in."""
        room = self._limits.max_fact_block_size - self._phase_bytes
        if end - at > room:
            end = data.rfind(b"\n", at, at + room) + 1
            if end <= at:
                return None
        self._phase_bytes += end - at
        return end

    def _too_large(self) -> Malformed:
        limit = self._limits.max_fact_block_size
        return self._stop(Code.INTERLACE_BLOCK_SIZE, f"a block of over {limit} bytes")

    def _hold(self, data: bytes, at: int, enough: int, ending: bytes = b"") -> None:
        self._held += data[at:] if at else data
        self._enough = enough
        self._ending = ending

    def _stop(self, code: Code, detail: str) -> Malformed:
        self.malformed = Malformed(self._offset, code, detail)
        self._held.clear()
        return self.malformed


def resource_id(kind: str, content: bytes) -> str:
    """Return the id of canonical text: of a lacegram (R) or of an exchange plan (E)."""
    if kind == "E":
        return plan_id(content)
    return f"R.{b64a.encode(digest(content))}"
