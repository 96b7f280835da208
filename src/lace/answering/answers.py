"""What an exchange may ask of the side that it runs for. Nothing else of a side is known to it.

A store answers, and so does a lake; neither inherits from the other. Each question is answered for
one moment of the records: that of the last ``evaluate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lace.errors import Outcome
from lace.interlace import messages as m
from lace.policy.foreign import Job
from lace.record.model import Record


class Answers(Protocol):
    """The local half of one exchange."""

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Begin an epoch: return how the link stood, if all that this depends on is the same."""

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        """Look at the records as they are now, and yield how decisions changed, in parts.

        A job that it yields is done elsewhere; it goes on when that is done.
        """

    def describe(self, asked: m.Describe) -> m.Described:
        """Return the advertisements of records that may be sent."""

    def serve(self, asked: m.Serve) -> m.Served:
        """Return records that were requested and may be sent; None for one that is gone."""

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Store records, in this order; whatever is acknowledged stays."""

    def at_hand(self, asked: m.Question) -> Sequence[m.Input] | None:
        """Return the answer if nobody has to wait for it: no records are looked at. Else None."""

    def remember(self, told: m.Remember) -> None:
        """Keep how the link stands at a fixed point."""

    def rest(self) -> None:
        """Hold nothing any more that others may wait for: nothing may be asked for a long time."""

    def close(self) -> None:
        """End: the exchange asks nothing more."""

    @property
    def memory(self) -> int:
        """About how many bytes are held for this exchange."""
