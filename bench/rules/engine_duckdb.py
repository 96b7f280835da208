"""DuckDB with one thread, in three ways of loading.

``duckdb`` turns the lists into Arrow tables and those into its own tables. ``duckdb-arrow`` reads
the Arrow tables where they are, which spares a copy. ``duckdb-parquet`` makes its own tables from
files that are already there: it does less than the others, because nobody counts their making.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from rules.workloads import COLUMNS, Facts, Row, Workload


def version() -> str:
    duckdb, arrow = import_module("duckdb"), import_module("pyarrow")
    return f"{duckdb.__version__}, pyarrow {arrow.__version__}"


def make(name: str, workload: Workload, folder: Path) -> DuckDb:
    kinds = {"duckdb": DuckDb, "duckdb-arrow": OverArrow, "duckdb-parquet": FromParquet}
    return kinds[name](workload, folder)


def _arrow_tables(facts: Facts) -> dict[str, Any]:
    arrow = import_module("pyarrow")
    text = arrow.string()
    return {
        predicate: arrow.table(
            {
                column: arrow.array([row[place] for row in rows], text)
                for place, column in enumerate(COLUMNS[predicate])
            }
        )
        for predicate, rows in facts.items()
    }


class DuckDb:
    """Tables of its own, by way of Arrow."""

    load_seconds_in_evaluate = 0.0

    def __init__(self, workload: Workload, folder: Path) -> None:
        self.workload = workload
        self.folder = folder
        settings = {"threads": 1, "memory_limit": "3GB"}
        self.connection: Any = import_module("duckdb").connect(":memory:", config=settings)

    def load(self) -> None:
        for predicate, table in _arrow_tables(self.workload.facts).items():
            self.connection.register("lists", table)
            self.copy(predicate, "lists")
            self.connection.unregister("lists")

    def copy(self, predicate: str, source: str) -> None:
        table = predicate.lower()
        self.connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {source}")  # noqa: S608

    def evaluate(self) -> Collection[Row]:
        for statement in self.workload.duckdb or self.workload.sql:
            self.connection.execute(statement)
        rows: list[Row] = self.connection.fetchall()
        return rows

    def close(self) -> None:
        self.connection.close()


class OverArrow(DuckDb):
    """No tables of its own."""

    def load(self) -> None:
        for predicate, table in _arrow_tables(self.workload.facts).items():
            self.connection.register(predicate.lower(), table)


class FromParquet(DuckDb):
    """Tables of its own, from files."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        super().__init__(workload, folder)
        parquet = import_module("pyarrow.parquet")
        if not all(self._file(predicate).exists() for predicate in workload.facts):
            for predicate, table in _arrow_tables(workload.facts).items():
                parquet.write_table(table, self._file(predicate))

    def _file(self, predicate: str) -> Path:
        return self.folder / f"{predicate}.parquet"

    def load(self) -> None:
        for predicate in self.workload.facts:
            self.copy(predicate, f"read_parquet('{self._file(predicate)}')")
