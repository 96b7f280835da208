"""How much memory many tables take together: what several of them share counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from lace.interlace.groups import Group
from lace.interlace.partition import Partitions


def memory_of(tables: Iterable[Partitions]) -> int:
    """Return about how many bytes some tables take together."""
    groups: dict[int, Group] = {}
    aside = 0
    for table in tables:
        held = table.shared_groups
        groups.update(zip(map(id, held), held, strict=True))
        aside += table.odd_memory
    return aside + sum(group.memory for group in groups.values())


def shares_of(holders: Sequence[Sequence[Partitions]]) -> list[int]:
    """Return for each holder of tables how much of that is its part: what is shared is divided."""
    held = [list(chain.from_iterable(t.shared_groups for t in tables)) for tables in holders]
    counts = Counter(chain.from_iterable(map(id, groups) for groups in held))
    aside = [sum(table.odd_memory for table in tables) for tables in holders]
    shares = (sum(group.memory / counts[id(group)] for group in groups) for groups in held)
    return [int(share) + more for share, more in zip(shares, aside, strict=True)]
