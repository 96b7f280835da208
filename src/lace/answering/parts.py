"""Tables of a link in parts: what is kept of them, and how it is read again.

Every part ends with a check: of the form of all this, of its bytes, of its name, of the link, and
of what the head or its group tells of it. So whoever reads a part knows that it is the one that was
told of. What is damaged, gone, of another link or of another moment is noticed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any, ClassVar, Final, NamedTuple

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, StoreError
from lace.interlace.groups import GROUP, NOTHING, Content, empty_group, pack_contents
from lace.interlace.messages import LinkState
from lace.interlace.partition import Partitions
from lace.interlace.runs import entry_size, last_digests
from lace.recordstore.base import LinkMemory

_OWN: Final = b"o"
_PEERS: Final = b"p"
_RUN: Final = b"r"
_GROUP: Final = b"g"
_FORM: Final = b"lace-link/5"
"""The form in which this engine keeps a link; what is kept in another one is not read."""
_CHECK: Final = 8
_CONTENT: Final = struct.Struct(">I32s")
_CONTENTS_BYTES: Final = GROUP * _CONTENT.size
_TOGETHER: Final = 1 << 15
"""Partitions of a group that take so many bytes together are written together."""
_DIGEST: Final = 32
_OWN_DIGESTS: Final = 2
_PEERS_DIGESTS: Final = 1

Part = bytes | Callable[[], bytes]
"""What is to be kept, or what makes it."""
Parts = Iterator[tuple[bytes, Part | None]]
"""Parts that differ from those before, by name; None for one that is gone."""


def with_check(body: bytes, of: bytes = b"") -> bytes:
    """Return bytes to keep: whoever reads them knows whether they are whole, and what they are."""
    return body + digest(_FORM + of + body)[:_CHECK]


def checked(data: bytes, of: bytes = b"") -> bytes | None:
    """Return what was kept; None if it is damaged, or was kept for something else."""
    body = data[:-_CHECK]
    return body if data == with_check(body, of) else None


def damaged(memory: LinkMemory) -> StoreError:
    """Note that what is kept of a link cannot be used; return what to raise."""
    memory.damaged = True
    return StoreError("what is kept of a link is damaged", code=Code.STORE_LINK)


# --- what the head says ---


@dataclass(frozen=True, slots=True)
class Layout:
    """In which parts two tables are kept, by group of partitions.

    A group that is small is kept in one part, with its contents. Of a large one each partition has
    a part of its own, so that a change writes little.
    """

    alike: tuple[int, ...]
    """Partitions of the peer's table that have what it would say of this side's records: a bit for
    each. They are kept nowhere."""
    own_apart: frozenset[int] = frozenset()
    """Groups of this side's table whose partitions are kept one by one."""
    peers_apart: frozenset[int] = frozenset()
    """The same of the peer's."""

    @classmethod
    def of(cls, head: Any, groups: int) -> Layout:
        alike, *apart = head
        bits = struct.unpack(f">{groups}Q", b64a.decode(alike))
        own, peers = (frozenset(map(int, some)) for some in apart)
        return cls(bits, own, peers)

    def as_head(self) -> list[Any]:
        alike = b64a.encode(struct.pack(f">{len(self.alike)}Q", *self.alike))
        return [alike, sorted(self.own_apart), sorted(self.peers_apart)]

    def own(self, basis: bytes) -> _Places:
        """Return where this side's table is kept."""
        return _Places(_OWN, basis, (0,) * len(self.alike), self.own_apart)

    def peers(self, basis: bytes) -> _Places:
        """Return where the peer's table is kept."""
        return _Places(_PEERS, basis, self.alike, self.peers_apart)


