"""Records in one SQLite file: durable, safe under several processes, whole or not at all.

Each save is one transaction in write-ahead mode, synchronised before it is acknowledged: a process
killed at any moment, or a machine that loses power, keeps what was acknowledged and nothing half.
Every failure of the file becomes a ``StoreError`` with a code; what is stored stays stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import Any, Final

from lace.datalog.ast import Predicate
from lace.datalog.source import Row
from lace.errors import Code, Outcome, Status, StoreError, UsageError
from lace.ids import RecordHash
from lace.record.facts import facts as record_facts
from lace.record.facts import fields, links
from lace.record.model import Plex, Record, Seal, Versioned
from lace.record.validate import reread, validate_record
from lace.recordstore.base import MOST_CONTEXTS, Closes, StoredRecord, StoreRecordId
from lace.urc import Coordinate

_APPLICATION: Final = 0x4C616365  # "Lace"
_BUSY_SECONDS: Final = 10.0
_VARIABLES: Final = 500  # in one query

#: The scripts that bring a file from version n to n + 1; a new file gets all of them.
MIGRATIONS: Final = tuple(
    files("lace.recordstore").joinpath(name).read_text("utf-8")
    for name in ("schema.sql", "schema-2.sql")
)
VERSION: Final = len(MIGRATIONS)

_CODES: Final = {
    sqlite3.SQLITE_BUSY: Code.STORE_LOCKED,
    sqlite3.SQLITE_LOCKED: Code.STORE_LOCKED,
    sqlite3.SQLITE_READONLY: Code.STORE_READ_ONLY,
    sqlite3.SQLITE_FULL: Code.STORE_FULL,
    sqlite3.SQLITE_CORRUPT: Code.STORE_CORRUPT,
    sqlite3.SQLITE_NOTADB: Code.STORE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN: Code.STORE_OPEN,
}


class SqliteStore(Closes):
    """A record store in one file; may be used from several threads and processes."""

    def __init__(self, path: str | Path, *, read_only: bool = False, create: bool = True) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._lock = RLock()
        self._listeners: list[Callable[[list[StoredRecord]], None]] = []
        self._names: dict[str, int] = {}
        with _errors(self.path):
            mode = "ro" if read_only else "rwc" if create else "rw"
            self._connection = _connect(self.path, mode)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    # --- the contract ---

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        outcomes: list[Outcome[Record]] = []
        fresh: list[StoredRecord] = []
        with self._lock, _errors(self.path), self._writing() as connection:
            for record in records:
                id = self._insert(connection, record)
                if id is None:
                    outcomes.append(Outcome(Status.DUPLICATE, record))
                else:
                    outcomes.append(Outcome(Status.ACCEPTED, record))
                    fresh.append(StoredRecord(id, record.hash))
        if fresh:
            for listener in list(self._listeners):
                listener(fresh)
        return outcomes

    def load(self, hash: RecordHash) -> Record | None:
        row = self._one("SELECT raw FROM record WHERE hash = ?", (hash,))
        return reread(row[0]) if row else None

    def has(self, hash: RecordHash) -> bool:
        return self._one("SELECT 1 FROM record WHERE hash = ?", (hash,)) is not None

    def read(self, after: StoreRecordId, limit: int) -> list[StoredRecord]:
        rows = self._all(
            "SELECT id, hash FROM record WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
        )
        return [StoredRecord(StoreRecordId(id), RecordHash(hash)) for id, hash in rows]

    def high_water(self) -> StoreRecordId:
        row = self._one("SELECT seq FROM sqlite_sequence WHERE name = 'record'", ())
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

    def snapshot(self) -> SqliteSnapshot:
        with _errors(self.path):
            return SqliteSnapshot(self.path)

    def forget(self, hashes: Iterable[RecordHash]) -> int:
        gone = 0
        with self._lock, _errors(self.path):
            with self._writing() as connection:
                for hash in hashes:
                    gone += self._delete(connection, hash)
                if gone:
                    connection.execute("UPDATE forgotten SET times = times + 1")
            if gone:
                # Gives the pages back; readers that still need them keep their own view.
                # (As a script, because one execute() would give back one page.)
                self._connection.executescript("PRAGMA incremental_vacuum")
        return gone

    def forgets(self) -> int:
        row = self._one("SELECT times FROM forgotten", ())
        return 0 if row is None else int(row[0])

    def cursor(self, link: bytes) -> dict[str, bytes]:
        return dict(self._all("SELECT record, advert FROM cursor WHERE link = ?", (link,)))

    def move_cursor(self, link: bytes, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        with self._lock, _errors(self.path), self._writing() as connection:
            connection.executemany(
                "DELETE FROM cursor WHERE link = ? AND record = ?", [(link, r) for r in gone]
            )
            connection.executemany(
                "INSERT INTO cursor (link, record, advert) VALUES (?, ?, ?)"
                " ON CONFLICT (link, record) DO UPDATE SET advert = excluded.advert",
                [(link, record, advert) for record, advert in put.items()],
            )

    def digests(self, context: bytes, hashes: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for start in range(0, len(hashes), _VARIABLES):
            part = hashes[start : start + _VARIABLES]
            marks = ", ".join("?" * len(part))
            query = (  # question marks are all that is put in
                "SELECT r.hash, d.digest FROM context AS c JOIN digest AS d ON d.context = c.id"  # noqa: S608
                f" JOIN record AS r ON r.id = d.record WHERE c.key = ? AND r.hash IN ({marks})"
            )
            found.update(self._all(query, (context, *part)))
        return found

    def keep_digests(self, context: bytes, digests: Mapping[str, bytes]) -> None:
        with self._lock, _errors(self.path), self._writing() as connection:
            row = connection.execute("SELECT id FROM context WHERE key = ?", (context,)).fetchone()
            if row is None:
                row = connection.execute(
                    "INSERT INTO context (key) VALUES (?) RETURNING id", (context,)
                ).fetchone()
                old = "SELECT id FROM context ORDER BY id DESC LIMIT -1 OFFSET ?"
                for table, column in (("digest", "context"), ("context", "id")):
                    connection.execute(
                        f"DELETE FROM {table} WHERE {column} IN ({old})",  # noqa: S608 (ours)
                        (MOST_CONTEXTS,),
                    )
            connection.executemany(
                "INSERT OR REPLACE INTO digest (context, record, digest)"
                " SELECT ?, id, ? FROM record WHERE hash = ?",
                [(row[0], value, hash) for hash, value in digests.items()],
            )

    def subscribe(self, listener: Callable[[list[StoredRecord]], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        with self._lock:
            self._listeners.clear()
            self._connection.close()

    # --- beyond the contract ---

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the file: its pages, its records, or the facts beside them."""
        with _errors(self.path):
            for (line,) in self._all("PRAGMA integrity_check", ()):
                if line != "ok":
                    yield f"file: {line}"
            with self.snapshot() as snapshot:
                for hash, raw in snapshot.raw_records():
                    yield from _check_record(hash, raw, snapshot)

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
        if version < VERSION and not self._read_only:
            self._migrate()

    def _migrate(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        with self._writing():
            # Another process may have been quicker; it is asked again with the lock in hand.
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            for script in MIGRATIONS[version:]:
                for statement in _statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        connection = self._connection
        if self._read_only:
            raise StoreError(f"{self.path} was opened for reading", code=Code.STORE_READ_ONLY)
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            self._names.clear()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _insert(self, connection: sqlite3.Connection, record: Record) -> StoreRecordId | None:
        inner = None
        if isinstance(record, Seal):
            inner = record.plex_hash
        elif isinstance(record, Plex):
            inner = record.blob_hash
        cursor = connection.execute(
            "INSERT INTO record (hash, raw, inner) VALUES (?, ?, ?) ON CONFLICT (hash) DO NOTHING",
            (record.hash, record.raw, inner),
        )
        if cursor.rowcount == 0:
            return None
        id = cursor.lastrowid
        assert id is not None
        connection.executemany(
            "INSERT INTO field (record, name, position, value) VALUES (?, ?, ?, ?)",
            [(id, self._name(name), index, value) for name, index, value in fields(record)],
        )
        if isinstance(record, Versioned):
            connection.executemany(
                "INSERT INTO link (record, name, position, data, target) VALUES (?, ?, ?, ?, ?)",
                [(id, self._name(x.name), x.index, x.data, x.target) for x in links(record)],
            )
            signer = record.signed_by if isinstance(record, Seal) else None
            connection.execute(
                'INSERT INTO place ("group", app, name, tai, hash, signed_by)'
                " VALUES (?, ?, ?, ?, ?, ?)",
                (record.group, record.app, record.name, record.tai, record.hash, signer),
            )
        return StoreRecordId(id)

    def _delete(self, connection: sqlite3.Connection, hash: RecordHash) -> int:
        row = connection.execute("SELECT id, raw FROM record WHERE hash = ?", (hash,)).fetchone()
        if row is None:
            return 0
        id, raw = row
        record = reread(raw)
        for table in ("field", "link"):
            connection.execute(f"DELETE FROM {table} WHERE record = ?", (id,))  # noqa: S608 (ours)
        if isinstance(record, Versioned):
            connection.execute(
                'DELETE FROM place WHERE "group" = ? AND app = ? AND name = ? AND tai = ?'
                " AND hash = ?",
                (record.group, record.app, record.name, record.tai, hash),
            )
        connection.execute(
            "DELETE FROM digest WHERE context IN (SELECT id FROM context) AND record = ?", (id,)
        )
        connection.execute("DELETE FROM record WHERE id = ?", (id,))
        return 1

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
        with self._lock, _errors(self.path):
            return self._connection.execute(query, values).fetchone()

    def _all(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock, _errors(self.path):
            return self._connection.execute(query, values).fetchall()


# How each predicate is read: columns of a fact, and where they come from.
_RECORD: Final = "record AS r"
_FIELDS: Final = "field AS f JOIN record AS r ON r.id = f.record JOIN name AS n ON n.id = f.name"
_LINKS: Final = "link AS f JOIN record AS r ON r.id = f.record JOIN name AS n ON n.id = f.name"
_TABLES: Final[dict[Predicate, tuple[tuple[str, ...], str]]] = {
    Predicate("Have", 1): (("r.hash",), _RECORD),
    Predicate("Field", 4): (
        ("r.hash", "n.text", "CAST(f.position AS TEXT)", "f.value"),
        _FIELDS,
    ),
    Predicate("RecordLink", 5): (
        ("r.hash", "n.text", "CAST(f.position AS TEXT)", "f.data", "f.target"),
        _LINKS,
    ),
    Predicate("BlobHash", 2): (("r.hash", "r.inner"), f"{_RECORD} WHERE r.hash GLOB 'P.*'"),
    Predicate("PlexHash", 2): (("r.hash", "r.inner"), f"{_RECORD} WHERE r.hash GLOB 'S.*'"),
}


class SqliteSnapshot(Closes):
    """The record facts of one moment, read from a transaction of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _connect(path, "ro")
        try:
            # The first read fixes what all later ones see.
            self._connection.execute("BEGIN")
            row = self._connection.execute(
                "SELECT seq FROM sqlite_sequence WHERE name = 'record'"
            ).fetchone()
        except BaseException:
            self._connection.close()
            raise
        self.high_water = StoreRecordId(row[0] if row else 0)

    def predicates(self) -> Iterable[Predicate]:
        return [predicate for predicate in _TABLES if self.count(predicate)]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return self.select(predicate, {})

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        if len(values) > predicate.arity:
            raise UsageError(f"{predicate} has no {len(values)} values", code=Code.FACT_ARITY)
        return self.select(predicate, dict(enumerate(values)))

    def count(self, predicate: Predicate, /) -> int:
        if predicate not in _TABLES:
            return 0
        with _errors(self._path):
            source = _TABLES[predicate][1]
            row = self._connection.execute(f"SELECT count(*) FROM {source}").fetchone()  # noqa: S608
            return int(row[0])

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        if predicate not in _TABLES:
            return
        columns, source = _TABLES[predicate]
        conditions = [f"{columns[column]} = ?" for column in bound]
        joint = " AND " if " WHERE " in source else " WHERE "
        where = joint + " AND ".join(conditions) if conditions else ""
        query = f"SELECT {', '.join(columns)} FROM {source}{where}"  # noqa: S608 (ours)
        with _errors(self._path):
            yield from self._connection.execute(query, tuple(bound.values()))

    def record(self, hash: RecordHash) -> Record | None:
        with _errors(self._path):
            row = self._connection.execute(
                "SELECT raw FROM record WHERE hash = ?", (hash,)
            ).fetchone()
        return reread(row[0]) if row else None

    def raw_records(self) -> Iterator[tuple[str, bytes]]:
        """Yield hash and bytes of every record, in the order they came."""
        with _errors(self._path):
            yield from self._connection.execute("SELECT hash, raw FROM record ORDER BY id")

    def close(self) -> None:
        self._connection.close()


def _check_record(hash: str, raw: bytes, snapshot: SqliteSnapshot) -> Iterator[str]:
    """Yield what is wrong with one record of a snapshot."""
    outcome = validate_record(raw)
    if outcome.value is None or outcome.value.hash != hash:
        yield f"record {hash}: {outcome.detail or 'stored under another hash'}"
        return
    expected = set(record_facts(outcome.value))
    found = {
        (predicate.name, *values)
        for predicate in _TABLES
        for values in snapshot.query(predicate, hash)
    }
    if found != expected:
        yield f"record {hash}: its facts are not those of its bytes"


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn what SQLite says into a StoreError with a code."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise StoreError(f"{path}: text that is no text", code=Code.STORE_CORRUPT) from error
    except sqlite3.Error as error:
        primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
        code = _CODES.get(primary, Code.STORE_FAILED)
        raise StoreError(f"{path}: {error}", code=code) from error


def schema_version(path: str | Path) -> int:
    """Return the schema version of a file without changing it."""
    with _errors(Path(path)), closing(_connect(Path(path), "ro")) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
