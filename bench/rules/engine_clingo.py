"""clingo with one thread. The quickest way in from Python is the text of the facts."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from rules.workloads import Row, Workload, to_clingo


def version() -> str:
    found: str = import_module("clingo").__version__
    return found


def make(_name: str, workload: Workload, _folder: Path) -> Clingo:
    return Clingo(workload)


class Clingo:
    """Grounding the facts is loading; grounding the rules, solving and reading is evaluation."""

    load_seconds_in_evaluate = 0.0

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._clingo: Any = import_module("clingo")
        self._control = self._clingo.Control(["--warn=none"])

    def load(self) -> None:
        lines = [
            f'{predicate.lower()}("' + '","'.join(row) + '").'
            for predicate, rows in self._workload.facts.items()
            for row in rows
        ]
        self._control.add("facts", [], "\n".join(lines))
        self._control.ground([("facts", [])])

    def evaluate(self) -> Collection[Row]:
        rules = self._workload.clingo or to_clingo(self._workload.rules)
        output = self._workload.output.lower()
        self._control.add("rules", [], f"{rules}#show. #show X : {output}(X).")
        self._control.ground([("rules", [])], context=self)
        with self._control.solve(yield_=True) as found:
            return [(symbol.string,) for symbol in found.model().symbols(shown=True)]

    def starts(self, text: Any) -> Any:
        """``@starts(K)`` in rules: clingo has no test on the start of a text."""
        return self._clingo.Number(int(text.string.startswith("links/")))

    def close(self) -> None:
        del self._control
