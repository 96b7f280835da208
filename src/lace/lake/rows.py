"""What becomes of record bytes in a table: one wide row a record, as Arrow batches.

Fields that nearly every record has, and that rules ask for most, are columns of their own; the
other headers are a list beside them. Nothing is stored twice but the links, which are read from
headers once, by the one function that knows how.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lace.errors import Code, Outcome
from lace.ids import SUFFIX
from lace.limits import MIB
from lace.record.facts import links
from lace.record.model import Parts, Record, Seal, Versioned

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
RECORDS_SCHEMA: Final = pa.schema([*RECORD_COLUMNS, ("ingest", pa.string())])
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

_MALFORMED: Final = Code.RECORD_MALFORMED
_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 16 * MIB


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

    def take(self) -> pa.RecordBatch:
        """Return the batch and begin the next."""
        records = [outcome.value for outcome in self._outcomes]
        placed = [r.parts if isinstance(r, Versioned) else None for r in records]
        seals = [r.parts if isinstance(r, Seal) else None for r in records]
        none = [outcome if outcome.value is None else None for outcome in self._outcomes]
        # The parts of a record are the bytes of valid text: Arrow takes them as they are.
        columns: dict[str, pa.Array] = {
            "hash": _text(None if r is None else r.hash for r in records),
            "type": _text(None if r is None else r.type for r in records),
            "group": _text(None if parts is None else parts[-7] for parts in placed),
            "app": _text(None if parts is None else parts[-6] for parts in placed),
            "name": _text(None if parts is None else parts[-5] for parts in placed),
            "tai": _text(None if parts is None else parts[-4] for parts in placed),
            "signed_by": _identifiers("V", (None if p is None else p[1] for p in seals)),
            "signature": _text(None if parts is None else parts[2] for parts in seals),
            "data_length": pa.array(
                [None if r is None else r.data_length for r in records], pa.int64()
            ),
            "extras": self._extras(placed, records),
            "links": self._links(placed, records),
            "plex_hash": _identifiers("P", (None if p is None else p[3] for p in seals)),
            "blob_hash": _identifiers("B", (None if p is None else p[-2] for p in placed)),
            "raw": pa.array(self._raws, pa.binary()),
            "bundle": pa.repeat(self.bundle, len(records)),
            "offset": pa.array(self._offsets, pa.int64()),
            "code": _text(None if o is None else str(o.code or _MALFORMED) for o in none),
            "detail": _text(None if o is None else o.detail for o in none),
        }
        self.__init__(self.bundle)  # type: ignore[misc]  # begin again
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in SOURCE_SCHEMA.names], schema=SOURCE_SCHEMA
        )

    @staticmethod
    def _extras(placed: list[Parts | None], records: list[Record | None]) -> pa.ListArray:
        offsets, names, indexes, values = [0], [], [], []
        for parts, record in zip(placed, records, strict=True):
            if parts is not None and parts[-3]:
                assert isinstance(record, Versioned)
                previous, index = "", 0
                for name, value in record.extras:  # sorted, so that equal names are neighbours
                    index = index + 1 if name == previous else 0
                    previous = name
                    names.append(name)
                    indexes.append(index)
                    values.append(value)
            offsets.append(len(names))
        return _lists(_EXTRA, offsets, names, indexes, values)

    @staticmethod
    def _links(placed: list[Parts | None], records: list[Record | None]) -> pa.ListArray:
        offsets, columns = [0], ([], [], [], [])  # type: ignore[var-annotated]
        for parts, record in zip(placed, records, strict=True):
            if parts is not None and b"+Link: " in parts[-3]:
                assert record is not None
                for link in links(record):
                    for column, value in zip(
                        columns, (link.name, link.index, link.data, link.target), strict=True
                    ):
                        column.append(value)
            offsets.append(len(columns[0]))
        return _lists(_LINK, offsets, *columns)


def _text(values: Iterable[str | bytes | None]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _identifiers(letter: str, payloads: Iterable[bytes | None]) -> pa.Array:
    """Return typed identifiers of payloads, put together by Arrow."""
    return pc.binary_join_element_wise(f"{letter}.", _text(payloads), f".{SUFFIX}", "")


def _lists(struct: pa.StructType, offsets: list[int], *columns: list[Any]) -> pa.ListArray:
    fields = [struct.field(i) for i in range(struct.num_fields)]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, fields, strict=True)]
    inner = pa.StructArray.from_arrays(arrays, fields=fields)
    kind = pa.list_(pa.field("element", struct, nullable=False))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=kind)


def batches(
    bundle: str, found: Iterable[tuple[int, bytes, Outcome[Record]]]
) -> Iterator[pa.RecordBatch]:
    """Yield Arrow batches of what was found at offsets of a bundle."""
    batch = RowBatch(bundle)
    for offset, raw, outcome in found:
        batch.add(offset, raw, outcome)
        if batch.full:
            yield batch.take()
    if batch.rows:
        yield batch.take()
