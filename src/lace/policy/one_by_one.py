"""A plan that decides on each record apart, made executable on one side without keeping anything.

Any records can be decided on, with the guards beside them, and the answer is that of an
``ExchangePolicy`` over everything that is here. Rules of a peer are given what the view shows them
and no more: which records are shown is found out first, and only these are put together for the
peer's rules, so many at once. What such rules do can therefore not depend on how many others are
hidden (L62).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from lace.datalog.source import Fact, Row
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.apart import Guard
from lace.policy.executable import ExchangePolicy
from lace.policy.mentions import Mentions
from lace.policy.own import OwnRules
from lace.policy.plan import ExchangePlan
from lace.policy.view import FACETS, Exposure, VisibleRecords
from lace.record.facts import facts, fields
from lace.record.model import Record
from lace.rules import LocalFacts
from lace.vocabulary import FIELD, HAVE

_IN_FIELDS: Final = frozenset((HAVE, FIELD))


class Entry(NamedTuple):
    """A record that is here, as far as anybody looks at it."""

    record: str
    fields: tuple[tuple[str, int, str], ...]
    """Name, index among its name, value; in this order."""
    others: tuple[Fact, ...] = ()
    """Facts that are no fields."""


class Offer(Protocol):
    """What a peer says of a record."""

    @property
    def record(self) -> str: ...

    @property
    def fields(self) -> tuple[tuple[str, int, str], ...]: ...

    def facts(self) -> list[Fact]: ...


_Some = TypeVar("_Some", Entry, Offer)
_Choice = Callable[[Sequence[_Some]], Sequence[_Some]]
_KINDS_KNOWN: Final = 10_000


@dataclass(slots=True)
class _ByKind(Generic[_Some]):
    """Chooses among records by one of each kind: those that have the same fields are alike."""

    by: _Choice[_Some]
    _known: dict[tuple[tuple[str, int, str], ...], bool] = field(default_factory=dict)

    def choose(self, entries: Sequence[_Some]) -> list[_Some]:
        if len(self._known) > _KINDS_KNOWN:
            self._known = {}
        kinds = [entry.fields for entry in entries]
        fresh = {kind: e for kind, e in zip(kinds, entries, strict=True) if kind not in self._known}
        if fresh:
            chosen = {entry.record for entry in self.by(list(fresh.values()))}
            self._known.update((kind, entry.record in chosen) for kind, entry in fresh.items())
        return [e for kind, e in zip(kinds, entries, strict=True) if self._known[kind]]


@dataclass(frozen=True, slots=True)
class OneByOne:
    """One side's execution of a plan that decides on each record apart."""

    plan: ExchangePlan
    index: int
    """Which operand is the local one."""
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    at_once: int = 1000
    """So many shown records are put together."""
    mentions: Mentions = field(init=False)

    def __post_init__(self) -> None:
        modules = [operand.module for operand in self.plan.operands]
        viewer = self.plan.operands[1 - self.index].viewer
        found = Mentions.of([*modules, *self.exposure.modules_for(viewer)])
        object.__setattr__(self, "mentions", found)

    @classmethod
    def guards(cls, plan: ExchangePlan, index: int, exposure: Exposure) -> frozenset[Guard] | None:
        """Return how to tell the guards of a plan; None if it does not decide on records apart."""
        own, shown = plan.guards, exposure.guards(plan.operands[1 - index].viewer)
        return None if own is None or shown is None else own | shown

    # --- what rules look at ---

    @property
    def names(self) -> frozenset[str] | None:
        """The fields that rules look at; None for all of them."""
        return None if FIELD in self.mentions.predicates else self.mentions.fields

    @property
    def needs_bytes(self) -> bool:
        """Whether rules look at more than fields."""
        return not self.mentions.predicates <= _IN_FIELDS

    def entry(self, record: Record, names: frozenset[str] | None) -> Entry:
        """Return a record with the fields of some names, and what else rules look at."""
        others = self.mentions.predicates - _IN_FIELDS
        more = [f for f in facts(record) if (f[0], len(f) - 1) in others] if others else ()
        return Entry(record.hash, tuple(sorted(fields(record, names))), tuple(more))

    @property
    def _names_matter(self) -> bool:
        """Whether records that differ in nothing but their names may be decided on otherwise."""
        viewer = self.plan.operands[1 - self.index].viewer
        operands = (operand.module for operand in self.plan.operands)
        return any(m.names_matter for m in (*operands, *self.exposure.modules_for(viewer)))

    # --- deciding ---

    def sendable(
        self,
        batches: Iterable[list[Entry]],
        runtime: tuple[Fact, ...],
        guards: Sequence[Entry] = (),
    ) -> Iterator[Sequence[Entry]]:
        """Yield those of the entries that may be sent, in parts of a bounded size."""
        shown_guards = len(self.shown(guards, runtime)) if guards else 0
        # Guards are shown or not by themselves.
        shown = self._choice(lambda some: self.shown((*guards, *some), runtime)[shown_guards:])
        sendable = self._choice(lambda some: self._sendable(some, guards, runtime))
        waiting: list[Entry] = []
        for batch in batches:
            waiting += shown(batch)
            while len(waiting) >= self.at_once:
                yield sendable(waiting[: self.at_once])
                del waiting[: self.at_once]
        if waiting:
            yield sendable(waiting)

    def _choice(self, choose: _Choice[_Some]) -> _Choice[_Some]:
        """Return what chooses as ``choose`` does, if it can be, by one record of each kind."""
        return choose if self.needs_bytes or self._names_matter else _ByKind(choose).choose

    def requestable(
        self, offers: Iterable[Fact], runtime: tuple[Fact, ...], guards: Sequence[Entry] = ()
    ) -> set[str]:
        """Return which records may be requested by what is offered, if they are not here."""
        source = self._source(guards, runtime)
        for fact in offers:
            source.add(fact)
        return {row[0] for row in self._policy(source).may_request}

    def requests(
        self, runtime: tuple[Fact, ...], guards: Sequence[Entry] = ()
    ) -> Callable[[Sequence[Offer]], Sequence[Offer]]:
        """Return what chooses among offers those that may be requested, if they are not here."""

        def choose(offers: Sequence[Offer]) -> list[Offer]:
            facts = (fact for offer in offers for fact in offer.facts())
            found = self.requestable(facts, runtime, guards)
            return [offer for offer in offers if offer.record in found]

        return self._choice(choose)

    def shown(self, entries: Sequence[Entry], runtime: tuple[Fact, ...]) -> Sequence[Entry]:
        """Return what the peer's rules may see."""
        viewer = self.plan.operands[1 - self.index].viewer
        modules = self.exposure.modules_for(viewer)
        if not modules and self.exposure.default == "everything":
            return entries
        if not modules and self.exposure.default == "none":
            return []
        source = self._source(entries, runtime)
        program = self.plan.operands[self.index].module.program
        selected = OwnRules(program, source, FACETS, self.limits)
        shown = VisibleRecords(self.exposure, viewer, source, selected, self.limits).records
        return [entry for entry in entries if entry.record in shown]

    def _sendable(
        self, shown: Sequence[Entry], guards: Sequence[Entry], runtime: tuple[Fact, ...]
    ) -> list[Entry]:
        """Return those of shown records that may be sent; own rules look at all guards."""
        may_send = self._policy(self._source([*guards, *shown], runtime)).may_send
        return [entry for entry in shown if (entry.record,) in may_send]

    def _policy(self, source: LocalFacts) -> ExchangePolicy:
        return ExchangePolicy(self.plan, self.index, source, self.exposure, self.limits)

    def _source(self, entries: Sequence[Entry], runtime: tuple[Fact, ...]) -> LocalFacts:
        source = LocalFacts(runtime, self.limits)
        source.add_rows(HAVE, [(entry.record,) for entry in entries])
        rows: list[Row] = [
            (record, name, str(index) if index else "0", value)
            for record, found, _ in entries
            for name, index, value in found
        ]
        source.add_rows(FIELD, rows)
        source.add_all(fact for entry in entries for fact in entry.others)
        return source
