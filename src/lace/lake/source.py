"""``spark.read.format("lace")``: bundles as rows, validated where they are read.

A partition is a segment of a bundle. Every record is validated in full before it becomes a row;
what is no record becomes a row with a code. The bytes cross from Python to Java once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import pyarrow as pa
from pyarrow.fs import FileType
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lace import collector
from lace.errors import Code, LakeError, Outcome, Status
from lace.lake.bundle import Segment, cut, expanded, list_bundles, segment_bytes
from lace.lake.jobs import carried
from lace.lake.places import Bytes, file_size, filesystem, write_whole
from lace.lake.rows import SOURCE_SCHEMA, Found, batches
from lace.lake.salvage import ALLOWANCE, Judge, Judged, Stretch, judge_here, walk
from lace.limits import MIB
from lace.record.bulk import validate_frames
from lace.record.model import Record

PIECE: Final = MIB
"""Of bytes that are no record, in one row."""
_CAREFUL_WORKERS: Final = 2
_FILES_A_BATCH: Final = 1000
_SEEN: Final = ".lace-seen.json"


class LaceDataSource(DataSource):
    """Bundles of records. ``load`` takes bundles, folders of ``*.records`` files, and patterns."""

    @classmethod
    def name(cls) -> str:
        return "lace"

    def schema(self) -> StructType:
        return from_arrow_schema(SOURCE_SCHEMA)

    def reader(self, schema: StructType) -> LaceReader:
        return LaceReader(schema, dict(self.options))

    def streamReader(self, schema: StructType) -> LaceStreamReader:  # noqa: N802 (Spark's name)
        return LaceStreamReader(schema, dict(self.options))


class SegmentPartition(InputPartition):
    def __init__(self, segment: Segment) -> None:
        super().__init__(segment)
        self.segment = segment


class LaceReader(DataSourceReader):
    """Filters are not taken over: in Spark 4.3 what one query pushes down leaks into others."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._columns = schema.names
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        with carried():
            return [SegmentPartition(segment) for segment in self._segments()]

    def _segments(self) -> Iterator[Segment]:
        bundles = list_bundles(_paths(self._options))
        most = segment_bytes(sum(map(file_size, bundles)), os.cpu_count() or 1)
        for bundle in bundles:
            yield from cut(bundle, most=most)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._columns)


class LaceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New bundles in a folder, some at a time, each once.

    A bundle must appear under its name in one step: write it under another name, then rename it.
    The order is that in which bundles were first seen. It is kept in the file that the option
    ``log`` names, else in the folder itself: two streams over one folder need a log each.
    """

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._columns = schema.names
        paths = _paths(options)
        if len(paths) > 1:
            raise LakeError("a stream takes one folder", code=Code.LAKE_INPUT)
        (self._path,) = paths
        self._log = options.get("log") or f"{self._path.rstrip('/')}/{_SEEN}"
        self._most = int(options.get("maxfilespertrigger", _FILES_A_BATCH))
        self._last: list[str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"files": 0, "after": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with carried():
            self._last = self._bundles()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with carried():
            bundles = self._bundles() if self._last is None else self._last
            done = self._position(bundles, start)
        end = len(bundles)
        if isinstance(limit, ReadMaxFiles):
            end = min(end, done + limit.max_files)
        return {"files": end, "after": bundles[end - 1]} if end > done else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with carried():
            bundles = self._bundles()
            wanted = bundles[self._position(bundles, start) : self._position(bundles, end)]
            return [SegmentPartition(segment) for bundle in wanted for segment in cut(bundle)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._columns)

    def _position(self, bundles: list[str], offset: dict[str, Any]) -> int:
        position = int(offset["files"])
        if position > len(bundles) or (position and bundles[position - 1] != offset["after"]):
            raise LakeError(f"{self._log} is of another stream", code=Code.LAKE_STREAM)
        return position

    def _bundles(self) -> list[str]:
        """Return all bundles in the order of the stream; new ones are written down first."""
        there = list_bundles([self._path], may_be_empty=True)
        system, path = filesystem(self._log)
        known: list[str] = []
        if system.get_file_info(path).type == FileType.File:
            with system.open_input_file(path) as file:
                known = _names(self._log, cast("bytes", file.read()))
        seen = set(known)
        new = [bundle for bundle in there if bundle not in seen]
        if new:
            known += new
            write_whole(self._log, json.dumps(known).encode())
        return known


def _names(log: str, text: bytes) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise LakeError(f"{log} is no list of bundles", code=Code.LAKE_STREAM)
    return found


def _paths(options: dict[str, str]) -> list[str]:
    """Return what was given to ``load``: Spark hands over one path as it is, several as JSON."""
    several = json.loads(options["paths"]) if "paths" in options else []
    paths = [path for path in (options.get("path"), *several) if path]
    if not paths:
        raise LakeError("no path was given", code=Code.LAKE_INPUT)
    return paths


def _read(partition: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, SegmentPartition)
    with carried():
        for batch in segment_batches(partition.segment):
            yield batch.select(columns)


def segment_batches(segment: Segment) -> Iterator[pa.RecordBatch]:
    """In a worker: yield the rows of a segment."""
    with collector.paused():
        yield from read_segment(segment, careful_judge())


def careful_judge() -> Judge:
    """In a worker: return who judges records.

    A task that is tried again may have killed its worker: this time each record is judged in a
    process apart, so that the one that does it is found and put aside.
    """
    context = TaskContext.get()
    return _judge_apart if context is not None and context.attemptNumber() > 0 else judge_here


def read_segment(segment: Segment, judge: Judge = judge_here) -> Iterator[pa.RecordBatch]:
    """Yield a row for each record of a segment, and for all bytes that are none."""
    return batches(segment.bundle, outcomes_of(segment, judge=judge))


def _judge_apart(raws: Sequence[bytes]) -> list[Outcome[Record]]:
    return list(validate_frames(raws, workers=_CAREFUL_WORKERS))


def outcomes_of(
    segment: Segment, *, judge: Judge = judge_here, allowance: int = ALLOWANCE
) -> Iterator[Found]:
    """Yield what is in a segment, some megabytes at a time."""
    with expanded(segment) as (plain, fault):
        yield from _plain_outcomes(plain, judge, allowance)
        if fault:
            yield compressed_fault(plain.end, fault)


def compressed_fault(end: int, fault: str) -> Found:
    """Return what is told of a bundle that could not be expanded to its end."""
    return [end], [b""], [Outcome(Status.REJECTED, None, Code.LAKE_COMPRESSED, fault)]


def _plain_outcomes(segment: Segment, judge: Judge, allowance: int) -> Iterator[Found]:
    with Bytes(segment.bundle) as file:
        for found in walk(
            file, segment.start, segment.end, final=segment.final, judge=judge, allowance=allowance
        ):
            yield from rows_of(file, found)


def rows_of(file: Bytes, found: Judged | Stretch) -> Iterator[Found]:
    """Yield rows of what was found in a bundle; what is no record comes in bounded pieces."""
    if isinstance(found, Stretch):
        pieces = file.pieces(found.start, found.end, PIECE)
        fault: Outcome[Record] = Outcome(Status.REJECTED, None, found.code, found.detail)
        yield from _in_pieces(found.start, pieces, fault)
        return
    frames, outcomes = found
    if all(o.ok or len(f.raw) <= PIECE for f, o in zip(frames, outcomes, strict=True)):
        yield [frame.offset for frame in frames], [frame.raw for frame in frames], outcomes
        return
    for frame, outcome in zip(frames, outcomes, strict=True):
        if outcome.ok:
            yield [frame.offset], [frame.raw], [outcome]
        else:
            raw = frame.raw
            cut_up = (raw[at : at + PIECE] for at in range(0, len(raw), PIECE))
            yield from _in_pieces(frame.offset, cut_up, outcome)


def _in_pieces(start: int, pieces: Iterable[bytes], fault: Outcome[Record]) -> Iterator[Found]:
    """Yield bytes that are no record in bounded pieces; the first says what is wrong."""
    offset = start
    for piece in pieces:
        yield [offset], [piece], [fault]
        offset += len(piece)
        detail = f"follows the bytes at {start} that are no record"
        fault = Outcome(Status.REJECTED, None, Code.LAKE_UNREADABLE, detail)
