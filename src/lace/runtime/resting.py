"""What exchanges leave behind at their fixed points, for the next ones over the same links.

Marks make it cheap to find that nothing is new. This makes it cheap to find a little that is new:
the policy only follows what was stored since. It is kept in memory while there is room, by whoever
lives longer than an exchange: a server, or an application that opened a lace.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from lace.datalog.source import Fact
from lace.interlace.partition import Partitions
from lace.policy.executable import ExchangePolicy
from lace.policy.mentions import Mentions
from lace.recordstore.base import StoreRecordId

_ROOM: Final = 500_000


@dataclass(frozen=True, slots=True)
class AtRest:
    """One side at a fixed point: its policy, and what both sides advertise."""

    setting: bytes
    policy: ExchangePolicy
    mentions: Mentions
    seen: StoreRecordId
    forgets: int
    runtime: tuple[Fact, ...]
    own: Partitions
    peers: Partitions

    @property
    def size(self) -> int:
        """Facts and advertisements, roughly what there is to hold."""
        source = self.policy.source
        facts = sum(map(source.count_at_most, source.predicates()))
        return facts + len(self.own) + len(self.peers)


class Resting:
    """Sides at rest by link; the one that was not used for longest goes first."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._lock = Lock()
        self._sides: OrderedDict[bytes, tuple[AtRest, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sides)

    def take(self, link: bytes) -> AtRest | None:
        """Hand over what is kept for a link: whoever goes on with it changes it."""
        with self._lock:
            found = self._sides.pop(link, None)
        return None if found is None else found[0]

    def put(self, link: bytes, side: AtRest) -> None:
        """Keep a side; others go until there is room for it."""
        size = side.size
        with self._lock:
            self._sides[link] = side, size
            self._sides.move_to_end(link)
            while sum(size for _, size in self._sides.values()) > self._room:
                self._sides.popitem(last=False)
