"""Bundles in one read: parts of them, by workers that do not know where a record begins.

A part is a range of bytes; it owns what begins in it. The worker of a part that is not the first
begins at the first place in it that proves to be a record, as behind damage
(``lace.lake.salvage``), reads on to the first beginning behind the part, and tells both. How a
bundle is read on depends on nothing but the place, so that the parts are those of one reader from
the beginning if each begins where the one before it came out. A part that does not is read again
from there: that happens where an edge lies in damage, or in data that quotes records. Nothing is
guessed in the end, and no part is read more than three times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from lace import collector
from lace.b64a import encode
from lace.crypto.hashing import blake3
from lace.errors import Code, LakeError
from lace.lake.bundle import CUT_BYTES, SEGMENT_BYTES, Segment, compression, expanded
from lace.lake.jobs import carried, job
from lace.lake.places import Bytes, file_info
from lace.lake.rows import Found, batches
from lace.lake.salvage import Judge, judge_here, next_record, walk
from lace.lake.source import careful_judge, compressed_fault, rows_of
from lace.lake.writing import Written, as_batches, prepared, store_found, written_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOWHERE: Final = -1
_TOLD: Final = written_of(
    ("part", pa.int64()), ("begin", pa.int64()), ("behind", pa.int64()), ("digests", pa.string())
)
_NOTHING: Final = Written("", "", 0, 0, 0, "", 0)
_PARTS_A_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class Input:
    """A bundle as it lies there before it is read."""

    bundle: str
    size: int
    modified: int
    """In nanoseconds."""

    @classmethod
    def of(cls, bundle: str) -> Input:
        info = file_info(bundle)
        return cls(bundle, int(info.size), int(info.mtime_ns or 0))

    def check(self) -> None:
        """Raise ``LakeError`` if the bundle is no longer what it was."""
        if Input.of(self.bundle) != self:
            raise LakeError(
                f"{self.bundle} changed while it was read",
                code=Code.LAKE_CHANGED,
                hint="Write bundles under another name, and rename them when they are whole.",
            )


@dataclass(frozen=True, slots=True)
class Part:
    """A range of bytes of a bundle; what begins in it belongs to it."""

    bundle: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Told:
    """What a worker says of a part."""

    begin: int | None
    """Where it began; None if nothing in the part proved to be a record."""
    behind: int
    """Where the first thing behind the part begins; the end of the bundle if there is none."""
    files: tuple[Written, ...] = ()
    digests: str = ""
    """Of its blocks."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What became of the parts of a step."""

    files: list[Written]
    behind: dict[str, int]
    """Of each bundle: where the next step is to go on."""
    digests: dict[str, str]
    """Of each bundle: the digests of the blocks that were read."""


