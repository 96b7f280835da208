"""Entries of a table as bytes: hash, type letter, digests; a run of them lies sorted by hash."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from struct import Struct
from typing import Any, Final, overload

from lace import b64a
from lace.ids import RECORD_TYPES, is_record_hash
from lace.interlace.numbers import numpy_for

KEY: Final = 33
"""Bytes of hash and type letter."""
DIGEST: Final = 32
_HASH: Final = 32
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")
_CHARS: Final = 43
_SHORT: Final = 4096  # bytes of a run that is sooner gone through than halved
_SPARSE: Final = 256  # entries of a part that are sooner gone through than halved
_FEW: Final = 4  # times as many are in a run before it pays to put entries in one by one
_ZERO: Final = b64a.ALPHABET[:1]
_LETTERS: Final = RECORD_TYPES.encode("ascii")
_READ_AT_ONCE: Final = 64  # entries of a run
_BEGINNING: Final = 8  # bytes of a hash, by which numpy puts entries in order
_TO_USE: Final = 500  # entries
_TO_LOAD: Final = 500_000  # entries, for which it takes as long as loading numpy does
_BYTES_OVERHEAD: Final = 41  # of a bytes object and the place of it in a list
_NAME: Final = len("P.") + _CHARS + len(".H3")
_SAME: Final = ((1, b"."), (_NAME - 3, b"."), (_NAME - 2, b"H"), (_NAME - 1, b"3"))
"""Characters that all records have, by their places."""
_CUT_OUT: Final = ((0, _NAME), (0, _NAME - 1), (_NAME - 4, _NAME - 2), (_NAME - 4, _NAME - 3))
"""Places of which names are rid one after another, with their length: letter, dot, H and 3."""


def entry_size(digests: int) -> int:
    """Return how many bytes a record takes in a table with so many digests for each."""
    return KEY + digests * DIGEST


def key_of(record: str) -> bytes | None:
    """Return hash and type of a record, or None for a format that cannot be packed."""
    if not is_record_hash(record):
        return None
    return b64a.decode_trusted(record[2:-3].encode("ascii")) + record[:1].encode("ascii")


def run_of(key: bytes, standard: int) -> int:
    """Return the number of the standard partition that an entry with this key belongs to."""
    # Each character of a payload is six bits of the hash.
    return int.from_bytes(key[:3], "big") >> 24 - 6 * standard


def record_of(entry: bytes) -> str:
    """Return the record that an entry begins with."""
    return f"{chr(entry[_HASH])}.{b64a.encode_digest(entry[:_HASH]).decode('ascii')}.H3"


def cut(run: bytes, size: int) -> Sequence[bytes]:
    """Return the entries of a run."""
    return _read(f"{size}s", run, size)


def column_of(run: bytes, columns: int, column: int) -> Sequence[bytes]:
    """Return one of so many digests of each record of a run."""
    after = DIGEST * (columns - column - 1)
    return _read(f"{KEY + DIGEST * column}x{DIGEST}s{after}x", run, entry_size(columns))


def _read(layout: str, run: bytes, size: int) -> Sequence[bytes]:
    """Return what a layout takes of each entry of a run, one after another.

    One call reads many entries: a slice of each would take four times as long.
    """
    count = len(run) // size
    if count < _READ_AT_ONCE:
        return _reader(layout, count).unpack_from(run)
    rest = count % _READ_AT_ONCE
    found = list(
        chain.from_iterable(
            _reader(layout, _READ_AT_ONCE).iter_unpack(run[: (count - rest) * size])
        )
    )
    found += _reader(layout, rest).unpack_from(run, (count - rest) * size)
    return found


@cache
def _reader(layout: str, count: int) -> Struct:
    return Struct(layout * count)


def position(run: bytes, size: int, key: bytes) -> int:
    """Return how many entries of a run lie before a key."""
    entries = range(len(run) // size)
    return bisect_left(entries, key, key=lambda i: run[i * size : i * size + KEY])


def digests_in(run: bytes, size: int, key: bytes) -> bytes | None:
    """Return the digests of a key, or None if it is not in a run."""
    if len(run) > _SHORT:
        at = position(run, size, key) * size
        return run[at + KEY : at + size] if run[at : at + KEY] == key else None
    at = run.find(key)
    while at % size and at >= 0:  # a part of others
        at = run.find(key, at + 1)
    return run[at + KEY : at + size] if at >= 0 else None


def merged(run: bytes, size: int, more: bytes) -> bytes:
    """Return a run with others put into it; what they have replaces what it has of the same."""
    if not run or not more:
        return run or more
    if len(more) * _FEW < len(run):
        return _put_into(run, size, more)
    return in_order(run + more, size)


def in_order(entries: bytes, size: int, *, of_many: int = 0) -> bytes:
    """Return entries sorted by hash; of several with one hash, the last.

    ``of_many`` is how many entries are put in order in all, these among them.
    """
    if len(entries) <= size:
        return entries
    if len(entries) >= _TO_USE * size and (
        numpy := numpy_for(max(of_many, len(entries) // size), to_use=_TO_USE, to_load=_TO_LOAD)
    ):
        made = _in_order_by_numpy(entries, size, numpy)
        if made is not None:
            return made
    by_key = dict(zip(_keys_in(entries, size), cut(entries, size), strict=True))
    return b"".join([by_key[key] for key in sorted(by_key)])


def _in_order_by_numpy(entries: bytes, size: int, numpy: Any) -> bytes | None:
    """Do the same by the first bytes of hashes; None if two of them begin alike."""
    rows = numpy.frombuffer(entries, dtype=numpy.uint8).reshape(-1, size)
    begins = rows[:, :_BEGINNING].copy().view(">u8").ravel().astype(numpy.uint64)
    places = begins.argsort()
    in_turn = begins[places]
    if (in_turn[1:] == in_turn[:-1]).any():
        return None
    made: bytes = rows[places].tobytes()
    return made


def _keys_in(run: bytes, size: int) -> Sequence[bytes]:
    return _read(f"{KEY}s{size - KEY}x", run, size)


def _put_into(run: bytes, size: int, more: bytes) -> bytes:
    """Do the same for a few entries, without a look at all others."""
    entries = dict(zip(_keys_in(more, size), cut(more, size), strict=True))
    pieces: list[bytes] = []
    done = 0
    for key in sorted(entries):
        at = position(run, size, key) * size
        pieces += (run[done:at], entries[key])
        done = at + size if run[at : at + KEY] == key else at
    return b"".join((*pieces, run[done:]))


class Entries:
    """Entries that are to be put into a table together, by partition; the last of a record counts.

    They are packed by the thousand: a call for each record would cost more than the rest.
    """

    __slots__ = ("_parts", "_standard", "memory", "odd")

    def __init__(self, standard: int) -> None:
        self._standard = standard
        self._parts: defaultdict[str, list[bytes]] = defaultdict(list)
        """By the first characters of their hashes: few parts, so that each holds many."""
        self.odd: dict[str, bytes] = {}
        """Records of formats that cannot be packed."""
        self.memory = 0
        """About how many bytes this takes."""

    def add(self, digests: Mapping[str, bytes]) -> None:
        """Add the digests of records."""
        fitting, keys = digests, keys_of(digests)
        if keys is None:
            fitting = self._sort_out(digests)
            keys = keys_of(fitting) or b""
        parts: defaultdict[str, list[bytes]] = defaultdict(list)
        at, stop = 0, len("P.") + max(0, self._standard - 1)
        for record, leaves in fitting.items():
            parts[record[2:stop]].append(keys[at : at + KEY] + leaves)
            at += KEY
        for prefix, entries in parts.items():
            made = b"".join(entries)
            self.memory += len(made) + _BYTES_OVERHEAD
            self._parts[prefix].append(made)

    def _sort_out(self, digests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        fitting: dict[str, bytes] = {}
        for record, leaves in digests.items():
            (fitting if is_record_hash(record) else self.odd)[record] = leaves
        return fitting

    def take_runs(self, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield entries of some size as runs, with their numbers; none of it is kept here."""
        many = self.memory // size
        while self._parts:
            run = in_order(b"".join(self._parts.popitem()[1]), size, of_many=many)
            entries = range(0, len(run), size)
            if len(entries) < _SPARSE:
                yield from self._one_by_one(run, size)
                continue
            at = 0
            while at < len(entries):
                number = run_of(run[entries[at] : entries[at] + KEY], self._standard)
                end = bisect_left(entries, number + 1, at, key=self._number_in(run))
                yield number, run[at * size : end * size]
                at = end
        self.memory = 0

    def _one_by_one(self, run: bytes, size: int) -> Iterator[tuple[int, bytes]]:
        """Yield the same of a few entries, each of which may be alone in its partition."""
        below, last, start = 24 - 6 * self._standard, -1, 0
        for at in range(0, len(run), size):
            number = int.from_bytes(run[at : at + 3], "big") >> below
            if number != last:
                if at:
                    yield last, run[start:at]
                last, start = number, at
        if run:
            yield last, run[start:]

    def _number_in(self, run: bytes) -> Callable[[int], int]:
        return lambda at: run_of(run[at : at + KEY], self._standard)


