"""The running Spark session evaluates rules; a Python that has no lake cannot import this."""

from __future__ import annotations

from collections.abc import Iterable

from lace.datalog.ast import Predicate
from lace.datalog.source import parse_facts
from lace.lake.evaluate import LAKE_LIMITS, LakeEvaluation, evaluate_on_spark
from lace.lake.facts import GivenFacts
from lace.lake.placing import Placement
from lace.lake.session import open_session
from lace.limits import Limits
from lace.rules import check_lacegram, compile_program


def run_on_spark(
    rules: str,
    facts: str | Iterable[str] = (),
    *,
    outputs: list[Predicate] | None = None,
    limits: Limits = LAKE_LIMITS,
    placement: Placement | None = None,
) -> LakeEvaluation:
    """Evaluate rules over fact lines in the running Spark session."""
    text = facts if isinstance(facts, str) else "\n".join(facts)
    program = compile_program(check_lacegram(rules, limits=limits).lacegram)
    given = GivenFacts.of(open_session(), parse_facts(text))
    return evaluate_on_spark(program, given, outputs=outputs, limits=limits, placement=placement)
