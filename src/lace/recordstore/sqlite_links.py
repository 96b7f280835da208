"""What is kept of links, as rows of a SQLite file: a head each, and its parts by name."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Final

from lace.limits import FIXED
from lace.recordstore.base import LinkChange
from lace.recordstore.sqlite_rows import Values, insert_by_size

_VARIABLES: Final = 500  # in one query


def keep_link(connection: sqlite3.Connection, key: bytes, change: LinkChange) -> None:
    """Bring what is kept of a link up to date, or let go of it if it is not what was changed."""
    query = "SELECT id, head FROM link_memory WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    if row is None or row[1] != change.base:
        if row is not None:
            _forget_link(connection, row[0])
        if change.base is not None:
            return
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
        "UPDATE link_memory SET head = ?, bytes = bytes + ?,"
        " used = (SELECT max(used) + 1 FROM link_memory) WHERE id = ?",
        (change.head, after - before, id),
    )
    _make_room(connection)


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
    query = "SELECT count(*), ifnull(sum(bytes), 0) FROM link_memory"
    while True:
        links, size = connection.execute(query).fetchone()
        if links <= FIXED.links and size <= FIXED.link_bytes:
            return
        oldest = "SELECT id FROM link_memory ORDER BY used LIMIT 1"
        _forget_link(connection, connection.execute(oldest).fetchone()[0])


def _forget_link(connection: sqlite3.Connection, link: int) -> None:
    connection.execute("DELETE FROM link_part WHERE link = ?", (link,))
    connection.execute("DELETE FROM link_memory WHERE id = ?", (link,))
