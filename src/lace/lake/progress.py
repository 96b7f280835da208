"""How far the running Spark jobs are, asked now and then by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERY: Final = 0.5


@contextmanager
def watching(spark: SparkSession, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Tell, while the block runs, how many tasks are done and how many there are."""
    context = getattr(spark, "sparkContext", None)
    if context is None:  # over Spark Connect, nobody tells
        yield
        return
    stop = Event()
    tracker = context.statusTracker()

    def look() -> None:
        while not stop.wait(_EVERY):
            stages = [tracker.getStageInfo(id) for id in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                tell(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
