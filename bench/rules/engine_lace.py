"""This project's engine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import lace
from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation, evaluate
from lace.rules import MemorySource, check_lacegram, compile_program
from rules.workloads import Facts, Row, Workload


def version() -> str:
    return lace.__version__


def make(_name: str, workload: Workload, _folder: Path) -> LaceEngine:
    return LaceEngine(workload)


def load_facts(facts: Facts) -> MemorySource:
    source = MemorySource()
    for predicate, rows in facts.items():
        source.add_rows(Predicate(predicate, len(rows[0])), rows)
    return source


class LaceEngine:
    """Checking and compiling the rules is part of the evaluation, as it is for the others."""

    load_seconds_in_evaluate = 0.0

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._source = MemorySource()
        self._evaluation: Evaluation | None = None

    def load(self) -> None:
        self._source = load_facts(self._workload.facts)

    def evaluate(self) -> Collection[Row]:
        program = compile_program(check_lacegram(self._workload.rules).lacegram)
        output = Predicate(self._workload.output, 1)
        self._evaluation = evaluate(program, self._source, outputs=[output])
        return self._evaluation.rows(output)

    def close(self) -> None:
        self._evaluation = None
        self._source = MemorySource()
