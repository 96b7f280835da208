"""The facts that a valid record gives rise to (spec 020, G11, G12).

Only a ``Record`` has facts, and only validation or building makes one: bytes that are not valid
cannot reach the rules.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import AnyStr, Final

from lace.ids import LinkTarget, is_link_target
from lace.record.model import Record, Seal, Versioned

Fact = tuple[str, ...]
"""Predicate, then its arguments."""

LINK_ENDING: Final = "+Link"


@dataclass(frozen=True, slots=True)
class RecordLink:
    """One well-formed link header: ``<name>: <data> <target>``."""

    name: str
    index: int
    data: str
    target: LinkTarget


def fields(record: Record, names: Container[str] | None = None) -> list[tuple[str, int, str]]:
    """Return field occurrences as name, 0-based index among its name, value; None means all."""
    found: list[tuple[str, int, str]] = []
    if names is None or "Type" in names:
        found.append(("Type", 0, record.type))
    if isinstance(record, Seal):
        if names is None or "Signed-By" in names:
            found.append(("Signed-By", 0, record.signed_by))
        if names is None or "Signature" in names:
            found.append(("Signature", 0, record.signature))
    if isinstance(record, Versioned):
        if names is None or "Group" in names:
            found.append(("Group", 0, record.group))
        if names is None or "App" in names:
            found.append(("App", 0, record.app))
        if names is None or "Name" in names:
            found.append(("Name", 0, record.name))
        if names is None or "TAI" in names:
            found.append(("TAI", 0, record.tai))
        if record.has_extras:
            extras = numbered(record.extras)
            found += extras if names is None else (x for x in extras if x[0] in names)
    if names is None or "Data-Length" in names:
        found.append(("Data-Length", 0, str(record.data_length)))
    return found


def links(record: Record) -> Iterator[RecordLink]:
    """Yield the well-formed links; a header that only looks like one stays a plain field."""
    if not isinstance(record, Versioned) or not record.may_have_links:
        return
    for name, index, value in numbered(record.extras):
        if name.endswith(LINK_ENDING):
            link = link_of(name, index, value)
            if link is not None:
                yield link


def link_of(name: str, index: int, value: str) -> RecordLink | None:
    """Return the link that a header is, or None if it is a plain field."""
    found = data_and_target(name, value)
    return None if found is None else RecordLink(name, index, *found)


def data_and_target(name: str, value: str) -> tuple[str, LinkTarget] | None:
    """Return what a link says and where it goes; None if a header is a plain field."""
    if not name.endswith(LINK_ENDING):
        return None
    data, _, target = value.rpartition(" ")
    return (data, LinkTarget(target)) if data and is_link_target(target) else None


def numbered(extras: Iterable[tuple[AnyStr, AnyStr]]) -> Iterator[tuple[AnyStr, int, AnyStr]]:
    """Yield extra headers with their index among those of one name."""
    previous, index = None, 0
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
