"""How fast a connection may go, and how much a host is sent: what is too fast waits, and goes on.

What comes is counted by connection and by the minute. What goes is counted by host, whichever of
its connections it goes to: each minute gives room for as much again, and what has no room yet waits
for its turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

_WINDOW: Final = 60.0
_PIECES: Final = 6000  # of a minute's worth: many connections of a host hear something in turn
_FORGET_FROM: Final = 1024  # known hosts, from which on those at rest are dropped


@dataclass(slots=True, weakref_slot=True)
class Allowance:
    """Room for what is sent: so many bytes at once, and as many again in each minute."""

    per_minute: int
    _used: float = 0.0
    _at: float = float("-inf")

    @property
    def piece(self) -> int:
        """The most bytes to be sent together."""
        return max(1, self.per_minute // _PIECES)

    def has(self, now: float, size: int) -> bool:
        """Return whether so many bytes may be sent now."""
        return self._used_by(now) + size <= self.per_minute

    def take(self, now: float, size: int) -> float:
        """Use room for so many bytes; return the seconds after which they may be sent.

        Those who ask one after another are sent to in this order.
        """
        self._used, self._at = self._used_by(now) + size, now
        return max(0.0, self._used - self.per_minute) * _WINDOW / self.per_minute

    def is_unused(self, now: float) -> bool:
        """Return whether there is as much room as there can be."""
        return not self._used_by(now)

    def _used_by(self, now: float) -> float:
        """Return how much of the room is used; it comes back as time goes by."""
        if self._at == float("-inf"):
            return self._used
        return max(0.0, self._used - max(0.0, now - self._at) * self.per_minute / _WINDOW)


@dataclass(slots=True)
class Allowances:
    """An allowance for each host; one that connects again finds its own."""

    per_minute: int
    _hosts: dict[str, Allowance] = field(default_factory=dict)
    _most: int = _FORGET_FROM

    def __len__(self) -> int:
        return len(self._hosts)

    def of(self, host: str, now: float) -> Allowance:
        """Return the allowance of a host; when there are many, unused ones are let go.

        One that a connection still has is kept, so that a host never has two.
        """
        if len(self._hosts) >= self._most:
            alive = WeakValueDictionary(self._hosts)
            self._hosts = {h: a for h, a in self._hosts.items() if not a.is_unused(now)}
            self._hosts |= dict(alive.items())
            self._most = max(_FORGET_FROM, 2 * len(self._hosts))
        return self._hosts.setdefault(host, Allowance(self.per_minute))


@dataclass(slots=True)
class RateLimit:
    """Bounds what comes from one connection in each minute, and what goes to its host."""

    bytes_per_minute: int
    phases_per_minute: int
    sends: Allowance | None = None
    """Room for what is sent; None if that is not bounded."""
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
