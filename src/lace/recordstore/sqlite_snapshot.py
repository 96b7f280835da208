"""The record facts of one moment, read from SQLite: columns where there are any, else the bytes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.source import Row
from lace.errors import Code, RecordError, UsageError
from lace.ids import RecordHash
from lace.record.facts import RecordLink, fields, links, numbered
from lace.record.model import Plex, Record, Seal, Versioned
from lace.record.validate import reread, reread_intact, validate_record
from lace.recordstore.base import (
    Closes,
    FieldsOf,
    LinkMemory,
    Parts,
    StoreRecordId,
    has_fields,
    in_batches,
)
from lace.recordstore.sqlite_file import connect, errors
from lace.vocabulary import BLOB_HASH, FIELD, HAVE, PLEX_HASH, RECORD_LINK

STANDING: Final = (
    "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'record'), (SELECT times FROM forgotten)"
)
STANDING_BEFORE_FORGETS: Final = "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'record'), 0"
"""The same of a file of a version that did not count what was forgotten."""
_AT_ONCE: Final = 64  # records in memory
_NAMES_AT_ONCE: Final = 500
_RECORD, _NAME, _POSITION, _VALUE = range(4)

# How each predicate is read: columns of a fact, and where they come from.
_TABLES: Final[dict[Predicate, tuple[tuple[str, ...], str]]] = {
    HAVE: (("r.hash",), "record AS r"),
    RECORD_LINK: (
        ("r.hash", "n.text", "CAST(f.position AS TEXT)", "f.data", "f.target"),
        "link AS f JOIN record AS r ON r.id = f.record JOIN name AS n ON n.id = f.name",
    ),
    BLOB_HASH: (("r.hash", "r.inner"), "record AS r WHERE r.hash GLOB 'P.*'"),
    PLEX_HASH: (("r.hash", "r.inner"), "record AS r WHERE r.hash GLOB 'S.*'"),
}

# Fields by name: where the value stands.
_COLUMNS: Final = {
    "Type": ("substr(hash, 1, 1)", "record"),
    "Group": ('"group"', "place"),
    "App": ("app", "place"),
    "Name": ("name", "place"),
    "TAI": ("tai", "place"),
    "Signed-By": ("signed_by", "place WHERE signed_by IS NOT NULL"),
}
_OF_A_PLACE: Final = {  # in order
    "App": "p.app",
    "Group": 'p."group"',
    "Name": "p.name",
    "Signed-By": "p.signed_by",
    "TAI": "p.tai",
    "Type": "substr(p.hash, 1, 1)",
}
_MADE_ONCE: Final = 1000
_INDEXED: Final = frozenset(("Group", "App", "Name"))  # together, in this order
_IN_THE_BYTES: Final = frozenset(("Signature", "Data-Length"))
_IS_EXTRA: Final = f"n.id = f.name AND n.text NOT IN {(*_COLUMNS, *sorted(_IN_THE_BYTES))}"
_EXTRAS: Final = (  # before version 3, all fields had rows
    ("r.hash", "n.text", "CAST(f.position AS TEXT)", "f.value"),
    f"field AS f JOIN record AS r ON r.id = f.record JOIN name AS n ON {_IS_EXTRA}",
)


class _Parts(Parts):
    """The parts that are kept for a link, read one by one, or together."""

    def __init__(self, path: Path, connection: sqlite3.Connection, link: int) -> None:
        self._path, self._connection, self._link = path, connection, link

    def __getitem__(self, name: bytes) -> bytes:
        query = "SELECT data FROM link_part WHERE link = ? AND name = ?"
        with errors(self._path):
            row = self._connection.execute(query, (self._link, name)).fetchone()
        if row is None:
            raise KeyError(name)
        return bytes(row[0])

    def some(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with errors(self._path):
            for start in range(0, len(names), _NAMES_AT_ONCE):
                part = names[start : start + _NAMES_AT_ONCE]
                marks = ", ".join("?" * len(part))
                query = f"SELECT name, data FROM link_part WHERE link = ? AND name IN ({marks})"  # noqa: S608 (only marks)
                found.update(self._connection.execute(query, (self._link, *part)))
        return found

    def beginning(self, with_: bytes) -> dict[bytes, bytes]:
        query = "SELECT name, data FROM link_part WHERE link = ? AND name >= ? AND name < ?"
        stop = with_[:-1] + bytes([with_[-1] + 1])
        with errors(self._path):
            return dict(self._connection.execute(query, (self._link, with_, stop)).fetchall())

    def __iter__(self) -> Iterator[bytes]:
        query = "SELECT name FROM link_part WHERE link = ?"
        with errors(self._path):
            for (name,) in self._connection.execute(query, (self._link,)):
                yield name

    def __len__(self) -> int:
        query = "SELECT count(*) FROM link_part WHERE link = ?"
        with errors(self._path):
            return int(self._connection.execute(query, (self._link,)).fetchone()[0])

    def items(self) -> ItemsView[bytes, bytes]:
        query = "SELECT name, data FROM link_part WHERE link = ?"
        with errors(self._path):
            return dict(self._connection.execute(query, (self._link,)).fetchall()).items()


def kept_link(path: Path, key: bytes) -> LinkMemory | None:
    """Return what a file keeps for a link, read from a transaction of its own."""
    with errors(path):
        connection = connect(path, "ro")
        try:
            connection.execute("BEGIN")  # head and parts of one moment
            row = connection.execute(
                "SELECT id, head FROM link_memory WHERE key = ?", (key,)
            ).fetchone()
        except BaseException:
            connection.close()
            raise
        if row is None:
            connection.close()
            return None
        return LinkMemory(row[1], _Parts(path, connection, row[0]), _release=connection.close)


def hide(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Have some records be nowhere, for one connection: what it reads by a name is these views."""
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS hidden (id INTEGER PRIMARY KEY)")
    connection.executemany("INSERT OR IGNORE INTO hidden VALUES (?)", ((id,) for id in ids))
    connection.execute(
        "CREATE TEMP VIEW IF NOT EXISTS record AS"
        " SELECT * FROM main.record WHERE id NOT IN (SELECT id FROM temp.hidden)"
    )
    connection.execute(
        "CREATE TEMP VIEW IF NOT EXISTS place AS SELECT * FROM main.place WHERE hash NOT IN"
        " (SELECT hash FROM main.record WHERE id IN (SELECT id FROM temp.hidden))"
    )


