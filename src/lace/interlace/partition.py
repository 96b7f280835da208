"""Merkle partitions: summaries by which two sides find out where their advertisements differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import Code, ProtocolError
from lace.ids import is_record_hash
from lace.interlace.facts import decimal

STANDARD_PREFIX: Final = 2
_LEAF: Final = b"lace-advertisement-leaf/v1"
_NODE: Final = b"lace-advertisement-node/v1"
EMPTY: Final = digest(b"lace-advertisement-empty/v1")
_LONGEST_PREFIX: Final = 43
_PREFIX: Final = re.compile(r"[0-9A-Z_a-z~]*")
_ROOT: Final = re.compile(b64a.PATTERN_32.decode("ascii"))
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")


def merkle_root(digests: Iterable[bytes]) -> bytes:
    """Return the root over digests in any order: sorted, hashed as leaves, padded."""
    row = [digest(_LEAF + leaf) for leaf in sorted(digests)]
    padding = EMPTY  # what stands for nothing, on each level
    for _ in range((len(row) - 1).bit_length() if row else 0):
        if len(row) % 2:
            row.append(padding)
        row = [
            digest(_NODE + left + right) for left, right in zip(row[::2], row[1::2], strict=True)
        ]
        padding = digest(_NODE + padding + padding)
    return row[0] if row else EMPTY


def is_prefix(text: str) -> bool:
    """Whether ``text`` can be the beginning of a hash payload."""
    return len(text) <= _LONGEST_PREFIX and _PREFIX.fullmatch(text) is not None


def payload(record: str) -> str:
    """Return the part of a record hash that partitions go by: no type letter, no suffix."""
    return record.split(".")[1]


@dataclass(frozen=True, slots=True)
class Summary:
    """How many advertisements a partition has, and their root."""

    prefix: str
    count: int
    root: bytes

    def fact(self) -> Fact:
        return "AdvertisementPartition", self.prefix, str(self.count), b64a.encode(self.root)


def parse_summary(fact: Fact) -> Summary:
    """Return the summary that a fact states, or raise ``ProtocolError``."""
    _, prefix, count, root = fact
    number = decimal(count)
    if number is None or not _ROOT.fullmatch(root) or not is_prefix(prefix):
        raise ProtocolError("a malformed partition summary", code=Code.INTERLACE_SUMMARY)
    return Summary(prefix, number, b64a.decode(root))


class Partitions:
    """Digests of advertisements by record, compact: 33 bytes of name, and the digests.

    Entries lie sorted in one run of bytes for each standard partition. A change makes the runs that
    it touches anew; the rest stays as it is, also in copies. Hashes of other formats, which only a
    peer can bring up, are few and kept aside.
    """

    __slots__ = ("_before", "_bytes", "_entry", "_made", "_odd", "_order", "_runs", "_standard")

    def __init__(self, digests: int = 1, *, standard: int = STANDARD_PREFIX) -> None:
        self._entry = _KEY + digests * _DIGEST
        self._standard = standard
        self._runs: list[bytes] = [b""] * 64**standard
        self._bytes = 0
        """How many bytes the runs have in all."""
        self._before: dict[int, bytes] = {}
        """Runs that were made anew, as they were at ``mark``."""
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
    def kept(
        cls,
        digests: int,
        standard: int,
        whole: Summary,
        runs: Mapping[int, bytes],
        odd: Mapping[str, bytes],
    ) -> Partitions:
        """Return a table as it was when its runs were kept; its summary is believed."""
        made = cls(digests, standard=standard)
        for run, data in runs.items():
            made._runs[run] = data
            made._bytes += len(data)
        made._put_aside(odd)
        made._made[""] = whole
        return made

    def copy(self) -> Partitions:
        """Return a table that changes by itself; what does not change is shared."""
        made = copy(self)
        made._runs, made._odd, made._made = list(self._runs), dict(self._odd), dict(self._made)  # noqa: SLF001 (its own)
        made._before, made._order = dict(self._before), list(self._order)  # noqa: SLF001
        return made

    def __len__(self) -> int:
        return self._bytes // self._entry + len(self._odd)

    @property
    def memory(self) -> int:
        """About how many bytes this takes."""
        return self._bytes + _ODD_BYTES * len(self._odd)

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self.find(record) is not None

    def digest(self, record: str, column: int = 0) -> bytes | None:
        """Return a digest of a record, or None if it is not here."""
        found = self.find(record)
        return None if found is None else found[_DIGEST * column : _DIGEST * (column + 1)]

    # --- changes ---

    def put(self, digests: Mapping[str, bytes]) -> None:
        """Set the digests of records."""
        runs: dict[int, dict[bytes, bytes]] = {}
        odd: dict[str, bytes] = {}
        for record, leaves in digests.items():
            key = _key(record)
            if key is None:
                odd[record] = leaves
            else:
                runs.setdefault(self._run_of(key), {})[key] = leaves
        self._put_aside(odd)
        for number, entries in runs.items():
            self._set(number, self._entries(number) | entries)

    def remove(self, records: Iterable[str]) -> None:
        """Forget records; those that are not here are passed over."""
        runs: dict[int, set[bytes]] = {}
        odd: set[str] = set()
        for record in records:
            key = _key(record)
            if key is not None:
                runs.setdefault(self._run_of(key), set()).add(key)
            elif self._odd.pop(record, None) is not None:
                odd.add(record)
                self._unmake(payload(record))
        if odd:
            self._order = [entry for entry in self._order if entry[1] not in odd]
        for run, gone in runs.items():
            entries = self._entries(run)
            kept = {key: rest for key, rest in entries.items() if key not in gone}
            if len(kept) != len(entries):
                self._set(run, kept)

    # --- what is in a partition ---

    def runs(self) -> tuple[bytes, ...]:
        """Return the state of each standard partition; equal bytes mean an equal partition."""
        return tuple(self._runs)

    def mark(self) -> None:
        """Look for changes from now on."""
        self._before = {}

    def touch(self, records: Iterable[str]) -> None:
        """Take the partitions of records for changed, whatever they hold."""
        for key in filter(None, map(_key, records)):
            self._before[self._run_of(key)] = _ANOTHER

    def changed(self) -> list[int]:
        """Return the standard partitions that differ from what they were at ``mark``, in order."""
        return sorted(run for run, was in self._before.items() if self._runs[run] != was)

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
            yield f"{chr(entry[32])}.{b64a.encode(entry[:32])}.H3"
        yield from (record for record, _ in self._odd_within(prefix))

    def leaves(self, prefix: str, column: int = 0) -> dict[str | bytes, bytes]:
        """Return the digests of a partition, by what stands for the record inside tables."""
        start = _KEY + _DIGEST * column
        found: dict[str | bytes, bytes] = {
            entry[:_KEY]: entry[start : start + _DIGEST] for entry in self._within(prefix)
        }
        found |= {r: d[start - _KEY :][:_DIGEST] for r, d in self._odd_within(prefix)}
        return found

    def summary(self, prefix: str) -> Summary:
        """Return the summary of a partition, by the first digest of each record."""
        if prefix in self._made:
            return self._made[prefix]
        leaves = [entry[_KEY : _KEY + _DIGEST] for entry in self._within(prefix)]
        leaves += [digests[:_DIGEST] for _, digests in self._odd_within(prefix)]
        made = Summary(prefix, len(leaves), merkle_root(leaves))
        if len(prefix) < self._standard:
            self._made[prefix] = made
        return made

    def summaries(self, length: int) -> Iterator[Summary]:
        """Yield the summaries of all non-empty partitions of this prefix length, in order."""
        if length <= self._standard:
            runs = [self.standard_prefix(run) for run, data in enumerate(self._runs) if data]
            prefixes = {run[:length] for run in runs} | {payload(r)[:length] for r in self._odd}
        else:
            prefixes = {payload(record)[:length] for record in self.records("")}
        for prefix in sorted(prefixes):
            found = self.summary(prefix)
            if found.count:
                yield found

    def children(self, prefix: str) -> Iterator[Summary]:
        """Yield the summaries of the non-empty partitions one character below."""
        if len(prefix) >= _LONGEST_PREFIX:
            return  # a whole payload: there is nothing below
        for character in _CHARACTERS:
            found = self.summary(prefix + character)
            if found.count:
                yield found

    # --- entries: 32 bytes of hash, type letter, digests ---

    def find(self, record: str) -> bytes | None:
        """Return the digests of a record, or None."""
        key = _key(record)
        if key is None:
            return self._odd.get(record)
        run = self._runs[self._run_of(key)]
        at = self._position(run, key) * self._entry
        return run[at + _KEY : at + self._entry] if run[at : at + _KEY] == key else None

    def _entries(self, run: int) -> dict[bytes, bytes]:
        data = self._runs[run]
        cuts = range(0, len(data), self._entry)
        return {data[i : i + _KEY]: data[i + _KEY : i + self._entry] for i in cuts}

    def _put_aside(self, odd: Mapping[str, bytes]) -> None:
        fresh = [(payload(record), record) for record in odd if record not in self._odd]
        self._odd.update(odd)
        for record in odd:
            self._unmake(payload(record))
        if fresh:
            self._order = sorted(self._order + fresh)

    def _unmake(self, name: str) -> None:
        for length in range(self._standard):
            self._made.pop(name[:length], None)

    def _set(self, run: int, entries: dict[bytes, bytes]) -> None:
        self._unmake(self.standard_prefix(run))
        made = b"".join([key + entries[key] for key in sorted(entries)])
        self._bytes += len(made) - len(self._runs[run])
        self._before.setdefault(run, self._runs[run])
        self._runs[run] = made

    def _odd_within(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        at = bisect_left(self._order, (prefix, ""))
        while at < len(self._order) and self._order[at][0].startswith(prefix):
            record = self._order[at][1]
            yield record, self._odd[record]
            at += 1

    def _within(self, prefix: str) -> Iterator[bytes]:
        for data in filter(None, self._runs[self._runs_of(prefix)]):
            start, stop = 0, len(data)
            if len(prefix) > self._standard:
                first, last = _bounds(prefix)
                start = self._position(data, first) * self._entry
                stop = self._position(data, last) * self._entry
            for at in range(start, stop, self._entry):
                yield data[at : at + self._entry]

    def _run_of(self, key: bytes) -> int:
        # Each character of a payload is six bits of the hash.
        return int.from_bytes(key[:3], "big") >> 24 - 6 * self._standard

    def _runs_of(self, prefix: str) -> slice:
        missing = max(0, self._standard - len(prefix))
        number = _number(prefix[: self._standard]) << 6 * missing
        return slice(number, number + 64**missing)

    def _position(self, run: bytes, key: bytes) -> int:
        entry = self._entry
        entries = range(len(run) // entry)
        return bisect_left(entries, key, key=lambda i: run[i * entry : i * entry + _KEY])


def joined_summary(peers: Partitions, own: Partitions, prefix: str, count: int) -> Summary | None:
    """Return the summary of a partition if the peer has all of ours too; None if not so many.

    ``own`` has a second digest for each record: that of the advertisement that the peer would make.
    """
    leaves = own.leaves(prefix, 1) | peers.leaves(prefix)
    return Summary(prefix, count, merkle_root(leaves.values())) if len(leaves) == count else None


_ODD_BYTES: Final = 400
_KEY: Final = 33
_ANOTHER: Final = b"\0"  # no partition has so few bytes
_DIGEST: Final = 32


def _key(record: str) -> bytes | None:
    """Return hash and type of a record, or None for a format that we cannot pack."""
    if not is_record_hash(record):
        return None
    return b64a.decode_trusted(record[2:-3].encode("ascii")) + record[:1].encode("ascii")


def _bounds(prefix: str) -> tuple[bytes, bytes]:
    """Return the least hash with a prefix, and the least one after all of them."""
    below = 6 * (_LONGEST_PREFIX - len(prefix))
    number = _number(prefix)
    return _least(number << below), _least((number + 1) << below)


def _least(number: int) -> bytes:
    """Return the least hash whose 43 characters, as a number, are not below this one."""
    value = (number + 3) >> 2  # the last character has two bits that are not part of the hash
    return value.to_bytes(32, "big") if value < 2**256 else b"\xff" * _KEY


def _number(prefix: str) -> int:
    number = 0
    for character in prefix:
        number = number << 6 | _CHARACTERS.index(character)
    return number


def check_listing(summary: Summary, digests: dict[str, bytes]) -> None:
    """Raise unless listed advertisements are exactly those that a summary promised."""
    if any(not payload(record).startswith(summary.prefix) for record in digests):
        raise ProtocolError("a record outside the listed partition", code=Code.INTERLACE_LISTING)
    if len(digests) != summary.count or merkle_root(digests.values()) != summary.root:
        raise ProtocolError(
            "the listed advertisements do not match their summary", code=Code.INTERLACE_LISTING
        )
