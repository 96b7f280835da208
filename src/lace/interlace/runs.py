"""Entries of a table as bytes: hash, type letter, digests; a run of them lies sorted by hash."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, overload

from lace import b64a
from lace.ids import is_record_hash

KEY: Final = 33
"""Bytes of hash and type letter."""
DIGEST: Final = 32
_HASH: Final = 32
_CHARACTERS: Final = b64a.ALPHABET.decode("ascii")
_CHARACTERS_OF_A_HASH: Final = 43
_FEW: Final = 4  # times as many are in a run before it pays to put entries in one by one
_NAME: Final = len("P.") + _CHARACTERS_OF_A_HASH + len(".H3")


def entry_size(digests: int) -> int:
    """Return how many bytes a record takes in a table with so many digests for each."""
    return KEY + digests * DIGEST


def key_of(record: str) -> bytes | None:
    """Return hash and type of a record, or None for a format that cannot be packed."""
    if not is_record_hash(record):
        return None
    return b64a.decode_trusted(record[2:-3].encode("ascii")) + record[:1].encode("ascii")


def record_of(entry: bytes) -> str:
    """Return the record that an entry begins with."""
    return f"{chr(entry[_HASH])}.{b64a.encode_digest(entry[:_HASH]).decode('ascii')}.H3"


def cut(run: bytes, size: int) -> Iterator[bytes]:
    """Yield the entries of a run."""
    return (run[at : at + size] for at in range(0, len(run), size))


def position(run: bytes, size: int, key: bytes) -> int:
    """Return how many entries of a run lie before a key."""
    entries = range(len(run) // size)
    return bisect_left(entries, key, key=lambda i: run[i * size : i * size + KEY])


def merged(run: bytes, size: int, entries: Mapping[bytes, bytes]) -> bytes:
    """Return a run with digests by key put into it; they replace those that it has."""
    if run and len(entries) * _FEW < len(run) // size:
        return _put_into(run, size, entries)
    if run:
        entries = {entry[:KEY]: entry[KEY:] for entry in cut(run, size)} | dict(entries)
    return b"".join([key + entries[key] for key in sorted(entries)])


def _put_into(run: bytes, size: int, entries: Mapping[bytes, bytes]) -> bytes:
    """Do the same for a few entries, without a look at all others."""
    pieces: list[bytes] = []
    done = 0
    for key in sorted(entries):
        at = position(run, size, key) * size
        pieces += (run[done:at], key, entries[key])
        done = at + size if run[at : at + KEY] == key else at
    return b"".join((*pieces, run[done:]))


def last_digests(run: bytes, columns: int) -> bytes:
    """Return the entries of a run with the last of so many digests alone."""
    return b"".join([entry[:KEY] + entry[-DIGEST:] for entry in cut(run, entry_size(columns))])


def run_items(run: bytes, columns: int, column: int) -> list[tuple[str, bytes]]:
    """Return the records of a run with one of so many digests."""
    start = KEY + DIGEST * column
    return [
        (record_of(entry), entry[start : start + DIGEST]) for entry in cut(run, entry_size(columns))
    ]


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

    def texts(self) -> Iterator[bytes]:
        """Yield each record and its digest as one text."""
        start = KEY + DIGEST * self._column
        name = b64a.encode_digest
        for run in self._runs:
            for entry in cut(run, entry_size(self._columns)):
                leaf = entry[start : start + DIGEST]
                yield b"%c.%b.H3%b" % (entry[_HASH], name(entry[:_HASH]), leaf)
        for record, leaf in self._odd:
            yield record.encode() + leaf


class Packed:
    """The names of many records in little room; they are all of the same length."""

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, records: Iterable[str]) -> None:
        self._texts.append("".join(records))

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            for at in range(0, len(text), _NAME):
                yield text[at : at + _NAME]


# --- prefixes ---


def number_of(prefix: str) -> int:
    """Return a prefix as a number: six bits for each character."""
    number = 0
    for character in prefix:
        number = number << 6 | _CHARACTERS.index(character)
    return number


def bounds(prefix: str) -> tuple[bytes, bytes]:
    """Return the least hash with a prefix, and the least one after all of them."""
    below = 6 * (_CHARACTERS_OF_A_HASH - len(prefix))
    number = number_of(prefix)
    return _least(number << below), _least((number + 1) << below)


def _least(number: int) -> bytes:
    """Return the least hash whose 43 characters, as a number, are not below this one."""
    value = (number + 3) >> 2  # the last character has two bits that are not part of the hash
    return value.to_bytes(_HASH, "big") if value < 2**256 else b"\xff" * KEY
