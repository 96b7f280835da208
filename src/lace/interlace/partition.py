"""Merkle partitions: summaries by which two sides find out where their advertisements differ."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
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


class Standing(IntEnum):
    """What is known of an entry: merely expected, or said and checked."""

    EXPECTED = 0
    KNOWN = 1


class Partitions:
    """Digests of advertisements by record, compact: 66 bytes a record, and little else.

    Entries lie sorted in one run of bytes for each prefix of two characters. A change makes the
    runs that it touches anew; the rest stays as it is. Hashes of other formats, which only a peer
    can bring up, are few and kept aside.
    """

    __slots__ = ("_made", "_odd", "_runs")

    def __init__(self) -> None:
        self._runs: list[bytes] = [b""] * _RUNS
        self._odd: dict[str, dict[str, tuple[bytes, Standing]]] = {}
        self._made: dict[tuple[str, bool], Summary] = {}
        """Summaries of large partitions, without and with what is merely expected."""

    @classmethod
    def of(cls, digests: Mapping[str, bytes]) -> Partitions:
        made = cls()
        made.put(digests)
        return made

    def __len__(self) -> int:
        return sum(map(len, self._runs)) // _ENTRY + sum(map(len, self._odd.values()))

    @property
    def memory(self) -> int:
        """About how many bytes this takes."""
        return sum(map(len, self._runs)) + _ODD_BYTES * sum(map(len, self._odd.values()))

    def __contains__(self, record: object) -> bool:
        return isinstance(record, str) and self.standing(record) is Standing.KNOWN

    def digest(self, record: str) -> bytes | None:
        """Return the digest of a record, known or expected."""
        found = self.find(record)
        return None if found is None else found[0]

    def standing(self, record: str) -> Standing | None:
        found = self.find(record)
        return None if found is None else found[1]

    # --- changes ---

    def put(self, digests: Mapping[str, bytes], standing: Standing = Standing.KNOWN) -> None:
        """Set the digests of records."""
        state = bytes((standing,))
        runs: dict[int, dict[bytes, bytes]] = {}
        for record, leaf in digests.items():
            key = _key(record)
            if key is None:
                run = payload(record)[:STANDARD_PREFIX]
                self._odd.setdefault(run, {})[record] = leaf, standing
                self._unmake(run)
            else:
                runs.setdefault(_run_of(key), {})[key] = leaf + state
        for number, entries in runs.items():
            self._set(number, self._entries(number) | entries)

    def adopt(self, prefix: str) -> list[str]:
        """Know what was merely expected in a partition; return the records."""
        found = list(self.records(prefix, Standing.EXPECTED))
        if len(prefix) > STANDARD_PREFIX:
            self.put({record: self.digest(record) or EMPTY for record in found})
            return found
        known = bytes((Standing.KNOWN,))
        for run in range(*_runs_of(prefix).indices(_RUNS)):
            entries = self._entries(run)
            if entries:
                self._set(run, {key: rest[:-1] + known for key, rest in entries.items()})
        for aside in [run for run in self._odd if run.startswith(prefix)]:
            held = self._odd[aside].items()
            self._odd[aside] = {record: (leaf, Standing.KNOWN) for record, (leaf, _) in held}
            self._unmake(aside)
        return found

    def remove(self, records: Iterable[str]) -> None:
        """Forget records; those that are not here are passed over."""
        runs: dict[int, set[bytes]] = {}
        for record in records:
            key = _key(record)
            if key is None:
                aside = payload(record)[:STANDARD_PREFIX]
                self._odd.get(aside, {}).pop(record, None)
                self._unmake(aside)
            else:
                runs.setdefault(_run_of(key), set()).add(key)
        for run, gone in runs.items():
            kept = {key: rest for key, rest in self._entries(run).items() if key not in gone}
            self._set(run, kept)

    # --- what is in a partition ---

    def runs(self) -> tuple[bytes, ...]:
        """Return the state of each standard partition; equal bytes mean an equal partition."""
        return tuple(self._runs)

    def records(self, prefix: str, standing: Standing | None = Standing.KNOWN) -> Iterator[str]:
        """Yield the records of a partition in order; with None those merely expected too."""
        for entry in self._within(prefix):
            if standing is None or entry[_STATE] == standing:
                yield f"{chr(entry[32])}.{b64a.encode(entry[:32])}.H3"
        for record, _, state in self._odd_within(prefix):
            if standing in {None, state}:
                yield record

    def summary(self, prefix: str, *, expected: bool = False) -> Summary:
        """Return the summary of a partition; ``expected`` counts what is merely expected too."""
        if (prefix, expected) in self._made:
            return self._made[prefix, expected]
        leaves = [e[33:65] for e in self._within(prefix) if expected or e[_STATE]]
        leaves += [leaf for _, leaf, state in self._odd_within(prefix) if expected or state]
        made = Summary(prefix, len(leaves), merkle_root(leaves))
        if len(prefix) < STANDARD_PREFIX:
            self._made[prefix, expected] = made
        return made

    def summaries(self, length: int) -> Iterator[Summary]:
        """Yield the summaries of all non-empty partitions of this prefix length, in order."""
        if length <= STANDARD_PREFIX:
            runs = {standard_prefix(run) for run, data in enumerate(self._runs) if data}
            prefixes = {run[:length] for run in runs | self._odd.keys()}
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

    # --- entries: 32 bytes of hash, type letter, 32 bytes of digest, standing ---

    def find(self, record: str) -> tuple[bytes, Standing] | None:
        """Return digest and standing of a record, or None."""
        key = _key(record)
        if key is None:
            return self._odd.get(payload(record)[:STANDARD_PREFIX], {}).get(record)
        run = self._runs[_run_of(key)]
        at = _position(run, key) * _ENTRY
        if run[at : at + _KEY] != key:
            return None
        return run[at + _KEY : at + _STATE], Standing(run[at + _STATE])

    def _entries(self, run: int) -> dict[bytes, bytes]:
        data = self._runs[run]
        cuts = range(0, len(data), _ENTRY)
        return {data[i : i + _KEY]: data[i + _KEY : i + _ENTRY] for i in cuts}

    def _unmake(self, run: str) -> None:
        for length in range(STANDARD_PREFIX):
            for expected in (False, True):
                self._made.pop((run[:length], expected), None)

    def _set(self, run: int, entries: dict[bytes, bytes]) -> None:
        self._unmake(standard_prefix(run))
        self._runs[run] = b"".join([key + entries[key] for key in sorted(entries)])

    def _odd_within(self, prefix: str) -> Iterator[tuple[str, bytes, Standing]]:
        run = prefix[:STANDARD_PREFIX]
        whole = len(prefix) < STANDARD_PREFIX
        for aside in sorted(self._odd) if whole else [run] if run in self._odd else []:
            for record, (leaf, standing) in sorted(self._odd[aside].items()):
                if payload(record).startswith(prefix):
                    yield record, leaf, standing

    def _within(self, prefix: str) -> Iterator[bytes]:
        for data in filter(None, self._runs[_runs_of(prefix)]):
            start, stop = 0, len(data)
            if len(prefix) > STANDARD_PREFIX:
                first, last = _bounds(prefix)
                start = _position(data, first) * _ENTRY
                stop = _position(data, last) * _ENTRY
            for at in range(start, stop, _ENTRY):
                yield data[at : at + _ENTRY]


_ODD_BYTES: Final = 400
_KEY: Final = 33
_STATE: Final = 65
_ENTRY: Final = 66
_RUNS: Final = 64**STANDARD_PREFIX


def _key(record: str) -> bytes | None:
    """Return hash and type of a record, or None for a format that we cannot pack."""
    if not is_record_hash(record):
        return None
    return b64a.decode_trusted(record[2:-3].encode("ascii")) + record[:1].encode("ascii")


def _run_of(key: bytes) -> int:
    return key[0] << 4 | key[1] >> 4  # the first two characters are the first twelve bits


def _position(run: bytes, key: bytes) -> int:
    entries = range(len(run) // _ENTRY)
    return bisect_left(entries, key, key=lambda i: run[i * _ENTRY : i * _ENTRY + _KEY])


def standard_prefix(run: int) -> str:
    """Return the prefix of a standard partition by its number."""
    return _CHARACTERS[run >> 6] + _CHARACTERS[run & 63]


def _runs_of(prefix: str) -> slice:
    missing = max(0, STANDARD_PREFIX - len(prefix))
    number = _number(prefix[:STANDARD_PREFIX]) << 6 * missing
    return slice(number, number + 64**missing)


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


@dataclass(frozen=True, slots=True)
class Settled:
    """What both sides advertise at a fixed point, each as one partition."""

    own: Summary
    peers: Summary


def check_listing(summary: Summary, digests: dict[str, bytes]) -> None:
    """Raise unless listed advertisements are exactly those that a summary promised."""
    if any(not payload(record).startswith(summary.prefix) for record in digests):
        raise ProtocolError("a record outside the listed partition", code=Code.INTERLACE_LISTING)
    if len(digests) != summary.count or merkle_root(digests.values()) != summary.root:
        raise ProtocolError(
            "the listed advertisements do not match their summary", code=Code.INTERLACE_LISTING
        )
