"""What a peer's rules can see: the only place that hands facts to them (020, 040).

A query view shows record facts of exposed records, and everything that is public to both sides:
advertisements and runtime facts. Every way of asking goes through it, so that positive, negated and
counted atoms cannot differ in what they see. A change of the facts reaches a peer's rules in the
same way, as far as the view shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Final, Literal

from lace.datalog.ast import Predicate
from lace.datalog.change import Change, FactChange, Touched, facts_around, is_large, touched_by
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.explain import Explainer
from lace.datalog.maintain import follow
from lace.datalog.source import FactSource, MemorySource, Row
from lace.errors import Code, LimitExceeded, PolicyError
from lace.limits import DEFAULT_LIMITS, UNCOUNTED, Limits
from lace.policy.apart import Guard
from lace.policy.foreign import Foreign, ForeignRules, Job, Steps
from lace.policy.mentions import Mentions
from lace.policy.module import Facet, PolicyModule
from lace.policy.origin import Viewer
from lace.policy.own import OwnRules
from lace.vocabulary import (
    ADVERTISED,
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    HAVE,
    PLAIN_SCHEMA,
    RECORD_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    TICK_TAI,
)

_RECORD_FACTS: Final = {p.name: p.arity + 1 for p in RECORD_FACTS}

_ELSEWHERE: Final[tuple[Job, ...]] = ()  # all is done here

FACETS: Final = (SELECT_HAVE, SELECT_ADVERTISED)
"""What a selector says."""

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


class LocalChange(FactChange):
    """A change of the facts of one side, looked at by whole records and advertisements."""

    @cached_property
    def records(self) -> set[str]:
        """The records whose facts came or went."""
        facts = chain(self.came, self.gone)
        return {fact[1] for fact in facts if _RECORD_FACTS.get(fact[0]) == len(fact)}

    @cached_property
    def touched(self) -> set[Touched]:
        """What has to be looked at again: a record comes into view with all its facts."""
        rest = [f for f in chain(self.came, self.gone) if _RECORD_FACTS.get(f[0]) != len(f)]
        touched = touched_by(rest, self.schema)
        touched.update((p, (record,)) for record in self.records for p in RECORD_FACTS)
        return touched

    def count_visible(self, turned: Collection[str], now: Collection[str]) -> int:
        """Return how many records and advertisements changed that a view shows.

        ``turned`` are the records that came into the view or left it, ``now`` those that it shows.
        """
        changed = {fact[1] for fact in chain(self.came, self.gone) if fact[0] == HAVE.name}
        offers = sum(fact[0] == ADVERTISED.name for fact in chain(self.came, self.gone))
        return len({record for record in changed if record in now}.union(turned)) + offers


@dataclass(frozen=True, slots=True)
class Exposure:
    """Local policy on what a viewer's rules may see. The default is nothing.

    Modules that speak of the viewer are intersected: adding one never widens a view. ``union`` is
    for local policy that wants to widen on purpose.
    """

    modules: tuple[PolicyModule, ...] = ()
    """Rules that say what viewers may see."""
    default: Expose = "none"
    """What is seen when no module speaks of the viewer."""
    union: bool = False
    """Whether modules that speak of a viewer add up, instead of each narrowing the view."""

    def __post_init__(self) -> None:
        if any(module.facet is not Facet.EXPOSE for module in self.modules):
            raise PolicyError("only expose modules expose", code=Code.POLICY_FACET)

    def looks_at_time(self, viewer: Viewer) -> bool:
        """Whether what it shows a viewer depends on moving time."""
        return any(module.mentions(TICK_TAI.name) for module in self.modules_for(viewer))

    def guards(self, viewer: Viewer) -> frozenset[Guard] | None:
        """Return how to tell the records on which it depends whether others are shown.

        None if those may be any records. What the local selector depends on is not counted.
        """
        found: frozenset[Guard] = frozenset()
        for module in self.modules_for(viewer):
            if module.guards is None:
                return None
            found |= module.guards
        return found

    def modules_for(self, viewer: Viewer) -> tuple[PolicyModule, ...]:
        """Return the modules with a head that fits this viewer (A18)."""
        return tuple(
            module
            for module in self.modules
            if (viewers := module.viewers()) is None or viewer in viewers
        )


@dataclass(slots=True)
class VisibleRecords:
    """CanQueryRecord for one viewer, kept up to date: the set of records that a view shows.

    Exposure is local policy: its modules see all record and runtime facts, and nothing that a peer
    claims (G19).
    """

    exposure: Exposure
    viewer: Viewer
    facts: MemorySource
    selected: OwnRules
    """What this side selects itself, whatever the peer claims."""
    limits: Limits = DEFAULT_LIMITS
    records: set[str] = field(init=False)
    _modules: list[OwnRules] = field(init=False)

    def __post_init__(self) -> None:
        self._modules = [
            OwnRules(
                module.program, self.facts, (ALLOW_QUERY_RECORD,), self.limits, ADVERTISEMENT_FACTS
            )
            for module in self.exposure.modules_for(self.viewer)
        ]
        if self._modules:
            combine = set.union if self.exposure.union else set.intersection
            self.records = combine(*map(self._allowed, self._modules))
        elif self.exposure.default == "selected":
            self.records = {row[0] for row in self.selected.rows(SELECT_HAVE)}
        elif self.exposure.default == "everything":
            self.records = {row[0] for p in RECORD_FACTS for row in self.facts.iterate(p)}
        else:
            self.records = set()

    def follow(self, change: LocalChange, selected: Change) -> set[str]:
        """Follow a change of the local facts; return the records whose visibility changed."""
        doubtful: set[str] = set()
        if self._modules:
            for module in self._modules:
                allowed = module.follow(change).get(ALLOW_QUERY_RECORD, Change())
                rows = allowed.removed | allowed.added
                doubtful |= {record for viewer, record in rows if viewer == self.viewer}
        elif self.exposure.default == "selected":
            doubtful = {row[0] for row in selected.removed | selected.added}
        elif self.exposure.default == "everything":
            doubtful = change.records
        changed = {r for r in doubtful if self._shows(r) != (r in self.records)}
        self.records ^= changed
        return changed

    def _shows(self, record: str) -> bool:
        if self._modules:
            key = (self.viewer, record)
            shown = (key in module.rows(ALLOW_QUERY_RECORD) for module in self._modules)
            return any(shown) if self.exposure.union else all(shown)
        if self.exposure.default == "selected":
            return (record,) in self.selected.rows(SELECT_HAVE)
        return any(next(self.facts.query(p, record), None) is not None for p in RECORD_FACTS)

    def _allowed(self, module: OwnRules) -> set[str]:
        rows = module.rows(ALLOW_QUERY_RECORD)
        return {record for viewer, record in rows if viewer == self.viewer}


@dataclass(slots=True)
class PeerSelection:
    """What the rules of a peer select here: the one gate between local facts and these rules.

    They are given what the view shows, when everything is computed and when a change is followed.
    Whether a change is followed or everything is computed anew is decided by what the view shows,
    too, and limits count nothing else: so rules of a peer can measure nothing that is hidden (L62).
    """

    module: PolicyModule
    """The peer's."""
    facts: MemorySource
    """All of this side's."""
    exposure: Exposure
    viewer: Viewer
    selected: OwnRules
    """What this side selects itself, whatever the peer claims."""
    limits: Limits = DEFAULT_LIMITS
    foreign: Foreign | None = None
    """Where the peer's rules are evaluated; None for here."""
    _visible: VisibleRecords = field(init=False)
    _mentions: Mentions = field(init=False)
    """The record facts that the peer's rules look at."""
    _at_most: int = field(init=False)
    """The view shows no more of them than this."""
    _seen: int = field(init=False)
    """So many facts are seen by the peer's rules: they may work in proportion to it."""
    _rules: ForeignRules = field(init=False)

    def __post_init__(self) -> None:
        self._visible = VisibleRecords(
            self.exposure, self.viewer, self.facts, self.selected, self.limits
        )
        self._mentions = Mentions.of([self.module])

    def start(self) -> Steps[None]:
        """Evaluate the peer's rules; nothing else may be asked before that."""
        self._rules = yield from self._evaluated()

    @property
    def visible(self) -> Collection[str]:
        """The records that the peer's rules can see."""
        return self._visible.records

    def rows(self, facet: Predicate) -> AbstractSet[Row]:
        """Return what the peer's rules select."""
        return self._rules.rows(facet)

    def explainer(self) -> Explainer:
        """Return what explains the peer's rules, by what they see."""
        rules = self._rules
        if not isinstance(rules, _RulesHere):
            rules = _evaluate_here(self.module, self._shown(self._view), self._limits_now)
        rules.evaluation.source = self._view  # it follows changes
        rules.evaluation.limit(self.limits)  # whoever asks why is not the peer
        return Explainer(rules.evaluation)

    def follow(self, change: LocalChange, selected: Change) -> Steps[dict[Predicate, Change]]:
        """Follow a change of the local facts, and of what this side selects itself.

        Returns how the facets changed.
        """
        turned = self._visible.follow(change, selected)
        now = self._visible.records
        size = len(now) + self.facts.count_at_most(ADVERTISED)
        if is_large(change.count_visible(turned, now), size):
            before = self._rules
            yield from self.start()
            return {f: Change.between(before.rows(f), self.rows(f)) for f in FACETS}
        was = {
            record for record in change.records | turned if (record in now) != (record in turned)
        }
        # Some came into view or left it without having changed themselves.
        keys = {(p, (record,)) for record in turned - change.records for p in RECORD_FACTS}
        moved = facts_around(self.facts, keys, PLAIN_SCHEMA)
        old, new = _shown(was, change.before, moved), _shown(now, change.after, moved)
        self._limit(self._at_most + new.size_at_most())
        self._seen += self._shown(new).size_at_most() - self._shown(old).size_at_most()
        whole = partial(self._shown, self._view)
        return (yield from self._rules.follow(old, new, self._limits_now, whole))

    @property
    def _view(self) -> QueryView:
        return QueryView(self.facts, self._visible.records)

    @property
    def _limits_now(self) -> Limits:
        return self.limits.for_peer(self._seen)

    def _evaluated(self) -> Steps[ForeignRules]:
        """Evaluate the peer's rules over what the view shows."""
        self._limit(self.facts.size_at_most())
        shown = self._shown(self._view)
        self._seen = shown.size_at_most()
        if self.foreign is None:
            return _evaluate_here(self.module, shown, self._limits_now)
        return (yield from self.foreign.evaluate(self.module, shown, self._limits_now))

    def _shown(self, view: FactSource) -> MemorySource:
        """Return what a view shows of all that the peer's rules look at, and nothing else.

        So nothing else can be counted: neither what is hidden, nor what it takes to pass over it.
        """
        shown = MemorySource(limits=UNCOUNTED, schema=PLAIN_SCHEMA)
        looked_at = self.module.program.base
        for predicate, rows in self._mentions.rows(view):
            if predicate in looked_at:
                shown.add_rows(predicate, rows)
        for predicate in sorted(looked_at - RECORD_FACTS):
            shown.add_rows(predicate, view.iterate(predicate))
        return shown

    def _limit(self, at_most: int) -> None:
        """Raise if the view shows more facts than allowed, of those that the peer's rules look at.

        They are counted when there may be too many; until then, a number that they cannot exceed is
        enough to know.
        """
        limit = self.limits.base_facts
        if at_most > limit:
            at_most = sum(len(set(rows)) for _, rows in self._mentions.rows(self._view))
            if at_most > limit:
                raise LimitExceeded("base_facts", configured=limit, observed=at_most)
        self._at_most = at_most


@dataclass(slots=True)
class _RulesHere:
    """The rules of a peer, evaluated in this process."""

    evaluation: Evaluation

    def rows(self, facet: Predicate) -> AbstractSet[Row]:
        return self.evaluation.rows(facet)

    def follow(
        self, old: MemorySource, new: MemorySource, limits: Limits, _: Callable[[], MemorySource]
    ) -> Steps[dict[Predicate, Change]]:
        yield from _ELSEWHERE
        self.evaluation.limit(limits)
        return follow(self.evaluation, old, new)


def _evaluate_here(module: PolicyModule, shown: MemorySource, limits: Limits) -> _RulesHere:
    return _RulesHere(evaluate(module.program, shown, outputs=FACETS, limits=limits))


def _shown(visible: Collection[str], *near: MemorySource) -> MemorySource:
    """Return what a view shows of a few facts."""
    part = MemorySource(limits=UNCOUNTED, schema=PLAIN_SCHEMA)
    for source in near:
        view = QueryView(source, visible)
        for predicate in source.predicates():
            for row in view.iterate(predicate):
                part.add_valid((predicate.name, *row))
    return part
