"""Records from files: bundles as they are, JSON Lines and CSV through a mapping.

Whatever is imported was validated or is made here; nothing gets in otherwise. What is refused is
told with its place and its reason, and the rest goes on. Each batch is stored whole before the next
is read: an import that was cut off goes on when it is run again, and makes nothing twice.
"""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, cast

from lace.api.handles import Lace, RecordKind, as_lace, checked_key, in_worker, store_of
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.crypto.native import digest
from lace.dates import read_instant
from lace.errors import Code, LaceError, RecordError, Status, UsageError
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, MIB
from lace.record import grammar
from lace.record.build import build_plex, seal
from lace.record.model import Plex, Record, Versioned
from lace.record.split import BrokenFrame, Frame, split_records
from lace.record.validate import validate_record
from lace.recordstore.base import RecordStore
from lace.tai import Tai
from lace.text import shown
from lace.urc import Coordinate, Prefix, VersionSelector, parse_urc

__all__ = ["Imported", "Refused", "RowMap", "import_file"]

Form = Literal["records", "jsonl", "csv", "parquet"]

_BATCH_RECORDS: Final = 1000
_BATCH_BYTES: Final = 8 * MIB
_CHUNK: Final = MIB
_REASONS: Final = 100
_VERSIONS: Final = 10_000
"""So many versions of a place are looked at, to find out which rows they say already."""
_HELD_BYTES: Final = 64 * MIB
_BOM: Final = b"\xef\xbb\xbf"
_ARRAY: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*[{\]]")
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
_UTF8: Final = "convert the file, as iconv -f LATIN1 -t UTF-8 does"
_DATABASE: Final = b"SQLite format 3\x00"
_ENTRIES: Final = ("place", "fields", "data", "data_b64", "tai")
_IGNORED: Final = ("author", "date", "hash", "type", "requested")
"""What else a record has in the JSON of commands; it follows from the rest, or from the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMap:
    """How rows become records: where they go, and what each column becomes."""

    to: RecordKind | str
    """A kind of record, or a prefix, //group//app// or //group//app//name/."""
    name: str
    """The column that names the record within its place; each row needs a value there."""
    data: str | None = None
    """The column that becomes the data; without one the data is empty."""
    time: str | None = None
    """The column with the time, TAI or ISO 8601; without one it is the time of the import."""
    fields: Mapping[str, str] | None = None
    """Fields with the columns they come from; by default each other column, under its name."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Something of a file that is not stored, and why."""

    where: str
    """The line of a table, or the byte at which a record begins."""
    code: Code
    """Why, for programs."""
    detail: str
    """Why, in words."""
    content: str | bytes = b""
    """What stands there, if it can be read."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as a line of the file that refused things are put aside in."""
        made: dict[str, Any] = {"where": self.where, "code": self.code, "detail": self.detail}
        if isinstance(self.content, bytes):
            return made | {"content_b64": b64encode(self.content).decode()}
        return made | {"content": self.content}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of the content of a file, so far or in all."""

    new: int = 0
    """Those that were stored."""
    present: int = 0
    """Those that were here already."""
    forgotten: int = 0
    """Those that were forgotten here for good, and are left out."""
    refused: int = 0
    """Those that are not valid, or could not be read."""
    reasons: tuple[Refused, ...] = ()
    """Of what was refused, the first hundred."""
    bytes_read: int = 0
    """How much of the file was read."""
    signed_anew: int = 0
    """Rows that name another author; the records that were made of them are not that author's."""

    @property
    def read(self) -> int:
        """How many records or rows were read."""
        return self.new + self.present + self.forgotten + self.refused


