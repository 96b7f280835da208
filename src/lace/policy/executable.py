"""A plan made executable on one side: what may be sent, what may be requested, and why.

The local operand sees everything. The peer's operand goes through the gate, ``view``. Their
selections meet in the lowering. All parts follow changes of the facts, each in proportion to what
changes for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from lace.datalog.ast import Predicate
from lace.datalog.change import Change, FactChange, is_large, net_change, swap
from lace.datalog.explain import Explainer, FailedRule, Proof
from lace.datalog.source import Fact, MemorySource, Row, check_fact
from lace.ids import is_record_hash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Foreign, Steps, finish
from lace.policy.origin import Operand
from lace.policy.own import OwnRules
from lace.policy.plan import ExchangePlan
from lace.policy.view import FACETS, Exposure, LocalChange, PeerSelection
from lace.rules import LocalFacts
from lace.vocabulary import (
    ADVERTISED,
    ADVERTISEMENT_FACTS,
    HAVE,
    MAY_REQUEST,
    MAY_SEND,
    PLAIN_SCHEMA,
    RUNTIME_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    scoped,
)


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
    """The record that was asked about."""
    layer: Layer
    """Which layer decided."""
    detail: str
    """What it found, in words."""
    mine: Proof | None = None
    """Why the own rules select the record, if they do."""
    theirs: Proof | None = None
    """Why the peer's rules select it, if they do."""
    refusals: tuple[FailedRule, ...] = ()
    """How far each rule of the layer in the way got."""

    @property
    def allowed(self) -> bool:
        """Whether nothing stands in the way."""
        return self.layer is Layer.ALLOWED


_Explainers = tuple[Explainer, Explainer]


