"""Upkeep of a lake: small files become few, old ones go, what crashes left is tidied.

Everything is safe beside readers and writers. Files are replaced in one commit that fails if they
are no longer there; what a version of the last days needs stays; what a writer has under way is
known by its draft. A run that is broken off has done some of the work; the next one does the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.pandas.types import from_arrow_schema

from lace.clock import unix_ms
from lace.errors import Code, LakeError
from lace.lake import keeping, prints
from lace.lake.delta import DATA, Conflict, DataFile, DeltaLog
from lace.lake.jobs import carried, job
from lace.lake.places import filesystem
from lace.lake.staging import FOLDER
from lace.lake.summarize import DIGESTS, PARTITIONS
from lace.lake.writing import ASIDE, MOVED, RECORDS, Written, as_batches, new_file, written_of
from lace.limits import MIB

if TYPE_CHECKING:
    from lace.lake.tables import Lake

TARGET_BYTES: Final = 128 * MIB
RETAIN_HOURS: Final = 168
"""A week: readers of older versions must have ended by then."""
_SMALL: Final = 0.5
"""Of the target: files below that are merged with others."""
_TOGETHER: Final = 16
"""Groups of files that one commit replaces."""
_HERE_BYTES: Final = 256 * MIB
"""What is rewritten without Spark."""
_GRACE_HOURS: Final = 24
_HOUR: Final = 3_600_000
_TRIES: Final = 20
_PLAIN: Final = re.compile(r"[A-Za-z0-9./=_-]+")
_CHECKPOINT_EVERY: Final = 10
_ORDER: Final = {RECORDS: ("group", "app", "tai", "hash"), ASIDE: ("bundle", "offset")}

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """One thing that was done, or would be."""

    what: str
    table: str
    files: int
    """That it is about."""
    bytes: int
    result: int = 0
    """Files that take their place."""


def maintain(
    lake: Lake,
    *,
    dry_run: bool = False,
    retain_hours: int = RETAIN_HOURS,
    target_bytes: int = TARGET_BYTES,
    report: Report = lambda _message: None,
) -> list[Chore]:
    """Do what a lake needs; return what was done. A dry run returns what would be done."""
    if retain_hours < 0 or target_bytes < 1:
        raise LakeError("nothing can be kept for less than no time", code=Code.LAKE_SETTING)
    now = unix_ms()
    done: list[Chore] = []
    for name, log in ((RECORDS, lake.records_log), (ASIDE, lake.quarantine_log)):
        report(f"{log.name}: merging small files")
        done += _compact(lake, name, log, target_bytes, dry_run)
    done += _tidy_drafts(lake, now, min(retain_hours, _GRACE_HOURS), dry_run)
    done += _tidy_exchanges(lake, now, min(retain_hours, _GRACE_HOURS), dry_run)
    for log in _logs(lake):
        report(f"{log.name}: removing what no version needs")
        done += _vacuum(lake, log, now, retain_hours, dry_run)
        done += _checkpoint(log, dry_run)
    done += _tidy_prints(lake, now, min(retain_hours, _GRACE_HOURS), dry_run)
    return done


def needs_spark(lake: Lake, target_bytes: int = TARGET_BYTES) -> bool:
    """Whether there is so much to rewrite that it should be shared out."""
    groups = _groups(lake.records_log.version().files, target_bytes)
    return sum(file.size for group in groups for file in group) > _HERE_BYTES


def _logs(lake: Lake) -> Iterator[DeltaLog]:
    yield lake.records_log
    yield lake.quarantine_log
    if lake.forgotten_log.exists():
        yield lake.forgotten_log
    system, root = filesystem(lake.root)
    selector = fs.FileSelector(f"{root}/summaries", allow_not_found=True)
    for info in system.get_file_info(selector):
        for name, schema in (("digests", DIGESTS), ("partitions", PARTITIONS)):
            log = DeltaLog(f"{lake.root}/summaries/{info.base_name}/{name}", schema)
            if log.exists():
                yield log


# --- small files --------------------------------------------------------------------------------


def _groups(files: Iterable[DataFile], target: int) -> list[list[DataFile]]:
    """Return files that are to become one, neighbours in place and time together."""
    odd = [f for f in files if not _PLAIN.fullmatch(f.path) or not f.path.startswith(f"{DATA}/")]
    small = [f for f in files if f.size < target * _SMALL and f not in odd]
    groups: list[list[DataFile]] = [[]]
    size = 0
    for file in sorted([*odd, *small], key=lambda file: file.least):
        if groups[-1] and size + file.size > target:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return [g for g in groups if len(g) > 1 or any(file in odd for file in g)]


def _compact(lake: Lake, table: str, log: DeltaLog, target: int, dry_run: bool) -> list[Chore]:
    groups = _groups(log.version().files, target)
    count, size = sum(map(len, groups)), sum(file.size for group in groups for file in group)
    if not groups:
        return []
    made = len(groups)
    if not dry_run:
        made = 0
        for at in range(0, len(groups), _TOGETHER):
            some = groups[at : at + _TOGETHER]
            made += _replace(log, some, _rewrite(lake, table, log, some))
    return [Chore(what="merge", table=log.name, files=count, bytes=size, result=made)]


def _rewrite(
    lake: Lake, table: str, log: DeltaLog, groups: Sequence[Sequence[DataFile]]
) -> list[list[Written]]:
    """Write each group of files as one, in order; by the workers where that is much."""
    names = [[f"{log.root}/{file.path}" for file in group] for group in groups]
    target = f"{log.root}/{DATA}"
    size = sum(file.size for group in groups for file in group)
    if size <= _HERE_BYTES or lake.session is None:
        return [merge_files(table, uris, target) for uris in names]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    for made in as_batches(merge_files(table, names[number], target)):
                        yield made.append_column("group", pa.array([number], pa.int64()))

    schema = from_arrow_schema(written_of(("group", pa.int64())))
    with job("merging files"):
        rows = lake.spark.range(0, len(names), 1, len(names)).mapInArrow(work, schema).collect()
    made: list[list[Written]] = [[] for _ in names]
    for row in rows:
        entry = row.asDict()
        made[entry.pop("group")].append(Written(**entry))
    return made


def merge_files(table: str, uris: Sequence[str], target: str) -> list[Written]:
    """Write the rows of files into one new file, sorted so that like lies with like."""
    tables = []
    for uri in uris:
        system, path = filesystem(uri)
        file = new_file(target, table)
        with pq.ParquetFile(path, filesystem=system) as source:
            tables.append(file.fitting(source.read()))
    whole = pa.concat_tables(tables)
    whole = whole.sort_by([(name, "ascending") for name in _ORDER[table]])
    file = new_file(target, table)
    file.add_in_groups(whole)
    return list(file.close())


def _replace(
    log: DeltaLog, groups: Sequence[Sequence[DataFile]], made: Sequence[Sequence[Written]]
) -> int:
    """Publish new files in place of old ones; a group that somebody else changed is left out."""
    pairs = list(zip(groups, made, strict=True))
    for _ in range(_TRIES):
        version = log.version()
        there = {file.path for file in version.files}
        usable = [pair for pair in pairs if all(file.path in there for file in pair[0])]
        left = [w for pair in pairs if pair not in usable for w in pair[1]]
        log.drop(f"{DATA}/{w.name}" for w in left)
        pairs = usable
        if not pairs:
            return 0
        old = [file for group, _ in pairs for file in group]
        new = [w.published() for _, some in pairs for w in some]
        try:
            log.replace(old, new, expected=version.number, note={"maintain": len(old)})
        except Conflict:
            continue
        return len(new)
    raise LakeError(f"{log.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


# --- what is no longer needed -------------------------------------------------------------------


def _tidy_drafts(lake: Lake, now: int, hours: int, dry_run: bool) -> list[Chore]:
    """Remove drafts that nobody has worked at for long."""
    system, root = filesystem(lake.root)
    count = size = 0
    for parent in (FOLDER, "spool"):
        selector = fs.FileSelector(f"{root}/{parent}", allow_not_found=True)
        for info in system.get_file_info(selector):
            inside = system.get_file_info(fs.FileSelector(info.path, recursive=True))
            if min(map(_age_ms(now), [info, *inside])) < hours * _HOUR:
                continue
            count += 1
            size += sum(i.size or 0 for i in inside if i.type == fs.FileType.File)
            if not dry_run:
                system.delete_dir(info.path)
    if not count:
        return []
    return [Chore(what="tidy", table="drafts", files=count, bytes=size)]


def _tidy_exchanges(lake: Lake, now: int, hours: int, dry_run: bool) -> list[Chore]:
    """Remove what exchanges have kept and no longer go by."""
    system, root = filesystem(f"{lake.root}/{keeping.FOLDER}")
    plans = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    places = [f"{lake.root}/{keeping.FOLDER}/{plan.base_name}" for plan in plans]
    gone = [keeping.tidy(place, now - hours * _HOUR, dry_run=dry_run) for place in places]
    count = sum(files for files, _ in gone)
    if not count:
        return []
    size = sum(size for _, size in gone)
    return [Chore(what="tidy", table="exchanges", files=count, bytes=size)]


def _tidy_prints(lake: Lake, now: int, hours: int, dry_run: bool) -> list[Chore]:
    """Remove the prints of files that were removed."""
    system, root = filesystem(lake.root)
    there: set[str] = set()
    for folder in (lake.records_log.name, lake.forgotten_log.name, FOLDER):
        selector = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        there |= {info.base_name for info in system.get_file_info(selector)}
    count, size = prints.tidy(lake.root, there, now - hours * _HOUR, dry_run=dry_run)
    return [Chore(what="tidy", table="prints", files=count, bytes=size)] if count else []


def _age_ms(now: int) -> Callable[[Any], int]:
    return lambda info: now - int((info.mtime_ns or 0) // 1_000_000)


def _vacuum(lake: Lake, log: DeltaLog, now: int, retain_hours: int, dry_run: bool) -> list[Chore]:
    """Delete files that no version of the last time needs, and that no writer has under way."""
    needed = {file.path for file in log.version().files}
    needed |= log.removed_since(now - retain_hours * _HOUR)
    needed |= {f"{DATA}/{name}" for name in _under_way(lake)}
    grace = min(retain_hours, _GRACE_HOURS) * _HOUR
    system, root = filesystem(log.root)
    count = size = 0
    for info in system.get_file_info(fs.FileSelector(root, recursive=True)):
        path = info.path[len(root) + 1 :]
        if info.type != fs.FileType.File or path.startswith("_delta_log/"):
            continue
        if unquote(path) in needed or path in needed or _age_ms(now)(info) < grace:
            continue
        count += 1
        size += info.size or 0
        if not dry_run:
            system.delete_file(info.path)
    if not count:
        return []
    if not dry_run:
        _remove_empty(system, root)
    return [Chore(what="remove", table=log.name, files=count, bytes=size)]


def _under_way(lake: Lake) -> set[str]:
    """Return the names of files that drafts have moved into tables, or are about to."""
    system, root = filesystem(lake.root)
    selector = fs.FileSelector(f"{root}/{FOLDER}", recursive=True, allow_not_found=True)
    names: set[str] = set()
    for info in system.get_file_info(selector):
        if info.type == fs.FileType.File and info.base_name.startswith(MOVED):
            with system.open_input_file(info.path) as file:
                names |= set(json.loads(cast("bytes", file.read())))
    return names


def _remove_empty(system: fs.FileSystem, root: str) -> None:
    """Delete folders in which nothing is left; the older layout has many."""
    inside = system.get_file_info(
        fs.FileSelector(f"{root}/{DATA}", recursive=True, allow_not_found=True)
    )
    files = [info.path for info in inside if info.type == fs.FileType.File]
    folders = sorted((i.path for i in inside if i.type == fs.FileType.Directory), reverse=True)
    for folder in folders:
        if not any(path.startswith(f"{folder}/") for path in files):
            system.delete_dir(folder)


def _checkpoint(log: DeltaLog, dry_run: bool) -> list[Chore]:
    """Sum up a long log, so that opening the table takes one read."""
    commits = log.commits_since_checkpoint()
    if commits < _CHECKPOINT_EVERY:
        return []
    if not dry_run:
        log.checkpoint()
    return [Chore(what="checkpoint", table=log.name, files=commits, bytes=0, result=1)]
