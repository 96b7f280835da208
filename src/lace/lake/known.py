"""What of a draft the lake has already, without a look at all that it has.

Prints say which rows may be known: those of the draft are compared with those of each file of the
lake, eight bytes a record. What is doubtful then is compared by its whole hash: a few rows here, of
many a join by Spark, with the files alone that gave reason to doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace.lake import prints
from lace.lake.delta import DeltaLog, Listed
from lace.lake.jobs import carried
from lace.lake.places import filesystem
from lace.lake.reading import read_files
from lace.lake.rows import FORGOTTEN_SCHEMA, RECORDS_SCHEMA
from lace.lake.session import parallelism
from lace.lake.tables import Lake, Snapshot
from lace.lake.writing import RECORDS, Draft, Written, write_table, write_without
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW: Final = 20_000
"""So many doubtful records are compared by their hashes without Spark."""
SCANNED: Final = 20_000_000
"""So many prints of the lake are read here; more are read by the workers."""
PART_ROWS: Final = 8_000_000
"""Prints of a draft that are held at once; of more, one part of all hashes after the other."""
_PARTS: Final = 8
_HERE_BYTES: Final = 64 * MIB
#: Why a row is left out; of several reasons the largest counts.
REPEATED: Final = 0
KNOWN: Final = 1
FORGOTTEN: Final = 2
_FOUND: Final = pa.schema([("file", pa.int64()), ("print", pa.int64())])


@dataclass(frozen=True, slots=True)
class Doubt:
    """What has to be looked at closely."""

    rows: dict[str, pa.Array]
    """Of each file of the draft with doubtful rows: which of its rows are."""
    files: list[Listed]
    """Those of the lake, and of what it has forgotten, that may have some of them."""

    @property
    def count(self) -> int:
        return sum(pc.sum(rows).as_py() for rows in self.rows.values())


def without_known(
    lake: Lake, draft: Draft, snapshot: Snapshot
) -> tuple[list[Written], dict[int, int]]:
    """Return the files of what is new, and how many records are left out for which reason."""
    files = draft.of(RECORDS)
    places = dict(zip(draft.uris(files, lake.records_log), files, strict=True))
    theirs = [*snapshot.version.listed(), *lake.forgotten_files()]
    many = lake.session is not None and snapshot.version.rows > SCANNED
    doubt = _doubt(lake, list(places), theirs, many)
    if not doubt.rows:
        return files, {}
    sure = [file for uri, file in places.items() if uri not in doubt.rows]
    touched = {uri: places[uri] for uri in doubt.rows}
    judge = _compared if doubt.count <= FEW else _joined
    kept, counts = judge(lake, draft, snapshot, touched, doubt)
    return [*sure, *kept], counts


# --- by prints ----------------------------------------------------------------------------------


def _doubt(lake: Lake, mine: list[str], files: list[Listed], many: bool) -> Doubt:
    theirs = [file.uri for file in files]
    total = sum(len(prints.read(lake.root, uri)) for uri in mine)
    parts = 1
    while parts < _PARTS and total > parts * PART_ROWS:
        parts *= 2
    found: list[pa.Array] = []
    uris: set[str] = set()
    for part in range(parts):
        own = _part(lake.root, mine, part, parts)
        distinct = own.unique()
        matches = (
            _by_workers(lake, mine, theirs, part, parts)
            if many
            else prints.matching(lake.root, theirs, distinct)
        )
        for uri, some in matches:
            uris.add(uri)
            found.append(some)
        if len(distinct) < len(own):
            counted = own.value_counts()
            twice = counted.filter(pc.greater(counted.field("counts"), 1))
            found.append(twice.field("values"))
    if not found:
        return Doubt({}, [])
    doubtful = pa.chunked_array(found).unique()
    rows = {uri: pc.is_in(prints.read(lake.root, uri), doubtful) for uri in mine}
    touched = {uri: rows for uri, rows in rows.items() if pc.any(rows).as_py()}
    return Doubt(touched, [file for file in files if file.uri in uris])


def _part(root: str, uris: Sequence[str], part: int, parts: int) -> pa.Array:
    """Return the prints of files that belong to one part of all."""
    made = []
    for uri in uris:
        whole = prints.read(root, uri)
        made.append(
            whole if parts == 1 else whole.filter(pc.equal(pc.bit_wise_and(whole, parts - 1), part))
        )
    return pa.chunked_array(made, pa.int64()).combine_chunks()


def _by_workers(
    lake: Lake, mine: list[str], theirs: list[str], part: int, parts: int
) -> Iterator[tuple[str, pa.Array]]:
    """Have the workers compare; yield the files of the lake with prints of the draft, and these."""
    root = lake.root

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            own = _part(root, mine, part, parts).unique()
            for batch in batches:
                some = [theirs[number] for number in batch.column("id").to_pylist()]
                numbers = {uri: number for number, uri in enumerate(theirs)}
                for uri, found in prints.matching(root, some, own):
                    file = pa.repeat(pa.scalar(numbers[uri], pa.int64()), len(found))
                    yield pa.RecordBatch.from_arrays([file, found], schema=_FOUND)

    tasks = min(len(theirs), 4 * parallelism(lake.spark))
    numbers = lake.spark.range(0, len(theirs), 1, tasks)
    table = numbers.mapInArrow(work, from_arrow_schema(_FOUND)).toArrow()
    for number in table.column("file").unique().to_pylist():
        chosen = table.filter(pc.equal(table.column("file"), number))
        yield theirs[number], chosen.column("print").combine_chunks()


# --- by hashes ----------------------------------------------------------------------------------


def _compared(
    lake: Lake, draft: Draft, snapshot: Snapshot, touched: dict[str, Written], doubt: Doubt
) -> tuple[list[Written], dict[int, int]]:
    """Compare a few doubtful records with the lake without Spark."""
    rows = []
    for uri in touched:
        where = pc.indices_nonzero(doubt.rows[uri])
        table = _read(uri, ["bundle", "offset", "hash"]).take(where)
        columns = (column.to_pylist() for column in table.columns)
        rows += [
            (bundle, offset, uri, number, hash)
            for bundle, offset, hash, number in zip(*columns, where.to_pylist(), strict=True)
        ]
    hashes = {row[-1] for row in rows}
    known, gone = snapshot.present(hashes), lake.forgotten(hashes)
    counts: dict[int, int] = {}
    dropped: dict[str, list[int]] = {}
    seen: set[str] = set()
    for _, _, uri, number, hash in sorted(rows):
        if hash in known or hash in gone or hash in seen:
            reason = FORGOTTEN if hash in gone else KNOWN if hash in known else REPEATED
            counts[reason] = counts.get(reason, 0) + 1
            dropped.setdefault(uri, []).append(number)
        seen.add(hash)
    made = [file for uri, file in touched.items() if uri not in dropped]
    few = sum(touched[uri].size for uri in dropped) <= _HERE_BYTES
    session = None if few else lake.spark
    return [*made, *write_without(session, dropped, draft.folder)], counts


def _read(uri: str, columns: list[str]) -> pa.Table:
    system, path = filesystem(uri)
    return pq.read_table(path, columns=columns, filesystem=system)


def _joined(
    lake: Lake, draft: Draft, snapshot: Snapshot, touched: dict[str, Written], doubt: Doubt
) -> tuple[list[Written], dict[int, int]]:
    """Compare many doubtful records with the lake by joins."""
    rows = Rows(lake, draft, lake.records_log, RECORDS, RECORDS_SCHEMA, ("bundle", "offset"))
    keys = rows.keys(list(touched.values()), "hash")
    place = F.struct("bundle", "offset")
    twice = keys.groupBy("hash").agg(F.count(F.lit(1)).alias("times"), F.min(place).alias("first"))
    twice = twice.where("times > 1").select("hash", "first")
    reasons = {REPEATED: keys.join(twice, "hash").where(place != F.col("first")).drop("first")}
    there = set(snapshot.version.uris())
    for reason, is_it in ((KNOWN, there.__contains__), (FORGOTTEN, lambda u: u not in there)):
        files = [file for file in doubt.files if is_it(file.uri)]
        if files:
            hashes = read_files(lake.spark, files, FORGOTTEN_SCHEMA)
            reasons[reason] = keys.join(hashes, "hash", "left_semi")
    parts = [frame.withColumn("known", F.lit(reason)) for reason, frame in reasons.items()]
    unwanted = reduce(lambda a, b: a.unionByName(b), parts)
    unwanted = unwanted.groupBy("bundle", "offset", "file").agg(F.max("known").alias("known"))
    return rows.without(list(touched.values()), unwanted)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a draft for one table, told apart by some columns."""

    lake: Lake
    draft: Draft
    log: DeltaLog
    table: str
    schema: pa.Schema
    place: tuple[str, ...]

    def _read(self, files: Sequence[Written]) -> DataFrame:
        return read_files(self.lake.spark, self.draft.listed(files, self.log), self.schema)

    def keys(self, files: Sequence[Written], *more: str) -> DataFrame:
        """Return the places of all rows, with the file that each is in."""
        wanted = pa.schema([self.schema.field(name) for name in (*self.place, *more)])
        listed = self.draft.listed(files, self.log)
        return read_files(self.lake.spark, listed, wanted, with_file=True)

    def known(self, files: Sequence[Written], table: list[Listed]) -> DataFrame:
        """Return the places that are in files of the table already."""
        wanted = pa.schema([self.schema.field(name) for name in self.place])
        there = read_files(self.lake.spark, table, wanted)
        found = self.keys(files).join(there, [*self.place], "left_semi")
        return found.withColumn("known", F.lit(KNOWN))

    def without(
        self, files: Sequence[Written], unwanted: DataFrame | None
    ) -> tuple[list[Written], dict[int, int]]:
        """Return files without some rows, and how many of these there were of each kind.

        A file in which everything is wanted is used as it is; only the others are written again.
        """
        if unwanted is None:
            return list(files), {}
        unwanted = unwanted.persist()
        try:
            counts = {
                row.known: row["count"] for row in unwanted.groupBy("known").count().collect()
            }
            if not counts:
                return list(files), {}
            touched = {row.file for row in unwanted.select("file").distinct().collect()}
            again = self._read([file for file in files if file.name in touched])
            again = again.join(unwanted.select(*self.place), [*self.place], "left_anti")
            rewritten = write_table(again, self.table, self.draft.folder)
        finally:
            unwanted.unpersist()
        return [*(file for file in files if file.name not in touched), *rewritten], counts
