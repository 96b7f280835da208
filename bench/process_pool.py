"""Two worker processes against one process, over the same sealed records."""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from multiprocessing import Process
from typing import Final

from lace.record.bulk import validate_frames
from lace.record.validate import validate_record
from measure import Effort, Result, Target, race
from records import make_seals, raw_of

_WORKERS: Final = 2
_DISTINCT: Final = 2_000  # far more than one batch, so that no batch holds a record twice


def run(effort: Effort) -> list[Result]:
    distinct = raw_of(make_seals(_DISTINCT))
    raws = list(islice(cycle(distinct), effort.pool_records))

    def validate(workers: int) -> None:
        if not all(outcome.ok for outcome in validate_frames(raws, workers=workers)):
            raise RuntimeError("a valid record was refused")

    def share_nothing() -> None:
        processes = [Process(target=_validate, args=(raws[n::_WORKERS],)) for n in range(_WORKERS)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()

    # Only the wall clock sees work that is done in other processes.
    seconds, floor_seconds, apart_seconds = race(
        lambda: validate(_WORKERS),
        lambda: validate(1),
        share_nothing,
        rounds=effort.pool_rounds,
        clock=time.perf_counter,
    )
    cpu_seconds, floor_cpu_seconds = race(
        lambda: validate(_WORKERS), lambda: validate(1), rounds=2, clock=_cpu_clock
    )
    return [
        Result(
            name=f"process pool: {_WORKERS} workers",
            unit="records/s",
            count=len(raws),
            seconds=seconds,
            floor="one process",
            floor_seconds=floor_seconds,
            target=Target(sign=">=", ratio=1.7),
            notes=(
                f"{len(raws)} sealed records, {os.cpu_count()} CPUs, wall clock",
                f"{_WORKERS} processes that send nothing: {floor_seconds / apart_seconds:.2f}",
                f"best possible by CPU time: {_WORKERS * floor_cpu_seconds / cpu_seconds:.2f}",
            ),
        )
    ]


def _cpu_clock() -> float:
    """Return the CPU time of this process and of those it has waited for."""
    return sum(os.times()[:4])


def _validate(raws: list[bytes]) -> None:
    for raw in raws:
        validate_record(raw)
