"""Names of records that a peer advertises in the lake's own words: a few here, many in files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lace.lake.facts import frame_of_table
from lace.lake.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD: Final = 100_000
"""Changes that are held here; more are written down."""
_CHANGES: Final = pa.schema([("hash", pa.string()), ("at", pa.int64()), ("there", pa.bool_())])


@dataclass(slots=True)
class StagedNames:
    """A set of names that may be of any size; close it when its frames are done with."""

    root: str
    """Of the lake."""
    _held: dict[str, bool] = field(default_factory=dict)
    """The last changes: whether each name is in the set now."""
    _written: list[DataFrame] = field(default_factory=list)
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.root)

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._held or self._written)

    def add(self, spark: SparkSession, names: Iterable[str]) -> None:
        for name in names:
            self._change(spark, name, True)

    def discard(self, spark: SparkSession, names: Iterable[str]) -> None:
        if self:
            for name in names:
                self._change(spark, name, False)

    def _change(self, spark: SparkSession, name: str, there: bool) -> None:
        self._held[name] = there
        if len(self._held) >= HELD:
            self._written.append(self._staging.frame(spark, self._table()))
            self._held = {}

    def _table(self) -> pa.Table:
        at = pa.repeat(pa.scalar(len(self._written), pa.int64()), len(self._held))
        return pa.table([list(self._held), at, list(self._held.values())], schema=_CHANGES)

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the names, in one column ``hash``."""
        changes = frame_of_table(spark, self._table(), self._staging)
        for written in self._written:
            changes = changes.unionByName(written)
        last = changes.groupBy("hash").agg(F.max_by("there", "at").alias("there"))
        return last.where("there").select("hash")

    def close(self) -> None:
        self._held, self._written = {}, []
        self._staging.close()
