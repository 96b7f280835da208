"""How much an evaluation has looked at, and how much it may."""

from __future__ import annotations

from dataclasses import dataclass

from lace.errors import LimitExceeded
from lace.limits import Limits


@dataclass(slots=True)
class Meter:
    """Counts the tuples looked at; never the time, so that a busy machine decides nothing."""

    limits: Limits
    work: int = 0

    def left(self) -> int:
        """Return how many tuples may still be looked at."""
        return self.limits.work - self.work

    def spend(self, tuples: int) -> None:
        self.work += tuples
        if self.work > self.limits.work:
            raise LimitExceeded("work", configured=self.limits.work, observed=self.work)
