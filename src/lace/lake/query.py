"""SQL over a lake: one dialect, Spark's, and two engines that give the same answer.

DuckDB answers at once where the lake is of moderate size and all of the query is known to mean the
same to both; Spark answers everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from lace.errors import Code, LakeError
from lace.extras import PACKAGES, require
from lace.lake.jobs import explained, job
from lace.lake.tables import TABLES, Lake
from lace.projection import STANDARD

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lace.datalog.program import RuleProgram

DUCKDB_ROWS: Final = 5_000_000
"""Records of a lake that is asked without Spark."""
_EXTRA: Final = "duckdb"


class Engine(StrEnum):
    """What answers a query."""

    AUTO = "auto"
    DUCKDB = "duckdb"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query, and what it is about."""

    query: str
    version: int | None = None
    """Of the records; None: the newest."""
    views: tuple[tuple[str, RuleProgram], ...] = ()
    """Projections that the query may name."""
    columns: tuple[str, ...] = STANDARD
    """Of these projections."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows that are made as they are taken."""

    columns: tuple[str, ...]
    rows: Iterator[dict[str, Any]]


def ask(
    lake: Lake,
    question: Question,
    start: Callable[[], SparkSession],
    *,
    engine: Engine = Engine.AUTO,
    memory: int,
    tell: Callable[[str], None] = lambda _reason: None,
) -> Answer:
    """Answer a query; Spark is started only if it is needed, and then ``tell`` is told why."""
    if engine is Engine.DUCKDB:
        require(_EXTRA, "--engine duckdb")
    reason = _answered(lake, question, engine, memory)
    if isinstance(reason, Answer):
        return reason
    if engine is Engine.DUCKDB:
        raise LakeError(
            f"DuckDB is not known to answer this as Spark does, because of {reason}",
            code=Code.LAKE_SETTING, hint="Leave out --engine duckdb: then Spark answers.",
        )  # fmt: skip
    if reason:
        tell(f"asking Spark, not DuckDB, because of {reason}")
    return _ask_spark(Lake(start(), lake.root), question)


def _answered(lake: Lake, question: Question, engine: Engine, memory: int) -> Answer | str:
    """Return DuckDB's answer, or why there is none; nothing is said if it is not wanted."""
    missing = [name for name in PACKAGES[_EXTRA] if find_spec(name) is None]
    if engine is Engine.SPARK or missing:
        return ""
    snapshot = lake.snapshot(question.version)
    if engine is Engine.AUTO and snapshot.version.rows > DUCKDB_ROWS:
        return f"more than {DUCKDB_ROWS:,} records"
    from lace.lake.dialect import OnlySpark
    from lace.lake.duck import Views, ask_duckdb

    views = Views(dict(question.views), question.columns if question.views else ())
    aside = lake.put_aside(snapshot.version.number)
    try:
        found = ask_duckdb(snapshot, aside, question.query, views, memory)
    except OnlySpark as error:
        return str(error)
    rows = (_in_utc(row) for batch in found.batches for row in batch.to_pylist())
    return Answer(tuple(found.schema.names), rows)


def _ask_spark(lake: Lake, question: Question) -> Answer:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import TimestampType

    from lace.lake.select import select

    snapshot = lake.snapshot(question.version)
    for table in TABLES:
        lake.table(table, snapshot.version.number).createOrReplaceTempView(table)
    with job("query"):
        for name, program in question.views:
            view = select(snapshot, program).project(question.columns)
            view.createOrReplaceTempView(name)
        found = lake.spark.sql(question.query)
        times = {f.name for f in found.schema if isinstance(f.dataType, TimestampType)}

    def rows(found: DataFrame) -> Iterator[dict[str, Any]]:
        try:
            for row in found.toLocalIterator():
                entry = row.asDict(recursive=True)
                # pyspark gives points in time as this machine's clocks show them.
                yield _in_utc(entry | {n: entry[n].astimezone(UTC) for n in times if entry[n]})
        except PySparkException as error:
            raise explained("query", error) from error

    return Answer(tuple(found.columns), rows(found))


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose points in time are those of UTC, without naming it."""
    return {
        name: value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo is not None
        else value
        for name, value in row.items()
    }
