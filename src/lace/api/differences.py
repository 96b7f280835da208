"""What two laces do not have in common."""

from __future__ import annotations

from dataclasses import dataclass

from lace.api.handles import Lace, Peer
from lace.api.operations import list as list_records
from lace.api.policies import Policy
from lace.record.model import Record

__all__ = ["Difference", "diff"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What only one of two has, oldest first, and how many records both have."""

    left: tuple[Record, ...]
    """What only the first one has."""
    right: tuple[Record, ...]
    """What only the second one has."""
    both: int
    """How many records both have."""

    def __bool__(self) -> bool:
        """Whether there is a difference."""
        return bool(self.left or self.right)


async def diff(
    left: Lace | Peer,
    right: Lace | Peer,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
) -> Difference:
    """Return what only one of two laces has of what a selector selects; nothing is exchanged.

    Each is asked by ``policy``, the right one by ``their_policy`` if it is given; by default the
    settings of each hold. A peer shows what it would give, and so is read as a whole.
    """
    here = {record.hash: record for record in await list_records(left, policy)}
    theirs = await list_records(right, policy if their_policy is None else their_policy)
    there = {record.hash: record for record in theirs}
    return Difference(
        tuple(record for hash, record in here.items() if hash not in there),
        tuple(record for hash, record in there.items() if hash not in here),
        len(here.keys() & there.keys()),
    )
