"""Rules of one's own, evaluated over everything that is here: selectors, exposure, lowerings.

No operand and no module is known here, only programs. Rules of a peer are evaluated in ``view``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from lace.datalog.ast import Predicate
from lace.datalog.change import Change, FactChange
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.explain import Explainer
from lace.datalog.maintain import follow
from lace.datalog.program import RuleProgram
from lace.datalog.source import FactSource, MemorySource, Row
from lace.errors import LimitExceeded
from lace.limits import DEFAULT_LIMITS, Limits


class Without:
    """A fact source without the facts of some predicates."""

    def __init__(self, source: FactSource, hidden: frozenset[Predicate]) -> None:
        self._source = source
        self._hidden = hidden

    def predicates(self) -> Iterable[Predicate]:
        return [p for p in self._source.predicates() if p not in self._hidden]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return iter(()) if predicate in self._hidden else self._source.iterate(predicate)

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        return iter(()) if predicate in self._hidden else self._source.query(predicate, *values)

    def count(self, predicate: Predicate, /) -> int:
        return 0 if predicate in self._hidden else self._source.count(predicate)

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        return iter(()) if predicate in self._hidden else self._source.select(predicate, bound)


def evaluate_own(
    program: RuleProgram,
    source: FactSource,
    *,
    outputs: Iterable[Predicate] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Evaluation:
    """Return all derived facts of one's own rules, as ``evaluate`` does.

    They are held to limits of their own, which do not count one's own records (L62).
    """
    with _own_limits():
        return evaluate(program, source, outputs=outputs, limits=limits.own)


@contextmanager
def _own_limits() -> Iterator[None]:
    """Name the limits of own rules in what is raised."""
    try:
        yield
    except LimitExceeded as error:
        limit = {"derived_facts": "own_derived_facts", "work": "own_work"}.get(error.limit)
        if limit is None:
            raise
        raise LimitExceeded(limit, configured=error.configured, observed=error.observed) from None


@dataclass(slots=True)
class OwnRules:
    """What rules of one's own derive, kept up to date; see ``evaluate_own`` for their limits."""

    program: RuleProgram
    facts: MemorySource
    outputs: tuple[Predicate, ...]
    limits: Limits = DEFAULT_LIMITS
    blind_to: frozenset[Predicate] = frozenset()
    """Predicates whose facts these rules may not look at."""
    _evaluation: Evaluation = field(init=False)

    def __post_init__(self) -> None:
        seen = self._seen(self.facts)
        made = evaluate_own(self.program, seen, outputs=self.outputs, limits=self.limits)
        made.prepare()
        self._evaluation = made

    def rows(self, predicate: Predicate) -> AbstractSet[Row]:
        """Return the facts of a derived predicate."""
        return self._evaluation.rows(predicate)

    def explainer(self) -> Explainer:
        return Explainer(self._evaluation)

    def follow(self, change: FactChange) -> dict[Predicate, Change]:
        """Follow a change of the facts; return how the outputs changed."""
        if change.is_large:
            before = self._evaluation
            self.__post_init__()
            return {p: Change.between(before.rows(p), self.rows(p)) for p in self.outputs}
        with _own_limits():
            return follow(self._evaluation, self._seen(change.before), self._seen(change.after))

    def _seen(self, facts: FactSource) -> FactSource:
        return Without(facts, self.blind_to) if self.blind_to else facts
