"""Records in one SQLite file: durable, safe under several processes, whole or not at all.

Each save is one transaction in write-ahead mode, synchronised before it is acknowledged: a process
killed at any moment, or a machine that loses power, keeps what was acknowledged and nothing half.
Every failure of the file becomes a ``StoreError`` with a code; what is stored stays stored.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Final

from lace.errors import Code, Outcome, Status, StoreError
from lace.ids import RecordHash
from lace.limits import FIXED
from lace.record.facts import LINK_ENDING, link_of, numbered
from lace.record.model import Record, Versioned
from lace.record.validate import reread_intact
from lace.recordstore.base import (
    Closes,
    LinkChange,
    LinkMemory,
    Listener,
    Listeners,
    StoredRecord,
    StoreRecordId,
    refused_as_forgotten,
)
from lace.recordstore.sqlite_file import (
    MIGRATIONS,
    VERSION,
    check_rights,
    connect,
    copy_to_read,
    errors,
    identity_of,
    statements,
)
from lace.recordstore.sqlite_snapshot import SqliteSnapshot, inner_of, kept_link, place_of
from lace.tai import Tai
from lace.urc import Coordinate, Prefix

_APPLICATION: Final = 0x4C616365  # "Lace"
_VARIABLES: Final = 500  # in one query
_BACKUP_PAGES: Final = 1024  # between two looks at how far it is
_WITH_FORGETS: Final = 2  # the versions of the file that brought these
_WITH_MEMORY: Final = 4
_WITH_QUARANTINE: Final = 5
_WITH_KEPT_OUT: Final = 7


class SqliteStore(Closes):
    """A record store in one file; may be used from several threads and processes."""

    def __init__(self, path: str | Path, *, read_only: bool = False, create: bool = True) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._lock = RLock()  # of whoever writes
        self._reading = RLock()
        self._glancing = RLock()
        self._listeners = Listeners()
        self._names: dict[str, int] = {}
        self.on_quarantine: Callable[[RecordHash], None] = lambda _hash: None
        """Told of each record that was found changed; comes from whichever thread loaded it."""
        self._copy = copy_to_read(self.path)
        if self._copy is not None:
            self._read_only = True
        self._file = self.path if self._copy is None else Path(self._copy.name, self.path.name)
        """What is really opened."""
        with errors(self.path):
            mode = "ro" if self._read_only else "rwc" if create else "rw"
            self._connection = connect(self._file, mode)
            self._identity = identity_of(self._file)
            try:
                self._prepare()
                # Who reads does not wait for who writes, nor for whom that one waits. Who asks only
                # how far the store has come does not wait for who reads.
                self._reader = connect(self._file, "ro")
                self._glancer = connect(self._file, "ro")
            except BaseException:
                self._connection.close()
                raise

    # --- the contract ---

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        outcomes: list[Outcome[Record]] = []
        fresh: list[StoredRecord] = []
        with self._lock, errors(self.path), self._writing() as connection:
            new: list[tuple[int, Record]] = []
            guarded = connection.execute("SELECT 1 FROM kept_out LIMIT 1").fetchone() is not None
            for record in records:
                if guarded and _is_kept_out(connection, record.hash):
                    outcomes.append(refused_as_forgotten())
                    continue
                cursor = connection.execute(
                    "INSERT INTO record (hash, raw, inner) VALUES (?, ?, ?)"
                    " ON CONFLICT (hash) DO NOTHING",
                    (record.hash, record.raw, inner_of(record)),
                )
                if cursor.rowcount == 0:
                    outcomes.append(Outcome(Status.DUPLICATE, record))
                else:
                    id = StoreRecordId(cursor.lastrowid or 0)
                    outcomes.append(Outcome(Status.ACCEPTED, record))
                    fresh.append(StoredRecord(id, record.hash))
                    new.append((id, record))
            connection.executemany(
                "DELETE FROM quarantine WHERE hash = ?", [(record.hash,) for _, record in new]
            )
            self._insert_beside(connection, new)
        self._listeners.tell(fresh)
        return outcomes

    def load(self, hash: RecordHash) -> Record | None:
        row = self._one("SELECT raw FROM record WHERE hash = ?", (hash,))
        return None if row is None else self._intact(hash, row[0])

    def _intact(self, hash: RecordHash, raw: bytes) -> Record | None:
        """Return a record if its bytes are those that were stored; else put it aside."""
        record = reread_intact(raw, hash)
        if record is None:
            self._quarantine(hash)
        return record

    def load_all(self, hashes: Sequence[RecordHash], most_bytes: int) -> list[Record | None]:
        # Sizes first: one query for bytes must not read more of them than are wanted.
        ids: list[int | None] = []
        size = 0
        found = {
            hash: (id, length)
            for hash, id, length in self._chosen("hash, id, length(raw)", "hash", hashes)
        }
        for hash in hashes:
            id, length = found.get(hash, (None, 0))
            ids.append(id)
            size += length
            if size >= most_bytes:
                break
        raws = dict(self._chosen("id, raw", "id", [id for id in ids if id is not None]))
        return [
            None if id not in raws else self._intact(hash, raws[id])
            for hash, id in zip(hashes, ids, strict=False)
        ]

    def has(self, hash: RecordHash) -> bool:
        return self._one("SELECT 1 FROM record WHERE hash = ?", (hash,)) is not None

    def read(self, after: StoreRecordId, limit: int) -> list[StoredRecord]:
        rows = self._all(
            "SELECT id, hash FROM record WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
        )
        return [StoredRecord(StoreRecordId(id), RecordHash(hash)) for id, hash in rows]

    def high_water(self) -> StoreRecordId:
        row = self._glance("SELECT seq FROM sqlite_sequence WHERE name = 'record'")
        return StoreRecordId(row[0] if row else 0)

    def count(self) -> int:
        row = self._one("SELECT count(*) FROM record", ())
        assert row is not None
        return int(row[0])

    def versions(self, place: Coordinate, limit: int) -> list[RecordHash]:
        query = 'SELECT hash FROM place WHERE "group" = ? AND app = ? AND name = ?'
        values: list[Any] = [place.group, place.app, place.name]
        version = place.selector
        if version is not None:
            letter = {"plex": "P.*", "seal": "S.*", None: None}[version.type]
            for condition, value in (
                (" AND hash GLOB ?", letter),
                (" AND signed_by = ?", version.verifier),
                (" AND tai = ?", version.tai),
                (" AND hash = ?", version.hash),
            ):
                if value is not None:
                    query += condition
                    values.append(value)
        rows = self._all(f"{query} ORDER BY tai DESC, hash DESC LIMIT ?", (*values, limit))
        return [RecordHash(row[0]) for row in rows]

    def tips(self, place: Prefix | None) -> list[tuple[Tai, RecordHash]]:
        condition, values = ("", ()) if place is None else _under(place)
        # The hash that goes with the greatest of its group: SQLite promises that for max().
        groups = f"SELECT tai, hash, max(tai || hash) FROM place {condition}"  # noqa: S608 (ours)
        groups += ' GROUP BY "group", app, name'
        query = f"SELECT tai, hash FROM ({groups}) ORDER BY tai, hash"  # noqa: S608 (ours)
        rows = self._all(query, values)
        return [(Tai(tai), RecordHash(hash)) for tai, hash in rows]

    def snapshot(self) -> SqliteSnapshot:
        self.check_identity()
        with errors(self.path):
            return SqliteSnapshot(self._file, self._quarantine)

    def back_up(self, target: Path, listen: Callable[[int, int], None] | None = None) -> int:
        """Write the store of this moment into a new file, whoever writes meanwhile; return how
        many records it has. The file has its name once it is complete.
        """
        draft = target.with_name(f".{target.name}.part")
        draft.unlink(missing_ok=True)

        def tell(_status: int, remaining: int, total: int) -> None:
            if listen is not None:
                listen(total - remaining, total)

        try:
            # A connection of its own holds on to one moment; nobody waits for it.
            with errors(self.path), closing(connect(self._file, "ro")) as source:
                source.execute("BEGIN")
                (count,) = source.execute("SELECT count(*) FROM record").fetchone()
                # It holds what the store holds: for its owner alone, as a new store is.
                os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
                try:
                    with closing(sqlite3.connect(draft)) as copy:
                        source.backup(copy, pages=_BACKUP_PAGES, progress=tell)
                except sqlite3.OperationalError:  # a full disk, say: it is about what is written
                    with errors(target):
                        raise
                source.execute("ROLLBACK")
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            draft.replace(target)
        except OSError as error:
            message = f"cannot write {target}: {error.strerror}"
            full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
            raise StoreError(message, code=Code.STORE_FULL if full else Code.STORE_OPEN) from None
        finally:
            draft.unlink(missing_ok=True)
        return int(count)

    def forget(self, hashes: Iterable[RecordHash], *, for_good: bool = False) -> int:
        gone = 0
        wanted = list(hashes)
        with self._lock, errors(self.path):
            with self._writing() as connection:
                if for_good:
                    connection.executemany(
                        "INSERT INTO kept_out VALUES (?) ON CONFLICT DO NOTHING",
                        [(hash,) for hash in wanted],
                    )
                lost = [(hash,) for hash in wanted if self._delete(connection, hash)]
                gone = len(lost)
                if gone:
                    _note_forgotten(connection, lost)
            if gone:
                # Gives the pages back; readers that still need them keep their own view.
                # (As a script, because one execute() would give back one page.)
                self._connection.executescript("PRAGMA incremental_vacuum")
        return gone

    def kept_out(self, hashes: Collection[str]) -> set[str]:
        if self._version < _WITH_KEPT_OUT or not hashes:
            return set()
        if self._one("SELECT 1 FROM kept_out LIMIT 1", ()) is None:
            return set()
        return {hash for (hash,) in self._chosen("hash", "hash", list(hashes), "kept_out")}

    def all_kept_out(self) -> list[RecordHash]:
        if self._version < _WITH_KEPT_OUT:
            return []
        rows = self._all("SELECT hash FROM kept_out ORDER BY hash", ())
        return [RecordHash(hash) for (hash,) in rows]

    def remember(self, hashes: Iterable[RecordHash]) -> int:
        with self._lock, errors(self.path), self._writing() as connection:
            delete = "DELETE FROM kept_out WHERE hash = ?"
            back = [(hash,) for hash in hashes if connection.execute(delete, (hash,)).rowcount]
            if back:
                _note_forgotten(connection, back)
        return len(back)

    def forgets(self) -> int:
        if self._version < _WITH_FORGETS:
            return 0
        row = self._glance("SELECT times FROM forgotten")
        return 0 if row is None else int(row[0])

    def forgotten(self, after: int) -> list[RecordHash] | None:
        times = self.forgets()
        if times == after:
            return []
        rows = self._all(
            "SELECT times, hash FROM forgotten_record WHERE times > ? ORDER BY times", (after,)
        )
        found = {times for times, _ in rows}
        if len(found) != times - after:
            return None
        return [RecordHash(hash) for _, hash in rows]

    def link(self, key: bytes) -> LinkMemory | None:
        if self._version < _WITH_MEMORY:
            return None
        row = self._one("SELECT 1 FROM link_memory WHERE key = ?", (key,))
        return None if row is None else kept_link(self._file, key)

    def keep_link(self, key: bytes, change: LinkChange) -> None:
        with self._lock, errors(self.path), self._writing() as connection:
            query = "SELECT id, head FROM link_memory WHERE key = ?"
            row = connection.execute(query, (key,)).fetchone()
            if row is None or row[1] != change.base:
                connection.execute("DELETE FROM link_memory WHERE key = ?", (key,))
                if change.base is not None:
                    return
                made = "INSERT INTO link_memory (key, head, used, bytes) VALUES (?, ?, 0, 0)"
                row = connection.execute(made, (key, b"")).lastrowid, b""
            id, head = row
            names = (*change.gone, *change.put)
            before = len(head) + _parts_size(connection, id, names)
            after = len(change.head) + sum(len(n) + len(data) for n, data in change.put.items())
            connection.executemany(
                "DELETE FROM link_part WHERE link = ? AND name = ?",
                [(id, name) for name in change.gone],
            )
            connection.executemany(
                "INSERT INTO link_part (link, name, data) VALUES (?, ?, ?)"
                " ON CONFLICT (link, name) DO UPDATE SET data = excluded.data",
                [(id, name, data) for name, data in change.put.items()],
            )
            connection.execute(
                "UPDATE link_memory SET head = ?, bytes = bytes + ?,"
                " used = (SELECT max(used) + 1 FROM link_memory) WHERE id = ?",
                (change.head, after - before, id),
            )
            _make_room(connection)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    def close(self) -> None:
        with self._reading:
            self._reader.close()
        with self._glancing:
            self._glancer.close()
        with self._lock:  # the one who may write goes last, and leaves one file behind
            self._listeners.clear()
            self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    # --- beyond the contract ---

    @property
    def schema(self) -> int:
        """The version of the schema that the file has."""
        return int(self._version)

    @property
    def log_bytes(self) -> int:
        """The size of the log beside the file: what was written and is not yet in its place."""
        try:
            return self.path.with_name(f"{self.path.name}-wal").stat().st_size
        except OSError:
            return 0

    def checkpoint(self) -> bool:
        """Bring what is in the log into the file, and empty it; return whether that was possible.

        It waits for nobody: while others read what was there before, it is for another time.
        """
        with errors(self.path), closing(connect(self.path, "rw")) as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        return not busy

    def check(self, listen: Callable[[int], None] | None = None) -> Iterator[str]:
        """Yield what is wrong with the file: its pages, its records, or the facts beside them.

        ``listen`` is told how many records were looked at.
        """
        with errors(self.path):
            for (line,) in self._all("PRAGMA integrity_check", ()):
                if line != "ok":
                    yield f"file: {line}"
            for table, *_ in self._all("PRAGMA foreign_key_check", ()):
                yield f"file: a row of {table} belongs to nothing"
            for hash in self.quarantined():
                yield f"record {hash}: in quarantine, because its bytes have changed"
            with self.snapshot() as snapshot:
                yield from snapshot.faults(listen)

    def taken(self) -> list[tuple[str, int, int, int]]:
        """Return what was taken from whom: a name, the day (-1: before), bytes and records."""
        return self._all("SELECT who, day, bytes, records FROM taken", ())

    def note_taken(self, who: str, day: int, bytes: int, records: int) -> None:
        """Add to what was taken from somebody on a day; what is older becomes one sum."""
        with self._lock, errors(self.path), self._writing() as connection:
            older = (
                "SELECT who, -1, bytes, records FROM taken WHERE who = ? AND day BETWEEN 0 AND ?"
            )
            add = (
                "ON CONFLICT (who, day) DO UPDATE SET"
                " bytes = bytes + excluded.bytes, records = records + excluded.records"
            )
            connection.execute(f"INSERT INTO taken {older} {add}", (who, day - 1))
            connection.execute(
                "DELETE FROM taken WHERE who = ? AND day BETWEEN 0 AND ?", (who, day - 1)
            )
            connection.execute(
                f"INSERT INTO taken VALUES (?, ?, ?, ?) {add}",  # noqa: S608 (ours)
                (who, day, bytes, records),
            )

    def quarantined(self) -> list[RecordHash]:
        """Return the records that were found changed, and are given to nobody."""
        if self._version < _WITH_QUARANTINE:
            return []
        rows = self._all("SELECT hash FROM quarantine ORDER BY hash", ())
        return [RecordHash(hash) for (hash,) in rows]

    # --- writing ---

    def _prepare(self) -> None:
        connection = self._connection
        connection.execute("BEGIN")  # one look, whatever other processes do meanwhile
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("COMMIT")
        if self._read_only and not tables:
            raise StoreError(f"{self.path} is not a record store", code=Code.STORE_CORRUPT)
        if tables and application != _APPLICATION:
            raise StoreError(f"{self.path} is another program's database", code=Code.STORE_CORRUPT)
        if version > VERSION:
            raise StoreError(
                f"{self.path} has schema {version}, this engine knows {VERSION}",
                code=Code.STORE_NEWER,
            )
        self._version = version  # of a file that is only read: it may be an earlier one
        if version < VERSION and not self._read_only:
            self._migrate()
            self._version = VERSION

    def _migrate(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        with self._writing():
            # Another process may have been quicker; it is asked again with the lock in hand.
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for script in MIGRATIONS[version:]:
                for statement in statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        if self._read_only:
            check_rights(self.path)  # says what is missing, if that is why
            raise StoreError(f"{self.path} was opened for reading", code=Code.STORE_READ_ONLY)
        self.check_identity()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self._names.clear()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def check_identity(self) -> None:
        """Raise if the file of this name is not the one that was opened: it would keep nothing."""
        if identity_of(self._file) != self._identity:
            raise StoreError(
                f"{self.path} was removed or replaced while it was open", code=Code.STORE_REPLACED
            )

    def _insert_beside(self, connection: sqlite3.Connection, new: list[tuple[int, Record]]) -> None:
        """Insert what is looked for, beside the bytes."""
        placed = [(id, record) for id, record in new if isinstance(record, Versioned)]
        connection.executemany(
            'INSERT INTO place ("group", app, name, tai, hash, signed_by)'
            " VALUES (?, ?, ?, ?, ?, ?)",
            [place_of(record) for _, record in placed],
        )
        fields: list[tuple[int, int, int, str]] = []
        links: list[tuple[int, int, int, str, str]] = []
        for id, record in placed:
            if record.has_extras:
                for name, index, value in numbered(record.extras):
                    fields.append((id, self._name(name), index, value))
                    link = link_of(name, index, value) if name.endswith(LINK_ENDING) else None
                    if link is not None:
                        links.append((id, self._name(name), index, link.data, link.target))
        connection.executemany(
            "INSERT INTO field (record, name, position, value) VALUES (?, ?, ?, ?)", fields
        )
        connection.executemany(
            "INSERT INTO link (record, name, position, data, target) VALUES (?, ?, ?, ?, ?)", links
        )

    def _delete(self, connection: sqlite3.Connection, hash: RecordHash) -> int:
        row = connection.execute("SELECT id, raw FROM record WHERE hash = ?", (hash,)).fetchone()
        if row is None:
            return 0
        id, raw = row
        record = reread_intact(raw, hash)
        if record is None:  # its bytes do not say any more where it was
            connection.execute("DELETE FROM place WHERE hash = ?", (hash,))
        elif isinstance(record, Versioned):
            connection.execute(
                'DELETE FROM place WHERE "group" = ? AND app = ? AND name = ? AND tai = ?'
                " AND hash = ?",
                (record.group, record.app, record.name, record.tai, hash),
            )
        for table in ("field", "link"):
            connection.execute(f"DELETE FROM {table} WHERE record = ?", (id,))  # noqa: S608 (ours)
        connection.execute("DELETE FROM record WHERE id = ?", (id,))
        return 1

    def _quarantine(self, hash: RecordHash) -> None:
        """Put a record aside that is not what was stored; for everybody else it is forgotten.

        Where the file cannot be written the record stays, and is given to nobody all the same.
        """
        with suppress(StoreError), self._lock, errors(self.path), self._writing() as connection:
            found = connection.execute("SELECT raw FROM record WHERE hash = ?", (hash,)).fetchone()
            if found is None or reread_intact(found[0], hash) is not None:
                return  # somebody else was quicker
            connection.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (hash, found[0]))
            self._delete(connection, hash)
            _note_forgotten(connection, [(hash,)])
        self.on_quarantine(hash)

    def _name(self, text: str) -> int:
        id = self._names.get(text)
        if id is None:
            self._connection.execute(
                "INSERT INTO name (text) VALUES (?) ON CONFLICT (text) DO NOTHING", (text,)
            )
            row = self._connection.execute("SELECT id FROM name WHERE text = ?", (text,)).fetchone()
            id = self._names[text] = row[0]
        return id

    # --- reading ---

    def _one(self, query: str, values: tuple[Any, ...]) -> Any:
        with self._reading, errors(self.path):
            return self._reader.execute(query, values).fetchone()

    def _glance(self, query: str) -> Any:
        """Return one row at once, whoever reads or writes meanwhile."""
        with self._glancing, errors(self.path):
            return self._glancer.execute(query).fetchone()

    def _chosen(
        self, columns: str, key: str, values: Sequence[Any], table: str = "record"
    ) -> Iterator[Any]:
        """Yield columns of the rows that have one of these values, in any order."""
        for start in range(0, len(values), _VARIABLES):
            part = values[start : start + _VARIABLES]
            marks = ", ".join("?" * len(part))
            query = f"SELECT {columns} FROM {table} WHERE {key} IN ({marks})"  # noqa: S608 (ours)
            yield from self._all(query, tuple(part))

    def _all(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._reading, errors(self.path):
            return self._reader.execute(query, values).fetchall()


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


def _is_kept_out(connection: sqlite3.Connection, hash: str) -> bool:
    query = "SELECT 1 FROM kept_out WHERE hash = ?"
    return connection.execute(query, (hash,)).fetchone() is not None


def _note_forgotten(connection: sqlite3.Connection, lost: list[tuple[RecordHash]]) -> None:
    """Note which records are gone, so that exchanges can follow."""
    connection.execute("UPDATE forgotten SET times = times + 1")
    connection.executemany("INSERT INTO forgotten_record SELECT times, ? FROM forgotten", lost)
    connection.execute(
        "DELETE FROM forgotten_record WHERE times <= (SELECT times"
        " FROM forgotten_record ORDER BY times DESC LIMIT 1 OFFSET ?)",
        (FIXED.forgotten,),
    )


def _make_room(connection: sqlite3.Connection) -> None:
    """Forget the links that were not used for longest while there is too much."""
    query = "SELECT count(*), ifnull(sum(bytes), 0) FROM link_memory"
    while True:
        links, size = connection.execute(query).fetchone()
        if links <= FIXED.links and size <= FIXED.link_bytes:
            return
        connection.execute(
            "DELETE FROM link_memory WHERE id = (SELECT id FROM link_memory ORDER BY used LIMIT 1)"
        )


def _under(place: Prefix) -> tuple[str, tuple[str, ...]]:
    """Return the condition for places under a prefix, and its values (A38)."""
    if place.name:
        end = place.name[:-1] + chr(ord("/") + 1)
        return (
            'WHERE "group" = ? AND app = ? AND name >= ? AND name < ?',
            (place.group, place.app, place.name, end),
        )
    begin = f"{place.app}/"
    return (
        'WHERE "group" = ? AND (app = ? OR (app >= ? AND app < ?))',
        (place.group, place.app, begin, f"{place.app}{chr(ord('/') + 1)}"),
    )