async def import_file(
    local: Lace,
    source: str | Path | BinaryIO,
    *,
    rows: RowMap | None = None,
    form: Form | None = None,
    key: SigningKey | None = None,
    unsigned: bool = False,
    put_aside: Callable[[Refused], None] | None = None,
    listen: Callable[[Imported], None] | None = None,
) -> Imported:
    """Store what a file holds; return how much was new, was here already, and was refused.

    A file of records is validated and stored as it is. JSON Lines and CSV become records: by
    ``rows``, or without it each line is an object with ``place`` and ``fields``, ``data`` or
    ``data_b64`` and ``tai`` if it likes. They are signed with ``key``, else with that of the lace;
    without either, only ``unsigned`` makes records of them. A row with a time is here already if
    its author says the same at that place and time. Rows without a time are here already if the
    newest versions of their author at their place say the same in the same order. ``form`` is found
    out from the content if it is not said. ``put_aside`` is told of each thing that is refused,
    ``listen`` of the count after each batch.
    """
    signer = None if unsigned else checked_key(key) or as_lace(local).key
    work = Importer(store_of(local), rows, form, signer, unsigned, put_aside)
    with ExitStack() as stack:
        file = stack.enter_context(_opened(source)) if isinstance(source, str | Path) else source
        steps = work.steps(file)
        count = Imported()
        while (found := await in_worker(local, lambda: next(steps, None))) is not None:
            count = found
            if listen is not None:
                listen(count)
    return count


