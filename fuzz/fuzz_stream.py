"""Fuzz the items of a stream, however it is cut. See README.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Final

import atheris

from fuzzing import Choices, noise, start

with atheris.instrument_imports(include=["lace"]):
    from lace.limits import DEFAULT_LIMITS, Limits
    from lace.record.grammar import MARK, TRAILER_MARK
    from lace.selectors import selector
    from lace.stream import items as i
    from lace.stream import packing
    from shapes import FRAGMENTS, chosen_shape, valid_shape

_LIMITS: Final = (
    DEFAULT_LIMITS,
    replace(
        DEFAULT_LIMITS, header_line_bytes=97, extra_headers=1, blob_bytes=20, stream_line_bytes=30,
        max_fact_block_size=70, lacegram_bytes=500,
    ),
)  # fmt: skip
_NONCE: Final = "0" * 43
_MODULE: Final = selector("//g//a//")
_PIECES: Final = (
    i.preface(_NONCE),
    i.resource(_MODULE.id, _MODULE.text.encode()),
    i.resource("E." + "0" * 43, b"x"),
    b"MayRequest('x')\n",
    b"# y\n",
    b"\n",
    MARK,
    TRAILER_MARK,
    "🪢: ".encode(),
    "🧩: ".encode(),
    b"".join(packing.pack(b"MayRequest('x')\n" * 20)),
    packing.MARK + b"deflate\nData-Length: 3\nFull-Length: 9\n\nabc",
    packing.MARK,
    b"A" * 40,
)
_CHUNK_SIZES: Final = (1, 2, 3, 5, 8, 50, 130, 1000)


def check(data: bytes) -> None:
    """The first byte chooses the limits and whether the rest is a stream or makes one."""
    if not data:
        return
    limits, unpacks = _LIMITS[data[0] & 1], bool(data[0] & 4)
    choices = Choices(data[1:])
    if data[0] & 2:
        stream = b"".join(_piece(choices) for _ in range(choices.number(1, 8)))
    else:
        stream = data[1:]
    whole = _joined(_read([stream], limits, unpacks=unpacks))
    sizes = cycle([choices.pick(_CHUNK_SIZES) for _ in range(4)])
    chunks, at = [], 0
    while at < len(stream):
        size = max(len(stream) // 1000, next(sizes))
        chunks.append(stream[at : at + size])
        at += size
    assert _joined(_read(chunks, limits, unpacks=unpacks)) == whole
    for item in whole:
        assert 0 <= item.offset <= len(stream)
        if isinstance(item, i.FactLines) and item.packed:
            assert stream[item.offset :].startswith(packing.MARK)
        elif isinstance(item, i.FactLines):
            assert stream[item.offset :].startswith(item.content)
            assert item.content.endswith(b"\n")
        elif isinstance(item, i.RecordBytes):
            assert stream[item.offset :].startswith(item.raw)
        elif isinstance(item, i.Resource):
            assert i.resource_id(item.id[0], item.content) == item.id
            again = i.resource(item.id, item.content)
            assert stream[item.offset :].startswith(again)
        elif isinstance(item, i.Preface):
            assert stream[item.offset :].startswith(i.preface(item.nonce))


def _read(chunks: list[bytes], limits: Limits, *, unpacks: bool) -> list[i.Item]:
    reader = i.ItemReader(limits, unpacks=unpacks)
    found: list[i.Item] = []
    for chunk in chunks:
        found += reader.feed(chunk)
    found += reader.close()
    assert all(not isinstance(item, i.Malformed) for item in found[:-1])
    if reader.malformed is not None:
        assert found[-1] is reader.malformed
        assert reader.held == 0
    return found


def _joined(items: list[i.Item]) -> list[i.Item]:
    out: list[i.Item] = []
    for item in items:
        last = out[-1] if out else None
        if (
            isinstance(item, i.FactLines)
            and isinstance(last, i.FactLines)
            and not (item.packed or last.packed)
        ):
            out[-1] = i.FactLines(last.offset, last.content + item.content)
        else:
            out.append(item)
    return out


def _piece(choices: Choices) -> bytes:
    kind = choices.number(0, 4)
    if kind < 2:
        return choices.pick(_PIECES)
    if kind == 2:
        return chosen_shape(choices).assemble()
    if kind == 3:
        return choices.bytes(30)
    return choices.pick(FRAGMENTS)


def _seeds() -> Iterator[bytes]:
    for piece in (*_PIECES, valid_shape("S").assemble(), valid_shape("B").assemble()):
        for first in (b"\x00", b"\x01", b"\x04", b"\x05"):
            yield first + piece
            yield first + _PIECES[0] + piece + b"\n"
    for index, data in enumerate(noise(32)):
        yield bytes([index % 8]) + data


if __name__ == "__main__":
    start("stream", check, _seeds(), fresh=b"\x02\x03\x06\x07")
