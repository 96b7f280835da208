"""Records as rows of a SQLite file: the bytes, and beside them what is looked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from lace.ids import RecordHash
from lace.limits import FIXED
from lace.record.facts import data_and_target, links, numbered
from lace.record.model import Record, Versioned
from lace.record.validate import reread_intact
from lace.recordstore.sqlite_snapshot import inner_of, place_of

_ROWS: Final = 64  # in one statement
_LARGE: Final = 1 << 14  # bytes of a value that has a statement of its own

Values = tuple[Any, ...]


class Names:
    """The numbers that stand for names of fields in one file."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a name; to be called within a transaction that writes."""
        id = self._known.get(text)
        if id is None:
            self._connection.execute(
                "INSERT INTO name (text) VALUES (?) ON CONFLICT (text) DO NOTHING", (text,)
            )
            row = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
            id = self._known[text] = row[0]
        return id

    def forget(self) -> None:
        """Know none: what was numbered may have been rolled back."""
        self._known.clear()


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[Values]) -> int:
    """Insert rows, many with one statement; return how many were inserted.

    While a statement runs, other threads go on, and each statement costs a wait for them. If it
    fails, what it did stays, for whoever rolls back: SQLite need not note how to undo it.
    """
    return _insert(connection, table, rows, "")


def insert_by_size(
    connection: sqlite3.Connection, table: str, rows: Iterable[Values], rest: str
) -> int:
    """Insert rows whose last values may be large, as they come; return how many were inserted.

    A statement holds all of its rows, so a large one has a statement of its own.
    """
    small: list[Values] = []
    added = 0
    for row in rows:
        if len(row[-1]) > _LARGE:
            added += _insert(connection, table, [row], rest)
            continue
        small.append(row)
        if len(small) == _ROWS:
            added += _insert(connection, table, small, rest)
            small.clear()
    return added + _insert(connection, table, small, rest)


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Values], rest: str) -> int:
    if not rows:
        return 0
    row = f"({', '.join('?' * len(rows[0]))})"
    insert = f"INSERT OR FAIL INTO {table} VALUES"
    whole = len(rows) - len(rows) % _ROWS
    many = f"{insert} {', '.join([row] * _ROWS)} {rest}" if whole else ""
    added = 0
    for at in range(0, whole, _ROWS):
        values = tuple(chain.from_iterable(rows[at : at + _ROWS]))
        added += connection.execute(many, values).rowcount
    if whole < len(rows):
        added += connection.executemany(f"{insert} {row} {rest}", rows[whole:]).rowcount
    return added


# --- records ---


def insert_records(
    connection: sqlite3.Connection, given: Mapping[int, Record]
) -> Mapping[int, Record]:
    """Insert records under new ids; return those that were not there yet."""
    rows = ((id, r.hash, inner_of(r), r.raw) for id, r in given.items())
    table, rest = "record (id, hash, inner, raw)", "ON CONFLICT (hash) DO NOTHING"
    added = insert_by_size(connection, table, rows, rest)
    if added == len(given):
        return given
    before = min(given) - 1
    stored = connection.execute("SELECT id FROM record WHERE id > ?", (before,)).fetchall()
    new = {id: given[id] for (id,) in stored}
    connection.execute(
        "UPDATE sqlite_sequence SET seq = ? WHERE name = 'record'", (max(new, default=before),)
    )
    return new


def insert_beside(connection: sqlite3.Connection, names: Names, new: Mapping[int, Record]) -> None:
    """Insert what is looked for, beside the bytes."""
    places: list[Values] = []
    fields: list[Values] = []
    links: list[Values] = []
    for id, record in new.items():
        if isinstance(record, Versioned):
            places.append(place_of(record))
            if record.has_extras:
                for name, index, value in numbered(record.extras):
                    number = names.number(name)
                    fields.append((number, value, id, index))
                    link = data_and_target(name, value)
                    if link is not None:
                        links.append((link[1], id, number, index, link[0]))
    insert(connection, 'place ("group", app, name, tai, hash, signed_by)', places)
    insert(connection, "field (name, value, record, position)", fields)
    insert(connection, "link (target, record, name, position, data)", links)


def delete(connection: sqlite3.Connection, names: Names, hash: RecordHash) -> bool:
    """Delete a record with all that is looked for of it; return whether it was there."""
    row = connection.execute("SELECT id, raw FROM record WHERE hash = ?", (hash,)).fetchone()
    if row is None:
        return False
    id, raw = row
    record = reread_intact(raw, hash)
    if record is None:  # its bytes do not say any more where it was, and what it had
        connection.execute("DELETE FROM place WHERE hash = ?", (hash,))
        for table in ("field", "link"):
            connection.execute(f"DELETE FROM {table} WHERE record = ?", (id,))  # noqa: S608 (ours)
    elif isinstance(record, Versioned):
        connection.execute(
            'DELETE FROM place WHERE "group" = ? AND app = ? AND name = ? AND tai = ? AND hash = ?',
            (record.group, record.app, record.name, record.tai, hash),
        )
        connection.executemany(
            "DELETE FROM field WHERE name = ? AND value = ? AND record = ?",
            [(names.number(name), value, id) for name, value in record.extras],
        )
        connection.executemany(
            "DELETE FROM link WHERE target = ? AND record = ?",
            [(link.target, id) for link in links(record)],
        )
    connection.execute("DELETE FROM record WHERE id = ?", (id,))
    return True


# --- what is gone ---


def note_forgotten(connection: sqlite3.Connection, lost: list[tuple[RecordHash]]) -> None:
    """Note which records are gone, so that exchanges can follow."""
    connection.execute("UPDATE forgotten SET times = times + 1")
    connection.executemany("INSERT INTO forgotten_record SELECT times, ? FROM forgotten", lost)
    connection.execute(
        "DELETE FROM forgotten_record WHERE times <= (SELECT times"
        " FROM forgotten_record ORDER BY times DESC LIMIT 1 OFFSET ?)",
        (FIXED.forgotten,),
    )


def is_kept_out(connection: sqlite3.Connection, hash: str) -> bool:
    """Whether a record was forgotten for good."""
    query = "SELECT 1 FROM kept_out WHERE hash = ?"
    return connection.execute(query, (hash,)).fetchone() is not None
