"""Tables of digests, and records, in files by standard partition: as much as is looked at is read.

A file holds runs of bytes, each with all that lies in one partition; an index says where each run
is, how many records it has and which digests. An index has the same size for any lake. The workers
write runs and sum them up; here are held an index, and a few runs that were looked at last. A run
is never changed: a table in which little changed is another index, with most places the same.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, LakeError, StoreError
from lace.interlace.groups import (
    GROUP,
    NOTHING,
    Content,
    content_of,
    group_digest,
    pack_contents,
)
from lace.interlace.partition import Partitions
from lace.interlace.runs import (
    KEY,
    column_of,
    entry_size,
    last_digests,
    records_of,
    run_items,
)
from lace.interlace.sketch import Names, Sketch, add_cells, names_of, whole_blocks
from lace.lake.entries import COLUMNS, PAYLOAD, Digests, Run, cut_runs, in_order, pieces
from lace.lake.jobs import carried, job
from lace.lake.places import filesystem
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW: Final = Struct(">IQII32s32s16s")
"""The number of the file, where in it the run begins, how many bytes and records, the digests of
both columns, and what says whether the bytes are as they were written."""
_LIKE: Final = (1 << 32) - 1
"""In place of a file: the run is that of another table, with its last digests."""
_CHECK: Final = 16
_UNCHECKED: Final = bytes(_CHECK)
_NO_RUN: Final = ROW.pack(0, 0, 0, 0, NOTHING[1], NOTHING[1], _UNCHECKED)
_HELD_BYTES: Final = 8 * MIB
_RECORDS_OF_TASK: Final = 250_000
"""So many records of a table are put in order by one task."""
_HERE: Final = 100_000
"""Tables of so many records are summed up without Spark."""
_LEAST_CELLS: Final = 4096
"""So many cells are made at once: a second look at everything costs more than they do."""

_WRITTEN: Final = pa.schema([
    ("run", pa.int64()), ("file", pa.string()), ("start", pa.int64()), ("bytes", pa.int64()),
    ("records", pa.int64()), ("digest", pa.binary()), ("expected", pa.binary()),
    ("check", pa.binary()),
])  # fmt: skip
_CELLS: Final = pa.schema([("cells", pa.binary())])
_FOUND: Final = pa.schema([("name", pa.binary()), ("hash", pa.string())])
_UNPACKED: Final = pa.schema([("hash", pa.string()), ("digest", pa.binary())])


@dataclass(frozen=True)
class PackedTable:
    """A table of digests in files; what ``Partitions`` are kept in (see ``Kept``)."""

    folder: str
    files: tuple[str, ...]
    rows: bytes = field(repr=False)
    """One for each standard partition."""
    columns: int = COLUMNS
    """How many digests each record has; 0 for a table of records."""
    like: PackedTable | None = None
    session: SparkSession | None = field(default=None, compare=False, repr=False)
    """With one, the workers sum up large tables."""
    note: Mapping[str, Any] = field(default_factory=dict)
    """What the table was made from; the writer's matter."""
    _held: OrderedDict[int, bytes] = field(default_factory=OrderedDict, compare=False, repr=False)

    # Tables differ in where they are, and are never compared by what they hold.
    __hash__ = object.__hash__

    def __getstate__(self) -> dict[str, Any]:
        """Go to a worker: without the session, and with nothing that was read."""
        names = ("folder", "files", "rows", "columns", "like", "note")
        return {name: getattr(self, name) for name in names} | {
            "session": None, "_held": OrderedDict(),
        }  # fmt: skip

    # --- what Partitions ask ---

    @property
    def stays(self) -> bool:
        return True

    @property
    def whole(self) -> bytes | None:
        return None

    @property
    def odd(self) -> Mapping[str, bytes]:
        return {}

    @property
    def runs(self) -> int:
        """How many standard partitions there are."""
        return len(self.rows) // ROW.size

    @cached_property
    def count(self) -> int:
        return sum(row[3] for row in ROW.iter_unpack(self.rows))

    @cached_property
    def groups(self) -> Sequence[bytes]:
        groups = range(-(-self.runs // GROUP))
        return [group_digest(pack_contents(self.contents(group))) for group in groups]

    def contents(self, group: int) -> Sequence[Content]:
        stop = min((group + 1) * GROUP, self.runs)
        return [self._row(number)[3:5] for number in range(group * GROUP, stop)]

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Have each read by itself."""

    def run(self, number: int) -> bytes:
        found = self._held.get(number)
        if found is not None:
            self._held.move_to_end(number)
            return found
        file, start, size, _, _, _, check = self._row(number)
        if file == _LIKE:
            assert self.like is not None
            found = last_digests(self.like.run(number), self.like.columns)
        else:
            found = self._read(self.files[file], start, size) if size else b""
            if size and _check(found) != check:
                raise self._damaged(self.files[file])
        self._held[number] = found
        while len(self._held) > 1 and sum(map(len, self._held.values())) > _HELD_BYTES:
            self._held.popitem(last=False)
        return found

    def expected(self) -> PackedTable | None:
        if self.columns != COLUMNS:
            return None
        rows = b"".join(
            ROW.pack(_LIKE, 0, 0, count, expected, NOTHING[1], _UNCHECKED)
            for _, _, _, count, _, expected, _ in ROW.iter_unpack(self.rows)
        )
        return PackedTable(self.folder, (), rows, 1, self, self.session)

    def names(self, key: bytes, column: int) -> Names:
        return _TableNames(self, key, column)

    def _row(self, number: int) -> tuple[int, int, int, int, bytes, bytes, bytes]:
        return ROW.unpack_from(self.rows, number * ROW.size)

    def _read(self, file: str, start: int, size: int) -> bytes:
        system, path = filesystem(f"{self.folder}/{file}")
        try:
            with system.open_input_file(path) as opened:
                opened.seek(start)
                data = cast("bytes", opened.read(size))
        except OSError as error:
            raise StoreError(f"{self.folder}/{file}: {error}", code=Code.STORE_LINK) from error
        return data

    def _damaged(self, file: str) -> StoreError:
        """Remove a file that is not as it was written, so that its tables are made anew."""
        system, path = filesystem(f"{self.folder}/{file}")
        with suppress(OSError):
            system.delete_file(path)
        return StoreError(f"{self.folder}/{file} is damaged", code=Code.STORE_LINK)

    # --- as a whole ---

    @property
    def partitions(self) -> Partitions:
        """The table as an exchange looks at it."""
        return Partitions.from_kept(self.columns, self._standard, self)

    @property
    def _standard(self) -> int:
        return (self.runs.bit_length() - 1) // 6

    def is_readable(self) -> bool:
        """Whether all files are there that it is in."""
        tables = [self] if self.like is None else [self, self.like]
        places = [filesystem(f"{t.folder}/{name}") for t in tables for name in t.files]
        return all(s.get_file_info(path).type == fs.FileType.File for s, path in places)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return hash and digests of all records, read by the workers."""

        def work(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
            size = entry_size(self.columns)
            for number in numbers:
                run = self.run(number)
                items = run_items(run, self.columns, 0)
                cut = [run[at + KEY : at + size] for at in range(0, len(run), size)]
                yield pa.RecordBatch.from_arrays(
                    [pa.array([r for r, _ in items], pa.string()), pa.array(cut, pa.binary())],
                    schema=_UNPACKED,
                )

        return _over_runs(spark, self, work, _UNPACKED)


def _over_runs(
    spark: SparkSession,
    table: PackedTable,
    work: Callable[[Iterator[int]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """Have the workers go through the runs of a table, some runs each."""

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            yield from work(n for batch in batches for n in batch.column("id").to_pylist())

    tasks = min(table.runs, max(_tasks(spark), table.count // _RECORDS_OF_TASK))
    return spark.range(0, table.runs, 1, tasks).mapInArrow(each, from_arrow_schema(schema))


def _tasks(spark: SparkSession) -> int:
    return int(str(spark.conf.get("spark.sql.shuffle.partitions", "2")))


# --- names for sketches ---


@dataclass(slots=True)
class _TableNames:
    """The names of a table, made anew for each question and never all held."""

    table: PackedTable
    key: bytes
    column: int
    _made: bytes = b""

    def __len__(self) -> int:
        return self.table.count

    def cells(self, start: int, stop: int) -> bytes:
        size = len(Sketch(()).cells(0, 1))
        if stop * size > len(self._made):
            self._made = self._sum_up(whole_blocks(max(stop, _LEAST_CELLS)))
        return self._made[start * size : stop * size]

    def _sum_up(self, cells: int) -> bytes:
        def work(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
            names = array("Q")
            for number in numbers:
                names += self._names(number)
            made = [Sketch(names).cells(0, cells)] if names else []
            yield pa.RecordBatch.from_arrays([pa.array(made, pa.binary())], schema=_CELLS)

        total = Sketch(()).cells(0, cells)
        for row in self._gather(work, _CELLS, "a sketch of what may be sent"):
            total = add_cells(total, row["cells"])
        return total

    def find(self, names: Collection[int]) -> dict[int, str]:
        wanted = frozenset(names)

        def work(numbers: Iterator[int]) -> Iterator[pa.RecordBatch]:
            for number in numbers:
                made = self._names(number)
                if wanted.isdisjoint(made):
                    continue
                records = records_of(self.table.run(number), entry_size(self.table.columns))
                found = [(n, r) for n, r in zip(made, records, strict=True) if n in wanted]
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([n.to_bytes(8, "big") for n, _ in found], pa.binary()),
                        pa.array([r for _, r in found], pa.string()),
                    ],
                    schema=_FOUND,
                )

        rows = self._gather(work, _FOUND, "records by their names") if wanted else ()
        return {int.from_bytes(row["name"], "big"): row["hash"] for row in rows}

    def _names(self, number: int) -> array[int]:
        digests = column_of(self.table.run(number), self.table.columns, self.column)
        return names_of(self.key, digests)

    def _gather(
        self,
        work: Callable[[Iterator[int]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
        what: str,
    ) -> Iterable[Mapping[str, Any]]:
        spark = self.table.session
        if spark is None or self.table.count <= _HERE:
            made = pa.Table.from_batches(work(iter(range(self.table.runs))), schema)
        else:
            try:
                with job(what):
                    made = _over_runs(spark, self.table, work, schema).toArrow()
            except LakeError as error:  # on this side, whoever asked
                raise StoreError(error.message, code=error.code) from error
        rows: list[Mapping[str, Any]] = made.to_pylist()
        return rows


# --- writing ---


def pack(
    rows: DataFrame,
    folder: str,
    records: int,
    standard: int,
    digests: Digests = lambda batch: batch.column("digest"),
    known: DataFrame | None = None,
) -> PackedTable:
    """Have the workers write a table of hashes with two digests each, about so many of them.

    ``known`` are more rows, whose digests are in their column ``digest``.
    """
    tasks = _tasks_for(rows.sparkSession, records)
    made = pieces(rows, digests, tasks, standard)
    if known is not None:
        made = made.union(pieces(known, lambda batch: batch.column("digest"), tasks, standard))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        entries = b"".join(
            piece for batch in batches for piece in batch.column("entries").to_pylist()
        )
        with carried():
            yield from _write_runs(cut_runs(in_order(entries), standard), folder)

    return _written(made.repartitionById(tasks, "part"), work, folder, standard)


def pack_records(raws: DataFrame, folder: str, records: int, standard: int) -> PackedTable:
    """Have the workers write records by partition; each has its length before it."""

    def run(entries: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes, bytes]:
        entries.sort()
        framed = [(key, len(raw).to_bytes(8, "big"), raw) for key, raw in entries]
        return b"".join([part for entry in framed for part in entry]), NOTHING[1], NOTHING[1]

    made = _packed(raws.select("hash", "raw"), folder, records, standard, run)
    return replace(made, columns=0)


def packed_record(run: bytes, hash: str) -> bytes | None:
    """Return the bytes of a record in a run of records."""
    wanted, at = _key(hash), 0
    while at < len(run):
        size = int.from_bytes(run[at + KEY : at + KEY + 8], "big")
        start = at + KEY + 8
        if run[at : at + KEY] == wanted:
            return run[start : start + size]
        at = start + size
    return None


def _check(run: bytes) -> bytes:
    """Return what says whether the bytes of a run are as they were written."""
    return digest(run)[:_CHECK]


def run_number(hash: str, standard: int) -> int:
    """Return in which standard partition a record is."""
    return int.from_bytes(_key(hash)[:3], "big") >> 24 - 6 * standard


def _key(hash: str) -> bytes:
    return b64a.decode_trusted(hash[2:-3].encode("ascii")) + hash[:1].encode("ascii")


# --- files of runs ---


def _packed(
    rows: DataFrame,
    folder: str,
    records: int,
    standard: int,
    run: Callable[[list[tuple[bytes, bytes]]], tuple[bytes, bytes, bytes]],
) -> PackedTable:

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, list[tuple[bytes, bytes]]] = {}
        for batch in batches:
            columns = (batch.column(0).to_pylist(), batch.column(1).to_pylist())
            for hash, value in zip(*columns, strict=True):
                key = _key(hash)
                number = int.from_bytes(key[:3], "big") >> 24 - 6 * standard
                found.setdefault(number, []).append((key, value))
        with carried():
            yield from _write_runs(runs(found), folder)

    def runs(found: dict[int, list[tuple[bytes, bytes]]]) -> Iterator[Run]:
        for number in sorted(found):
            entries = found.pop(number)
            data, first, last = run(entries)
            yield number, data, len(entries), first, last

    prefix = F.substring(rows.columns[0], PAYLOAD + 1, standard)
    parts = rows.repartition(_tasks_for(rows.sparkSession, records), prefix)
    return _written(parts, work, folder, standard)


def _write_runs(runs: Iterator[Run], folder: str) -> Iterator[pa.RecordBatch]:
    """Write runs into one file; yield where they are."""
    begin = next(runs, None)
    if begin is None:
        return
    # A task may run twice; only one of them is heard, and the other one's file is tidied away.
    name, at, written = f"{uuid4().hex}.runs", 0, []
    system, path = filesystem(f"{folder}/{name}")
    with system.open_output_stream(path) as file:
        for number, data, count, first, last in chain([begin], runs):
            file.write(data)
            written.append((number, name, at, len(data), count, first, last, _check(data)))
            at += len(data)
    arrays = [
        pa.array(column, of.type)
        for column, of in zip(zip(*written, strict=True), _WRITTEN, strict=True)
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=_WRITTEN)


def _tasks_for(spark: SparkSession, records: int) -> int:
    return max(_tasks(spark), -(-records // _RECORDS_OF_TASK))


def _written(
    parts: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    folder: str,
    standard: int,
) -> PackedTable:
    """Have the workers write runs, and return the table that they make up."""
    system, path = filesystem(folder)
    system.create_dir(path, recursive=True)
    places: list[bytes] = [_NO_RUN] * 64**standard
    files: dict[str, int] = {}
    for row in parts.mapInArrow(work, from_arrow_schema(_WRITTEN)).toArrow().to_pylist():
        file = files.setdefault(row["file"], len(files))
        places[row["run"]] = ROW.pack(
            file, row["start"], row["bytes"], row["records"], row["digest"], row["expected"],
            row["check"],
        )  # fmt: skip
    return PackedTable(folder, tuple(files), b"".join(places), session=parts.sparkSession)


def write_changed(table: Partitions, base: PackedTable) -> PackedTable:
    """Write the partitions of a table that its base does not have; the others stay where they are.

    What the workers once wrote is left behind where it is no longer part of the table.
    """
    changed = table.differing(base.partitions)
    if not changed:
        return base
    name, at, parts = f"{uuid4().hex}.runs", 0, []
    rows = bytearray(base.rows)
    for number in changed:
        run = table.run(number)
        count, first = table.content(number)
        last = content_of(column_of(run, base.columns, base.columns - 1))[1]
        row = ROW.pack(len(base.files), at, len(run), count, first, last, _check(run))
        rows[number * ROW.size : (number + 1) * ROW.size] = row
        parts.append(run)
        at += len(run)
    system, path = filesystem(f"{base.folder}/{name}")
    with system.open_output_stream(path) as file:
        for part in parts:
            file.write(part)
    return replace(base, files=(*base.files, name), rows=bytes(rows), _held=OrderedDict())


def peers_table(peers: Partitions, own: PackedTable) -> PackedTable:
    """Write what a peer advertises: where it is what this side would say, that is all to write."""
    expected = own.expected()
    assert expected is not None
    return write_changed(peers, expected)