@dataclass(slots=True)
class Importer:
    """Brings the content of files into a store, one batch at a time."""

    store: RecordStore
    rows: RowMap | None = None
    form: Form | None = None
    key: SigningKey | None = None
    unsigned: bool = False
    put_aside: Callable[[Refused], None] | None = None
    change_fields: Callable[[Coordinate, list[tuple[str, str]]], list[tuple[str, str]]] | None = (
        None
    )
    """Says what fields are meant where they are written in another way."""
    _count: Imported = field(default_factory=Imported)
    _read: int = 0
    _begun: Tai = field(default_factory=tai_now)
    _made: dict[tuple[Coordinate, str], list[bytes]] = field(default_factory=dict)
    """What this batch says at a place and time: it is not in the store yet."""
    _held: dict[Coordinate, _Held] = field(default_factory=dict)
    _held_bytes: int = 0
    _last_versions: tuple[Coordinate, list[bytes]] | None = None

    def steps(self, file: BinaryIO) -> Iterator[Imported]:
        """Do the work; yield the count after each batch, and at the end."""
        chunks = self._chunks(file)
        head = next(chunks, b"")
        form = self.form or self._form_of(head)
        if form != "records" and _ARRAY.match(head):
            raise UsageError(
                "this is one JSON array; it takes one object a line",
                code=Code.INPUT_JSON,
                hint="Write its objects as lines: jq -c '.[]' FILE | lace import -.",
            )
        if form == "parquet":
            raise UsageError("Parquet can be written, not read", code=Code.INPUT_FILE)
        if form == "csv" and self.rows is None:
            raise UsageError(
                "this is read as CSV: say what the columns of the table become",
                code=Code.INPUT_FILE,
                hint="With the command: --to //group//app// --name COLUMN. In Python: rows=RowMap.",
            )
        whole = _before(head, chunks)
        made = self._records(whole) if form == "records" else self._rows(whole, form)
        batch: list[Record] = []
        size = pending = 0
        for record in made:
            pending += 1
            if record is not None:
                batch.append(record)
                size += len(record.raw)
            if pending >= _BATCH_RECORDS or size >= _BATCH_BYTES:
                yield self._save(batch)
                batch, size, pending = [], 0, 0
        yield self._save(batch)

    def _chunks(self, file: BinaryIO) -> Iterator[bytes]:
        while chunk := file.read(_CHUNK):
            self._read += len(chunk)
            yield chunk

    def _form_of(self, head: bytes) -> Form:
        if head.startswith(_DATABASE):
            raise UsageError(
                "this is a store, no file of records",
                code=Code.INPUT_FILE,
                hint="Interlace with it: lace sync PATH.",
            )
        if not head or head.startswith((grammar.MARK, grammar.TRAILER_MARK)):
            return "records"
        start = head.removeprefix(_BOM).lstrip()
        return "jsonl" if start.startswith(b"{") else "csv"

    def _save(self, batch: list[Record]) -> Imported:
        outcomes = self.store.save(batch) if batch else []
        new = sum(outcome.status is Status.ACCEPTED for outcome in outcomes)
        present = sum(outcome.status is Status.DUPLICATE for outcome in outcomes)
        self._made.clear()
        self._count = replace(
            self._count,
            new=self._count.new + new,
            present=self._count.present + present,
            forgotten=self._count.forgotten + len(outcomes) - new - present,
            bytes_read=self._read,
        )
        return self._count

    def _refuse(self, refused: Refused) -> None:
        if self.put_aside is not None:
            self.put_aside(refused)
        count = self._count
        reasons = count.reasons
        if len(reasons) < _REASONS:
            reasons = (*reasons, refused)
        self._count = replace(count, refused=count.refused + 1, reasons=reasons)

    def _are_here(self, number: int = 1) -> list[Record | None]:
        """Count what is here already; there is nothing to store for it."""
        self._count = replace(self._count, present=self._count.present + number)
        return [None] * number

    def _records(self, chunks: Iterable[bytes]) -> Iterator[Record | None]:
        """Yield the valid records of a file, and None for each that is not to be stored."""
        for frame in split_records(chunks):
            yield self._record(frame)

    def _record(self, frame: Frame | BrokenFrame) -> Record | None:
        if isinstance(frame, BrokenFrame):
            detail = f"{frame.detail}; nothing after this can be read"
            self._refuse(Refused(f"byte {frame.offset}", frame.code, detail))
            return None
        # What is here to the last byte was validated when it was stored.
        claimed = frame.raw[len(grammar.MARK) : grammar.MARKLINE_BYTES - 1].decode(
            "ascii", "replace"
        )
        here = self.store.load(RecordHash(claimed))
        if here is not None and here.raw == frame.raw:
            self._are_here()
            return None
        outcome = validate_record(frame.raw)
        if outcome.value is None:
            code = outcome.code or Code.RECORD_MALFORMED
            self._refuse(Refused(f"byte {frame.offset}", code, outcome.detail, frame.raw))
        return outcome.value

    def _rows(self, chunks: Iterable[bytes], form: Form) -> Iterator[Record | None]:
        if self.key is None and not self.unsigned:
            raise UsageError(
                "there is no key to sign with",
                code=Code.KEY_UNKNOWN,
                hint="Give a key, or say that the records are to be unsigned.",
            )
        make = _RowReader(self.rows) if self.rows is not None else None
        lines = _lines(chunks)
        check = None if make is None else make.check_columns
        for number, content, row in (
            _json_rows(lines) if form == "jsonl" else _csv_rows(lines, check)
        ):
            where = f"line {number}"
            try:
                if not _is_text(content):
                    message = f"the line is not UTF-8: {_UTF8}"
                    raise RecordError(message, code=Code.TEXT_UTF8)
                if isinstance(row, LaceError):
                    raise row
                asked = _asked(row) if make is None else make.asked(row)
                made = self._make(asked)
            except LaceError as error:
                found = content if _is_text(content) else content.encode("utf-8", "surrogateescape")
                self._refuse(Refused(where, error.code, error.message, found))
                made = [None]
            yield from made
        yield from self._let_go()

    def _make(self, asked: _Asked) -> list[Record | None]:
        """Return the records that are to be stored for a row; None for what is here already."""
        place = asked.place
        fields = asked.fields
        if self.change_fields is not None:
            fields = self.change_fields(place, fields)
        plex = build_plex(
            group=place.group,
            app=place.app,
            name=place.name,
            tai=asked.time or tai_now(),
            extras=fields,
            data=asked.data,
        )
        if asked.time is None:
            made = self._next(place, plex)
        else:
            made = self._timed(place, asked.time, plex)
        signer = None if self.key is None else self.key.verifier
        if asked.author not in (None, signer) and made != [None]:
            self._count = replace(self._count, signed_anew=self._count.signed_anew + 1)
        return made

    def _timed(self, place: Coordinate, time: Tai, plex: Plex) -> list[Record | None]:
        """Decide about a row with a time: it is here if it was said at that place and time."""
        said = (_said_by(record) for record in self._versions(place, time))
        if _said_by(plex) in self._made.get((place, time), ()) or _said_by(plex) in said:
            return self._are_here()
        return [self._signed(place, time, plex)]

    def _next(self, place: Coordinate, plex: Plex) -> list[Record | None]:
        """Decide about a row without a time: it is what holds at its place from now on.

        Several rows of a file may have one place. If the newest versions there say the same, row
        by row, then the file came before. A row that an older version says is held until it is
        known whether the following rows go on as the following versions do, up to the newest.
        """
        saying = _said_by(plex)
        held = self._held.get(place)
        if held is not None:
            if _said_by(held.rows[-1]) == saying:
                return self._are_here()
            held.at = {i + 1 for i in held.at if held.versions[i + 1] == saying}
            return self._hold(place, held, plex)
        made = self._made.get((place, ""))
        newest = None if made else next(self._versions(place, None, 1), None)
        if (made[-1] if made else newest and _said_by(newest)) == saying:
            return self._are_here()
        if newest is None or newest.tai >= self._begun:
            return [self._signed(place, "", plex)]
        versions = self._all_versions(place)
        held = _Held(versions, {i for i, said in enumerate(versions) if said == saying})
        return self._hold(place, held, plex)

    def _hold(self, place: Coordinate, held: _Held, plex: Plex) -> list[Record | None]:
        """Hold one more row; return all that are held at its place if they are decided now."""
        held.rows.append(plex)
        if held.at and len(held.versions) - 1 not in held.at:
            self._held[place] = held
            self._held_bytes += len(plex.raw)
            return self._let_go() if self._held_bytes > _HELD_BYTES else []
        self._held.pop(place, None)
        self._held_bytes -= sum(len(row.raw) for row in held.rows[:-1])
        if held.at:
            return self._are_here(len(held.rows))
        return [self._signed(place, "", row) for row in held.rows]

    def _let_go(self) -> list[Record | None]:
        """Return all rows that are held: they are not what the newest versions say."""
        held, self._held, self._held_bytes = self._held, {}, 0
        return [self._signed(place, "", row) for place, one in held.items() for row in one.rows]

    def _signed(self, place: Coordinate, time: str, plex: Plex) -> Record:
        self._made.setdefault((place, time), []).append(_said_by(plex))
        self._last_versions = None
        return plex if self.key is None else seal(plex, self.key)

    def _all_versions(self, place: Coordinate) -> list[bytes]:
        """Return what the author's versions at a place say, the oldest first, nothing twice on end.

        Those of the last place are kept: rows of one place often stand together.
        """
        if self._last_versions is None or self._last_versions[0] != place:
            said = [_said_by(record) for record in self._versions(place, None)][::-1]
            self._last_versions = place, [one for one, _ in groupby(said)]
        return self._last_versions[1]

    def _versions(
        self, place: Coordinate, time: Tai | None, most: int = _VERSIONS
    ) -> Iterator[Versioned]:
        """Yield the author's records at a place, and at a time if one is given, newest first."""
        signer = None if self.key is None else self.key.verifier
        version = VersionSelector(
            type="plex" if signer is None else "seal",
            verifier=signer,
            tai=time,
        )
        for hash in self.store.versions(replace(place, selector=version), most):
            record = self.store.load(hash)
            if isinstance(record, Versioned):
                yield record


