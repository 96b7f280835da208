"""One evaluation for all exchanges that differ in nothing.

Peers that have proven nothing and bring the same rules are told the same of the records here, until
one of them advertises something. So one of them all, the *leader*, follows the store; what it finds
is told to each member of the crowd. Whoever advertises leaves the crowd, and goes on from what it
was told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final
from weakref import WeakValueDictionary

from lace.answering.following import Position
from lace.answering.looking import Moment
from lace.errors import StoreError
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.limits import FIXED
from lace.record.model import Record

_ENTRY_BYTES: Final = 200  # of one record and its digests

_NOTHING: Final = m.Evaluated(more=True)

Lead = Callable[[], tuple[list[m.Evaluated], Moment]]
"""Looks at the records as they are now; returns how decisions changed, and what was looked at."""
Describe = Callable[[Sequence[str]], Iterable[Advertisement]]
"""Makes the advertisements of those records that are here."""
Read = Callable[[Moment, Sequence[str]], Iterable[tuple[Record, Advertisement]]]
"""Reads those records that a moment has, and makes their advertisements."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a member was told in all, and on what that depends."""

    last: Turn
    sendable: set[str]
    requestable: set[str]
    position: Position
    """How far the leader has followed the store."""
    apart: bytes | None
    """What decisions depend on, if the leader decides on each record apart."""


class LeaderFailed(Exception):
    """The leader failed when somebody else asked: whoever meets this leaves the crowd."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Turn:
    """What changed at one time; whoever has seen it goes on with the next one.

    Nobody keeps a turn but those who have not seen the next one yet.
    """

    parts: list[m.Evaluated] = field(default_factory=list)
    next: Turn | None = None


@dataclass(frozen=True, slots=True)
class Newest:
    """All that was found so far."""

    turn: Turn
    position: Position
    """How far the store had come before it was looked at."""
    moment: Moment
    """The records that were looked at: what members describe is read from these."""
    records: Mapping[str, Record]
    """Those that members were told of last, if they are few: each member will be asked for them."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Crowd:
    """What its members were told, and the leader that looks after it."""

    lead: Lead
    position: Callable[[], Position]
    """How far the store has come."""
    look: Callable[[], Moment]
    """Looks at the records as they are now."""
    standing: Callable[[], tuple[Position, bytes | None]]
    """How far the leader has come, and what it decides by: see ``Told``."""
    memory_of_leader: Callable[[], int]
    read: Read
    """Reads a few records, before each member would."""
    is_looked_after: bool = True
    """Whether ``Crowds.advance`` looks at it; else its members have to leave."""
    sendable: dict[str, bytes] = field(default_factory=dict)
    requestable: set[str] = field(default_factory=set)
    last: Turn = field(default_factory=Turn)
    lock: Lock = field(default_factory=Lock)
    _known: Newest | None = None
    _has_failed: bool = False
    """Whether the leader has failed: nobody knows how far it had come, so it is not asked again."""
    _described: dict[str, Advertisement] = field(default_factory=dict)
    """Advertisements that were made before, for all who tell the same next."""
    _held_bytes: int = 0
    """Of the records that are at hand."""

    def advance(self) -> Newest:
        """Look at the records if anything was stored or forgotten.

        Returns what is known then; the caller holds its moment.
        """
        with self.lock:
            return self._held()

    def look_after(self) -> None:
        """Look at the records, too; a moment that has news waits for whoever is told of it."""
        with self.lock:
            before = self.last
            if self._advance().turn is before:
                self._rest()

    def rest(self) -> None:
        """Let a moment go that nobody has come for, unless somebody looks at records just now.

        Nobody waits for it: an event loop may call this.
        """
        if self.lock.acquire(blocking=False):
            try:
                self._rest()
            finally:
                self.lock.release()

    def newest(self) -> Newest | None:
        """Return what ``advance`` would, if nothing was stored or forgotten, without waiting.

        Else None, and also if the moment was let go.
        """
        known = self._known
        if known is None or known.position != self.position() or not known.moment.hold():
            return None
        return known

    def join(self, most: int) -> tuple[Newest, list[m.Evaluated]]:
        """Return what ``advance`` does, and all that a new member has to be told, in parts."""
        with self.lock:
            newest = self._held()
            parts = [m.Evaluated(requestable=frozenset(self.requestable), more=True)]
            records = list(self.sendable.items())
        parts += [
            m.Evaluated(sendable=dict(records[start : start + most]), more=True)
            for start in range(0, len(records), most)
        ]
        return newest, parts

    def describe(self, records: Sequence[str], make: Describe) -> dict[str, Advertisement]:
        """Return advertisements of those records that are here; ``make`` makes what is not known.

        They are kept until anything is stored or forgotten, if they are few.
        """
        with self.lock:
            found = {hash: self._described[hash] for hash in records if hash in self._described}
            left = [hash for hash in records if hash not in found]
            fresh = {advert.record: advert for advert in make(left)} if left else {}
            if len(self._described) + len(fresh) <= FIXED.shared_advertisements:
                self._described = self._described | fresh
        return found | fresh

    def described(self, records: Sequence[str]) -> list[Advertisement] | None:
        """Return advertisements if all of them are known, without waiting; else None."""
        known = self._described  # whoever makes others anew does not change it
        return None if any(hash not in known for hash in records) else [known[h] for h in records]

    def served(self, records: Sequence[str], most_bytes: int) -> list[Record] | None:
        """Return records if all of them are at hand and fit, and nothing was stored or forgotten.

        Else None; nobody waits for it.
        """
        known = self._known
        if known is None or any(hash not in known.records for hash in records):
            return None
        found = [known.records[hash] for hash in records]
        fit = sum(len(record.raw) for record in found) < most_bytes
        return found if fit and known.position == self.position() else None

    def told(self) -> Told:
        """Return all that was told up to the newest turn."""
        with self.lock:
            return Told(self.last, set(self.sendable), set(self.requestable), *self.standing())

    @property
    def memory(self) -> int:
        """About how many bytes it takes, for all members together."""
        return self.memory_of_leader() + _ENTRY_BYTES * len(self.sendable) + self._held_bytes

    def _held(self) -> Newest:
        """Return what is known by now, with its moment held; look at that again if it was let go.

        If the store has moved on meanwhile, everything is looked at anew.
        """
        while True:
            known = self._advance()
            if known.moment.hold():
                return known
            again = self.look()
            if again.at == known.moment.at and self.position() == again.at:
                self._known = replace(known, moment=again)
            else:
                again.give_up()
                self._known = None

    def _advance(self) -> Newest:
        now = self.position()
        if self._known is None or now != self._known.position:
            self._described = {}
            self._rest()
            found, moment = self._led()
            parts = [part for part in map(self._take, found) if part != _NOTHING]
            if parts:
                self.last.next = Turn(parts)
                self.last = self.last.next
            # What was stored meanwhile is seen the next time.
            self._known = Newest(self.last, now, moment, self._read(parts, moment))
        return self._known

    def _read(self, parts: list[m.Evaluated], moment: Moment) -> dict[str, Record]:
        """Read what is new if it is little, and describe it; return what may be kept of it."""
        new = [record for part in parts for record in part.sendable]
        kept: dict[str, Record] = {}
        described: dict[str, Advertisement] = {}
        self._held_bytes = 0
        if len(new) <= FIXED.shared_records:
            with suppress(StoreError):  # whoever looks at records hears of it
                for record, advert in self.read(moment, new):
                    described[record.hash] = advert
                    if self._held_bytes + len(record.raw) <= FIXED.shared_record_bytes:
                        kept[record.hash] = record
                        self._held_bytes += len(record.raw)
        self._described = described
        return kept

    def _led(self) -> tuple[list[m.Evaluated], Moment]:
        if self._has_failed:
            raise LeaderFailed
        try:
            return self.lead()
        except Exception:
            self._has_failed = True
            raise

    def _rest(self) -> None:
        if self._known is not None:
            self._known.moment.give_up()

    def _take(self, part: m.Evaluated) -> m.Evaluated:
        """Take note of a part; return what of it is new to members."""
        unsendable = frozenset(r for r in part.unsendable if r in self.sendable)
        unrequestable = part.unrequestable & self.requestable
        for record in unsendable:
            del self.sendable[record]
        self.sendable.update(part.sendable)
        self.requestable -= unrequestable
        self.requestable |= part.requestable
        return replace(part, unsendable=unsendable, unrequestable=unrequestable, more=True)


