"""``spark.read.format("lace")``: bundles as rows, validated where they are read.

A partition is a segment of a bundle. Every record is validated in full before it becomes a row;
what is no record becomes a row with a code. The bytes cross from Python to Java once.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
from lace.lake.bundle import (
    Segment,
    bundle_size,
    cut,
    filesystem,
    joined,
    list_bundles,
    read_range,
    segment_bytes,
)
from lace.lake.jobs import carried
from lace.lake.rows import SOURCE_SCHEMA, Found, batches
from lace.limits import DEFAULT_LIMITS, MIB
from lace.record.bulk import validate_frames
from lace.record.model import Record
from lace.record.split import BrokenFrame, Frame, RecordSplitter
from lace.record.validate import validate_record

_PIECE: Final = 8 * MIB
_CAREFUL_WORKERS: Final = 2
_MAX_FILES: Final = 1000


class LaceDataSource(DataSource):
    """Bundles of records. ``load(path)`` takes a bundle or a folder of ``*.records`` files."""

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
        plan = self._options.get("plan")
        if plan is not None:  # an ingest has cut its bundles already
            system, path = filesystem(plan)
            with system.open_input_file(path) as file:
                entries = json.loads(cast("bytes", file.read()))
            parts = (Segment(*entry) for entry in entries[self._options["step"]])
            yield from joined(parts, int(self._options["segmentbytes"]))
            return
        bundles = list_bundles([_path(self._options)])
        most = segment_bytes(sum(map(bundle_size, bundles)), os.cpu_count() or 1)
        for bundle in bundles:
            yield from cut(bundle, most=most)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._columns)


class LaceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New bundles in a folder, some at a time, each once.

    A bundle must appear under its name in one step: write it under another name, then rename it.
    With the option ``log`` the order is that in which bundles were first seen, kept in that file.
    Without it the order is that of their names, and a bundle whose name sorts before one that was
    read already is passed over.
    """

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._columns = schema.names
        self._path = _path(options)
        self._log = options.get("log")
        self._most = int(options.get("maxfilespertrigger", _MAX_FILES))
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
        if self._log is None:
            return bisect_right(bundles, offset["after"])
        position = int(offset["files"])
        if position > len(bundles) or (position and bundles[position - 1] != offset["after"]):
            raise LakeError(f"{self._log} is of another stream", code=Code.LAKE_STREAM)
        return position

    def _bundles(self) -> list[str]:
        """Return all bundles in the order of the stream; new ones are written down first."""
        try:
            there = list_bundles([self._path])
        except LakeError:
            there = []  # nothing there yet
        if self._log is None:
            return there
        system, path = filesystem(self._log)
        known: list[str] = []
        if system.get_file_info(path).type == FileType.File:
            with system.open_input_file(path) as file:
                known = _names(self._log, cast("bytes", file.read()))
        seen = set(known)
        new = [bundle for bundle in there if bundle not in seen]
        if new:
            known += new
            with system.open_output_stream(f"{path}.new") as file:
                file.write(json.dumps(known).encode())
            system.move(f"{path}.new", path)
        return known


def _names(log: str, text: bytes) -> list[str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise LakeError(f"{log} is no list of bundles", code=Code.LAKE_STREAM)
    return found


def _path(options: dict[str, str]) -> str:
    path = options.get("path")
    if not path:
        raise LakeError("no path was given", code=Code.LAKE_INPUT)
    return path


def _read(partition: InputPartition, columns: list[str]) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, SegmentPartition)
    context = TaskContext.get()
    # A task that is tried again may have killed its worker: this time each record is judged in a
    # process apart, so that the one that does it is found and put aside.
    careful = context is not None and context.attemptNumber() > 0
    with carried(), collector.paused():
        for batch in read_segment(partition.segment, careful=careful):
            yield batch.select(columns)


def read_segment(segment: Segment, *, careful: bool = False) -> Iterator[pa.RecordBatch]:
    """Yield a row for each record of a segment, and for all bytes that are none."""
    return batches(segment.bundle, _outcomes(segment, careful))


def _outcomes(segment: Segment, careful: bool) -> Iterator[Found]:
    """Yield what is in a segment, some megabytes at a time."""
    splitter = RecordSplitter(DEFAULT_LIMITS)
    for chunk in read_range(segment.bundle, segment.start, segment.end):
        frames = [frame for frame in splitter.feed(chunk) if isinstance(frame, Frame)]
        raws = [frame.raw for frame in frames]
        if careful:
            outcomes = list(validate_frames(raws, workers=_CAREFUL_WORKERS))
        else:
            outcomes = [validate_record(raw) for raw in raws]
        yield [segment.start + frame.offset for frame in frames], raws, outcomes
        if splitter.broken is not None:
            break
    splitter.close()
    broken = splitter.broken
    if broken is None:
        return
    if not segment.final:
        # The next reader starts at a cut that this one never reached.
        message = f"{segment.bundle}: byte {segment.end} is no record boundary"
        raise LakeError(message, code=Code.LAKE_INDEX)
    yield from _unreadable(segment, broken)


def _unreadable(segment: Segment, broken: BrokenFrame) -> Iterator[Found]:
    """Yield the rest of a bundle in pieces: no boundary can be known, and no byte is lost."""
    offset = segment.start + broken.offset
    fault: Outcome[Record] = Outcome(Status.REJECTED, None, broken.code, broken.detail)
    for piece in read_range(segment.bundle, offset, segment.end, _PIECE):
        yield [offset], [piece], [fault]
        offset += len(piece)
        detail = f"follows the broken record at byte {segment.start + broken.offset}"
        fault = Outcome(Status.REJECTED, None, Code.LAKE_UNREADABLE, detail)
