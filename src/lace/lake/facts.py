"""Base facts as DataFrames: those of a lake's records, and those that are given.

A star of fields over the records of a lake is a filter on their wide rows: no join, and no look at
columns that the rules do not mention. Everything else is a frame of facts, one column a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from lace import vocabulary
from lace.datalog.ast import Predicate
from lace.datalog.program import Pattern, Slot, View
from lace.datalog.source import Fact, Row
from lace.errors import Code, LimitExceeded, UsageError
from lace.lake.expressions import all_of, test_column
from lace.lake.reading import local_frame
from lace.lake.rows import PROMOTED
from lace.lake.staging import STAGED_BYTES, Staging
from lace.lake.tables import Snapshot, all_fields
from lace.limits import Limits
from lace.vocabulary import ADVERTISEMENT_FACTS, FIELD, HAVE, RECORD_FACTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EMPTY_COLUMN: Final = "c_"
"""What a frame of facts without values has, because Spark knows no rows without columns."""


def columns_of(arity: int) -> list[str]:
    """Return the names of the columns of a frame of facts."""
    return [f"c{number}" for number in range(arity)] or [EMPTY_COLUMN]


def table_of_rows(rows: Collection[Row], arity: int) -> pa.Table:
    """Return facts as a table of text."""
    values = zip(*rows, strict=True) if rows and arity else [[]] * arity
    arrays = [pa.array(column, pa.string()) for column in values]
    if not arity:
        arrays = [pa.array(["" for _ in rows], pa.string())]
    return pa.table(arrays, names=columns_of(arity))


def frame_of_rows(spark: SparkSession, rows: Collection[Row], arity: int) -> DataFrame:
    """Return facts that are held here as a frame."""
    return local_frame(spark, table_of_rows(rows, arity))


def frame_of_table(spark: SparkSession, table: pa.Table, staging: Staging | None) -> DataFrame:
    """Return a table that is held here as a frame; a large one is written down, if it can be."""
    if staging is None or table.nbytes <= STAGED_BYTES:
        return local_frame(spark, table)
    return staging.frame(spark, table)


class FactFrames(Protocol):
    """The base facts of one evaluation."""

    spark: SparkSession

    @property
    def root(self) -> str | None:
        """Of the lake that the facts come from, if they come from one."""

    def predicates(self) -> Iterable[Predicate]:
        """Return the predicates that may have facts."""

    def frame(self, pattern: Pattern) -> DataFrame:
        """Return at least the facts that fit the constants of a pattern, one column a value."""

    def rows_here(self, predicate: Predicate) -> Collection[Row] | None:
        """Return the facts of a predicate if all of them are held here."""

    def wide(self, view: View) -> DataFrame | None:
        """Return a whole view at once, or None if it has to be put together from patterns."""

    @property
    def records(self) -> DataFrame:
        """The wide rows, if there are any."""

    def condition(self, view: View) -> tuple[Column, dict[int, Column]] | None:
        """Return a view as a condition on wide rows with its local columns, if it can be one."""

    def check(self, limits: Limits) -> None:
        """Raise ``LimitExceeded`` if there are more facts than allowed."""


@dataclass
class GivenFacts:
    """Facts that are held here."""

    spark: SparkSession
    rows: Mapping[Predicate, Collection[Row]]
    staging: Staging | None = None
    """Where many of them are written down for the workers; None: Spark's driver holds them."""
    _frames: dict[Predicate, DataFrame] = field(default_factory=dict)

    @classmethod
    def of(
        cls, spark: SparkSession, facts: Iterable[Fact], staging: Staging | None = None
    ) -> GivenFacts:
        rows: dict[Predicate, dict[Row, None]] = {}
        for fact in facts:
            rows.setdefault(Predicate(fact[0], len(fact) - 1), {})[fact[1:]] = None
        return cls(spark, rows, staging)

    @property
    def root(self) -> str | None:
        return None

    def predicates(self) -> Iterable[Predicate]:
        return self.rows.keys()

    def frame(self, pattern: Pattern) -> DataFrame:
        """Return the facts of a predicate; they go to Spark once, however many ask for them."""
        predicate = pattern.predicate
        if predicate not in self._frames:
            rows = self.rows.get(predicate, ())
            table = table_of_rows(rows, predicate.arity)
            self._frames[predicate] = frame_of_table(self.spark, table, self.staging)
        return self._frames[predicate]

    def rows_here(self, predicate: Predicate) -> Collection[Row] | None:
        return self.rows.get(predicate, ())

    def wide(self, view: View) -> DataFrame | None:  # noqa: ARG002 (facts are not rows of records)
        return None

    @property
    def records(self) -> DataFrame:
        return frame_of_rows(self.spark, (), 0)

    def condition(self, view: View) -> tuple[Column, dict[int, Column]] | None:  # noqa: ARG002
        return None

    def check(self, limits: Limits) -> None:
        _check_base(sum(map(len, self.rows.values())), limits)


