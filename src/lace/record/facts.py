"""The facts that a valid record gives rise to (spec 020, G11, G12).

Only a ``Record`` has facts, and only validation or building makes one: bytes that are not valid
cannot reach the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lace.ids import LinkTarget, is_link_target
from lace.record.model import Record, Seal, Versioned

Fact = tuple[str, ...]
"""Predicate, then its arguments."""

_LINK_ENDING: Final = "+Link"


@dataclass(frozen=True, slots=True)
class RecordLink:
    """One well-formed link header: ``<name>: <data> <target>``."""

    name: str
    index: int
    data: str
    target: LinkTarget


def fields(record: Record) -> list[tuple[str, int, str]]:
    """Return each field occurrence as name, 0-based index among its name, value."""
    found: list[tuple[str, int, str]] = [("Type", 0, record.type)]
    if isinstance(record, Seal):
        found += (("Signed-By", 0, record.signed_by), ("Signature", 0, record.signature))
    if isinstance(record, Versioned):
        found += (
            ("Group", 0, record.group),
            ("App", 0, record.app),
            ("Name", 0, record.name),
            ("TAI", 0, record.tai),
        )
        found += numbered(record.extras)
    found.append(("Data-Length", 0, str(record.data_length)))
    return found


def links(record: Record) -> Iterator[RecordLink]:
    """Yield the well-formed links; a header that only looks like one stays a plain field."""
    if not isinstance(record, Versioned) or not record.may_have_links:
        return
    for name, index, value in numbered(record.extras):
        if name.endswith(_LINK_ENDING):
            data, _, target = value.rpartition(" ")
            if data and is_link_target(target):
                yield RecordLink(name, index, data, LinkTarget(target))


def numbered(extras: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, int, str]]:
    """Yield extra headers with their index among those of one name."""
    previous, index = "", 0
    for name, value in extras:  # sorted, so that equal names are neighbours
        index = index + 1 if name == previous else 0
        previous = name
        yield name, index, value


def facts(record: Record) -> Iterator[Fact]:
    """Yield every base fact of one stored record; its embedded records get no ``Have`` (G13)."""
    yield "Have", record.hash
    for name, index, value in fields(record):
        yield "Field", record.hash, name, str(index), value
    for link in links(record):
        yield "RecordLink", record.hash, link.name, str(link.index), link.data, link.target
    if isinstance(record, Seal):
        yield "PlexHash", record.hash, record.plex_hash
    elif isinstance(record, Versioned):
        yield "BlobHash", record.hash, record.blob_hash
