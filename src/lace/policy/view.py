"""What a peer's rules can see: the only place that hands facts to them (020, 040).

A query view shows record facts of exposed records, and everything that is public to both sides:
advertisements and runtime facts. Every way of asking goes through it, so that positive, negated and
counted atoms cannot differ in what they see.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation as Evaluation  # noqa: PLC0414  (for those who only hold one)
from lace.datalog.evaluate import evaluate
from lace.datalog.maintain import Change, Touched, follow
from lace.datalog.program import RuleProgram
from lace.datalog.source import FactSource, MemorySource, Row
from lace.errors import Code, PolicyError
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import Facet, PolicyModule
from lace.policy.origin import Viewer
from lace.vocabulary import (
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    PLAIN_SCHEMA,
    RECORD_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    TICK_TAI,
)

_FACETS: Final = (SELECT_HAVE, SELECT_ADVERTISED)

Expose = Literal["none", "selected", "everything"]
"""Nothing, what the local selector selects, or everything (for a peer that is trusted)."""


class QueryView:
    """A fact source that shows the record facts of visible records only."""

    def __init__(self, source: FactSource, visible: Collection[str]) -> None:
        self._source = source
        self._visible = visible

    def predicates(self) -> Iterable[Predicate]:
        return [p for p in self._source.predicates() if next(self.iterate(p), None) is not None]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return self._see(predicate, self._source.iterate(predicate))

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        return self._see(predicate, self._source.query(predicate, *values))

    def count(self, predicate: Predicate, /) -> int:
        return sum(1 for _ in self.iterate(predicate))

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        return self._see(predicate, self._source.select(predicate, bound))

    def _see(self, predicate: Predicate, rows: Iterator[Row]) -> Iterator[Row]:
        if predicate not in RECORD_FACTS:
            return rows
        visible = self._visible
        return (row for row in rows if row[0] in visible)


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


def evaluate_local(
    module: PolicyModule, source: FactSource, limits: Limits = DEFAULT_LIMITS
) -> Evaluation:
    """Evaluate this side's own selector: it sees everything."""
    return evaluate(module.program, source, outputs=_FACETS, limits=limits)


def evaluate_peer(
    module: PolicyModule,
    source: FactSource,
    visible: Collection[str],
    limits: Limits = DEFAULT_LIMITS,
) -> Evaluation:
    """Evaluate the peer's selector: it sees visible records, and what is public to both."""
    return evaluate(module.program, QueryView(source, visible), outputs=_FACETS, limits=limits)


def evaluate_lowering(
    program: RuleProgram, facets: FactSource, limits: Limits = DEFAULT_LIMITS
) -> Evaluation:
    """Evaluate a lowering: it sees what both selectors selected, and runtime facts."""
    return evaluate(program, facets, limits=limits)


@dataclass(frozen=True, slots=True)
class Exposure:
    """Local policy on what a viewer's rules may see. The default is nothing.

    Modules that speak of the viewer are intersected: adding one never widens a view. ``union`` is
    for local policy that wants to widen on purpose.
    """

    modules: tuple[PolicyModule, ...] = ()
    default: Expose = "none"
    """What is seen when no module speaks of the viewer."""
    union: bool = False

    def __post_init__(self) -> None:
        if any(module.facet is not Facet.EXPOSE for module in self.modules):
            raise PolicyError("only expose modules expose", code=Code.POLICY_FACET)

    def looks_at_time(self, viewer: Viewer) -> bool:
        """Whether what it shows a viewer depends on moving time."""
        return any(module.mentions(TICK_TAI.name) for module in self.modules_for(viewer))

    def modules_for(self, viewer: Viewer) -> tuple[PolicyModule, ...]:
        """Return the modules with a head that fits this viewer (A18)."""
        return tuple(
            module
            for module in self.modules
            if (viewers := module.viewers()) is None or viewer in viewers
        )


@dataclass(slots=True)
class VisibleRecords:
    """CanQueryRecord for one viewer, kept up to date: the set of records that a view shows."""

    exposure: Exposure
    viewer: Viewer
    records: set[str] = field(default_factory=set)
    _evaluations: list[Evaluation] = field(default_factory=list)
    _everything: FactSource | None = None

    @classmethod
    def compute(
        cls,
        exposure: Exposure,
        viewer: Viewer,
        source: FactSource,
        selected: Evaluation,
        limits: Limits = DEFAULT_LIMITS,
    ) -> VisibleRecords:
        """Evaluate the exposure as local policy, over all record and runtime facts (G19)."""
        made = cls(exposure, viewer)
        local = Without(source, ADVERTISEMENT_FACTS)
        for module in exposure.modules_for(viewer):
            evaluation = evaluate(
                module.program, local, outputs=[ALLOW_QUERY_RECORD], limits=limits
            )
            made._evaluations.append(evaluation)
        if made._evaluations:
            sets = [made._allowed(evaluation) for evaluation in made._evaluations]
            combine = set.union if exposure.union else set.intersection
            made.records = combine(*sets)
        elif exposure.default == "selected":
            made.records = {row[0] for row in selected.rows(SELECT_HAVE)}
        elif exposure.default == "everything":
            made._everything = source
            made.records = {row[0] for p in RECORD_FACTS for row in source.iterate(p)}
        return made

    def prepare(self) -> None:
        for evaluation in self._evaluations:
            evaluation.prepare()

    def follow(
        self,
        before: MemorySource,
        after: MemorySource,
        selected: Change | None,
        touched: Iterable[Touched],
    ) -> set[str]:
        """Follow a change of the local facts; return the records whose visibility changed."""
        doubtful: set[str] = set()
        if self._evaluations:
            hidden = _local_part(before), _local_part(after)
            for evaluation in self._evaluations:
                change = follow(evaluation, *hidden).get(ALLOW_QUERY_RECORD, Change())
                rows = change.removed | change.added
                doubtful |= {record for viewer, record in rows if viewer == self.viewer}
        elif self.exposure.default == "selected" and selected is not None:
            doubtful = {row[0] for row in selected.removed | selected.added}
        elif self.exposure.default == "everything":
            doubtful = {row[0] for predicate, row in touched if predicate in RECORD_FACTS}
        changed = {
            record
            for record in doubtful
            if self._shows(record, selected) != (record in self.records)
        }
        self.records ^= changed
        return changed

    def _shows(self, record: str, selected: Change | None) -> bool:
        if self._evaluations:
            shown = (
                (self.viewer, record) in evaluation.rows(ALLOW_QUERY_RECORD)
                for evaluation in self._evaluations
            )
            return any(shown) if self.exposure.union else all(shown)
        if self._everything is not None:
            source = self._everything
            return any(next(source.query(p, record), None) is not None for p in RECORD_FACTS)
        return selected is not None and (record,) in selected.added

    def _allowed(self, evaluation: Evaluation) -> set[str]:
        rows = evaluation.rows(ALLOW_QUERY_RECORD)
        return {record for viewer, record in rows if viewer == self.viewer}


def _local_part(source: MemorySource) -> MemorySource:
    """Return the facts that expose modules may look at: no claims of a peer."""
    return visible_part(source, None)


def visible_part(source: MemorySource, visible: Collection[str] | None) -> MemorySource:
    """Return the facts of a small source that a view shows; None stands for local policy's view."""
    shown: QueryView | Without = (
        Without(source, ADVERTISEMENT_FACTS) if visible is None else QueryView(source, visible)
    )
    part = MemorySource(schema=PLAIN_SCHEMA)
    for predicate in shown.predicates():
        for row in shown.iterate(predicate):
            part.add_valid((predicate.name, *row))
    return part
