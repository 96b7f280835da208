"""Records in one SQLite file: durable, safe under several processes, whole or not at all.

Each save is one transaction in write-ahead mode, synchronised before it is acknowledged: a process
killed at any moment, or a machine that loses power, keeps what was acknowledged and nothing half.
Every failure of the file becomes a ``StoreError`` with a code; what is stored stays stored.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any, Final

from lace.drafts import DraftFile, exists_already
from lace.errors import Code, Outcome, Status, StoreError
from lace.ids import RecordHash
from lace.record.model import Record
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
    BESIDE,
    MIGRATIONS,
    VERSION,
    check_rights,
    connect,
    copy_pages,
    copy_to_read,
    errors,
    identity_of,
    is_full,
    statements,
)
from lace.recordstore.sqlite_links import (
    drop_link,
    is_long_ago,
    keep_link,
    note_used,
    spoil_link,
)
from lace.recordstore.sqlite_reserve import Reserve
from lace.recordstore.sqlite_rows import (
    Names,
    delete,
    insert_beside,
    insert_records,
    is_kept_out,
    note_forgotten,
)
from lace.recordstore.sqlite_snapshot import (
    STANDING,
    STANDING_BEFORE_FORGETS,
    SqliteSnapshot,
    hide,
    kept_link,
)
from lace.tai import Tai
from lace.urc import Coordinate, Prefix

_APPLICATION: Final = 0x4C616365  # "Lace"
_VARIABLES: Final = 500  # in one query
_FEW_PAGES: Final = 32  # that are given back at once where there is little room
_WITH_FORGETS: Final = 2  # the versions of the file that brought these
_WITH_MEMORY: Final = 4
_WITH_QUARANTINE: Final = 5
_WITH_KEPT_OUT: Final = 7
#: What SQLite says of pages that cannot be read; they cannot be freed either.
_UNREADABLE: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR))
_HIGH_WATER: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'record'"
_PARTS_OF_NO_LINK: Final = (
    "SELECT 1 FROM link_part WHERE link NOT IN (SELECT id FROM link_memory) LIMIT 1"
)


class SqliteStore(Closes):
    """A record store in one file; may be used from several threads and processes."""

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        create: bool = True,
        reserve: Reserve | None = None,
    ) -> None:
        self.path = Path(path)
        self._reserve = Reserve(self.path) if reserve is None else reserve
        self._read_only = read_only
        self._lock = RLock()  # of whoever writes
        self._reading = RLock()
        self._glancing = RLock()
        self._listeners = Listeners()
        self._hidden: dict[int, RecordHash] = {}
        """Records that were found changed, and could not be put aside, by id."""
        self._dropped: dict[bytes, bytes] = {}
        """The heads of links that are damaged, and could not be let go of."""
        self.on_quarantine: Callable[[RecordHash], None] = lambda _hash: None
        """Told of each record that was found changed; comes from whichever thread loaded it."""
        self._copy = copy_to_read(self.path)
        if self._copy is not None:
            self._read_only = True
        self._file = self.path if self._copy is None else Path(self._copy.name, self.path.name)
        """What is really opened."""
        mode = "ro" if self._read_only else "rwc" if create else "rw"
        with errors(self.path):
            try:
                self._open(mode)
            except sqlite3.Error as error:
                # Even to be opened, a store needs some room: what was reserved is for this too.
                if self._read_only or not is_full(error) or not self._reserve.give_up():
                    raise
                self._open(mode)

    def _open(self, mode: str) -> None:
        self._connection = connect(self._file, mode)
        self._names = Names(self._connection)
        self._identity = identity_of(self._file)
        try:
            self._prepare()
            # A reader waits neither for a writer nor for what the writer waits for. A question
            # about the newest position does not wait for a reader.
            self._reader = connect(self._file, "ro")
            self._glancer = connect(self._file, "ro")
        except BaseException:
            self._connection.close()
            raise

    # --- the contract ---

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        given = list(records)
        outcomes: list[Outcome[Record]] = []
        for hash in {r.hash for r in given}.intersection(self._hidden.values()):
            self._put_aside(hash)  # else what is hidden would stand in the way
        with self._lock, errors(self.path), self._writing() as connection:
            guarded = connection.execute("SELECT 1 FROM kept_out LIMIT 1").fetchone() is not None
            refused = {r.hash for r in given if is_kept_out(connection, r.hash)} if guarded else ()
            row = connection.execute(_HIGH_WATER).fetchone()
            first = 1 + (row[0] if row else 0)
            wanted = [record for record in given if record.hash not in refused]
            new = insert_records(connection, dict(enumerate(wanted, first)))
            if connection.execute("SELECT 1 FROM quarantine LIMIT 1").fetchone() is not None:
                connection.executemany(
                    "DELETE FROM quarantine WHERE hash = ?", [(r.hash,) for r in new.values()]
                )
            insert_beside(connection, self._names, new)
        ids = count(first)
        for record in given:
            if record.hash in refused:
                outcomes.append(refused_as_forgotten())
            else:
                status = Status.ACCEPTED if next(ids) in new else Status.DUPLICATE
                outcomes.append(Outcome(status, record))
        if self._listeners:
            self._listeners.tell([StoredRecord(StoreRecordId(i), r.hash) for i, r in new.items()])
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
        row = self._glance(_HIGH_WATER)
        return StoreRecordId(row[0] if row else 0)

    def stored_under(self, ids: Sequence[int]) -> dict[int, RecordHash]:
        return {id: RecordHash(hash) for id, hash in self._chosen("id, hash", "id", ids)}

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
            return SqliteSnapshot(self._file, self._quarantine, self._standing, [*self._hidden])

    def back_up(
        self,
        target: Path,
        listen: Callable[[int, int], None] | None = None,
        *,
        overwrite: bool = True,
    ) -> int:
        """Write the store of this moment into a new file, whoever writes meanwhile; return how
        many records it has. The file has its name once it is complete.
        """
        if identity_of(target) == self._identity:
            raise StoreError(f"{target} is the store itself", code=Code.STORE_OPEN)
        if target.exists() and not target.is_file():
            raise StoreError(f"{target} is no file", code=Code.STORE_OPEN)
        # SQLite would take what lies beside a store of this name for a part of the new one.
        beside = [target.with_name(target.name + name) for name in BESIDE]
        for path in beside:
            if not overwrite and path.exists():
                raise exists_already(path)

        def tell(_status: int, remaining: int, total: int) -> None:
            if listen is not None:
                listen(total - remaining, total)

        try:
            # It holds what the store holds: for its owner alone, as a new store is.
            with DraftFile(target, overwrite=overwrite, mode=0o600) as draft:
                assert draft.path is not None
                # A connection of its own holds on to one moment; nobody waits for it.
                with errors(self.path), closing(connect(self._file, "ro")) as source:
                    source.execute("BEGIN")
                    (count,) = source.execute("SELECT count(*) FROM record").fetchone()
                    try:
                        copied = copy_pages(source, draft.path, tell)
                    except sqlite3.OperationalError:  # a full disk, say: it is about the target
                        with errors(target):
                            raise
                    source.execute("ROLLBACK")
                if os.fstat(draft.file.fileno()).st_size != copied:
                    draft.check()
                    raise StoreError(f"{target} was not written whole", code=Code.STORE_FAILED)
                if overwrite:
                    for path in beside:
                        path.unlink(missing_ok=True)
        except FileExistsError:
            raise exists_already(target) from None
        except OSError as error:
            message = f"cannot write {target}: {error.strerror}"
            full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
            raise StoreError(message, code=Code.STORE_FULL if full else Code.STORE_OPEN) from None
        return int(count)

    def forget(self, hashes: Iterable[RecordHash], *, for_good: bool = False) -> int:
        wanted = list(hashes)
        with self._lock, errors(self.path):
            if self._reserve.is_needed():
                return self._forget_in_little_room(wanted, for_good)
            try:
                gone = self._forget(wanted, for_good)
            except sqlite3.Error as error:  # there may be less room than the disk says
                if not is_full(error):
                    raise
                return self._forget_in_little_room(wanted, for_good)
            if gone:
                # Gives the pages back; readers that still need them keep their own view.
                # (As a script, because one execute() would give back one page.)
                self._connection.executescript("PRAGMA incremental_vacuum")
        return gone

    def _forget_in_little_room(self, hashes: list[RecordHash], for_good: bool) -> int:
        """Forget few records at a time, and give their room back before the next ones."""
        gone, together = 0, max(len(hashes), 1)
        with self._sparing():
            while hashes:
                try:
                    gone += self._forget(hashes[:together], for_good)
                except sqlite3.Error as error:
                    if not is_full(error) or (not self._reserve.give_up() and together == 1):
                        raise
                    together = 1
                else:
                    hashes, together = hashes[together:], together * 2
                self._give_back()
        if gone:
            self._reserve.keep()
        return gone

    @contextmanager
    def _sparing(self) -> Iterator[None]:
        """Use as little room as can be: free pages are cut off and not written first, and the log
        goes into the file only where there is room for all of it.
        """
        names, connection = ("secure_delete", "wal_autocheckpoint"), self._connection
        before = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
        connection.execute("PRAGMA secure_delete = FAST")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        try:
            yield
        finally:
            for name, value in zip(names, before, strict=True):
                connection.execute(f"PRAGMA {name} = {value}")

    def _give_back(self) -> None:
        """Give free pages back to the disk, few at a time, and the log with them.

        Where the file has no room for what the log has, to try it would use up what room there is.
        """
        left = None
        while self._is_room_for_log():
            with suppress(StoreError):  # others read; or there was no room after all
                self.checkpoint()
            (free,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if free in {0, left}:
                return
            left = free
            try:
                self._connection.executescript(f"PRAGMA incremental_vacuum({_FEW_PAGES})")
            except sqlite3.Error as error:
                if not is_full(error):
                    raise

    def _forget(self, hashes: list[RecordHash], for_good: bool) -> int:
        with self._writing(adds=False) as connection:
            if for_good:
                connection.executemany(
                    "INSERT INTO kept_out VALUES (?) ON CONFLICT DO NOTHING",
                    [(hash,) for hash in hashes],
                )
            lost = [(hash,) for hash in hashes if delete(connection, self._names, hash)]
            if lost:
                note_forgotten(connection, lost)
        return len(lost)

    def kept_out(self, hashes: Collection[str]) -> set[str]:
        # Where nothing can be stored, nobody is asked for what is hidden either.
        out: set[str] = set(self._hidden.values()) if self._read_only else set()
        out.intersection_update(hashes)
        if self._version < _WITH_KEPT_OUT or not hashes:
            return out
        if self._one("SELECT 1 FROM kept_out LIMIT 1", ()) is None:
            return out
        found = self._chosen("hash", "hash", list(hashes), "kept_out")
        return out.union(hash for (hash,) in found)

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
                note_forgotten(connection, back)
        return len(back)

    def forgets(self) -> int:
        return self.standing()[1]

    def standing(self) -> tuple[StoreRecordId, int]:
        high_water, forgets = self._glance(self._standing)
        return StoreRecordId(high_water or 0), (forgets or 0) + len(self._hidden)

    def _is_room_for_log(self) -> bool:
        """Whether the file can grow to what it is with its log."""
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (size,) = self._connection.execute("PRAGMA page_size").fetchone()
        try:
            disk = shutil.disk_usage(self._file.parent)
            return int(pages * size) - self._file.stat().st_size <= disk.free
        except OSError:
            return False

    @property
    def _standing(self) -> str:
        """The query for ``standing``, of what the file has."""
        return STANDING if self._version >= _WITH_FORGETS else STANDING_BEFORE_FORGETS

    def forgotten(self, after: int) -> list[RecordHash] | None:
        times = self.forgets()
        if times == after:
            return []
        if self._hidden:
            return None  # what is hidden has no place among what the file says
        rows = self._all(
            "SELECT times, hash FROM forgotten_record WHERE times > ? ORDER BY times", (after,)
        )
        found = {times for times, _ in rows}
        if len(found) != times - after:
            return None
        return [RecordHash(hash) for _, hash in rows]

    def forgotten_then(self, times: int) -> RecordHash | None:
        query = "SELECT hash FROM forgotten_record WHERE times = ? ORDER BY hash LIMIT 1"
        row = None if self._version < _WITH_MEMORY else self._one(query, (times,))
        return None if row is None else RecordHash(row[0])

    def link(self, key: bytes) -> LinkMemory | None:
        if self._version < _WITH_MEMORY:
            return None
        row = self._one("SELECT used FROM link_memory WHERE key = ?", (key,))
        if row is None:
            return None
        if is_long_ago(row[0]):
            self._note_used(key)
        kept = kept_link(self._file, key)
        if kept is not None and kept.head == self._dropped.get(key):
            kept.close()
            return None
        if kept is not None:
            kept.lasts = self._read_only
        return kept

    def keep_link(self, key: bytes, change: LinkChange) -> bool:
        with self._lock, errors(self.path), self._writing() as connection:
            return keep_link(connection, key, change)

    def drop_link(self, key: bytes, head: bytes) -> None:
        self._dropped[key] = head
        with self._lock, errors(self.path):
            try:
                with self._writing() as connection:
                    drop_link(connection, key, head)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNREADABLE:
                    raise
                with self._writing() as connection:
                    spoil_link(connection, key, head)
            self._dropped.pop(key, None)

    def _note_used(self, key: bytes) -> None:
        """Note that a link is used, unless that would mean to wait for whoever writes."""
        if self._read_only or not self._lock.acquire(blocking=False):
            return
        try:
            with (
                suppress(StoreError),
                errors(self.path),
                self._not_waiting(),
                self._writing() as connection,
            ):
                note_used(connection, key)
        finally:
            self._lock.release()

    @contextmanager
    def _not_waiting(self) -> Iterator[None]:
        """Give up at once where another process writes."""
        before = self._connection.execute("PRAGMA busy_timeout").fetchone()[0]
        self._connection.execute("PRAGMA busy_timeout = 0")
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {before}")

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
            if self._version >= _WITH_MEMORY and self._one(_PARTS_OF_NO_LINK, ()) is not None:
                yield "file: a row of link_part belongs to nothing"
            for hash in self.quarantined():
                yield f"record {hash}: in quarantine, because its bytes have changed"
            with self.snapshot() as snapshot:
                yield from snapshot.faults(listen)

    def links(self) -> list[bytes]:
        """Return the links of which anything is kept."""
        if self._version < _WITH_MEMORY:
            return []
        return [bytes(key) for (key,) in self._all("SELECT key FROM link_memory ORDER BY id", ())]

    def drop_links(self) -> int:
        """Keep nothing of any link any more; return of how many anything was kept."""
        with self._lock, errors(self.path), self._writing() as connection:
            connection.execute("DELETE FROM link_part")
            return connection.execute("DELETE FROM link_memory").rowcount

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
        version = self._known_version()
        connection.execute("COMMIT")
        self._version = version  # of a file that is only read: it may be an earlier one
        if version < VERSION and not self._read_only:
            self._migrate()
            self._version = VERSION

    def _known_version(self) -> int:
        """Return the version of the file's schema; raise if it is none that this engine knows."""
        connection = self._connection
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if self._read_only and not tables:
            raise StoreError(f"{self.path} is not a record store", code=Code.STORE_CORRUPT)
        if tables and application != _APPLICATION:
            raise StoreError(f"{self.path} is another program's database", code=Code.STORE_CORRUPT)
        if version > VERSION:
            raise StoreError(
                f"{self.path} has schema {version}, this engine knows {VERSION}",
                code=Code.STORE_NEWER,
            )
        return int(version)

    def _migrate(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        with self._writing():
            # Another process may have been quicker; it is asked again with the lock in hand.
            version = self._known_version()
            for script in MIGRATIONS[version:]:
                for statement in statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _writing(self, *, adds: bool = True) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        if self._read_only:
            check_rights(self.path)  # says what is missing, if that is why
            raise StoreError(f"{self.path} was opened for reading", code=Code.STORE_READ_ONLY)
        self.check_identity()
        if adds and not self._reserve.keep():
            message = f"{self.path}: the rest of the disk is kept for forgetting"
            raise StoreError(message, code=Code.STORE_FULL)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self._names.forget()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def check_identity(self) -> None:
        """Raise if the file of this name is not the one that was opened: it would keep nothing."""
        if identity_of(self._file) != self._identity:
            raise StoreError(
                f"{self.path} was removed or replaced while it was open", code=Code.STORE_REPLACED
            )

    def _quarantine(self, hash: RecordHash) -> None:
        """Put a record aside that is not what was stored; for everybody else it is forgotten.

        Where the file cannot be written the record stays, and this store goes on without it.
        """
        with suppress(StoreError):
            stored = self._one("SELECT id, raw FROM record WHERE hash = ?", (hash,))
            if stored is None or reread_intact(stored[1], hash) is not None:
                return  # somebody else was quicker
            try:
                self._put_aside(hash)
            except StoreError:
                self._hide(stored[0], hash)
            self.on_quarantine(hash)

    def _put_aside(self, hash: RecordHash) -> None:
        with self._lock, errors(self.path), self._writing() as connection:
            found = connection.execute("SELECT raw FROM record WHERE hash = ?", (hash,)).fetchone()
            if found is None or reread_intact(found[0], hash) is not None:
                return
            connection.execute("INSERT OR REPLACE INTO quarantine VALUES (?, ?)", (hash, found[0]))
            delete(connection, self._names, hash)
            note_forgotten(connection, [(hash,)])

    def _hide(self, id: int, hash: RecordHash) -> None:
        """Go on without a record, as if it were forgotten; under another id it may come back."""
        with self._reading, errors(self.path):
            hide(self._reader, [id])
            self._hidden[id] = hash

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
