"""A plan made executable on one side: what may be sent, what may be requested, and why.

The local operand sees everything. The peer's operand sees the query view. Their selections meet in
the lowering. All four parts follow changes of the facts, each in proportion to what changes for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.explain import Explainer, FailedRule, Proof
from lace.datalog.maintain import (
    Change,
    Maintained,
    Touched,
    exchange,
    facts_around,
    follow,
    net_change,
    touched_by,
)
from lace.datalog.source import Fact, MemorySource, Row, check_fact
from lace.ids import is_record_hash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.origin import Operand
from lace.policy.plan import ExchangePlan
from lace.policy.view import (
    Evaluation,
    Exposure,
    VisibleRecords,
    evaluate_local,
    evaluate_lowering,
    evaluate_peer,
    visible_part,
)
from lace.vocabulary import (
    ADVERTISED,
    ADVERTISEMENT_FACTS,
    HAVE,
    MAY_REQUEST,
    MAY_SEND,
    PLAIN_SCHEMA,
    RECORD_FACTS,
    RUNTIME_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    scoped,
)

_FACETS: Final = (SELECT_HAVE, SELECT_ADVERTISED)
_AFRESH: Final = 0.1  # of all facts; to follow one costs about ten times as much as to load it


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """How the two enforcement predicates changed."""

    may_send: Change
    may_request: Change


class Layer(StrEnum):
    """What decided about a record."""

    ALLOWED = "allowed"
    NOT_HERE = "not here"
    ALREADY_HERE = "already here"
    FORMAT = "format"
    NOT_ADVERTISED = "not advertised"
    MY_RULES = "my rules"
    VIEW = "the view"
    THEIR_RULES = "their rules"
    LOWERING = "the lowering"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why a record may be sent or requested, or which layer stands in its way."""

    record: str
    layer: Layer
    detail: str
    mine: Proof | None = None
    theirs: Proof | None = None
    refusals: tuple[FailedRule, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.layer is Layer.ALLOWED


@dataclass(slots=True)
class ExchangePolicy:
    """One side's execution of an agreed plan."""

    plan: ExchangePlan
    index: int
    """Which operand is the local one."""
    source: MemorySource
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    _local: Evaluation = field(init=False)
    _peer: Evaluation = field(init=False)
    _visible: VisibleRecords = field(init=False)
    _lowered: Maintained = field(init=False)

    def __post_init__(self) -> None:
        limits = self.limits
        self._local = evaluate_local(self.local.module, self.source, limits)
        self._visible = VisibleRecords.compute(
            self.exposure, self.peer.viewer, self.source, self._local, limits
        )
        self._peer = evaluate_peer(self.peer.module, self.source, self._visible.records, limits)
        facets = MemorySource(limits=limits, schema=PLAIN_SCHEMA)
        for operand, evaluation in ((self.local, self._local), (self.peer, self._peer)):
            for facet in _FACETS:
                facets.add_rows(scoped(operand.index, facet), evaluation.rows(facet))
        for predicate in RUNTIME_FACTS:
            facets.add_rows(predicate, self.source.iterate(predicate))
        lowered = evaluate_lowering(self.plan.lowering.program, facets, limits)
        self._lowered = Maintained(lowered, facets)
        for evaluation in (self._local, self._peer):
            evaluation.prepare()
        self._visible.prepare()

    # --- what it knows ---

    @property
    def local(self) -> Operand:
        return self.plan.operands[self.index]

    @property
    def peer(self) -> Operand:
        return self.plan.operands[1 - self.index]

    @property
    def may_send(self) -> Collection[Row]:
        return self._lowered.evaluation.rows(MAY_SEND)

    @property
    def may_request(self) -> Collection[Row]:
        return self._lowered.evaluation.rows(MAY_REQUEST)

    @property
    def visible(self) -> Collection[str]:
        """The records that the peer's rules can see."""
        return self._visible.records

    def peer_selects(self, facet: Predicate) -> Collection[Row]:
        """Return what the peer's rules select here, through their view."""
        return self._peer.rows(facet)

    # --- following changes ---

    def apply(self, added: Iterable[Fact] = (), removed: Iterable[Fact] = ()) -> PolicyChange:
        """Change the facts of this side; return how MaySend and MayRequest changed."""
        came, gone = net_change(self.source, added, removed)
        for fact in came:
            check_fact(fact, self.limits)
        size = sum(map(self.source.count_at_most, self.source.predicates()))
        try:
            if len(came) + len(gone) > _AFRESH * size:
                return self._apply_afresh(came, gone)
            return self._apply(came, gone)
        except BaseException:
            # All of it or nothing: back to the facts before, and to what follows from them.
            exchange(self.source, came, gone)
            self.__post_init__()
            raise

    def _apply_afresh(self, came: list[Fact], gone: list[Fact]) -> PolicyChange:
        """Evaluate everything: for a change so large that following it would cost more."""
        before = set(self.may_send), set(self.may_request)
        exchange(self.source, gone, ())
        self.source.add_all(came)
        self.__post_init__()
        after = set(self.may_send), set(self.may_request)
        send, request = (
            Change(added=now - was, removed=was - now)
            for was, now in zip(before, after, strict=True)
        )
        return PolicyChange(send, request)

    def _apply(self, came: list[Fact], gone: list[Fact]) -> PolicyChange:
        touched = _whole_records(touched_by(came + gone, PLAIN_SCHEMA))
        before = facts_around(self.source, touched, PLAIN_SCHEMA)
        exchange(self.source, gone, came)
        after = facts_around(self.source, touched, PLAIN_SCHEMA)
        mine = follow(self._local, before, after)

        was_visible = visible_part(before, self._visible.records)
        changed = self._visible.follow(before, after, mine.get(SELECT_HAVE), touched)
        now_visible = visible_part(after, self._visible.records)
        # Records that came into view or left it, without having changed themselves.
        keys = {(p, (record,)) for record in changed for p in RECORD_FACTS} - touched
        moved = facts_around(self.source, keys, PLAIN_SCHEMA)
        for predicate in moved.predicates():
            for row in moved.iterate(predicate):
                side = now_visible if row[0] in self._visible.records else was_visible
                side.add_valid((predicate.name, *row))
        theirs = follow(self._peer, was_visible, now_visible)
        return self._lower(mine, theirs, came, gone)

    def _lower(
        self,
        mine: dict[Predicate, Change],
        theirs: dict[Predicate, Change],
        came: list[Fact],
        gone: list[Fact],
    ) -> PolicyChange:
        added = [fact for fact in came if (fact[0], len(fact) - 1) in RUNTIME_FACTS]
        removed = [fact for fact in gone if (fact[0], len(fact) - 1) in RUNTIME_FACTS]
        for operand, changes in ((self.local, mine), (self.peer, theirs)):
            for facet in _FACETS:
                change = changes.get(facet, Change())
                name = scoped(operand.index, facet).name
                added += [(name, *row) for row in change.added]
                removed += [(name, *row) for row in change.removed]
        lowered = self._lowered.apply(added, removed)
        return PolicyChange(lowered.get(MAY_SEND, Change()), lowered.get(MAY_REQUEST, Change()))

    # --- why ---

    def explain_send(self, record: str) -> Verdict:
        """Say why a record may be sent, or what stands in its way."""
        if next(self.source.query(HAVE, record), None) is None:
            return Verdict(record=record, layer=Layer.NOT_HERE, detail="it is not stored here")
        return self._explain(record, SELECT_HAVE, (record,), MAY_SEND)

    def explain_request(self, record: str) -> Verdict:
        """Say why a record may be requested, or what stands in its way."""
        if not is_record_hash(record):
            detail = "its hash is of a format that this engine cannot validate"
            return Verdict(record=record, layer=Layer.FORMAT, detail=detail)
        if next(self.source.query(HAVE, record), None) is not None:
            return Verdict(record=record, layer=Layer.ALREADY_HERE, detail="it is stored here")
        adverts = sorted(self.source.query(ADVERTISED, record))
        if not adverts:
            return Verdict(record=record, layer=Layer.NOT_ADVERTISED, detail="nobody advertised it")
        verdicts = [self._explain(record, SELECT_ADVERTISED, row, MAY_REQUEST) for row in adverts]
        return next((v for v in verdicts if v.allowed), verdicts[0])

    def _explain(self, record: str, facet: Predicate, row: Row, lowered: Predicate) -> Verdict:
        mine = Explainer(self._local)
        theirs = Explainer(self._peer)
        my_proof = mine.why(facet, row)
        if my_proof is None:
            return Verdict(
                record=record,
                layer=Layer.MY_RULES,
                detail=f"my selector does not derive {facet.name} for it",
                refusals=mine.why_not(facet, row),
            )
        their_proof = theirs.why(facet, row)
        if their_proof is None:
            hidden = facet == SELECT_HAVE and record not in self._visible.records
            return Verdict(
                record=record,
                layer=Layer.VIEW if hidden else Layer.THEIR_RULES,
                detail=f"it is not exposed to {self.peer.viewer}"
                if hidden
                else f"their selector does not derive {facet.name} for it",
                mine=my_proof,
                refusals=theirs.why_not(facet, row),
            )
        if (record,) not in self._lowered.evaluation.rows(lowered):
            detail = f"lowering {self.plan.lowering.name} asks for more"
            refusals = Explainer(self._lowered.evaluation).why_not(lowered, (record,))
            return Verdict(
                record=record, layer=Layer.LOWERING, detail=detail, mine=my_proof,
                theirs=their_proof, refusals=refusals,
            )  # fmt: skip
        return Verdict(
            record=record,
            layer=Layer.ALLOWED,
            detail="both selectors select it",
            mine=my_proof,
            theirs=their_proof,
        )

    def sidecar(self) -> list[Fact]:
        """Return provenance facts for tools; evaluations never see them (040-PRV)."""
        operands = tuple(
            (operand.module.id, operand.origin, operand.module.lacegram.rule_ids)
            for operand in self.plan.operands
        )
        return self.plan.lowering.sidecar(operands)


def _whole_records(touched: set[Touched]) -> set[Touched]:
    """Widen what is touched to whole records: a record comes into view with all its facts."""
    widened: set[Touched] = set()
    for predicate, row in touched:
        if predicate in RECORD_FACTS:
            widened |= {(p, row[:1]) for p in RECORD_FACTS}
        elif predicate in ADVERTISEMENT_FACTS:
            widened.add((predicate, row[:2]))
        else:
            widened.add((predicate, row))
    return widened
