"""Bundles into a lake: validated, once each, whatever happens on the way.

The work is cut into steps; a step ends with one commit that names the ingest and the number of the
step. What the workers write lies beside the tables until then, as a draft. A process that dies
leaves its draft; the next run goes on with the step that was not committed, and uses a draft that
is whole. Bytes that are no records go to the quarantine before their step is committed, known by
bundle, offset and digest, so that none is lost or doubled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

import lace.lake.required  # noqa: F401  (first: its error says what to install)

# isort: split
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from lace.b64a import encode
from lace.crypto.native import digest
from lace.errors import Code, LakeError
from lace.lake.bundle import Segment, Survey, joined, list_bundles, segment_bytes, survey
from lace.lake.delta import Conflict, DeltaLog
from lace.lake.jobs import carried, described, job
from lace.lake.places import filesystem
from lace.lake.rows import FORGOTTEN_SCHEMA, QUARANTINE_SCHEMA, RECORDS_SCHEMA
from lace.lake.session import parallelism
from lace.lake.staging import FOLDER
from lace.lake.tables import Lake, Snapshot, read_files
from lace.lake.writing import (
    ASIDE,
    RECORDS,
    Draft,
    Written,
    drafts,
    finish,
    finished,
    new_file,
    remove,
    write_segments,
    write_table,
)
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEP_BYTES: Final = 4096 * MIB
FEW: Final = 20_000
"""So many records are compared with the lake without Spark."""
_FEW_BYTES: Final = 64 * MIB
_SCANNED: Final = 5_000_000
_TRIES: Final = 20
#: Why a row is left out; of several reasons the largest counts.
_REPEATED: Final = 0
_KNOWN: Final = 1
_FORGOTTEN: Final = 2
_SURVEYED: Final = pa.schema([("number", pa.int64()), ("survey", pa.string())])
_IDENTITY: Final = b"lace-lake-ingest/v2"
_INPUTS: Final = "ingests"
_KEY: Final = b"lace-lake-name/v1"

Report = Callable[[str], None]
Stage = Callable[[str, str], list[Written]]
"""Writes all rows of a step into a folder, for an ingest of some name; returns the files."""


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
    """That were in the lake already."""
    repeated: int = 0
    """That came more than once in one step."""
    forgotten: int = 0
    """That the lake has forgotten, and does not take again."""
    quarantined: int = 0
    """Places in the bundles that hold no record; their bytes are in quarantine."""

    def __add__(self, other: StepResult) -> IngestResult:
        return replace(
            self, version=other.version, steps=self.steps + 1,
            records=self.records + other.records, duplicates=self.duplicates + other.duplicates,
            repeated=self.repeated + other.repeated, forgotten=self.forgotten + other.forgotten,
            quarantined=self.quarantined + other.quarantined,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    version: int
    records: int = 0
    duplicates: int = 0
    repeated: int = 0
    forgotten: int = 0
    quarantined: int = 0


def ingest(
    lake: Lake,
    paths: Sequence[str],
    *,
    step_bytes: int = STEP_BYTES,
    report: Report = lambda _message: None,
) -> IngestResult:
    """Put the records of bundles into a lake; running it again changes nothing.

    Bundles that an earlier ingest has read to the end are not read again, in whatever company.
    """
    bundles = list_bundles(paths)
    report(f"reading {len(bundles)} bundles for their digests")
    surveys = survey_all(lake.spark, bundles)
    known = _finished_inputs(lake)
    fresh = [s for s in surveys if (s.bundle, s.size, s.digest) not in known]
    if not fresh:
        steps = plan_steps(surveys, step_bytes)
        now = lake.records_log.version().number
        name = ingest_id(surveys, steps)
        _tidy(lake, _work(name), len(steps))
        return IngestResult(ingest=name, version=now, skipped_steps=len(steps))
    surveys = fresh
    steps = plan_steps(surveys, step_bytes)
    name = ingest_id(surveys, steps)
    done = lake.records_log.done(_work(name))
    result = IngestResult(
        ingest=name, version=lake.records_log.version().number, skipped_steps=min(done, len(steps))
    )
    _tidy(lake, _work(name), done)
    if done >= len(steps):
        return result
    _note_inputs(lake, name, surveys, len(steps))
    cores = parallelism(lake.spark)
    for number, step in enumerate(steps[done:], done + 1):
        report(f"step {number} of {len(steps)}: validating")
        # How a step is shared out among cores changes nothing of what it reads.
        parts = joined(step, segment_bytes(sum(part.size for part in step), cores))
        stage = partial(write_segments, lake.spark, parts)
        result += run_step(lake, stage, _work(name), number, name, report)
    return result


def survey_all(spark: SparkSession, bundles: Sequence[str]) -> list[Survey]:
    """Return digest and cuts of many bundles, read by all workers at once."""

    names = list(bundles)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    text = json.dumps(survey(names[number]).to_json())
                    yield pa.RecordBatch.from_pylist(
                        [{"number": number, "survey": text}], schema=_SURVEYED
                    )

    if len(names) == 1:
        return [survey(names[0])]
    slices = min(len(names), 4 * parallelism(spark))
    with job("reading bundles for their digests"):
        numbers = spark.range(0, len(names), 1, slices)
        rows = numbers.mapInArrow(each, from_arrow_schema(_SURVEYED)).toArrow().to_pylist()
    rows.sort(key=lambda row: int(row["number"]))
    return [Survey.from_json(json.loads(row["survey"])) for row in rows]


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


def _finished_inputs(lake: Lake) -> set[tuple[str, int, str]]:
    """Return name, size and digest of the bundles of all ingests that came to their end."""
    system, root = filesystem(lake.root)
    selector = fs.FileSelector(f"{root}/{_INPUTS}", allow_not_found=True)
    notes = []
    for info in system.get_file_info(selector):
        if info.extension == "json":
            with system.open_input_file(info.path) as file:
                notes.append(json.loads(cast("bytes", file.read())))
    notes = [note for note in notes if "steps" in note]  # those of older engines have none
    done = lake.records_log.all_done({_work(note["ingest"]): note["steps"] for note in notes})
    return {
        (bundle, size, digest)
        for note in notes
        if _work(note["ingest"]) in done
        for bundle, size, digest in note["inputs"]
    }


def _note_inputs(lake: Lake, name: str, surveys: Sequence[Survey], steps: int) -> None:
    """Write down what an ingest reads; the tables name it by its id alone."""
    system, root = filesystem(lake.root)
    system.create_dir(f"{root}/{_INPUTS}", recursive=True)
    content: dict[str, Any] = {
        "ingest": name,
        "steps": steps,
        "inputs": [[entry.bundle, entry.size, entry.digest] for entry in surveys],
    }
    path = f"{root}/{_INPUTS}/{_key(name)}.json"
    draft = f"{path}.{uuid4().hex}"  # another process may be at the same ingest
    with system.open_output_stream(draft) as file:
        file.write(json.dumps(content).encode())
    system.move(draft, path)


def _key(work: str) -> str:
    """Return what stands for some work in names of files: nothing that any store would escape."""
    return digest(_KEY + work.encode()).hex()[:32]


# --- one step -----------------------------------------------------------------------------------


def run_step(
    lake: Lake, stage: Stage, work: str, number: int, name: str, report: Report
) -> StepResult:
    """Validate, put aside, compare with the lake, commit: one step, whole or not at all."""
    try:
        with job("ingest"):
            result = _run_step(lake, stage, work, number, name, report)
    except Exception:
        # Another process that does the same work may have been quicker, and have tidied up.
        if lake.records_log.done(work) < number:
            raise
        result = None
    return result or StepResult(version=lake.records_log.version().number)


def _run_step(
    lake: Lake, stage: Stage, work: str, number: int, name: str, report: Report
) -> StepResult | None:
    log = lake.records_log
    stem = f"{_key(work)}-{number}-"
    draft = next(filter(None, map(finished, drafts(lake.root, stem))), None)
    if draft is None:
        # A name of its own: whatever else writes here never mixes with it.
        folder = f"{lake.root}/{FOLDER}/{stem}{uuid4().hex}"
        with described(f"ingest, step {number}: reading and validating"):
            draft = finish(folder, stage(folder, name))
    report(f"step {number}: comparing with the lake")
    with described(f"ingest, step {number}: putting aside what is no record"):
        _put_aside(lake, draft, work, number, name)
    quarantined = sum(file.begun for file in draft.of(ASIDE))
    for _ in range(_TRIES):
        before = log.version()
        if log.done(work) >= number:
            _tidy(lake, work, number)
            return None
        with described(f"ingest, step {number}: comparing with the lake"):
            kept, counts = _without_known(lake, draft, Snapshot(lake.spark, before))
        files = draft.publish(kept, log)
        records = sum(file.rows for file in kept)
        told = {
            "records": records, "duplicates": counts.get(_KNOWN, 0),
            "repeated": counts.get(_REPEATED, 0), "forgotten": counts.get(_FORGOTTEN, 0),
            "quarantined": quarantined,
        }  # fmt: skip
        note = {"ingest": name, "step": number, **told,
                "quarantine": lake.quarantine_log.version().number}  # fmt: skip
        try:
            version = log.commit(files, work=work, step=number, expected=before.number, note=note)
        except Conflict:
            continue
        _tidy(lake, work, number)
        return StepResult(version=version, **told)
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _tidy(lake: Lake, work: str, done: int) -> None:
    """Remove what is left of all tries at steps that are committed."""
    for folder in drafts(lake.root, f"{_key(work)}-"):
        if int(folder.rsplit("-", 2)[1]) <= done:
            remove(folder, lake.records_log, lake.quarantine_log)


def _put_aside(lake: Lake, draft: Draft, work: str, number: int, name: str) -> None:
    """Bring what is no record to the quarantine, each place of each bundle once."""
    log = lake.quarantine_log
    files = draft.of(ASIDE)
    if not files:
        return
    for _ in range(_TRIES):
        before = log.version()
        if log.done(work) >= number:
            return
        rows = _Rows(lake, draft, log, ASIDE, QUARANTINE_SCHEMA, ("bundle", "offset", "digest"))
        kept, _ = rows.without(files, rows.known(files, before.uris()) if before.files else None)
        made = draft.publish(kept, log)
        note = {"ingest": name, "step": number}
        try:
            log.commit(made, work=work, step=number, expected=before.number, note=note)
        except Conflict:
            continue
        return
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)


def _without_known(
    lake: Lake, draft: Draft, snapshot: Snapshot
) -> tuple[list[Written], dict[int, int]]:
    """Return the files of what is new, and how many records are left out for which reason."""
    files = draft.of(RECORDS)
    if not files:
        return [], {}
    is_little = sum(f.rows for f in files) <= FEW and sum(f.size for f in files) <= _FEW_BYTES
    if is_little and snapshot.version.rows <= _SCANNED:
        return _without_known_here(lake, draft, snapshot)
    rows = _Rows(lake, draft, lake.records_log, RECORDS, RECORDS_SCHEMA, ("bundle", "offset"))
    keys = rows.keys(files, "hash")
    place = F.struct("bundle", "offset")
    twice = keys.groupBy("hash").agg(F.count(F.lit(1)).alias("times"), F.min(place).alias("first"))
    twice = twice.where("times > 1").select("hash", "first")
    repeats = keys.join(twice, "hash").where(place != F.col("first")).drop("first")
    known = keys.join(snapshot.columns("hash"), "hash", "left_semi")
    reasons = {_REPEATED: repeats, _KNOWN: known}
    gone = lake.forgotten_files()
    if gone:
        tombstones = read_files(lake.spark, gone, FORGOTTEN_SCHEMA)
        reasons[_FORGOTTEN] = keys.join(tombstones, "hash", "left_semi")
    parts = [frame.withColumn("known", F.lit(reason)) for reason, frame in reasons.items()]
    unwanted = reduce(lambda a, b: a.unionByName(b), parts)
    unwanted = unwanted.groupBy("bundle", "offset", "file").agg(F.max("known").alias("known"))
    return rows.without(files, unwanted)


def _without_known_here(
    lake: Lake, draft: Draft, snapshot: Snapshot
) -> tuple[list[Written], dict[int, int]]:
    """Do the same for a few records without Spark, whose jobs would take longer than all of it."""
    files = draft.of(RECORDS)
    places = dict(zip(draft.uris(files, lake.records_log), files, strict=True))
    tables = {uri: _read_here(uri, ["hash", "bundle", "offset"]) for uri in places}
    rows = sorted(
        (row["bundle"], row["offset"], uri, number, row["hash"])
        for uri, table in tables.items()
        for number, row in enumerate(table.to_pylist())
    )
    hashes = {row[-1] for row in rows}
    known, gone = snapshot.present(hashes), lake.forgotten(hashes)
    counts: dict[int, int] = {}
    kept = {uri: [False] * table.num_rows for uri, table in tables.items()}
    seen: set[str] = set()
    for _, _, uri, number, hash in rows:
        if hash not in known and hash not in gone and hash not in seen:
            kept[uri][number] = True
        else:
            reason = _FORGOTTEN if hash in gone else _KNOWN if hash in known else _REPEATED
            counts[reason] = counts.get(reason, 0) + 1
        seen.add(hash)
    made: list[Written] = []
    for uri, file in places.items():
        if all(kept[uri]):
            made.append(file)
        elif any(kept[uri]):
            again = new_file(draft.folder, RECORDS)
            again.add_in_groups(again.fitting(_read_here(uri, None).filter(pa.array(kept[uri]))))
            made += again.close()
    return made, counts


def _read_here(uri: str, columns: list[str] | None) -> pa.Table:
    system, path = filesystem(uri)
    return pq.read_table(path, columns=columns, filesystem=system)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a draft for one table, told apart by some columns."""

    lake: Lake
    draft: Draft
    log: DeltaLog
    table: str
    schema: pa.Schema
    place: tuple[str, ...]

    def _read(self, files: Sequence[Written]) -> DataFrame:
        return read_files(self.lake.spark, self.draft.uris(files, self.log), self.schema)

    def keys(self, files: Sequence[Written], *more: str) -> DataFrame:
        """Return the places of all rows, with the file that each is in."""
        wanted = pa.schema([self.schema.field(name) for name in (*self.place, *more)])
        uris = self.draft.uris(files, self.log)
        return read_files(self.lake.spark, uris, wanted, with_file=True)

    def known(self, files: Sequence[Written], uris: list[str]) -> DataFrame:
        """Return the places that are in files of the table already."""
        wanted = pa.schema([self.schema.field(name) for name in self.place])
        there = read_files(self.lake.spark, uris, wanted)
        found = self.keys(files).join(there, [*self.place], "left_semi")
        return found.withColumn("known", F.lit(_KNOWN))

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
