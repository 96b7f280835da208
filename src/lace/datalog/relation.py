"""Sets of rows with the indexes that joins ask for, kept together under every change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from lace.datalog.order import Order
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
_SAMPLE: Final = 1000


class Relation:
    """A set of rows. Rows and indexes change together, or not at all.

    There is one exception: whoever finds new rows may put them into ``rows`` at once, which spares
    a set of their own, and ``settle`` them later. No index has them before that.

    ``spend`` is told what an index costs, in rows, before it is made or changed.
    """

    __slots__ = ("_indexes", "_listed", "_orders", "_rows", "_settled", "_spend")

    def __init__(self, spend: Callable[[int], None] = lambda _: None) -> None:
        self._spend = spend
        self._rows: Rows = {}
        self._listed: list[Row] = []
        """Rows in place of ``_rows`` until somebody has to find one; some perhaps twice."""
        self._settled = 0
        """How many rows there are for the indexes; those that are not settled are behind them."""
        self._indexes: dict[tuple[int, ...], dict[Key, Bucket]] = {}
        self._orders: dict[int, Order] = {}

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> Rows:
        if self._listed:
            self._rows, self._listed = dict.fromkeys(self._listed), []
            self._settled = len(self._rows)
        return self._rows

    def scan(self) -> Collection[Row]:
        """Return the rows for going through all of them; one may be there twice."""
        return self._listed or self._rows

    # --- asking ---

    def has_index(self, columns: tuple[int, ...]) -> bool:
        return columns in self._indexes

    def index(self, columns: tuple[int, ...]) -> dict[Key, Bucket]:
        """Return rows by their values in some columns; made when first asked for, then kept."""
        index = self._indexes.get(columns)
        if index is None:
            key_of = itemgetter(*columns)
            rows = self._settled_rows()
            self._spend(len(rows))
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
        self._spend(len(rows))
        some = list(map(key_of, islice(rows, _SAMPLE)))
        if len(set(some)) == len(some):  # perhaps no key has two
            alone = dict(zip(map(key_of, rows), map(value_of, rows), strict=True))
            if len(alone) == len(rows):
                return True, alone
        lists: defaultdict[Key, list[str]] = defaultdict(list)
        for row in rows:
            lists[key_of(row)].append(row[column])
        return False, dict(lists)

    def order(self, column: int) -> Order:
        """Return the rows in the order of a column; made when first asked for, then kept."""
        order = self._orders.get(column)
        if order is None:
            self._spend(len(self._settled_rows()))
            order = self._orders[column] = Order(self._settled_rows(), column)
        return order

    def _settled_rows(self) -> Collection[Row]:
        rows = self.rows
        return rows if len(rows) == self._settled else list(islice(rows, self._settled))

    # --- changing ---

    def settle(self) -> list[Row]:
        """Index the rows that were put into ``rows`` since the last time, and return them."""
        new = list(islice(reversed(self.rows), len(self.rows) - self._settled))
        new.reverse()
        self._settled = len(self.rows)
        self._index_all(new)
        return new

    def add_all(self, rows: Collection[Row]) -> None:
        """Add rows that are all new."""
        self.rows.update(dict.fromkeys(rows))
        self._settled = len(self.rows)
        self._index_all(rows)

    def remove_all(self, rows: Collection[Row]) -> None:
        """Remove rows that are all there."""
        self._spend(len(rows) * (len(self._indexes) + len(self._orders)))
        for row in rows:
            del self.rows[row]
        self._settled = len(self.rows)
        for columns, index in self._indexes.items():
            for row in rows:
                _drop(index, _key(row, columns), row)
        for order in self._orders.values():
            order.remove_all(rows)

    def replace(self, rows: list[Row] | Rows) -> None:
        """Begin anew with these rows. Who holds the rows of before keeps them."""
        self._rows, self._listed = ({}, rows) if isinstance(rows, list) else (rows, [])
        self._settled = len(rows)
        self._indexes.clear()
        self._orders.clear()

    def _index_all(self, rows: Collection[Row]) -> None:
        self._spend(len(rows) * (len(self._indexes) + len(self._orders)))
        for columns, index in self._indexes.items():
            for row in rows:
                _put(index, _key(row, columns), row)
        for order in self._orders.values():
            order.insert_all(rows)


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
