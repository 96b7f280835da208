"""Advertisements: what a side claims to have, one canonical text and one digest a record (050)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lace.crypto.native import digest, digests
from lace.datalog.source import Fact
from lace.errors import Code, ProtocolError
from lace.ids import is_link_target
from lace.interlace.facts import decimal
from lace.policy.origin import SourceLabel
from lace.text import quote

_DOMAIN: Final = b"lace-advertisement-record/v1"

ADVERT_FACTS: Final = frozenset(("Advertised", "AdvertisedField"))

FieldValue = tuple[str, int, str]
"""Name, index among its name, value."""


@dataclass(frozen=True, slots=True)
class Advertisement:
    """A claim about one record. It becomes truth only when the record's bytes were validated."""

    record: str
    source: SourceLabel
    fields: tuple[FieldValue, ...] = ()
    """By the bytes of their names, then by index."""

    def facts(self) -> list[Fact]:
        """Return the facts in canonical order: the record first, then its fields."""
        facts: list[Fact] = [("Advertised", self.record, self.source)]
        for name, index, value in self.fields:
            facts.append(("AdvertisedField", self.record, self.source, name, str(index), value))
        return facts

    def canonical(self) -> bytes:
        """Return the one spelling, LF after every line."""
        return "".join(self.lines()).encode()

    def lines(self) -> list[str]:
        """Return the facts as text, LF after every line."""
        subject = f"'{self.record}',{quote(self.source)}"
        lines = [f"Advertised({subject})\n"]
        for name, index, value in self.fields:
            lines.append(f"AdvertisedField({subject},{quote(name)},'{index}',{quote(value)})\n")
        return lines

    def digest(self) -> bytes:
        return digest_of(self.canonical())


def digest_of(canonical: bytes) -> bytes:
    """Return the digest of an advertisement in its one spelling."""
    return digest(_DOMAIN + canonical)


def digests_of(
    described: Iterable[tuple[str, tuple[FieldValue, ...]]], sources: Sequence[SourceLabel]
) -> dict[str, bytes]:
    """Return for each record the digests of its advertisements by some sources, one after another.

    Fields come in the order of an advertisement.
    """
    entries = list(described)
    found, each = digests_in_order(entries, sources), len(sources)
    return {
        record: b"".join(found[n * each : (n + 1) * each]) for n, (record, _) in enumerate(entries)
    }


def digests_in_order(
    described: Iterable[tuple[str, tuple[FieldValue, ...]]], sources: Sequence[SourceLabel]
) -> list[bytes]:
    """Return the digests of advertisements: of each record, in turn, one for each source.

    No advertisement is made for that: of many records the same is said, and between it the record
    alone stands.
    """
    known: dict[tuple[FieldValue, ...], list[list[bytes]]] = {}
    texts: list[bytes] = []
    for record, fields in described:
        around = known.get(fields)
        if around is None:
            around = known[fields] = [_around(fields, source) for source in sources]
        name = record.encode()
        texts += [name.join(parts) for parts in around]
    return digests(texts)


def _around(fields: Sequence[FieldValue], source: SourceLabel) -> list[bytes]:
    """Return what stands around each mention of the record in what an advertisement's digest is of.

    It is that of ``Advertisement.canonical``, behind the domain.
    """
    label = f"',{quote(source)}"
    parts = [f"{_DOMAIN.decode()}Advertised('"]
    before = label
    for name, index, value in fields:
        parts.append(f"{before})\nAdvertisedField('")
        before = f"{label},{quote(name)},'{index}',{quote(value)}"
    return [part.encode() for part in (*parts, f"{before})\n")]


def advertise(
    record: str,
    source: SourceLabel,
    fields: Iterable[FieldValue],
    schema: frozenset[str] | None,
) -> Advertisement:
    """Return the advertisement of a record with the fields that were negotiated (None: all)."""
    chosen = [field for field in fields if schema is None or field[0] in schema]
    chosen.sort(key=advert_order)
    return Advertisement(record, source, tuple(chosen))


def advert_order(field: FieldValue) -> tuple[bytes, int, bytes]:
    """Return by what the fields of an advertisement are in order."""
    return field[0].encode(), field[1], field[2].encode()


def gather(facts: Iterable[Fact], source: SourceLabel) -> dict[str, Advertisement]:
    """Return advertisements by record; raise if facts claim another source or lack their record."""
    facts = list(facts)
    fields: dict[str, list[FieldValue]] = {}
    orphans: list[str] = []
    for fact in facts:
        if fact[0] == "Advertised":
            _check_source(fact[2], source)
            if not is_link_target(fact[1]):
                raise ProtocolError("an advertisement of no record", code=Code.INTERLACE_BLOCK)
            fields.setdefault(fact[1], [])
    for fact in facts:
        if fact[0] == "AdvertisedField":
            _, record, claimed, name, index, value = fact
            _check_source(claimed, source)
            number = decimal(index)
            if number is None:
                raise ProtocolError("a field index is no number", code=Code.INTERLACE_BLOCK)
            if record in fields:
                fields[record].append((name, number, value))
            else:
                orphans.append(record)
    if orphans:
        raise ProtocolError("fields of a record that is not advertised", code=Code.INTERLACE_BLOCK)
    return {record: advertise(record, source, found, None) for record, found in fields.items()}


def _check_source(claimed: str, source: SourceLabel) -> None:
    if claimed != source:
        raise ProtocolError(
            "an advertisement names a source other than the peer", code=Code.INTERLACE_SOURCE
        )
