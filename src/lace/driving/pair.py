"""Two laces in one process: two connections joined, without a stream between.

What crosses from one side to the other is exactly what would cross a stream: modules, fact blocks,
record bytes and ends of phases. The order is fixed, so that a run can be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lace.driving.connection import Connection
from lace.interlace import messages as m
from lace.tai import Tai

Tamper = Callable[[int, m.Incoming], list[m.Incoming]]
"""May change what a side says before it arrives: for tests."""


def _leave(_side: int, said: m.Incoming) -> list[m.Incoming]:
    return [said]


def as_text(said: m.Outgoing) -> m.Incoming:
    """Return what one side says, as the other takes it over a stream."""
    match said:
        case m.SendModule():
            return m.PeerModule(said.id, said.content)
        case m.SendFacts():
            return m.PeerFacts(said.content)
        case m.SendRecord():
            return m.PeerRecord(said.record.raw)
        case m.EndPhase():
            return m.PeerPhaseEnd()


def as_it_is(said: m.Outgoing) -> m.Incoming:
    """Return what one side says, as the other takes it here: no fact is turned into text."""
    match said:
        case m.SendFacts():
            return m.PeerTuples(said.facts)
        case _:
            return as_text(said)


@dataclass(slots=True)
class Pair:
    """Two connections, joined."""

    left: Connection
    right: Connection
    tamper: Tamper = _leave
    direct: bool = False
    """Hand facts over as they are: nothing is serialised."""
    vouched: tuple[bool, bool] = (False, False)
    """Of which side the records were validated by this process itself, so that it need not be done
    again. A file may have been written by anybody: what comes out of it is input like any other."""
    _queues: tuple[deque[m.Incoming], deque[m.Incoming]] = field(
        default_factory=lambda: (deque(), deque())
    )

    @property
    def sides(self) -> tuple[Connection, Connection]:
        return self.left, self.right

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way."""
        return not any(self._queues)

    def start(self, now: Tai) -> None:
        for index, side in enumerate(self.sides):
            side.start(now)
            self._pass_on(index)

    def tell(self, index: int, order: m.Order, now: Tai) -> None:
        """Say something to one side; what it says to the other waits."""
        self.sides[index].tell(order, now)
        self._pass_on(index)

    def fire(self, index: int, now: Tai) -> None:
        """Let the timer of one side run out."""
        side = self.sides[index]
        if side.timer is not None:
            side.receive_timer(side.timer, now)
            self._pass_on(index)

    def deliver(self, index: int, said: m.Incoming, now: Tai) -> None:
        """Hand one side something that the other said."""
        self.sides[index].receive(said, now)
        self._pass_on(index)

    def lose(self, index: int, now: Tai, *, orderly: bool = False) -> None:
        """Tell one side that the other is gone."""
        self.sides[index].lose(now, orderly=orderly)
        self._pass_on(index)

    def step(self, now: Tai) -> bool:
        """Deliver one thing to each side; return whether there was anything."""
        before = self.quiet
        for index in (0, 1):
            if self._queues[index]:
                self.deliver(index, self._queues[index].popleft(), now)
        return not before

    def run(self, now: Tai) -> None:
        """Deliver until nothing is under way."""
        while not all(side.closed for side in self.sides) and self.step(now):
            pass

    def wake(self, now: Tai) -> None:
        """Let both sides look at what is new, and run until it is quiet again."""
        for index in (0, 1):
            self.tell(index, m.Woken(), now)
        self.run(now)

    def end(self, now: Tai) -> None:
        """Take the connection away."""
        for index, side in enumerate(self.sides):
            if not side.closed:
                self.lose(index, now, orderly=side.idle)

    def _pass_on(self, index: int) -> None:
        queue = self._queues[1 - index]
        for said in self.sides[index].sent():
            if self.vouched[index] and isinstance(said, m.SendRecord):
                queue.append(m.PeerValidated(said.record))
            elif self.direct:
                queue.append(as_it_is(said))
            else:
                queue.extend(self.tamper(index, as_text(said)))


def interlace(left: Connection, right: Connection, now: Tai, tamper: Tamper = _leave) -> None:
    """Run an exchange until both sides are quiet, and end it."""
    pair = Pair(left, right, tamper)
    pair.start(now)
    pair.run(now)
    pair.end(now)
