"""Bundles into a lake: validated, once each, whatever happens on the way.

The work is cut into steps; a step ends with one commit that names the ingest and the number of the
step. A process that dies leaves files that no log knows of; the next run goes on with the step that
was not committed, and uses what a finished job left behind. Bytes that are no records go to the
quarantine before their step is committed, known by their digest, so that none is lost or doubled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lace.b64a import encode
from lace.crypto.native import digest
from lace.errors import Code, LakeError
from lace.lake.bundle import Segment, Survey, filesystem, list_bundles, segment_bytes, survey
from lace.lake.delta import DATA, Conflict, DataFile, DeltaLog
from lace.lake.jobs import job
from lace.lake.rows import QUARANTINE_SCHEMA, RECORDS_SCHEMA, SOURCE_SCHEMA
from lace.lake.tables import Lake, Snapshot, files_named, read_files
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STEP_BYTES: Final = 4096 * MIB
ROW_GROUP_BYTES: Final = 8 * MIB
"""What has to be read for one record."""
_TRIES: Final = 20
_IDENTITY: Final = b"lace-lake-ingest/v2"
_PLANS: Final = "ingests"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """What an ingest did; what earlier runs of the same ingest did is not counted again."""

    ingest: str
    version: int
    """Of the lake, after it."""
    steps: int = 0
    skipped_steps: int = 0
    """Committed by an earlier run."""
    records: int = 0
    """New in the lake."""
    duplicates: int = 0
    quarantined: int = 0
    """Bytes that are no records, and were not in quarantine before."""

    def __add__(self, other: StepResult) -> IngestResult:
        return replace(
            self, version=other.version, steps=self.steps + 1,
            records=self.records + other.records, duplicates=self.duplicates + other.duplicates,
            quarantined=self.quarantined + other.quarantined,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    version: int
    records: int
    duplicates: int
    quarantined: int


def ingest(
    lake: Lake,
    paths: Sequence[str],
    *,
    step_bytes: int = STEP_BYTES,
    report: Report = lambda _message: None,
) -> IngestResult:
    """Put the records of bundles into a lake; running it again changes nothing."""
    bundles = list_bundles(paths)
    report(f"reading {len(bundles)} bundles for their digests")
    surveys = survey_all(lake.spark, bundles)
    steps = plan_steps(surveys, step_bytes)
    name = ingest_id(surveys, steps)
    done = lake.records_log.done(_work(name))
    result = IngestResult(
        ingest=name, version=lake.records_log.version().number, skipped_steps=min(done, len(steps))
    )
    if done >= len(steps):
        return result
    plan = _write_plan(lake, name, surveys, steps)
    cores = lake.spark.sparkContext.defaultParallelism
    for number in range(done + 1, len(steps) + 1):
        report(f"step {number} of {len(steps)}: validating")
        source = lake.spark.read.format("lace").option("plan", plan).option("step", str(number))
        # How a step is shared out among cores changes nothing of what it reads.
        most = segment_bytes(sum(part.size for part in steps[number - 1]), cores)
        source = source.option("segmentBytes", str(most))
        result += run_step(lake, source.load(), _work(name), number, name, report)
    return result


def survey_all(spark: SparkSession, bundles: Sequence[str]) -> list[Survey]:
    """Return digest and cuts of many bundles, read by all workers at once."""

    def each(names: Iterable[str]) -> Iterable[str]:
        for bundle in names:
            try:
                yield json.dumps(survey(bundle).to_json())
            except LakeError as error:  # as a value: an exception would come back as a Java trace
                yield json.dumps({"failed": error.code.name, "detail": error.message})

    if len(bundles) == 1:
        return [survey(bundles[0])]
    context = spark.sparkContext
    slices = min(len(bundles), 4 * context.defaultParallelism)
    found = [json.loads(text) for text in
             context.parallelize(bundles, slices).mapPartitions(each).collect()]  # fmt: skip
    for entry in found:
        if "failed" in entry:
            raise LakeError(entry["detail"], code=Code[entry["failed"]])
    return [Survey.from_json(entry) for entry in found]


def ingest_id(surveys: Sequence[Survey], steps: Sequence[Sequence[Segment]]) -> str:
    """Return what identifies an ingest: names, sizes and content of its bundles, and its steps.

    Steps are known by their numbers. Where the same bundles are cut into other steps (because an
    index came or went) it is another ingest, so that no number ever stands for two things.
    """
    entries = [[entry.bundle, entry.size, entry.digest] for entry in surveys]
    edges = [[step[0].bundle, step[0].start] for step in steps[1:]]
    return encode(digest(_IDENTITY + json.dumps([entries, edges]).encode()))


def plan_steps(surveys: Sequence[Survey], step_bytes: int) -> list[list[Segment]]:
    """Return the segments of each step; the same cuts make the same steps on any machine."""
    steps: list[list[Segment]] = []
    size = 0
    for segment in (segment for entry in surveys for segment in entry.segments()):
        if not steps or size + segment.size > step_bytes:
            steps.append([])
            size = 0
        steps[-1].append(segment)
        size += segment.size
    return steps


def _work(name: str) -> str:
    return f"lace-ingest/{name}"


def _write_plan(
    lake: Lake, name: str, surveys: Sequence[Survey], steps: list[list[Segment]]
) -> str:
    """Write down what each step reads; workers take their segments from there."""
    system, root = filesystem(lake.root)
    system.create_dir(f"{root}/{_PLANS}", recursive=True)
    content: dict[str, Any] = {
        str(number): [[s.bundle, s.start, s.end, s.final] for s in step]
        for number, step in enumerate(steps, 1)
    }
    content["inputs"] = [[entry.bundle, entry.size, entry.digest] for entry in surveys]
    path = f"{root}/{_PLANS}/{name}.json"
    draft = f"{path}.{uuid4().hex}"  # another process may be at the same ingest, and reading
    with system.open_output_stream(draft) as file:
        file.write(json.dumps(content).encode())
    system.move(draft, path)
    return f"{lake.root}/{_PLANS}/{name}.json"


# --- one step -----------------------------------------------------------------------------------


def run_step(
    lake: Lake, found: DataFrame, work: str, number: int, name: str, report: Report
) -> StepResult:
    """Validate, put aside, compare with the lake, commit: one step, whole or not at all."""
    try:
        with job("ingest"):
            result = _run_step(lake, found, work, number, name, report)
    except Exception:
        # Another process that does the same work may have been quicker, and have tidied up.
        if lake.records_log.done(work) < number:
            raise
        result = None
    if result is None:
        now = lake.records_log.version().number
        result = StepResult(version=now, records=0, duplicates=0, quarantined=0)
    return result


def _run_step(
    lake: Lake, found: DataFrame, work: str, number: int, name: str, report: Report
) -> StepResult | None:
    log = lake.records_log
    stem = f"{DATA}/{name}-{number}-"
    folder = next((made for made in log.folders(stem) if log.has_finished(f"{made}/staged")), None)
    if folder is None:
        # A name of its own: whatever else writes here never mixes with it.
        folder = f"{stem}{uuid4().hex}"
        _stage(found, f"{log.root}/{folder}/staged", name)
    report(f"step {number}: comparing with the lake")
    quarantined = _put_aside(lake, f"{folder}/staged", work, number, name)
    for _ in range(_TRIES):
        before = log.version()
        if log.done(work) >= number:
            return None
        kept, duplicates = _without_known(lake, folder, Snapshot(lake.spark, before))
        records = sum(file.rows for file in kept)
        note = {"ingest": name, "step": number, "records": records, "duplicates": duplicates,
                "quarantined": quarantined}  # fmt: skip
        try:
            version = log.commit(kept, work=work, step=number, expected=before.number, note=note)
        except Conflict:
            continue
        _tidy(log, stem)
        return StepResult(
            version=version, records=records, duplicates=duplicates, quarantined=quarantined
        )
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _stage(found: DataFrame, target: str, name: str) -> None:
    """Validate everything and write it down, records and others apart."""
    rows = found.withColumn("ingest", F.lit(name)).withColumn("valid", F.col("code").isNull())
    writer = rows.write.partitionBy("valid").mode("overwrite")
    writer.option("parquet.block.size", str(ROW_GROUP_BYTES)).parquet(target)


def _put_aside(lake: Lake, staged: str, work: str, number: int, name: str) -> int:
    """Bring what is no record to the quarantine, each digest once; return how many were new."""
    log = lake.quarantine_log
    spark = lake.spark
    files = lake.records_log.files_in(f"{staged}/valid=false")
    if not files or log.done(work) >= number:
        return 0
    uris = [f"{lake.records_log.root}/{file.path}" for file in files]
    rows = read_files(spark, uris, _staged_schema())
    rows = rows.select(
        _digest(F.col("raw")).alias("digest"), "code", "detail", "bundle", "offset",
        F.length("raw").cast("long").alias("length"), "raw", F.lit(name).alias("ingest"),
    )  # fmt: skip
    first = F.min_by(F.struct(*rows.columns), F.struct("bundle", "offset")).alias("first")
    fresh = rows.groupBy("digest").agg(first).select("first.*")
    for _ in range(_TRIES):
        before = log.version()
        known = read_files(spark, before.uris(), QUARANTINE_SCHEMA).select("digest")
        folder = f"{DATA}/{name}-{number}-{uuid4().hex}"
        new = fresh.join(known, "digest", "left_anti").select(QUARANTINE_SCHEMA.names)
        new.coalesce(1).write.parquet(f"{log.root}/{folder}")
        kept = [file for file in log.files_in(folder) if file.rows]
        note = {"ingest": name, "step": number}
        try:
            log.commit(kept, work=work, step=number, expected=before.number, note=note)
        except Conflict:
            if log.done(work) >= number:
                return 0
            continue
        return sum(file.rows for file in kept)
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _digest(raw: Column) -> Column:
    return F.sha2(raw, 256)


def _without_known(lake: Lake, folder: str, snapshot: Snapshot) -> tuple[list[DataFile], int]:
    """Return the files of what is new, and how many records were not.

    A file in which everything is new is used as it was staged; only the others are written again.
    """
    log = lake.records_log
    files = tuple(log.files_in(f"{folder}/staged/valid=true"))
    if not files:
        return [], 0
    uris = [f"{log.root}/{file.path}" for file in files]
    rows = read_files(lake.spark, uris, RECORDS_SCHEMA)
    keys = rows.select("hash", "bundle", "offset", F.col("_metadata.file_path").alias("file"))
    place = F.struct("bundle", "offset")
    twice = keys.groupBy("hash").agg(F.count(F.lit(1)).alias("times"), F.min(place).alias("first"))
    twice = twice.where("times > 1").select("hash", "first")
    repeats = keys.join(twice, "hash").where(place != F.col("first")).drop("first")
    known = keys.join(snapshot.records.select("hash"), "hash", "left_semi")
    unwanted = repeats.unionByName(known).distinct().persist()
    try:
        duplicates = unwanted.count()
        if not duplicates:
            return list(files), 0
        touched = {row.file for row in unwanted.select("file").distinct().collect()}
        rewritten = files_named(files, touched)
        kept = f"{folder}/kept-{uuid4().hex}"
        again = read_files(
            lake.spark, [f"{log.root}/{file.path}" for file in rewritten], RECORDS_SCHEMA
        )
        again.join(unwanted.select("bundle", "offset"), ["bundle", "offset"], "left_anti").select(
            RECORDS_SCHEMA.names
        ).write.option("parquet.block.size", str(ROW_GROUP_BYTES)).parquet(f"{log.root}/{kept}")
    finally:
        unwanted.unpersist()
    untouched = [file for file in files if file not in rewritten]
    return [*untouched, *(file for file in log.files_in(kept) if file.rows)], duplicates


def _staged_schema() -> pa.Schema:
    return pa.schema([*SOURCE_SCHEMA, pa.field("ingest", pa.string())])


def _tidy(log: DeltaLog, stem: str) -> None:
    """Delete what is left of all tries at a committed step, and is not part of the table."""
    system, root = filesystem(log.root)
    wanted = {file.path for file in log.version().files}
    for folder in log.folders(stem):
        files = log.paths_in(folder)
        if not any(path in wanted for path in files):
            log.remove(folder)
            continue
        for path in files:
            if path not in wanted:
                system.delete_file(f"{root}/{path}")
