"""What is kept of links, as rows of a SQLite file: a head each, and its parts by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from lace.clock import unix_ns
from lace.limits import FIXED
from lace.recordstore.base import LinkChange
from lace.recordstore.sqlite_rows import Values, insert_by_size

_VARIABLES: Final = 500  # in one query
_SECOND: Final = 10**9
_RARELY: Final = 3600 * _SECOND
"""How often it is noted that a link was used while nothing new is kept of it."""
_AHEAD: Final = _SECOND
"""By how much the time of a use may be ahead of the clock."""
_BYTES: Final = f"min(max(bytes, 0), {1 << 40})"
"""A size that is no size is damaged; it must not stand in the way of others."""


def keep_link(connection: sqlite3.Connection, key: bytes, change: LinkChange) -> bool:
    """Bring what is kept of a link up to date; return False if it is not what was changed."""
    query = "SELECT id, head FROM link_memory WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    if row is None or row[1] != change.base:
        if change.base is not None:
            return False
        if row is not None:
            _forget_link(connection, row[0])
        made = "INSERT INTO link_memory (key, head, used, bytes) VALUES (?, ?, 0, 0)"
        row = connection.execute(made, (key, b"")).lastrowid, b""
        # An earlier version that still has the file open leaves parts behind.
        connection.execute("DELETE FROM link_part WHERE link = ?", row[:1])
    id, head = row
    names = [*change.gone.union(change.put)]
    before = len(head) + _parts_size(connection, id, names)
    after = len(change.head)
    connection.executemany(
        "DELETE FROM link_part WHERE link = ? AND name = ?",
        [(id, name) for name in change.gone],
    )

    def rows() -> Iterator[Values]:
        nonlocal after
        for name in sorted(change.put):  # each is made when it is read: all of them may be much
            data = change.put[name]
            after += len(name) + len(data)
            yield id, name, data

    rest = "ON CONFLICT (link, name) DO UPDATE SET data = excluded.data"
    insert_by_size(connection, "link_part (link, name, data)", rows(), rest)
    connection.execute(
        f"UPDATE link_memory SET head = ?, bytes = {_BYTES} + ?, used = ? WHERE id = ?",  # noqa: S608 (ours)
        (change.head, after - before, _now(connection), id),
    )
    _make_room(connection)
    return True


def drop_link(connection: sqlite3.Connection, key: bytes, head: bytes) -> None:
    """Forget what is kept of a link, if it has this head."""
    query = "SELECT id FROM link_memory WHERE key = ? AND head = ?"
    row = connection.execute(query, (key, head)).fetchone()
    if row is not None:
        _forget_link(connection, row[0])


def spoil_link(connection: sqlite3.Connection, key: bytes, head: bytes) -> None:
    """Have nobody read what is kept of a link, if it has this head; its parts are not touched."""
    query = "UPDATE link_memory SET head = x'' WHERE key = ? AND head = ?"
    connection.execute(query, (key, head))


def is_long_ago(used: int) -> bool:
    """Whether it is to be noted that a link is used now, if it was noted last at this time."""
    return not -_AHEAD <= unix_ns() - used < _RARELY


def note_used(connection: sqlite3.Connection, key: bytes) -> None:
    """Note that a link is used now."""
    used = _now(connection)
    connection.execute("UPDATE link_memory SET used = ? WHERE key = ?", (used, key))


def _now(connection: sqlite3.Connection) -> int:
    """Return the time; if the clock stood still since the last use, a little more."""
    now = unix_ns()
    query = "SELECT ifnull(max(used), 0) + 1 FROM link_memory WHERE used < ?"
    return max(now, int(connection.execute(query, (now + _AHEAD,)).fetchone()[0]))


def _parts_size(connection: sqlite3.Connection, link: int, names: Sequence[bytes]) -> int:
    """Return how many bytes those of some parts take that are there."""
    size = 0
    for start in range(0, len(names), _VARIABLES):
        part = names[start : start + _VARIABLES]
        marks = ", ".join("?" * len(part))
        query = (
            "SELECT ifnull(sum(length(name) + length(data)), 0) FROM link_part"  # noqa: S608 (ours)
            f" WHERE link = ? AND name IN ({marks})"
        )
        size += int(connection.execute(query, (link, *part)).fetchone()[0])
    return size


def _make_room(connection: sqlite3.Connection) -> None:
    """Forget the links that were not used for longest while there is too much."""
    query = f"SELECT count(*), ifnull(sum({_BYTES}), 0) FROM link_memory"  # noqa: S608 (ours)
    # A time that is to come is none: the clock went wrong, or the row is damaged.
    oldest = f"SELECT id FROM link_memory ORDER BY used < {unix_ns() + _AHEAD}, used LIMIT 1"  # noqa: S608 (ours)
    while True:
        links, size = connection.execute(query).fetchone()
        if links <= FIXED.links and size <= FIXED.link_bytes:
            return
        _forget_link(connection, connection.execute(oldest).fetchone()[0])


def _forget_link(connection: sqlite3.Connection, link: int) -> None:
    connection.execute("DELETE FROM link_part WHERE link = ?", (link,))
    connection.execute("DELETE FROM link_memory WHERE id = ?", (link,))
