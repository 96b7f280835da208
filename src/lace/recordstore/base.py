"""What a record store promises; one contract suite holds every implementation to it.

A store takes only ``Record`` values, and those exist only for valid bytes: nothing unvalidated can
get in. A record is there with all its facts or not at all. Reads are bounded; an evaluation reads
from a snapshot that does not change under it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import NewType, Protocol, Self

from lace.datalog.source import FactSource
from lace.errors import Code, Outcome, Status, StoreError
from lace.ids import RecordHash
from lace.record.facts import fields
from lace.record.model import Record, Seal, Versioned
from lace.tai import Tai
from lace.urc import Coordinate, Prefix, VersionSelector, raw_tip_key

StoreRecordId = NewType("StoreRecordId", int)
"""Local, increasing, never used again: the order in which records were stored (G18)."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record's place in the order of one store."""

    id: StoreRecordId
    hash: RecordHash


Listener = Callable[[list[StoredRecord]], None]


class Listeners:
    """Those who are told of what is stored; each ends for itself, once or more often."""

    def __init__(self) -> None:
        self._listeners: dict[object, Listener] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        place = object()  # one listener may be added twice
        self._listeners[place] = listener

        def end() -> None:
            self._listeners.pop(place, None)

        return end

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def tell(self, stored: list[StoredRecord]) -> None:
        for listener in list(self._listeners.values()) if stored else ():
            listener(stored)

    def clear(self) -> None:
        self._listeners.clear()


