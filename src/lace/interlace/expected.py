"""What a peer would say of the records of a table, by the second digest that each has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from lace.interlace.groups import Content, content_of, group_digest, pack_contents
from lace.interlace.runs import column_of, last_digests
from lace.interlace.summary import Summary, merkle_root

if TYPE_CHECKING:  # tables make these
    from lace.interlace.partition import Partitions


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
    _contents: list[list[Content]] = field(init=False)

    def __post_init__(self) -> None:
        table = self.table
        columns, last = table.columns, table.columns - 1
        self._contents = [
            [
                content_of(column_of(held, columns, last))
                for held in table.runs(table.group_runs(number))
            ]
            for number in range(table.groups)
        ]
        self.groups = [group_digest(pack_contents(contents)) for contents in self._contents]

    @property
    def count(self) -> int:
        return len(self.table) - len(self.table.odd)

    def expected(self) -> None:
        """Have it made from the runs."""

    def names(self, key: bytes, column: int) -> None:
        """Have them made from the runs."""

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Have each read by itself."""

    def contents(self, group: int) -> list[Content]:
        return self._contents[group]

    def run(self, number: int) -> bytes:
        return last_digests(self.table.run(number), self.table.columns)


def joined_summary(peers: Partitions, own: Partitions, prefix: str, count: int) -> Summary | None:
    """Return the summary of a partition if the peer has all of ours too; None if not so many.

    ``own`` has a second digest for each record: that of the advertisement that the peer would make.
    """
    leaves = own.leaves(prefix, 1) | peers.leaves(prefix)
    return Summary(prefix, count, merkle_root(leaves.values())) if len(leaves) == count else None
