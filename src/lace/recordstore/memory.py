"""Records in memory: for tests, for small sets, and as the plain reading of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from lace.datalog.source import MemorySource
from lace.errors import Outcome, Status
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record.facts import facts
from lace.record.model import Record, Versioned
from lace.recordstore.base import Closes, StoredRecord, StoreRecordId, in_tip_order
from lace.urc import Coordinate


class MemorySnapshot(MemorySource, Closes):
    """The facts of one moment; later changes of the store do not reach it."""

    def __init__(
        self, records: Iterable[Record], high_water: StoreRecordId, limits: Limits
    ) -> None:
        super().__init__(limits=limits)
        self.high_water = high_water
        for record in records:
            for fact in facts(record):
                self.add_valid(fact)


class MemoryStore(Closes):
    """Keeps records in a dict, in the order they came."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._records: dict[RecordHash, tuple[StoreRecordId, Record]] = {}
        self._places: dict[tuple[str, str, str], dict[RecordHash, Versioned]] = {}
        self._last = StoreRecordId(0)
        self._listeners: list[Callable[[list[StoredRecord]], None]] = []

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        outcomes: list[Outcome[Record]] = []
        fresh: list[StoredRecord] = []
        for record in list(records):  # all of them are there before the first one counts
            if record.hash in self._records:
                outcomes.append(Outcome(Status.DUPLICATE, record))
                continue
            self._last = StoreRecordId(self._last + 1)
            self._records[record.hash] = (self._last, record)
            if isinstance(record, Versioned):
                self._places.setdefault(_place(record), {})[record.hash] = record
            fresh.append(StoredRecord(self._last, record.hash))
            outcomes.append(Outcome(Status.ACCEPTED, record))
        if fresh:
            for listener in list(self._listeners):
                listener(fresh)
        return outcomes

    def load(self, hash: RecordHash) -> Record | None:
        found = self._records.get(hash)
        return found[1] if found else None

    def has(self, hash: RecordHash) -> bool:
        return hash in self._records

    def read(self, after: StoreRecordId, limit: int) -> list[StoredRecord]:
        later = (StoredRecord(id, h) for h, (id, _) in self._records.items() if id > after)
        return list(islice(later, limit))

    def high_water(self) -> StoreRecordId:
        return self._last

    def count(self) -> int:
        return len(self._records)

    def versions(self, place: Coordinate, limit: int) -> list[RecordHash]:
        here = self._places.get((place.group, place.app, place.name), {})
        return list(islice(in_tip_order(here.values(), place.selector), limit))

    def snapshot(self) -> MemorySnapshot:
        records = [record for _, record in self._records.values()]
        return MemorySnapshot(records, self._last, self._limits)

    def forget(self, hashes: Iterable[RecordHash]) -> int:
        gone = 0
        for hash in hashes:
            found = self._records.pop(hash, None)
            if found is not None:
                gone += 1
                if isinstance(found[1], Versioned):
                    self._places[_place(found[1])].pop(hash)
        return gone

    def subscribe(self, listener: Callable[[list[StoredRecord]], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def close(self) -> None:
        self._listeners.clear()


def _place(record: Versioned) -> tuple[str, str, str]:
    return record.group, record.app, record.name
