"""Records in memory: for tests, for small sets, and as the plain reading of the contract."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from lace.datalog.ast import Predicate
from lace.datalog.source import Row
from lace.errors import Outcome, Status
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.record.facts import facts, fields
from lace.record.model import Record, Versioned
from lace.recordstore.base import (
    Closes,
    FieldsOf,
    LinkChange,
    LinkMemory,
    Listener,
    Listeners,
    StoredRecord,
    StoreRecordId,
    has_fields,
    in_batches,
    in_tip_order,
    refused_as_forgotten,
)
from lace.rules import LocalFacts
from lace.tai import Tai
from lace.urc import Coordinate, Prefix, raw_tip_key

_Records = dict[RecordHash, tuple[StoreRecordId, Record]]


class MemorySnapshot(Closes):
    """The facts of one moment; later changes of the store do not reach it.

    Records are shared with the store, which never takes any out of what it shared.
    """

    def __init__(
        self,
        records: _Records,
        order: list[StoredRecord],
        high_water: StoreRecordId,
        forgets: int,
        limits: Limits,
    ) -> None:
        self.high_water = high_water
        self.forgets = forgets
        self._records = records
        self._order = order
        self._limits = limits

    def record(self, hash: RecordHash) -> Record | None:
        id, record = self._records.get(hash, (None, None))
        return record if id is not None and id <= self.high_water else None

    def records(self, hashes: Sequence[str]) -> Iterator[Record]:
        return filter(None, (self.record(RecordHash(hash)) for hash in hashes))

    def after(
        self,
        id: StoreRecordId,
        at_hand: Mapping[str, Record],  # noqa: ARG002 (all are)
    ) -> Iterator[Record]:
        start = _position_after(self._order, id)
        return self.records([stored.hash for stored in self._order[start:]])

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        return (record for record in self._all() if has_fields(record, values))

    def _all(self) -> Iterator[Record]:
        return (record for id, record in list(self._records.values()) if id <= self.high_water)

    def present(self, hashes: Sequence[str]) -> set[str]:
        return {record.hash for record in self.records(hashes)}

    def fields(self, names: frozenset[str] | None, at_once: int) -> Iterator[list[FieldsOf]]:
        return in_batches(((r.hash, tuple(sorted(fields(r, names)))) for r in self._all()), at_once)

    def beside(
        self,
        hashes: Sequence[str],  # noqa: ARG002 (bytes in memory do not change)
        names: frozenset[str] | None,  # noqa: ARG002
    ) -> Iterator[FieldsOf]:
        return iter(())

    @cached_property
    def _facts(self) -> LocalFacts:
        source = LocalFacts(limits=self._limits)
        for record in self._all():
            for fact in facts(record):
                source.add_valid(fact)
        return source

    def predicates(self) -> Iterable[Predicate]:
        return self._facts.predicates()

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return self._facts.iterate(predicate)

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        return self._facts.query(predicate, *values)

    def count(self, predicate: Predicate, /) -> int:
        return self._facts.count(predicate)

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        return self._facts.select(predicate, bound)


class MemoryStore(Closes):
    """Keeps records in a dict, in the order they came."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._records: _Records = {}
        self._order: list[StoredRecord] = []
        self._links: dict[bytes, LinkMemory] = {}
        self._places: dict[tuple[str, str, str], dict[RecordHash, Versioned]] = {}
        self._last = StoreRecordId(0)
        self._forgets = 0
        self._forgotten: dict[int, list[RecordHash]] = {}
        self._kept_out: set[str] = set()
        self._listeners = Listeners()

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        outcomes: list[Outcome[Record]] = []
        fresh: list[StoredRecord] = []
        for record in list(records):  # all of them are there before the first one counts
            if record.hash in self._kept_out:
                outcomes.append(refused_as_forgotten())
                continue
            if record.hash in self._records:
                outcomes.append(Outcome(Status.DUPLICATE, record))
                continue
            self._last = StoreRecordId(self._last + 1)
            self._records[record.hash] = (self._last, record)
            if isinstance(record, Versioned):
                self._places.setdefault(_place(record), {})[record.hash] = record
            fresh.append(StoredRecord(self._last, record.hash))
            self._order.append(fresh[-1])
            outcomes.append(Outcome(Status.ACCEPTED, record))
        self._listeners.tell(fresh)
        return outcomes

    def load(self, hash: RecordHash) -> Record | None:
        found = self._records.get(hash)
        return found[1] if found else None

    def load_all(self, hashes: Sequence[RecordHash], most_bytes: int) -> list[Record | None]:
        records: list[Record | None] = []
        size = 0
        for record in map(self.load, hashes):
            records.append(record)
            size += 0 if record is None else len(record.raw)
            if size >= most_bytes:
                break
        return records

    def has(self, hash: RecordHash) -> bool:
        return hash in self._records

    def read(self, after: StoreRecordId, limit: int) -> list[StoredRecord]:
        start = _position_after(self._order, after)
        return self._order[start : start + limit]

    def high_water(self) -> StoreRecordId:
        return self._last

    def stored_under(self, ids: Sequence[int]) -> dict[int, RecordHash]:
        found: dict[int, RecordHash] = {}
        for id in ids:
            at = _position_after(self._order, id - 1)
            if at < len(self._order) and self._order[at].id == id:
                found[id] = self._order[at].hash
        return found

    def count(self) -> int:
        return len(self._records)

    def versions(self, place: Coordinate, limit: int) -> list[RecordHash]:
        here = self._places.get((place.group, place.app, place.name), {})
        return list(islice(in_tip_order(here.values(), place.selector), limit))

    def tips(self, place: Prefix | None) -> list[tuple[Tai, RecordHash]]:
        found = []
        for (group, app, name), versions in self._places.items():
            if versions and (place is None or place.matches(group, app, name)):
                newest = max(versions.values(), key=lambda one: raw_tip_key(one.tai, one.hash))
                found.append((newest.tai, newest.hash))
        return sorted(found)

    def snapshot(self) -> MemorySnapshot:
        return MemorySnapshot(self._records, self._order, self._last, self._forgets, self._limits)

    def forget(self, hashes: Iterable[RecordHash], *, for_good: bool = False) -> int:
        wanted = dict.fromkeys(hashes)
        if for_good:
            self._kept_out.update(wanted)
        gone = {hash: self._records[hash][1] for hash in wanted if hash in self._records}
        if gone:
            self._note_forgotten(list(gone))
            self._records = {h: held for h, held in self._records.items() if h not in gone}
            self._order = [stored for stored in self._order if stored.hash not in gone]
        for hash, record in gone.items():
            if isinstance(record, Versioned):
                self._places[_place(record)].pop(hash)
        return len(gone)

    def kept_out(self, hashes: Collection[str]) -> set[str]:
        return self._kept_out.intersection(hashes)

    def all_kept_out(self) -> list[RecordHash]:
        return sorted(map(RecordHash, self._kept_out))

    def remember(self, hashes: Iterable[RecordHash]) -> int:
        back = [hash for hash in dict.fromkeys(hashes) if hash in self._kept_out]
        if back:
            self._kept_out.difference_update(back)
            self._note_forgotten(back)
        return len(back)

    def _note_forgotten(self, hashes: list[RecordHash]) -> None:
        """Note which records are gone, so that exchanges can follow."""
        self._forgets += 1
        self._forgotten[self._forgets] = hashes
        while sum(map(len, self._forgotten.values())) > FIXED.forgotten:
            del self._forgotten[min(self._forgotten)]

    def forgets(self) -> int:
        return self._forgets

    def standing(self) -> tuple[StoreRecordId, int]:
        return self._last, self._forgets

    def forgotten(self, after: int) -> list[RecordHash] | None:
        times = range(after + 1, self._forgets + 1)
        if any(time not in self._forgotten for time in times):
            return None
        return [hash for time in times for hash in self._forgotten[time]]

    def forgotten_then(self, times: int) -> RecordHash | None:
        return min(self._forgotten.get(times, []), default=None)

    def link(self, key: bytes) -> LinkMemory | None:
        kept = self._links.pop(key, None)
        if kept is not None:
            self._links[key] = kept  # the one that was used last is last
        return kept

    def keep_link(self, key: bytes, change: LinkChange) -> bool:
        before = self._links.get(key)
        parts: dict[bytes, bytes] = {}
        if change.base is not None:
            if before is None or before.head != change.base:
                return False
            parts = {n: data for n, data in before.parts.items() if n not in change.gone}
        self._links.pop(key, None)
        self._links[key] = LinkMemory(change.head, parts | dict(change.put))
        size = sum(kept.size for kept in self._links.values())
        while len(self._links) > FIXED.links or size > FIXED.link_bytes:
            size -= self._links.pop(next(iter(self._links))).size
        return True

    def drop_link(self, key: bytes, head: bytes) -> None:
        kept = self._links.get(key)
        if kept is not None and kept.head == head:
            del self._links[key]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.add(listener)

    def close(self) -> None:
        self._listeners.clear()


def _position_after(order: list[StoredRecord], id: int) -> int:
    return bisect_right(order, id, key=lambda stored: stored.id)


def _place(record: Versioned) -> tuple[str, str, str]:
    return record.group, record.app, record.name
