"""Sketches: making the cells of a set, decoding a difference, and what asking for cells costs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from lace.interlace.sketch import CELL_BYTES, MOST_CELLS, Decoder, Sketch, names_of
from measure import Effort, Result, race

_DIFFERENCES = 1_000
_CELLS = 1_952  # enough for 1,000 differences
_NAME_BYTES = 8


def run(effort: Effort) -> list[Result]:
    return [
        *_encoding(effort),
        _decoding(effort),
        *(_asking(size, effort) for size in (10, 100, 500, 1_000)),
    ]


def _encoding(effort: Effort) -> list[Result]:
    chance = random.Random(1)
    key = chance.randbytes(32)
    leaves = [chance.randbytes(32) for _ in range(effort.set_records)]
    names = names_of(key, leaves)
    ways = [True]
    if find_spec("numpy"):
        import_module("numpy")  # else few names are not worth it
        ways.append(False)
        assert Sketch(names).cells(0, _CELLS) == Sketch(names, plain=True).cells(0, _CELLS)

    def encode(*, plain: bool) -> None:
        Sketch(names, plain=plain).cells(0, _CELLS)

    *spent, floor = race(
        *(lambda plain=plain: encode(plain=plain) for plain in ways),
        lambda: names_of(key, leaves),
        rounds=effort.sketch_rounds,
    )
    return [
        Result(
            name=f"sketch: {len(names):,} names into cells, {'plain' if plain else 'numpy'}",
            unit="names/s",
            count=len(names),
            seconds=seconds,
            floor="naming them (one hash each)",
            floor_seconds=floor,
            notes=(f"{_CELLS:,} cells, {_CELLS * CELL_BYTES:,} bytes: {seconds * 1000:.0f} ms",),
        )
        for plain, seconds in zip(ways, spent, strict=True)
    ]


def _decoding(effort: Effort) -> Result:
    chance = random.Random(2)
    key = chance.randbytes(32)
    leaves = [chance.randbytes(32) for _ in range(_DIFFERENCES)]
    names = names_of(key, leaves)
    ours, theirs = frozenset(names[: _DIFFERENCES // 2]), names[_DIFFERENCES // 2 :]
    own, peer = Sketch(ours), Sketch(theirs).cells(0, _CELLS)
    own.cells(0, _CELLS)  # made once for all decoders

    def decode() -> None:
        decoder = Decoder(own, ours, most=_CELLS)
        decoder.add(0, peer)
        assert decoder.decode() is not None

    seconds, floor = race(decode, lambda: names_of(key, leaves), rounds=20 * effort.sketch_rounds)
    return Result(
        name=f"sketch: {_DIFFERENCES:,} differences decoded",
        unit="names/s",
        count=_DIFFERENCES,
        seconds=seconds,
        floor="naming them (one hash each)",
        floor_seconds=floor,
        notes=(f"from {_CELLS:,} cells: {seconds * 1000:.1f} ms",),
    )


def _asking(size: int, effort: Effort) -> Result:
    """Count questions and bytes. What both sides have cancels out, so it is left away here."""
    chance = random.Random(size)
    questions, told = [], []
    for _ in range(effort.sketch_meetings):
        names = [chance.getrandbits(64) for _ in range(size)]
        part = chance.randint(0, size)
        asked, cells = _meet(names[:part], names[part:])
        questions.append(asked)
        told.append(cells * CELL_BYTES / size)
    return Result(
        name=f"sketch: asking for {size:,} differences",
        unit="bytes each",
        count=1,
        is_amount=True,
        seconds=sum(told) / len(told),
        floor="their names",
        floor_seconds=_NAME_BYTES,
        notes=(
            f"{len(told):,} meetings; at least half, 95 %, 99 % and all of them needed at most",
            "  questions: " + ", ".join(f"{value:.0f}" for value in _percentiles(questions)),
            "  bytes a difference: " + ", ".join(f"{value:.1f}" for value in _percentiles(told)),
        ),
    )


def _meet(ours: Sequence[int], theirs: Sequence[int]) -> tuple[int, int]:
    """Return how many questions and cells it takes to find all names."""
    peer = Sketch(theirs)
    decoder = Decoder(Sketch(ours), ours, most=MOST_CELLS)
    have = questions = 0
    while (want := decoder.wanted()) is not None:
        decoder.add(have, peer.cells(have, want))
        have, questions = want, questions + 1
        found = decoder.decode()
        if found is not None:
            assert (found.theirs, found.ours) == (frozenset(theirs), frozenset(ours))
            return questions, have
    raise AssertionError("more differences than a sketch can tell")


def _percentiles(values: Sequence[float]) -> list[float]:
    ranked = sorted(values)
    return [ranked[(len(ranked) - 1) * part // 100] for part in (50, 95, 99, 100)]