def chosen(records: DataFrame, by: DataFrame | Column | None) -> DataFrame:
    """Return some of wide rows: those with hashes of a frame, those of a condition, or all."""
    if by is None:
        return records
    if isinstance(by, Column):
        return records.where(by)
    return records.join(by, "hash", "left_semi")


@dataclass(frozen=True)
class Said:
    """What a peer advertises, where that is a table."""

    frame: DataFrame
    """Each record (``hash``) with its ``fields``; null: those that the lake would advertise."""
    source: str
    schema: frozenset[str] | None


@dataclass
class LakeFacts:
    """The facts of a lake's records, and given ones of other predicates beside them.

    ``visible`` (hashes in one column ``hash``, or a condition on wide rows) leaves only the record
    facts of these records: this is how a query view looks in a lake, and all that the rules of a
    peer ever get.
    """

    snapshot: Snapshot
    given: Iterable[Fact] | GivenFacts = ()
    """``GivenFacts`` can be shared: what one evaluation sent to Spark is there for the next."""
    visible: DataFrame | Column | None = None
    said: Said | None = None
    """Where the advertisements of a peer come from; None: they are among the given facts."""
    spark: SparkSession = field(init=False)

    def __post_init__(self) -> None:
        self.spark = self.snapshot.spark
        given = self.given
        self._given = given if isinstance(given, GivenFacts) else GivenFacts.of(self.spark, given)
        mixed = [predicate for predicate in self._given.rows if predicate in RECORD_FACTS]
        if mixed:
            raise UsageError(
                f"{mixed[0]} facts come from the lake alone", code=Code.LACEGRAM_SHADOW
            )

    @property
    def records(self) -> DataFrame:
        return chosen(self.snapshot.records, self.visible)

    @property
    def root(self) -> str | None:
        return self.snapshot.lake_root

    def predicates(self) -> Iterable[Predicate]:
        return {*RECORD_FACTS, *self._given.predicates()}

    def _adverts(self, predicate: Predicate, said: Said) -> DataFrame:
        """Return the advertisement facts of a table."""
        source = F.lit(said.source)
        others = said.frame.where(F.col("fields").isNotNull())
        as_here = said.frame.where(F.col("fields").isNull()).select("hash")
        records = self.snapshot.records.join(as_here, "hash", "left_semi")
        columns = columns_of(predicate.arity)
        if predicate == vocabulary.ADVERTISED:
            names = others.select("hash").union(records.select("hash"))
            return names.select("hash", source).toDF(*columns)
        parts = [others.select("hash", F.explode("fields").alias("f"))]
        fields = records.select("hash", F.explode(all_fields()).alias("f"))
        if said.schema is not None:
            fields = fields.where(F.col("f.name").isin(sorted(said.schema)))
        parts.append(fields)
        index = F.col("f.index").cast("string")
        rows = [part.select("hash", source, "f.name", index, "f.value") for part in parts]
        return rows[0].union(rows[1]).toDF(*columns)

    def check(self, limits: Limits) -> None:
        _check_base(self.snapshot.version.rows, limits)
        self._given.check(limits)

    def frame(self, pattern: Pattern) -> DataFrame:
        records = self.records
        parts: tuple[str, ...]
        match pattern.predicate:
            case vocabulary.HAVE:
                return records.select(F.col("hash").alias("c0"))
            case vocabulary.FIELD:
                return self._fields(pattern.slots[1])
            case vocabulary.RECORD_LINK:
                rows = records.select("hash", F.explode("links").alias("link"))
                parts = ("hash", "link.name", "link.index", "link.data", "link.target")
            case vocabulary.BLOB_HASH:
                rows = records.where(F.col("type") == "P")
                parts = ("hash", "blob_hash")
            case vocabulary.PLEX_HASH:
                rows = records.where(F.col("type") == "S")
                parts = ("hash", "plex_hash")
            case vocabulary.ADVERTISED | vocabulary.ADVERTISED_FIELD if self.said is not None:
                return self._adverts(pattern.predicate, self.said)
            case _:
                return self._given.frame(pattern)
        return rows.select(
            *(F.col(part).cast("string").alias(f"c{n}") for n, part in enumerate(parts))
        )

    def _fields(self, name: Slot) -> DataFrame:
        if isinstance(name, str) and name in PROMOTED:
            column = F.col(PROMOTED[name])
            return self.records.where(column.isNotNull()).select(
                F.col("hash").alias("c0"), F.lit(name).alias("c1"), F.lit("0").alias("c2"),
                column.cast("string").alias("c3"),
            )  # fmt: skip
        found = F.col("extras") if isinstance(name, str) else all_fields()
        rows = self.records.select("hash", F.explode(found).alias("f"))
        parts = ("hash", "f.name", "f.index", "f.value")
        return rows.select(*(F.col(p).cast("string").alias(f"c{n}") for n, p in enumerate(parts)))

    def rows_here(self, predicate: Predicate) -> Collection[Row] | None:
        if predicate in RECORD_FACTS:
            return None
        if predicate in ADVERTISEMENT_FACTS and self.said is not None:
            return None
        return self._given.rows_here(predicate)

    def wide(self, view: View) -> DataFrame | None:
        if not is_star(view):
            return None
        return _Wide(self.records).view(view)

    def condition(self, view: View) -> tuple[Column, dict[int, Column]] | None:
        return _Wide(self.records).condition(view) if is_star(view) else None


