"""Looking at a store: everything is read as it was at one moment, until somebody looks again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from threading import Lock
from typing import Final

from lace.answering.following import Position, came_since, look
from lace.errors import Outcome
from lace.interlace.advertise import Advertisement, FieldValue
from lace.interlace.parameters import Parameters
from lace.policy.origin import SourceLabel
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.base import FieldsOf, RecordStore, Snapshot

_RECORD_BYTES: Final = 1000  # of one that is taken apart, beside its bytes
_NOTE_BYTES: Final = 400  # of what is advertised of a record
_LOOKING_FOR: Final = 4  # times as much as to come across one


class Moment:
    """The records of one moment, for all who hold them: the last who lets go ends it.

    Until the first one holds it, it waits; ``give_up`` ends the wait.
    """

    def __init__(self, snapshot: Snapshot, at: Position) -> None:
        self.snapshot = snapshot
        self.at = at
        """How far the store had come."""
        self._lock = Lock()
        self._holders = 0
        self._waits = True
        self._is_over = False

    def hold(self) -> bool:
        """Hold it until ``release``; return whether that was possible."""
        with self._lock:
            if self._is_over:
                return False
            self._holders += 1
            self._waits = False
            return True

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            self._end_if_unused()

    def give_up(self) -> None:
        """Wait for nobody any more."""
        with self._lock:
            self._waits = False
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        if not self._is_over and not self._waits and self._holders <= 0:
            self._is_over = True
            self.snapshot.close()

    def __del__(self) -> None:
        self.give_up()


@dataclass(slots=True)
class Looking:
    """A store as it was when one side last looked, with what it has just stored at hand."""

    store: RecordStore
    parameters: Parameters
    schema: frozenset[str] | None = None
    """Fields that advertisements have; None for all."""
    fresh_bytes: int = 0
    """About how many bytes are at hand."""
    _fresh: dict[str, Record] = field(default_factory=dict)
    _noted: dict[str, tuple[FieldValue, ...]] = field(default_factory=dict)
    """What is advertised of records of the moment, as it was found when they were decided on."""
    _notes: bool = True
    """Whether there is room for that."""
    _snapshot: Snapshot | None = None
    _shared: Moment | None = None
    """The moment that the snapshot is of, if others look at it too."""
    at: Position = field(default_factory=lambda: Position(0, 0))
    """How far the store had come by the last look."""

    def begin(self, schema: frozenset[str] | None) -> None:
        """Have these fields in advertisements from now on."""
        self.schema = schema
        self._forget_notes()

    def look(self) -> Position:
        """Look at the store as it is now; return how far it has come."""
        now = Position.of(self.store)
        if self._snapshot is None or self.at != now:
            self.let_go()
            self._snapshot, self.at = look(self.store)
        return self.at

    @property
    def snapshot(self) -> Snapshot:
        """The records of the moment that was looked at; of this one, if it was let go."""
        if self._snapshot is None:
            self._snapshot = self.store.snapshot()
        return self._snapshot

    def let_go(self) -> None:
        """Let go of the moment that was looked at last: what it holds, others may wait for."""
        if self._shared is not None:
            self._shared.release()
        elif self._snapshot is not None:
            self._snapshot.close()
        self._snapshot = self._shared = None
        self._forget_notes()

    def share(self, moment: Moment) -> None:
        """Look at a moment that is held already, together with others."""
        self.let_go()
        self._snapshot, self._shared, self.at = moment.snapshot, moment, moment.at

    def hand_over(self) -> Moment:
        """Return what was looked at last, for others; this one lets go of it."""
        moment = Moment(self.snapshot, self.at)
        self._snapshot = None
        self._forget_notes()
        return moment

    # --- what is new ---

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Store records; keep them at hand until they were evaluated, as far as there is room."""
        self.let_go()  # or else the log of the store could only grow for as long as this goes on
        outcomes = self.store.save(records)
        for record, outcome in zip(records, outcomes, strict=True):
            if outcome.ok and self.fresh_bytes < self.parameters.hold_fresh_bytes:
                self._fresh[record.hash] = record
                self.fresh_bytes += len(record.raw) + _RECORD_BYTES
        return outcomes

    def put_away(self) -> None:
        """Keep nothing at hand any more."""
        self._fresh, self.fresh_bytes = {}, 0

    def came_since(self, before: Position) -> Iterator[Record]:
        """Yield the records that were stored after a position, and maybe some others."""
        return came_since(before, self.store, self.snapshot, self._fresh)

    # --- what is said of records ---

    def describe(self, hashes: Sequence[str], source: SourceLabel) -> Iterator[Advertisement]:
        """Yield the advertisements of those records that are here, in any order."""
        for record, found in self._fields_of(hashes):
            yield Advertisement(record, source, found)

    def advertisement(self, record: Record, source: SourceLabel) -> Advertisement:
        """Return the advertisement of a record."""
        return Advertisement(record.hash, source, tuple(sorted(fields(record, self.schema))))

    def in_parts(self, records: AbstractSet[str]) -> Iterator[Iterable[FieldsOf]]:
        """Yield records with what is advertised of them, in parts of a bounded size."""
        most = self.parameters.answer_at_once
        if self._are_many(records):
            for batch in self.snapshot.fields(self.schema, most):
                yield [entry for entry in batch if entry[0] in records]
            return
        for start in range(0, len(hashes := sorted(records)), most):
            yield self._fields_of(hashes[start : start + most])

    def _are_many(self, records: AbstractSet[str]) -> bool:
        """Whether it costs less to go through all records than to look for these."""
        many = self.parameters.scan_from
        return len(records) >= many and len(records) * _LOOKING_FOR >= self.store.count()

    def note(self, described: Sequence[FieldsOf]) -> None:
        """Note what is advertised of records of the moment: all of it, or nothing if it is much."""
        self._notes &= len(self._noted) + len(described) <= self.parameters.note_up_to
        if self._notes:
            self._noted.update(described)
        else:
            self._noted = {}

    def _forget_notes(self) -> None:
        self._noted, self._notes = {}, True

    @property
    def memory(self) -> int:
        """About how many bytes are at hand."""
        return self.fresh_bytes + len(self._noted) * _NOTE_BYTES

    def _fields_of(self, hashes: Sequence[str]) -> Iterator[FieldsOf]:
        """Yield those records that are here with what is advertised of them, in any order."""
        noted = self._noted
        yield from ((hash, noted[hash]) for hash in hashes if hash in noted)
        left = [hash for hash in hashes if hash not in noted]
        at_hand = filter(None, map(self._fresh.get, left))
        others = [hash for hash in left if hash not in self._fresh]
        missing = set(others)
        for record in chain(at_hand, self.snapshot.records(others)):
            missing.discard(record.hash)
            yield record.hash, tuple(sorted(fields(record, self.schema)))
        # They may have been told of already. Whoever asks for them hears that they are gone.
        yield from self.snapshot.beside(sorted(missing), self.schema)