@dataclass(frozen=True, slots=True)
class _Places:
    """In which parts one table is kept, and what is told of each."""

    kind: bytes
    basis: bytes
    """What the link and all its tables depend on."""
    alike: tuple[int, ...]
    apart: frozenset[int]

    def group(self, number: int) -> bytes:
        return self.kind + _GROUP + str(number).encode()

    def run(self, number: int) -> bytes:
        return self.kind + _RUN + str(number).encode()

    def is_alike(self, number: int) -> bool:
        return bool(self.alike[number // GROUP] >> number % GROUP & 1)

    def kept(self, runs: Iterable[int]) -> list[int]:
        """Return those of some partitions that do not follow from another table."""
        return [run for run in runs if not self.is_alike(run)]

    def told_of_group(self, number: int, group_digest: bytes) -> bytes:
        """Return what the head tells of a group: also how it lies in its part."""
        lies = b" %d %d " % (self.alike[number], number in self.apart)
        return self.basis + self.group(number) + lies + group_digest

    def told_of_run(self, number: int, content: Content) -> bytes:
        """Return what its group tells of a partition that is kept by itself."""
        return self.basis + self.run(number) + b" " + pack_contents([content])


def head_of(table: Partitions) -> list[Any]:
    """Return what the head says of a table."""
    groups = b"".join(map(table.group_digest, range(table.groups)))
    odd = {record: b64a.encode(digests) for record, digests in table.odd.items()}
    root = table.known_root
    return [len(table), b64a.encode(groups), odd, root and b64a.encode(root)]


# --- reading ---


def read_tables(
    own: Any, peers: Any, layout: Layout, basis: bytes, memory: LinkMemory, standard: int
) -> tuple[Partitions, Partitions]:
    """Return both tables, by what the head says of them; partitions are read when looked at."""
    ours = _KeptTable.of(own, _OWN_DIGESTS, layout.own(basis), memory)
    theirs = _KeptTable.of(peers, _PEERS_DIGESTS, layout.peers(basis), memory, ours)
    return (
        Partitions.from_kept(_OWN_DIGESTS, standard, ours),
        Partitions.from_kept(_PEERS_DIGESTS, standard, theirs),
    )


class _KeptGroup(NamedTuple):
    """What is kept of a group."""

    contents: list[Content]
    starts: list[int] | None
    """Where partitions begin in the data, and where the last one ends; None if each is apart."""
    data: bytes


@dataclass(frozen=True, slots=True)
class _KeptTable:
    """A table as it is kept."""

    places: _Places
    count: int
    groups: tuple[bytes, ...]
    odd: Mapping[str, bytes]
    whole: bytes | None
    entry: int
    memory: LinkMemory
    other: _KeptTable | None
    """That of this side's records, for a table of the peer's."""
    stays: ClassVar[bool] = False
    _ahead: dict[int, bytes] = field(default_factory=dict)
    """Partitions that were read before anybody asked for them."""
    _read: dict[int, _KeptGroup] = field(default_factory=dict)

    def expected(self) -> None:
        """Have it made from the runs."""

    def names(self, key: bytes, column: int) -> None:
        """Have them made from the runs."""

    @classmethod
    def of(
        cls,
        head: Any,
        digests: int,
        places: _Places,
        memory: LinkMemory,
        other: _KeptTable | None = None,
    ) -> _KeptTable:
        count, groups, odd, root = head
        text = b64a.decode(groups)
        aside = {str(record): b64a.decode(digests) for record, digests in odd.items()}
        cut = tuple(text[at : at + _DIGEST] for at in range(0, len(text), _DIGEST))
        known = None if root is None else b64a.decode(root)
        return cls(places, int(count), cut, aside, known, entry_size(digests), memory, other)

    def contents(self, group: int) -> Sequence[Content]:
        return self._group(group).contents

    def read_ahead(self, numbers: Sequence[int]) -> None:
        """Read groups together, and then what is apart."""
        groups = {number // GROUP for number in numbers}.difference(self._read)
        names = {self.places.group(group): group for group in groups}
        found = self.memory.some(list(names))
        for name, group in names.items():
            self._read[group] = self._parsed(group, found.get(name, b""))
        alike = list(filter(self.places.is_alike, numbers))
        if alike and self.other is not None:
            self.other.read_ahead(alike)
        runs = {
            self.places.run(number): number
            for number in self.places.kept(numbers)
            if self._group(number // GROUP).starts is None
        }
        for name, data in self.memory.some(list(runs)).items():
            self._ahead[runs[name]] = data

    def run(self, number: int) -> bytes:
        contents, starts, held = self._group(number // GROUP)
        place = number % GROUP
        if self.places.is_alike(number):
            assert self.other is not None
            return last_digests(self.other.run(number), _OWN_DIGESTS)
        if starts is not None:
            return held[starts[place] : starts[place + 1]]
        if contents[place] == NOTHING:
            return b""
        data = self._ahead.pop(number, None)
        if data is None:
            data = self.memory.part(self.places.run(number)) or b""
        return self._checked(data, self.places.told_of_run(number, contents[place]))

    def _group(self, number: int) -> _KeptGroup:
        found = self._read.get(number)
        if found is None:
            data = self.memory.part(self.places.group(number)) or b""
            found = self._read[number] = self._parsed(number, data)
        return found

    def _parsed(self, number: int, data: bytes) -> _KeptGroup:
        if self.groups[number] == empty_group(GROUP).digest:
            return _KeptGroup([NOTHING] * GROUP, [0] * (GROUP + 1), b"")
        body = self._checked(data, self.places.told_of_group(number, self.groups[number]))
        contents = list(_CONTENT.iter_unpack(body[:_CONTENTS_BYTES]))
        if number in self.places.apart:
            return _KeptGroup(contents, None, b"")
        bits = self.places.alike[number]
        sizes = [
            0 if bits >> place & 1 else count * self.entry
            for place, (count, _) in enumerate(contents)
        ]
        starts = list(accumulate(sizes, initial=_CONTENTS_BYTES))
        return _KeptGroup(contents, starts, body)

    def _checked(self, data: bytes, told: bytes) -> bytes:
        """Return a part without its check, if it is what was told of it."""
        body = checked(data, told)
        if body is None:
            raise damaged(self.memory)
        return body


# --- writing ---


def tables_parts(
    state: LinkState, before: LinkState | None, then: Layout | None, basis: bytes
) -> tuple[Layout, Parts]:
    """Return how both tables are to be kept, and what has to be written for that.

    ``before`` is how they were kept in the layout ``then``, on the same basis.
    """
    own, peers = state.own, state.peers
    if before is None or then is None:
        own_then = Partitions(own.columns, standard=own.standard)
        peers_then = Partitions(peers.columns, standard=peers.standard)
        then = Layout((0,) * own.groups)
    else:
        own_then, peers_then = before.own, before.peers
    own_changed = set(own.differing(own_then))
    changed = own_changed.union(peers.differing(peers_then))
    layout = replace(then, alike=_alike(state, changed, then.alike))
    ours = _Change(own, own_changed, then.own(basis), layout.own(basis))
    theirs = _Change(peers, changed, then.peers(basis), layout.peers(basis))
    layout = Layout(layout.alike, ours.places.apart, theirs.places.apart)
    return layout, chain(ours.parts(), theirs.parts())


def _alike(state: LinkState, changed: Iterable[int], then: Sequence[int]) -> tuple[int, ...]:
    """Return which partitions of the peer's table follow from those of this side's."""
    alike, own, peers = list(then), state.own, state.peers
    for run in changed:
        group, bit = run // GROUP, 1 << run % GROUP
        alike[group] &= ~bit
        if own.run(run) and peers.follows(own, run):
            alike[group] |= bit
    return tuple(alike)


@dataclass(slots=True)
class _Change:
    """One of the two tables, as it is and as it was kept."""

    table: Partitions
    changed: set[int]
    """Partitions that may be kept otherwise than before."""
    then: _Places
    places: _Places
    contents: dict[int, list[Content]] = field(init=False)
    """Those of the groups that may be kept otherwise than before."""

    def __post_init__(self) -> None:
        touched = sorted({run // GROUP for run in self.changed})
        self.contents = {group: self.table.contents(group) for group in touched}
        large = {group for group in self.contents if self._size(group) > _TOGETHER}
        apart = self.then.apart.difference(self.contents) | large
        self.places = replace(self.places, apart=apart)

    def _size(self, group: int) -> int:
        """Return how many bytes of entries are to be kept, or a little more."""
        bits, contents = self.places.alike[group], self.contents[group]
        counts = (count for place, (count, _) in enumerate(contents) if not bits >> place & 1)
        return entry_size(self.table.columns) * sum(counts)

    def parts(self) -> Parts:
        for group, contents in self.contents.items():
            runs = self.table.group_runs(group)
            kept, is_apart = self.places.kept(runs), group in self.places.apart
            is_empty = self.table.group_digest(group) == empty_group(GROUP).digest
            made = partial(self._group, group, contents, [] if is_apart else kept)
            yield self.places.group(group), None if is_empty else made
            was = set(self.then.kept(runs)) if group in self.then.apart else set()
            stay = set(kept) if is_apart else set()
            for run in was - stay:
                yield self.places.run(run), None
            for run in stay:
                if run in self.changed or run not in was:
                    content = contents[run % GROUP]
                    made = partial(self._run, run, content)
                    yield self.places.run(run), None if content == NOTHING else made

    def _group(self, number: int, contents: list[Content], runs: list[int]) -> bytes:
        told = self.places.told_of_group(number, self.table.group_digest(number))
        return with_check(b"".join((pack_contents(contents), *self.table.runs(runs))), told)

    def _run(self, number: int, content: Content) -> bytes:
        return with_check(self.table.run(number), self.places.told_of_run(number, content))
