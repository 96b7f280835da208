"""Rows of joins, counted before they are made: what the rules of a peer may have Spark do.

A join that multiplies is not stopped by looking at what comes out: by then it has been made. How
many rows it will have follows from how often each value occurs on both sides, which costs no more
than a look at both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from lace.errors import LimitExceeded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(slots=True)
class RowMeter:
    """Work of one evaluation: a row that a join makes counts 1."""

    limit: int
    spent: int = 0

    def take(self, left: DataFrame, right: DataFrame, shared: Sequence[str]) -> None:
        """Count the rows of a join; raise ``LimitExceeded`` if there would be too many."""
        if shared:
            sides = (
                side.groupBy(*shared).agg(F.count(F.lit(1)).cast("double").alias(name))
                for side, name in ((left, "lefts"), (right, "rights"))
            )
            one, other = sides
            pairs = one.join(other, list(shared)).agg(F.sum(F.col("lefts") * F.col("rights")))
            rows = int(pairs.collect()[0][0] or 0)
        else:
            rows = left.count() * right.count()
        self.spent += rows
        if self.spent > self.limit:
            raise LimitExceeded("work", configured=self.limit, observed=self.spent)
