"""Time a subject and its floor side by side. On a noisy machine only the ratio means something."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is run. Many short rounds find a quiet moment sooner than a few long ones."""

    records: int
    rounds: int
    pool_records: int
    pool_rounds: int
    bundle_records: int
    bundle_rounds: int
    starts: int
    room_records: int
    room_rounds: int
    ingest_records: int
    ingest_rounds: int
    set_records: int
    differences: tuple[int, ...]
    ids: int
    open_sizes: tuple[int, ...]
    stream_records: int
    stream_rounds: int
    sketch_rounds: int
    sketch_meetings: int
    import_records: int
    import_rounds: int
    listed_records: int
    listing_rounds: int


FULL: Final = Effort(
    records=400,
    rounds=80,
    pool_records=30_000,
    pool_rounds=5,
    bundle_records=4_000,
    bundle_rounds=15,
    starts=20,
    room_records=100_000,
    room_rounds=3,
    ingest_records=4_000,
    ingest_rounds=3,
    set_records=100_000,
    differences=(0, 10, 1_000, 10_000),
    ids=1_000_000,
    open_sizes=(1_000, 10_000, 100_000),
    stream_records=10_000,
    stream_rounds=3,
    sketch_rounds=10,
    sketch_meetings=1_000,
    import_records=20_000,
    import_rounds=3,
    listed_records=100_000,
    listing_rounds=3,
)
QUICK: Final = Effort(
    records=200,
    rounds=15,
    pool_records=8_000,
    pool_rounds=2,
    bundle_records=2_000,
    bundle_rounds=4,
    starts=6,
    room_records=10_000,
    room_rounds=2,
    ingest_records=1_000,
    ingest_rounds=2,
    set_records=10_000,
    differences=(0, 10, 100),
    ids=100_000,
    open_sizes=(1_000, 10_000),
    stream_records=2_000,
    stream_rounds=1,
    sketch_rounds=4,
    sketch_meetings=100,
    import_records=4_000,
    import_rounds=2,
    listed_records=10_000,
    listing_rounds=2,
)


def race(
    *jobs: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Return the least seconds of each job. Every round runs each job once, one after another.

    Noise only ever adds time, so the least is the nearest to the truth.
    """
    least = [math.inf] * len(jobs)
    for _ in range(rounds):
        for place, job in enumerate(jobs):
            start = clock()
            job()
            least[place] = min(least[place], clock() - start)
    return least


def judged(found: float, most: float, unit: str) -> str:
    """Return an amount beside the most that is aimed at."""
    return f"{found:,.12g} {unit} (target {most:,.12g}: {'met' if found <= most else 'not met'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``>=`` is about speed: subject over floor. ``<=`` is about time: subject over floor."""

    sign: Literal[">=", "<="]
    ratio: float

    def __str__(self) -> str:
        return f"{self.sign} {self.ratio:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of the table, and what there is to say below it."""

    name: str
    unit: str
    count: int
    seconds: float
    floor: str
    floor_seconds: float
    target: Target | None = None
    notes: tuple[str, ...] = ()
    is_amount: bool = False
    """What is called seconds is an amount, such as bytes: the less the better."""

    @property
    def rate(self) -> float:
        return self.seconds if self.is_amount else self.count / self.seconds

    @property
    def floor_rate(self) -> float:
        return self.floor_seconds if self.is_amount else self.count / self.floor_seconds

    @property
    def ratio(self) -> float:
        if self.is_amount or (self.target is not None and self.target.sign == "<="):
            return self.seconds / self.floor_seconds
        return self.floor_seconds / self.seconds

    @property
    def met(self) -> bool | None:
        """None without a target."""
        if self.target is None:
            return None
        if self.target.sign == "<=":
            return self.ratio <= self.target.ratio
        return self.ratio >= self.target.ratio
