"""Which records of a lake a selector selects, and why one of them is or is not among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import lace.lake.required  # noqa: F401  (first: its error says what to install)

# isort: split
from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.explain import Explainer, FailedRule, Proof
from lace.datalog.program import RuleProgram
from lace.datalog.source import Fact, Row
from lace.lake.dependencies import relevant_records
from lace.lake.evaluate import LAKE_LIMITS, LakeEvaluation, evaluate_on_spark
from lace.lake.facts import LakeFacts
from lace.lake.jobs import job
from lace.lake.placing import Placement
from lace.lake.rows import PROMOTED
from lace.lake.tables import Snapshot
from lace.limits import Limits
from lace.projection import HASH, STANDARD
from lace.record.facts import facts as facts_of
from lace.rules import MemorySource
from lace.values import DATA
from lace.vocabulary import SELECT_HAVE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Selection:
    """The records of one version of a lake that a program selects."""

    snapshot: Snapshot
    evaluation: LakeEvaluation
    predicate: Predicate

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what was kept on disk; what was made of this selection cannot be read then."""
        self.evaluation.close()

    def hashes(self) -> DataFrame:
        """Return the hashes, in one column ``hash``, each once."""
        return self.evaluation.frame(self.predicate).select(F.col("c0").alias("hash"))

    def records(self) -> DataFrame:
        """Return the selected records with all their columns; what is not here is left out."""
        return self.snapshot.records.join(self.hashes(), "hash", "left_semi")

    def project(self, columns: Sequence[str] = STANDARD) -> DataFrame:
        """Return the rows that ``lace.Projection`` makes of the selected records."""
        return self.records().select(*map(_projected, columns))


def _projected(name: str) -> Column:
    if name == HASH:
        made = F.col("hash")
    elif name == DATA:
        length = F.col("data_length").cast("int")
        made = F.substring("raw", F.length("raw") - length + 1, length)
    elif name in PROMOTED:
        made = F.col(PROMOTED[name]).cast("string")
    else:
        first = F.filter("extras", lambda x: (x["name"] == name) & (x["index"] == 0))
        made = F.get(first, F.lit(0))["value"]
    return made.alias(name)


def select(
    snapshot: Snapshot,
    program: RuleProgram,
    *,
    predicate: Predicate = SELECT_HAVE,
    given: Iterable[Fact] = (),
    limits: Limits = LAKE_LIMITS,
    placement: Placement | None = None,
) -> Selection:
    """Evaluate a program over a lake; ``given`` are runtime facts and others beside the records."""
    evaluation = evaluate_on_spark(
        program,
        LakeFacts(snapshot, given),
        outputs=[predicate],
        limits=limits,
        placement=placement,
    )
    return Selection(snapshot, evaluation, predicate)


def explain(
    snapshot: Snapshot,
    program: RuleProgram,
    row: Row,
    *,
    predicate: Predicate = SELECT_HAVE,
    given: Iterable[Fact] = (),
    limits: Limits = LAKE_LIMITS,
) -> Proof | tuple[FailedRule, ...]:
    """Return the smallest proof of a fact, or how far each rule got towards it.

    The records that can play a part are found by Spark and brought here; the answer is the one that
    the in-process engine gives over the whole lake.
    """
    given = list(given)
    with job("looking for the records that matter"):
        matter = relevant_records(program, LakeFacts(snapshot, given), predicate, row, limits)
    source = MemorySource(given, limits)
    for record in snapshot.load(matter):
        for fact in facts_of(record):
            source.add_valid(fact)
    explainer = Explainer(evaluate(program, source, limits=limits))
    proof = explainer.why(predicate, row)
    return proof if proof is not None else explainer.why_not(predicate, row)
