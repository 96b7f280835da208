"""Events on their way to an application: in order, and never more than it can be asked to hold."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from lace.limits import FIXED

__all__ = ["EventsMissed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventsMissed:
    """So many events came while nobody read; they are gone. What they told of has happened."""

    count: int
    """How many."""


class EventQueue(Generic[T]):
    """Events of one source for one reader; the last ones are never lost, as ``put_last`` has it."""

    def __init__(self, most: int | None = None) -> None:
        self._most = FIXED.waiting_events if most is None else most
        self._waiting: deque[T | EventsMissed] = deque()
        self._there = asyncio.Event()
        self._ended = False

    def put(self, event: T) -> None:
        """Add an event, or count it if there is no room."""
        if len(self._waiting) < self._most:
            self._waiting.append(event)
        else:
            last = self._waiting[-1]
            if isinstance(last, EventsMissed):
                self._waiting[-1] = EventsMissed(last.count + 1)
            else:
                self._waiting.append(EventsMissed(1))
        self._there.set()

    def put_last(self, event: T) -> None:
        """Add an event that comes seldom and must be told, such as the end."""
        self._waiting.append(event)
        self._there.set()

    def end(self) -> None:
        """Say that nothing comes any more."""
        self._ended = True
        self._there.set()

    async def get(self) -> T | EventsMissed | None:
        """Wait for the next event; None when all were told and nothing comes any more."""
        while not self._waiting:
            if self._ended:
                return None
            self._there.clear()
            await self._there.wait()
        return self._waiting.popleft()

    def take(self) -> T | EventsMissed | None:
        """Return the next event if it is there, else None."""
        return self._waiting.popleft() if self._waiting else None
