"""Sketches: cells of sums by which two sides find how two sets of names differ, at a cost of that.

A name has 64 bits and is made with a key of the exchange, so nobody can choose records whose names
collide. A sketch has 65,536 cells in 14 blocks: block 0 has 8 cells, each next block as many as all
before it. Every name lies in one cell of each block. A cell has three sums over its names, in 13
bytes, big-endian: of ones modulo 2^16, of checks modulo 2^24, of the names modulo 2^64. The first
cells, however many, are a smaller sketch of the same set.

The cells of one set minus those of another are the cells of the difference: what both have cancels
out. A cell that is left with one name tells it; the name is then taken out of its cells in all
other blocks, which may leave these with one name each. About 1.6 cells a difference are enough.

All numbers that both sides must agree on, with B(text) the first 8 bytes of the BLAKE3 hash of
``text``, big-endian, and x a name:

- block j has the constant C(j) = B("lace-sketch-block/v1 j"), j in decimal, made odd by setting its
  last bit. In a block of 2^k cells, x lies in that of the highest k bits of x · C(j) modulo 2^64;
- with K = B("lace-sketch-check/v1"), made odd too, the check of x is the highest 24 bits of
  x · (x + 1) · K modulo 2^64. Squares do not add up as names do, so several names in a cell do not
  look like one.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import compress, count
from struct import Struct
from typing import Any, Final, Never, Protocol

from lace.crypto.native import digest, digests
from lace.errors import Code, ProtocolError
from lace.interlace.numbers import numpy_for
from lace.interlace.runs import Items

CELL_BYTES: Final = 13
MOST_CELLS: Final = 65_536

_KEY_DOMAIN: Final = b"lace-advertisement-sketch/v1"
_NAME_BYTES: Final = 8
_HASH_BYTES: Final = 32
_NAME_BITS: Final = 64
_NAME: Final = (1 << _NAME_BITS) - 1
_CHECK_BITS: Final = 24
_CHECK: Final = (1 << _CHECK_BITS) - 1
_COUNT_BITS: Final = 16
_COUNT: Final = (1 << _COUNT_BITS) - 1
_CELL: Final = Struct(">HBHQ")
"""The sums of ones, of checks (their highest 8 bits, then the others), of names."""

_BLOCKS: Final = 14
_SIZES: Final = (8, *(8 << block for block in range(_BLOCKS - 1)))
_STARTS: Final = (0, *_SIZES[1:])
"""Where each block begins: a block is as large as all before it."""
_SHIFTS: Final = tuple(_NAME_BITS - size.bit_length() + 1 for size in _SIZES)
_FACTORS: Final = tuple(
    int.from_bytes(digest(b"lace-sketch-block/v1 %d" % block)[:_NAME_BYTES], "big") | 1
    for block in range(_BLOCKS)
)
_CHECK_FACTOR: Final = int.from_bytes(digest(b"lace-sketch-check/v1")[:_NAME_BYTES], "big") | 1

# A name, its check and a one as a single number: one addition makes all three sums. The room
# between them takes what the sums of 2^32 names carry over.
_ROOM: Final = 32
_CHECK_AT: Final = _NAME_BITS + _ROOM
_COUNT_AT: Final = _CHECK_AT + _CHECK_BITS + _ROOM
_ONE: Final = 1 << _COUNT_AT

# Loading numpy takes as long as making the cells of 50,000 names without it.
_TO_LOAD: Final = 50_000
_TO_USE: Final = 500
_NAMES_AT_ONCE: Final = 1 << 15

_FIRST_CELLS: Final = 128
"""So many find 60 differences almost always, and tell of more how many there are."""
_LEAST_MORE: Final = 64
_SINGLE: Final = {1: 1, _COUNT: -1}
"""The count of a cell with one name left, and which side has it: the peer, or this one."""
_SIGN: Final = 1 << _COUNT_BITS - 1
_ROUNDED_TO: Final = 8


# --- names ---


def sketch_key(nonces: tuple[str, str], hellos: tuple[str, str], plan: str) -> bytes:
    """Return the key of an exchange; both sides have a share in it, so neither can choose it.

    It is BLAKE3 over ``lace-advertisement-sketch/v1`` and then, each with its length in bytes as 4
    bytes big-endian before it: both nonces, both HelloTAI texts (side 0 first), the plan id.
    """
    parts = [text.encode() for text in (*nonces, *hellos, plan)]
    return digest(_KEY_DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts))


def names_of(key: bytes, adverts: Iterable[bytes]) -> array[int]:
    """Return the names of advertisements, in the order of their digests.

    A name is the first 8 bytes of BLAKE3 with the key, over the digest.
    """
    names = array("Q", b"".join(digests(adverts, key=key)))
    if sys.byteorder == "little":
        names.byteswap()
    return names[:: _HASH_BYTES // _NAME_BYTES]


def _check(name: int) -> int:
    return (name * (name + 1) * _CHECK_FACTOR & _NAME) >> _NAME_BITS - _CHECK_BITS


def _place(name: int, block: int) -> int:
    """Return the one cell of a block in which a name lies."""
    return _STARTS[block] + ((name * _FACTORS[block] & _NAME) >> _SHIFTS[block])


# --- cells ---


class _Maker(Protocol):
    def block(self, number: int) -> bytes:
        """Return the cells of a block."""


class Sketch:
    """The cells of a set of names; any prefix of them may be sent.

    ``plain`` leaves numpy aside, which makes the same bytes sooner where it is installed.
    """

    __slots__ = ("_made", "_maker")

    def __init__(self, names: Iterable[int], *, plain: bool = False) -> None:
        numbers = array("Q", names)
        numpy = None if plain else numpy_for(len(numbers), to_use=_TO_USE, to_load=_TO_LOAD)
        self._maker: _Maker = _Plain(numbers) if numpy is None else _Numpy(numbers, numpy)
        self._made = bytearray()
        """The cells of all blocks that were needed so far."""

    def cells(self, start: int, stop: int) -> bytes:
        """Return the cells from ``start`` to before ``stop``, 13 bytes each."""
        if not 0 <= start < stop <= MOST_CELLS:
            _refuse(f"cells {start} to {stop} of a sketch: ask for some of 0 to {MOST_CELLS}")
        for number in range(_blocks_in(len(self._made) // CELL_BYTES), _blocks_in(stop)):
            self._made += self._maker.block(number)
        return bytes(self._made[start * CELL_BYTES : stop * CELL_BYTES])


def _block_of(cell: int) -> int:
    return max(cell.bit_length() - _SIZES[0].bit_length() + 1, 0)


def _blocks_in(cells: int) -> int:
    """Return how many blocks the first cells reach into."""
    return _block_of(cells - 1) + 1 if cells else 0


class _Plain:
    def __init__(self, names: Iterable[int]) -> None:
        self._values = [_ONE | _check(name) << _CHECK_AT | name for name in names]

    def block(self, number: int) -> bytes:
        sums = [0] * _SIZES[number]
        factor, shift, low = _FACTORS[number], _SHIFTS[number], _NAME  # locals are quicker
        for value in self._values:
            # The name is the low end of the value, so their products end alike.
            sums[(value * factor & low) >> shift] += value
        return b"".join([_packed(total) for total in sums])


def _packed(total: int) -> bytes:
    check = total >> _CHECK_AT
    return _CELL.pack(
        total >> _COUNT_AT & _COUNT, check >> 16 & 0xFF, check & 0xFFFF, total & _NAME
    )


class _Numpy:
    def __init__(self, names: array[int], numpy: Any) -> None:
        self._numpy = numpy
        self._names = numpy.frombuffer(names, dtype=numpy.uint64)

    def block(self, number: int) -> bytes:
        numpy, size = self._numpy, _SIZES[number]
        factor, shift = numpy.uint64(_FACTORS[number]), numpy.uint64(_SHIFTS[number])
        one, check = numpy.uint64(1), numpy.uint64(_CHECK_FACTOR)
        ones = numpy.zeros(size, dtype=numpy.int64)
        sums, checks = numpy.zeros((2, size), dtype=numpy.uint64)
        for at in range(0, len(self._names), _NAMES_AT_ONCE):  # little room, and soon at hand
            names = self._names[at : at + _NAMES_AT_ONCE]
            places = (names * factor >> shift).astype(numpy.intp)
            squares = names * (names + one) * check
            numpy.add.at(sums, places, names)
            numpy.add.at(checks, places, squares >> numpy.uint64(_NAME_BITS - _CHECK_BITS))
            ones += numpy.bincount(places, minlength=size)
        cells = numpy.empty(size, dtype=">u2, u1, >u2, >u8")
        cells["f0"] = ones & _COUNT
        cells["f1"] = checks >> numpy.uint64(16) & numpy.uint64(0xFF)
        cells["f2"] = checks & numpy.uint64(0xFFFF)
        cells["f3"] = sums
        made: bytes = cells.tobytes()
        return made


def add_cells(one: bytes, other: bytes, sign: int = 1) -> bytes:
    """Return the cells of both sets together; with -1, of the first without the second."""
    made = []
    for mine, more in zip(_CELL.iter_unpack(one), _CELL.iter_unpack(other), strict=True):
        check = (mine[1] << 16) + mine[2] + sign * ((more[1] << 16) + more[2]) & _CHECK
        count, name = mine[0] + sign * more[0] & _COUNT, mine[3] + sign * more[3] & _NAME
        made.append(_CELL.pack(count, check >> 16, check & 0xFFFF, name))
    return b"".join(made)


def whole_blocks(cells: int) -> int:
    """Return how many cells there are up to the end of the block that the last of some is in."""
    return 0 if not cells else _STARTS[_block_of(cells - 1)] + _SIZES[_block_of(cells - 1)]


class Names(Protocol):
    """The names of all that a side advertises: summed up in cells, and back to records."""

    def __len__(self) -> int: ...

    def cells(self, start: int, stop: int) -> bytes:
        """Return the cells from ``start`` to before ``stop``."""

    def find(self, names: Collection[int]) -> dict[int, str]:
        """Return the records of those names that are here."""


class NamesHere:
    """Names that are held in memory."""

    __slots__ = ("_items", "_names", "_sketch")

    def __init__(self, key: bytes, items: Items) -> None:
        self._items = items
        self._names = array("Q")
        for some in items.digests():
            self._names += names_of(key, some)
        self._sketch: Sketch | None = None

    def __len__(self) -> int:
        return len(self._names)

    def cells(self, start: int, stop: int) -> bytes:
        if self._sketch is None:
            self._sketch = Sketch(self._names)
        return self._sketch.cells(start, stop)

    def find(self, names: Collection[int]) -> dict[int, str]:
        wanted = frozenset(names)
        here = compress(count(), map(wanted.__contains__, self._names))
        return {self._names[at]: self._items[at][0] for at in here}


@dataclass(frozen=True, slots=True)
class ChangedNames:
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


# --- differences ---


@dataclass(frozen=True, slots=True)
class Difference:
    """What two sets of names do not have in common."""

    theirs: frozenset[int]
    """Only the peer has them."""
    ours: frozenset[int]
    """Only this side has them."""


class Decoder:
    """Finds the difference between one's own names and a peer's from the peer's cells.

    ``most`` is how many cells may come. ``at_least`` is a number of differences that is known
    beforehand, such as how many more names one side has. Without ``own_names``, whoever asked looks
    up afterwards whether what seems to be one's own is, and what seems to be new is not.

    Cells may be anything: ``decode`` takes at most 30 steps for each. A difference that it returns
    explains all cells, and no more than that is known: hold it against a digest of the peer's set.
    """

    __slots__ = (
        "_at_least", "_checks", "_counts", "_most", "_names", "_own", "_own_names", "steps",
    )  # fmt: skip

    def __init__(
        self,
        own: Sketch | Names,
        own_names: Collection[int] | None,
        *,
        most: int,
        at_least: int = 0,
    ) -> None:
        self._own = own
        if not isinstance(own_names, AbstractSet | None):
            own_names = frozenset(own_names)  # each name is looked up
        self._own_names = own_names
        self._most = min(most, MOST_CELLS)
        self._at_least = at_least
        # What came, minus one's own, cell by cell.
        self._counts: list[int] = []
        self._checks: list[int] = []
        self._names: list[int] = []
        self.steps = 0
        """How many cells were looked at or changed so far."""

    def add(self, start: int, cells: bytes) -> None:
        """Take the peer's next cells; raise ``ProtocolError`` if they are not the next ones."""
        have = len(self._counts)
        count, rest = divmod(len(cells), CELL_BYTES)
        if rest or not count:
            _refuse(f"{len(cells)} bytes of a sketch: send {CELL_BYTES} for each cell")
        if start != have:
            _refuse(f"cells of a sketch from {start} on: send the next ones, from {have} on")
        if have + count > self._most:
            _refuse(f"{have + count} cells of a sketch: send at most {self._most}")
        own = self._own.cells(start, start + count)
        for theirs, ours in zip(_CELL.iter_unpack(cells), _CELL.iter_unpack(own), strict=True):
            self._counts.append(theirs[0] - ours[0] & _COUNT)
            check = (theirs[1] - ours[1] << 16) + theirs[2] - ours[2]
            self._checks.append(check & _CHECK)
            self._names.append(theirs[3] - ours[3] & _NAME)

    def decode(self) -> Difference | None:
        """Return what explains all cells; None if more are needed, or if the cells lie."""
        size = len(self._counts)
        if size < _SIZES[0]:
            return None  # a name may lie beyond
        counts, checks, names = self._counts.copy(), self._checks.copy(), self._names.copy()
        blocks = list(zip(_STARTS, _FACTORS, _SHIFTS, strict=True))[: _blocks_in(size)]
        theirs: set[int] = set()
        ours: set[int] = set()
        own = self._own_names
        waiting = [place for place, count in enumerate(counts) if count in _SINGLE]
        self.steps += size
        while waiting:
            self.steps += 1
            place = waiting.pop()
            sign = _SINGLE.get(counts[place])
            if sign is None:
                continue  # another name left it since
            name, check = sign * names[place] & _NAME, sign * checks[place] & _CHECK
            if check != _check(name) or place != _place(name, _block_of(place)):
                continue  # several names that count as one
            found = theirs if sign > 0 else ours
            # Of honest cells none of this is true. Without it, what was taken from the cells
            # could come back for ever.
            if (
                name in found
                or (own is not None and (name in own) != (found is ours))
                or len(theirs) + len(ours) == size
            ):
                return None
            found.add(name)
            self.steps += len(blocks)
            for start, factor, shift in blocks:
                place = start + ((name * factor & _NAME) >> shift)
                if place < size:
                    counts[place] = count = counts[place] - sign & _COUNT
                    checks[place] = checks[place] - sign * check & _CHECK
                    names[place] = names[place] - sign * name & _NAME
                    if count in _SINGLE:
                        waiting.append(place)
        if any(counts) or any(checks) or any(names):
            return None
        return Difference(frozenset(theirs), frozenset(ours))

    def estimate(self) -> int:
        """Return about how many differences there are; with 128 cells it is off by about an eighth.

        A difference adds 1 to a cell or takes 1 away. So in a block of s cells whose counts sum up
        to t, the squares of what the counts are off their mean t / s sum up to about as many as
        there are differences, times 1 − 1 / s.
        """
        size = len(self._counts)
        if size < _SIZES[0]:
            return self._at_least
        counts = [(count ^ _SIGN) - _SIGN for count in self._counts]
        whole = _block_of(size) - 1
        # A large block has small counts, which say the most about the sum of all.
        total = sum(counts[_STARTS[whole] : _STARTS[whole] + _SIZES[whole]])
        squares = 0
        for block in range(_blocks_in(size)):
            start, of = _STARTS[block], _SIZES[block]
            some = counts[start : start + of]
            squares += sum([(of * count - total) ** 2 for count in some]) // (of - 1)
        return max(squares // size, abs(total), self._at_least)

    def wanted(self) -> int | None:
        """Return up to which cell to ask for next; None if no number that may come is enough."""
        have = len(self._counts)
        seems = self.estimate()
        # Fewer than 1.25 cells a difference are never enough, however the estimate is off.
        if have >= self._most or self._most < max(_SIZES[0], seems * 5 // 4):
            return None
        # What is known is not off; what 128 cells say is off by an eighth, and more at times.
        enough = (seems * 39 // 20 if have else seems * 7 // 4) + 24
        least = have + max(_LEAST_MORE, have // 4) if have else _FIRST_CELLS
        want = max(enough, least)
        return min(want + -want % _ROUNDED_TO, self._most)


def _refuse(what: str) -> Never:
    raise ProtocolError(what, code=Code.INTERLACE_SUMMARY)
