"""Advertisements, digests and partition summaries of a selection, as an exchange would make them.

Digests and summaries are kept in the lake with the version that they belong to. When the lake has
moved on, only new records get a digest, and only partitions in which something changed get a root.
The bytes are those of ``lace.interlace``: the same functions make them, in the workers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace.b64a import encode
from lace.crypto.native import digest
from lace.errors import Code, LakeError
from lace.interlace.advertise import Advertisement, FieldValue, advert_order, digests_in_order
from lace.interlace.partition import STANDARD_PREFIX
from lace.interlace.runs import DIGEST
from lace.interlace.summary import (
    Summary,
    merkle_root,
)
from lace.lake.delta import DATA, Conflict, DeltaLog, TableVersion
from lace.lake.entries import of_width
from lace.lake.jobs import job
from lace.lake.reading import read_files
from lace.lake.rows import PROMOTED
from lace.lake.tables import Lake, Snapshot
from lace.limits import LAKE
from lace.policy.origin import SourceLabel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIGESTS: Final = pa.schema([("hash", pa.string()), ("digest", pa.binary())])
PARTITIONS: Final = pa.schema([
    ("prefix", pa.string()), ("count", pa.int64()), ("root", pa.binary())
])  # fmt: skip
_ADVERTS: Final = pa.schema([("hash", pa.string()), ("advertisement", pa.binary())])
_HASH_PAYLOAD: Final = len("S.") + 1
_WORK: Final = "lace-summaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertising:
    """What is advertised of a record, and by whom."""

    selection: str
    """What identifies the set of records: the id of a lacegram or of an exchange plan."""
    source: str
    schema: frozenset[str] | None = None
    """The fields that are advertised; None: all."""
    prefix_length: int = STANDARD_PREFIX

    def __post_init__(self) -> None:
        if not 0 <= self.prefix_length <= LAKE.prefix_characters:
            raise LakeError(f"prefixes of 0 to {LAKE.prefix_characters} characters are kept",
                            code=Code.LIMIT_EXCEEDED)  # fmt: skip

    @property
    def id(self) -> str:
        schema = None if self.schema is None else sorted(self.schema)
        parts = [self.selection, self.source, schema, self.prefix_length]
        return encode(digest(b"lace-lake-summaries/v1" + json.dumps(parts).encode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    """The partition summaries of a selection in one version of a lake."""

    version: int
    partitions: tuple[Summary, ...]
    """The non-empty ones, in order."""
    digested: int
    """How many digests had to be computed; the others were known."""
    rooted: int
    """How many roots had to be computed."""

    @property
    def count(self) -> int:
        return sum(summary.count for summary in self.partitions)


@dataclass(frozen=True, slots=True)
class SummaryTables:
    """Where the digests and summaries of one way of advertising are kept."""

    lake: Lake
    advertising: Advertising

    @property
    def digests(self) -> DeltaLog:
        return DeltaLog(f"{self.lake.root}/summaries/{self.advertising.id}/digests", DIGESTS)

    @property
    def partitions(self) -> DeltaLog:
        return DeltaLog(f"{self.lake.root}/summaries/{self.advertising.id}/partitions", PARTITIONS)

    def digest_frame(self) -> DataFrame:
        return read_files(self.lake.spark, self.digests.version().listed(), DIGESTS)


def summarize(
    snapshot: Snapshot, selected: Callable[[], DataFrame], tables: SummaryTables
) -> Summaries:
    """Return the summaries of the selected records; what is known already is not computed again.

    ``selected`` gives the hashes (one column ``hash``, each once); it is not asked if the lake is
    still at the version of the summaries that are kept.
    """
    tables.digests.create()
    tables.partitions.create()
    lake_version = snapshot.version.number
    with job("summarising"):
        before, partitions = tables.digests.version(), tables.partitions.version()
        digested, rooted = 0, 0
        if _belongs_to(tables.partitions, partitions) != lake_version:
            current = _belongs_to(tables.partitions, partitions) == _belongs_to(
                tables.digests, before
            )
            digested, touched = _refresh_digests(snapshot, selected(), tables, before)
            rooted = _refresh_partitions(
                tables, partitions, touched if current else None, lake_version
            )
    return Summaries(
        version=lake_version,
        partitions=_read_partitions(tables),
        digested=digested,
        rooted=rooted,
    )


def _refresh_digests(
    snapshot: Snapshot, selected: DataFrame, tables: SummaryTables, before: TableVersion
) -> tuple[int, DataFrame | None]:
    """Bring the digests up to date; return how many are new, and which prefixes they touch."""
    spark = tables.lake.spark
    known = read_files(spark, before.listed(), DIGESTS)
    fresh_hashes = (
        selected.join(known.select("hash"), "hash", "left_anti") if before.files else selected
    )
    fresh = digests(snapshot.records.join(fresh_hashes, "hash", "left_semi"), tables.advertising)
    gone = known.join(selected, "hash", "left_anti").select("hash")
    removed = gone.persist()
    try:
        is_replaced = bool(before.files) and not removed.isEmpty()
        folder = f"{DATA}/{uuid4().hex}"
        log = tables.digests
        if is_replaced:
            known.join(removed, "hash", "left_anti").write.parquet(f"{log.root}/{folder}/old")
        fresh.write.parquet(f"{log.root}/{folder}/new")
        new = [file for file in log.files_in(f"{folder}/new") if file.rows]
        files = [*new, *(log.files_in(f"{folder}/old") if is_replaced else ())]
        _commit(log, files, before, snapshot.version.number, is_replaced)
        length = tables.advertising.prefix_length
        touched = read_files(spark, before.listed(new), DIGESTS).select("hash")
        prefixes = touched.union(removed).select(_prefix(length)).distinct()
        return sum(file.rows for file in new), _held(prefixes)
    finally:
        removed.unpersist()


def _held(frame: DataFrame) -> DataFrame:
    """Return a small frame with its rows fixed."""
    rows = [tuple(row) for row in frame.collect()]
    return frame.sparkSession.createDataFrame(rows, frame.schema)


def _refresh_partitions(
    tables: SummaryTables, before: TableVersion, touched: DataFrame | None, version: int
) -> int:
    """Bring the roots up to date; only those of touched prefixes, if they are known."""
    length = tables.advertising.prefix_length
    rows = tables.digest_frame().select(_prefix(length), "digest")
    kept: DataFrame | None = None
    if touched is not None:
        rows = rows.join(F.broadcast(touched), "prefix", "left_semi")
        kept = read_files(tables.lake.spark, before.listed(), PARTITIONS).join(
            F.broadcast(touched), "prefix", "left_anti"
        )
    grouped = rows.groupBy("prefix").agg(F.collect_list("digest").alias("digests"))
    made = grouped.mapInArrow(_roots, from_arrow_schema(PARTITIONS))
    made = made.persist()
    try:
        rooted = made.count()
        everything = made if kept is None else made.unionByName(kept)
        log = tables.partitions
        folder = f"{DATA}/{uuid4().hex}"
        everything.coalesce(1).write.parquet(f"{log.root}/{folder}")
        _commit(log, log.files_in(folder), before, version, True)
    finally:
        made.unpersist()
    return rooted


def _commit(
    log: DeltaLog, files: Iterable[Any], before: TableVersion, version: int, is_replaced: bool
) -> None:
    try:
        log.commit(
            files, work=_WORK, step=version, expected=before.number, note={"lake": version},
            replace=is_replaced,
        )  # fmt: skip
    except Conflict:
        raise LakeError("another process summarises the same", code=Code.LAKE_CONFLICT) from None


def _belongs_to(log: DeltaLog, version: TableVersion) -> int | None:
    """Return the version of the lake that a table was computed from."""
    if not version.number:
        return None
    return next((int(note["lake"]) for note in log.notes(1)), None)


def _read_partitions(tables: SummaryTables) -> tuple[Summary, ...]:
    frame = read_files(tables.lake.spark, tables.partitions.version().listed(), PARTITIONS)
    rows = frame.orderBy("prefix").collect()
    return tuple(Summary(row.prefix, row["count"], bytes(row.root)) for row in rows)


def _prefix(length: int) -> Any:
    return F.substring("hash", _HASH_PAYLOAD, length).alias("prefix")


# --- in the workers -----------------------------------------------------------------------------


def digests(records: DataFrame, advertising: Advertising) -> DataFrame:
    """Return hash and advertisement digest of wide rows."""
    label = SourceLabel(advertising.source)

    def make(batch: pa.RecordBatch) -> list[bytes]:
        return digests_in_order(_described(batch, advertising), [label])

    return _each(records, advertising, DIGESTS, make)


def digest_pairs(mine: Advertising, theirs: Advertising) -> Callable[[pa.RecordBatch], pa.Array]:
    """Return what makes two digests of each row: as this side and as the peer says it.

    The rows have the columns of ``advertised_columns``.
    """
    labels = [SourceLabel(side.source) for side in (mine, theirs)]

    def pairs(batch: pa.RecordBatch) -> pa.Array:
        found = digests_in_order(_described(batch, mine), labels)
        return of_width(b"".join(found), len(labels) * DIGEST)

    return pairs


def advertisements(records: DataFrame, advertising: Advertising) -> DataFrame:
    """Return hash and canonical advertisement of wide rows."""

    def make(batch: pa.RecordBatch) -> list[bytes]:
        return [advert.canonical() for advert in _adverts(batch, advertising)]

    return _each(records, advertising, _ADVERTS, make)


def _each(
    records: DataFrame,
    advertising: Advertising,
    schema: pa.Schema,
    make: Callable[[pa.RecordBatch], list[bytes]],
) -> DataFrame:
    """Return hash and what is made of each row, by the workers."""
    needed = advertised_columns(advertising)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = pa.array(make(batch), pa.binary())
            yield pa.RecordBatch.from_arrays([batch.column("hash"), made], schema=schema)

    return records.select(*needed).mapInArrow(each, from_arrow_schema(schema))


def adverts_here(records: DataFrame, advertising: Advertising) -> Iterator[Advertisement]:
    """Yield the advertisements of wide rows, brought here."""
    return _adverts(records.select(*advertised_columns(advertising)).toArrow(), advertising)


def _promoted(advertising: Advertising) -> dict[str, str]:
    wanted = advertising.schema
    return {name: c for name, c in PROMOTED.items() if wanted is None or name in wanted}


def advertised_columns(advertising: Advertising) -> list[str]:
    """Return the columns that an advertisement is made of."""
    wanted = advertising.schema
    extras = ["extras"] if wanted is None or not wanted <= PROMOTED.keys() else []
    return list(dict.fromkeys(["hash", *_promoted(advertising).values(), *extras]))


def _adverts(rows: pa.RecordBatch | pa.Table, advertising: Advertising) -> Iterator[Advertisement]:
    source = SourceLabel(advertising.source)
    for record, fields in _described(rows, advertising):
        yield Advertisement(record, source, fields)


def _described(
    rows: pa.RecordBatch | pa.Table, advertising: Advertising
) -> Iterator[tuple[str, tuple[FieldValue, ...]]]:
    """Yield hashes with what is advertised of them, in the order of an advertisement."""
    promoted = _promoted(advertising)
    names, columns = list(promoted), [rows.column(c).to_pylist() for c in promoted.values()]
    extras = _extras(rows, advertising.schema)
    # Of many records the same is advertised: it is put in order once.
    known: dict[tuple[object, ...], tuple[FieldValue, ...]] = {}
    hashes = rows.column("hash").to_pylist()
    for record, said in zip(hashes, zip(extras, *columns, strict=True), strict=True):
        fields = known.get(said)
        if fields is None:
            more, *values = said
            fields = known[said] = tuple(sorted(
                (*((n, 0, str(v)) for n, v in zip(names, values, strict=True) if v is not None),
                 *more),
                key=advert_order,
            ))  # fmt: skip
        yield record, fields


def _extras(
    rows: pa.RecordBatch | pa.Table, schema: frozenset[str] | None
) -> Sequence[tuple[FieldValue, ...]]:
    """Return the other headers of each row that are advertised, in their order."""
    made: list[tuple[FieldValue, ...]] = [()] * rows.num_rows
    if "extras" not in rows.schema.names:
        return made
    lists = rows.column("extras")
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    entries, parents = lists.flatten(), pc.list_parent_indices(lists)
    if schema is not None:
        wanted = pc.is_in(entries.field("name"), pa.array(sorted(schema), pa.string()))
        entries, parents = entries.filter(wanted), parents.filter(wanted)
    values = zip(*(entries.field(n).to_pylist() for n in ("name", "index", "value")), strict=True)
    for row, fields in groupby(zip(parents.to_pylist(), values, strict=True), itemgetter(0)):
        made[row] = tuple(field for _, field in fields)
    return made


def _roots(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        groups = batch.column("digests").to_pylist()
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("prefix").cast(pa.string()),
                pa.array([len(group) for group in groups], pa.int64()),
                pa.array([merkle_root(group) for group in groups], pa.binary()),
            ],
            schema=PARTITIONS,
        )
