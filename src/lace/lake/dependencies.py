"""The part of a lake that one fact depends on.

Starting from the fact, every rule that could derive it is followed backwards: what its views match,
given what is known, are records that matter, and the derived facts that it would need are looked at
in turn, whether they hold or not. Negated and counted facts are followed in the same way. So over
the records found, every fact that was looked at is true exactly if it is true over the whole lake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.ast import Predicate
from lace.datalog.program import (
    Absent,
    Argument,
    CompiledRule,
    Count,
    Join,
    RuleProgram,
    ViewTest,
)
from lace.datalog.source import Row
from lace.errors import LimitExceeded
from lace.ids import is_record_hash
from lace.lake.expressions import all_of, test_column
from lace.lake.facts import FactFrames, frame_of_rows
from lace.lake.lower import fitting, joined, view_frame
from lace.limits import LAKE, Limits
from lace.vocabulary import RECORD_FACTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW: Final = 1000

Demand = tuple[Predicate, tuple[int, ...]]
"""A predicate, and the columns whose values are known."""


def relevant_records(
    program: RuleProgram, facts: FactFrames, predicate: Predicate, row: Row, limits: Limits
) -> set[str]:
    """Return the hashes of all records that can matter for whether and why a fact holds."""
    found = _Slice(program, facts)
    found.records.update(value for value in row if is_record_hash(value))
    found.ask((predicate, tuple(range(len(row)))), [row])
    for _ in range(limits.iterations):
        if not found.waiting:
            return found.records
        found.answer()
    raise LimitExceeded("iterations", configured=limits.iterations, observed=limits.iterations + 1)


@dataclass(slots=True)
class _Slice:
    program: RuleProgram
    facts: FactFrames
    records: set[str] = field(default_factory=set)
    waiting: dict[Demand, set[Row]] = field(default_factory=dict)
    _asked: dict[Demand, set[Row]] = field(default_factory=dict)
    _frames: dict[int, DataFrame] = field(default_factory=dict)

    def ask(self, demand: Demand, rows: Iterable[Row]) -> None:
        if demand[0] not in self.program.derived:
            return
        asked = self._asked.setdefault(demand, set())
        new = set(rows) - asked
        if new:
            asked |= new
            self.waiting.setdefault(demand, set()).update(new)

    def answer(self) -> None:
        """Follow all that was asked for one step."""
        waiting, self.waiting = self.waiting, {}
        for (predicate, columns), rows in waiting.items():
            for rule in self.program.rules_of[predicate]:
                self._follow(rule, columns, rows)

    def _follow(self, rule: CompiledRule, columns: tuple[int, ...], rows: set[Row]) -> None:
        bindings = set(_unified(rule, columns, rows))
        if not bindings:
            return
        names = sorted({a for c in columns if isinstance(a := rule.head_arguments[c], int)})
        frame = frame_of_rows(self.facts.spark, bindings, len(names))
        known: DataFrame | None = None
        if names:
            known = frame.select(*(F.col(f"c{n}").alias(f"x{v}") for n, v in enumerate(names)))
        views = [join for join in rule.joins if isinstance(join.relation, int)]
        marks: list[str] = []
        for join in views:
            part, mark = self._view(join, len(marks), _few(names, bindings))
            marks += mark
            known = part if known is None else joined(known, part)
        if known is None:
            matches: list[dict[str, str]] = [{}]
        else:
            tests = [t for t in rule.tests if _variables(t) <= set(_numbers(known.columns))]
            known = known.where(all_of([test_column(t, lambda n: F.col(f"x{n}")) for t in tests]))
            matches = self._collect(known)
        self._remember(matches, marks)
        bound = {int(name[1:]) for match in matches[:1] for name in match if name[0] == "x"}
        for literal in rule.literals:
            if isinstance(literal.relation, Predicate):
                known_columns = tuple(
                    c for c, a in enumerate(literal.arguments) if isinstance(a, str) or a in bound
                )
                self.ask(
                    (literal.relation, known_columns),
                    (_row(literal.arguments, known_columns, match) for match in matches),
                )
            elif not isinstance(literal, Join):
                self._blocking(literal, matches)

    def _blocking(self, literal: Absent | Count, matches: list[dict[str, str]]) -> None:
        """Remember the records of a view that is negated or counted."""
        variables = sorted({a for a in literal.arguments if isinstance(a, int)})
        rows = {tuple(match[f"x{v}"] for v in variables) for match in matches}
        if not rows:
            return
        assert isinstance(literal.relation, int)
        join = Join(literal.relation, literal.arguments)
        part, marks = self._view(join, 0, _few(variables, rows))
        if variables:
            known = frame_of_rows(self.facts.spark, rows, len(variables))
            known = known.select(*(F.col(f"c{n}").alias(f"x{v}") for n, v in enumerate(variables)))
            part = joined(known, part)
        self._remember(self._collect(part), marks)

    def _view(
        self, join: Join, first: int, few: dict[int, list[str]]
    ) -> tuple[DataFrame, list[str]]:
        """Return the rows of a view that fit, with a column for each record they come from."""
        assert isinstance(join.relation, int)
        view = self.program.views[join.relation]
        frame = self._frames.get(join.relation)
        if frame is None:
            frame = self._frames[join.relation] = view_frame(view, self.facts)
        for column, argument in enumerate(join.arguments):
            if isinstance(argument, int) and argument in few:
                frame = frame.where(F.col(f"c{column}").isin(few[argument]))
        arguments = list(join.arguments)
        marks: dict[int, str] = {}
        for pattern in view.patterns:
            slot = pattern.slots[0] if pattern.slots else None
            if pattern.predicate not in RECORD_FACTS:
                continue
            if isinstance(slot, str):
                self.records.add(slot)
            else:
                assert slot is not None or view.outputs is None  # a star has a key
                column = 0 if view.outputs is None else view.outputs.index(slot or 0)
                marks.setdefault(column, f"r{first + len(marks)}")
        fresh = [F.col(f"c{column}").alias(name) for column, name in marks.items()]
        if not fresh:
            return fitting(frame, arguments, "x"), []
        return fitting(frame.select("*", *fresh), arguments, "x", list(marks.values())), [
            *marks.values()
        ]

    def _collect(self, frame: DataFrame) -> list[dict[str, str]]:
        table = frame.distinct().limit(LAKE.supporting_records + 1).toArrow()
        if table.num_rows > LAKE.supporting_records:
            raise LimitExceeded("records that matter", configured=LAKE.supporting_records,
                                observed=table.num_rows)  # fmt: skip
        return table.to_pylist()  # type: ignore[no-any-return]

    def _remember(self, matches: list[dict[str, str]], marks: list[str]) -> None:
        for match in matches:
            self.records.update(match[mark] for mark in marks)
        if len(self.records) > LAKE.supporting_records:
            raise LimitExceeded("records that matter", configured=LAKE.supporting_records,
                                observed=len(self.records))  # fmt: skip


def _unified(rule: CompiledRule, columns: tuple[int, ...], rows: set[Row]) -> Iterator[Row]:
    """Yield the values of the head's variables for each row that the head can be."""
    for row in rows:
        binding: dict[int, str] = {}
        for column, value in zip(columns, row, strict=True):
            argument = rule.head_arguments[column]
            if isinstance(argument, str):
                if argument != value:
                    break
            elif binding.setdefault(argument, value) != value:
                break
        else:
            yield tuple(value for _, value in sorted(binding.items()))


def _few(names: list[int], rows: set[Row]) -> dict[int, list[str]]:
    """Return the values of variables that have so few that files can be skipped by them."""
    if len(rows) > _FEW:
        return {}
    return {name: sorted({row[n] for row in rows}) for n, name in enumerate(names)}


def _row(arguments: tuple[Argument, ...], columns: tuple[int, ...], match: dict[str, str]) -> Row:
    chosen = (arguments[column] for column in columns)
    return tuple(a if isinstance(a, str) else match[f"x{a}"] for a in chosen)


def _variables(test: ViewTest) -> set[int]:
    return {term for term in (test.left, test.right, test.end) if isinstance(term, int)}


def _numbers(columns: list[str]) -> list[int]:
    return [int(name[1:]) for name in columns if name[0] == "x"]