class Parts(Mapping[bytes, bytes]):
    """Parts by name, read when they are looked at."""

    @abstractmethod
    def some(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return those of some names, read together."""

    @abstractmethod
    def beginning(self, with_: bytes) -> dict[bytes, bytes]:
        """Return those whose names begin alike, without a look at the others."""


@dataclass(slots=True)
class LinkMemory:
    """What is kept for a link: a head, and parts by name. What they mean is the writer's matter.

    Parts are read when they are looked at, all of them of the moment at which this was asked for.
    Whoever goes on looking for long should ``hold`` it; whoever is done should ``close`` it.
    """

    head: bytes
    parts: Mapping[bytes, bytes]
    damaged: bool = False
    """Whether a reader could make nothing of it, or could not read it."""
    lasts: bool = field(default=False, compare=False)
    """Whether it stays where it is also if it is damaged: the file is only read."""
    _release: Callable[[], None] = field(default=lambda: None, compare=False)

    def part(self, name: bytes) -> bytes | None:
        """Return a part, or None if there is none of this name."""
        with self._reading():
            return self.parts.get(name)

    def some(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return those parts of some names that there are, read together."""
        parts = self.parts
        with self._reading():
            if isinstance(parts, Parts):
                return parts.some(names)
            return {name: parts[name] for name in names if name in parts}

    def beginning(self, with_: bytes) -> dict[bytes, bytes]:
        """Return the parts whose names begin alike."""
        parts = self.parts
        with self._reading():
            if isinstance(parts, Parts):
                return parts.beginning(with_)
            return {name: data for name, data in parts.items() if name.startswith(with_)}

    def hold(self) -> None:
        """Read all of it, and let go of the store."""
        if not isinstance(self.parts, dict):
            with self._reading():
                self.parts = dict(self.parts.items())  # at one go
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Note what cannot be read as damaged."""
        try:
            yield
        except StoreError:
            self.damaged = True
            raise

    def close(self) -> None:
        """Let go of the store; what was not read by then cannot be read any more."""
        self._release()
        self._release = _nothing

    @property
    def size(self) -> int:
        """About how much room it takes."""
        return len(self.head) + sum(len(name) + len(data) for name, data in self.parts.items())


def _nothing() -> None:
    """Release nothing."""


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A new head for a link, and the parts that change with it."""

    head: bytes
    put: Mapping[bytes, bytes]
    """A part may be made each time when it is read, so that all of them are never held at once."""
    gone: frozenset[bytes] = frozenset()
    base: bytes | None = None
    """The head that the change begins from; None to begin from nothing."""


FieldsOf = tuple[str, tuple[tuple[str, int, str], ...]]
"""The hash of a record; then of each field the name, the index among its name, and the value."""


class Closes:
    """Something that is closed at the end of a with block."""

    def close(self) -> None:
        """Release what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Snapshot(FactSource, AbstractContextManager["Snapshot"], Protocol):
    """The record facts of one moment; close it when the evaluation is done."""

    @property
    def high_water(self) -> StoreRecordId:
        """The id of the newest record when the snapshot was taken; 0 if there was none."""

    @property
    def forgets(self) -> int:
        """How often anything had been forgotten when the snapshot was taken."""

    def record(self, hash: RecordHash) -> Record | None:
        """Return a record that was there, or None."""

    def records(self, hashes: Sequence[str]) -> Iterator[Record]:
        """Yield those of some records that were there, in any order."""

    def after(self, id: StoreRecordId, at_hand: Mapping[str, Record]) -> Iterator[Record]:
        """Yield the records that were stored after an id, in the order they came.

        Those at hand need not be read; what is not of this moment is passed over.
        """

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        """Yield the records that have a field of each of these names with this value."""

    def present(self, hashes: Sequence[str]) -> set[str]:
        """Return those of some records that were there, by name."""

    def fields(self, names: frozenset[str] | None, at_once: int) -> Iterator[list[FieldsOf]]:
        """Yield all records with their fields of these names (None: all), so many at once.

        Fields come by name and index. In which order two records come does not depend on others.
        """

    def beside(self, hashes: Sequence[str], names: frozenset[str] | None) -> Iterator[FieldsOf]:
        """Yield those of some records that were there, but whose bytes have changed since.

        They come with their fields of these names (None: all), by what is kept beside the bytes;
        those that are kept nowhere else, as the bytes are now. So what was said of such a record
        can be said once more.
        """

    def close(self) -> None:
        """Let go of the moment."""


class RecordStore(Protocol):
    """Validated records, in the order they came, found by hash and by place."""

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        """Store records, all of them or none; say of each whether it was new or a duplicate.

        What was forgotten for good is refused, and does not stand in the way of the others.
        """

    def load(self, hash: RecordHash) -> Record | None:
        """Return a record, or None."""

    def load_all(self, hashes: Sequence[RecordHash], most_bytes: int) -> list[Record | None]:
        """Return records in this order, None for one that is not here.

        Those at the end are left out as soon as the ones before have so many bytes.
        """

    def has(self, hash: RecordHash) -> bool:
        """Whether a record is here."""

    def read(self, after: StoreRecordId, limit: int) -> list[StoredRecord]:
        """Return at most ``limit`` records stored after an id, in order."""

    def high_water(self) -> StoreRecordId:
        """Return the id of the newest record; 0 if there never was one."""

    def stored_under(self, ids: Sequence[int]) -> dict[int, RecordHash]:
        """Return the records that have some ids, by id; those that no record has are left out."""

    def count(self) -> int:
        """Return how many records are here."""

    def versions(self, place: Coordinate, limit: int) -> list[RecordHash]:
        """Return records at a coordinate, the raw tip first, at most ``limit``."""

    def tips(self, place: Prefix | None) -> list[tuple[Tai, RecordHash]]:
        """Return the raw tip of each place under a prefix, or of all places, the oldest first."""

    def snapshot(self) -> Snapshot:
        """Return the facts as they are now."""

    def forget(self, hashes: Iterable[RecordHash], *, for_good: bool = False) -> int:
        """Remove records from this store, and from nowhere else; return how many were there.

        ``for_good`` keeps their hashes, also of those that are not here: they are not stored again.
        """

    def kept_out(self, hashes: Collection[str]) -> set[str]:
        """Return those of some hashes that are not to be had: they were forgotten for good.

        Where nothing can be stored, also those of records whose bytes have changed.
        """

    def all_kept_out(self) -> list[RecordHash]:
        """Return the hashes of everything that was forgotten for good, sorted."""

    def remember(self, hashes: Iterable[RecordHash]) -> int:
        """Let records come back that were forgotten for good; return how many were.

        Exchanges hear of it as if they were forgotten now, so that they look at them again.
        """

    def forgets(self) -> int:
        """Return how often anything was forgotten; a new number means that records are gone."""

    def standing(self) -> tuple[StoreRecordId, int]:
        """Return ``high_water`` and ``forgets``, both of one moment: exchanges ask for it often."""

    def forgotten(self, after: int) -> list[RecordHash] | None:
        """Return what was forgotten since ``forgets`` was this; None if that is too long ago."""

    def forgotten_then(self, times: int) -> RecordHash | None:
        """Return the first, by name, of what was forgotten when ``forgets`` became this.

        None if nothing was, or if that is too long ago.
        """

    def link(self, key: bytes) -> LinkMemory | None:
        """Return what is kept for a link, as one value; None if nothing is.

        It is kept while there is room for it: links that were not used for longest are forgotten.
        """

    def keep_link(self, key: bytes, change: LinkChange) -> bool:
        """Change what is kept for a link, all of it at once; return whether that was done.

        A change that begins from something else than what is kept now is not made.
        """

    def drop_link(self, key: bytes, head: bytes) -> None:
        """Keep nothing for a link any more, if it is still what has this head.

        This store does not return it again, also where it cannot be removed.
        """

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of what is stored from now on; return a function that ends it.

        Ending it twice, or after the store was closed, does nothing.
        """

    def close(self) -> None:
        """Release everything; a closed store cannot be used again."""


def refused_as_forgotten() -> Outcome[Record]:
    """Return what becomes of a record that was forgotten for good."""
    code = Code.STORE_FORGOTTEN
    return Outcome(Status.REFUSED, None, code, code.meaning)


def in_batches(entries: Iterable[FieldsOf], at_once: int) -> Iterator[list[FieldsOf]]:
    """Yield entries, so many at once."""
    left = iter(entries)
    while batch := list(islice(left, at_once)):
        yield batch


def has_fields(record: Record, values: Mapping[str, str]) -> bool:
    """Whether a record has a field of each of these names with this value."""
    return values.items() <= {(name, value) for name, _, value in fields(record, values)}


def in_tip_order(
    records: Iterable[Versioned], selector: VersionSelector | None
) -> Iterator[RecordHash]:
    """Yield the versions that a selector names, the raw tip first (A39)."""
    chosen = [
        record
        for record in records
        if selector is None
        or selector.selects(
            hash=record.hash,
            tai=record.tai,
            signed_by=record.signed_by if isinstance(record, Seal) else None,
        )
    ]
    chosen.sort(key=lambda record: raw_tip_key(record.tai, record.hash), reverse=True)
    return (record.hash for record in chosen)