@dataclass(slots=True)
class _Held:
    """Rows of one place that are here already, or are not, as the next rows will tell."""

    versions: list[bytes]
    """What the versions there say, the oldest first."""
    at: set[int]
    """Which of them may be the one that says what the last row says."""
    rows: list[Plex] = field(default_factory=list)


def _said_by(record: Versioned) -> bytes:
    """Return what stands for the content of a record, whenever and by whomever it was said."""
    extras, data_digest = record.parts[-3:-1]
    return digest(extras + b"\n" + data_digest)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one row asks for."""

    place: Coordinate
    fields: list[tuple[str, str]]
    data: bytes
    time: Tai | None
    author: str | None = None


class _RowReader:
    """Reads rows by a mapping."""

    def __init__(self, rows: RowMap) -> None:
        self._rows = rows
        self._kind = rows.to if isinstance(rows.to, RecordKind) else None
        if self._kind is not None:
            self._group, self._app, self._begin = self._kind.group, self._kind.app, ""
        else:
            place = parse_urc(cast("str", rows.to))
            if not isinstance(place, Prefix):
                raise UsageError(
                    f"{shown(str(rows.to))} is one place, not one for many records",
                    code=Code.URC_FORM,
                    hint="Write //group//app// or //group//app//name/.",
                )
            self._group, self._app, self._begin = place.group, place.app, place.name
        self._taken = {rows.name, rows.data, rows.time}

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise ``UsageError`` if a table has not the columns that are named: no row would do."""
        rows = self._rows
        named = [rows.name, rows.data, rows.time, *(rows.fields or {}).values()]
        missing = [name for name in named if name is not None and name not in columns]
        if missing:
            known = ", ".join(columns)
            raise UsageError(
                f"there is no column {shown(missing[0])}; there are {shown(known)}",
                code=Code.INPUT_KEY,
                hint="Name columns as the first line of the table does.",
            )
        self._check_reserved(columns)

    def _check_reserved(self, columns: Iterable[str]) -> None:
        for name, _ in self._columns(dict.fromkeys(columns)):
            if name.encode("utf-8", "surrogatepass") in grammar.RESERVED_NAMES:
                raise UsageError(
                    f"the column {name} cannot become a field of this name, which is reserved",
                    code=Code.RECORD_HEADER_RESERVED,
                    hint="Say which columns become fields, with --column FIELD=COLUMN for each. "
                    "What lace export wrote comes back whole from .records.",
                )

    def asked(self, row: Mapping[str, Any]) -> _Asked:
        """Return what a row asks for, or raise ``LaceError`` that says what is wrong with it."""
        rows = self._rows
        name = _text(self._cell(row, rows.name))
        if not name:
            raise RecordError(f"column {rows.name} has no name", code=Code.INPUT_KEY)
        fields: list[tuple[str, str]] = []
        for field_name, column in self._columns(row):
            fields += [(field_name, value) for value in _texts(row.get(column)) if value]
        if self._kind is not None:
            self._kind.check(dict(fields))
        time = None if rows.time is None else _text(self._cell(row, rows.time))
        data = "" if rows.data is None else _text(row.get(rows.data))
        place = Coordinate(group=self._group, app=self._app, name=self._begin + name)
        when = read_instant(time) if time else None
        return _Asked(place, fields, data.encode("utf-8", "surrogateescape"), when)

    def _columns(self, row: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        if self._rows.fields is not None:
            return self._rows.fields.items()
        if self._kind is not None:
            return [(name, name) for name in (*self._kind.required, *self._kind.fields)]
        return [(name, name) for name in row if name not in self._taken]

    def _cell(self, row: Mapping[str, Any], column: str) -> Any:
        if column not in row:
            known = ", ".join(row)
            raise RecordError(
                f"there is no column {shown(column)}; there are {shown(known)}",
                code=Code.INPUT_KEY,
            )
        return row[column]


def _asked(row: Mapping[str, Any]) -> _Asked:
    """Return what an object asks for that names its place itself."""
    for name in row:
        if name not in _ENTRIES and name not in _IGNORED:
            known = ", ".join(_ENTRIES)
            raise RecordError(
                f"a record has no entry {shown(name)}; it has {known}", code=Code.INPUT_KEY
            )
    place = parse_urc(_entry(row, "place", str) or "")
    if not isinstance(place, Coordinate) or place.selector is not None:
        raise RecordError(f"{shown(str(row['place']))} is not an exact place", code=Code.URC_FORM)
    fields = _entry(row, "fields", dict) or {}
    pairs = [(name, value) for name, given in fields.items() for value in _texts(given)]
    text, encoded = _entry(row, "data", str), _entry(row, "data_b64", str)
    if text is not None and encoded is not None:
        raise RecordError("a record has data or data_b64, not both", code=Code.INPUT_KEY)
    time = _entry(row, "tai", str)
    try:
        data = (text or "").encode() if encoded is None else b64decode(encoded, validate=True)
    except Base64Error:
        raise RecordError(Code.INPUT_BASE64.meaning, code=Code.INPUT_BASE64) from None
    when = None if time is None else read_instant(time)
    return _Asked(place, pairs, data, when, _entry(row, "author", str))


def _entry(row: Mapping[str, Any], name: str, kind: type) -> Any:
    value = row.get(name)
    if value is not None and not isinstance(value, kind):
        what = "an object" if kind is dict else "a text"
        raise RecordError(f"{name} is {what}", code=Code.INPUT_KEY)
    return value


def _texts(value: Any) -> list[str]:
    """Return the texts of a cell: none for nothing, several for a list."""
    if value is None:
        return []
    return [_text(part) for part in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    """Return a cell as text: what is no text, as JSON writes it."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


_Row = tuple[int, str, Mapping[str, Any] | LaceError]


def _json_rows(lines: Iterable[str]) -> Iterator[_Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield number, line, row
        else:
            yield number, line, RecordError(Code.INPUT_JSON.meaning, code=Code.INPUT_JSON)


def _csv_rows(
    lines: Iterable[str], check: Callable[[Sequence[str]], None] | None
) -> Iterator[_Row]:
    reader = csv.reader(lines, strict=True)
    columns: list[str] | None = None
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            message = f"this is not CSV: {error}; nothing after this can be read"
            yield number, "", RecordError(message, code=Code.INPUT_FILE)
            return
        if cells is None:
            return
        if columns is None:
            columns = cells
            if not _is_text("".join(columns)):
                raise UsageError(
                    f"line 1: the names of the columns are not UTF-8: {_UTF8}",
                    code=Code.TEXT_UTF8,
                )
            for place, name in enumerate(columns):
                if name in columns[:place]:
                    raise UsageError(
                        f"line 1: two columns have one name, {shown(name)}",
                        code=Code.INPUT_FILE,
                        hint="Give one of them another name in the first line of the table.",
                    )
            if check is not None:
                check(columns)
        elif cells:
            content = _csv_line(cells)
            if len(cells) == len(columns):
                yield number, content, dict(zip(columns, cells, strict=True))
            else:
                message = f"{len(cells)} cells under {len(columns)} columns"
                yield number, content, RecordError(message, code=Code.INPUT_KEY)


def _csv_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text with their ends; a line over the limit ends the import."""
    held = b""
    first = True
    limit = DEFAULT_LIMITS.input_line_bytes
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield _decoded(line.removeprefix(_BOM) if first else line) + "\n"
            first = False
        if len(held) > limit:
            raise UsageError(f"a line is longer than {limit} bytes", code=Code.INPUT_LINE_TOO_LONG)
    if held:
        yield _decoded(held.removeprefix(_BOM) if first else held)


def _is_text(text: str) -> bool:
    """Whether the bytes of a line were UTF-8."""
    return text.isascii() or not _ESCAPED.search(text)


def _decoded(line: bytes) -> str:
    # What is no UTF-8 comes through as something that can be told from text.
    return line.decode("utf-8", "surrogateescape")


def _before(head: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from rest


def _opened(source: str | Path) -> BinaryIO:
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}", code=Code.INPUT_FILE) from None
