"""Dates for people beside TAI: the same instants, in the calendar and the zone of this machine."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from typing import Final

from lace import tai
from lace.errors import Code, EncodingError, LaceError
from lace.tai import NS_PER_SECOND, Tai
from lace.text import shown

_TAI: Final = re.compile(tai.PATTERN.decode())


def moment(instant: Tai) -> datetime | None:
    """Return an instant as a date in UTC, to the microsecond; None beyond the calendar."""
    seconds, rest = divmod(tai.to_unix_ns(instant), NS_PER_SECOND)
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    except (OverflowError, OSError, ValueError):
        return None  # records may have any time


def local_date(instant: Tai) -> str:
    """Return the local date and time of an instant, for people; nothing beyond the calendar."""
    found = moment(instant)
    return "" if found is None else found.astimezone().strftime("%Y-%m-%d %H:%M")


def iso_date(instant: Tai) -> str | None:
    """Return an instant as ISO 8601 in local time with its offset; None beyond the calendar."""
    found = moment(instant)
    return None if found is None else found.astimezone().isoformat(timespec="seconds")


def read_instant(text: str, zone: tzinfo | None = None) -> Tai:
    """Return the instant of a text: TAI, or ISO 8601.

    What names no zone is of ``zone``, else local time.
    """
    if _TAI.fullmatch(text):
        return Tai(text)
    try:
        said = datetime.fromisoformat(text)
        found = (said.replace(tzinfo=zone) if said.tzinfo is None else said).astimezone()
        nanoseconds = int(found.timestamp()) * NS_PER_SECOND + found.microsecond * 1000
        return tai.from_unix_ns(nanoseconds)
    except (ValueError, OverflowError, OSError, LaceError):
        raise EncodingError(
            f"{shown(text)} is no time",
            code=Code.TAI_MALFORMED,
            hint="Write a date such as 2026-01-31 or 2026-01-31T12:00:05+01:00, or TAI, "
            "1700000000:000000000.",
        ) from None
