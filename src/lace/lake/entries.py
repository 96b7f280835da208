"""Entries of a table of digests, made and put in order in bulk, by the workers.

Spark moves a few large values then, and no rows: a piece holds many entries, all for one task.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from lace import b64a, collector
from lace.interlace.groups import content_of
from lace.interlace.runs import DIGEST, KEY, column_of, entry_size
from lace.lake.jobs import carried
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS: Final = 2
"""How many digests each record has."""
PAYLOAD: Final = len("S.")
"""Where the characters of a hash begin, behind its letter."""
_CHARACTERS: Final = 43
_PIECES_BYTES: Final = 16 * MIB
"""Entries that a task holds before it hands them on."""
_PIECES: Final = pa.schema([("part", pa.int32()), ("entries", pa.binary())])

Digests = Callable[[pa.RecordBatch], pa.Array]
"""Makes the digests of the rows of a batch, two for each, one after the other."""

Run = tuple[int, bytes, int, bytes, bytes]
"""Its number, its bytes, how many records it has, the digests of both columns."""


def pieces(rows: DataFrame, digests: Digests, tasks: int, standard: int) -> DataFrame:
    """Have the workers make entries of rows: many in one piece, each piece for one task."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried(), collector.paused():
            held: dict[int, list[bytes]] = {}
            size = 0
            for batch in batches:
                entries = in_order(entries_of(batch.column("hash"), digests(batch)))
                size += len(entries)
                for part, piece in _cut_parts(entries, tasks, standard):
                    held.setdefault(part, []).append(piece)
                if size >= _PIECES_BYTES:
                    yield _as_pieces(held)
                    held, size = {}, 0
            yield _as_pieces(held)

    return rows.mapInArrow(work, from_arrow_schema(_PIECES))


def _as_pieces(held: Mapping[int, Sequence[bytes]]) -> pa.RecordBatch:
    pieces = [b"".join(some) for some in held.values()]
    return pa.RecordBatch.from_arrays(
        [pa.array(held.keys(), pa.int32()), pa.array(pieces, pa.binary())], schema=_PIECES
    )


def entries_of(hashes: pa.Array, digests: pa.Array) -> bytes:
    """Return the entries of records, one after another."""
    hashes = hashes.cast(pa.binary())
    payloads = pc.binary_slice(hashes, PAYLOAD, PAYLOAD + _CHARACTERS)
    # With one character more than it needs, a hash becomes a whole number of bytes, the last of
    # them for nothing: so all hashes are decoded at once.
    padded = pc.binary_join_element_wise(payloads, b64a.ALPHABET[:1], b"")
    decoded = of_width(b64a.decode_trusted(_content(padded, _CHARACTERS + 1)), KEY)
    names = pc.binary_slice(decoded, 0, DIGEST).cast(pa.binary())
    letters = pc.binary_slice(hashes, 0, 1)
    made = pc.binary_join_element_wise(names, letters, digests.cast(pa.binary()), b"")
    return _content(made, entry_size(COLUMNS))


def _content(values: pa.Array, width: int) -> bytes:
    """Return values of one width, one after another; raise if one has another width."""
    if not len(values):
        return b""
    fixed = values.cast(pa.binary(width))
    data: bytes = fixed.buffers()[1].slice(fixed.offset * width, len(fixed) * width).to_pybytes()
    return data


def of_width(content: bytes, width: int) -> pa.Array:
    """Return values of one width that lie one after another."""
    return pa.Array.from_buffers(
        pa.binary(width), len(content) // width, [None, pa.py_buffer(content)]
    )


def in_order(entries: bytes) -> bytes:
    """Return entries sorted by hash."""
    size = entry_size(COLUMNS)
    values = of_width(entries, size)
    return _content(values.take(pc.array_sort_indices(values)), size)


def _cut_parts(entries: bytes, tasks: int, standard: int) -> Iterator[tuple[int, bytes]]:
    """Yield what of sorted entries each task is to have."""
    return _cut(entries, lambda run: run * tasks >> 6 * standard, standard)


def cut_runs(entries: bytes, standard: int) -> Iterator[Run]:
    """Yield the runs that sorted entries make up."""
    for number, run in _cut(entries, lambda run: run, standard):
        first, last = (content_of(column_of(run, COLUMNS, column)) for column in range(COLUMNS))
        yield number, run, first[0], first[1], last[1]


def _cut(
    entries: bytes, number: Callable[[int], int], standard: int
) -> Iterator[tuple[int, bytes]]:
    """Yield sorted entries in pieces, with a number that grows with their standard partition."""
    size = entry_size(COLUMNS)
    places = range(0, len(entries), size)

    def number_at(place: int) -> int:
        return number(int.from_bytes(entries[place : place + 3], "big") >> 24 - 6 * standard)

    at = 0
    while at < len(places):
        found = number_at(places[at])
        end = bisect_right(places, found, lo=at, key=number_at)
        yield found, entries[at * size : end * size]
        at = end
