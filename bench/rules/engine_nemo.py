"""Nemo, which has one thread. From Python it takes facts as rules or from files; files are quicker.

It reads the files when rules first need them, so that part of reasoning is counted as loading, by
the engine's own clock of CPU time. Writing the files is loading too.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from rules.workloads import Row, Workload, to_nemo


def version() -> str:
    import_module("nmo_python")
    return metadata.version("nemo-python")


def make(_name: str, workload: Workload, folder: Path) -> Nemo:
    return Nemo(workload, folder)


class Nemo:
    """The texts of the workloads have no commas and no quotes, so lines are plain."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._workload = workload
        self._folder = folder
        self._nemo: Any = import_module("nmo_python")
        self.load_seconds_in_evaluate = 0.0

    def _file(self, predicate: str) -> Path:
        return self._folder / f"{predicate}.csv"

    def load(self) -> None:
        for predicate, rows in self._workload.facts.items():
            self._file(predicate).write_text("\n".join(map(",".join, rows)) + "\n", "utf-8")

    def evaluate(self) -> Collection[Row]:
        imports = [
            f'@import {predicate.lower()} :- csv {{ resource = "{self._file(predicate)}",'
            f" format = ({', '.join(['string'] * len(rows[0]))}) }} ."
            for predicate, rows in self._workload.facts.items()
        ]
        rules = self._workload.nemo or to_nemo(self._workload.rules)
        output = self._workload.output.lower()
        text = "\n".join([*imports, rules, f"@export {output} :- csv {{}} ."])
        engine = self._nemo.NemoEngine(self._nemo.load_string(text))
        engine.reason()
        rows = [(value[1:-1],) for (value,) in engine.result(output)]
        loading = engine.timing().subnode("Reasoning/Execution/Load Table")
        if loading is not None:
            self.load_seconds_in_evaluate = loading.process_time.total_seconds()
        return rows

    def close(self) -> None:
        pass
