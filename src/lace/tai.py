"""TAI instants: fixed-width text that sorts as time, with integer nanosecond arithmetic (G4).

The count starts at 1970-01-01 00:00:00 TAI. Unix time leaves leap seconds out, so the two differ
by TAI−UTC, which is 37 s since 2017. Nothing here reads a clock.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NewType

from lace.errors import Code, EncodingError
from lace.text import shown

Tai = NewType("Tai", str)
"""Seconds and nanoseconds since 1970 without leap seconds, ``1700000000:000000000``."""

NS_PER_SECOND: Final = 1_000_000_000
_MAX_NS: Final = 10**10 * NS_PER_SECOND - 1
PATTERN: Final = rb"[0-9]{10}:[0-9]{9}"
_TEXT = re.compile(PATTERN.decode("ascii"))

# Unix seconds at which TAI−UTC took a new value; the first one is 10 s, each later one 1 s more.
# Before 1972 the difference was not a whole number of seconds; 10 s is used for all of it.
FIRST_OFFSET: Final = 10
_STEPS: Final = (
    78796800, 94694400, 126230400, 157766400, 189302400, 220924800, 252460800, 283996800,
    315532800, 362793600, 394329600, 425865600, 489024000, 567993600, 631152000, 662688000,
    709948800, 741484800, 773020800, 820454400, 867715200, 915148800, 1136073600, 1230768000,
    1341100800, 1435708800, 1483228800,
)  # fmt: skip
LEAP_STARTS: Final = tuple(s + offset for offset, s in enumerate(_STEPS, FIRST_OFFSET + 1))
"""The same, as seconds of TAI."""


def parse_tai(text: str) -> Tai:
    """Return ``text`` as an instant, or raise ``EncodingError``; any date is plausible."""
    if not _TEXT.fullmatch(text):
        raise EncodingError(f"{shown(text)} is not a TAI instant", code=Code.TAI_MALFORMED)
    return Tai(text)


def to_ns(instant: Tai) -> int:
    """Return nanoseconds since the TAI epoch."""
    return int(instant[:10]) * NS_PER_SECOND + int(instant[11:])


def from_ns(nanoseconds: int) -> Tai:
    """Return the instant that many nanoseconds after the epoch, or raise ``EncodingError``."""
    if not 0 <= nanoseconds <= _MAX_NS:
        raise EncodingError("the instant is out of range", code=Code.TAI_RANGE)
    seconds, rest = divmod(nanoseconds, NS_PER_SECOND)
    return Tai(f"{seconds:010d}:{rest:09d}")


def add_ns(instant: Tai, nanoseconds: int) -> Tai:
    """Return the instant ``nanoseconds`` later (earlier if negative), carrying into seconds."""
    return from_ns(to_ns(instant) + nanoseconds)


def difference_ns(later: Tai, earlier: Tai) -> int:
    """Return ``later − earlier`` in nanoseconds."""
    return to_ns(later) - to_ns(earlier)


def offset_at_unix(seconds: int) -> int:
    """Return TAI−UTC in force at that Unix second."""
    return FIRST_OFFSET + bisect_right(_STEPS, seconds)


def from_unix_ns(nanoseconds: int) -> Tai:
    """Return the instant for a Unix time in nanoseconds."""
    offset = offset_at_unix(nanoseconds // NS_PER_SECOND)
    return from_ns(nanoseconds + offset * NS_PER_SECOND)


def to_unix_ns(instant: Tai) -> int:
    """Return the Unix time of an instant; a leap second maps to the second after it."""
    nanoseconds = to_ns(instant)
    seconds = nanoseconds // NS_PER_SECOND
    return nanoseconds - (FIRST_OFFSET + bisect_right(LEAP_STARTS, seconds)) * NS_PER_SECOND
