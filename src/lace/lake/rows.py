"""What becomes of record bytes in a table: one wide row a record, as Arrow batches.

Fields that nearly every record has, and that rules ask for most, are columns of their own; the
other headers are a list beside them. Nothing is stored twice but the links, which are read from
headers once, by the one function that knows how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lace.clock import unix_ms
from lace.errors import Code, Outcome
from lace.ids import SUFFIX
from lace.limits import MIB
from lace.record.facts import LINK_ENDING, RecordLink, link_of, numbered
from lace.record.grammar import HEADERS
from lace.record.model import Parts, Record, Seal, Versioned
from lace.tai import FIRST_OFFSET, LEAP_STARTS

#: Fields with a column of their own: each occurs at most once in a record, at index 0.
PROMOTED: Final = {
    "Type": "type",
    "Group": "group",
    "App": "app",
    "Name": "name",
    "TAI": "tai",
    "Signed-By": "signed_by",
    "Signature": "signature",
    "Data-Length": "data_length",
}

_EXTRA: Final = pa.struct([
    pa.field("name", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("value", pa.string(), nullable=False),
])  # fmt: skip
_LINK: Final = pa.struct([
    pa.field("name", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("data", pa.string(), nullable=False),
    pa.field("target", pa.string(), nullable=False),
])  # fmt: skip

RECORD_COLUMNS: Final = (
    ("hash", pa.string()),
    ("type", pa.string()),
    ("group", pa.string()),
    ("app", pa.string()),
    ("name", pa.string()),
    ("tai", pa.string()),
    ("signed_by", pa.string()),
    ("signature", pa.string()),
    ("data_length", pa.int64()),
    ("extras", pa.list_(pa.field("element", _EXTRA, nullable=False))),
    ("links", pa.list_(pa.field("element", _LINK, nullable=False))),
    ("plex_hash", pa.string()),
    ("blob_hash", pa.string()),
    ("raw", pa.binary()),
    ("bundle", pa.string()),
    ("offset", pa.int64()),
)
FAULT_COLUMNS: Final = (("code", pa.string()), ("detail", pa.string()))
SOURCE_SCHEMA: Final = pa.schema([*RECORD_COLUMNS, *FAULT_COLUMNS])
_TIME: Final = pa.timestamp("us", tz="UTC")
RECORDS_SCHEMA: Final = pa.schema([
    *RECORD_COLUMNS, ("ingest", pa.string()), ("time", _TIME), ("arrived", _TIME),
])  # fmt: skip
QUARANTINE_SCHEMA: Final = pa.schema([
    ("digest", pa.string()),
    ("code", pa.string()),
    ("detail", pa.string()),
    ("bundle", pa.string()),
    ("offset", pa.int64()),
    ("length", pa.int64()),
    ("raw", pa.binary()),
    ("ingest", pa.string()),
])  # fmt: skip

FORGOTTEN_SCHEMA: Final = pa.schema([("hash", pa.string())])

_LINK_ENDING: Final = LINK_ENDING.encode()
_MALFORMED: Final = Code.RECORD_MALFORMED
_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 16 * MIB


Found = tuple[list[int], list[bytes], list[Outcome[Record]]]
"""Offsets, the bytes there, and what they are."""


@dataclass(slots=True)
class RowBatch:
    """Rows under way to one Arrow batch; made column by column, because that is quick."""

    bundle: str
    _offsets: list[int] = field(default_factory=list)
    _raws: list[bytes] = field(default_factory=list)
    _outcomes: list[Outcome[Record]] = field(default_factory=list)
    _size: int = 0

    @property
    def rows(self) -> int:
        return len(self._raws)

    @property
    def full(self) -> bool:
        return len(self._raws) >= _BATCH_ROWS or self._size >= _BATCH_BYTES

    def add(self, offset: int, raw: bytes, outcome: Outcome[Record]) -> None:
        """Add what was found at an offset: a record, or bytes that are none."""
        self._offsets.append(offset)
        self._raws.append(raw)
        self._outcomes.append(outcome)
        self._size += len(raw)

    def extend(self, found: Found) -> None:
        """Add what was found at several offsets."""
        offsets, raws, outcomes = found
        self._offsets += offsets
        self._raws += raws
        self._outcomes += outcomes
        self._size += sum(map(len, raws))

    def take(self) -> pa.RecordBatch:
        """Return the batch and begin the next."""
        outcomes, raws = self._outcomes, self._raws
        records = [outcome.value for outcome in outcomes]
        parts = [None if r is None else r.parts for r in records]
        placed = [r.parts if isinstance(r, Versioned) else None for r in records]
        seals = [r.parts if isinstance(r, Seal) else None for r in records]
        extras, links = _headers(placed)
        codes = [None if o.value is not None else str(o.code or _MALFORMED) for o in outcomes]
        # The parts of a record are the bytes of valid text: Arrow takes them as they are.
        columns: dict[str, pa.Array] = {
            "hash": _text([None if r is None else r.hash for r in records]),
            "type": _text([None if r is None else r.type for r in records]),
            "group": _text([None if p is None else p[-7] for p in placed]),
            "app": _text([None if p is None else p[-6] for p in placed]),
            "name": _text([None if p is None else p[-5] for p in placed]),
            "tai": _text([None if p is None else p[-4] for p in placed]),
            "signed_by": _identifiers("V", [None if p is None else p[1] for p in seals]),
            "signature": _text([None if p is None else p[2] for p in seals]),
            "data_length": _text([None if p is None else p[-1] for p in parts]).cast(pa.int64()),
            "extras": extras,
            "links": links,
            "plex_hash": _identifiers("P", [None if p is None else p[3] for p in seals]),
            "blob_hash": _identifiers("B", [None if p is None else p[-2] for p in placed]),
            "raw": pa.array(raws, pa.binary()),
            "bundle": pa.repeat(self.bundle, len(raws)),
            "offset": pa.array(self._offsets, pa.int64()),
            "code": _text(codes),
            "detail": _text([None if o.value is not None else o.detail for o in outcomes]),
        }
        self.__init__(self.bundle)  # type: ignore[misc]  # begin again
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in SOURCE_SCHEMA.names], schema=SOURCE_SCHEMA
        )


def _headers(placed: list[Parts | None]) -> tuple[pa.ListArray, pa.ListArray]:
    """Return the extra headers of each record, and the links among them."""
    extras: tuple[list[bytes], list[int], list[bytes]] = ([], [], [])
    found: list[RecordLink] = []
    names, indexes, values = extras
    extra_offsets, link_offsets = [0], [0]
    for parts in placed:
        if parts is not None and parts[-3]:
            for name, index, value in numbered(HEADERS.findall(parts[-3])):
                names.append(name)
                indexes.append(index)
                values.append(value)
                if name.endswith(_LINK_ENDING):
                    link = link_of(name.decode(), index, value.decode())
                    if link is not None:
                        found.append(link)
        extra_offsets.append(len(names))
        link_offsets.append(len(found))
    links = [
        [getattr(link, name) for link in found] for name in ("name", "index", "data", "target")
    ]
    return _lists(_EXTRA, extra_offsets, *extras), _lists(_LINK, link_offsets, *links)


def _text(values: Sequence[str | bytes | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _identifiers(letter: str, payloads: Sequence[bytes | None]) -> pa.Array:
    """Return typed identifiers of payloads, put together by Arrow."""
    return pc.binary_join_element_wise(f"{letter}.", _text(payloads), f".{SUFFIX}", "")


def _lists(struct: pa.StructType, offsets: list[int], *columns: list[Any]) -> pa.ListArray:
    fields = [struct.field(i) for i in range(struct.num_fields)]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, fields, strict=True)]
    inner = pa.StructArray.from_arrays(arrays, fields=fields)
    kind = pa.list_(pa.field("element", struct, nullable=False))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=kind)


def times(tai: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return TAI instants as points in time; null where there is none."""
    seconds = pc.cast(pc.utf8_slice_codeunits(tai, 0, 10), pa.int64())
    micros = pc.cast(pc.utf8_slice_codeunits(tai, 11, 17), pa.int64())
    steps = pc.multiply(seconds, 0)
    for start in LEAP_STARTS:
        steps = pc.add(steps, pc.cast(pc.greater_equal(seconds, start), pa.int64()))
    unix = pc.subtract(pc.subtract(seconds, steps), FIRST_OFFSET)
    return pc.cast(pc.add(pc.multiply(unix, 1_000_000), micros), _TIME)


def as_records(table: pa.Table, ingest: str) -> pa.Table:
    """Return rows of bundles as rows of the table of records, as they arrive now."""
    now = pa.scalar(unix_ms() * 1000, pa.timestamp("us")).cast(_TIME)
    columns = {name: table.column(name) for name, _ in RECORD_COLUMNS}
    columns["ingest"] = pa.repeat(ingest, table.num_rows)
    columns["time"] = times(table.column("tai"))
    columns["arrived"] = pa.repeat(now, table.num_rows)
    names = RECORDS_SCHEMA.names
    return pa.table([columns[name] for name in names], names=names).cast(RECORDS_SCHEMA)


def batches(bundle: str, found: Iterable[Found]) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of what was found at offsets of a bundle."""
    batch = RowBatch(bundle)
    for some in found:
        batch.extend(some)
        if batch.full:
            yield batch.take()
    if batch.rows:
        yield batch.take()
