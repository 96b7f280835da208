"""Summaries of advertisements, by which two sides find out where these differ.

A summary is a count and a Merkle root over the digests of a partition: all records whose hashes
begin alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from lace import b64a
from lace.crypto.native import digest
from lace.crypto.native import digests as hashes
from lace.datalog.source import Fact
from lace.errors import Code, ProtocolError
from lace.interlace.facts import decimal

EMPTY: Final = digest(b"lace-advertisement-empty/v1")
LONGEST_PREFIX: Final = 43
_LEAF: Final = b"lace-advertisement-leaf/v1"
_NODE: Final = b"lace-advertisement-node/v1"
_PREFIX: Final = re.compile(r"[0-9A-Z_a-z~]*")
_ROOT: Final = re.compile(b64a.PATTERN_32.decode("ascii"))


def _paddings() -> Iterator[bytes]:
    """Yield what stands for nothing, on each level."""
    padding = EMPTY
    while True:
        yield padding
        padding = digest(_NODE + padding + padding)


_PADDINGS: Final = list(islice(_paddings(), 64))


def merkle_root(digests: Iterable[bytes]) -> bytes:
    """Return the root over digests in any order: sorted, hashed as leaves, padded."""
    level = hashes([_LEAF + leaf for leaf in sorted(digests)])
    for padding in _PADDINGS:
        if len(level) < 2:
            break
        if len(level) % 2:
            level.append(padding)
        pairs = zip(level[::2], level[1::2], strict=True)
        level = hashes([_NODE + left + right for left, right in pairs])
    return level[0] if level else EMPTY


def is_digest(text: str) -> bool:
    """Whether ``text`` can be a root or another digest."""
    return _ROOT.fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """Whether ``text`` can be the beginning of a hash payload."""
    return len(text) <= LONGEST_PREFIX and _PREFIX.fullmatch(text) is not None


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
    if number is None or not is_digest(root) or not is_prefix(prefix):
        raise ProtocolError("a malformed partition summary", code=Code.INTERLACE_SUMMARY)
    summary = Summary(prefix, number, b64a.decode(root))
    if not number and summary.root != EMPTY:
        raise ProtocolError("a root of something, and nothing below", code=Code.INTERLACE_SUMMARY)
    return summary


def check_listing(summary: Summary, digests: dict[str, bytes]) -> None:
    """Raise unless listed advertisements are exactly those that a summary promised.

    A summary without a root stands for all that a peer advertises, whose digest is looked at later.
    """
    if any(not payload(record).startswith(summary.prefix) for record in digests):
        raise ProtocolError("a record outside the listed partition", code=Code.INTERLACE_LISTING)
    is_other = summary.root and merkle_root(digests.values()) != summary.root
    if len(digests) != summary.count or is_other:
        raise ProtocolError(
            "the listed advertisements do not match their summary", code=Code.INTERLACE_LISTING
        )
