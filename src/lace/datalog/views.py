"""Rows of views from the facts of a source, a column at a time.

A star is a join by key of a few fields: keys that pass every filter are intersected first, then the
values that rules go on with are put beside them. The same function serves a whole store and the
few facts of one changed record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

from lace.datalog.builtins import integer_compare, text_compare, text_shape
from lace.datalog.meter import Meter
from lace.datalog.program import Pattern, Slot, View, ViewTest
from lace.datalog.relation import Rows
from lace.datalog.source import FactSource, Row, looked_at
from lace.errors import LimitExceeded

_VIEW: Final = 20  # what a pattern costs that no fact fits, measured in tuples


def view_rows(view: View, source: FactSource, meter: Meter) -> list[Row] | Rows:
    """Return the rows of a view over the facts of a source, in the order of the facts.

    A list may hold a row twice. What is made to find rows counts as work.
    """
    if view.outputs is None:
        return _facts_themselves(view, source, meter)
    return _star(view, view.outputs, source, meter)


def _facts_themselves(view: View, source: FactSource, meter: Meter) -> list[Row]:
    (pattern,) = view.patterns
    where: dict[int, int] = {}
    same = _place(enumerate(pattern.slots), where)
    return _passing(list(_facts(pattern, source, meter)), same, view.tests, where, meter)


def _star(view: View, outputs: tuple[int, ...], source: FactSource, meter: Meter) -> Rows:
    """Put rows together by key: the key first, then what each pattern adds to it."""
    size = view.key
    key_of = itemgetter(*range(size))
    carriers = [p for p in view.patterns if any(isinstance(s, int) for s in p.slots[size:])]
    carriers = carriers or [view.patterns[-1]]
    keys: set[Any] | None = None
    for pattern in view.patterns:
        if pattern not in carriers:
            found = map(key_of, _facts(pattern, source, meter))
            keys = set(found) if keys is None else keys.intersection(found)
            if not keys:
                return {}
    where: dict[int, int] = {}
    same = _place(enumerate(view.patterns[0].slots[:size]), where)
    rows: list[Row] = []
    width = size
    for pattern in carriers:
        columns = [c for c, s in enumerate(pattern.slots) if c >= size and isinstance(s, int)]
        facts: Iterable[Row] = _facts(pattern, source, meter)
        if keys is not None:
            facts = [fact for fact in facts if key_of(fact) in keys]
        if len(carriers) > 1:
            facts = dict.fromkeys(facts)  # repeats would multiply
        if pattern is carriers[0]:
            rows = list(map(_picker([*range(size), *columns]), facts))
        else:
            rows = _beside(rows, facts, columns, key_of, meter)
        same += _place(enumerate((pattern.slots[c] for c in columns), width), where)
        width += len(columns)
    rows = _passing(rows, same, view.tests, where, meter)
    return dict.fromkeys(map(_picker([where[local] for local in outputs]), rows))


def _beside(
    rows: list[Row],
    facts: Iterable[Row],
    columns: list[int],
    key_of: Callable[[Row], Any],
    meter: Meter,
) -> list[Row]:
    """Return each row with some columns of each fact that has its key."""
    pick = _picker(columns)
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for fact in facts:
        found[key_of(fact)].append(pick(fact))
    # Fields with many values multiply; the product is paid for before it is made.
    product = sum(len(found.get(key_of(row), ())) for row in rows)
    meter.spend(product)
    if product > meter.limits.derived_facts:
        raise LimitExceeded(
            "derived_facts", configured=meter.limits.derived_facts, observed=product
        )
    return [row + more for row in rows for more in found.get(key_of(row), ())]


def _place(slots: Iterable[tuple[int, Slot]], where: dict[int, int]) -> list[tuple[int, int]]:
    """Note the first place of each local column; return the pairs of places that must agree."""
    return [
        (where[slot], place)
        for place, slot in slots
        if isinstance(slot, int) and where.setdefault(slot, place) != place
    ]


def _passing(
    rows: list[Row],
    same: list[tuple[int, int]],
    tests: Iterable[ViewTest],
    where: dict[int, int],
    meter: Meter,
) -> list[Row]:
    """Return the rows whose places agree and that pass the tests on local columns."""
    for a, b in same:
        meter.spend(len(rows))
        rows = [row for row in rows if row[a] == row[b]]

    def place(value: str | int) -> str | int:
        return where[value] if isinstance(value, int) else value

    for test in tests:
        meter.spend(len(rows))
        moved = replace(test, left=place(test.left), right=place(test.right), end=place(test.end))
        looked_at = sorted({v for v in (moved.left, moved.right, moved.end) if isinstance(v, int)})
        decide = compile_test(moved)
        if len(looked_at) == 1:
            # Many rows have few values, so each value is decided once.
            (column,) = looked_at
            decided = {row[column]: row for row in rows}
            passing = {value for value, row in decided.items() if decide(row)}
            rows = [row for row in rows if row[column] in passing]
        else:
            rows = list(filter(decide, rows))
    return rows


def compile_test(test: ViewTest) -> Callable[[Row], bool]:
    """Return a function that decides a test on a tuple of values."""

    def getter(value: str | int) -> Callable[[Row], str]:
        return (lambda row: row[value]) if isinstance(value, int) else (lambda _: value)

    left, right, end = getter(test.left), getter(test.right), getter(test.end)
    operator = test.operator
    if test.kind == "NotEqual":
        return lambda row: left(row) != right(row)
    if test.kind == "TextShape":
        return lambda row: text_shape(left(row), right(row), operator, end(row))
    compare = text_compare if test.kind == "LexCompare" else integer_compare
    return lambda row: compare(left(row), operator, right(row))


def _facts(pattern: Pattern, source: FactSource, meter: Meter) -> Iterator[Row]:
    bound = {i: slot for i, slot in enumerate(pattern.slots) if isinstance(slot, str)}
    meter.spend(_VIEW + looked_at(source, pattern.predicate, bound))
    return source.select(pattern.predicate, bound)


def _picker(columns: Iterable[int]) -> Callable[[Row], Row]:
    """Return a fast function that makes a tuple of some columns."""
    match tuple(columns):
        case ():
            return lambda _: ()
        case (column,):
            return lambda row: (row[column],)
        case many:
            return itemgetter(*many)
