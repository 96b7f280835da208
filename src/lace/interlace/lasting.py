"""How long a round has lasted, counted without a clock: by when its inputs came."""

from __future__ import annotations

from dataclasses import dataclass

from lace.tai import NS_PER_SECOND, Tai, difference_ns


@dataclass(slots=True)
class Lasting:
    """The time of a round, of which there is so much.

    From one input to the next, no more counts than a timer allows: more cannot have passed. There
    the clock was set, or this side was busy.
    """

    seconds: int
    """After so many a round is over, however much is said in it."""
    _spent: int = 0  # nanoseconds
    _last: Tai | None = None

    def begin(self) -> None:
        """Begin a round; what was counted is forgotten."""
        self._spent = 0

    def rest_until(self, now: Tai) -> None:
        """Count nothing up to now."""
        self._last = now

    def go_on(self, now: Tai, longest: int) -> bool:
        """Count the time up to now, of at most so many seconds.

        Returns False, and counts nothing, if the round is over by that.
        """
        if now == self._last:
            return True
        passed = difference_ns(now, self._last or now)
        spent = self._spent + min(max(0, passed), longest * NS_PER_SECOND)
        if spent > self.seconds * NS_PER_SECOND:
            return False
        self._spent, self._last = spent, now
        return True
