"""Records that a lake is to forget: taken out, and kept out.

Their hashes are written down first, then the files that hold them are written again without them.
Whoever is bringing records in at that moment has to look again, because the records changed. Older
versions hold what was forgotten until upkeep removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Transaction
from pyspark.sql.pandas.types import from_arrow_schema

from lace.errors import Code, LakeError
from lace.lake.delta import DATA, Conflict, DataFile, DeltaLog
from lace.lake.jobs import carried, job
from lace.lake.places import filesystem
from lace.lake.rows import FORGOTTEN_SCHEMA
from lace.lake.tables import REMEMBERING
from lace.lake.writing import FORGOTTEN, RECORDS, Written, as_batches, new_file, written_of
from lace.limits import LAKE

if TYPE_CHECKING:
    from lace.lake.tables import Lake

_HERE_BYTES: Final = 256 << 20
_TRIES: Final = 20
_BUNDLES_SHOWN: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What forgetting did."""

    asked: int
    """Hashes that were given."""
    noted: int
    """That were not forgotten already."""
    removed: int
    """Records that were taken out."""
    version: int
    """Of the lake, after it."""
    bundles: tuple[str, ...] = ()
    """Where they had come from: what is there is not touched."""


def forget(lake: Lake, hashes: Collection[str]) -> Forgotten:
    """Take records out of a lake for good; hashes that it does not have are kept out too."""
    wanted = set(hashes)
    if len(wanted) > LAKE.forgotten:
        raise LakeError(
            f"{len(wanted):,} hashes are too many at once: {LAKE.forgotten:,} may be forgotten",
            code=Code.LIMIT_EXCEEDED,
        )
    noted = _note(lake, wanted)
    removed, bundles = 0, set[str]()
    log = lake.records_log
    for _ in range(_TRIES):
        version = log.version()
        old, new = _rewritten(lake, version.files, wanted)
        removed = sum(file.rows for file in old) - sum(entry.rows for entry in new)
        bundles = _bundles(log, old, wanted)
        try:
            # Also where nothing was there: a writer that looked before must look again.
            number = log.replace(
                old, [entry.published() for entry in new], expected=version.number,
                note={"forgotten": removed}, changes_data=True,
            )  # fmt: skip
        except Conflict:
            log.drop(f"{DATA}/{entry.name}" for entry in new)
            continue
        return Forgotten(
            asked=len(wanted), noted=noted, removed=removed, version=number,
            bundles=tuple(sorted(bundles)),
        )  # fmt: skip
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def remember(lake: Lake, hashes: Collection[str] | None) -> int:
    """Let forgotten records come back, of None all; return how many these are. Nothing is fetched.

    Bundles that were read are read again by the next ingest, and links of exchanges are looked at
    from their beginning.
    """
    log = lake.forgotten_log
    if not log.exists():
        return 0
    wanted = None if hashes is None else pa.array(sorted(hashes), pa.string())
    for _ in range(_TRIES):
        version = log.version()
        old: list[DataFile] = []
        new: list[Written] = []
        for file in version.files:
            left = _without_forgotten(log, file, wanted)
            if left is not None:
                old.append(file)
                new += left
        back = sum(file.rows for file in old) - sum(entry.rows for entry in new)
        if not back:
            return 0
        try:
            log.replace(
                old, [entry.published() for entry in new], expected=version.number,
                note={"remembered": back}, changes_data=True,
                done=Transaction(REMEMBERING, log.done(REMEMBERING) + 1),
            )  # fmt: skip
        except Conflict:
            log.drop(f"{DATA}/{entry.name}" for entry in new)
            continue
        return back
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _without_forgotten(
    log: DeltaLog, file: DataFile, hashes: pa.Array | None
) -> list[Written] | None:
    """Write a file of forgotten hashes again without some, or all; None if it has none of them."""
    column = _hashes_of(log, file)
    gone = pa.array([True] * len(column)) if hashes is None else pc.is_in(column, hashes)
    if not pc.any(gone).as_py():
        return None
    made = new_file(f"{log.root}/{DATA}", FORGOTTEN)
    made.add(pa.table({"hash": column}, schema=FORGOTTEN_SCHEMA).filter(pc.invert(gone)))
    return list(made.close())


