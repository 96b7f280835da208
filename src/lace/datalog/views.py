"""Rows of views from the facts of a source, a column at a time.

A star is a join by key of a few fields: keys that pass every filter are intersected first, then the
values that rules go on with are put beside them. The same function serves a whole store and the
few facts of one changed record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import itemgetter
from typing import Final

from lace.datalog.builtins import integer_compare, text_compare, text_shape
from lace.datalog.meter import Meter
from lace.datalog.program import Pattern, Slot, View, ViewTest
from lace.datalog.source import FactSource, Row
from lace.datalog.wide import WIDE_TABLES
from lace.errors import LimitExceeded

_KEY_SIZE: Final = {t.predicate: t.key for t in WIDE_TABLES} | {
    t.presence: t.key for t in WIDE_TABLES
}


def view_rows(view: View, source: FactSource, meter: Meter) -> Collection[Row]:
    """Return the rows of a view over the facts of a source; what it makes counts as work.

    A list is in the order of the facts, and may hold a row twice.
    """
    if len(view.patterns) == 1:
        return _single(view, source)
    return _star(view, source, meter)


def _single(view: View, source: FactSource) -> Collection[Row]:
    pattern = view.patterns[0]
    facts = _facts(pattern, source)
    columns = _columns(pattern)
    if not view.tests and not _repeats(pattern):
        return list(map(_picker([columns[local] for local in view.outputs]), facts))
    local_columns = [columns[local] for local in range(view.width)]
    envs = map(_picker(local_columns), (f for f in facts if _consistent(pattern, f)))
    return _project(view, envs)


def _star(view: View, source: FactSource, meter: Meter) -> set[Row]:
    size = _KEY_SIZE[view.patterns[0].predicate]
    key_of = _key_picker(size)
    key_slots = view.patterns[0].slots[:size]
    keys: set[object] | None = None
    carriers: list[Pattern] = []
    for pattern in view.patterns:
        if any(isinstance(slot, int) for slot in pattern.slots[size:]):
            carriers.append(pattern)
            continue
        facts = _facts(pattern, source)
        if keys is None:
            keys = set(map(key_of, facts))
        elif size == 1:
            keys = {fact[0] for fact in facts if fact[0] in keys}
        else:
            keys = keys.intersection(map(key_of, facts))
        if not keys:
            return set()
    if len(carriers) == 1 and not view.tests and not _repeats(carriers[0]):
        columns = _columns(carriers[0])
        pick = _picker([columns[local] for local in view.outputs])
        facts = _facts(carriers[0], source)
        if keys is None:
            return set(map(pick, facts))
        if size == 1:
            return set(map(pick, [fact for fact in facts if fact[0] in keys]))
        return {pick(fact) for fact in facts if key_of(fact) in keys}
    return _project(view, _envs(view, source, key_slots, keys, carriers, meter))


def _envs(
    view: View,
    source: FactSource,
    key_slots: tuple[Slot, ...],
    keys: set[object] | None,
    carriers: list[Pattern],
    meter: Meter,
) -> Iterable[Row]:
    """Return the local columns of every way in which a key satisfies all patterns.

    Rows grow by one pattern at a time: the key first, then what each pattern adds to it.
    """
    size = len(key_slots)
    key_of = _key_picker(size)
    if keys is None:
        keys = set(map(key_of, _facts(carriers[0], source)))
    place = {slot: at for at, slot in enumerate(key_slots) if isinstance(slot, int)}
    rows: list[tuple[object, Row]] = [
        (key, (key,) if size == 1 else key)  # type: ignore[misc]
        for key in keys
    ]
    for pattern in carriers:
        fresh = {slot: c for slot, c in _columns(pattern).items() if slot not in place}
        agree = [
            (place[slot], column)
            for column, slot in enumerate(pattern.slots)
            if column >= size and isinstance(slot, int) and slot in place
        ]
        agree_new = [
            (fresh[slot], column)
            for column, slot in enumerate(pattern.slots)
            if slot in fresh and fresh[slot] != column
        ]
        pick = _picker(fresh.values())
        found: dict[object, list[tuple[Row, Row]]] = {}
        for fact in _facts(pattern, source):
            key = key_of(fact)
            if key in keys and all(fact[a] == fact[b] for a, b in agree_new):
                found.setdefault(key, []).append((pick(fact), fact))
        width = len(rows[0][1]) if rows else 0
        # Fields with many values multiply; the product is paid for before it is made.
        product = sum(len(found.get(key, ())) for key, _ in rows)
        meter.spend(product)
        if product > meter.limits.derived_facts:
            raise LimitExceeded(
                "derived_facts", configured=meter.limits.derived_facts, observed=product
            )
        if agree:
            rows = [
                (key, row + new)
                for key, row in rows
                for new, fact in found.get(key, ())
                if all(row[at] == fact[column] for at, column in agree)
            ]
        else:
            rows = [(key, row + new) for key, row in rows for new, _ in found.get(key, ())]
        place |= {slot: width + at for at, slot in enumerate(fresh)}
    order = _picker([place[local] for local in range(view.width)])
    return [order(row) for _, row in rows]


def _project(view: View, envs: Iterable[Row]) -> set[Row]:
    tests = [compile_test(test) for test in view.tests]
    pick = _picker(view.outputs)
    return {pick(env) for env in envs if all(test(env) for test in tests)}


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


def _facts(pattern: Pattern, source: FactSource) -> Iterator[Row]:
    bound = {i: slot for i, slot in enumerate(pattern.slots) if isinstance(slot, str)}
    return source.select(pattern.predicate, bound) if bound else source.iterate(pattern.predicate)


def _columns(pattern: Pattern) -> dict[int, int]:
    """Return, for each local column, the column of the facts that it comes from."""
    columns: dict[int, int] = {}
    for column, slot in enumerate(pattern.slots):
        if isinstance(slot, int):
            columns.setdefault(slot, column)
    return columns


def _repeats(pattern: Pattern) -> bool:
    locals_ = [slot for slot in pattern.slots if isinstance(slot, int)]
    return len(set(locals_)) < len(locals_)


def _consistent(pattern: Pattern, fact: Row) -> bool:
    """Whether places of one local column agree."""
    columns = _columns(pattern)
    return all(
        fact[columns[slot]] == value
        for slot, value in zip(pattern.slots, fact, strict=True)
        if isinstance(slot, int)
    )


def _picker(columns: Iterable[int]) -> Callable[[Row], Row]:
    """Return a fast function that makes a tuple of some columns."""
    match tuple(columns):
        case ():
            return lambda _: ()
        case (column,):
            return lambda row: (row[column],)
        case many:
            return itemgetter(*many)


def _key_picker(size: int) -> Callable[[Row], object]:
    return itemgetter(0) if size == 1 else itemgetter(*range(size))
