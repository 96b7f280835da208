"""What every engine must do. Each file ``engine_*.py`` has one, and is loaded only when it runs.

A competitor may not be installed: its package is imported by name, and what is missing is said.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

from rules.workloads import Row, Workload

LACE: Final = "lace"
ENGINES: Final = {
    LACE: "engine_lace",
    "duckdb": "engine_duckdb",
    "duckdb-arrow": "engine_duckdb",
    "duckdb-parquet": "engine_duckdb",
    "sqlite": "engine_sqlite",
    "clingo": "engine_clingo",
    "nemo": "engine_nemo",
}
"""All engines, and the file that has each of them."""

HEAD_START: Final = frozenset(("duckdb-parquet",))
"""Engines that do not begin with the same Python lists as the others; no target is about them."""


class Engine(Protocol):
    """One use of an engine: made, loaded, asked once, closed. Only the middle two are timed."""

    load_seconds_in_evaluate: float
    """CPU time of ``evaluate`` that went into loading, for an engine that loads on demand."""

    def load(self) -> None:
        """Bring the facts from Python lists into the engine's own tables."""

    def evaluate(self) -> Collection[Row]:
        """Return the rows of the output as Python tuples."""

    def close(self) -> None:
        """Give everything back."""


class EngineModule(Protocol):
    """What a file has."""

    def version(self) -> str:
        """Return the version, or raise ImportError."""

    def make(self, name: str, workload: Workload, folder: Path) -> Engine:
        """Return an engine that has done nothing yet; it may leave files in the folder."""


def engine_module(name: str) -> EngineModule:
    return cast("EngineModule", import_module(f"rules.{ENGINES[name]}"))
