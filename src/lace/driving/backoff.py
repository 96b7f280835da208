"""How long to wait before trying again: longer each time, never quite the same, never too long."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Backoff:
    """Delays that double from ``first`` to ``most`` seconds; chance takes up to half of each away.

    A seed makes the delays repeatable; without one, clients that lost one server come back at
    different times.
    """

    first: float = 0.5
    most: float = 60.0
    chance: Random = field(default_factory=Random)
    _next: float = 0.0

    def delay(self) -> float:
        """Return the seconds to wait now, and remember to wait longer next time."""
        full = self._next or self.first
        self._next = min(self.most, full * 2)
        return full * (1 - self.chance.random() / 2)

    def reset(self) -> None:
        """Begin again with short delays, because something worked."""
        self._next = 0.0
