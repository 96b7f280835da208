"""An exchange plan over a lake: what may be sent and requested, decided by Spark.

The steps are those of ``lace.policy``, in the same order: the local operand sees everything, the
exposure decides what the peer's operand sees, the lowering joins both. What a peer's rules get is
made in one place, from the records that are visible to it and from what is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.ast import Atom, Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.program import RuleProgram
from lace.datalog.source import Fact
from lace.errors import LimitExceeded
from lace.lake.adverts import StagedAdverts
from lace.lake.counting import RowMeter
from lace.lake.evaluate import LAKE_LIMITS, LakeEvaluation, evaluate_on_spark
from lace.lake.expressions import all_of
from lace.lake.facts import FrameFacts, GivenFacts, LakeFacts, Said, chosen
from lace.lake.jobs import job
from lace.lake.ordered import OrderedNames
from lace.lake.placing import Placement, Where, decides_by_record, needed_predicates, plan
from lace.lake.rows import PROMOTED
from lace.lake.staging import Staging
from lace.lake.tables import Snapshot
from lace.limits import DEFAULT_LIMITS, LAKE, Limits
from lace.policy.mentions import Mentions
from lace.policy.module import PolicyModule
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.rules import MemorySource
from lace.vocabulary import (
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    FIELD,
    MAY_REQUEST,
    MAY_SEND,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    scoped,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(slots=True, kw_only=True)
class PlanOverLake:
    """One side of a plan, over one version of a lake; close it when its frames are done with."""

    snapshot: Snapshot
    plan: ExchangePlan
    index: int
    """Which operand is the local one."""
    exposure: Exposure = field(default_factory=Exposure)
    runtime: tuple[Fact, ...] = ()
    adverts: StagedAdverts | None = None
    """What the peer advertises at the moment."""
    schema: frozenset[str] | None = None
    limits: Limits = LAKE_LIMITS
    """Of one's own rules."""
    peer_limits: Limits = DEFAULT_LIMITS
    """What the rules of a peer may do in proportion to what they see."""
    placement: Placement = field(default_factory=Placement)
    _kept: dict[str, DataFrame] = field(default_factory=dict)
    _evaluations: list[LakeEvaluation] = field(default_factory=list)
    _selecting: LakeEvaluation | None = None
    _showing: LakeEvaluation | None = None
    _peers: dict[Predicate, LakeEvaluation] = field(default_factory=dict)
    _given: GivenFacts | None = None
    _said: Said | None = None
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.snapshot.lake_root)

    def close(self) -> None:
        """Give back what was kept on disk."""
        for frame in self._kept.values():
            frame.unpersist()
        self._kept.clear()
        for evaluation in self._evaluations:
            evaluation.close()
        self._evaluations.clear()
        self._selecting = self._showing = None
        self._peers.clear()
        self._given = self._said = None
        self._staging.close()

    def _keep(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """Return a frame that is computed once, because much is made from it."""
        if name not in self._kept:
            self._kept[name] = make().persist(StorageLevel.DISK_ONLY)
        return self._kept[name]

    def may_send(self) -> DataFrame:
        """Return the wide rows of the records that may be sent."""
        with job("what may be sent"):
            found = self._by_condition()
            return chosen(
                self.snapshot.records,
                self._lowered(SELECT_HAVE, MAY_SEND) if found is None else found,
            )

    def may_request(self) -> OrderedNames:
        """Return the records that may be requested; close them when they are done with.

        Those that are here already are among them, unless what the peer advertises is in files:
        then the workers leave them out.
        """
        if not self.adverts:
            return OrderedNames()
        with job("what may be requested"):
            found = self._lowered(SELECT_ADVERTISED, MAY_REQUEST)
            if not self.adverts.are_written:
                return OrderedNames.of(found.toArrow().column("hash").to_pylist())
            found = found.join(self.snapshot.columns("hash"), "hash", "left_anti")
            return OrderedNames.of_frame(found, self.snapshot.lake_root)

    def _lowered(self, facet: Predicate, enforced: Predicate) -> DataFrame:
        local, peer = self.plan.operands[self.index], self.plan.operands[1 - self.index]
        if facet == SELECT_HAVE:
            mine = self._selected()
        else:
            mine = self._evaluate(local.module.program, facet, self._facts(None))
        visible: DataFrame | Column | None = self._visible_rows(peer.viewer)
        if visible is None:
            visible = self._keep("visible", lambda: self._visible(peer.viewer))
        theirs = self._theirs(facet, self._facts(visible)).frame(facet)
        frames = {scoped(local.index, facet): mine, scoped(peer.index, facet): theirs}
        facets = FrameFacts(self.snapshot.spark, frames, self.runtime, self.snapshot.lake_root)
        found = self._evaluate(self.plan.lowering.program, enforced, facets)
        return found.select(F.col("c0").alias("hash"))

    def _by_condition(self) -> Column | None:
        """Return which wide rows may be sent, where one look at a row decides for both sides.

        Then nothing is joined: the sets that rules choose are never made.
        """
        peer = self.plan.operands[1 - self.index]
        visible = self._visible_rows(peer.viewer)
        mine = self._own().condition(SELECT_HAVE)
        if visible is None or mine is None:
            return None
        lets = self._lets_pass()
        if lets is None:
            return None
        theirs = self._theirs(SELECT_HAVE, self._facts(visible)).condition(SELECT_HAVE)
        return None if theirs is None else all_of([F.lit(lets), mine, visible, theirs])

    def _visible_rows(self, viewer: str) -> Column | None:
        """Return which wide rows the peer's rules may see, if one look at a row decides."""
        if self._exposing(viewer):
            return None
        match self.exposure.default:
            case "everything":
                return F.lit(True)
            case "selected":
                return self._shown().condition(SELECT_HAVE)
        return F.lit(False)

    def _lets_pass(self) -> bool | None:
        """Return whether the lowering lets pass what both sides select; None: of some, not of all.

        Where its rules ask nothing else about a record, one record stands for all of them.
        """
        program = self.plan.lowering.program
        facets = [scoped(index, SELECT_HAVE) for index in (0, 1)]
        for rule in program.rules_of[MAY_SEND]:
            for part in rule.source.body:
                if not isinstance(part, Atom) or part.predicate in program.derived:
                    return None
                if part.terms != (rule.source.head.terms if part.predicate in facets else ()):
                    return None
        record = "any"
        facts = [(facet.name, record) for facet in facets]
        made = evaluate(program, MemorySource([*facts, *self.runtime]), outputs=[MAY_SEND])
        return (record,) in made.rows(MAY_SEND)

    def _own(self) -> LakeEvaluation:
        """Return what the local operand selects; evaluated once."""
        if self._selecting is None:
            program = self.plan.operands[self.index].module.program
            self._selecting = self._evaluated(program, SELECT_HAVE, self._facts(None))
        return self._selecting

    def _selected(self) -> DataFrame:
        return self._keep("selected", lambda: self._own().frame(SELECT_HAVE))

    def _shown(self) -> LakeEvaluation:
        """Return what the local operand selects whatever the peer claims (G19)."""
        module = self.plan.operands[self.index].module
        if not module.offers_by_adverts:
            return self._own()
        if self._showing is None:
            facts = LakeFacts(self.snapshot, self.runtime)
            self._showing = self._evaluated(module.program, SELECT_HAVE, facts)
        return self._showing

    def _theirs(self, facet: Predicate, facts: LakeFacts) -> LakeEvaluation:
        """Evaluate a facet of the peer's operand over what is visible to it, once."""
        local, peer = self.plan.operands[self.index], self.plan.operands[1 - self.index]
        if facet not in self._peers:
            if peer.module.id == local.module.id:  # they may do what one's own may do
                made = self._evaluated(peer.module.program, facet, facts)
            else:
                made = self._evaluate_theirs(peer.module, facet, facts)
            self._peers[facet] = made
        return self._peers[facet]

    def _facts(self, visible: DataFrame | Column | None) -> LakeFacts:
        # Both operands look at the same facts: they go to Spark once for all of the plan.
        spark, said = self.snapshot.spark, self.adverts
        if self._given is None:
            held = () if said is None or said.are_written else said.facts()
            self._given = GivenFacts.of(spark, chain(self.runtime, held), self._staging)
        if self._said is None and said is not None and said.are_written:
            label = self.plan.operands[1 - self.index].source_label
            frame = self._keep("adverts", lambda: said.frame(spark))
            self._said = Said(frame, label, self.schema)
        return LakeFacts(self.snapshot, self._given, visible, self._said)

    def _visible(self, viewer: str) -> DataFrame:
        """Return the hashes of the records that the peer's rules may see (A18, G19)."""
        everything = self.snapshot.records.select("hash")
        modules = self._exposing(viewer)
        if not modules:
            match self.exposure.default:
                case "everything":
                    return everything
                case "selected":
                    shown = self._shown().frame(SELECT_HAVE)
                    return shown.select(F.col("c0").alias("hash"))
            return everything.limit(0)
        facts = LakeFacts(self.snapshot, self.runtime)
        sets = []
        for module in modules:
            rows = self._evaluate(module.program, ALLOW_QUERY_RECORD, facts)
            allowed = rows.where(F.col("c0") == F.lit(viewer))
            sets.append(allowed.select(F.col("c1").alias("hash")))
        if self.exposure.union:
            return reduce(lambda a, b: a.union(b), sets).distinct()
        return reduce(lambda a, b: a.join(b, "hash", "left_semi"), sets)

    def _exposing(self, viewer: str) -> list[PolicyModule]:
        """Return the modules that say what a viewer sees; without any, the default says it."""
        return [
            module
            for module in self.exposure.modules
            if (viewers := module.viewers()) is None or viewer in viewers
        ]

    def _evaluate_theirs(
        self, module: PolicyModule, facet: Predicate, facts: LakeFacts
    ) -> LakeEvaluation:
        """Evaluate rules of a peer, with as much work as what they see allows (L62)."""
        joins = joins_of(module.program, facet)
        if joins > LAKE.peer_joins:
            raise LimitExceeded("peer_joins", configured=LAKE.peer_joins, observed=joins)
        allowed = replace(
            self.limits,
            peer_work=self.peer_limits.peer_work,
            peer_work_per_fact=self.peer_limits.peer_work_per_fact,
        ).for_peer(self._seen(module, facts))
        made = evaluate_on_spark(
            module.program, facts, outputs=[facet], limits=allowed, placement=self.placement,
            meter=RowMeter(allowed.work),
        )  # fmt: skip
        self._evaluations.append(made)
        return made

    def _seen(self, module: PolicyModule, facts: LakeFacts) -> int:
        """Return how many facts the rules of a peer see, of those that they look at."""
        mentions = Mentions.of([module])
        fields = F.lit(len(mentions.fields))
        if FIELD in mentions.predicates:
            fields = F.size("extras") + F.lit(len(PROMOTED))
        each = F.lit(len(mentions.predicates)) + fields
        seen = facts.records.agg(F.sum(each.cast("double"))).collect()[0][0]
        return int(seen or 0) + self._advertised(facts) + len(self.runtime)

    def _advertised(self, facts: LakeFacts) -> int:
        """Return how many facts the advertisements of the peer are."""
        if self.adverts is None:
            return 0
        if facts.said is None:
            return sum(1 for _ in self.adverts.facts())
        as_here = F.lit(len(PROMOTED) if self.schema is None else len(self.schema))
        each = F.lit(1) + F.when(F.col("fields").isNull(), as_here).otherwise(F.size("fields"))
        return int(facts.said.frame.agg(F.sum(each.cast("double"))).collect()[0][0] or 0)

    def _evaluate(
        self, program: RuleProgram, predicate: Predicate, facts: LakeFacts | FrameFacts
    ) -> DataFrame:
        return self._evaluated(program, predicate, facts).frame(predicate)

    def _evaluated(
        self, program: RuleProgram, predicate: Predicate, facts: LakeFacts | FrameFacts
    ) -> LakeEvaluation:
        made = evaluate_on_spark(
            program, facts, outputs=[predicate], limits=self.limits, placement=self.placement
        )
        self._evaluations.append(made)
        return made


def joins_of(program: RuleProgram, facet: Predicate) -> int:
    """Return how many joins Spark plans for a facet; what one look decides is a filter."""
    return sum(
        len(rule.literals)
        for step in plan(program, [facet])
        if step.where is not Where.HERE or step.otherwise is not None
        for rule in step.rules
        if not decides_by_record(program, rule)
    )


def sending_depends_on_adverts(plan: ExchangePlan) -> bool:
    """Whether what may be sent can change with what the peer advertises."""
    for operand in plan.operands:
        program = operand.module.program
        needed = needed_predicates(program, frozenset([SELECT_HAVE]))
        for rule in program.rules:
            if rule.head in needed:
                for literal in rule.literals:
                    if isinstance(literal.relation, int):
                        view = program.views[literal.relation]
                        if view.predicates & ADVERTISEMENT_FACTS:
                            return True
    return False