@dataclass
class FrameFacts:
    """Facts that are frames already, and given ones beside them."""

    spark: SparkSession
    frames: Mapping[Predicate, DataFrame]
    given: Iterable[Fact] = ()
    root: str | None = None

    def __post_init__(self) -> None:
        self._given = GivenFacts.of(self.spark, self.given)

    def predicates(self) -> Iterable[Predicate]:
        return {*self.frames, *self._given.predicates()}

    def frame(self, pattern: Pattern) -> DataFrame:
        found = self.frames.get(pattern.predicate)
        return self._given.frame(pattern) if found is None else found

    def rows_here(self, predicate: Predicate) -> Collection[Row] | None:
        return None if predicate in self.frames else self._given.rows_here(predicate)

    def wide(self, view: View) -> DataFrame | None:
        return self._given.wide(view)

    @property
    def records(self) -> DataFrame:
        return self._given.records

    def condition(self, view: View) -> tuple[Column, dict[int, Column]] | None:
        return self._given.condition(view)

    def check(self, limits: Limits) -> None:
        self._given.check(limits)


def is_star(view: View) -> bool:
    """Whether a view is about the fields, by name, of one record a row."""
    return (
        view.outputs is not None
        and view.patterns[0].slots[:1] not in {(), (None,)}
        and all(
            pattern.slots[0] == view.patterns[0].slots[0]
            and (
                pattern.predicate == HAVE
                or (pattern.predicate == FIELD and isinstance(pattern.slots[1], str))
            )
            for pattern in view.patterns
        )
    )


