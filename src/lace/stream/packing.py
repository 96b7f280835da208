"""Fact lines packed with deflate, a block at a time, when both sides said so in hello (L21).

A block stands alone and says how long it is before and after, so that both lengths are held to
their limits before anything is inflated, and what comes out can never be more than was announced.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

OFFER: Final = b"HelloLimit('stream_deflate','1')\n"
"""The line in a hello block that offers it; peers that do not know the name pass it over."""

MARK: Final = "🗜: ".encode()

_CUT: Final = 1 << 18
_LEAST: Final = 256  # below this a block would hardly be smaller
# Lines repeat themselves, and hashes never: the first level that looks for the better of two
# matches finds nearly all there is, and short matches within hashes are none.
_LEVEL: Final = 4
_STRATEGY: Final = zlib.Z_FILTERED
# Deflate clears its tables before it looks at anything. Tables for a few lines are quickly cleared,
# and find as much in them as large ones.
_FEW: Final = 1 << 12
_TABLES_FOR_FEW: Final = 12, 5  # the window has as many bytes as a few lines have
_TABLES: Final = zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL


def pack(lines: bytes) -> Iterator[bytes]:
    """Yield fact lines as packed blocks; lines too few to be worth it come as they are."""
    at = 0
    while at < len(lines):
        end = len(lines)
        if end - at > _CUT:
            end = lines.rfind(b"\n", at, at + _CUT) + 1
        part = lines[at:end]
        if len(part) < _LEAST:
            yield part
        else:
            window, memory = _TABLES_FOR_FEW if len(part) <= _FEW else _TABLES
            packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, window, memory, _STRATEGY)
            packed = packer.compress(part) + packer.flush()
            head = f"deflate\nData-Length: {len(packed)}\nFull-Length: {len(part)}\n\n"
            yield MARK + head.encode()
            yield packed
        at = end


def unpack(packed: bytes, length: int) -> bytes | None:
    """Return what was packed if it is exactly ``length`` bytes, else None."""
    inflater = zlib.decompressobj()
    try:
        # One byte more than announced is enough to know that there is too much.
        lines = inflater.decompress(packed, length + 1)
    except zlib.error:
        return None
    if len(lines) != length or not inflater.eof or inflater.unused_data:
        return None
    return lines
