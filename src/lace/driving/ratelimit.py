"""How fast one connection may go: who is too fast waits, and is not cut off for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WINDOW: Final = 60.0


@dataclass(slots=True)
class RateLimit:
    """Bounds bytes and phases in each minute."""

    bytes_per_minute: int
    phases_per_minute: int
    _start: float = float("-inf")
    _bytes: int = 0
    _phases: int = 0

    def wait(self, now: float, bytes: int, phases: int) -> float:
        """Return the seconds to wait before reading on, given what has come in all until now."""
        if now - self._start >= _WINDOW:
            self._start, self._bytes, self._phases = now, bytes, phases
        too_fast = (
            bytes - self._bytes > self.bytes_per_minute
            or phases - self._phases > self.phases_per_minute
        )
        return self._start + _WINDOW - now if too_fast else 0.0
