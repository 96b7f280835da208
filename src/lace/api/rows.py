"""Rows of files: JSON Lines and CSV as they are read, and what each row asks for."""

from __future__ import annotations

import csv
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from lace.api.handles import RecordKind
from lace.dates import read_instant
from lace.errors import Code, LaceError, RecordError, UsageError
from lace.limits import DEFAULT_LIMITS, FIXED
from lace.record import grammar
from lace.tai import Tai
from lace.text import shown
from lace.urc import Coordinate, Prefix, parse_urc

__all__ = ["RowMap"]

UTF8: Final = "convert the file, as iconv -f LATIN1 -t UTF-8 does"
BOM: Final = b"\xef\xbb\xbf"
_ESCAPED: Final = re.compile("[\udc80-\udcff]")
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
class Asked:
    """What one row asks for."""

    place: Coordinate
    fields: list[tuple[str, str]]
    data: bytes
    time: Tai | None
    author: str | None = None


class RowReader:
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
        there = set(columns)
        missing = [name for name in named if name is not None and name not in there]
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

    def asked(self, row: Mapping[str, Any]) -> Asked:
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
        return Asked(place, fields, _encoded(data), when)

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


def asked_by(row: Mapping[str, Any]) -> Asked:
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
        data = _encoded(text or "") if encoded is None else b64decode(encoded, validate=True)
    except ValueError:  # also for what is not ASCII
        raise RecordError(Code.INPUT_BASE64.meaning, code=Code.INPUT_BASE64) from None
    when = None if time is None else read_instant(time)
    return Asked(place, pairs, data, when, _entry(row, "author", str))


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
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        raise RecordError("a value has too many levels", code=Code.INPUT_JSON) from None


def _encoded(text: str) -> bytes:
    """Return data as it is stored; JSON can name halves of characters that UTF-8 does not have."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RecordError("the data is not text: half a character", code=Code.TEXT_UTF8) from None


Row = tuple[int, str, Mapping[str, Any] | LaceError]
"""The number of its line, the line, and what it says, or what is wrong with it."""


def json_rows(lines: Iterable[str]) -> Iterator[Row]:
    """Yield the objects of JSON Lines, each with its line; what is none, with what is wrong."""
    number = 0
    try:
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
    except _LineTooLong as error:
        yield number + 1, "", error


def csv_rows(lines: Iterable[str], check: Callable[[Sequence[str]], None] | None) -> Iterator[Row]:
    """Yield the rows of a table, each with its line; the names of its columns are checked first."""
    _allow_long_cells()
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
        except _LineTooLong as error:
            yield reader.line_num + 1, "", error
            return
        if cells is None:
            return
        if columns is None:
            columns = cells
            if len(columns) > FIXED.table_columns:
                raise UsageError(
                    f"line 1: there are {len(columns)} columns, and {FIXED.table_columns} are the "
                    "most",
                    code=Code.INPUT_FILE,
                    hint="Give the columns that become records in a file of their own.",
                )
            if not is_text("".join(columns)):
                raise UsageError(
                    f"line 1: the names of the columns are not UTF-8: {UTF8}",
                    code=Code.TEXT_UTF8,
                )
            before: set[str] = set()
            for name in columns:
                if name in before:
                    raise UsageError(
                        f"line 1: two columns have one name, {shown(name)}",
                        code=Code.INPUT_FILE,
                        hint="Give one of them another name in the first line of the table.",
                    )
                before.add(name)
            if check is not None:
                check(columns)
        elif cells:
            content = _csv_line(cells)
            if len(cells) == len(columns):
                yield number, content, dict(zip(columns, cells, strict=True))
            else:
                message = f"{len(cells)} cells under {len(columns)} columns"
                yield number, content, RecordError(message, code=Code.INPUT_KEY)


def _allow_long_cells() -> None:
    """Let a cell be as long as a line may be; Python has one limit for the whole process."""
    csv.field_size_limit(max(csv.field_size_limit(), DEFAULT_LIMITS.input_line_bytes))


def _csv_line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


class _LineTooLong(LaceError):
    """Nothing after such a line is read; what stands before it is."""

    def __init__(self) -> None:
        limit = DEFAULT_LIMITS.input_line_bytes
        message = f"the line is longer than {limit} bytes; nothing after this can be read"
        super().__init__(message, code=Code.INPUT_LINE_TOO_LONG)


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a text with their ends; a line over the limit is the last thing read."""
    held = b""
    first = True
    for chunk in chunks:
        *whole, held = (held + chunk).split(b"\n")
        for line in whole:
            yield _decoded(line.removeprefix(BOM) if first else line) + "\n"
            first = False
        if len(held) > DEFAULT_LIMITS.input_line_bytes:
            raise _LineTooLong
    if held:
        yield _decoded(held.removeprefix(BOM) if first else held)


def is_text(text: str) -> bool:
    """Whether the bytes of a line were UTF-8."""
    return text.isascii() or not _ESCAPED.search(text)


def _decoded(line: bytes) -> str:
    # What is no UTF-8 comes through as something that can be told from text.
    return line.decode("utf-8", "surrogateescape")
