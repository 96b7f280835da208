"""Groups of standard partitions: what tables are made of, and share where they are alike."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final, Protocol
from weakref import WeakValueDictionary

from lace.crypto.native import digest
from lace.interlace.sketch import Names

GROUP: Final = 64  # standard partitions that have one digest together
_CONTENT: Final = b"lace-advertisement-content/v1"
_GROUP: Final = b"lace-advertisement-group/v1"
Content = tuple[int, bytes]
"""How many records a partition has, and the digest of what is said of them."""
_Changes = tuple[tuple[int, bytes], ...]
"""Places in a group, each with its new entries."""


def content_of(digests: Sequence[bytes]) -> Content:
    """Return the content of a partition by the digests of its advertisements, in their order.

    It is no Merkle root: what has changed is told by what is new in it, and one hash over a
    partition costs a tenth of two for each record.
    """
    return len(digests), digest(b"".join((_CONTENT, *digests)))


NOTHING: Final = content_of(())


def group_digest(contents: bytes) -> bytes:
    """Return the digest of a group: of four bytes of count and 32 of digest for each partition."""
    return digest(_GROUP + contents)


def pack_contents(contents: Sequence[Content]) -> bytes:
    """Return the contents of partitions as ``group_digest`` takes them."""
    return struct.pack(">" + "I32s" * len(contents), *chain.from_iterable(contents))


class Kept(Protocol):
    """A table that was kept: a partition is read when somebody looks at it."""

    @property
    def count(self) -> int:
        """How many records it has."""

    @property
    def groups(self) -> Sequence[bytes]:
        """The digest of each group of partitions."""

    @property
    def whole(self) -> bytes | None:
        """The root of all of it, if it was known."""

    @property
    def odd(self) -> Mapping[str, bytes]:
        """What is kept aside."""

    @property
    def stays(self) -> bool:
        """Whether it can be read at any time; else what was read is held for as long as the table.

        Such a table may be too large to hold. It then makes ``expected`` and ``names`` itself.
        """

    def expected(self) -> Kept | None:
        """Return the table of the last digests; None if it has to be made from the runs."""

    def names(self, key: bytes, column: int) -> Names | None:
        """Return the names for sketches; None if they have to be made from the runs."""

    def contents(self, group: int) -> Sequence[Content]:
        """Return the content of each partition of a group."""

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Take note that these partitions are read next; it may be cheaper to read them at once."""

    def run(self, number: int) -> bytes:
        """Return the entries of a partition."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Group:
    """Standard partitions that lie side by side, shared by all tables that have them alike.

    What it holds never changes. What follows from that, such as a digest, may be noted by anybody
    who found it out.
    """

    runs: list[bytes | None]
    """Entries; None for a partition that was kept, and was not looked at yet."""
    contents: list[Content | None]
    """The content of each partition, as far as it is known."""
    digest: bytes | None
    _after: WeakValueDictionary[_Changes, Group] | None = None
    """What others have made of it, for as long as anybody has it."""
    _memory: int | None = None

    @property
    def memory(self) -> int:
        """How many bytes of entries are in memory; known from now on if none are left to read."""
        if self._memory is not None:
            return self._memory
        memory = sum(len(run) for run in self.runs if run is not None)
        if None not in self.runs:
            self._memory = memory
        return memory

    def changed(self, runs: Mapping[int, bytes]) -> Group:
        """Return the group with other entries in some places.

        Whoever makes the same of the same group gets the same one: tables that go the same way stay
        alike, and what follows from a change is found out once.
        """
        changes = tuple(runs.items())
        if self._after is None:
            self._after = WeakValueDictionary()
        made = self._after.get(changes)
        if made is None:
            made = Group(list(self.runs), list(self.contents), None)
            for place, run in runs.items():
                made.runs[place], made.contents[place] = run, None
            self._after[changes] = made
        return made


@cache
def empty_group(size: int) -> Group:
    """Return a group of so many partitions that have nothing, for all tables."""
    digest = group_digest(pack_contents([NOTHING] * size))
    return Group([b""] * size, [NOTHING] * size, digest)
