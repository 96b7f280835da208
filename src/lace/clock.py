"""The only place that reads a clock."""

from __future__ import annotations

import time

from lace import tai


def tai_now() -> tai.Tai:
    """Return the present instant, from the system's idea of Unix time."""
    return tai.from_unix_ns(time.time_ns())
