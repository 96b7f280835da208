"""Sets of rows with the indexes that joins ask for, kept together under every change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from lace.datalog.source import Row

Rows = dict[Row, None]
"""A set of rows, as a dict: the order of arrival is kept, and with it the order in memory.

So going through many rows is quick, and the same on every run.
"""

Key = str | Row
"""The value of one indexed column, or the values of several."""

Bucket = list[Row] | Rows

Values = tuple[bool, dict[Key, Any]]
"""Whether no key has two values, and the value of each key, or else a list, repeats included."""

_LONG: Final = 64  # from this length on, a bucket that loses a row becomes a dict
_MANY: Final = 300  # from so many changes on, sorting anew is quicker than moving what is behind
_SAMPLE: Final = 1000


class Relation:
    """A set of rows. Rows and indexes change together, or not at all."""

    __slots__ = ("_indexes", "_listed", "_ordered", "_rows")

    def __init__(self) -> None:
        self._rows: Rows = {}
        self._listed: list[Row] = []
        """Rows in place of ``_rows`` until somebody has to find one."""
        self._indexes: dict[tuple[int, ...], dict[Key, Bucket]] = {}
        self._ordered: dict[int, tuple[list[str], list[Row]]] = {}

    def __len__(self) -> int:
        return len(self._listed) or len(self._rows)

    @property
    def rows(self) -> Rows:
        if self._listed:
            self._rows, self._listed = dict.fromkeys(self._listed), []
        return self._rows

    def scan(self) -> Collection[Row]:
        """Return the rows for going through all of them."""
        return self._listed or self._rows

    # --- asking ---

    def has_index(self, columns: tuple[int, ...]) -> bool:
        return columns in self._indexes

    def index(self, columns: tuple[int, ...]) -> dict[Key, Bucket]:
        """Return rows by their values in some columns; made when first asked for, then kept."""
        index = self._indexes.get(columns)
        if index is None:
            key_of = itemgetter(*columns)
            rows = self.scan()
            index = {key_of(row): [row] for row in rows}
            if len(index) < len(rows):  # not unique: gather the rows of each key
                lists: defaultdict[Key, list[Row]] = defaultdict(list)
                for row in rows:
                    lists[key_of(row)].append(row)
                index = dict(lists)
            self._indexes[columns] = index
        return index

    def values(self, columns: tuple[int, ...], column: int) -> Values:
        """Return one column by the values of others, as it is now: it does not follow changes.

        For joins that go on with one value: this is made faster than an index, and spares the way
        through the rows.
        """
        key_of, value_of = itemgetter(*columns), itemgetter(column)
        rows = self.scan()
        some = list(map(key_of, islice(rows, _SAMPLE)))
        if len(set(some)) == len(some):  # perhaps no key has two
            alone = dict(zip(map(key_of, rows), map(value_of, rows), strict=True))
            if len(alone) == len(rows):
                return True, alone
        lists: defaultdict[Key, list[str]] = defaultdict(list)
        for row in rows:
            lists[key_of(row)].append(row[column])
        return False, dict(lists)

    def between(self, column: int, *bounds: tuple[str, str]) -> tuple[list[Row], range]:
        """Return rows in the order of a column, and which of them are within all bounds.

        A bound is an operator and a value, such as ``(">=", "a")``. The range begins at the end of
        the order that all ranges like this share, so that the first rows are soon well known.
        """
        values, rows = self._order(column)
        start, stop = 0, len(values)
        for operator, value in bounds:
            if operator[0] == ">":
                cut = bisect_left if operator == ">=" else bisect_right
                start = max(start, cut(values, value))
            else:
                cut = bisect_right if operator == "<=" else bisect_left
                stop = min(stop, cut(values, value))
        within = range(start, stop)
        return rows, within if start == 0 else within[::-1]

    def _order(self, column: int) -> tuple[list[str], list[Row]]:
        """Return the values of a column in order, and the rows beside them; equal ones by row."""
        ordered = self._ordered.get(column)
        if ordered is None:
            ordered = self._ordered[column] = [], list(self.scan())
            _sort(*ordered, column)
        return ordered

    # --- changing ---

    def settle(self, size: int) -> list[Row]:
        """Index the rows that were put into ``rows`` since there were so many, and return them.

        To put rows there first spares whoever finds them a set of his own.
        """
        new = list(islice(reversed(self.rows), len(self.rows) - size))
        new.reverse()
        self._index_all(new)
        return new

    def add_all(self, rows: Collection[Row]) -> None:
        """Add rows that are all new."""
        self.rows.update(dict.fromkeys(rows))
        self._index_all(rows)

    def remove_all(self, rows: Collection[Row]) -> None:
        """Remove rows that are all there."""
        for row in rows:
            del self.rows[row]
        for columns, index in self._indexes.items():
            for row in rows:
                _drop(index, _key(row, columns), row)
        for column, (values, ordered) in self._ordered.items():
            if len(rows) < _MANY:
                for row in rows:
                    place = _place(values, ordered, row, column)
                    del values[place], ordered[place]
            else:
                ordered[:] = [row for row in ordered if row in self.rows]
                values[:] = map(itemgetter(column), ordered)

    def replace(self, rows: list[Row] | Rows) -> None:
        """Begin anew with these rows, each there once. Who holds the rows of before keeps them."""
        self._rows, self._listed = ({}, rows) if isinstance(rows, list) else (rows, [])
        self._indexes.clear()
        self._ordered.clear()

    def _index_all(self, rows: Collection[Row]) -> None:
        for columns, index in self._indexes.items():
            for row in rows:
                _put(index, _key(row, columns), row)
        for column, (values, ordered) in self._ordered.items():
            if len(rows) < _MANY:
                for row in rows:
                    place = _place(values, ordered, row, column)
                    values.insert(place, row[column])
                    ordered.insert(place, row)
            else:
                ordered.extend(rows)
                _sort(values, ordered, column)


def _sort(values: list[str], rows: list[Row], column: int) -> None:
    """Bring rows into the order of a column, then of the row, and the values beside them."""
    value_of = itemgetter(column)
    rows.sort()
    rows.sort(key=value_of)
    values[:] = map(value_of, rows)


def _place(values: list[str], rows: list[Row], row: Row, column: int) -> int:
    """Return where a row is, or belongs."""
    start = bisect_left(values, row[column])
    return bisect_left(rows, row, start, bisect_right(values, row[column], start))


def _key(row: Row, columns: tuple[int, ...]) -> Key:
    return row[columns[0]] if len(columns) == 1 else tuple([row[c] for c in columns])


def _put(index: dict[Key, Bucket], key: Key, row: Row) -> None:
    bucket = index.get(key)
    if bucket is None:
        index[key] = [row]
    elif isinstance(bucket, list):
        bucket.append(row)
    else:
        bucket[row] = None


def _drop(index: dict[Key, Bucket], key: Key, row: Row) -> None:
    bucket = index[key]
    if isinstance(bucket, list) and len(bucket) > _LONG:
        bucket = index[key] = dict.fromkeys(bucket)
    if isinstance(bucket, list):
        bucket.remove(row)
    else:
        del bucket[row]
    if not bucket:
        del index[key]