class _Wide:
    """Turns a star into a filter and a projection of wide rows."""

    def __init__(self, records: DataFrame) -> None:
        self._frame = records
        self._columns: dict[int, Column] = {}
        self._conditions: list[Column] = []

    def view(self, view: View) -> DataFrame:
        """Return the rows of a star; a list in it may make several of one record."""
        self._key(view)
        # What needs no list goes first: it is what files can be skipped by.
        for pattern in view.patterns:
            if not _is_in_list(pattern):
                self._promoted(pattern)
        self._filter()
        for pattern in view.patterns:
            if _is_in_list(pattern):
                self._from_list(pattern)
        tests = [test_column(test, self._columns.__getitem__) for test in view.tests]
        frame = self._frame.where(all_of([*self._conditions, *tests]))
        assert view.outputs is not None
        if not view.outputs:
            return frame.select(F.lit("").alias(EMPTY_COLUMN))
        return frame.select(
            *(self._columns[local].alias(f"c{n}") for n, local in enumerate(view.outputs))
        )

    def condition(self, view: View) -> tuple[Column, dict[int, Column]] | None:
        """Return a star as a condition, and its columns; None if a list makes more of a record."""
        self._key(view)
        for pattern in view.patterns:
            if not _is_in_list(pattern):
                self._promoted(pattern)
            elif makes_several(pattern):
                return None
            else:
                self._from_list(pattern)
        tests = [test_column(test, self._columns.__getitem__) for test in view.tests]
        return all_of([*self._conditions, *tests]), self._columns

    def _key(self, view: View) -> None:
        """Bind the record of a star, once: a second time would say that its hash is not null.

        Then hashes, the largest column, would be read even where nobody asks for them.
        """
        self._bind(view.patterns[0].slots[0], F.col("hash"))

    def _promoted(self, pattern: Pattern) -> None:
        if pattern.predicate == FIELD:
            _, name, index, value = pattern.slots
            column = F.col(PROMOTED[str(name)])
            self._conditions.append(column.isNotNull())
            self._bind(index, F.lit("0"))
            self._bind(value, column.cast("string") if name == "Data-Length" else column)

    def _from_list(self, pattern: Pattern) -> None:
        _, name, index, value = pattern.slots

        def fits(entry: Column) -> Column:
            conditions = [entry["name"] == F.lit(name)]
            if isinstance(index, str):
                conditions.append(entry["index"].cast("string") == F.lit(index))
            if isinstance(value, str):
                conditions.append(entry["value"] == F.lit(value))
            return all_of(conditions)

        if not isinstance(index, int) and not isinstance(value, int):
            self._conditions.append(F.exists("extras", fits))
            return
        self._filter()
        made = f"e{len(self._frame.columns)}"
        self._frame = self._frame.withColumn(made, F.explode(F.filter("extras", fits)))
        if isinstance(index, int):
            self._bind(index, F.col(f"{made}.index").cast("string"))
        if isinstance(value, int):
            self._bind(value, F.col(f"{made}.value"))

    def _filter(self) -> None:
        self._frame = self._frame.where(all_of(self._conditions))
        self._conditions = []

    def _bind(self, slot: Slot, column: Column) -> None:
        if isinstance(slot, str):
            self._conditions.append(column == F.lit(slot))
        elif slot is not None and slot in self._columns:
            self._conditions.append(column == self._columns[slot])
        elif slot is not None:
            self._columns[slot] = column


def makes_several(pattern: Pattern) -> bool:
    """Whether a pattern can make more than one row of a record: it binds values of a list."""
    return _is_in_list(pattern) and any(isinstance(slot, int) for slot in pattern.slots[2:])


def _is_in_list(pattern: Pattern) -> bool:
    return pattern.predicate == FIELD and pattern.slots[1] not in PROMOTED


def _check_base(facts: int, limits: Limits) -> None:
    if facts > limits.base_facts:
        raise LimitExceeded("base_facts", configured=limits.base_facts, observed=facts)