def all_forgotten(lake: Lake) -> Iterator[str]:
    """Yield the hashes of what a lake has forgotten, in no order."""
    log = lake.forgotten_log
    for file in log.version().files if log.exists() else ():
        yield from _hashes_of(log, file).to_pylist()


def _hashes_of(log: DeltaLog, file: DataFile) -> pa.ChunkedArray:
    system, root = filesystem(log.root)
    table = pq.read_table(f"{root}/{file.path}", columns=["hash"], filesystem=system)
    return table.column("hash")


def _note(lake: Lake, hashes: set[str]) -> int:
    """Write down what is forgotten; return how many were not yet."""
    log = lake.forgotten_log
    log.create()
    for _ in range(_TRIES):
        version = log.version()
        fresh = hashes - lake.forgotten(hashes)
        if not fresh:
            return 0
        system, root = filesystem(log.root)
        system.create_dir(f"{root}/{DATA}", recursive=True)
        file = new_file(f"{log.root}/{DATA}", FORGOTTEN)
        file.add(pa.table({"hash": pa.array(sorted(fresh), pa.string())}, schema=FORGOTTEN_SCHEMA))
        (made,) = file.close()
        try:
            log.replace(
                [], [made.published()], expected=version.number, note={"hashes": len(fresh)},
                changes_data=True,
            )  # fmt: skip
        except Conflict:
            log.drop([f"{DATA}/{made.name}"])
            continue
        return len(fresh)
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _rewritten(
    lake: Lake, files: Sequence[DataFile], hashes: set[str]
) -> tuple[list[DataFile], list[Written]]:
    """Return the files that hold any of the hashes, and what is to take their place."""
    log = lake.records_log
    uris = [f"{log.root}/{file.path}" for file in files]
    target = f"{log.root}/{DATA}"
    wanted = pa.array(sorted(hashes), pa.string())
    if lake.session is None or sum(file.size for file in files) <= _HERE_BYTES:
        made = {n: without(uri, wanted, target) for n, uri in enumerate(uris)}
    else:
        made = _by_workers(lake, uris, wanted, target)
    touched = [n for n, entries in made.items() if entries is not None]
    return [files[n] for n in touched], [entry for n in touched for entry in made[n] or ()]


def _by_workers(
    lake: Lake, uris: list[str], wanted: pa.Array, target: str
) -> dict[int, list[Written] | None]:
    names = wanted.to_pylist()

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = pa.array(names, pa.string())
        with carried():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    made = without(uris[number], some, target)
                    if made is None:
                        continue
                    for row in as_batches(made or [_EMPTY]):
                        yield row.append_column("file", pa.array([number], pa.int64()))

    schema = from_arrow_schema(written_of(("file", pa.int64())))
    with job("forgetting"):
        rows = lake.spark.range(0, len(uris), 1, len(uris)).mapInArrow(work, schema).collect()
    found: dict[int, list[Written] | None] = {}
    for row in rows:
        entry = row.asDict()
        made = found.setdefault(entry.pop("file"), [])
        assert made is not None
        if entry["rows"]:
            made.append(Written(**entry))
    return found


_EMPTY: Final = Written(RECORDS, "", 0, 0, 0, "", 0)


def without(uri: str, hashes: pa.Array, target: str) -> list[Written] | None:
    """Write a file again without some records; None if it has none of them."""
    system, path = filesystem(uri)
    with pq.ParquetFile(path, filesystem=system) as source:
        if not pc.any(pc.is_in(source.read(columns=["hash"]).column("hash"), hashes)).as_py():
            return None
        file = new_file(target, RECORDS)
        for group in range(source.num_row_groups):
            table = file.fitting(source.read_row_group(group))
            file.add(table.filter(pc.invert(pc.is_in(table.column("hash"), hashes))))
    return list(file.close())


def _bundles(log: DeltaLog, files: Sequence[DataFile], hashes: set[str]) -> set[str]:
    """Return where records came from that are about to go; of many, some."""
    found: set[str] = set()
    wanted = pa.array(sorted(hashes), pa.string())
    for file in files:
        system, root = filesystem(log.root)
        with pq.ParquetFile(f"{root}/{file.path}", filesystem=system) as source:
            table = source.read(columns=["hash", "bundle"])
        chosen = table.filter(pc.is_in(table.column("hash"), wanted))
        found |= set(chosen.column("bundle").to_pylist())
        if len(found) >= _BUNDLES_SHOWN:
            break
    return found
