"""The table of what may be sent under a plan: kept, followed from an older one, or made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lace.answering.apart import ApartAnswers
from lace.datalog.source import Fact
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.lake.adverts import StagedAdverts
from lace.lake.evaluate import LAKE_LIMITS
from lace.lake.jobs import job
from lace.lake.keeping import Kept
from lace.lake.moment import Guards, Moment
from lace.lake.packed import PackedTable, pack, write_changed
from lace.lake.plan import PlanOverLake
from lace.lake.staging import Staging
from lace.lake.summarize import Advertising, advertised_columns, digest_pairs
from lace.lake.tables import Lake, Snapshot
from lace.limits import Limits
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FEW: Final = 20_000
"""So many records that came are looked at without Spark."""
_FILES_BEFORE_REWRITE: Final = 64  # that a table is in before it is written anew


@dataclass(slots=True)
class Sendable:
    """What may be sent in one exchange, at any version of the lake."""

    lake: Lake
    index: int
    exposure: Exposure
    parameters: Parameters
    plan: ExchangePlan
    schema: frozenset[str] | None
    kept: Kept
    """What the lake keeps for this plan."""
    adverts: StagedAdverts
    """What the peer advertises at the moment."""
    staging: Staging
    limits: Limits
    """What rules of the peer may do."""
    apart: ApartAnswers | None = None
    _guards: Guards = field(default_factory=dict)

    def moment(self, snapshot: Snapshot) -> Moment:
        """Return a version as decisions on some of its records look at it."""
        return Moment(self.lake, snapshot, self._guards)

    def current(self, snapshot: Snapshot, runtime: tuple[Fact, ...], decided: bytes) -> PackedTable:
        """Return the table of a version: kept, followed from one that was, or made."""
        version = snapshot.version.number
        before = self.kept.newest(decided)
        if before is not None and before.note["lake"] == version:
            return before
        table = None if before is None else self._followed(before, snapshot, runtime)
        table = table or self.made(snapshot, runtime, before)
        return self.kept.save(table, decided, version)

    def _followed(
        self, kept: PackedTable, snapshot: Snapshot, runtime: tuple[Fact, ...]
    ) -> PackedTable | None:
        """Return a table with what came since decided on; None if that is not to be done here."""
        came = self.came(snapshot, kept.note["lake"])
        if self.apart is None or came is None or len(kept.files) > _FILES_BEFORE_REWRITE:
            return None
        asked = m.Evaluate(plan=self.plan, schema=self.schema, runtime=runtime)
        table = kept.partitions
        moment = self.moment(snapshot)
        for part in self.apart.decide_some(moment, came.read_all(), frozenset(), asked):
            table.remove(part.unsendable)
            table.put(part.sendable)
        return write_changed(table, kept)

    def came(self, snapshot: Snapshot, older: int) -> Snapshot | None:
        """Return what came after an older version; None if that is unknown, or too much."""
        files = self.lake.records_log.came_since(snapshot.version, older)
        if files is None or sum(file.rows for file in files) > FEW:
            return None
        return Snapshot(None, replace(snapshot.version, files=tuple(files)))

    def made(
        self, snapshot: Snapshot, runtime: tuple[Fact, ...], kept: PackedTable | None
    ) -> PackedTable:
        """Have Spark make a table; digests that are known are not made again."""
        over = self.over(snapshot, runtime)
        try:
            return self._packed(over, snapshot, kept)
        finally:
            over.close()
            self.staging.close()

    def _packed(
        self, over: PlanOverLake, snapshot: Snapshot, kept: PackedTable | None
    ) -> PackedTable:
        plan, spark = over.plan, self.lake.spark
        sides = [
            Advertising(selection=plan.id, source=plan.operands[i].source_label, schema=self.schema)
            for i in (self.index, 1 - self.index)
        ]
        with job("what may be sent"):
            fresh = over.may_send()
            known: DataFrame | None = None
            if kept is not None and kept.count:
                frame = kept.frame(spark)
                known = frame.join(fresh.select("hash"), "hash", "left_semi")
                fresh = fresh.join(frame.select("hash"), "hash", "left_anti")
            rows, standard = snapshot.version.rows, self.parameters.standard_prefix
            fresh = fresh.select(*advertised_columns(sides[0]))
            return pack(fresh, self.kept.folder, rows, standard, digest_pairs(*sides), known)

    def over(self, snapshot: Snapshot, runtime: tuple[Fact, ...]) -> PlanOverLake:
        """Return the plan over a version, with what the peer advertises at the moment."""
        return PlanOverLake(
            snapshot=snapshot,
            plan=self.plan,
            index=self.index,
            exposure=self.exposure,
            runtime=runtime,
            adverts=self.adverts,
            schema=self.schema,
            limits=LAKE_LIMITS,
            peer_limits=self.limits,
        )
