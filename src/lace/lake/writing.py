"""Rows become Parquet files where they are made: in the worker, with the columns of a table.

A task writes files of its own, under names that nobody else has, and reports them. Only what a task
reports counts: a task that is tried again, or is run twice at once, leaves files that nobody knows
of. Row bytes never pass through Java.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.pandas.types import from_arrow_schema

from lace.errors import Code, LakeError
from lace.lake import prints
from lace.lake.delta import DATA, DataFile, DeltaLog, Listed
from lace.lake.jobs import carried
from lace.lake.places import filesystem, write_whole
from lace.lake.rows import FORGOTTEN_SCHEMA, QUARANTINE_SCHEMA, RECORDS_SCHEMA, as_records, times
from lace.lake.staging import FOLDER
from lace.limits import LAKE, MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_GROUP_BYTES: Final = 8 * MIB
"""What has to be read for one record."""
_MANIFEST: Final = "manifest.json"
MOVED: Final = "moved-"
_BOUND_BYTES: Final = 256
#: Columns whose bounds stand in the log, so that readers pass over files.
_BOUNDED: Final = ("hash", "type", "group", "app", "name", "tai", "signed_by", "time", "arrived",
                   "digest", "code", "bundle")  # fmt: skip
_MILLISECOND: Final = timedelta(microseconds=999)


@dataclass(frozen=True, slots=True)
class Written:
    """A file that a task wrote into a staging folder."""

    table: str
    name: str
    size: int
    rows: int
    modified: int
    stats: str
    """As the Delta log has them."""
    begun: int
    """Of the rows of a quarantine: those that are not the continuation of another."""

    def published(self) -> DataFile:
        """Return it as a file of its table."""
        return DataFile(f"{DATA}/{self.name}", self.size, self.rows, self.modified, self.stats)


_WRITTEN: Final = pa.schema([
    ("table", pa.string()), ("name", pa.string()), ("size", pa.int64()), ("rows", pa.int64()),
    ("modified", pa.int64()), ("stats", pa.string()), ("begun", pa.int64()),
])  # fmt: skip
RECORDS: Final = "records"
ASIDE: Final = "aside"
FORGOTTEN: Final = "forgotten"
_SCHEMAS: Final = {
    RECORDS: RECORDS_SCHEMA, ASIDE: QUARANTINE_SCHEMA, FORGOTTEN: FORGOTTEN_SCHEMA,
}  # fmt: skip


class NewFile:
    """One Parquet file under way; made when its first row comes."""

    def __init__(self, folder: str, table: str) -> None:
        self._table = table
        self._schema = _SCHEMAS[table]
        self._name = f"{uuid4().hex}.parquet"
        self._lake = folder.rsplit("/", 2)[0]  # drafts and tables lie alike
        self._prints: list[pa.Array] = []
        self._system, path = filesystem(folder)
        self._path = f"{path}/{self._name}"
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._bytes = self._rows = self._begun = 0
        self._metadata: list[Any] = []

    def fitting(self, table: pa.Table) -> pa.Table:
        """Return rows with exactly the columns of the table; what a row lacks is null."""
        for name in self._schema.names:
            if name not in table.column_names:
                kind = self._schema.field(name).type
                is_time = name == "time"  # which older files have as text alone
                made = times(table.column("tai")) if is_time else pa.nulls(len(table), kind)
                table = table.append_column(name, made)
        return table.select(self._schema.names).cast(self._schema)

    def add_in_groups(self, table: pa.Table) -> None:
        """Add many rows, in groups of the usual size."""
        rows = max(1, table.num_rows * ROW_GROUP_BYTES // max(1, table.nbytes))
        for at in range(0, table.num_rows, rows):
            self.add(table.slice(at, rows))
            self._flush()

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self._waiting.append(table)
        self._bytes += table.nbytes
        self._rows += table.num_rows
        if self._table == ASIDE:
            code = table.column("code")
            self._begun += pc.sum(pc.not_equal(code, str(Code.LAKE_UNREADABLE))).as_py()
        else:
            self._prints.append(prints.prints_of(table.column("hash")))
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, self._schema, filesystem=self._system, compression="zstd",
                metadata_collector=self._metadata,
            )  # fmt: skip
        if not self._waiting:
            return
        whole = pa.concat_tables(self._waiting)
        self._writer.write_table(whole, row_group_size=max(1, whole.num_rows))
        self._waiting, self._bytes = [], 0

    def close(self) -> Iterator[Written]:
        if not self._rows:
            return
        self._flush()
        assert self._writer is not None
        self._writer.close()
        if self._prints:
            prints.keep(self._lake, self._name, self._prints)
        info = self._system.get_file_info(self._path)
        stats = statistics(self._metadata[0])
        modified = int((info.mtime_ns or 0) // 1_000_000)
        yield Written(
            self._table, self._name, info.size, self._rows, modified, stats, self._begun
        )  # fmt: skip


def statistics(metadata: Any) -> str:
    """Return what the Delta log says of a file: how many rows, and bounds of some columns."""
    lowest: dict[str, str] = {}
    highest: dict[str, str] = {}
    nulls: dict[str, int] = {}
    names = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    for name in _BOUNDED:
        if name not in names:
            continue
        groups = [
            metadata.row_group(n).column(names[name]).statistics
            for n in range(metadata.num_row_groups)
        ]
        if any(s is None or not s.has_null_count for s in groups):
            continue
        nulls[name] = sum(s.null_count for s in groups)
        bounded = [s for s in groups if s.has_min_max]
        # A group without bounds holds nothing but nulls, or values too long to be noted.
        if any(s.num_values and not s.has_min_max for s in groups) or not bounded:
            continue
        low, high = min(s.min for s in bounded), max(s.max for s in bounded)
        if isinstance(low, datetime):
            lowest[name], highest[name] = _instant(low), _instant(high + _MILLISECOND)
        elif max(len(low), len(high)) <= _BOUND_BYTES:
            lowest[name], highest[name] = low, high
    return json.dumps({
        "numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest,
        "nullCount": nulls,
    })  # fmt: skip


def _instant(when: datetime) -> str:
    """Return a point in time as the log writes it, in whole milliseconds."""
    return f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z"


# --- in the workers -----------------------------------------------------------------------------


def new_file(folder: str, table: str) -> NewFile:
    """Return a file of a table that is made in a folder when its first row comes."""
    return NewFile(folder, table)


def as_batches(found: Iterable[Written]) -> Iterator[pa.RecordBatch]:
    """Yield what was written as rows, one by one."""
    for entry in found:
        yield pa.RecordBatch.from_pylist([asdict(entry)], schema=_WRITTEN)


def written_of(*more: tuple[str, pa.DataType]) -> pa.Schema:
    """Return the columns of rows about files, and some more."""
    return pa.schema([*_WRITTEN, *more])


def store_found(batches: Iterable[pa.RecordBatch], folder: str, ingest: str) -> Iterator[Written]:
    """Write what was found in bundles, records and others apart."""
    records, aside = NewFile(folder, RECORDS), NewFile(folder, ASIDE)
    for batch in batches:
        table = pa.Table.from_batches([batch])
        code = table.column("code")
        if code.null_count == len(code):
            records.add(as_records(table, ingest))
            continue
        is_record = pc.is_null(code)
        records.add(as_records(table.filter(is_record), ingest))
        aside.add(as_aside(table.filter(pc.invert(is_record)), ingest))
    for file in (records, aside):
        yield from file.close()


def as_aside(table: pa.Table, ingest: str) -> pa.Table:
    raws = table.column("raw").to_pylist()
    columns = {name: table.column(name) for name in ("code", "detail", "bundle", "offset", "raw")}
    columns["digest"] = pa.array([sha256(raw).hexdigest() for raw in raws], pa.string())
    columns["length"] = pa.array([len(raw) for raw in raws], pa.int64())
    columns["ingest"] = pa.repeat(ingest, table.num_rows)
    names = QUARANTINE_SCHEMA.names
    return pa.table([columns[name] for name in names], names=names).cast(QUARANTINE_SCHEMA)


# --- on the driver ------------------------------------------------------------------------------


def write_found(found: DataFrame, folder: str, ingest: str) -> list[Written]:
    """Write rows of bundles that Spark has read."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            yield from as_batches(store_found(batches, folder, ingest))

    return _run(found, work, folder)


