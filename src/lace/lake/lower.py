"""Views and rules of a program as DataFrames: joins, anti joins, counts and filters.

A frame of bindings has a column ``x<n>`` for each variable that is known so far. Facts that are not
needed any further are never carried along.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.program import Absent, Argument, CompiledRule, Count, Join, Relation, View
from lace.errors import LimitExceeded
from lace.lake.counting import RowMeter
from lace.lake.expressions import all_of, compare_count, test_column
from lace.lake.facts import EMPTY_COLUMN, FactFrames, makes_several
from lace.limits import Limits

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def view_frame(view: View, facts: FactFrames, meter: RowMeter | None = None) -> DataFrame:
    """Return the rows of a view; they may repeat. A meter counts them before they are made."""
    # Several lists of one record are multiplied with each other: that is for a meter to see.
    is_counted = meter is not None and sum(map(makes_several, view.patterns)) > 1
    wide = None if is_counted else facts.wide(view)
    if wide is not None:
        return wide
    if view.outputs is None:
        return _whole_facts(view, facts)
    frame: DataFrame | None = None
    for pattern in view.patterns:
        part = fitting(facts.frame(pattern), pattern.slots, "v")
        frame = part if frame is None else joined(frame, part, meter)
    assert frame is not None
    frame = frame.where(all_of([test_column(t, lambda n: F.col(f"v{n}")) for t in view.tests]))
    if not view.outputs:
        return frame.select(F.lit("").alias(EMPTY_COLUMN))
    return frame.select(*(F.col(f"v{n}").alias(f"c{i}") for i, n in enumerate(view.outputs)))


def view_arity(view: View) -> int:
    """Return how many columns the rows of a view have."""
    return len(view.patterns[0].slots if view.outputs is None else view.outputs)


def _whole_facts(view: View, facts: FactFrames) -> DataFrame:
    """Return the facts of a view of one pattern, as they are."""
    (pattern,) = view.patterns
    columns: dict[int, Column] = {}
    conditions: list[Column] = []
    for number, slot in enumerate(pattern.slots):
        column = F.col(f"c{number}")
        if isinstance(slot, str):
            conditions.append(column == F.lit(slot))
        elif slot is not None and slot in columns:
            conditions.append(column == columns[slot])
        elif slot is not None:
            columns[slot] = column
    conditions += [test_column(test, columns.__getitem__) for test in view.tests]
    frame = facts.frame(pattern)
    return frame.where(all_of(conditions)) if conditions else frame


def fitting(
    frame: DataFrame, arguments: Sequence[Argument], prefix: str, also: Sequence[str] = ()
) -> DataFrame:
    """Return the rows that fit constants and repeated variables, one column a variable.

    ``also`` names further columns to keep.
    Without variables there is one row if anything fits, and none if nothing does.
    """
    conditions: list[Column] = []
    columns: dict[int, str] = {}
    for number, argument in enumerate(arguments):
        column = f"c{number}"
        if isinstance(argument, str):
            conditions.append(F.col(column) == F.lit(argument))
        elif argument is not None and argument in columns:
            conditions.append(F.col(column) == F.col(columns[argument]))
        elif argument is not None:
            columns[argument] = column
    if conditions:
        frame = frame.where(all_of(conditions))
    if not columns and not also:
        return frame.select(F.lit(True).alias("found")).limit(1)
    return frame.select(*(F.col(c).alias(f"{prefix}{n}") for n, c in columns.items()), *also)


def joined(left: DataFrame, right: DataFrame, meter: RowMeter | None = None) -> DataFrame:
    """Return two frames of bindings joined on the variables that they share."""
    shared = [name for name in right.columns if name in left.columns and name != "found"]
    if meter is not None and right.columns != ["found"]:
        meter.take(left, right, shared)
    if shared:
        return left.join(right, shared)
    if right.columns == ["found"]:
        right = right.withColumnRenamed("found", f"found{len(left.columns)}")
    return left.crossJoin(right)


@dataclass(frozen=True, slots=True)
class Increment:
    """Rows that stand for a relation in one of the joins of a rule."""

    frame: DataFrame
    is_small: bool
    """Whether every worker can have all of it."""


@dataclass(frozen=True, slots=True)
class RuleLowering:
    """Turns rules into frames of the facts they derive."""

    spark: SparkSession
    frame: Callable[[Relation], DataFrame]
    """The rows of a relation."""
    is_small: Callable[[Relation], bool]
    """Whether a relation is held here, so that every worker can have all of it."""
    limits: Limits
    meter: RowMeter | None = None
    """Counts the rows of joins before they are made; None: only products are looked at."""

    def heads(self, rule: CompiledRule, given: Mapping[int, Increment] | None = None) -> DataFrame:
        """Return what a rule derives, with other rows for some of its joins; rows may repeat."""
        frame = self.bindings(rule, given)
        values = [F.lit(a) if isinstance(a, str) else F.col(f"x{a}") for a in rule.head_arguments]
        if not values:
            return frame.select(F.lit("").alias(EMPTY_COLUMN)).limit(1)
        return frame.select(*(value.alias(f"c{n}") for n, value in enumerate(values)))

    def bindings(
        self, rule: CompiledRule, given: Mapping[int, Increment] | None = None
    ) -> DataFrame:
        """Return the values of the variables for each way that the body of a rule holds."""
        frame = self._joins(rule, given or {})
        if rule.tests:
            frame = frame.where(
                all_of([test_column(test, lambda n: F.col(f"x{n}")) for test in rule.tests])
            )
        for absent in rule.absents:
            frame = self._absent(frame, absent)
        for count in rule.counts:
            frame = self._count(frame, count)
        return frame

    def _joins(self, rule: CompiledRule, given: Mapping[int, Increment]) -> DataFrame:
        waiting = dict(enumerate(rule.joins))
        frame: DataFrame | None = None
        bound: set[int] = set()
        while waiting:
            number = min(waiting, key=lambda n: self._order(n, waiting[n], bound, given))
            join = waiting.pop(number)
            increment = given.get(number)
            rows = self.frame(join.relation) if increment is None else increment.frame
            part = fitting(rows, join.arguments, "x")
            if self._is_sent_around(join.relation, increment):
                part = F.broadcast(part)
            variables = {a for a in join.arguments if isinstance(a, int)}
            if frame is None:
                frame = part
            elif variables and variables <= bound:
                # Nothing new is learnt: whether there is a row matters, not how many there are.
                frame = frame.join(part, sorted(f"x{v}" for v in variables), "left_semi")
            else:
                if variables and not variables & bound and self.meter is None:
                    self._check_product(frame, part)
                frame = joined(frame, part, self.meter)
            bound |= variables
        return self.spark.range(1).toDF("start") if frame is None else frame

    def _order(
        self, number: int, join: Join, bound: set[int], given: Mapping[int, Increment]
    ) -> tuple[bool, ...]:
        """Connected relations first; of these a large one, so that small ones are brought to it."""
        variables = {a for a in join.arguments if isinstance(a, int)}
        connected = bool(variables & bound) or not variables
        small = self._is_sent_around(join.relation, given.get(number))
        return (bool(bound) and not connected, small if not bound else not small)

    def _is_sent_around(self, relation: Relation, increment: Increment | None) -> bool:
        return self.is_small(relation) if increment is None else increment.is_small

    def _check_product(self, left: DataFrame, right: DataFrame) -> None:
        """Refuse a product of two relations before it is made, not after hours."""
        size = left.count() * right.count()
        if size > self.limits.work:
            raise LimitExceeded("work", configured=self.limits.work, observed=size)

    def _absent(self, frame: DataFrame, absent: Absent) -> DataFrame:
        rows = fitting(self.frame(absent.relation), absent.arguments, "x")
        if self.is_small(absent.relation):
            rows = F.broadcast(rows)
        if rows.columns == ["found"]:
            return frame.join(rows, F.lit(True), "left_anti")
        return frame.join(rows, rows.columns, "left_anti")

    def _count(self, frame: DataFrame, count: Count) -> DataFrame:
        rows = self.frame(count.relation)
        same = [F.col(f"c{a}") == F.col(f"c{b}") for a, b in count.same]
        if same:
            rows = rows.where(all_of(same))
        how_many = F.count(F.lit(1)).alias("many")
        variables = {a for a in count.arguments if isinstance(a, int)}
        if variables:
            grouped = fitting(rows, count.arguments, "x")
            counted = grouped.groupBy(*grouped.columns).agg(how_many)
            frame = frame.join(counted, grouped.columns, "left")
        else:
            constants = [
                F.col(f"c{n}") == F.lit(a) for n, a in enumerate(count.arguments) if a is not None
            ]
            frame = frame.crossJoin(rows.where(all_of(constants)).agg(how_many))
        bound = count.bound if isinstance(count.bound, str) else F.col(f"x{count.bound}")
        many = F.coalesce(F.col("many"), F.lit(0))
        return frame.where(compare_count(many, count.operator, bound)).drop("many")