class SqliteSnapshot(Closes):
    """The record facts of one moment, read from a transaction of its own."""

    def __init__(
        self,
        path: Path,
        on_changed: Callable[[RecordHash], None] = lambda _hash: None,
        standing: str = STANDING,
        hidden: Collection[int] = (),
    ) -> None:
        """``standing`` asks for the newest id, and how often anything was forgotten.

        Records with ``hidden`` ids are nowhere, and each of them counts as forgotten once.
        """
        self._path = path
        self._on_changed = on_changed  # told of a record whose bytes are not those that were stored
        self._connection = connect(path, "ro")
        try:
            if hidden:
                hide(self._connection, hidden)
            # The first read fixes what all later ones see.
            self._connection.execute("BEGIN")
            high_water, forgets = self._connection.execute(standing).fetchone()
        except BaseException:
            self._connection.close()
            raise
        self.high_water = StoreRecordId(high_water or 0)
        self.forgets = int(forgets or 0) + len(hidden)

    def predicates(self) -> Iterable[Predicate]:
        return [p for p in (*_TABLES, FIELD) if next(self.iterate(p), None) is not None]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return self.select(predicate, {})

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        if len(values) > predicate.arity:
            raise UsageError(f"{predicate} has no {len(values)} values", code=Code.FACT_ARITY)
        return self.select(predicate, dict(enumerate(values)))

    def count(self, predicate: Predicate, /) -> int:
        if predicate in _TABLES:
            return self._count(_TABLES[predicate][1])
        if predicate == FIELD:
            lengths, signatures = "record", _COLUMNS["Signed-By"][1]
            tables = (table for _, table in _COLUMNS.values())
            return sum(map(self._count, (*tables, lengths, signatures, _EXTRAS[1])))
        return 0

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        if predicate == FIELD:
            yield from self._fields(bound)
        elif predicate == RECORD_LINK and _RECORD in bound:
            record = self.record(RecordHash(bound[_RECORD]))
            rows = [] if record is None else map(_link_row, repeat(record.hash), links(record))
            yield from (row for row in rows if _fits(row, bound))
        elif predicate in _TABLES:
            yield from self._rows(*_TABLES[predicate], bound)

    def record(self, hash: RecordHash) -> Record | None:
        with errors(self._path):
            row = self._connection.execute(
                "SELECT raw FROM record WHERE hash = ?", (hash,)
            ).fetchone()
        return next(self._intact([(hash, row[0])]), None) if row else None

    def records(self, hashes: Sequence[str]) -> Iterator[Record]:
        for start in range(0, len(hashes), _AT_ONCE):
            part = hashes[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT hash, raw FROM record WHERE hash IN ({marks})"  # noqa: S608 (only marks)
            with errors(self._path):
                rows = self._connection.execute(query, part).fetchall()
            yield from self._intact(rows)

    def after(self, id: StoreRecordId, at_hand: Mapping[str, Record]) -> Iterator[Record]:
        query = "SELECT hash, raw FROM record WHERE id > ? ORDER BY id"
        with errors(self._path):
            rows = self._connection.execute(query, (id,))
        while some := self._some(rows):
            for hash, raw in some:
                known = at_hand.get(hash)
                if known is not None:
                    yield known
                else:
                    yield from self._intact([(hash, raw)])

    def _some(self, rows: sqlite3.Cursor) -> list[tuple[str, bytes]]:
        with errors(self._path):
            return rows.fetchmany(_AT_ONCE)

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        placed = {_OF_A_PLACE[name]: v for name, v in values.items() if name in _INDEXED}
        others = [name for name in values if name not in _OF_A_PLACE and name not in _IN_THE_BYTES]
        if placed:
            where = " AND ".join(f"{column} = ?" for column in placed)
            query = f"SELECT p.hash FROM place AS p WHERE {where}"  # noqa: S608 (ours)
            with errors(self._path):
                hashes = [h for (h,) in self._connection.execute(query, (*placed.values(),))]
        elif others:
            bound = {_NAME: others[0], _VALUE: values[others[0]]}
            hashes = [row[0] for row in self._rows(*_EXTRAS, bound)]
        else:
            hashes = [row[0] for row in self._rows(*_TABLES[HAVE], {})]
        records = self.records(list(dict.fromkeys(hashes)))
        return (record for record in records if has_fields(record, values))

    def present(self, hashes: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for start in range(0, len(hashes), _NAMES_AT_ONCE):
            part = hashes[start : start + _NAMES_AT_ONCE]
            marks = ", ".join("?" * len(part))
            query = f"SELECT hash FROM record WHERE hash IN ({marks})"  # noqa: S608 (only marks)
            with errors(self._path):
                found.update(hash for (hash,) in self._connection.execute(query, part))
        return found

    def fields(self, names: frozenset[str] | None, at_once: int) -> Iterator[list[FieldsOf]]:
        if names is None or not names.isdisjoint(_IN_THE_BYTES):
            records = self._intact(self.raw_records())
            found: Iterable[FieldsOf] = ((r.hash, tuple(sorted(fields(r, names)))) for r in records)
        else:
            found = chain(self._of_places(names), self._of_blobs(names))
        return in_batches(found, at_once)

    def beside(self, hashes: Sequence[str], names: frozenset[str] | None) -> Iterator[FieldsOf]:
        wanted = _IN_THE_BYTES if names is None else _IN_THE_BYTES & names
        for hash in hashes:
            with errors(self._path):
                row = self._connection.execute(
                    "SELECT raw FROM record WHERE hash = ?", (hash,)
                ).fetchone()
            if row is None or reread_intact(row[0], hash) is not None:
                continue
            found = [("Type", 0, hash[0])]
            for name, (column, table) in _COLUMNS.items():
                if table != "record":
                    rows = self._rows(("hash", column), table, {_RECORD: hash})
                    found += [(name, 0, value) for _, value in rows]
            extras = self._rows(*_EXTRAS, {_RECORD: hash})
            found += [(name, int(position), value) for _, name, position, value in extras]
            if wanted:
                try:
                    found += fields(reread(row[0]), wanted)
                except (RecordError, ValueError):
                    continue  # the bytes are none of a record any more
            yield hash, tuple(sorted(f for f in found if names is None or f[0] in names))

    def raw_records(self) -> Iterator[tuple[str, bytes]]:
        """Yield hash and bytes of every record, in the order they came."""
        with errors(self._path):
            yield from self._connection.execute("SELECT hash, raw FROM record ORDER BY id")

    def faults(self, listen: Callable[[int], None] | None = None) -> Iterator[str]:
        """Yield what is wrong with the records, or with what stands beside them.

        ``listen`` is told how many were looked at.
        """
        placed = had = linked = 0
        for number, (hash, raw) in enumerate(self.raw_records()):
            if listen is not None:
                listen(number)
            record = validate_record(raw)
            if record.value is None or record.value.hash != hash:
                yield f"record {hash}: {record.detail or 'stored under another hash'}"
                continue
            placed += isinstance(record.value, Versioned)
            had += len(_extras(record.value))
            linked += len(list(links(record.value)))
            if not self._stands_beside(record.value):
                yield f"record {hash}: its facts are not those of its bytes"
        for what, table, expected in (
            ("places", "place", placed),
            ("fields", f"field AS f JOIN name AS n ON {_IS_EXTRA}", had),
            ("links", "link", linked),
        ):
            if self._count(table) > expected:
                yield f"file: there are {what} of no record"

    def close(self) -> None:
        self._connection.close()

    # --- fields ---

    def _fields(self, bound: Mapping[int, str]) -> Iterator[Row]:
        if _RECORD in bound:
            record = self.record(RecordHash(bound[_RECORD]))
            yield from _matching([] if record is None else [record], bound)
            return
        asked = bound.get(_NAME)
        if bound.get(_POSITION, "0") == "0":
            for name, (column, table) in _COLUMNS.items():
                if asked in {None, name}:
                    value = {1: bound[_VALUE]} if _VALUE in bound else {}
                    for hash, text in self._rows(("hash", column), table, value):
                        yield hash, name, "0", text
        if asked is None or asked in _IN_THE_BYTES:
            for row in _matching(self._intact(self.raw_records()), bound):
                if row[_NAME] in _IN_THE_BYTES:
                    yield row
        if asked not in _COLUMNS and asked not in _IN_THE_BYTES:
            yield from self._rows(*_EXTRAS, bound)

    def _of_blobs(self, names: frozenset[str]) -> Iterator[FieldsOf]:
        query = "SELECT hash FROM record WHERE hash >= 'B.' AND hash < 'B/'"
        with errors(self._path):
            for (hash,) in self._connection.execute(query):
                yield hash, (("Type", 0, "B"),) if "Type" in names else ()

    def _of_places(self, names: frozenset[str]) -> Iterator[FieldsOf]:
        """Yield all records that have a place; where none has extra fields, from one table."""
        columns = [name for name in _OF_A_PLACE if name in names]
        chosen = ", ".join(("p.hash", *(_OF_A_PLACE[name] for name in columns)))
        others = sorted(names.difference(_OF_A_PLACE))
        marks = ", ".join("?" * len(others))
        with errors(self._path):
            named = dict(
                self._connection.execute(
                    f"SELECT id, text FROM name WHERE text IN ({marks})",  # noqa: S608 (only marks)
                    others,
                )
            )
            if not named:
                yield from self._of_columns(columns, f"SELECT {chosen} FROM place AS p")  # noqa: S608 (ours)
                return
            rows = self._connection.execute(
                # Fields stand by value. Those that are wanted are put in order first, once.
                "WITH f AS MATERIALIZED (SELECT record, name, position, value FROM field"  # noqa: S608 (ours)
                f" WHERE name IN ({', '.join(map(str, named))}))"
                f" SELECT {chosen}, f.name, f.position, f.value FROM place AS p"
                " CROSS JOIN record AS r ON r.hash = p.hash LEFT JOIN f ON f.record = r.id"
            )
            for hash, same in groupby(rows, itemgetter(0)):
                several = list(same)
                found = zip(columns, several[0][1:-3], strict=True)
                fields = [(name, 0, value) for name, value in found if value is not None]
                fields += [(named[row[-3]], *row[-2:]) for row in several if row[-3] is not None]
                yield hash, tuple(sorted(fields))

    def _of_columns(self, columns: Sequence[str], query: str) -> Iterator[FieldsOf]:
        """Yield records with the fields that columns hold; what several have alike is made once."""
        known: dict[tuple[str | None, ...], tuple[tuple[str, int, str], ...]] = {}
        for row in self._connection.execute(query):
            values = row[1:]
            found = known.get(values)
            if found is None:
                if len(known) > _MADE_ONCE:
                    known.clear()
                named = zip(columns, values, strict=True)
                found = known[values] = tuple((n, 0, v) for n, v in named if v is not None)
            yield row[0], found

    def _intact(self, rows: Iterable[tuple[str, bytes]]) -> Iterator[Record]:
        """Yield the records whose bytes are those that were stored."""
        for hash, raw in rows:
            record = reread_intact(raw, hash)
            if record is not None:
                yield record
            else:
                self._on_changed(RecordHash(hash))

    # --- tables ---

    def _rows(
        self, columns: tuple[str, ...], source: str, bound: Mapping[int, str]
    ) -> Iterator[Row]:
        conditions = [f"{columns[column]} = ?" for column in bound]
        joint = " AND " if " WHERE " in source else " WHERE "
        where = joint + " AND ".join(conditions) if conditions else ""
        query = f"SELECT {', '.join(columns)} FROM {source}{where}"  # noqa: S608 (ours)
        with errors(self._path):
            yield from self._connection.execute(query, tuple(bound.values()))

    def _count(self, source: str) -> int:
        with errors(self._path):
            row = self._connection.execute(f"SELECT count(*) FROM {source}").fetchone()  # noqa: S608
            return int(row[0])

    def _stands_beside(self, record: Record) -> bool:
        """Whether the tables say of a record what its bytes say."""
        hash = {0: str(record.hash)}
        inner: list[Row] = [(record.hash, inner_of(record) or "")]
        if list(self._rows(("hash", "ifnull(inner, '')"), "record", hash)) != inner:
            return False
        if not isinstance(record, Versioned):
            return True
        place = place_of(record)
        key = ('"group"', "app", "name", "tai", "hash")
        found = self._rows((*key, "signed_by"), "place", dict(enumerate(place[:-1])))
        return list(found) == [place] and all(
            next(self._connection.execute(query, values), None) is not None
            for query, values in self._beside(record)
        )

    def _beside(self, record: Versioned) -> Iterator[tuple[str, tuple[str | int, ...]]]:
        """Yield the queries that find something if everything stands there."""
        own = "f.record = (SELECT id FROM record WHERE hash = ?) AND f.position = ?"
        named = "JOIN name AS n ON n.id = f.name WHERE n.text = ? AND"
        for name, index, value in _extras(record):
            query = f"SELECT 1 FROM field AS f {named} f.value = ? AND {own}"  # noqa: S608 (ours)
            yield query, (name, value, record.hash, index)
        for x in links(record):
            query = f"SELECT 1 FROM link AS f {named} f.target = ? AND f.data = ? AND {own}"  # noqa: S608 (ours)
            yield query, (x.name, x.target, x.data, record.hash, x.index)


def _extras(record: Record) -> list[tuple[str, int, str]]:
    """Return the fields of a record that have rows."""
    return list(numbered(record.extras)) if isinstance(record, Versioned) else []


def _matching(records: Iterable[Record], bound: Mapping[int, str]) -> Iterator[Row]:
    """Yield the field facts of records that have the given values."""
    for record in records:
        for name, index, value in fields(record):
            row = record.hash, name, str(index), value
            if _fits(row, bound):
                yield row


def _fits(row: Row, bound: Mapping[int, str]) -> bool:
    """Whether a row has the given values."""
    return all(row[column] == wanted for column, wanted in bound.items())


def _link_row(hash: str, link: RecordLink) -> Row:
    return hash, link.name, str(link.index), link.data, link.target


def inner_of(record: Record) -> str | None:
    """Return the hash of what a record embeds."""
    match record:
        case Seal():
            return record.plex_hash
        case Plex():
            return record.blob_hash
    return None


def place_of(record: Versioned) -> tuple[str, str, str, str, str, str | None]:
    """Return the row of a record in the table of places."""
    signer = record.signed_by if isinstance(record, Seal) else None
    return record.group, record.app, record.name, record.tai, record.hash, signer
