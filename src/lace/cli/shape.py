"""How a record looks in the output of commands: one JSON shape, short hashes, local dates."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from lace.api.handles import Lace, store_of
from lace.errors import Code, UsageError
from lace.ids import RecordHash, is_record_hash
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.tai import NS_PER_SECOND, Tai, to_unix_ns
from lace.text import shown

_SHORT: Final = 8
_SHORT_HASH: Final = re.compile(r"[BPS]\.[0-9A-Z_a-z~]{4,43}(\.H?3?)?…?")
_BATCH: Final = 10_000
_MOST_TOLD: Final = 5
OWN: Final = frozenset(
    ("Type", "Signed-By", "Signature", "Group", "App", "Name", "TAI", "Data-Length")
)
"""Fields that every record of its type has; they stand under names of their own."""


def as_entry(record: Record) -> dict[str, Any]:
    """Return a record as every command writes it in JSON."""
    extras: dict[str, list[str]] = {}
    for name, _, value in fields(record):
        if name not in OWN:
            extras.setdefault(name, []).append(value)
    return {
        "author": record.author,
        "date": None if record.time is None else iso_date(record.time),
        "fields": extras,
        "hash": record.hash,
        "place": None if record.place is None else str(record.place),
        "tai": record.time,
        "type": record.type,
    } | data_entry(record.data)


def data_entry(data: bytes) -> dict[str, str]:
    """Return data as text, or as Base64 under another name where it is none."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_b64": b64encode(data).decode()}


def local_date(instant: Tai) -> str:
    """Return the local date and time of an instant, for people."""
    moment = _moment(instant)
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")


def iso_date(instant: Tai) -> str | None:
    """Return an instant as ISO 8601 in local time with its offset; None beyond the calendar."""
    moment = _moment(instant)
    return None if moment is None else moment.isoformat(timespec="seconds")


def _moment(instant: Tai) -> datetime | None:
    try:
        return datetime.fromtimestamp(to_unix_ns(instant) // NS_PER_SECOND, UTC).astimezone()
    except (OverflowError, OSError, ValueError):
        return None  # records may have any time


def short_hashes(hashes: Iterable[str]) -> dict[str, str]:
    """Return each hash as short as it can be among these, and no shorter than eight characters."""
    ordered = sorted(set(hashes))
    found: dict[str, str] = {}
    for number, hash in enumerate(ordered):
        near = ordered[max(0, number - 1) : number] + ordered[number + 1 : number + 2]
        length = _SHORT
        while any(other[: length + 2] == hash[: length + 2] for other in near):
            length += 1
        found[hash] = hash[: length + 2]
    return found


def whole_hash(local: Lace, text: str) -> str | None:
    """Return the hash that a text means: itself, or the one here that begins like it.

    None if the text is no hash; raises ``UsageError`` if none or several begin so.
    """
    if is_record_hash(text):
        return text
    if not _SHORT_HASH.fullmatch(text):
        return None
    begin = text.removesuffix("…")
    store = store_of(local)
    found: list[RecordHash] = []
    after = StoreRecordId(0)
    while batch := store.read(after, _BATCH):
        found += [stored.hash for stored in batch if stored.hash.startswith(begin)]
        after = batch[-1].id
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"no record here begins with {shown(text)}", code=Code.ID_MALFORMED)
    names = ", ".join(short_hashes(found).values()) if len(found) <= _MOST_TOLD else "many"
    raise UsageError(
        f"{shown(text)} may mean {len(found)} records: {names}",
        code=Code.ID_MALFORMED,
        hint="Give more characters of the hash.",
    )
