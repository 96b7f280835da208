"""Rules that one look at a record decides: all of them together are one pass over the lake.

Such a rule asks for fields of one record, and for values of these fields in relations that are held
here. Its body becomes a condition on a wide row. As a record has one row, what a pass selects needs
no removal of duplicates, which would cost more than the pass itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.program import Absent, Argument, CompiledRule, Join, Relation, RuleProgram
from lace.datalog.source import Row
from lace.lake.expressions import all_of, any_of, test_column
from lace.lake.facts import FactFrames

if TYPE_CHECKING:
    from pyspark.sql import Column

_LISTED_VALUES: Final = 10_000


@dataclass(frozen=True, slots=True)
class OnePass:
    """Recognises such rules, and makes the pass."""

    program: RuleProgram
    facts: FactFrames
    rows: Callable[[Relation], Collection[Row] | None]
    """The rows of a relation that is held here; None for others."""

    def split(self, rules: Iterable[CompiledRule]) -> tuple[Column | None, list[CompiledRule]]:
        """Return by which condition rules of one pass choose records, and the other rules."""
        conditions: list[Column] = []
        others: list[CompiledRule] = []
        for rule in rules:
            condition = self._condition(rule)
            if condition is None:
                others.append(rule)
            else:
                conditions.append(condition)
        return any_of(conditions) if conditions else None, others

    def _condition(self, rule: CompiledRule) -> Column | None:
        """Return the condition that a rule is, or None if it is none."""
        stars = [join for join in rule.joins if isinstance(join.relation, int)]
        if len(stars) != 1 or rule.counts or len(rule.head_arguments) != 1:
            return None
        (star,) = stars
        assert isinstance(star.relation, int)
        view = self.program.views[star.relation]
        decided = self.facts.condition(view)
        if decided is None or view.outputs is None:
            return None
        condition, locals_ = decided
        columns: dict[int, Column] = {}
        for local, argument in zip(view.outputs, star.arguments, strict=True):
            if isinstance(argument, int):
                columns[argument] = locals_[local]
        key = view.patterns[0].slots[0]
        head = rule.head_arguments[0]
        is_key = isinstance(key, int) and star.arguments[view.outputs.index(key)] == head
        if not (is_key and isinstance(head, int)):
            return None
        terms = (term for test in rule.tests for term in (test.left, test.right, test.end))
        if any(isinstance(term, int) and term not in columns for term in terms):
            return None  # a value of another relation takes part
        parts = [condition, *(test_column(test, columns.__getitem__) for test in rule.tests)]
        literals: list[Join | Absent] = [join for join in rule.joins if join is not star]
        for literal in [*literals, *rule.absents]:
            there = self._member(literal.relation, literal.arguments, columns)
            if there is None:
                return None
            parts.append(~there if isinstance(literal, Absent) else there)
        return all_of(parts)

    def _member(
        self, relation: Relation, arguments: tuple[Argument, ...], columns: dict[int, Column]
    ) -> Column | None:
        """Return whether a relation has a row with values of a record, if these can be listed."""
        rows = self.rows(relation)
        places = [n for n, argument in enumerate(arguments) if isinstance(argument, int)]
        variables = {argument for argument in arguments if isinstance(argument, int)}
        if rows is None or len(variables) > 1 or not variables <= columns.keys():
            return None
        found: set[str] = set()
        for row in rows:
            if any(isinstance(a, str) and a != row[n] for n, a in enumerate(arguments)):
                continue
            if not places:
                return F.lit(True)
            if all(row[place] == row[places[0]] for place in places):
                found.add(row[places[0]])
                if len(found) > _LISTED_VALUES:
                    return None
        if not found:
            return F.lit(False)
        (variable,) = variables
        return columns[variable].isin(sorted(found))
