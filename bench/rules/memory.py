"""How many bytes an evaluation holds for each base fact that its program looks at."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.maintain import Maintained
from lace.datalog.program import RuleProgram
from lace.rules import check_lacegram, compile_program
from rules.engine_lace import load_facts
from rules.workloads import Facts, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes, as Python counts what it has given out."""

    facts: int
    """Base facts that the program looks at: only mentioned fields count."""
    source: int
    """Held by the source, besides the rows that were there before."""
    evaluation: int
    peak: int
    """Most that was held while evaluating."""
    maintained: int
    """Held by the evaluation when it is ready for changes."""


def measure(workload: Workload) -> Memory:
    """Measure one evaluation. Run this ``apart``."""
    program = compile_program(check_lacegram(workload.rules).lacegram)
    output = Predicate(workload.output, 1)
    facts = _count_touched(workload.facts, program)
    gc.collect()
    tracemalloc.start()
    try:
        source = load_facts(workload.facts)
        loaded = _held()
        tracemalloc.reset_peak()
        evaluation = evaluate(program, source, outputs=[output])
        peak = tracemalloc.get_traced_memory()[1]
        evaluated = _held()
        maintained = Maintained(evaluation, source)
        prepared = _held()
    finally:
        tracemalloc.stop()
    del maintained
    return Memory(
        facts=facts,
        source=loaded,
        evaluation=evaluated - loaded,
        peak=peak - loaded,
        maintained=prepared - loaded,
    )


def _held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _count_touched(facts: Facts, program: RuleProgram) -> int:
    """Return how many base facts a program looks at: of fields, those that it names."""
    patterns = {
        (pattern.predicate, pattern.slots[1] if pattern.predicate.name == "Field" else None)
        for view in program.views
        for pattern in view.patterns
    }
    return sum(
        (predicate, name) in patterns
        for predicate_name, rows in facts.items()
        for predicate in (Predicate(predicate_name, len(rows[0])),)
        for name in ((row[1] if predicate_name == "Field" else None) for row in rows)
    )
