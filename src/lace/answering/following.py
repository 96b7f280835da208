"""Following a store: what came and what went since a moment that was looked at before.

All of it is of one later moment, that of a snapshot, whatever is stored and forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lace.datalog.source import Fact, MemorySource
from lace.record.model import Record
from lace.recordstore.base import RecordStore, Snapshot, StoreRecordId
from lace.vocabulary import HAVE, RECORD_FACTS


@dataclass(frozen=True, slots=True)
class Position:
    """How far a store had come: the newest record, and how often anything was forgotten."""

    high_water: int
    forgets: int

    @classmethod
    def of(cls, store: RecordStore) -> Position:
        return cls(*store.standing())


def look(store: RecordStore) -> tuple[Snapshot, Position]:
    """Return the records of this moment, and how far the store has come."""
    snapshot = store.snapshot()
    return snapshot, Position(snapshot.high_water, snapshot.forgets)


def came_since(
    before: Position, store: RecordStore, snapshot: Snapshot, at_hand: Mapping[str, Record]
) -> Iterator[Record]:
    """Yield the records of a snapshot that were stored after a position, and maybe some others."""
    yield from snapshot.after(StoreRecordId(before.high_water), at_hand)
    # Those that went after the snapshot was taken are still of its moment.
    yield from snapshot.records(store.forgotten(before.forgets) or ())


def lost_since(
    before: Position, store: RecordStore, snapshot: Snapshot, source: MemorySource
) -> set[str]:
    """Return the records that a source has of a position, and that a snapshot does not have."""
    lost = store.forgotten(before.forgets)
    if lost is None:  # too long ago
        doubtful = [row[0] for row in source.iterate(HAVE)]
    else:
        doubtful = [hash for hash in set(lost) if source.has(("Have", hash))]
    return set(doubtful) - {record.hash for record in snapshot.records(doubtful)}


def facts_of(records: Iterable[str], source: MemorySource) -> Iterator[Fact]:
    """Yield the record facts that a source has of records."""
    for record in records:
        for predicate in RECORD_FACTS:
            for row in source.query(predicate, record):
                yield predicate.name, *row
