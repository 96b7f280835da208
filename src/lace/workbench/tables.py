"""What one side knows of records, as rows: versions of one coordinate together, newest first.

The raw tip is the newest that a side has, by time and then by hash. It is marked as a candidate:
which version counts is for rules to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from lace.ids import RecordHash
from lace.record.facts import fields
from lace.record.model import Record
from lace.tai import Tai
from lace.urc import Coordinate, raw_tip_key

Json = dict[str, Any]
FieldValue = tuple[str, str]

_PLACE: Final = ("Group", "App", "Name")


def table_of(
    held: Iterable[tuple[Record, Json]], heard: Mapping[str, Iterable[FieldValue]],
    states: Mapping[str, Json],
) -> list[Json]:  # fmt: skip
    """Return the rows of one side: what it has, then what it has only heard of.

    ``heard`` holds the fields that the other side told of each record: a row knows no others.
    Rows that share a coordinate stand together and name it.
    """
    rows: list[Json] = []
    known: dict[str, list[FieldValue]] = {}
    for record, more in held:
        known[record.hash] = _told_by(record)
        rows.append({"hash": str(record.hash), "state": "have"} | more)
    for hash in sorted(heard):
        known[hash] = list(heard[hash])
        rows.append({"hash": hash, "told": [list(one) for one in known[hash]]} | states[hash])
    return _by_coordinate(rows, known)


@lru_cache(maxsize=4096)
def _told_by(record: Record) -> list[FieldValue]:
    """Return names and values of a record's fields; the same records are in table after table."""
    return [(name, value) for name, _, value in fields(record)]


def _by_coordinate(rows: list[Json], known: Mapping[str, list[FieldValue]]) -> list[Json]:
    """Return rows with the versions of one coordinate where the first of them stood."""
    places: dict[str, list[Json]] = {}
    for row in rows:
        place = _place(known[row["hash"]]) or row["hash"]
        places.setdefault(place, []).append(row)
    return [row for place, versions in places.items() for row in _versions(place, versions, known)]


def _versions(place: str, rows: list[Json], known: Mapping[str, list[FieldValue]]) -> list[Json]:
    """Return the versions of one place with the newest first, the raw tips marked."""
    if len(rows) == 1:
        return rows
    newest = sorted(rows, key=lambda row: _age(row["hash"], known[row["hash"]]), reverse=True)
    made = [row | {"at": place} for row in newest]
    held = [row for row in made if row["state"] == "have"]
    seen = [row for row in held if row.get("hidden") is False]
    for mark, candidates in (("tip", held), ("seen_tip", seen)):
        if candidates:
            candidates[0][mark] = True
    return made


def _place(told: list[FieldValue]) -> str | None:
    """Return the coordinate that fields name, or None where they do not name one."""
    values = {name: value for name, value in told if name in _PLACE}
    if len(values) < len(_PLACE):
        return None
    return str(Coordinate(group=values["Group"], app=values["App"], name=values["Name"]))


def _age(hash: str, told: list[FieldValue]) -> tuple[str, str]:
    """Return the place in the order of versions; one whose time is not known comes last."""
    time = next((value for name, value in told if name == "TAI"), "")
    return raw_tip_key(Tai(time), RecordHash(hash))
