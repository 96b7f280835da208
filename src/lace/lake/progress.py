"""How far the running Spark jobs are, asked now and then by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY: Final = 0.5

Tell = Callable[[int, int], None]
"""Takes how many tasks are done, and how many there are, as far as that is known."""


class Stages:
    """Adds up the stages of jobs: those that are not at work any more are done."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._seen: dict[int, tuple[int, int]] = {}

    def see(self, working: dict[int, tuple[int, int]]) -> None:
        """Take note of the stages at work, each with its tasks: done, and in all."""
        before = {id: (total, total) for id, (_, total) in self._seen.items() if id not in working}
        self._seen = before | working
        if working:
            done, total = (sum(column) for column in zip(*self._seen.values(), strict=True))
            self._tell(done, total)


@contextmanager
def watching(spark: SparkSession, tell: Tell) -> Iterator[None]:
    """Tell, while the block runs, how many tasks are done and how many there are."""
    stages = Stages(tell)
    context = getattr(spark, "sparkContext", None)
    if context is None:
        yield from _told_by_the_server(spark, stages)
        return
    stop = Event()
    tracker = context.statusTracker()

    def look() -> None:
        while not stop.wait(_EVERY):
            found = [tracker.getStageInfo(id) for id in tracker.getActiveStageIds()]
            stages.see({s.stageId: (s.numCompletedTasks, s.numTasks) for s in found if s})

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _told_by_the_server(spark: Any, stages: Stages) -> Iterator[None]:
    """Have a server of Spark Connect tell, which does so by itself."""

    def hear(*, stages: Any, **_others: Any) -> None:
        take({s.stage_id: (s.num_completed_tasks, s.num_tasks) for s in stages or ()})

    take = stages.see
    spark.registerProgressHandler(hear)
    try:
        yield
    finally:
        spark.removeProgressHandler(hear)
