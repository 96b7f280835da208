"""The only place that reads a clock."""

from __future__ import annotations

import time
from typing import Final

from lace import tai

_THREAD: Final = getattr(time, "thread_time", time.monotonic)  # WebAssembly has no time of threads


def unix_ms() -> int:
    """Return milliseconds since the Unix epoch, as file systems count them."""
    return time.time_ns() // 1_000_000


def unix_ns() -> int:
    """Return nanoseconds since the Unix epoch, as far as the clock can tell them apart."""
    return time.time_ns()


def tai_now() -> tai.Tai:
    """Return the present instant, from the system's idea of Unix time."""
    return tai.from_unix_ns(time.time_ns())


def thread_seconds() -> float:
    """Return how long this thread has computed; in a page, how long it has run."""
    return _THREAD()


def seconds_now() -> float:
    """Return seconds since some moment, that no setting of a clock changes."""
    return time.monotonic()
