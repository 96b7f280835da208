"""Records as rows: one row a record, chosen fields as columns, blanks where a record has none.

Fields are texts and data are bytes, unless a type is declared for them. What is not of its declared
type is blank, and told as a fault: a table of what others wrote must not break on one of them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, Literal

from lace.dates import iso_date
from lace.errors import Code, UsageError
from lace.extras import require
from lace.ids import RecordHash
from lace.limits import FIXED
from lace.record.facts import fields
from lace.record.model import Record
from lace.text import shown
from lace.values import DATA, MOST_DIGITS, Cell, NoValue, Type, Value, check_types, read_value

Newest = Literal["tip", "author"]
"""Which versions count as the newest: one at each place, or one of each author at each place."""

HASH: Final = "Hash"
"""A column that is no field: the record's name (A42)."""
SIGNED_BY: Final = "Signed-By"
STANDARD: Final = ("Hash", "Group", "App", "Name", "TAI", "Signed-By", "Data-Length")
_PRETTY_ROWS: Final = 50
_PRETTY_TEXT: Final = 40

OWN: Final = frozenset(
    ("Type", "Signed-By", "Signature", "Group", "App", "Name", "TAI", "Data-Length")
)
"""Fields that every record of its type has; they stand under names of their own."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that is not of the type that is declared for its column."""

    record: RecordHash
    """The record that has the value."""
    column: str
    """The column that it was to stand in."""
    detail: str
    """What is wrong with it, in words."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A table over records; rows never change, because records do not."""

    columns: tuple[str, ...]
    """The names of the columns."""
    rows: tuple[tuple[Value, ...], ...]
    """One row for each record, with a value for each column."""
    types: tuple[Type, ...] = ()
    """Of each column; text, and bytes for data, where nothing is declared."""
    faults: tuple[Fault, ...] = ()
    """Values that were left blank; the first thousand."""

    @classmethod
    def of(
        cls,
        records: Iterable[Record],
        columns: Sequence[str] = STANDARD,
        *,
        newest: bool | Newest = False,
        types: Mapping[str, Type] | None = None,
    ) -> Projection:
        """Project records onto columns; of a field that occurs again, the first one counts.

        ``newest`` leaves out what is not the newest version: at its place (True or ``tip``, by time
        and then by hash), or of its author at its place (``author``). ``types`` declares what
        columns hold: text, bytes, int, decimal, datetime (of ISO 8601, in UTC if it names no zone,
        or of TAI) or json.
        """
        if isinstance(columns, str):
            raise UsageError(
                "columns is a list of names, not a str",
                code=Code.INPUT_TYPE,
                hint=f"Write [{columns!r}] for one.",
            )
        chosen = tuple(columns)
        declared = types or {}
        check_types(declared)
        kinds = tuple(declared.get(name, "bytes" if name == DATA else "text") for name in chosen)
        found = list(records) if newest is False else newest_of(records, newest)
        faults: list[Fault] = []
        rows = tuple(_row(record, chosen, kinds, faults) for record in found)
        return cls(chosen, rows, kinds, tuple(faults[: FIXED.projection_faults]))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Value]]:
        for row in self.rows:
            yield dict(zip(self.columns, row, strict=True))

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` with the declared types; JSON stays text there."""
        require("arrow", "Projection.to_arrow")
        import pyarrow as pa

        plain = {"text": pa.string(), "bytes": pa.binary(), "int": pa.int64(), "json": pa.string()}
        plain["datetime"] = pa.timestamp("us", tz="UTC")
        arrays = []
        for place, kind in enumerate(self._types):
            values = self._column(place, as_json=True)
            made = pa.decimal128(MOST_DIGITS, _scale(values)) if kind == "decimal" else plain[kind]
            arrays.append(pa.array(values, made))
        return pa.table(arrays, names=list(self.columns))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, with the hash as its index if it is a column."""
        require("pandas", "Projection.to_pandas")
        import pandas as pd

        dtypes = {"text": "string", "int": "Int64", "datetime": "datetime64[us, UTC]"}
        frame = pd.DataFrame(
            {
                name: pd.Series(self._column(place), dtype=dtypes.get(kind, "object"))
                for place, (name, kind) in enumerate(zip(self.columns, self._types, strict=True))
            }
        )
        return frame.set_index(HASH) if HASH in self.columns else frame

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` with the declared types; JSON stays text there."""
        require("polars", "Projection.to_polars")
        import polars as pl

        plain: dict[str, Any] = {"text": pl.String, "bytes": pl.Binary, "int": pl.Int64}
        plain |= {"json": pl.String, "datetime": pl.Datetime("us", "UTC")}
        made = []
        for place, (name, kind) in enumerate(zip(self.columns, self._types, strict=True)):
            values = self._column(place, as_json=True)
            type = pl.Decimal(MOST_DIGITS, _scale(values)) if kind == "decimal" else plain[kind]
            made.append(pl.Series(name, values, dtype=type))
        return pl.DataFrame(made)

    @property
    def _types(self) -> tuple[Type, ...]:
        return self.types or tuple("bytes" if name == DATA else "text" for name in self.columns)

    def _column(self, place: int, *, as_json: bool = False) -> list[Any]:
        values = [row[place] for row in self.rows]
        if as_json and self._types[place] == "json":
            return [None if value is None else json.dumps(value) for value in values]
        return values

    def __str__(self) -> str:
        """The table as text, for terminals and scripts."""
        cells = [list(self.columns), *([_shown(cell) for cell in row] for row in self._first())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join(lines + self._rest())

    def __repr__(self) -> str:
        """The same: all rows would be too many to look at."""
        return str(self)

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) + "</tr>"
            for row in self._first()
        )
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _first(self) -> tuple[tuple[Value, ...], ...]:
        return self.rows[:_PRETTY_ROWS]

    def _rest(self) -> list[str]:
        more = len(self.rows) - _PRETTY_ROWS
        return [f"… and {more} more"] if more > 0 else []


def entry_of(record: Record) -> dict[str, Any]:
    """Return a record in the one JSON shape that it has everywhere."""
    extras: dict[str, list[str]] = {}
    for name, _, value in fields(record):
        if name not in OWN:
            extras.setdefault(name, []).append(value)
    return {
        "author": record.author,
        "date": None if record.time is None else iso_date(record.time),
        "fields": extras,
        "hash": record.hash,
        "place": None if record.place is None else str(record.place),
        "tai": record.time,
        "type": record.type,
    } | data_entry(record.data)


def data_entry(data: bytes) -> dict[str, str]:
    """Return data as text, or as Base64 under another name where it is none."""
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_b64": b64encode(data).decode()}


def field_names(record: Record) -> set[str]:
    """Return the names of the fields that a record has beyond those of its type."""
    return {name for name, _, _ in fields(record)} - OWN


def repeated_fields(record: Record) -> set[str]:
    """Return the names of the fields that a record has more than once."""
    return {name for name, index, _ in fields(record) if index > 0} - OWN


def newest_of(records: Iterable[Record], rule: bool | Newest = True) -> list[Record]:
    """Return the newest versions by a rule, oldest first; what has no place is its own version."""
    if rule not in {True, False, "tip", "author"}:
        raise UsageError(
            f"newest is {shown(str(rule))}", code=Code.INPUT_TYPE, hint="Say tip or author."
        )
    tips: dict[object, Record] = {}
    for record in sorted(records, key=lambda one: (one.time or "", one.hash)):
        place: object = record.place or record.hash
        tips[(place, record.author) if rule == "author" else place] = record
    return sorted(tips.values(), key=lambda one: (one.time or "", one.hash))


def cell_of(record: Record, column: str) -> Cell:
    """Return what a record has in a column, as it stands there."""
    return _cells(record, (column,))[0]


def _cells(record: Record, columns: tuple[str, ...]) -> tuple[Cell, ...]:
    first = {name: value for name, index, value in fields(record) if index == 0}
    return tuple(
        record.hash if name == HASH else record.data if name == DATA else first.get(name)
        for name in columns
    )


def _row(
    record: Record, columns: tuple[str, ...], types: tuple[Type, ...], faults: list[Fault]
) -> tuple[Value, ...]:
    values: list[Value] = []
    for column, type, cell in zip(columns, types, _cells(record, columns), strict=True):
        try:
            values.append(None if cell is None else read_value(cell, type))
        except NoValue as error:
            values.append(None)
            if len(faults) < FIXED.projection_faults:
                faults.append(Fault(record.hash, column, str(error)))
    return tuple(values)


def _scale(values: list[Any]) -> int:
    """Return how many digits behind the point a column of decimals needs."""
    return max((-value.as_tuple().exponent for value in values if value is not None), default=0)


def _shown(cell: Value) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            return f"{len(cell)} bytes"
    else:
        text = json.dumps(cell) if isinstance(cell, dict | list) else str(cell)
    text = "".join(c if c.isprintable() else "·" for c in text[: _PRETTY_TEXT + 1])
    return text if len(text) <= _PRETTY_TEXT else text[: _PRETTY_TEXT - 1] + "…"
