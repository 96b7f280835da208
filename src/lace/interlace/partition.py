"""Merkle partitions: a table of advertisements that knows the summaries of its parts."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final, Protocol

from lace import b64a
from lace.crypto.native import digest
from lace.interlace.runs import (
    DIGEST,
    KEY,
    Items,
    bounds,
    cut,
    entry_size,
    key_of,
    last_digests,
    merged,
    number_of,
    position,
    record_of,
)
from lace.interlace.sketch import Names, NamesHere, add_cells
from lace.interlace.summary import EMPTY, LONGEST_PREFIX, Summary, is_prefix, merkle_root, payload

STANDARD_PREFIX: Final = 2
GROUP: Final = 64  # standard partitions that have one digest together
_ODD_BYTES: Final = 400
_TABLE: Final = b"lace-advertisement-table/v1"
_GROUP: Final = b"lace-advertisement-group/v1"
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")
_Root = tuple[int, bytes]
_NO_ROOT: Final[_Root] = (0, EMPTY)


def group_digest(roots: bytes) -> bytes:
    """Return the digest of a group: of four bytes of count and 32 of root for each partition."""
    return digest(_GROUP + roots)


@cache
def _empty_group(size: int) -> bytes:
    """Return the digest of a group of so many partitions that have nothing."""
    return group_digest((bytes(4) + EMPTY) * size)


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

    def roots(self, group: int) -> Sequence[_Root]:
        """Return count and root of each partition of a group."""

    def run(self, number: int) -> bytes:
        """Return the entries of a partition."""


class Partitions:
    """Digests of advertisements by record, compact: 33 bytes of name, and the digests.

    Entries lie sorted in one run of bytes for each standard partition. A change makes the runs that
    it touches anew; the rest stays as it is, also in copies, and its digests stay known. Hashes of
    other formats, which only a peer can bring up, are few and kept aside.
    """

    __slots__ = (
        "_before", "_bytes", "_entry", "_groups", "_kept", "_made", "_odd", "_order", "_roots",
        "_runs", "_standard", "_touched",
    )  # fmt: skip

    def __init__(self, digests: int = 1, *, standard: int = STANDARD_PREFIX) -> None:
        self._entry = entry_size(digests)
        self._standard = standard
        number = 64**standard
        self._runs: list[bytes | None] = [b""] * number
        """None for one that was kept, and was not looked at yet."""
        self._roots: list[_Root | None] = [_NO_ROOT] * number
        """Count and root of each standard partition, as far as they are known."""
        self._groups: list[bytes | None] = [_empty_group(min(number, GROUP))] * -(-number // GROUP)
        """Digests of groups of partitions, as far as they are known."""
        self._kept: Kept | None = None
        self._bytes = 0
        """How many bytes the runs have in all."""
        self._before: dict[int, bytes] = {}
        """Runs that were made anew, as they were at ``mark``."""
        self._touched: set[int] = set()
        """Runs that count as changed, whatever they hold."""
        self._odd: dict[str, bytes] = {}
        self._order: list[tuple[str, str]] = []
        """What is kept aside, by payload: a peer may bring up many."""
        self._made: dict[str, Summary] = {}
        """Summaries of partitions that are larger than a standard one."""

    @classmethod
    def of(cls, digests: Mapping[str, bytes]) -> Partitions:
        made = cls()
        made.put(digests)
        return made

    @classmethod
    def from_kept(cls, digests: int, standard: int, kept: Kept) -> Partitions:
        """Return a table as it was when it was kept; its digests are believed."""
        made = cls(digests, standard=standard)
        if len(kept.groups) != len(made._groups):
            raise ValueError("a table of other partitions")
        made._put_aside(kept.odd)
        made._runs = [None] * len(made._runs)
        made._roots = [None] * len(made._roots)
        made._groups = list(kept.groups)
        made._kept = kept
        made._bytes = (kept.count - len(kept.odd)) * made._entry
        if kept.whole is not None:
            made._made[""] = Summary("", kept.count, kept.whole)
        return made

    def copy(self) -> Partitions:
        """Return a table that changes by itself; what does not change is shared."""
        made = copy(self)
        made._runs, made._odd, made._made = list(self._runs), dict(self._odd), dict(self._made)  # noqa: SLF001 (its own)
        made._before, made._order = dict(self._before), list(self._order)  # noqa: SLF001
        made._roots, made._groups = list(self._roots), list(self._groups)  # noqa: SLF001
        made._touched = set(self._touched)  # noqa: SLF001
        return made

    def __len__(self) -> int:
        return self._bytes // self._entry + len(self._odd)

    @property
    def memory(self) -> int:
        """About how many bytes this takes."""
        odd = _ODD_BYTES * len(self._odd)
        if self._kept is None or not self._kept.stays:
            return self._bytes + odd
        held = chain(self._before.values(), filter(None, self._runs))
        return sum(map(len, held)) + odd

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self.find(record) is not None

    def digest(self, record: str, column: int = 0) -> bytes | None:
        """Return a digest of a record, or None if it is not here."""
        found = self.find(record)
        return None if found is None else found[DIGEST * column : DIGEST * (column + 1)]

    # --- changes ---

    def put(self, digests: Mapping[str, bytes]) -> None:
        """Set the digests of records."""
        runs: defaultdict[str, dict[bytes, bytes]] = defaultdict(dict)
        odd: dict[str, bytes] = {}
        stop = len("P.") + self._standard
        for record, leaves in digests.items():
            key = key_of(record)
            if key is None:
                odd[record] = leaves
            else:
                runs[record[2:stop]][key] = leaves
        self._put_aside(odd)
        for prefix, entries in runs.items():
            number = number_of(prefix)
            self._set(number, merged(self.run(number), self._entry, entries))

    def remove(self, records: Iterable[str]) -> None:
        """Forget records; those that are not here are passed over."""
        runs: dict[int, set[bytes]] = {}
        odd: set[str] = set()
        for record in records:
            key = key_of(record)
            if key is not None:
                runs.setdefault(self._run_of(key), set()).add(key)
            elif self._odd.pop(record, None) is not None:
                odd.add(record)
                self._unmake(payload(record))
        if odd:
            self._order = [entry for entry in self._order if entry[1] not in odd]
        for run, gone in runs.items():
            entries = list(self._cut(self.run(run)))
            kept = [entry for entry in entries if entry[:KEY] not in gone]
            if len(kept) != len(entries):
                self._set(run, b"".join(kept))

    # --- what is in a partition ---

    @property
    def check(self) -> bytes:
        """The digest of the whole table, by its standard partitions."""
        groups = b"".join(map(self.group_digest, range(len(self._groups))))
        odd = sorted(record.encode() + b"\n" + d[:DIGEST] for record, d in self._odd.items())
        return digest(_TABLE + groups + b"".join(odd))

    def group_digest(self, group: int) -> bytes:
        """Return the digest of count and root of each partition of a group."""
        found = self._groups[group]
        if found is None:
            roots = [self._roots[run] or self.root(run) for run in self.group_runs(group)]
            text = b"".join([count.to_bytes(4, "big") + root for count, root in roots])
            found = self._groups[group] = group_digest(text)
        return found

    def group_runs(self, group: int) -> range:
        """Return the numbers of the partitions of a group."""
        return range(group * GROUP, min((group + 1) * GROUP, len(self._runs)))

    def root(self, run: int) -> tuple[int, bytes]:
        """Return count and root of a standard partition by its number."""
        found = self._roots[run]
        if found is None and self._kept is not None and self._runs[run] is None:
            group = run // GROUP
            for number, root in zip(self.group_runs(group), self._kept.roots(group), strict=False):
                if self._runs[number] is None:
                    self._roots[number] = root
            found = self._roots[run]
        if found is None:
            leaves = self._first_digests(self.run(run))
            if self._odd:
                odd = self._odd_within(self.standard_prefix(run))
                leaves += [digests[:DIGEST] for _, digests in odd]
            found = self._roots[run] = len(leaves), merkle_root(leaves)
        return found

    def run(self, number: int) -> bytes:
        """Return the entries of a standard partition; equal bytes mean an equal partition."""
        found = self._runs[number]
        if found is None:
            assert self._kept is not None
            found = self._kept.run(number)
            if not self._kept.stays:
                self._runs[number] = found
        return found

    def _size(self, number: int) -> int:
        """Return how many bytes the entries of a partition have."""
        found = self._runs[number]
        return self.root(number)[0] * self._entry if found is None else len(found)

    def filled(self) -> list[int]:
        """Return the standard partitions that have entries, in order."""
        if self._kept is None:
            return [number for number, run in enumerate(self._runs) if run]
        nothing = _empty_group(len(self.group_runs(0)))
        groups = [n for n, found in enumerate(self._groups) if found != nothing]
        return [run for group in groups for run in self.group_runs(group) if self._size(run)]

    def differing(self, before: Partitions) -> list[int]:
        """Return the standard partitions that differ from those of a table it was made from."""
        pairs = enumerate(zip(self._runs, before._runs, strict=True))
        if self._kept is before._kept:
            doubtful = [n for n, (now, then) in pairs if now is not then]
        else:
            doubtful = [n for n, (now, then) in pairs if now is not then or now is None]
        return [n for n in doubtful if self._differs(n, before)]

    def _differs(self, number: int, before: Partitions) -> bool:
        if self._kept is not None and self._kept.stays:
            # What has the same digests by one side has the same by the other.
            return self.root(number) != before.root(number)
        return self.run(number) != before.run(number)

    def moved(self, run: int, before: bytes) -> tuple[list[str], list[str]]:
        """Return the records of a partition whose entries are new, and those gone; in order."""
        then, now = set(self._cut(before)), set(self._cut(self.run(run)))
        return list(map(record_of, sorted(now - then))), list(map(record_of, sorted(then - now)))

    def expected(self) -> Partitions:
        """Return the table of a peer that says of the same records what it would say of them."""
        kept = None if self._kept is None else self._kept.expected()
        if kept is None:
            made = Partitions(standard=self._standard)
            held = [(number, self.run(number)) for number in self.filled()]
        else:
            made = Partitions.from_kept(1, self._standard, kept)
            held = [(number, run) for number, run in enumerate(self._runs) if run is not None]
        made.set_runs({number: last_digests(run, self.columns) for number, run in held})
        return made

    def set_runs(self, runs: Mapping[int, bytes]) -> None:
        """Set all entries of some standard partitions; nothing of it counts as a change."""
        for number, run in runs.items():
            self._bytes += len(run) - self._size(number)
            self._runs[number] = run
            self._roots[number] = self._groups[number // GROUP] = None
        if runs:
            self._made = {}

    def names(self, key: bytes, column: int) -> Names:
        """Return the names of all records for sketches with a key, by one of their digests."""
        kept = None if self._kept is None else self._kept.names(key, column)
        if kept is None:
            return NamesHere(key, self.items(column))
        assert self._kept is not None
        other = [n for n, held in enumerate(self._runs) if held is not None]
        gone, come = (
            NamesHere(key, Items(list(map(read, other)), self.columns, column, {}))
            for read in (self._kept.run, self.run)
        )
        return _ChangedNames(kept, gone, come)

    def mark(self) -> None:
        """Look for changes from now on."""
        self._before = {}
        self._touched = set()

    def touch(self, records: Iterable[str]) -> None:
        """Take the partitions of records for changed, whatever they hold."""
        self._touched.update(self._run_of(key) for key in filter(None, map(key_of, records)))

    def changed(self) -> list[int]:
        """Return the standard partitions that differ from what they were at ``mark``, in order."""
        made = {run for run, was in self._before.items() if self.run(run) != was}
        return sorted(made | self._touched)

    def before(self, run: int) -> bytes:
        """Return the entries of a partition at ``mark``."""
        found = self._before.get(run)
        return self.run(run) if found is None else found

    @property
    def groups(self) -> int:
        """How many groups of partitions there are."""
        return len(self._groups)

    @property
    def columns(self) -> int:
        """How many digests each record has."""
        return (self._entry - KEY) // DIGEST

    @property
    def standard(self) -> int:
        """The length of the prefixes of standard partitions."""
        return self._standard

    @property
    def odd(self) -> Mapping[str, bytes]:
        """What is kept aside: records of other formats."""
        return self._odd

    def standard_prefix(self, run: int) -> str:
        """Return the prefix of a standard partition by its number."""
        digits = [run >> 6 * place & 63 for place in reversed(range(self._standard))]
        return "".join(_CHARACTERS[digit] for digit in digits)

    def records(self, prefix: str) -> Iterator[str]:
        """Yield the records of a partition in order."""
        for entry in self._within(prefix):
            yield record_of(entry)
        yield from (record for record, _ in self._odd_within(prefix))

    def items(self, column: int = 0) -> Items:
        """Return all records with one of their digests."""
        return Items(list(map(self.run, self.filled())), self.columns, column, self._odd)

    def unlike(self, other: Partitions) -> Iterator[str]:
        """Yield the records whose first digest is not the last one that another table has."""
        for number in self.filled():
            run = last_digests(other.run(number), other.columns)
            if self.run(number) != run:
                theirs = set(cut(run, entry_size(1)))
                for entry in self._cut(self.run(number)):
                    if entry[: KEY + DIGEST] not in theirs:
                        yield record_of(entry)
        for record, digests in self._odd.items():
            if digests[:DIGEST] != other._odd.get(record, b"")[-DIGEST:]:
                yield record

    def leaves(self, prefix: str, column: int = 0) -> dict[str | bytes, bytes]:
        """Return the digests of a partition, by what stands for the record inside tables."""
        start = KEY + DIGEST * column
        found: dict[str | bytes, bytes] = {
            entry[:KEY]: entry[start : start + DIGEST] for entry in self._within(prefix)
        }
        found |= {r: d[start - KEY :][:DIGEST] for r, d in self._odd_within(prefix)}
        return found

    def summary(self, prefix: str) -> Summary:
        """Return the summary of a partition, by the first digest of each record."""
        if len(prefix) == self._standard:
            return Summary(prefix, *self.root(self._runs_of(prefix).start))
        if prefix in self._made:
            return self._made[prefix]
        made = self._summarize(prefix)
        if len(prefix) < self._standard:
            self._made[prefix] = made
        return made

    @property
    def known_root(self) -> bytes | None:
        """The root of all of it, if somebody has asked for it since the last change."""
        found = self._made.get("")
        return None if found is None else found.root

    def _summarize(self, prefix: str) -> Summary:
        leaves = [entry[KEY : KEY + DIGEST] for entry in self._within(prefix)]
        leaves += [digests[:DIGEST] for _, digests in self._odd_within(prefix)]
        return Summary(prefix, len(leaves), merkle_root(leaves))

    def _first_digests(self, run: bytes) -> list[bytes]:
        return [run[at : at + DIGEST] for at in range(KEY, len(run), self._entry)]

    def summaries(self, length: int) -> Iterator[Summary]:
        """Yield the summaries of all non-empty partitions of this prefix length, in order."""
        if length <= self._standard:
            runs = map(self.standard_prefix, self.filled())
            prefixes = {run[:length] for run in runs} | {payload(r)[:length] for r in self._odd}
        else:
            prefixes = {payload(record)[:length] for record in self.records("")}
        for prefix in sorted(prefixes):
            found = self.summary(prefix)
            if found.count:
                yield found

    def children(self, prefix: str) -> Iterator[Summary]:
        """Yield the summaries of the non-empty partitions one character below."""
        if len(prefix) >= LONGEST_PREFIX:
            return  # a whole payload: there is nothing below
        for character in _CHARACTERS:
            found = self.summary(prefix + character)
            if found.count:
                yield found

    # --- entries: 32 bytes of hash, type letter, digests ---

    def find(self, record: str) -> bytes | None:
        """Return the digests of a record, or None."""
        key = key_of(record)
        if key is None:
            return self._odd.get(record)
        run = self.run(self._run_of(key))
        at = position(run, self._entry, key) * self._entry
        return run[at + KEY : at + self._entry] if run[at : at + KEY] == key else None

    def _put_aside(self, odd: Mapping[str, bytes]) -> None:
        fresh = [(payload(record), record) for record in odd if record not in self._odd]
        self._odd.update(odd)
        for record in odd:
            self._unmake(payload(record))
        if fresh:
            self._order = sorted(self._order + fresh)

    def _unmake(self, name: str) -> None:
        """Take digests for unknown where a partition has changed."""
        for length in range(self._standard) if self._made else ():
            self._made.pop(name[:length], None)
        if len(name) >= self._standard and is_prefix(name[: self._standard]):
            run = self._runs_of(name).start
            self._runs[run] = self.run(run)  # or else its root would be taken from what was kept
            self._roots[run] = self._groups[run // GROUP] = None

    def _set(self, run: int, made: bytes) -> None:
        was = self.run(run)
        if self._made:
            self._unmake(self.standard_prefix(run))
        self._roots[run] = self._groups[run // GROUP] = None
        self._bytes += len(made) - len(was)
        self._before.setdefault(run, was)
        self._runs[run] = made

    def _odd_within(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        at = bisect_left(self._order, (prefix, ""))
        while at < len(self._order) and self._order[at][0].startswith(prefix):
            record = self._order[at][1]
            yield record, self._odd[record]
            at += 1

    def _within(self, prefix: str) -> Iterator[bytes]:
        for data in map(self.run, self._runs_of(prefix) if prefix else self.filled()):
            start, stop = 0, len(data)
            if len(prefix) > self._standard:
                first, last = bounds(prefix)
                start = position(data, self._entry, first) * self._entry
                stop = position(data, self._entry, last) * self._entry
            yield from self._cut(data[start:stop])

    def _cut(self, data: bytes) -> Iterator[bytes]:
        return cut(data, self._entry)

    def _run_of(self, key: bytes) -> int:
        # Each character of a payload is six bits of the hash.
        return int.from_bytes(key[:3], "big") >> 24 - 6 * self._standard

    def _runs_of(self, prefix: str) -> range:
        missing = max(0, self._standard - len(prefix))
        number = number_of(prefix[: self._standard]) << 6 * missing
        return range(number, number + 64**missing)


@dataclass(frozen=True, slots=True)
class _ChangedNames:
    """The names of a kept table of which some partitions are others now."""

    kept: Names
    gone: NamesHere
    """Of these partitions as they were kept."""
    come: NamesHere
    """Of these partitions as they are."""

    def __len__(self) -> int:
        return len(self.kept) - len(self.gone) + len(self.come)

    def cells(self, start: int, stop: int) -> bytes:
        cells = self.kept.cells(start, stop)
        if len(self.gone):
            cells = add_cells(cells, self.gone.cells(start, stop), sign=-1)
        return add_cells(cells, self.come.cells(start, stop)) if len(self.come) else cells

    def find(self, names: Collection[int]) -> dict[int, str]:
        found = self.come.find(names)
        left = set(names) - found.keys() - self.gone.find(names).keys()
        return found | (self.kept.find(left) if left else {})


def joined_summary(peers: Partitions, own: Partitions, prefix: str, count: int) -> Summary | None:
    """Return the summary of a partition if the peer has all of ours too; None if not so many.

    ``own`` has a second digest for each record: that of the advertisement that the peer would make.
    """
    leaves = own.leaves(prefix, 1) | peers.leaves(prefix)
    return Summary(prefix, count, merkle_root(leaves.values())) if len(leaves) == count else None
