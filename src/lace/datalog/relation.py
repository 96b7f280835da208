"""Sets of rows with the indexes that joins ask for, kept together under every change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable
from operator import itemgetter

from lace.datalog.source import Row

Key = str | Row
"""The value of one indexed column, or the values of several."""

Bucket = list[Row] | dict[Row, None]

_LONG = 64  # from this length on, a bucket that loses a row becomes a dict


class Relation:
    """A set of rows. Rows and indexes change together, or not at all."""

    __slots__ = ("_indexes", "_order", "_ordered", "rows")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: set[Row] = set(rows)
        self._order: Collection[Row] | None = None  # all rows, until something changes
        self._indexes: dict[tuple[int, ...], dict[Key, Bucket]] = {}
        self._ordered: dict[int, list[tuple[str, Row]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def has_index(self, columns: tuple[int, ...]) -> bool:
        return columns in self._indexes

    def index(self, columns: tuple[int, ...]) -> dict[Key, Bucket]:
        """Return rows by their values in some columns; made when first asked for, then kept."""
        index = self._indexes.get(columns)
        if index is None:
            key_of = itemgetter(*columns)
            rows = self.rows if self._order is None else self._order
            index = {key_of(row): [row] for row in rows}
            if len(index) < len(rows):  # not unique: gather the rows of each key
                index = {}
                for row in rows:
                    bucket = index.get(key_of(row))
                    if bucket is None:
                        index[key_of(row)] = [row]
                    else:
                        bucket.append(row)  # type: ignore[union-attr]
            self._indexes[columns] = index
        return index

    def between(self, column: int, *bounds: tuple[str, str]) -> tuple[list[tuple[str, Row]], range]:
        """Return rows in the order of a column, and which of them are within all bounds.

        A bound is an operator and a value, such as ``(">=", "a")``.
        """
        ordered = self._ordered.get(column)
        if ordered is None:
            ordered = sorted((row[column], row) for row in self.rows)
            self._ordered[column] = ordered
        start, stop = 0, len(ordered)
        for operator, value in bounds:
            if operator[0] == ">":
                cut = bisect_left if operator == ">=" else bisect_right
                start = max(start, cut(ordered, value, key=_value))
            else:
                cut = bisect_right if operator == "<=" else bisect_left
                stop = min(stop, cut(ordered, value, key=_value))
        return ordered, range(start, stop)

    def add(self, row: Row) -> None:
        self._order = None
        self.rows.add(row)
        for columns, index in self._indexes.items():
            _put(index, _key(row, columns), row)
        for column, ordered in self._ordered.items():
            insort(ordered, (row[column], row))

    def remove(self, row: Row) -> None:
        self._order = None
        self.rows.remove(row)
        for columns, index in self._indexes.items():
            _drop(index, _key(row, columns), row)
        for column, ordered in self._ordered.items():
            del ordered[bisect_left(ordered, (row[column], row))]

    def add_all(self, rows: Collection[Row]) -> None:
        """Add rows that are all new."""
        if not self._indexes and not self._ordered:
            self._order = None
            self.rows.update(rows)
        else:
            for row in rows:
                self.add(row)

    def remove_all(self, rows: Collection[Row]) -> None:
        """Remove rows that are all there."""
        for row in rows:
            self.remove(row)

    def replace(self, rows: Collection[Row]) -> None:
        """Begin anew with these rows; a set becomes the relation's own."""
        self.rows = rows if isinstance(rows, set) else set(rows)
        # Rows in the order they were made lie side by side in memory: an index is made faster.
        unique = isinstance(rows, list) and len(rows) == len(self.rows)
        self._order = rows if unique else None
        self._indexes.clear()
        self._ordered.clear()


def _value(entry: tuple[str, Row]) -> str:
    return entry[0]


def _key(row: Row, columns: tuple[int, ...]) -> Key:
    return row[columns[0]] if len(columns) == 1 else tuple([row[c] for c in columns])


def _put(index: dict[Key, Bucket], key: Key, row: Row) -> None:
    bucket = index.get(key)
    if bucket is None:
        index[key] = [row]
    elif type(bucket) is list:
        bucket.append(row)
    else:
        bucket[row] = None  # type: ignore[call-overload]


def _drop(index: dict[Key, Bucket], key: Key, row: Row) -> None:
    bucket = index[key]
    if type(bucket) is list and len(bucket) > _LONG:
        bucket = index[key] = dict.fromkeys(bucket)
    if isinstance(bucket, list):
        bucket.remove(row)
    else:
        del bucket[row]
    if not bucket:
        del index[key]
