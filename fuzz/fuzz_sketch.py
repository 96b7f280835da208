"""Fuzz the decoder of sketches with cells that are honest, changed or anything. See README.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import atheris

from fuzzing import Choices, noise, start

with atheris.instrument_imports(include=["lace.interlace.sketch"]):
    from lace.errors import Code, ProtocolError
    from lace.interlace.sketch import CELL_BYTES, Decoder, Difference, Sketch

_MOST: Final = 300
_MOST_STEPS: Final = 30  # for each cell
_NAMES: Final = (*range(24), 2**32, 2**63, 2**64 - 1)


def check(data: bytes) -> None:
    """Let the first byte choose between cells as they come and cells that begin honest."""
    if not data:
        return
    choices = Choices(data[1:])
    own = frozenset(_names(choices))
    if data[0] % 2:
        check_cells(own, choices.bytes(_MOST * CELL_BYTES), choices)
    else:
        check_cells(own, _changed(choices), choices)


def check_cells(own: frozenset[int], cells: bytes, choices: Choices) -> None:
    """Whatever is told in whatever pieces ends within its steps, and is explained or refused."""
    decoder = Decoder(Sketch(own, plain=True), own, most=choices.number(0, _MOST))
    took = steps = 0
    found: Difference | None = None
    while (want := decoder.wanted()) is not None:
        size = choices.pick((want - took, 1, 8, 0, _MOST))
        place = choices.pick((took, took, took, 0, -1, want))
        more = cells[took * CELL_BYTES : (took + size) * CELL_BYTES]
        code = _refusal(decoder, place, more)
        if code is not None:
            assert code is Code.INTERLACE_SUMMARY
            break
        took += len(more) // CELL_BYTES
        found = decoder.decode()
        steps += _MOST_STEPS * took
        assert decoder.steps <= steps
        assert decoder.estimate() >= 0
        if found is not None:
            break
    if found is not None:
        assert found.ours <= own
        assert not found.theirs & own
        explained = Sketch(own - found.ours | found.theirs, plain=True).cells(0, took)
        assert explained == cells[: took * CELL_BYTES]


def _refusal(decoder: Decoder, place: int, cells: bytes) -> Code | None:
    try:
        decoder.add(place, cells)
    except ProtocolError as error:
        return error.code
    return None


def _names(choices: Choices) -> list[int]:
    return [choices.pick(_NAMES) for _ in range(choices.number(0, 12))]


def _changed(choices: Choices) -> bytes:
    """Return the cells of some names, a few of them exchanged for cells of other names."""
    size = choices.number(1, _MOST)
    cells = bytearray(Sketch(_names(choices), plain=True).cells(0, size))
    for _ in range(choices.number(0, 8)):
        other = Sketch(_names(choices), plain=True).cells(0, size)
        at, to = choices.number(0, size - 1), choices.number(0, size - 1)
        source = choices.pick((at, to)) * CELL_BYTES
        if choices.pick((False, True)):  # the other side's: the sums of one name less
            other = _negated(other)
        cells[to * CELL_BYTES : (to + 1) * CELL_BYTES] = other[source : source + CELL_BYTES]
    return bytes(cells)


def _negated(cells: bytes) -> bytes:
    made = b""
    while len(made) < len(cells):
        for width in (2, 3, 8):
            part = int.from_bytes(cells[len(made) : len(made) + width], "big")
            made += (-part % 256**width).to_bytes(width, "big")
    return made


def _seeds() -> Iterator[bytes]:
    for names in ([], [1], [5, 7, 2**63]):
        yield b"\x01" + Sketch(names, plain=True).cells(0, 16)
    for data in noise(40):
        yield b"\x00" + data
        yield b"\x01" + data


if __name__ == "__main__":
    start("sketch", check, _seeds(), fresh=b"\x00")