@dataclass(slots=True)
class ExchangePolicy:
    """One side's execution of an agreed plan."""

    plan: ExchangePlan
    """What both sides agreed on."""
    index: int
    """Which operand is the local one."""
    source: LocalFacts
    """The facts that are known here."""
    exposure: Exposure = field(default_factory=Exposure)
    """What the peer's rules may see."""
    limits: Limits = DEFAULT_LIMITS
    """What both sides' rules are held to."""
    foreign: Foreign | None = None
    """Where rules of the peer are evaluated that are not one's own, too; None for here.

    If it is given, whoever makes this goes through the steps of ``start`` first.
    """
    _local: OwnRules = field(init=False)
    _shown: OwnRules = field(init=False)
    """What this side selects whatever the peer claims: claims decide nothing of its view (G19)."""
    _peer: PeerSelection = field(init=False)
    _facets: MemorySource = field(init=False)
    """What both operands select, and the runtime facts: all that the lowering sees."""
    _lowered: OwnRules = field(init=False)

    def __post_init__(self) -> None:
        if self.foreign is None:
            finish(self.start())

    def start(self) -> Steps[None]:
        """Evaluate everything from scratch."""
        local, peer, limits = self.local, self.peer, self.limits
        program = local.module.program
        self._local = self._shown = OwnRules(program, self.source, FACETS, limits)
        if local.module.offers_by_adverts and self.exposure.default == "selected":
            self._shown = OwnRules(
                program, self.source, (SELECT_HAVE,), limits, ADVERTISEMENT_FACTS
            )
        foreign = self.foreign
        if foreign and (peer.module.id == local.module.id or not foreign.is_needed(peer.module)):
            foreign = None
        self._peer = PeerSelection(
            peer.module, self.source, self.exposure, peer.viewer, self._shown, limits, foreign
        )
        yield from self._peer.start()
        self._facets, self._lowered = self._lowering()

    def hand_over(self, foreign: Foreign | None) -> None:
        """Go on for another connection: it may have another place for the peer's rules."""
        if (self.foreign is None) == (foreign is None):
            self.foreign = foreign
            if self._peer.foreign is not None:
                self._peer.foreign = foreign

    def _lowering(self) -> tuple[MemorySource, OwnRules]:
        """Return what both operands select, and what the lowering makes of it."""
        facets = MemorySource(limits=self.limits.own, schema=PLAIN_SCHEMA)
        for facet in FACETS:
            facets.add_rows(scoped(self.local.index, facet), self._local.rows(facet))
            facets.add_rows(scoped(self.peer.index, facet), self._peer.rows(facet))
        for predicate in RUNTIME_FACTS:
            facets.add_rows(predicate, self.source.iterate(predicate))
        program = self.plan.lowering.program
        return facets, OwnRules(program, facets, (MAY_SEND, MAY_REQUEST), self.limits)

    # --- what it knows ---

    @property
    def local(self) -> Operand:
        """The operand of this side."""
        return self.plan.operands[self.index]

    @property
    def peer(self) -> Operand:
        """The operand of the peer."""
        return self.plan.operands[1 - self.index]

    @property
    def may_send(self) -> Collection[Row]:
        """What the peer may get, one row a record."""
        return self._lowered.rows(MAY_SEND)

    @property
    def may_request(self) -> Collection[Row]:
        """What the peer may be asked for, one row a record."""
        return self._lowered.rows(MAY_REQUEST)

    @property
    def visible(self) -> Collection[str]:
        """The records that the peer's rules can see."""
        return self._peer.visible

    def size_at_most(self) -> int:
        """Return how many facts this holds, and what both operands select, or a little more."""
        return self.source.size_at_most() + self._facets.size_at_most()

    def own_selects(self, facet: Predicate) -> Collection[Row]:
        """Return what the rules of this side select."""
        return self._local.rows(facet)

    def peer_selects(self, facet: Predicate) -> Collection[Row]:
        """Return what the peer's rules select here, through their view."""
        return self._peer.rows(facet)

    def explainers(self) -> tuple[Explainer, Explainer]:
        """Return what explains the rules of both operands, one's own first."""
        return self._local.explainer(), self._peer.explainer()

    # --- following changes ---

    def apply(self, added: Iterable[Fact] = (), removed: Iterable[Fact] = ()) -> PolicyChange:
        """Change the facts of this side; return how MaySend and MayRequest changed."""
        return finish(self.following(added, removed))

    def following(
        self, added: Iterable[Fact] = (), removed: Iterable[Fact] = ()
    ) -> Steps[PolicyChange]:
        """Do the same in steps."""
        came, gone = net_change(self.source, added, removed)
        for fact in came:
            check_fact(fact, self.limits)
        try:
            swap(self.source, gone=gone, came=came)
            change = LocalChange(self.source, came, gone, PLAIN_SCHEMA)
            mine = self._local.follow(change)
            shown = mine if self._shown is self._local else self._shown.follow(change)
            theirs = yield from self._peer.follow(change, shown.get(SELECT_HAVE, Change()))
            return self._lower(mine, theirs, change)
        except BaseException:
            # All of it or nothing: back to the facts before, and to what follows from them.
            swap(self.source, gone=came, came=gone)
            if self.foreign is None:  # else nobody goes on with it
                finish(self.start())
            raise

    def _lower(
        self, mine: dict[Predicate, Change], theirs: dict[Predicate, Change], change: LocalChange
    ) -> PolicyChange:
        facets = [changes[f] for changes in (mine, theirs) for f in FACETS if f in changes]
        moving = sum(len(facet.added) + len(facet.removed) for facet in facets)
        if is_large(moving, self._facets.size_at_most()):
            before = self._lowered
            self._facets, self._lowered = self._lowering()
            send, request = (
                Change.between(before.rows(p), self._lowered.rows(p))
                for p in (MAY_SEND, MAY_REQUEST)
            )
            return PolicyChange(send, request)
        added, removed = (
            [fact for fact in facts if (fact[0], len(fact) - 1) in RUNTIME_FACTS]
            for facts in (change.came, change.gone)
        )
        for operand, changes in ((self.local, mine), (self.peer, theirs)):
            for facet in FACETS:
                moved = changes.get(facet, Change())
                name = scoped(operand.index, facet).name
                added += [(name, *row) for row in moved.added]
                removed += [(name, *row) for row in moved.removed]
        swap(self._facets, gone=removed, came=added)
        lowered = self._lowered.follow(FactChange(self._facets, added, removed, PLAIN_SCHEMA))
        return PolicyChange(lowered.get(MAY_SEND, Change()), lowered.get(MAY_REQUEST, Change()))

    # --- why ---

    def explain_send(self, record: str, by: _Explainers | None = None) -> Verdict:
        """Say why a record may be sent, or what stands in its way.

        ``by`` is what ``explainers`` returned: who asks for many records has it work once.
        """
        if next(self.source.query(HAVE, record), None) is None:
            return Verdict(record=record, layer=Layer.NOT_HERE, detail="it is not stored here")
        return self._explain(record, SELECT_HAVE, (record,), MAY_SEND, by)

    def explain_request(self, record: str, by: _Explainers | None = None) -> Verdict:
        """Say why a record may be requested, or what stands in its way; ``by`` is as above."""
        if not is_record_hash(record):
            detail = "its hash is of a format that this engine cannot validate"
            return Verdict(record=record, layer=Layer.FORMAT, detail=detail)
        if next(self.source.query(HAVE, record), None) is not None:
            return Verdict(record=record, layer=Layer.ALREADY_HERE, detail="it is stored here")
        adverts = sorted(self.source.query(ADVERTISED, record))
        if not adverts:
            return Verdict(record=record, layer=Layer.NOT_ADVERTISED, detail="nobody advertised it")
        by = by or self.explainers()
        verdicts = [
            self._explain(record, SELECT_ADVERTISED, row, MAY_REQUEST, by) for row in adverts
        ]
        return next((v for v in verdicts if v.allowed), verdicts[0])

    def _explain(
        self,
        record: str,
        facet: Predicate,
        row: Row,
        lowered: Predicate,
        by: _Explainers | None,
    ) -> Verdict:
        mine, theirs = by or self.explainers()
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
            hidden = facet == SELECT_HAVE and record not in self.visible
            return Verdict(
                record=record,
                layer=Layer.VIEW if hidden else Layer.THEIR_RULES,
                detail=f"it is not exposed to {self.peer.called}"
                if hidden
                else f"their selector does not derive {facet.name} for it",
                mine=my_proof,
                refusals=theirs.why_not(facet, row),
            )
        if (record,) not in self._lowered.rows(lowered):
            detail = f"lowering {self.plan.lowering.name} asks for more"
            refusals = self._lowered.explainer().why_not(lowered, (record,))
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
