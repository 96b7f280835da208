"""Following a store: what came and what went since a moment that was looked at before.

All of it is of one later moment, that of a snapshot, whatever is stored and forgotten meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lace.datalog.source import Fact, MemorySource
from lace.record.model import Record
from lace.recordstore.base import RecordStore, Snapshot, StoreRecordId
from lace.vocabulary import HAVE, RECORD_FACTS

_DENSE: Final = 4  # the larger, the more records are a witness
_BEGINNING: Final = 14  # letters of a hash: its type, and 72 bits of the digest


@dataclass(frozen=True, slots=True)
class Position:
    """How far a store had come: the newest record, and how often anything was forgotten."""

    high_water: int
    forgets: int

    @classmethod
    def of(cls, store: RecordStore) -> Position:
        return cls(*store.standing())


@dataclass(frozen=True, slots=True)
class Witness:
    """What a store said of itself at a position, so that it can be known again.

    Two stores may have come equally far by other ways, as when one was restored to an earlier state
    and went on from there. They differ in what is told here.
    """

    records: tuple[str, ...] = ()
    """Beginnings of the names of some records, the newest first; empty where there was none."""
    forgotten: str = ""
    """The same of what was forgotten last."""

    @classmethod
    def of(cls, store: RecordStore, at: Position) -> Witness:
        """Return what a store says of a position that it had come to, as far as it still knows."""
        ids = [at.high_water - back for back in _steps_back(at.high_water)]
        found = store.stored_under(ids)
        records = tuple(_beginning(found.get(id)) for id in ids)
        return cls(records, _beginning(store.forgotten_then(at.forgets)))

    def is_borne_out(self, store: RecordStore, at: Position) -> bool:
        """Whether a store has come from this position, by all that it says now."""
        now = Position.of(store)
        if at.high_water > now.high_water or at.forgets > now.forgets:
            return False
        said = Witness.of(store, at)
        if said.forgotten not in {"", self.forgotten} or len(said.records) != len(self.records):
            return False
        differ = {pair for pair in zip(self.records, said.records, strict=True) if len({*pair}) > 1}
        if any(here for _, here in differ):
            return False
        lost = store.forgotten(at.forgets) if differ else ()
        # Where much was forgotten since, the store cannot say what. Then whatever is gone is right:
        # that much that is hidden was forgotten must not be seen by what is not believed any more.
        return lost is None or {then for then, _ in differ} <= set(map(_beginning, lost))


def _steps_back(most: int) -> Iterator[int]:
    """Yield how far before the newest record to look: at each of the last ones, then at fewer."""
    back = 0
    while back < most:
        yield back
        back += max(1, back // _DENSE)


def _beginning(record: str | None) -> str:
    return "" if record is None else record[:_BEGINNING]


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
