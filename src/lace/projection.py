"""Records as rows: one row a record, chosen fields as columns, blanks where a record has none."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from lace.dates import iso_date
from lace.extras import require
from lace.record.facts import fields
from lace.record.model import Record

HASH: Final = "Hash"
DATA: Final = "Data"
"""Columns that are no fields: the record's name, and its payload (A42)."""
SIGNED_BY: Final = "Signed-By"
STANDARD: Final = ("Hash", "Group", "App", "Name", "TAI", "Signed-By", "Data-Length")
_PRETTY_ROWS: Final = 50
_PRETTY_TEXT: Final = 40

OWN: Final = frozenset(
    ("Type", "Signed-By", "Signature", "Group", "App", "Name", "TAI", "Data-Length")
)
"""Fields that every record of its type has; they stand under names of their own."""

Cell = str | bytes | None


@dataclass(frozen=True, slots=True)
class Projection:
    """A table over records; rows never change, because records do not."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, records: Iterable[Record], columns: Sequence[str] = STANDARD) -> Projection:
        """Project records onto columns; of a field that occurs again, the first one counts."""
        chosen = tuple(columns)
        return cls(chosen, tuple(_row(record, chosen) for record in records))

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Cell]]:
        for row in self.rows:
            yield dict(zip(self.columns, row, strict=True))

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``."""
        require("arrow", "Projection.to_arrow")
        import pyarrow as pa

        types = [pa.binary() if name == DATA else pa.string() for name in self.columns]
        columns = [[row[place] for row in self.rows] for place in range(len(self.columns))]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.table(arrays, names=list(self.columns))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, with the hash as its index if it is a column."""
        require("pandas", "Projection.to_pandas")
        import pandas as pd

        frame = pd.DataFrame(list(self.rows), columns=list(self.columns))
        return frame.set_index(HASH) if HASH in self.columns else frame

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``."""
        require("polars", "Projection.to_polars")
        import polars as pl

        types = {name: pl.Binary if name == DATA else pl.String for name in self.columns}
        return pl.DataFrame(list(self.rows), schema=types, orient="row")

    def __str__(self) -> str:
        """The table as text, for terminals and scripts."""
        cells = [list(self.columns), *([_shown(cell) for cell in row] for row in self._first())]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        return "\n".join(lines + self._rest())

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) + "</tr>"
            for row in self._first()
        )
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _first(self) -> tuple[tuple[Cell, ...], ...]:
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


def _row(record: Record, columns: tuple[str, ...]) -> tuple[Cell, ...]:
    first = {name: value for name, index, value in fields(record) if index == 0}
    return tuple(
        record.hash if name == HASH else record.data if name == DATA else first.get(name)
        for name in columns
    )


def _shown(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            return f"{len(cell)} bytes"
    else:
        text = cell
    text = "".join(c if c.isprintable() else "·" for c in text[: _PRETTY_TEXT + 1])
    return text if len(text) <= _PRETTY_TEXT else text[: _PRETTY_TEXT - 1] + "…"