def keys_of(records: Collection[str]) -> bytes | None:
    """Return what stands for records inside tables, one after another; None if one does not fit.

    With one character more than it needs, a hash becomes 33 bytes, the last of them zero: so all
    are decoded at once, and the letter of the type comes to stand there. What is not zero there, or
    not the same for all records elsewhere, is no hash of this format.
    """
    text, number = "".join(records), len(records)
    if not number or set(map(len, records)) != {_NAME} or not text.isascii():
        return None if number else b""
    names = bytearray(text, "ascii")
    letters = names[::_NAME]
    if letters.translate(None, _LETTERS) or any(
        names[at::_NAME] != character * number for at, character in _SAME
    ):
        return None
    for at, width in _CUT_OUT:
        del names[at::width]
    names[_CHARS :: _CHARS + 1] = _ZERO * number
    if names.translate(None, b64a.ALPHABET):
        return None
    made = bytearray(b64a.decode_trusted(bytes(names)))
    if any(made[_HASH::KEY]):
        return None
    made[_HASH::KEY] = letters
    return bytes(made)


def _texts(run: bytes, size: int) -> bytes:
    """Return the characters of all hashes of a run, 44 for each, of which the last is for nothing.

    It is ``keys_of`` the other way round.
    """
    keys = bytearray().join(_keys_in(run, size))
    keys[_HASH::KEY] = bytes(len(run) // size)
    return b64a.encode_ascii(bytes(keys))


def records_of(run: bytes, size: int) -> list[str]:
    """Return the records of a run."""
    text = _texts(run, size).decode("ascii")
    letters = run[_HASH::size].decode("latin-1")  # whatever a damaged file has there
    starts = range(0, len(text), _CHARS + 1)
    return [
        f"{letter}.{text[at : at + _CHARS]}.H3" for letter, at in zip(letters, starts, strict=True)
    ]


def last_digests(run: bytes, columns: int) -> bytes:
    """Return the entries of a run with the last of so many digests alone."""
    between = DIGEST * (columns - 1)
    return b"".join(_read(f"{KEY}s{between}x{DIGEST}s", run, entry_size(columns)))


def run_items(run: bytes, columns: int, column: int) -> list[tuple[str, bytes]]:
    """Return the records of a run with one of so many digests."""
    records = records_of(run, entry_size(columns))
    return list(zip(records, column_of(run, columns, column), strict=True))


class Items(Sequence[tuple[str, bytes]]):
    """Records with one of their digests, read from the runs that hold them."""

    __slots__ = ("_column", "_columns", "_odd", "_runs", "_starts")

    def __init__(
        self, runs: Sequence[bytes], columns: int, column: int, odd: Mapping[str, bytes]
    ) -> None:
        self._runs = list(filter(None, runs))
        self._columns, self._column = columns, column
        sizes = (len(run) // entry_size(columns) for run in self._runs)
        self._starts = list(accumulate(sizes, initial=0))
        start = DIGEST * column
        self._odd = [(record, d[start : start + DIGEST]) for record, d in odd.items()]

    def __len__(self) -> int:
        return self._starts[-1] + len(self._odd)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        runs = (run_items(run, self._columns, self._column) for run in self._runs)
        return chain(chain.from_iterable(runs), self._odd)

    @overload
    def __getitem__(self, at: int) -> tuple[str, bytes]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[str, bytes]]: ...
    def __getitem__(self, at: int | slice) -> tuple[str, bytes] | list[tuple[str, bytes]]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        at = range(len(self))[at]
        if at >= self._starts[-1]:
            return self._odd[at - self._starts[-1]]
        number = bisect_right(self._starts, at) - 1
        size = entry_size(self._columns)
        start = (at - self._starts[number]) * size
        return run_items(self._runs[number][start : start + size], self._columns, self._column)[0]

    def digests(self) -> Iterator[Sequence[bytes]]:
        """Yield the digests alone, those of many records at a time."""
        for run in self._runs:
            yield column_of(run, self._columns, self._column)
        yield [leaf for _, leaf in self._odd]


class Packed:
    """The names of many records of this format in little room."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: list[bytes] = []

    def add(self, records: Collection[str]) -> None:
        keys = keys_of(records)
        if keys is None:
            raise ValueError("a record of another format")
        self._keys.append(keys)

    def __iter__(self) -> Iterator[str]:
        for keys in self._keys:
            yield from records_of(keys, KEY)


# --- prefixes ---


def number_of(prefix: str) -> int:
    """Return a prefix as a number: six bits for each character."""
    number = 0
    for character in prefix:
        number = number << 6 | _CHARACTERS.index(character)
    return number


def bounds(prefix: str) -> tuple[bytes, bytes]:
    """Return the least hash with a prefix, and the least one after all of them."""
    below = 6 * (_CHARS - len(prefix))
    number = number_of(prefix)
    return _least(number << below), _least((number + 1) << below)


def _least(number: int) -> bytes:
    """Return the least hash whose 43 characters, as a number, are not below this one."""
    value = (number + 3) >> 2  # the last character has two bits that are not part of the hash
    return value.to_bytes(_HASH, "big") if value < 2**256 else b"\xff" * KEY
