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
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import lace.lake.required  # noqa: F401  (first: its error says what to install)

# isort: split
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from lace.b64a import encode
from lace.clock import unix_ms
from lace.crypto.native import digest
from lace.errors import Code, LakeError
from lace.lake.bundle import CUT_BYTES, list_bundles
from lace.lake.delta import Conflict
from lace.lake.jobs import carried, described, job
from lace.lake.known import FORGOTTEN, KNOWN, REPEATED, Rows, without_known
from lace.lake.noted import Notes, digests_of, finished_inputs, key_of
from lace.lake.parts import Input, Part, plan_steps, shared_out, write_parts
from lace.lake.rows import QUARANTINE_SCHEMA
from lace.lake.session import parallelism
from lace.lake.staging import FOLDER
from lace.lake.tables import Lake, Snapshot
from lace.lake.writing import (
    ASIDE,
    Draft,
    Written,
    drafts,
    finish,
    finished,
    remove,
)
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_BYTES: Final = 4096 * MIB
_TRIES: Final = 20
_DIGESTED: Final = pa.schema([("number", pa.int64()), ("digests", pa.list_(pa.string()))])
_IDENTITY: Final = b"lace-lake-ingest/v3"

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
    cut_bytes: int = CUT_BYTES,
    report: Report = lambda _message: None,
) -> IngestResult:
    """Put the records of bundles into a lake; running it again changes nothing.

    Bundles are read once. Those that an earlier ingest has read to the end are passed over, in
    whatever company: by name, size and time, or by a digest where these leave a doubt.
    """
    begun = unix_ms()
    found = [Input.of(bundle) for bundle in list_bundles(paths)]
    inputs = _fresh(lake, found, cut_bytes, report)
    steps = plan_steps(inputs or found, step_bytes, cut_bytes)
    remembered = lake.remembered()
    name = ingest_id(inputs or found, steps, remembered)
    now = lake.records_log.version().number
    if not inputs:
        _tidy(lake, _work(name), len(steps))
        return IngestResult(ingest=name, version=now, skipped_steps=len(steps))
    done = lake.records_log.done(_work(name))
    result = IngestResult(ingest=name, version=now, skipped_steps=min(done, len(steps)))
    _tidy(lake, _work(name), done)
    notes = Notes(lake.root, name)
    if done < len(steps):
        notes.begin(inputs, len(steps), begun, remembered)
    cores = parallelism(lake.spark)
    for number, step in enumerate(steps[done:], done + 1):
        report(f"step {number} of {len(steps)}: validating")
        # How a step is shared out among cores changes nothing of what it reads.
        parts = shared_out(step, cores, cut_bytes)
        begins = notes.begins(step, number)

        def stage(
            folder: str,
            name: str,
            parts: list[Part] = parts,
            begins: dict[str, int] = begins,
            number: int = number,
        ) -> list[Written]:
            staged = write_parts(lake.spark, parts, begins, folder, name, cut_bytes)
            read = {part.bundle for part in parts}
            for entry in inputs:
                if entry.bundle in read:
                    entry.check()
            notes.step(number, staged)
            return staged.files

        result += run_step(lake, stage, _work(name), number, name, report)
    notes.end()
    return result


def _fresh(lake: Lake, found: Sequence[Input], cut_bytes: int, report: Report) -> list[Input]:
    """Return the bundles that no ingest has read to its end."""
    finished = finished_inputs(lake, _work)
    fresh: list[Input] = []
    doubtful: list[Input] = []
    for entry in found:
        known = finished.get((entry.bundle, entry.size), ())
        if not any(one.surely(entry) for one in known):
            (doubtful if known else fresh).append(entry)
    if doubtful:
        report(f"reading {len(doubtful)} bundles for their digests")
        digests = digest_all(lake.spark, [entry.bundle for entry in doubtful], cut_bytes)
        for entry, both in zip(doubtful, digests, strict=True):
            known = finished[entry.bundle, entry.size]
            if not any(one.digest in both for one in known):
                fresh.append(entry)
    return sorted(fresh, key=lambda entry: entry.bundle)


def digest_all(
    spark: SparkSession, bundles: Sequence[str], cut_bytes: int = CUT_BYTES
) -> list[tuple[str, ...]]:
    """Return the digests of many bundles, read by all workers at once."""
    names = list(bundles)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried():
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    row = {"number": number, "digests": digests_of(names[number], cut_bytes)}
                    yield pa.RecordBatch.from_pylist([row], schema=_DIGESTED)

    if len(names) == 1:
        return [digests_of(names[0], cut_bytes)]
    slices = min(len(names), 4 * parallelism(spark))
    with job("reading bundles for their digests"):
        numbers = spark.range(0, len(names), 1, slices)
        rows = numbers.mapInArrow(each, from_arrow_schema(_DIGESTED)).toArrow().to_pylist()
    rows.sort(key=lambda row: int(row["number"]))
    return [tuple(row["digests"]) for row in rows]


def ingest_id(inputs: Sequence[Input], steps: Sequence[Sequence[Part]], remembered: int = 0) -> str:
    """Return what identifies an ingest: its bundles as they lie there, and its steps.

    It is another one after something forgotten was let in again.
    Steps are known by their numbers. Where the same bundles are cut into other steps it is another
    ingest, so that no number ever stands for two things.
    """
    entries = [[entry.bundle, entry.size, entry.modified] for entry in inputs]
    edges = [[step[0].bundle, step[0].start] for step in steps[1:]]
    since = [remembered] if remembered else []
    return encode(digest(_IDENTITY + json.dumps([entries, edges, *since]).encode()))


def _work(name: str) -> str:
    return f"lace-ingest/{name}"


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
    stem = f"{key_of(work)}-{number}-"
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
            kept, counts = without_known(lake, draft, Snapshot(lake.spark, before))
        files = draft.publish(kept, log)
        records = sum(file.rows for file in kept)
        told = {
            "records": records, "duplicates": counts.get(KNOWN, 0),
            "repeated": counts.get(REPEATED, 0), "forgotten": counts.get(FORGOTTEN, 0),
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
    for folder in drafts(lake.root, f"{key_of(work)}-"):
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
        rows = Rows(lake, draft, log, ASIDE, QUARANTINE_SCHEMA, ("bundle", "offset", "digest"))
        kept, _ = rows.without(files, rows.known(files, before.listed()) if before.files else None)
        made = draft.publish(kept, log)
        note = {"ingest": name, "step": number}
        try:
            log.commit(made, work=work, step=number, expected=before.number, note=note)
        except Conflict:
            continue
        return
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)
