"""Counts of facts, compared with a bound: no further than the answer needs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from lace.datalog.meter import Meter
from lace.datalog.program import Count
from lace.datalog.relation import Relation

Counter = Callable[[tuple[str | None, ...], int], int]
"""Count the facts of a predicate that fit some values, but no further than needed."""


def decide(counter: Counter, values: tuple[str | None, ...], operator: str, bound: str) -> bool:
    """Compare a count with a bound, counting only as far as the answer needs."""
    limit = _integer(bound)
    if limit is None:
        return False
    stop = limit + 1 if operator in {"<=", ">"} else limit
    if stop <= 0:
        return operator in {">", ">="}
    enough = counter(values, stop) >= stop
    return enough is (operator in {">", ">="})


@lru_cache(maxsize=64)
def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal():
        return None
    digits = digits.lstrip("0")
    # No relation has 10^18 rows; Python refuses to convert very long numbers.
    value = int(digits or "0") if len(digits) <= 18 else 10**18
    return -value if text.startswith("-") else value


def stored_counter(part: Count, relation: Relation, meter: Meter) -> Counter:
    """Count the rows of a stored relation through the index on the columns that are given."""
    columns = tuple(c for c, a in enumerate(part.arguments) if a is not None)
    same = part.same

    def matching(values: tuple[str | None, ...]) -> Collection[Any]:
        if not columns:
            return relation.rows
        if len(columns) == len(values):
            return [values] if values in relation.rows else []
        key: Any = tuple([values[c] for c in columns])
        return relation.index(columns).get(key[0] if len(columns) == 1 else key, ())

    if not same:
        return lambda values, _stop: len(matching(values))

    def count(values: tuple[str | None, ...], stop: int) -> int:
        found = 0
        for row in matching(values):
            meter.spend(1)
            found += all(row[a] == row[b] for a, b in same)
            if found >= stop:
                break
        return found

    return count