def between(turn: Turn, last: Turn) -> Iterator[Turn]:
    """Yield the turns after one, up to another one that comes later or is the same."""
    while turn is not last and turn.next is not None:
        turn = turn.next
        yield turn


class Crowds:
    """Crowds by everything that decides on what their members are told.

    A crowd lives as long as it has a member. A few more are kept for those who come next.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._live: WeakValueDictionary[bytes, Crowd] = WeakValueDictionary()
        self._kept: OrderedDict[bytes, Crowd] = OrderedDict()

    def __len__(self) -> int:
        return len(self._live)

    def of(self, key: bytes, make: Callable[[], Crowd]) -> Crowd:
        """Return the crowd of a key; those that nobody joined for longest are not kept.

        Others do not wait while one is made; of two that are made at once, one is used.
        """
        with self._lock:
            known = self._live.get(key)
            if known is not None:
                return self._keep(key, known)
        made = make()
        with self._lock:
            return self._keep(key, self._live.setdefault(key, made))

    def _keep(self, key: bytes, crowd: Crowd) -> Crowd:
        self._kept[key] = crowd
        self._kept.move_to_end(key)
        while len(self._kept) > FIXED.kept_crowds:
            self._kept.popitem(last=False)
        return crowd

    def drop(self, crowd: Crowd) -> None:
        """Forget a crowd whose leader failed: the next one begins another."""
        with self._lock:
            crowd.is_looked_after = False
            for key in [key for key, live in self._live.items() if live is crowd]:
                del self._live[key]
                self._kept.pop(key, None)

    def advance(self) -> None:
        """Let every crowd look at what was stored and forgotten, so that no member has to.

        One whose leader fails is dropped: its members leave it, look for themselves, and hear of
        it if it fails for them too.
        """
        for crowd in self._all():
            try:
                crowd.look_after()
            except Exception:  # noqa: BLE001 (whatever it is, each member meets it again)
                self.drop(crowd)

    def rest(self) -> None:
        """Let go of what was looked at, where nobody needs it: a store waits for that.

        Crowds that are looking at records are passed over: it is to be called again and again.
        """
        for crowd in self._all():
            crowd.rest()

    def clear(self) -> None:
        """Keep none that has no member."""
        with self._lock:
            self._kept.clear()

    @property
    def memory(self) -> int:
        """About how many bytes all of them take."""
        return sum(crowd.memory for crowd in self._all())

    def _all(self) -> list[Crowd]:
        with self._lock:
            return list(self._live.values())
