"""SQLite of the standard library, in memory, with the indexes that the queries need."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from rules.workloads import COLUMNS, INDEXES, Row, Workload


def version() -> str:
    return sqlite3.sqlite_version


def make(_name: str, workload: Workload, _folder: Path) -> Sqlite:
    return Sqlite(workload)


class Sqlite:
    """Making the indexes is part of loading."""

    load_seconds_in_evaluate = 0.0

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._connection = sqlite3.connect(":memory:")

    def load(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA journal_mode = OFF")
        for predicate, rows in self._workload.facts.items():
            table, columns = predicate.lower(), COLUMNS[predicate]
            typed = ", ".join(f"{column} TEXT NOT NULL" for column in columns)
            key = ", PRIMARY KEY (rec)) WITHOUT ROWID" if columns == ("rec",) else ")"
            execute(f"CREATE TABLE {table} ({typed}{key}")
            marks = ", ".join("?" * len(columns))
            insert = f"INSERT INTO {table} VALUES ({marks})"  # noqa: S608  (names from this file)
            self._connection.executemany(insert, rows)
            for number, indexed in enumerate(INDEXES.get(predicate, ())):
                execute(f"CREATE INDEX {table}_{number} ON {table} ({', '.join(indexed)})")

    def evaluate(self) -> Collection[Row]:
        *before, query = self._workload.sql
        for statement in before:
            self._connection.execute(statement)
        return self._connection.execute(query).fetchall()

    def close(self) -> None:
        self._connection.close()
