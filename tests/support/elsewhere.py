"""A table that is kept elsewhere, and says what was read of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lace.interlace.groups import Content
from lace.interlace.partition import Partitions
from lace.interlace.sketch import Names, NamesHere


@dataclass
class Elsewhere:
    """A table that is kept, and says which of its partitions were read."""

    table: Partitions
    read: list[int] = field(default_factory=list)
    stays: bool = True
    odd: Mapping[str, bytes] = field(default_factory=dict)
    whole: bytes | None = None

    @property
    def count(self) -> int:
        return len(self.table)

    @property
    def groups(self) -> Sequence[bytes]:
        return [self.table.group_digest(group) for group in range(self.table.groups)]

    def contents(self, group: int) -> Sequence[Content]:
        return [self.table.content(run) for run in self.table.group_runs(group)]

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Have each read by itself."""

    def run(self, number: int) -> bytes:
        self.read.append(number)
        return self.table.run(number)

    def expected(self) -> Elsewhere:
        return Elsewhere(self.table.expected(), self.read)

    def names(self, key: bytes, column: int) -> Names:
        return NamesHere(key, self.table.items(column))
