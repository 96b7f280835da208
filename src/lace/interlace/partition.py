"""Partitions: a table of advertisements that knows its digest, and the summaries of its parts."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.interlace.expected import Expected
from lace.interlace.groups import (
    GROUP,
    Content,
    Group,
    Kept,
    content_of,
    empty_group,
    group_digest,
    pack_contents,
)
from lace.interlace.runs import (
    DIGEST,
    KEY,
    Entries,
    Items,
    bounds,
    column_of,
    cut,
    digests_in,
    entry_size,
    key_of,
    keys_of,
    last_digests,
    merged,
    number_of,
    position,
    record_of,
    records_of,
    run_of,
)
from lace.interlace.sketch import ChangedNames, Names, NamesHere
from lace.interlace.summary import (
    LONGEST_PREFIX,
    Summary,
    merkle_root,
    payload,
)

STANDARD_PREFIX: Final = 2
_ODD_BYTES: Final = 400  # of a record that is kept aside, beside its name, which is held twice
_COMPARED_AT_ONCE: Final = 1 << 18  # bytes of partitions that are compared together
_TABLE: Final = b"lace-advertisement-table/v1"
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")


class Partitions:
    """Digests of advertisements by record, compact: 33 bytes of name, and the digests.

    Entries lie sorted in one run of bytes for each standard partition. A change makes the runs that
    it touches anew; the rest stays as it is, also in copies, and its digests stay known. Tables
    that changed in the same way share what they hold (L71). Hashes of other formats, which only a
    peer can bring up, are few and kept aside.
    """

    __slots__ = (
        "_bytes", "_check", "_entry", "_groups", "_held_bytes", "_kept", "_made", "_marked",
        "_odd", "_odd_bytes", "_order", "_standard", "_touched",
    )  # fmt: skip

    def __init__(self, digests: int = 1, *, standard: int = STANDARD_PREFIX) -> None:
        self._entry = entry_size(digests)
        self._standard = standard
        number = 64**standard
        self._groups = [empty_group(min(number, GROUP))] * -(-number // GROUP)
        self._marked = list(self._groups)
        """Groups as they were at ``mark``."""
        self._kept: Kept | None = None
        self._bytes = 0
        """How many bytes the runs have in all."""
        self._held_bytes = 0
        """Of a table that stays where it is kept: how many bytes of runs are here all the same."""
        self._check: bytes | None = None
        """The digest of everything, if somebody has asked for it since the last change."""
        self._touched: set[int] = set()
        """Runs that count as changed, whatever they hold."""
        self._odd: dict[str, bytes] = {}
        self._odd_bytes = 0
        """About how many bytes that takes."""
        self._order: list[tuple[str, str]] = []
        """What is kept aside, by payload: a peer may bring up many."""
        self._made: dict[str, Summary] = {}
        """Summaries of standard partitions and larger ones, as far as somebody asked for them."""

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
        size = len(made.group_runs(0))
        made._held_bytes = 0
        made._groups = [Group([None] * size, [None] * size, found) for found in kept.groups]
        made._marked = list(made._groups)
        made._kept = kept
        made._bytes = (kept.count - len(kept.odd)) * made._entry
        if kept.whole is not None:
            made._made[""] = Summary("", kept.count, kept.whole)
        return made

    def copy(self) -> Partitions:
        """Return a table that changes by itself; what does not change is shared."""
        made = Partitions.__new__(Partitions)
        for name in Partitions.__slots__:  # as copy.copy would, which takes longer
            setattr(made, name, getattr(self, name))
        made._groups = list(self._groups)  # noqa: SLF001 (its own)
        made._odd, made._made = dict(self._odd), dict(self._made)  # noqa: SLF001
        made._order, made._touched = list(self._order), set(self._touched)  # noqa: SLF001
        return made

    def __len__(self) -> int:
        return self._bytes // self._entry + len(self._odd)

    @property
    def memory(self) -> int:
        """About how many bytes this takes."""
        if self._kept is None or not self._kept.stays:
            return self._bytes + self._odd_bytes
        return self._held_bytes + self._odd_bytes

    @property
    def shared_groups(self) -> Sequence[Group]:
        """The groups of partitions, which tables that are alike there share."""
        return self._groups

    @property
    def odd_memory(self) -> int:
        """About how many bytes are kept aside, which no other table shares."""
        return self._odd_bytes

    def memory_beside(self, other: Partitions) -> int:
        """Return about how many bytes this takes that are not shared with another table."""
        pairs = (
            (run, theirs)
            for group, others in zip(self._groups, other._groups, strict=True)
            if group is not others
            for run, theirs in zip(group.runs, others.runs, strict=True)
        )
        runs = sum(len(run) for run, theirs in pairs if run is not None and run is not theirs)
        return runs + self._odd_bytes

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self.find(record) is not None

    def digest(self, record: str, column: int = 0) -> bytes | None:
        """Return a digest of a record, or None if it is not here."""
        found = self.find(record)
        return None if found is None else found[DIGEST * column : DIGEST * (column + 1)]

    # --- changes ---

    def put(self, digests: Mapping[str, bytes]) -> None:
        """Set the digests of records."""
        entries = Entries(self._standard)
        entries.add(digests)
        self.put_entries(entries)

    def put_entries(self, entries: Entries) -> None:
        """Set the digests of records that were put together before."""
        self._put_aside(entries.odd)
        runs = entries.take_runs(self._entry)
        if self._kept is not None:
            known = dict(runs)
            self._load(known)
            runs = iter(known.items())
        self._set(self._with(runs))

    def _with(self, runs: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield partitions as they are, and as they are with other entries."""
        groups, size = self._groups, self._entry
        for run, more in runs:
            held = groups[run // GROUP].runs[run % GROUP]
            if held is None:
                held = self.run(run)
            yield run, held, merged(held, size, more)

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
                self._odd_bytes -= _odd_bytes(record)
                self._unmake(payload(record))
        if odd:
            self._order = [entry for entry in self._order if entry[1] not in odd]
        self._load(runs)
        self._set(self._without(runs))

    def _without(self, runs: Mapping[int, set[bytes]]) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield partitions as they are, and as they are without some records, if they had any."""
        for run, gone in runs.items():
            held = self.run(run)
            kept = b"".join(entry for entry in self._cut(held) if entry[:KEY] not in gone)
            if len(kept) != len(held):
                yield run, held, kept

    def _load(self, runs: Iterable[int]) -> None:
        """Read partitions together, before any of them changes: so all who share them have them."""
        if self._kept is None or self._kept.stays:
            return
        groups, read = self._groups, self._kept.run
        unread = [run for run in runs if groups[run // GROUP].runs[run % GROUP] is None]
        self._kept.read_ahead(unread)
        for run in unread:
            groups[run // GROUP].runs[run % GROUP] = read(run)

    # --- what is in a partition ---

    @property
    def check(self) -> bytes:
        """The digest of the whole table, by its standard partitions."""
        if self._check is None:
            groups = b"".join(
                [g.digest or self.group_digest(number) for number, g in enumerate(self._groups)]
            )
            odd = sorted(record.encode() + b"\n" + d[:DIGEST] for record, d in self._odd.items())
            self._check = digest(_TABLE + groups + b"".join(odd))
        return self._check

    def group_digest(self, group: int) -> bytes:
        """Return the digest of the contents of a group."""
        found = self._groups[group]
        if found.digest is None:
            found.digest = group_digest(pack_contents(self.contents(group)))
        return found.digest

    def contents(self, group: int) -> list[Content]:
        """Return the content of each partition of a group."""
        self._take_kept_contents(self._groups[group], group)
        known = zip(self.group_runs(group), self._groups[group].contents, strict=True)
        return [content or self.content(run) for run, content in known]

    def _take_kept_contents(self, group: Group, number: int) -> None:
        """Take the contents of partitions that nobody looked at as they were kept."""
        pairs = zip(group.runs, group.contents, strict=True)
        if self._kept is not None and any(run is None and c is None for run, c in pairs):
            for at, content in enumerate(self._kept.contents(number)):
                if group.runs[at] is None:
                    group.contents[at] = content

    def group_runs(self, group: int) -> range:
        """Return the numbers of the partitions of a group."""
        return range(group * GROUP, group * GROUP + len(self._groups[group].runs))

    def content(self, run: int) -> Content:
        """Return the content of a standard partition by its number.

        Records of other formats do not count: they are in the digest of the table by themselves.
        """
        group, place = self._place(run)
        found = group.contents[place]
        if found is None and group.runs[place] is None:
            self._take_kept_contents(group, run // GROUP)
            found = group.contents[place]
        if found is None:
            found = group.contents[place] = content_of(column_of(self.run(run), self.columns, 0))
        return found

    def run(self, number: int) -> bytes:
        """Return the entries of a standard partition; equal bytes mean an equal partition."""
        group, place = self._groups[number // GROUP], number % GROUP
        held = group.runs[place]
        return self._read(group, place, number) if held is None else held

    def runs(self, numbers: Iterable[int]) -> list[bytes]:
        """Return the entries of some partitions; what was not read before is not held after."""
        groups = self._groups
        held = [(number, groups[number // GROUP].runs[number % GROUP]) for number in numbers]
        if self._kept is None:
            return [run or b"" for _, run in held]
        read = self._kept.run
        return [read(number) if run is None else run for number, run in held]

    def _read(self, group: Group, place: int, number: int) -> bytes:
        found = group.runs[place]
        if found is None:
            assert self._kept is not None
            found = self._kept.run(number)
            if not self._kept.stays:
                group.runs[place] = found
        return found

    def _place(self, run: int) -> tuple[Group, int]:
        """Return the group of a partition, and its place there."""
        return self._groups[run // GROUP], run % GROUP

    def _held(self) -> Iterator[tuple[int, bytes]]:
        """Yield the partitions that are in memory, with their entries."""
        for number, group in enumerate(self._groups):
            for run, held in zip(self.group_runs(number), group.runs, strict=True):
                if held is not None:
                    yield run, held

    def filled(self) -> list[int]:
        """Return the standard partitions that have entries, in order."""
        nothing = empty_group(len(self.group_runs(0)))
        groups = [
            number
            for number, group in enumerate(self._groups)
            if group is not nothing and group.digest != nothing.digest
        ]
        return [
            run
            for group in groups
            for run, held in zip(self.group_runs(group), self._groups[group].runs, strict=True)
            if held or (held is None and self.content(run)[0])
        ]

    def differing(self, before: Partitions) -> list[int]:
        """Return the standard partitions that differ from those of a table it was made from."""
        alike = self._kept is before._kept
        doubtful = self._doubtful(before._groups, alike=alike)
        return [run for run in doubtful if self._differs(run, before)]

    def _doubtful(self, before: Sequence[Group], *, alike: bool) -> Iterator[int]:
        """Yield the partitions that may be others than those of other groups.

        ``alike`` says that what neither has read is the same.
        """
        for number, (now, then) in enumerate(zip(self._groups, before, strict=True)):
            if now is then:
                continue
            runs = zip(self.group_runs(number), now.runs, then.runs, strict=True)
            for run, one, other in runs:
                if one is not other or (one is None and not alike):
                    yield run

    def _differs(self, number: int, before: Partitions) -> bool:
        if self._kept is not None and self._kept.stays:
            # What has the same digests by one side has the same by the other.
            return self.content(number) != before.content(number)
        return self.run(number) != before.run(number)

    def moved(self, run: int, before: bytes) -> tuple[list[str], list[str]]:
        """Return the records of a partition whose entries are new, and those gone; in order."""
        return self._moved([self.run(run)], [before])

    def moved_in(
        self, runs: Iterable[int], before: Callable[[int], bytes]
    ) -> tuple[list[str], list[str]]:
        """Return the same of many partitions together, in the order of these.

        ``before`` returns the entries of a partition by its number.
        """
        come: list[str] = []
        gone: list[str] = []
        left = iter(runs)
        while now := self._some(left):
            here, was = self._moved([self.run(run) for run in now], list(map(before, now)))
            come += here
            gone += was
        return come, gone

    def _some(self, runs: Iterator[int]) -> list[int]:
        """Take as many partitions as are compared together."""
        some: list[int] = []
        size = 0
        for run in runs:
            some.append(run)
            size += len(self.run(run))
            if size > _COMPARED_AT_ONCE:
                break
        return some

    def _moved(self, now: list[bytes], then: list[bytes]) -> tuple[list[str], list[str]]:
        here, was = set(self._cut(b"".join(now))), set(self._cut(b"".join(then)))
        come, gone = (b"".join(sorted(some)) for some in (here - was, was - here))
        return records_of(come, self._entry), records_of(gone, self._entry)

    def expected(self) -> Partitions:
        """Return the table of a peer that says of the same records what it would say of them."""
        kept = None if self._kept is None else self._kept.expected()
        if kept is None:
            return Partitions.from_kept(1, self._standard, Expected(self.copy()))
        made = Partitions.from_kept(1, self._standard, kept)
        made._set(  # noqa: SLF001 (its own)
            (number, made.run(number), last_digests(run, self.columns))
            for number, run in self._held()
        )
        made.mark()
        return made

    def names(self, key: bytes, column: int) -> Names:
        """Return the names of all records for sketches with a key, by one of their digests."""
        kept = None if self._kept is None else self._kept.names(key, column)
        if kept is None:
            return NamesHere(key, self.items(column))
        assert self._kept is not None
        other = [run for run, _ in self._held()]
        gone, come = (
            NamesHere(key, Items(list(map(read, other)), self.columns, column, {}))
            for read in (self._kept.run, self.run)
        )
        return ChangedNames(kept, gone, come)

    def mark(self) -> None:
        """Look for changes from now on."""
        self._marked = list(self._groups)
        self._touched = set()

    def touch(self, records: Iterable[str]) -> None:
        """Take the partitions of records for changed, whatever they hold."""
        self._touched.update(self._run_of(key) for key in filter(None, map(key_of, records)))

    def changed(self) -> list[int]:
        """Return the standard partitions that differ from what they were at ``mark``, in order."""
        doubtful = self._doubtful(self._marked, alike=True)
        made = {run for run in doubtful if self.run(run) != self.before(run)}
        return sorted(made | self._touched)

    def before(self, run: int) -> bytes:
        """Return the entries of a partition at ``mark``."""
        return self._read(self._marked[run // GROUP], run % GROUP, run)

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
        if len(prefix) <= self._standard:
            for run in self._runs_of(prefix) if prefix else self.filled():
                yield from records_of(self.run(run), self._entry)
        else:
            yield from map(record_of, self._within(prefix))
        yield from (record for record, _ in self._odd_within(prefix))

    def items(self, column: int = 0) -> Items:
        """Return all records with one of their digests."""
        return Items(list(map(self.run, self.filled())), self.columns, column, self._odd)

    def unlike(self, other: Partitions) -> Iterator[str]:
        """Yield the records whose first digest is not the last one that another table has."""
        for number in self.filled():
            if not self.follows(other, number):
                run = last_digests(other.run(number), other.columns)
                theirs = set(cut(run, entry_size(1)))
                for entry in self._cut(self.run(number)):
                    if entry[: KEY + DIGEST] not in theirs:
                        yield record_of(entry)
        for record, digests in self._odd.items():
            if digests[:DIGEST] != other._odd.get(record, b"")[-DIGEST:]:
                yield record

    def unlike_among(self, other: Partitions, records: Collection[str]) -> set[str]:
        """Return those of some records of which ``unlike`` is true."""
        theirs = other.among(records)
        return {
            record
            for record, digests in self.among(records).items()
            if digests[:DIGEST] != theirs.get(record, b"")[-DIGEST:]
        }

    def follows(self, other: Partitions, number: int) -> bool:
        """Whether a partition has what a peer would say of the records in that of another table."""
        theirs, kept = other.run(number), self._kept
        group, place = self._place(number)
        if (
            group.runs[place] is None
            and isinstance(kept, Expected)
            and kept.table.columns == other.columns
            and kept.table.run(number) is theirs
        ):
            return True  # it would be made from these very bytes
        return self.run(number) == last_digests(theirs, other.columns)

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
        if prefix in self._made:
            return self._made[prefix]
        made = self._summarize(prefix)
        if len(prefix) <= self._standard:
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
        """Yield the summaries of the non-empty partitions one character below, in order."""
        length = len(prefix) + 1
        if length > LONGEST_PREFIX:
            return  # a whole payload: there is nothing below
        if length <= self._standard:  # few, and known from now on
            yield from filter(
                attrgetter("count"), map(self.summary, map(prefix.__add__, _CHARACTERS))
            )
            return
        # There may be any number of such questions: what has nothing in it must cost nothing.
        leaves: defaultdict[str, list[bytes]] = defaultdict(list)
        for entry in self._within(prefix):
            leaves[payload(record_of(entry))[:length]].append(entry[KEY : KEY + DIGEST])
        for record, digests in self._odd_within(prefix):
            leaves[payload(record)[:length]].append(digests[:DIGEST])
        leaves.pop(prefix, None)  # records of other formats may have names that end here
        for child, below in sorted(leaves.items()):
            yield Summary(child, len(below), merkle_root(below))

    # --- entries: 32 bytes of hash, type letter, digests ---

    def find(self, record: str) -> bytes | None:
        """Return the digests of a record, or None."""
        key = key_of(record)
        if key is None:
            return self._odd.get(record)
        return digests_in(self.run(self._run_of(key)), self._entry, key)

    def among(self, records: Collection[str]) -> dict[str, bytes]:
        """Return the digests of those of many records that are here."""
        keys = keys_of(records)
        if keys is None:
            every = ((record, self.find(record)) for record in records)
            return {record: digests for record, digests in every if digests is not None}
        places = [keys[at : at + KEY] for at in range(0, len(keys), KEY)]
        runs = list(map(self._run_of, places))
        self._load(set(runs))
        found: dict[str, bytes] = {}
        for record, key, run in zip(records, places, runs, strict=True):
            digests = digests_in(self.run(run), self._entry, key)
            if digests is not None:
                found[record] = digests
        return found

    def _put_aside(self, odd: Mapping[str, bytes]) -> None:
        fresh = [(payload(record), record) for record in odd if record not in self._odd]
        self._odd.update(odd)
        for record in odd:
            self._unmake(payload(record))
        if fresh:
            self._order = sorted(self._order + fresh)
            self._odd_bytes += sum(_odd_bytes(record) for _, record in fresh)

    def _unmake(self, name: str) -> None:
        """Take digests for unknown where something has changed."""
        self._check = None
        for length in range(self._standard + 1) if self._made else ():
            self._made.pop(name[:length], None)

    def _set(self, changes: Iterable[tuple[int, bytes, bytes]]) -> None:
        """Put entries in the place of those that partitions have held until now.

        Those of one group are put there together if they come one after another.
        """
        for group, some in groupby(changes, lambda change: change[0] // GROUP):
            runs: dict[int, bytes] = {}
            for run, held, made in some:
                self._bytes += len(made) - len(held)
                runs[run % GROUP] = made
                if self._made:
                    self._unmake(self.standard_prefix(run))
            self._replace(group, runs)

    def _replace(self, number: int, runs: Mapping[int, bytes]) -> None:
        """Put entries in the place of others; nobody else's table changes by it."""
        group = self._groups[number]
        for place, run in runs.items():
            self._held_bytes += len(run) - len(group.runs[place] or b"")
        self._groups[number] = group.changed(runs)
        self._check = None

    def _odd_within(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        at = bisect_left(self._order, (prefix, ""))
        while at < len(self._order) and self._order[at][0].startswith(prefix):
            record = self._order[at][1]
            yield record, self._odd[record]
            at += 1

    def _within(self, prefix: str) -> Iterator[bytes]:
        for data in map(self.run, self._runs_of(prefix) if prefix else self.filled()):
            start, stop = 0, len(data)
            if data and len(prefix) > self._standard:
                first, last = bounds(prefix)
                start = position(data, self._entry, first) * self._entry
                stop = position(data, self._entry, last) * self._entry
            yield from self._cut(data[start:stop])

    def _cut(self, data: bytes) -> Sequence[bytes]:
        return cut(data, self._entry)

    def _run_of(self, key: bytes) -> int:
        return run_of(key, self._standard)

    def _runs_of(self, prefix: str) -> range:
        missing = max(0, self._standard - len(prefix))
        number = number_of(prefix[: self._standard]) << 6 * missing
        return range(number, number + 64**missing)


def _odd_bytes(record: str) -> int:
    """Return about how many bytes it takes to keep a record aside."""
    return _ODD_BYTES + 2 * len(record)
