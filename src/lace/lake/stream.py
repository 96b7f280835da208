"""Bundles as they arrive: each batch is one step of an ingest, so that each record comes once.

Spark's checkpoint says which bundles make up a batch, and makes the same batch again after a crash;
the commit carries the number of the batch, so that a batch that was committed is not done twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Final, cast

from pyarrow import fs

from lace.clock import seconds_now
from lace.errors import Code, LakeError
from lace.lake.ingest import StepResult, run_step
from lace.lake.jobs import job
from lace.lake.places import filesystem
from lace.lake.tables import Lake
from lace.lake.writing import write_found
from lace.limits import LAKE
from lace.text import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_SEEN: Final = "bundles.json"
_FOR: Final = "lake.json"


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch that was committed."""

    number: int
    result: StepResult
    seconds: float

    @property
    def rows(self) -> int:
        """How many rows came, whatever became of them."""
        done = self.result
        return done.records + done.duplicates + done.repeated + done.forgotten + done.quarantined

    @property
    def rate(self) -> int:
        """How many came a second."""
        return round(self.rows / max(self.seconds, 0.001))


@dataclass(slots=True)
class LakeStream:
    """A folder that flows into a lake."""

    lake: Lake
    folder: str
    checkpoint: str
    """Where the stream remembers how far it is; never used for two streams."""
    bundles_per_batch: int = 100
    origin: str = ""
    """Where the bundles come from, if not from the folder itself."""
    on_batch: Callable[[Batch], None] = lambda _batch: None
    _query: StreamingQuery | None = field(default=None, init=False)
    _busy: Lock = field(default_factory=Lock, init=False)
    _told_to_end: Event = field(default_factory=Event, init=False)
    """Of the run that began last: a stream that was stopped may begin again."""

    def start(self, *, interval: str | None = None) -> None:
        """Begin: batch by batch for ever, or (without an interval) until all is read."""
        if getattr(self.lake.spark, "sparkContext", None) is None:
            raise LakeError(
                "a stream commits what it reads in this process, which Spark Connect cannot do",
                code=Code.LAKE_START,
                hint="Run it with Spark itself: --master local[*], or under spark-submit.",
            )
        self.check()
        self._tidy()
        with job("stream"):
            source = self.lake.spark.readStream.format("lace")
            source = source.option("log", f"{self.checkpoint}/{_SEEN}")
            source = source.option("maxFilesPerTrigger", str(self.bundles_per_batch))
            self._told_to_end = Event()
            batch = partial(self._batch, self._told_to_end)
            writer = source.load(self.folder).writeStream.foreachBatch(batch)
            writer = writer.option("checkpointLocation", f"{self.checkpoint}/spark")
            writer = (
                writer.trigger(availableNow=True)
                if interval is None
                else writer.trigger(processingTime=interval)
            )
            self._query = writer.start()

    def wait(self, seconds: int | None = None) -> bool:
        """Wait for the end, at most so long; return whether it has come."""
        assert self._query is not None
        with job("stream"):
            return bool(self._query.awaitTermination(seconds))

    def raise_if_failed(self) -> None:
        """Raise the ``LakeError`` that ended it, if one has."""
        if self._query is not None and not self._query.isActive:
            self.wait()

    def stop(self) -> None:
        """End after the batch that is under way, if there is one."""
        if self._query is not None:
            with self._busy:
                self._told_to_end.set()
            self._query.stop()

    def _batch(self, told_to_end: Event, found: DataFrame, number: int) -> None:
        with self._busy:
            if told_to_end.is_set():  # or else Spark would take the batch for done
                raise LakeError("the stream has ended", code=Code.LAKE_STREAM)
            self._commit(found, number)

    def _commit(self, found: DataFrame, number: int) -> None:
        work = f"lace-stream/{self._id()}"
        if self.lake.records_log.done(work) > number:
            return
        name = f"stream-{self._id()}"
        stage = partial(write_found, found)
        begun = seconds_now()
        result = run_step(self.lake, stage, work, number + 1, name, lambda _message: None)
        self.on_batch(Batch(number, result, seconds_now() - begun))

    def _id(self) -> str:
        """Return what Spark calls this stream, as long as its checkpoint is there."""
        system, root = filesystem(f"{self.checkpoint}/spark/metadata")
        with system.open_input_file(root) as file:
            return str(json.loads(cast("bytes", file.read()))["id"])

    def _tidy(self) -> None:
        """Remove what a process that died left of the first offsets: Spark would not go on."""
        system, root = filesystem(f"{self.checkpoint}/spark/offsets")
        found = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
        if not any(info.base_name.isdecimal() for info in found):
            for info in found:
                system.delete_file(info.path)

    def check(self) -> None:
        """Refuse a checkpoint that was made for another lake or folder."""
        if "://" not in self.checkpoint:
            self.checkpoint = str(Path(self.checkpoint).absolute())
        if "://" not in self.folder:
            self.folder = str(Path(self.folder).absolute())
        system, root = filesystem(self.checkpoint)
        system.create_dir(root, recursive=True)
        expected = {"lake": self.lake.root, "folder": self.origin or self.folder}
        if system.get_file_info(f"{root}/{_FOR}").type == fs.FileType.File:
            with system.open_input_file(f"{root}/{_FOR}") as file:
                text = cast("bytes", file.read(LAKE.checkpoint_bytes))
            try:
                found = json.loads(text)
                made_for = f"{found['folder']} into {found['lake']}"
            except (ValueError, KeyError, TypeError, RecursionError):
                made_for = "something else"
            if made_for != f"{expected['folder']} into {expected['lake']}":
                raise LakeError(
                    f"{self.checkpoint} is for {shown(made_for, 400)}", code=Code.LAKE_STREAM
                )
            return
        with system.open_output_stream(f"{root}/{_FOR}") as file:
            file.write(json.dumps(expected).encode())
