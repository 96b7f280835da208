"""A small model of negentropy's range-based reconciliation, to count its bytes and round trips.

After the published description of protocol version 1: ranges of ids sorted by timestamp and id, a
fingerprint of 16 bytes a range, 16 ranges at a split, id lists where a range is small. All ids have
one timestamp here, so bounds are prefixes of ids. Only sizes are modelled; nothing is encoded.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256

_FINGERPRINT = 16
_ID = 32
_BUCKETS = 16
_LIST_BELOW = 2 * _BUCKETS
_MODE = 1
_END = b"\xff" * 33


@dataclass(slots=True)
class Cost:
    bytes: int = 1  # the protocol version
    trips: int = 0
    found: int = 0


class _Side:
    def __init__(self, ids: list[bytes]) -> None:
        self.ids = sorted(ids)
        sums = [0]
        for item in self.ids:
            sums.append(sums[-1] + int.from_bytes(item, "little"))
        self._sums = sums

    def span(self, low: bytes, high: bytes) -> tuple[int, int]:
        return bisect_left(self.ids, low), bisect_left(self.ids, high)

    def fingerprint(self, start: int, stop: int) -> bytes:
        total = (self._sums[stop] - self._sums[start]) % 2**256
        return sha256(total.to_bytes(32, "little") + bytes([stop - start & 255])).digest()[:16]


Range = tuple[bytes, bytes]


def reconcile(mine: list[bytes], theirs: list[bytes]) -> Cost:
    """Return what it costs until one side knows every difference."""
    sides = (_Side(mine), _Side(theirs))
    cost = Cost()
    asked: list[tuple[Range, bytes | None]] = _split(sides[0], (b"", _END), cost)
    turn = 1
    cost.trips = 1
    while asked:
        side = sides[turn]
        answer: list[tuple[Range, bytes | None]] = []
        for (low, high), fingerprint in asked:
            start, stop = side.span(low, high)
            if fingerprint is None:  # the other side listed its ids; ours are told in return
                other = sides[1 - turn]
                theirs_at = other.span(low, high)
                here = set(side.ids[start:stop])
                there = set(other.ids[theirs_at[0] : theirs_at[1]])
                cost.found += len(here ^ there)
                cost.bytes += _bound(side, start, high) + _MODE + 1 + _ID * len(here - there)
            elif side.fingerprint(start, stop) != fingerprint:
                answer += _split(side, (low, high), cost)
        asked = answer
        turn = 1 - turn
        cost.trips += turn == 1
    return cost


def _split(side: _Side, within: Range, cost: Cost) -> list[tuple[Range, bytes | None]]:
    start, stop = side.span(*within)
    size = stop - start
    if size < _LIST_BELOW:
        cost.bytes += _bound(side, stop, within[1]) + _MODE + 1 + _ID * size
        return [(within, None)]
    cuts = [start + size * i // _BUCKETS for i in range(_BUCKETS + 1)]
    ranges: list[tuple[Range, bytes | None]] = []
    low = within[0]
    for first, last in itertools.pairwise(cuts):
        high = within[1] if last == stop else side.ids[last]
        cost.bytes += _bound(side, last, high) + _MODE + _FINGERPRINT
        ranges.append(((low, high), side.fingerprint(first, last)))
        low = high
    return ranges


def _bound(side: _Side, at: int, high: bytes) -> int:
    """Return the size of a bound: timestamp, length, and the prefix that tells ids apart."""
    if high == _END or at == 0 or at >= len(side.ids):
        return 2
    one, other = side.ids[at - 1], side.ids[at]
    shared = next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), 31)
    return 2 + shared + 1
