"""How much an evaluation has done, and how much it may: looking, keeping and preparing alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lace.errors import LimitExceeded
from lace.limits import Limits

ROW: Final = 10
"""To keep a row takes memory; it costs as much as to look at so many tuples."""

_STRIDE: Final = 1 << 16  # tuples that may be looked at before rows are counted again


@dataclass(slots=True)
class Meter:
    """Counts tuples, rows and what it takes to prepare a rule in one unit: a tuple looked at.

    It never counts time, so that a busy machine decides nothing.
    """

    limits: Limits
    work: int = 0

    def spend(self, tuples: int) -> None:
        self.work += tuples
        if self.work > self.limits.work:
            raise LimitExceeded("work", configured=self.limits.work, observed=self.work)

    def pace(self, looked_at: int, kept: int, before: int) -> int:
        """Return up to how many tuples a function may look at before it asks again.

        It has looked at so many, and keeps so many rows where ``before`` were kept when it began.
        """
        limits = self.limits
        spent = self.work + looked_at + ROW * (kept - before)
        if spent > limits.work:
            raise LimitExceeded("work", configured=limits.work, observed=spent)
        if kept > limits.derived_facts:
            raise LimitExceeded("derived_facts", configured=limits.derived_facts, observed=kept)
        return looked_at + min(_STRIDE, limits.work - spent)


def writing_cost(joins: int, others: int) -> int:
    """Return what it costs to write and compile one function of a rule, measured in tuples."""
    return 400 * (joins + others + 1) + 5 * joins * joins


def choosing_cost(joins: int) -> int:
    """Return what it costs to choose where a rule begins, measured in tuples."""
    return 5 * joins**3 if joins > 1 else 0
