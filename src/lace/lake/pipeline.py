"""One file says what a lake is fed from, what is kept of it and where it goes: ``lake.toml``.

A run takes each step in order and changes only what has to change, so that it can be run again at
any time. Each step says which versions it read and which it wrote.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from lace.clock import seconds_now
from lace.errors import Code, LakeError
from lace.interlace import messages as m
from lace.lake.delta import DATA, Conflict, DeltaLog
from lace.lake.export import export_bundles
from lace.lake.ingest import ingest
from lace.lake.jobs import job
from lace.lake.maintain import RETAIN_HOURS, maintain
from lace.lake.peersource import LiveSource
from lace.lake.places import filesystem, write_whole
from lace.lake.placing import Where, plan
from lace.lake.reading import read_files
from lace.lake.select import select
from lace.lake.stream import LakeStream
from lace.lake.tables import Lake, Snapshot
from lace.limits import LAKE
from lace.policy.module import PolicyModule
from lace.projection import HASH, STANDARD
from lace.settings import read_selector
from lace.transport.address import parse_address
from lace.values import DATA as DATA_COLUMN
from lace.vocabulary import SELECT_HAVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAME: Final = re.compile("[a-z][a-z0-9-]{0,63}")
_FOLDER: Final = "projections"
_TRIES: Final = 20
_TIME: Final = "TAI"
_LATEST: Final = "latest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where records come from: bundles, or a peer."""

    paths: tuple[str, ...] = ()
    peer: str | None = None
    select: str | None = None
    checkpoint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionTable:
    """A table that follows the lake: one row a record that is selected, one column a field."""

    name: str
    select: str
    columns: tuple[str, ...] = STANDARD
    newest: tuple[str, ...] = ()
    """Of the records that agree in these columns only the newest has a row; none: all have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What goes out of the lake."""

    to: str
    projection: str | None = None
    """As plain Parquet."""
    select: str | None = None
    """As bundles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What ``lake.toml`` says."""

    lake: str
    sources: tuple[Source, ...] = ()
    projections: tuple[ProjectionTable, ...] = ()
    exports: tuple[Export, ...] = ()
    retain_hours: int | None = None
    """Of upkeep after each run; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One step of a run: which versions it read and wrote, and how much that was."""

    step: str
    changed: bool
    read: dict[str, Any]
    wrote: dict[str, Any]
    put_aside: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# --- the file -----------------------------------------------------------------------------------


def load(path: Path) -> Pipeline:
    """Return what a file says; relative paths in it are from its folder."""
    try:
        with path.open("rb") as file:
            content = file.read(LAKE.pipeline_bytes + 1)
    except OSError as error:
        raise _wrong(path, f"it cannot be read: {error.strerror}") from None
    if len(content) > LAKE.pipeline_bytes:
        raise _wrong(path, f"it is larger than {LAKE.pipeline_bytes:,} bytes")
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(path, str(error)) from None
    return _Reader(path).pipeline(table)


