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

from lace.errors import Code, Outcome
from lace.limits import MIB
from lace.record.facts import links
from lace.record.model import Record, Seal, Versioned

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

_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 16 * MIB


@dataclass(slots=True)
class RowBatch:
    """Rows under way to one Arrow batch; a flat list for each column, because that is quick."""

    bundle: str
    _columns: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in SOURCE_SCHEMA.names}
    )
    _extras: tuple[list[int], list[str], list[int], list[str]] = field(
        default_factory=lambda: ([0], [], [], [])
    )
    _links: tuple[list[int], list[str], list[int], list[str], list[str]] = field(
        default_factory=lambda: ([0], [], [], [], [])
    )
    rows: int = 0
    size: int = 0

    @property
    def full(self) -> bool:
        return self.rows >= _BATCH_ROWS or self.size >= _BATCH_BYTES

    def add(self, offset: int, raw: bytes, outcome: Outcome[Record]) -> None:
        """Add what was found at an offset: a record, or bytes that are none."""
        record = outcome.value
        columns = self._columns
        columns["raw"].append(raw)
        columns["offset"].append(offset)
        self.rows += 1
        self.size += len(raw)
        if record is None:
            columns["code"].append(str(outcome.code or Code.RECORD_MALFORMED))
            columns["detail"].append(outcome.detail)
            for name in ("hash", "type", "data_length"):
                columns[name].append(None)
        else:
            columns["code"].append(None)
            columns["detail"].append(None)
            columns["hash"].append(record.hash)
            columns["type"].append(record.type)
            columns["data_length"].append(record.data_length)
        if isinstance(record, Versioned):
            columns["group"].append(record.group)
            columns["app"].append(record.app)
            columns["name"].append(record.name)
            columns["tai"].append(record.tai)
            columns["blob_hash"].append(record.blob_hash)
            if record.parts[-3]:
                self._add_headers(record)
        else:
            for name in ("group", "app", "name", "tai", "blob_hash"):
                columns[name].append(None)
        if isinstance(record, Seal):
            columns["signed_by"].append(record.signed_by)
            columns["signature"].append(record.signature)
            columns["plex_hash"].append(record.plex_hash)
        else:
            for name in ("signed_by", "signature", "plex_hash"):
                columns[name].append(None)
        self._extras[0].append(len(self._extras[1]))
        self._links[0].append(len(self._links[1]))

    def _add_headers(self, record: Versioned) -> None:
        _, names, indexes, values = self._extras
        previous, index = "", 0
        for name, value in record.extras:  # sorted, so that equal names are neighbours
            index = index + 1 if name == previous else 0
            previous = name
            names.append(name)
            indexes.append(index)
            values.append(value)
        if b"+Link: " in record.parts[-3]:
            _, names, indexes, datas, targets = self._links
            for link in links(record):
                names.append(link.name)
                indexes.append(link.index)
                datas.append(link.data)
                targets.append(link.target)

    def take(self) -> pa.RecordBatch:
        """Return the batch and begin the next."""
        columns = self._columns
        columns["bundle"] = [self.bundle] * self.rows
        arrays: dict[str, pa.Array] = {
            column.name: pa.array(columns[column.name], column.type)
            for column in SOURCE_SCHEMA
            if column.name not in {"extras", "links"}
        }
        arrays["extras"] = _lists(_EXTRA, *self._extras)
        arrays["links"] = _lists(_LINK, *self._links)
        batch = pa.RecordBatch.from_arrays(
            [arrays[name] for name in SOURCE_SCHEMA.names], schema=SOURCE_SCHEMA
        )
        self.__init__(self.bundle)  # type: ignore[misc]  # begin again
        return batch


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
