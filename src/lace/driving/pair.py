"""Two laces in one process: machines, stores and policies put together, without a stream between.

What crosses from one side to the other is exactly what would cross a connection: modules, fact
blocks, record bytes and ends of phases. The order is fixed, so that a run can be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lace.interlace import messages as m
from lace.driving.participant import Crossing, Participant, as_heard
from lace.tai import Tai

__all__ = ["Crossing", "Pair", "Participant", "interlace"]

Tamper = Callable[[int, Crossing], list[Crossing]]
"""May change what a side sends: for tests."""


def _leave(_side: int, crossing: Crossing) -> list[Crossing]:
    return [crossing]


@dataclass(slots=True)
class Pair:
    """Two participants, joined."""

    left: Participant
    right: Participant
    tamper: Tamper = _leave
    direct: bool = False
    """Hand facts and records over as they are; nothing is serialised or validated twice."""
    _queues: tuple[deque[m.Input], deque[m.Input]] = field(
        default_factory=lambda: (deque(), deque())
    )

    @property
    def sides(self) -> tuple[Participant, Participant]:
        return self.left, self.right

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way."""
        return not any(self._queues)

    def start(self, now: Tai) -> None:
        self.give(0, m.Started(), now)
        self.give(1, m.Started(), now)

    def give(self, index: int, given: m.Input, now: Tai) -> None:
        """Hand an input to one side; what it sends waits for the other."""
        side, queue = self.sides[index], self._queues[1 - index]
        if self.direct:
            queue.extend(map(as_heard, side.give_directly(given, now)))
        else:
            for crossing in side.give(given, now):
                queue.extend(self.tamper(index, crossing))

    def step(self, now: Tai) -> bool:
        """Deliver one thing to each side; return whether there was anything."""
        before = self.quiet
        for index in (0, 1):
            if self._queues[index]:
                self.give(index, self._queues[index].popleft(), now)
        return not before

    def run(self, now: Tai) -> None:
        """Deliver until nothing is under way."""
        while not all(side.closed for side in self.sides) and self.step(now):
            pass

    def wake(self, now: Tai) -> None:
        """Let both sides look at what is new, and run until it is quiet again."""
        for index in (0, 1):
            self.give(index, m.Woken(), now)
        self.run(now)

    def end(self, now: Tai) -> None:
        """Take the connection away."""
        for index, side in enumerate(self.sides):
            if not side.closed:
                self.give(index, m.PeerGone(orderly=side.idle), now)


def interlace(left: Participant, right: Participant, now: Tai, tamper: Tamper = _leave) -> None:
    """Run an exchange until both sides are quiet, and end it."""
    pair = Pair(left, right, tamper)
    pair.start(now)
    pair.run(now)
    pair.end(now)
