"""A pipeline that goes on: bundles come in small batches, and what is behind the lake follows.

The file is the one of ``lace.lake.pipeline``, and so are the steps. Each folder is a stream of its
own; after batches were committed, projections and exports are brought up to date in this process,
while the streams go on. What was committed is never done again, whatever dies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Final

from pyarrow import fs

from lace.clock import seconds_now
from lace.errors import Code, LakeError
from lace.lake.pipeline import Done, Pipeline, behind, timed, upkeep
from lace.lake.places import filesystem
from lace.lake.stream import Batch, LakeStream
from lace.lake.tables import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPKEEP_SECONDS: Final = 3600.0
"""How often upkeep is done while a pipeline goes on."""
_LOOK_SECONDS: Final = 0.5
Timed = tuple[Done, float]
"""A step, and how long it took."""


def folders_of(pipeline: Pipeline) -> list[str]:
    """Return the folders that a pipeline reads; raise ``LakeError`` if it reads anything else."""
    found: list[str] = []
    for source in pipeline.sources:
        if source.peer is not None:
            raise _not_streamed(source.peer, "Follow a peer with lace lake stream.")
        for path in source.paths:
            system, place = filesystem(path.rstrip("/"))
            if system.get_file_info(place).type != fs.FileType.Directory:
                raise _not_streamed(path, "Name a folder that is there, or run without --stream.")
            found.append(path.rstrip("/"))
    if not found:
        raise LakeError("there is no source to stream from", code=Code.LAKE_PIPELINE)
    if len(set(found)) < len(found):
        raise LakeError("one folder is a source twice", code=Code.LAKE_PIPELINE)
    return found


def _not_streamed(what: str, hint: str) -> LakeError:
    return LakeError(f"{what} is no folder: --stream reads folders alone",
                     code=Code.LAKE_PIPELINE, hint=hint)  # fmt: skip


def flow(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    checkpoint: str,
    interval: str,
    stop: Event,
    report: Callable[[str], None] = lambda _message: None,
) -> Iterator[Timed]:
    """Yield what each step did that changed anything, until ``stop`` is set.

    At the end the batches under way are completed, and what is behind the lake follows once more.
    A stream that fails, or a step, ends all of it.
    """
    folders = folders_of(pipeline)
    lake = Lake.open(spark, pipeline.lake, create=True)
    came: SimpleQueue[Timed] = SimpleQueue()
    streams = [
        LakeStream(
            lake, folder, f"{checkpoint}/{_name(folder)}", on_batch=partial(_take, came, folder)
        )
        for folder in folders
    ]
    for stream in streams:
        stream.check()
    kept_up = seconds_now()
    try:
        for stream in streams:
            stream.start(interval=interval)
        yield from _changed(behind(lake, pipeline, report))  # what a run before may have left to do
        while not stop.wait(_LOOK_SECONDS):
            for stream in streams:
                stream.raise_if_failed()
            fresh = list(_drain(came))
            yield from fresh
            if fresh:
                yield from _changed(behind(lake, pipeline, report))
            if seconds_now() - kept_up >= UPKEEP_SECONDS:
                yield from _changed(upkeep(lake, pipeline, report))
                kept_up = seconds_now()
    finally:
        for stream in streams:
            stream.stop()
    fresh = list(_drain(came))
    yield from fresh
    if fresh:
        yield from _changed(behind(lake, pipeline, report))


def _changed(steps: Iterator[Done]) -> Iterator[Timed]:
    return (entry for entry in timed(steps) if entry[0].changed)


def _take(came: SimpleQueue[Timed], folder: str, batch: Batch) -> None:
    result = batch.result
    if not batch.rows:  # a folder in which nothing is yet
        return
    done = Done(
        step=f"source {folder}",
        changed=bool(result.records),
        read={"paths": [folder], "batch": batch.number},
        wrote={"lake": [result.version - 1, result.version], "records": result.records,
               "duplicates": result.duplicates + result.repeated},
        put_aside=result.quarantined,
    )  # fmt: skip
    came.put((done, batch.seconds))


def _drain(came: SimpleQueue[Timed]) -> Iterator[Timed]:
    while True:
        try:
            yield came.get_nowait()
        except Empty:
            return


def _name(folder: str) -> str:
    """Return the name of a folder's own checkpoint."""
    return hashlib.sha256(folder.encode()).hexdigest()[:16]
