"""Policies that exchanges leave behind at their fixed points, for the next ones over a link.

What a store keeps of a link makes it cheap to find that nothing is new. This makes it cheap to find
a little that is new: the policy only follows what was stored since. It is kept in memory while
there is room, by whoever lives longer than an exchange: a server, or an application that opened a
lace.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

from lace.datalog.source import Fact
from lace.limits import MIB

if TYPE_CHECKING:  # a lace that has met nobody yet has no policies either
    from lace.policy.executable import ExchangePolicy
    from lace.policy.mentions import Mentions

_ROOM: Final = 128 * MIB
_FACT_BYTES: Final = 400  # in a source, with what follows from it


def memory_of(policy: ExchangePolicy | None) -> int:
    """Return about how many bytes a policy takes."""
    if policy is None:
        return 0
    return _FACT_BYTES * policy.size_at_most()


@dataclass(frozen=True, slots=True)
class WarmLink:
    """One side at a fixed point: the policy that knows what is kept for the link."""

    head: bytes
    """What the store keeps for the link, if it is to be used."""
    policy: ExchangePolicy
    mentions: Mentions
    runtime: tuple[Fact, ...]

    @property
    def memory(self) -> int:
        return memory_of(self.policy)


class WarmLinks:
    """Sides at rest by link; the one that was not used for longest goes first."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._lock = Lock()
        self._sides: OrderedDict[bytes, tuple[WarmLink, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sides)

    @property
    def memory(self) -> int:
        """About how many bytes are kept."""
        with self._lock:
            return sum(size for _, size in self._sides.values())

    def clear(self) -> None:
        """Keep nothing: the next exchanges have more to do."""
        with self._lock:
            self._sides.clear()

    def take(self, link: bytes) -> WarmLink | None:
        """Hand over what is kept for a link: whoever goes on with it changes it."""
        with self._lock:
            found = self._sides.pop(link, None)
        return None if found is None else found[0]

    def put(self, link: bytes, side: WarmLink) -> None:
        """Keep a side; others go until there is room for it."""
        size = side.memory
        with self._lock:
            self._sides[link] = side, size
            self._sides.move_to_end(link)
            while sum(size for _, size in self._sides.values()) > self._room:
                self._sides.popitem(last=False)
