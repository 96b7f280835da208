"""Merkle partitions: summaries by which two sides find out where their advertisements differ."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import Code, ProtocolError
from lace.interlace.facts import decimal

STANDARD_PREFIX: Final = 2
_LEAF: Final = b"lace-advertisement-leaf/v1"
_NODE: Final = b"lace-advertisement-node/v1"
EMPTY: Final = digest(b"lace-advertisement-empty/v1")
_LONGEST_PREFIX: Final = 43
_PREFIX: Final = re.compile(r"[0-9A-Z_a-z~]*")
_ROOT: Final = re.compile(b64a.PATTERN_32.decode("ascii"))
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")
_LAST: Final = chr(ord(_CHARACTERS[-1]) + 1)  # sorts after every character of a payload


def merkle_root(digests: Iterable[bytes]) -> bytes:
    """Return the root over digests in any order: sorted, hashed as leaves, padded."""
    row = [digest(_LEAF + leaf) for leaf in sorted(digests)]
    if not row:
        return EMPTY
    while len(row) & (len(row) - 1):
        row.append(EMPTY)
    while len(row) > 1:
        row = [digest(_NODE + row[i] + row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


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


@dataclass(slots=True)
class Partitions:
    """Digests of advertisements by record, with the summaries of their partitions.

    A change forgets only the summaries of the partitions that it lies in; all others stay as they
    were computed.
    """

    _digests: dict[str, bytes] = field(default_factory=dict)
    _order: list[tuple[str, str]] = field(default_factory=list)
    """Payload and record, sorted: a partition is a run of it."""
    _summaries: dict[str, Summary] = field(default_factory=dict)

    @classmethod
    def of(cls, digests: dict[str, bytes]) -> Partitions:
        return cls(dict(digests), sorted((payload(record), record) for record in digests))

    def __len__(self) -> int:
        return len(self._digests)

    def put(self, record: str, digest: bytes) -> None:
        """Add an advertisement, or replace it."""
        if record not in self._digests:
            insort(self._order, (payload(record), record))
        self._digests[record] = digest
        self._forget(record)

    def remove(self, record: str) -> None:
        """Remove an advertisement that is there."""
        del self._digests[record]
        del self._order[bisect_left(self._order, (payload(record), record))]
        self._forget(record)

    def records(self, prefix: str) -> Iterator[str]:
        """Yield the records of a partition, in the order of their payloads."""
        start = bisect_left(self._order, (prefix,))
        stop = bisect_left(self._order, (prefix + _LAST,)) if prefix else len(self._order)
        return (record for _, record in self._order[start:stop])

    def summary(self, prefix: str) -> Summary:
        """Return the summary of a partition, also of an empty one."""
        known = self._summaries.get(prefix)
        if known is None:
            digests = [self._digests[record] for record in self.records(prefix)]
            known = Summary(prefix, len(digests), merkle_root(digests))
            if digests:  # a peer may ask for any number of prefixes that are empty
                self._summaries[prefix] = known
        return known

    def summaries(self, length: int) -> Iterator[Summary]:
        """Yield the summaries of all non-empty partitions of this prefix length, in order."""
        at = 0
        while at < len(self._order):
            prefix = self._order[at][0][:length]
            found = self.summary(prefix)
            yield found
            at += found.count

    def children(self, prefix: str) -> Iterator[Summary]:
        """Yield the summaries of the non-empty partitions one character below."""
        for character in _CHARACTERS:
            found = self.summary(prefix + character)
            if found.count:
                yield found

    def _forget(self, record: str) -> None:
        name = payload(record)
        for length in range(len(name) + 1):
            self._summaries.pop(name[:length], None)


def check_listing(summary: Summary, digests: dict[str, bytes]) -> None:
    """Raise unless listed advertisements are exactly those that a summary promised."""
    if any(not payload(record).startswith(summary.prefix) for record in digests):
        raise ProtocolError("a record outside the listed partition", code=Code.INTERLACE_LISTING)
    if len(digests) != summary.count or merkle_root(digests.values()) != summary.root:
        raise ProtocolError(
            "the listed advertisements do not match their summary", code=Code.INTERLACE_LISTING
        )
