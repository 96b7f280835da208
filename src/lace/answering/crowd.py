"""One evaluation for all exchanges that differ in nothing.

Peers that have proven nothing and bring the same rules are told the same of the records here, until
one of them advertises something. So one of them all, the *leader*, follows the store; what it finds
is told to each member of the crowd. Whoever advertises leaves the crowd, and goes on from what it
was told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from lace.answering.following import Position
from lace.interlace import messages as m

_MOST_CROWDS: Final = 32
_ENTRY_BYTES: Final = 200  # of one record and its digests

_NOTHING: Final = m.Evaluated(more=True)

Lead = Callable[[], list[m.Evaluated]]
"""Looks at the records as they are now; returns how decisions changed."""


@dataclass(slots=True, eq=False)
class Turn:
    """What changed at one time; whoever has seen it goes on with the next one.

    Nobody keeps a turn but those who have not seen the next one yet.
    """

    parts: list[m.Evaluated] = field(default_factory=list)
    next: Turn | None = None


@dataclass(slots=True, eq=False)
class Crowd:
    """What its members were told, and the leader that looks after it."""

    lead: Lead
    position: Callable[[], Position]
    """How far the store has come."""
    memory_of_leader: Callable[[], int]
    sendable: dict[str, bytes] = field(default_factory=dict)
    requestable: set[str] = field(default_factory=set)
    last: Turn = field(default_factory=Turn)
    lock: Lock = field(default_factory=Lock)
    _at: Position | None = None

    def advance(self) -> Turn:
        """Look at the records if anything was stored or forgotten; return the newest turn."""
        with self.lock:
            return self._advance()

    def join(self, most: int) -> tuple[Turn, list[m.Evaluated]]:
        """Return the newest turn, and all that a new member has to be told, in parts."""
        with self.lock:
            turn = self._advance()
            parts = [m.Evaluated(requestable=frozenset(self.requestable), more=True)]
            records = list(self.sendable.items())
        parts += [
            m.Evaluated(sendable=dict(records[start : start + most]), more=True)
            for start in range(0, len(records), most)
        ]
        return turn, parts

    def told(self) -> tuple[Turn, set[str], set[str]]:
        """Return the newest turn, and what may be sent and requested by all that was told."""
        with self.lock:
            return self.last, set(self.sendable), set(self.requestable)

    @property
    def memory(self) -> int:
        """About how many bytes it takes, for all members together."""
        return self.memory_of_leader() + _ENTRY_BYTES * len(self.sendable)

    def _advance(self) -> Turn:
        now = self.position()
        if now != self._at:
            parts = [part for part in map(self._take, self.lead()) if part != _NOTHING]
            self._at = now  # what was stored meanwhile is seen the next time
            if parts:
                self.last.next = Turn(parts)
                self.last = self.last.next
        return self.last

    def _take(self, part: m.Evaluated) -> m.Evaluated:
        """Take note of a part; return what of it is new to members."""
        unsendable = frozenset(r for r in part.unsendable if r in self.sendable)
        unrequestable = part.unrequestable & self.requestable
        for record in unsendable:
            del self.sendable[record]
        self.sendable.update(part.sendable)
        self.requestable -= unrequestable
        self.requestable |= part.requestable
        return replace(part, unsendable=unsendable, unrequestable=unrequestable, more=True)


def between(turn: Turn, last: Turn) -> Iterator[Turn]:
    """Yield the turns after one, up to another one that comes later or is the same."""
    while turn is not last and turn.next is not None:
        turn = turn.next
        yield turn


class Crowds:
    """Crowds by everything that decides on what their members are told."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._crowds: OrderedDict[bytes, Crowd] = OrderedDict()

    def of(self, key: bytes, make: Callable[[], Crowd]) -> Crowd:
        """Return the crowd of a key; those that nobody joined for longest are not kept."""
        with self._lock:
            crowd = self._crowds.get(key)
            if crowd is None:
                crowd = self._crowds[key] = make()
            self._crowds.move_to_end(key)
            while len(self._crowds) > _MOST_CROWDS:
                self._crowds.popitem(last=False)
            return crowd

    def drop(self, crowd: Crowd) -> None:
        """Forget a crowd whose leader failed: the next one begins another."""
        with self._lock:
            for key in [key for key, kept in self._crowds.items() if kept is crowd]:
                del self._crowds[key]

    def advance(self) -> None:
        """Let every crowd look at what was stored and forgotten, so that no member has to."""
        with self._lock:
            crowds = list(self._crowds.values())
        for crowd in crowds:
            crowd.advance()

    def clear(self) -> None:
        """Keep none; members stay where they are."""
        with self._lock:
            self._crowds.clear()

    @property
    def memory(self) -> int:
        """About how many bytes are kept."""
        with self._lock:
            return sum(crowd.memory for crowd in self._crowds.values())
