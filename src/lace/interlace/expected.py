"""What a peer would say of the records of a table, by the second digest that each has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from lace.interlace.groups import Root, group_digest, pack_roots
from lace.interlace.runs import DIGEST, entry_size, last_digests
from lace.interlace.summary import Summary, merkle_root, merkle_roots

if TYPE_CHECKING:  # tables make these
    from lace.interlace.partition import Partitions

LEAVES_AT_ONCE: Final = 1024
"""Of roots that are found out together."""


@dataclass(slots=True)
class Expected:
    """What a peer would say of the records of a table, read from that table whenever it is needed.

    It need not be held beside it: for most peers it is what they do say.
    """

    table: Partitions
    """As it was then: nobody else changes it."""
    groups: list[bytes] = field(init=False)
    odd: Mapping[str, bytes] = field(default_factory=dict)
    whole: None = None
    stays: ClassVar[bool] = True
    _roots: list[list[Root]] = field(init=False)

    def __post_init__(self) -> None:
        size, table = entry_size(self.table.columns), self.table
        self._roots = []
        for number in range(table.groups):
            found: list[Root] = []
            rows: list[list[bytes]] = []
            leaves = 0
            for held in table.runs(table.group_runs(number)):
                rows.append([held[at - DIGEST : at] for at in range(size, len(held) + 1, size)])
                leaves += len(rows[-1])
                if leaves >= LEAVES_AT_ONCE:
                    found += zip(map(len, rows), merkle_roots(rows), strict=True)
                    rows, leaves = [], 0
            found += zip(map(len, rows), merkle_roots(rows), strict=True)
            self._roots.append(found)
        self.groups = [group_digest(pack_roots(roots)) for roots in self._roots]

    @property
    def count(self) -> int:
        return len(self.table) - len(self.table.odd)

    def expected(self) -> None:
        """Have it made from the runs."""

    def names(self, key: bytes, column: int) -> None:
        """Have them made from the runs."""

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Have each read by itself."""

    def roots(self, group: int) -> list[Root]:
        return self._roots[group]

    def run(self, number: int) -> bytes:
        return last_digests(self.table.run(number), self.table.columns)


def joined_summary(peers: Partitions, own: Partitions, prefix: str, count: int) -> Summary | None:
    """Return the summary of a partition if the peer has all of ours too; None if not so many.

    ``own`` has a second digest for each record: that of the advertisement that the peer would make.
    """
    leaves = own.leaves(prefix, 1) | peers.leaves(prefix)
    return Summary(prefix, count, merkle_root(leaves.values())) if len(leaves) == count else None
