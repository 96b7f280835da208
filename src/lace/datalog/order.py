"""Rows in the order of one column: what lies between two values is found at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Final

from lace.datalog.source import Row

_MANY: Final = 300  # from so many changes on, a new list is quicker than moving what is behind each


class Order:
    """Rows by the value of a column, equal ones by the whole row; the values are kept beside."""

    __slots__ = ("_column", "_rows", "_values")

    def __init__(self, rows: Iterable[Row], column: int) -> None:
        value_of = itemgetter(column)
        self._column = column
        self._rows = sorted(sorted(rows), key=value_of)
        self._values = list(map(value_of, self._rows))

    def between(self, *bounds: tuple[str, str]) -> tuple[list[Row], range]:
        """Return all rows, and which of them are within all bounds.

        A bound is an operator and a value, such as ``(">=", "a")``. The range begins at the end
        that does not depend on the value, so that the first rows are those of the last time.
        """
        start, stop = 0, len(self._values)
        for operator, value in bounds:
            if operator[0] == ">":
                cut = bisect_left if operator == ">=" else bisect_right
                start = max(start, cut(self._values, value))
            else:
                cut = bisect_right if operator == "<=" else bisect_left
                stop = min(stop, cut(self._values, value))
        within = range(start, stop)
        return self._rows, within if start == 0 else within[::-1]

    def insert_all(self, new: Collection[Row]) -> None:
        column, rows = self._column, self._rows
        in_order = sorted(new, key=lambda row: (row[column], row))
        places = list(map(self._place, in_order))
        if len(places) < _MANY:
            for place, row in zip(reversed(places), reversed(in_order), strict=True):
                self._values.insert(place, row[column])
                rows.insert(place, row)
            return
        whole: list[Row] = []
        for row, start, stop in zip(in_order, [0, *places], places, strict=False):
            whole += rows[start:stop]
            whole.append(row)
        self._renew(whole + rows[places[-1] :])

    def remove_all(self, gone: Collection[Row]) -> None:
        rows = self._rows
        places = sorted(map(self._place, gone))
        if len(places) < _MANY:
            for place in reversed(places):
                del self._values[place], rows[place]
            return
        whole: list[Row] = []
        for start, stop in zip([0, *(place + 1 for place in places)], places, strict=False):
            whole += rows[start:stop]
        self._renew(whole + rows[places[-1] + 1 :])

    def _renew(self, rows: list[Row]) -> None:
        self._rows = rows
        self._values = list(map(itemgetter(self._column), rows))

    def _place(self, row: Row) -> int:
        """Return where a row is, or belongs."""
        value = row[self._column]
        start = bisect_left(self._values, value)
        return bisect_left(self._rows, row, start, bisect_right(self._values, value, start))
