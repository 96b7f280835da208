"""Records as values. A ``Record`` exists only for valid bytes; its parts are read on demand.

``raw`` is the whole stored form. ``parts`` are the spans that the grammar captured, so that making
a record costs two small objects, and decoding is paid for only by those who look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from lace.ids import SUFFIX, RecordHash, Signature, Verifier
from lace.record import grammar
from lace.tai import Tai
from lace.urc import Coordinate

Parts = tuple[bytes, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Record:
    """Immutable, hash-named, valid. Two records are equal when their bytes are."""

    hash: RecordHash
    """Its name: the type and the digest of its content."""
    raw: bytes
    """All its bytes, as they are stored and sent."""
    parts: Parts
    """The values of its headers, as they stand in the bytes."""

    type: ClassVar[Literal["B", "P", "S"]]
    """B for a Blob, P for a Plex, S for a Seal."""

    @property
    def place(self) -> Coordinate | None:
        """Where it belongs; None for a Blob, which has no place."""
        return None

    @property
    def time(self) -> Tai | None:
        """When it was made, by its own word; None for a Blob."""
        return None

    @property
    def author(self) -> Verifier | None:
        """Who signed it; None if nobody did."""
        return None

    @property
    def fields(self) -> Mapping[str, str]:
        """Extra headers by name; of one that occurs again, the first value."""
        return {}

    @property
    def data(self) -> bytes:
        """The application's bytes."""
        return self.raw[len(self.raw) - self.data_length :]

    @property
    def data_length(self) -> int:
        """How many bytes of data it has."""
        return int(self.parts[-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.hash}>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Blob(Record):
    """Bytes and nothing else."""

    type = "B"
    """Always B."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Versioned(Record):
    """What Plex and Seal share: a coordinate, a time, extra headers, and an embedded Blob."""

    @property
    def group(self) -> str:
        return self.parts[-7].decode()

    @property
    def app(self) -> str:
        return self.parts[-6].decode()

    @property
    def name(self) -> str:
        return self.parts[-5].decode()

    @property
    def tai(self) -> Tai:
        return Tai(self.parts[-4].decode())

    @property
    def place(self) -> Coordinate:
        return self.coordinate

    @property
    def time(self) -> Tai:
        return self.tai

    @property
    def fields(self) -> Mapping[str, str]:
        return dict(reversed(self.extras))

    @property
    def coordinate(self) -> Coordinate:
        return Coordinate(group=self.group, app=self.app, name=self.name)

    @property
    def extras(self) -> tuple[tuple[str, str], ...]:
        """Extra headers in stored order."""
        return tuple(grammar.HEADERS_OF_TEXT.findall(self.parts[-3].decode()))

    @property
    def has_extras(self) -> bool:
        """Whether there are extra headers; cheaper than to read them."""
        return bool(self.parts[-3])

    @property
    def may_have_links(self) -> bool:
        """Whether any extra header could be a link; cheaper than to look at each."""
        return b"+Link: " in self.parts[-3]

    @property
    def blob_hash(self) -> RecordHash:
        return _hash("B", self.parts[-2])

    @property
    def blob(self) -> Blob:
        """The embedded Blob as a record of its own."""
        digits = self.parts[-1]
        head = grammar.MARKLINE_BYTES + len(b"Data-Length: ") + len(digits) + len(b"\n\n")
        raw = self.raw[len(self.raw) - int(digits) - head :]
        return Blob(self.blob_hash, raw, self.parts[-2:])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Plex(Versioned):
    """An unsigned version of a record at a coordinate."""

    type = "P"
    """Always P."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Seal(Versioned):
    """A Plex with a verifier's signature over its digest."""

    type = "S"
    """Always S."""

    @property
    def signed_by(self) -> Verifier:
        """Who signed it."""
        return Verifier(f"V.{self.parts[1].decode()}.{SUFFIX}")

    @property
    def author(self) -> Verifier:
        """Who signed it."""
        return self.signed_by

    @property
    def signature(self) -> Signature:
        """The signature over the digest of its Plex."""
        return Signature(self.parts[2].decode())

    @property
    def plex_hash(self) -> RecordHash:
        """The name of its Plex."""
        return _hash("P", self.parts[3])

    @property
    def plex(self) -> Plex:
        """The embedded Plex as a record of its own, without the signature."""
        return Plex(self.plex_hash, self.raw[grammar.SEAL_HEAD_BYTES :], self.parts[3:])


def _hash(letter: str, digest: bytes) -> RecordHash:
    return RecordHash(f"{letter}.{digest.decode()}.{SUFFIX}")