def plan_steps(
    inputs: Iterable[Input], step_bytes: int, block: int = CUT_BYTES
) -> list[list[Part]]:
    """Return the parts of each step; the same bundles make the same steps on any machine."""
    steps: list[list[Part]] = []
    room = 0
    for entry in inputs:
        at, whole = 0, compression(entry.bundle) is not None
        while at < entry.size:
            left = entry.size - at
            take = left if whole or left <= room else room // block * block
            if not steps or take > room or take == 0:
                steps.append([])
                room = step_bytes
                take = left if whole or left <= room else max(block, room // block * block)
                take = min(take, left)
            steps[-1].append(Part(entry.bundle, at, at + take))
            at += take
            room = max(0, room - take)
    return steps


def shared_out(parts: Iterable[Part], cores: int, block: int = CUT_BYTES) -> list[Part]:
    """Return the same bytes in parts of about one size, so that all cores end at the same time."""
    parts = list(parts)
    total = sum(part.size for part in parts)
    each = max(_PARTS_A_CORE, -(-total // (SEGMENT_BYTES * cores)))
    most = max(block, -(-total // (each * cores)))
    made: list[Part] = []
    for part in parts:
        count = 1 if compression(part.bundle) is not None else -(-part.size // most)
        edges = [part.start + part.size * n // count // block * block for n in range(1, count)]
        edges = [part.start, *dict.fromkeys(e for e in edges if e > part.start), part.end]
        made += (Part(part.bundle, a, b) for a, b in pairwise(edges))
    return made


def bundle_digest(blocks: Iterable[bytes]) -> str:
    """Return what a bundle is known by: a digest of the digests of its blocks."""
    return encode(blake3(b"".join(blocks)).digest())


def read_digest(bundle: str, block: int = CUT_BYTES) -> str:
    """Return the same for a bundle that is read for nothing else."""
    return bundle_digest(blocks_of(bundle, block))


def blocks_of(bundle: str, block: int = CUT_BYTES) -> Iterator[bytes]:
    """Yield the digests of the blocks of a bundle."""
    with Bytes(bundle) as file:
        for piece in file.pieces(0, file.size, block):
            yield blake3(piece).digest()


def boundary(bundle: str, at: int) -> int:
    """Return where the first thing at or behind a place begins, read from the beginning."""
    with Bytes(bundle) as file:
        reading = Reading(file, 0, at, judge_here)
        for _ in reading:
            pass
        return reading.behind


# --- in the workers -----------------------------------------------------------------------------


class Reading:
    """What begins in a part, from a place that is known to be a beginning."""

    def __init__(self, file: Bytes, begin: int, end: int, judge: Judge) -> None:
        self._file, self._begin, self._end, self._judge = file, begin, end, judge
        self.behind = max(begin, file.size)
        """Where the next part has to begin, once all was read."""

    def __iter__(self) -> Iterator[Found]:
        file = self._file
        if self._begin >= self._end:
            self.behind = self._begin
            return
        for found in walk(file, self._begin, file.size, final=True, judge=self._judge):
            if isinstance(found, tuple):
                frames, outcomes = found
                inside = sum(frame.offset < self._end for frame in frames)
                yield from rows_of(file, (frames[:inside], outcomes[:inside]))
                behind = frames[inside].offset if inside < len(frames) else None
            else:
                behind = found.start if found.start >= self._end else None
                if behind is None:
                    yield from rows_of(file, found)
            if behind is not None:
                self.behind = behind
                return


def read_part(part: Part, begin: int | None, block: int, folder: str, ingest: str) -> Told:
    """Read a part, validate what begins in it, and write it; without a beginning, find one."""
    judge = careful_judge()
    if compression(part.bundle) is not None:
        return _read_compressed(part, judge, block, folder, ingest)
    blocks = range(0)
    if begin is None:  # the first look at it: later ones know its digests
        blocks = range(part.start // block, -(-part.end // block))
    with Bytes(part.bundle, blocks, block) as file:
        if part.end > file.size:
            raise LakeError(f"{part.bundle} ended at byte {file.size}", code=Code.LAKE_CHANGED)
        if begin is None:
            begin = 0 if part.start == 0 else next_record(file, part.start, part.end, judge)
        files: tuple[Written, ...] = ()
        behind = file.size
        if begin is not None:
            reading = Reading(file, begin, part.end, judge)
            files = tuple(store_found(batches(part.bundle, reading), folder, ingest))
            behind = reading.behind
        return Told(begin, behind, files, b"".join(file.digests()).hex())


def _read_compressed(part: Part, judge: Judge, block: int, folder: str, ingest: str) -> Told:
    whole = Segment(part.bundle, 0, part.size, final=True)
    with (
        Bytes(part.bundle, range(-(-part.size // block)), block) as packed,
        expanded(whole, packed) as (plain, fault),
    ):

        def found() -> Iterator[Found]:
            with Bytes(plain.bundle) as file:
                yield from Reading(file, 0, file.size, judge)
            if fault:
                yield compressed_fault(plain.end, fault)

        files = tuple(store_found(batches(part.bundle, found()), folder, ingest))
        return Told(0, part.size, files, b"".join(packed.digests()).hex())


# --- on the driver ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Task:
    numbers: tuple[int, ...]
    """Of parts: the first, and those that may have to be read on to."""
    begin: int | None


Run = Callable[[Sequence[Task], Mapping[int, Told]], dict[int, Told]]
"""Reads parts, where it is known what was told of some of them."""


def write_parts(
    spark: SparkSession,
    parts: Sequence[Part],
    begins: Mapping[str, int],
    folder: str,
    ingest: str,
    block: int = CUT_BYTES,
) -> Staged:
    """Read, validate and write parts of bundles, each once wherever its worker began rightly.

    ``begins`` says where earlier steps came out of their bundles.
    """

    def run(tasks: Sequence[Task], told: Mapping[int, Told]) -> dict[int, Told]:
        return _run(spark, parts, tasks, told, folder, ingest, block)

    return put_together(parts, begins, run)


def put_together(parts: Sequence[Part], begins: Mapping[str, int], run: Run) -> Staged:
    """Have parts read until each begins where the one before it came out."""
    told: dict[int, Told] = {}
    tasks = [Task((number,), None) for number in range(len(parts))]
    digests: dict[int, str] = {}
    right: list[Told] = []
    is_first = True
    while tasks:
        for number, one in run(tasks, told).items():
            digests.setdefault(number, one.digests)
            told[number] = one
        right, wrong = chained(parts, told, begins)
        tasks = []
        if is_first:
            tasks = [Task((number,), begin) for number, begin in wrong.items()]
        elif wrong:  # one reader goes on until it comes out where another has begun
            number, begin = next(iter(wrong.items()))
            rest = [n for n in range(number, len(parts)) if parts[n].bundle == parts[number].bundle]
            tasks = [Task(tuple(rest), begin)]
        is_first = False
    behind: dict[str, int] = {}
    blocks: dict[str, str] = {}
    for number, part in enumerate(parts):
        behind[part.bundle] = right[number].behind
        blocks[part.bundle] = blocks.get(part.bundle, "") + digests[number]
    return Staged([file for one in right for file in one.files], behind, blocks)


def chained(
    parts: Sequence[Part], told: Mapping[int, Told], begins: Mapping[str, int]
) -> tuple[list[Told], dict[int, int]]:
    """Return what counts of each part, and which did not begin where the one before came out."""
    right: list[Told] = []
    wrong: dict[int, int] = {}
    for bundle, numbers in groupby(range(len(parts)), key=lambda n: parts[n].bundle):
        begin = begins.get(bundle, 0)
        for number in numbers:
            found = told[number]
            if begin >= parts[number].end:  # all of it belongs to something that began before
                found = Told(begin, begin)
            elif found.begin != begin:
                wrong[number] = begin
            right.append(found)
            begin = found.behind
    return right, wrong


def _run(
    spark: SparkSession,
    parts: Sequence[Part],
    tasks: Sequence[Task],
    told: Mapping[int, Told],
    folder: str,
    ingest: str,
    block: int,
) -> dict[int, Told]:
    """Have the workers read parts; return what they tell of each."""
    jobs, ranges = list(tasks), list(parts)
    begun = {number: one.begin for number, one in told.items()}

    def work(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with carried(), collector.paused():
            for batch in rows:
                for number in batch.column("id").to_pylist():
                    for part, one in run_of(jobs[number], ranges, begun, block, folder, ingest):
                        for row in as_batches([_NOTHING, *one.files]):
                            yield _with(row, part, one)

    prepared(folder)
    frame = spark.range(0, len(jobs), 1, len(jobs)).mapInArrow(work, from_arrow_schema(_TOLD))
    with job("reading bundles"):
        rows = frame.toArrow().to_pylist()
    found: dict[int, Told] = {}
    for row in rows:
        part, begin, behind, digests = (
            row.pop(name) for name in ("part", "begin", "behind", "digests")
        )
        one = found.setdefault(
            part, Told(None if begin == _NOWHERE else begin, behind, (), digests)
        )
        if row["table"]:
            found[part] = replace(one, files=(*one.files, Written(**row)))
    return found


def run_of(
    task: Task,
    parts: Sequence[Part],
    begun: Mapping[int, int | None],
    block: int,
    folder: str,
    ingest: str,
) -> Iterator[tuple[int, Told]]:
    """Read the parts of a task, until it comes out where the next one has begun already."""
    begin = task.begin
    for number in task.numbers:
        if number != task.numbers[0] and begun.get(number) == begin:
            return
        one = read_part(parts[number], begin, block, folder, ingest)
        yield number, one
        begin = one.behind


def _with(row: pa.RecordBatch, part: int, one: Told) -> pa.RecordBatch:
    begin = _NOWHERE if one.begin is None else one.begin
    more = [pa.array([part]), pa.array([begin]), pa.array([one.behind]), pa.array([one.digests])]
    return pa.RecordBatch.from_arrays([*row.columns, *more], schema=_TOLD)
