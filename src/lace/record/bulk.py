"""Validate many records on all cores: in order, in bounded memory, losing none.

Batches of bytes go out and one short verdict a record comes back. The parent keeps the bytes, and
re-reads the headers of an accepted record without hashing it again, so that little travels.

A worker that dies (killed, out of memory, a fault in a native library) takes its pool with it. The
batches that were under way are then tried again one at a time. A batch that kills its worker again
is halved until the one record that does it is found: that record is rejected as a worker crash, all
others get their verdict.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import accumulate
from multiprocessing import get_context
from typing import Final

from lace.errors import Code, Outcome, Status
from lace.limits import DEFAULT_LIMITS, MIB, Limits
from lace.record.model import Record
from lace.record.validate import checked_bytes, reread, validate_records

_BATCH_RECORDS: Final = 256
_BATCH_BYTES: Final = 4 * MIB
_BATCHES_PER_WORKER: Final = 2  # under way at once: one at work, one waiting

Batch = list[bytes]
Verdict = tuple[Code, str] | None
"""Why a record was rejected; None for a valid one."""


def validate_frames(
    raws: Iterable[bytes],
    *,
    workers: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_crash: Callable[[int], None] | None = None,
) -> Iterator[Outcome[Record]]:
    """Yield an outcome for each of ``raws``, in order, validated by ``workers`` processes.

    ``workers`` is by default the number of cores; 1 validates in this process. ``on_crash`` is told
    each time a worker dies, with the number of records that have to be tried again.
    """
    count = workers or os.cpu_count() or 1
    batches = _batches(raws)
    if count == 1:
        for batch in batches:
            yield from validate_records(batch, limits)
        return
    crew = _Crew(count, limits, on_crash)
    try:
        yield from crew.validate(batches)
    finally:
        crew.close()


def judge(joined: bytes, lengths: list[int], limits: Limits) -> list[Verdict]:
    """What a worker does: one verdict a record."""
    ends = accumulate(lengths)
    raws = (joined[end - length : end] for length, end in zip(lengths, ends, strict=True))
    return [
        (outcome.code, outcome.detail) if outcome.code is not None else None
        for outcome in validate_records(raws, limits)
    ]


class _Crew:
    """A pool of workers that is replaced when one of them dies."""

    def __init__(
        self, workers: int, limits: Limits, on_crash: Callable[[int], None] | None
    ) -> None:
        self._workers = workers
        self._limits = limits
        self._on_crash = on_crash
        self._pool: ProcessPoolExecutor | None = None

    def validate(self, batches: Iterator[Batch]) -> Iterator[Outcome[Record]]:
        under_way: deque[tuple[Batch, Future[list[Verdict]]]] = deque()
        for batch in batches:
            under_way.append((batch, self._submit(batch, self._workers)))
            if len(under_way) >= self._workers * _BATCHES_PER_WORKER:
                yield from self._collect(under_way)
        while under_way:
            yield from self._collect(under_way)

    def _collect(
        self, under_way: deque[tuple[Batch, Future[list[Verdict]]]]
    ) -> Iterator[Outcome[Record]]:
        batch, future = under_way[0]
        try:
            verdicts = future.result()
        except BrokenProcessPool:
            retry = [batch for batch, _ in under_way]
            under_way.clear()
            self._lost(sum(map(len, retry)))
            for batch in retry:
                yield from _outcomes(batch, self._judge_alone(batch))
            self.close()  # the pool for retries has one worker; the next submit makes a full one
        else:
            under_way.popleft()
            yield from _outcomes(batch, verdicts)

    def _judge_alone(self, batch: Batch) -> list[Verdict]:
        """Return the verdicts of a batch that may be the one that kills workers."""
        try:
            return self._submit(batch, 1).result()
        except BrokenProcessPool:
            self._lost(len(batch))
        if len(batch) == 1:
            return [(Code.RECORD_WORKER_CRASH, Code.RECORD_WORKER_CRASH.meaning)]
        middle = len(batch) // 2
        return self._judge_alone(batch[:middle]) + self._judge_alone(batch[middle:])

    def _submit(self, batch: Batch, workers: int) -> Future[list[Verdict]]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context(_start_method()))
        try:
            # One long string of bytes travels faster than many short ones.
            return self._pool.submit(judge, b"".join(batch), [*map(len, batch)], self._limits)
        except BrokenProcessPool as error:  # died between two batches
            failed: Future[list[Verdict]] = Future()
            failed.set_exception(error)
            return failed

    def _lost(self, records: int) -> None:
        self.close()
        if self._on_crash is not None:
            self._on_crash(records)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _outcomes(batch: Batch, verdicts: list[Verdict]) -> Iterator[Outcome[Record]]:
    for raw, verdict in zip(batch, verdicts, strict=True):
        if verdict is None:
            yield Outcome(Status.ACCEPTED, reread(raw))
        else:
            yield Outcome(Status.REJECTED, None, *verdict)


def _batches(raws: Iterable[bytes]) -> Iterator[Batch]:
    batch: Batch = []
    size = 0
    for raw in raws:
        batch.append(checked_bytes(raw))
        size += len(raw)
        if len(batch) >= _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _start_method() -> str:
    """Fork where it is safe: it needs no ``if __name__ == "__main__"`` in the caller's script."""
    if sys.platform == "linux" and threading.active_count() == 1:
        return "fork"
    return "spawn"
