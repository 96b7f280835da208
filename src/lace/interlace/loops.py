"""The loops of a round: what the first one advertised, and whether that is still on its way.

Both sides know what each advertised and requested, so both come to the same result, unless one of
them lacks so much that it requests only a part of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lace.interlace.partition import Partitions


@dataclass(slots=True)
class Loops:
    """What both sides advertised in the first loop of a round."""

    lacks_first: bool = True
    """Whether anything was still requested in the last loop that the first one advertised; True
    before any loop."""
    memory: int = 0
    """About how many bytes are held of tables that have changed since, as of the last loop."""
    _first: tuple[Partitions, Partitions] | None = None

    def advertised(self, own: Partitions, peers: Partitions) -> None:
        """Take note of what both sides advertise, when both have found it out."""
        if self._first is None:
            self._first = own.copy(), peers.copy()
        else:
            first, theirs = self._first
            self.memory = first.memory_beside(own) + theirs.memory_beside(peers)

    def end(self, of_own: Collection[str], of_peers: Collection[str]) -> None:
        """Take note of what is requested, or would be, in the last loop that a round may have."""
        assert self._first is not None, "a request before anything was advertised"
        tables = zip(self._first, (of_own, of_peers), strict=True)
        self.lacks_first = any(table.among(list(names)) for table, names in tables)