def _wrong(path: Path, what: str) -> LakeError:
    return LakeError(f"{path}: {what}", code=Code.LAKE_PIPELINE)


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path

    def pipeline(self, table: Mapping[str, Any]) -> Pipeline:
        self._known(table, {"lake", "source", "projection", "export", "maintain"}, "the file")
        made = Pipeline(
            lake=self._place(self._text(table, "lake", "the file")),
            sources=tuple(self._each(table, "source", self._source)),
            projections=tuple(self._each(table, "projection", self._projection)),
            exports=tuple(self._each(table, "export", self._export)),
            retain_hours=self._upkeep(table.get("maintain")),
        )
        names = [p.name for p in made.projections]
        if len(set(names)) < len(names):
            raise _wrong(self.path, "two projections have one name")
        for export in made.exports:
            if export.projection is not None and export.projection not in names:
                raise _wrong(self.path, f"export names no projection: {export.projection}")
        return made

    def _source(self, table: Mapping[str, Any], where: str) -> Source:
        self._known(table, {"path", "peer", "select", "checkpoint"}, where)
        if ("path" in table) == ("peer" in table):
            raise _wrong(self.path, f"{where} needs path or peer")
        if "path" in table:
            self._known(table, {"path"}, where)
            return Source(paths=tuple(map(self._place, self._texts(table, "path", where))))
        return Source(
            peer=self._text(table, "peer", where),
            select=self._text(table, "select", where),
            checkpoint=self._place(self._text(table, "checkpoint", where)),
        )

    def _projection(self, table: Mapping[str, Any], where: str) -> ProjectionTable:
        self._known(table, {"name", "select", "columns", "newest"}, where)
        name = self._text(table, "name", where)
        if not _NAME.fullmatch(name):
            raise _wrong(self.path, f"{where}: a name is made of a-z, 0-9 and -")
        columns = self._texts(table, "columns", where) if "columns" in table else STANDARD
        newest = self._texts(table, "newest", where) if "newest" in table else ()
        return ProjectionTable(
            name=name,
            select=self._text(table, "select", where),
            columns=tuple(dict.fromkeys(columns)),
            newest=tuple(dict.fromkeys(newest)),
        )

    def _export(self, table: Mapping[str, Any], where: str) -> Export:
        self._known(table, {"to", "projection", "select"}, where)
        if ("projection" in table) == ("select" in table):
            raise _wrong(self.path, f"{where} needs projection or select")
        return Export(
            to=self._place(self._text(table, "to", where)),
            projection=self._text(table, "projection", where) if "projection" in table else None,
            select=self._text(table, "select", where) if "select" in table else None,
        )

    def _upkeep(self, table: Any) -> int | None:
        if table is None:
            return None
        if not isinstance(table, dict):
            raise _wrong(self.path, "maintain is no table")
        self._known(table, {"retain"}, "maintain")
        hours = table.get("retain", RETAIN_HOURS)
        if type(hours) is not int or hours < 0:
            raise _wrong(self.path, "maintain: retain is a number of hours")
        return hours

    def _each(
        self, table: Mapping[str, Any], key: str, make: Callable[[Mapping[str, Any], str], Any]
    ) -> Iterator[Any]:
        entries = table.get(key, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise _wrong(self.path, f"write [[{key}]]: there may be several")
        if len(entries) > LAKE.pipeline_entries:
            raise _wrong(self.path, f"more than {LAKE.pipeline_entries} of {key}")
        for number, entry in enumerate(entries, 1):
            yield make(entry, f"{key} {number}")

    def _known(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        extra = sorted(table.keys() - known)
        if extra:
            raise _wrong(self.path, f"{where}: nobody knows {', '.join(extra)}")

    def _text(self, table: Mapping[str, Any], key: str, where: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value:
            raise _wrong(self.path, f"{where} needs {key}, a text")
        return value

    def _texts(self, table: Mapping[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
            raise _wrong(self.path, f"{where}: {key} is a text or a list of texts")
        return values

    def _place(self, text: str) -> str:
        return text if "://" in text else str((self.path.parent / text).absolute())


# --- a run --------------------------------------------------------------------------------------


def run(
    pipeline: Pipeline, spark: SparkSession, report: Callable[[str], None] = lambda _message: None
) -> Iterator[Done]:
    """Take the steps in order, and yield what each did; a step that fails ends the run."""
    lake = Lake.open(spark, pipeline.lake, create=True)
    for source in pipeline.sources:
        report(f"from {source.peer or ', '.join(source.paths)}")
        yield _from_peer(lake, source) if source.peer else _from_bundles(lake, source)
    yield from behind(lake, pipeline, report)
    yield from upkeep(lake, pipeline, report)


def behind(lake: Lake, pipeline: Pipeline, report: Callable[[str], None]) -> Iterator[Done]:
    """Bring up to date what follows from the lake: projections, then exports."""
    for projection in pipeline.projections:
        report(f"projection {projection.name}")
        yield follow(lake, projection)
    for export in pipeline.exports:
        report(f"to {export.to}")
        yield _export(lake, export, {table.name: table for table in pipeline.projections})


def upkeep(lake: Lake, pipeline: Pipeline, report: Callable[[str], None]) -> Iterator[Done]:
    """Do the upkeep, if the pipeline asks for any."""
    if pipeline.retain_hours is not None:
        report("upkeep")
        done = maintain(lake, retain_hours=pipeline.retain_hours)
        chores = [asdict(chore) for chore in done]
        yield Done(step="maintain", changed=bool(done), read={}, wrote={"chores": chores})


def timed(steps: Iterator[Done]) -> Iterator[tuple[Done, float]]:
    """Yield steps with how long each took."""
    begun = seconds_now()
    for done in steps:
        yield done, seconds_now() - begun
        begun = seconds_now()


def _from_bundles(lake: Lake, source: Source) -> Done:
    before = lake.records_log.version().number
    done = ingest(lake, source.paths)
    return Done(
        step=f"source {', '.join(source.paths)}",
        changed=bool(done.steps),
        read={"paths": list(source.paths), "ingest": done.ingest},
        wrote={"lake": [before, done.version], "records": done.records,
               "duplicates": done.duplicates + done.repeated},
        put_aside=done.quarantined,
    )  # fmt: skip


def _from_peer(lake: Lake, source: Source) -> Done:
    """Exchange once with a peer, and bring what came into the lake."""
    assert source.peer is not None
    assert source.select is not None
    assert source.checkpoint is not None
    before = lake.records_log.version().number
    results: list[Any] = []
    with LiveSource(
        address=parse_address(source.peer),
        checkpoint=source.checkpoint,
        module=read_selector(source.select),
    ) as live:
        ended = live.sync()
        if isinstance(ended, m.Aborted):
            raise LakeError(f"{source.peer}: {ended.detail}", code=ended.code)
        live.drain()
        stream = LakeStream(
            lake, live.folder, source.checkpoint, origin=str(live.address),
            on_batch=lambda batch: results.append(batch.result),
        )  # fmt: skip
        stream.start()
        stream.wait()
    return Done(
        step=f"source {source.peer}",
        changed=any(result.records for result in results),
        read={"peer": source.peer, "checkpoint": source.checkpoint},
        wrote={"lake": [before, lake.records_log.version().number],
               "records": sum(result.records for result in results)},
        put_aside=sum(result.quarantined for result in results),
    )  # fmt: skip


# --- projections --------------------------------------------------------------------------------


def projection_log(lake: Lake, projection: ProjectionTable) -> DeltaLog:
    schema = pa.schema([
        (name, pa.binary() if name == DATA_COLUMN else pa.string()) for name in projection.columns
    ])  # fmt: skip
    return DeltaLog(f"{lake.root}/{_FOLDER}/{projection.name}", schema)


def follow(lake: Lake, projection: ProjectionTable) -> Done:
    """Bring a projection up to the newest version of its lake.

    Where one look at a record decides, only what came since the last time is looked at.
    """
    log = projection_log(lake, projection)
    module = read_selector(projection.select)
    log.create()
    if log.columns() != list(projection.columns):
        raise LakeError(
            f"projection {projection.name} has other columns: {', '.join(log.columns())}",
            code=Code.LAKE_PIPELINE,
            hint="Give the projection with these columns another name.",
        )
    for _ in range(_TRIES):
        before, now = log.version(), lake.snapshot()
        data = data_version(lake, now.version.number)  # whatever comes meanwhile
        known = next(iter(log.notes(1)), {}) if before.number else {}
        same = known.get("rules") == module.id and known.get("newest") == list(projection.newest)
        since = int(known["lake"]) if same else None
        if same and known.get("data") == data:
            read = {"lake": [since, since]}
            return Done(step=f"projection {projection.name}", changed=False, read=read, wrote={})
        part, replaces = _fresh(lake, projection, module, now, since)
        folder = f"{DATA}/{uuid4().hex}"
        with job("projecting"), select(part, module.program) as chosen:
            _rows(chosen.project(_needed(projection)), projection).write.parquet(
                f"{log.root}/{folder}"
            )
        files = [file for file in log.files_in(folder) if file.rows]
        note = {"lake": now.version.number, "data": data, "rules": module.id,
                "newest": list(projection.newest)}  # fmt: skip
        work = f"lace-projection/{projection.name}"
        try:
            version = log.commit(
                files, work=work, step=before.number + 1, expected=before.number, note=note,
                replace=replaces,
            )  # fmt: skip
        except Conflict:
            continue
        return Done(
            step=f"projection {projection.name}",
            changed=True,
            read={"lake": [since, now.version.number], "whole": replaces},
            wrote={"version": version, "rows": sum(file.rows for file in files)},
        )
    raise LakeError(f"{log.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def data_version(lake: Lake, as_of: int | None = None) -> int:
    """Return the newest version that changed what the lake holds: merging files does not.

    With a version, the newest up to that one.
    """
    newest = lake.records_log.version().number if as_of is None else as_of
    merged = {note["version"] for note in lake.records_log.notes(None) if "maintain" in note}
    return max((n for n in range(newest + 1) if n not in merged), default=0)


def _fresh(
    lake: Lake, projection: ProjectionTable, module: PolicyModule, now: Snapshot, since: int | None
) -> tuple[Snapshot, bool]:
    """Return what has to be looked at, and whether it takes the place of all that was there."""
    steps = plan(module.program, [SELECT_HAVE])
    by_record = all(step.where is Where.FILTER and step.otherwise is None for step in steps)
    if since is None or projection.newest or not by_record:
        return now, True
    files = lake.records_log.came_since(now.version, since)
    if files is None:
        return now, True
    version = replace(now.version, files=tuple(files))
    return Snapshot(lake.session, version), False


def _needed(projection: ProjectionTable) -> list[str]:
    extra = (*projection.newest, _TIME, HASH) if projection.newest else ()
    return list(dict.fromkeys([*projection.columns, *extra]))


def _rows(found: DataFrame, projection: ProjectionTable) -> DataFrame:
    if projection.newest:
        order = [F.col(f"`{_TIME}`").desc(), F.col(f"`{HASH}`").desc()]
        window = Window.partitionBy(*(F.col(f"`{c}`") for c in projection.newest)).orderBy(*order)
        found = found.withColumn("_place", F.row_number().over(window)).where("_place = 1")
    return found.select(*(F.col(f"`{column}`") for column in projection.columns))


# --- exports ------------------------------------------------------------------------------------


def _export(lake: Lake, export: Export, tables: Mapping[str, ProjectionTable]) -> Done:
    """Write what is to go out into a folder of its own for each version.

    The file ``latest.json`` names the newest folder; of older ones the last is kept for readers.
    """
    system, path = filesystem(export.to)
    version = data_version(lake)
    if export.projection is not None:
        version = projection_log(lake, tables[export.projection]).version().number
    target = f"{path}/version-{version}"
    base = export.to.rstrip("/")
    step = f"export {export.to}"
    read = {export.projection or "lake": version}
    if system.get_file_info(target).type == fs.FileType.Directory:
        return Done(step=step, changed=False, read=read, wrote={})
    draft = f"{base}/.draft-{uuid4().hex}"
    with job("export"):
        if export.projection is not None:
            log = projection_log(lake, tables[export.projection])
            there = log.version(version)
            read_files(lake.spark, there.listed(), log.schema).write.parquet(draft)
            wrote: dict[str, Any] = {"folder": f"{base}/version-{version}", "rows": there.rows}
        else:
            assert export.select is not None
            module = read_selector(export.select)
            with select(lake.snapshot(version), module.program) as chosen:
                done = export_bundles(chosen.records(), draft)
            wrote = {"folder": f"{base}/version-{version}", "records": done.records}
    system.move(filesystem(draft)[1], target)
    latest = json.dumps({"folder": f"version-{version}", "read": read})
    write_whole(f"{base}/{_LATEST}", latest.encode())
    found = system.get_file_info(fs.FileSelector(path))
    older = [i for i in found if re.fullmatch(r"version-\d+", i.base_name) and i.path != target]
    older.sort(key=lambda info: int(info.base_name.rpartition("-")[2]))
    for info in older[:-1]:
        system.delete_dir(info.path)
    return Done(step=step, changed=True, read=read, wrote=wrote)