def write_table(rows: DataFrame, table: str, folder: str) -> list[Written]:
    """Write rows that have the columns of a table already."""
    schema = _SCHEMAS[table]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = NewFile(folder, table)
        for batch in batches:
            file.add(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
        yield from as_batches(file.close())

    return _run(rows.select(schema.names), work, folder)


def write_without(
    spark: SparkSession | None, dropped: Mapping[str, Sequence[int]], folder: str
) -> list[Written]:
    """Write files of records again without some of their rows, by the workers or here."""
    uris = list(dropped)
    if spark is None:
        return [made for uri in uris for made in without_rows(uri, dropped[uri], folder)]
    rows = dict(dropped)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    uri = uris[number]
                    yield from as_batches(without_rows(uri, rows[uri], folder))

    return _run(spark.range(0, len(uris), 1, len(uris)), work, folder)


def without_rows(uri: str, dropped: Sequence[int], folder: str) -> Iterator[Written]:
    """Write a file of records again without some of its rows."""
    system, path = filesystem(uri)
    gone = pa.array(sorted(dropped), pa.int64())
    file = NewFile(folder, RECORDS)
    at = 0
    with pq.ParquetFile(path, filesystem=system) as source:
        for group in range(source.num_row_groups):
            table = file.fitting(source.read_row_group(group))
            places = pa.array(range(at, at + table.num_rows), pa.int64())
            file.add(table.filter(pc.invert(pc.is_in(places, gone))))
            at += table.num_rows
    yield from file.close()


def write_here(table: pa.Table, log: DeltaLog) -> DataFile:
    """Write records that are held here into a file that a commit can make part of the table."""
    system, root = filesystem(log.root)
    system.create_dir(f"{root}/{DATA}", recursive=True)
    file = NewFile(f"{log.root}/{DATA}", RECORDS)
    file.add(table.select(RECORDS_SCHEMA.names).cast(RECORDS_SCHEMA))
    (made,) = file.close()
    return made.published()


def prepared(folder: str) -> None:
    """Make a folder for what the workers write."""
    system, path = filesystem(folder)
    system.create_dir(path, recursive=True)


def _run(rows: DataFrame, work: Callable[..., Any], folder: str) -> list[Written]:
    prepared(folder)
    made = rows.mapInArrow(work, from_arrow_schema(_WRITTEN)).collect()
    return sorted((Written(**row.asDict()) for row in made), key=lambda entry: entry.name)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a step has written and not yet published: a folder beside the tables."""

    folder: str
    """Of the draft: its files lie in it directly."""
    files: tuple[Written, ...]

    def of(self, table: str) -> list[Written]:
        return [file for file in self.files if file.table == table]

    def uris(self, files: Sequence[Written], log: DeltaLog) -> list[str]:
        """Return where files are at the moment: in the draft, or in their table already."""
        there = _names_in(self.folder)
        return [
            f"{self.folder}/{file.name}" if file.name in there else f"{log.root}/{DATA}/{file.name}"
            for file in files
        ]

    def listed(self, files: Sequence[Written], log: DeltaLog) -> list[Listed]:
        """Return files as a listing, where they are at the moment."""
        uris = self.uris(files, log)
        return [Listed(uri, f.size, f.modified) for uri, f in zip(uris, files, strict=True)]

    def publish(self, files: Sequence[Written], log: DeltaLog) -> list[DataFile]:
        """Move files to where their table has them; a commit makes them part of it."""
        system, root = filesystem(log.root)
        system.create_dir(f"{root}/{DATA}", recursive=True)
        _, draft = filesystem(self.folder)
        there = _names_in(self.folder)
        made = []
        # Written down first: whoever goes on after a crash knows what may lie in the table.
        with system.open_output_stream(f"{draft}/{MOVED}{uuid4().hex}.json") as out:
            out.write(json.dumps([file.name for file in files]).encode())
        for file in files:
            path = f"{DATA}/{file.name}"
            if file.name in there:
                system.move(f"{draft}/{file.name}", f"{root}/{path}")
            made.append(file.published())
        return made


def _names_in(folder: str) -> set[str]:
    system, path = filesystem(folder)
    selector = fs.FileSelector(path, allow_not_found=True)
    return {info.base_name for info in system.get_file_info(selector)}


def drafts(root: str, stem: str) -> list[str]:
    """Return the folders of drafts in a lake whose names begin like this."""
    system, path = filesystem(root)
    selector = fs.FileSelector(f"{path}/{FOLDER}", allow_not_found=True)
    names = (info.base_name for info in system.get_file_info(selector))
    return [f"{root}/{FOLDER}/{name}" for name in sorted(names) if name.startswith(stem)]


def finish(folder: str, files: Sequence[Written]) -> Draft:
    """Write down what a draft consists of, so that another process can go on with it."""
    content = json.dumps([asdict(entry) for entry in files])
    write_whole(f"{folder}/{_MANIFEST}", content.encode())
    return Draft(folder, tuple(files))


def finished(folder: str) -> Draft | None:
    """Return the draft in a folder, or None if whoever wrote it did not come to the end."""
    system, path = filesystem(folder)
    info = system.get_file_info(f"{path}/{_MANIFEST}")
    if info.type != fs.FileType.File:
        return None
    if info.size > LAKE.manifest_bytes:
        raise LakeError(f"{folder}/{_MANIFEST} is too large", code=Code.LAKE_FORMAT)
    with system.open_input_file(f"{path}/{_MANIFEST}") as file:
        entries = json.loads(cast("bytes", file.read()))
    return Draft(folder, tuple(Written(**entry) for entry in entries))


def remove(folder: str, *logs: DeltaLog) -> None:
    """Delete a draft, and what it moved into tables without its becoming part of them."""
    system, path = filesystem(folder)
    moved: set[str] = set()
    for name in _names_in(folder):
        if name.startswith(MOVED):
            with system.open_input_file(f"{path}/{name}") as file:
                moved |= set(json.loads(cast("bytes", file.read())))
    for log in logs:
        log.drop(f"{DATA}/{name}" for name in moved)
    if system.get_file_info(path).type == fs.FileType.Directory:
        system.delete_dir(path)
