"""Out of a lake: bundles written by all workers at once, or records into a SQLite lace.

Every record is validated on its way out: files can be changed by whoever has access to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace.b64a import encode
from lace.crypto.hashing import blake3
from lace.errors import Code, LakeError, Status
from lace.lake.bundle import CUT_BYTES, Survey, write_index
from lace.lake.jobs import carried, job
from lace.lake.places import filesystem
from lace.lake.rows import SOURCE_SCHEMA, Found, batches
from lace.limits import MIB
from lace.record.validate import reread, validate_record
from lace.recordstore.base import RecordStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUNDLE_BYTES: Final = 256 * MIB
_WRITTEN: Final = pa.schema([
    ("bundle", pa.string()), ("records", pa.int64()), ("bytes", pa.int64()),
    ("rejected", pa.int64()),
])  # fmt: skip
_SAVE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export wrote."""

    records: int = 0
    duplicates: int = 0
    """That the target had already."""
    rejected: int = 0
    """That were not what they had been when they came into the lake."""
    bundles: tuple[str, ...] = ()


def export_bundles(records: DataFrame, folder: str, *, bundles: int | None = None) -> Exported:
    """Write records into new bundles in a folder that is empty or not there yet."""
    system, path = filesystem(folder)
    if "://" not in folder:
        folder = path = os.path.abspath(folder)  # noqa: PTH100 (a URI is no path)
    selector = fs.FileSelector(path, allow_not_found=True)
    if system.get_file_info(selector):
        raise LakeError(f"{folder} is not empty", code=Code.LAKE_INPUT,
                        hint="Give a folder that is not there yet.")  # fmt: skip
    system.create_dir(path, recursive=True)
    raws = records.select("raw")
    with job("export"):
        if bundles is None:
            size = records.select(F.sum(F.length("raw"))).first()
            bundles = max(1, -(-int((size and size[0]) or 0) // BUNDLE_BYTES))
        numbered = raws.repartition(bundles)
        written = numbered.mapInArrow(_writer(folder), from_arrow_schema(_WRITTEN)).collect()
    return Exported(
        records=sum(row.records for row in written),
        rejected=sum(row.rejected for row in written),
        bundles=tuple(sorted(row.bundle for row in written)),
    )


def _writer(folder: str) -> Any:
    def write(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        bundle = f"{folder}/part-{context.partitionId():05d}.records"
        # A task may run twice; whichever ends last puts its whole file in place.
        draft = f"{bundle}.{context.taskAttemptId()}.draft"
        system, path = filesystem(draft)
        records = rejected = size = last = 0
        cuts: list[int] = []
        hasher = blake3()
        with carried(), system.open_output_stream(path) as file:
            for batch in found:
                for raw in batch.column("raw").to_pylist():
                    if not validate_record(raw).ok:
                        rejected += 1
                        continue
                    if size - last >= CUT_BYTES:
                        cuts.append(size)
                        last = size
                    file.write(raw)
                    hasher.update(raw)
                    size += len(raw)
                    records += 1
        if not records:
            system.delete_file(path)
        else:
            system.move(path, filesystem(bundle)[1])
            write_index(Survey(bundle, size, encode(hasher.digest()), tuple(cuts)))
        if records or rejected:
            yield pa.RecordBatch.from_pylist(
                [{"bundle": bundle, "records": records, "bytes": size, "rejected": rejected}],
                schema=_WRITTEN,
            )

    return write


def export_to_store(records: DataFrame, store: RecordStore) -> Exported:
    """Save records in a store, in the order of their hashes, validated by the workers."""
    saved = duplicates = rejected = 0
    with job("export"):
        rows = validated(records.select("raw", F.lit("").alias("bundle"), F.lit(0).alias("offset")))
        rows = rows.select("raw", "code").orderBy("hash")
        for group in _groups(rows.toLocalIterator(prefetchPartitions=True)):
            good = [reread(bytes(row.raw)) for row in group if row.code is None]
            rejected += len(group) - len(good)
            outcomes = store.save(good)
            fresh = sum(outcome.status is Status.ACCEPTED for outcome in outcomes)
            saved += fresh
            duplicates += len(outcomes) - fresh
    return Exported(records=saved, duplicates=duplicates, rejected=rejected)


def validated(raws: DataFrame) -> DataFrame:
    """Return the rows of record bytes (raw, bundle, offset), validated again by the workers."""

    def each(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in found:
            columns = (batch.column(name).to_pylist() for name in ("bundle", "offset", "raw"))
            by_bundle: dict[str, Found] = {}
            for bundle, offset, raw in zip(*columns, strict=True):
                offsets, raws, outcomes = by_bundle.setdefault(bundle, ([], [], []))
                offsets.append(offset)
                raws.append(raw)
                outcomes.append(validate_record(raw))
            for bundle, entries in by_bundle.items():
                yield from batches(bundle, [entries])

    return raws.select("raw", "bundle", "offset").mapInArrow(each, from_arrow_schema(SOURCE_SCHEMA))


def _groups(rows: Iterable[Any]) -> Iterator[list[Any]]:
    group: list[Any] = []
    for row in rows:
        group.append(row)
        if len(group) >= _SAVE:
            yield group
            group = []
    if group:
        yield group
