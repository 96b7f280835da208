"""One exchange as a member of a crowd: it is told what the leader found since it asked last.

What it is told, and what it then describes, is of one moment: that of the turn it was told of.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import ref

from lace.answering.crowd import Crowd, Crowds, LeaderFailed, Newest, Turn, between
from lace.answering.crowd import Told as Told  # noqa: PLC0414 (what a member takes along)
from lace.answering.looking import Looking
from lace.errors import StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.partition import Partitions
from lace.policy.origin import SourceLabel
from lace.record.model import Record

_FEW: Final = 100  # records of which something may be said while others wait


@dataclass(frozen=True, slots=True)
class Heard:
    """How far a member has heard its crowd; it keeps neither the crowd nor what comes after."""

    turn: ref[Turn]
    forgets: int | None
    """How often anything was forgotten by then."""
    own: Partitions | None
    """What it advertised when it asked last."""


@dataclass(slots=True)
class Membership:
    """What one exchange has heard of its crowd, if it is in one."""

    looking: Looking
    crowds: Crowds | None
    """Where crowds are found; None for an exchange that is always alone."""
    crowd: Crowd | None = None
    key: bytes = b""
    """What decided on the crowd."""
    _turn: Turn = field(default_factory=Turn)
    """The last one that was told."""

    @property
    def is_up_to_date(self) -> bool:
        """Whether the crowd has nothing to tell that was not told; False for one who is alone."""
        return self.is_looked_after and self._turn.next is None

    @property
    def is_looked_after(self) -> bool:
        """Whether there is a crowd whose leader has not failed."""
        return self.crowd is not None and self.crowd.is_looked_after

    def share(
        self, key: bytes, make: Callable[[], Crowd], forgets: int | None
    ) -> Generator[m.Evaluated, None, tuple[int, frozenset[str]] | None]:
        """Tell what the crowd was told since the last time, or all of it.

        ``forgets`` is how often anything was forgotten by the last time. Returned is the same for
        this time, and what was forgotten in between and is not here again. It is None if the leader
        failed when somebody else asked: then nothing was told.
        """
        assert self.crowds is not None
        self.looking.let_go()
        crowd = self.crowd or self.crowds.of(key, make)
        missed: frozenset[str] = frozenset()
        try:
            if self.crowd is None:
                newest, parts = crowd.join(self.looking.parameters.answer_at_once)
                self.looking.share(newest.moment)
                self._turn, self.crowd, self.key = newest.turn, crowd, key
                yield from parts
            else:
                newest = crowd.advance()
                self.looking.share(newest.moment)
                missed = yield from self._catch_up(newest.turn)
        except LeaderFailed:
            self.crowds.drop(crowd)
            return None
        except Exception:
            self.crowds.drop(crowd)
            raise
        at = newest.position.forgets
        return at, frozenset() if at == forgets else self._lost(missed, forgets)

    def news(self, forgets: int | None) -> list[m.Evaluated] | None:
        """Return what ``share`` would tell, if it is little and there without a look at records."""
        newest = self._newest()
        if newest is None:
            return None
        parts = [part for turn in between(self._turn, newest.turn) for part in turn.parts]
        if (
            newest.position.forgets != forgets
            or any(part.requestable for part in parts)
            or sum(map(_size, parts)) > _FEW
        ):
            newest.moment.release()
            return None
        self.looking.share(newest.moment)
        return [*self._catch_up(newest.turn), m.Evaluated()]

    def heard(self, forgets: int | None, own: Partitions | None) -> Heard:
        """Return how far this has heard its crowd."""
        return Heard(ref(self._turn), forgets, own)

    def take_heard(self, heard: Heard) -> bool:
        """Take for heard what another member has heard since both had heard as much.

        Returns False, and takes nothing, if there is more to hear by now, or if it would have to be
        waited for.
        """
        newest, turn = self._newest(), heard.turn()
        if newest is None:
            return False
        if newest.turn is not turn or not self.is_looked_after:
            newest.moment.release()
            return False
        self.looking.share(newest.moment)
        self._turn = newest.turn
        return True

    def leave(self) -> Generator[m.Evaluated, None, Told]:
        """Go on alone; return all that was told."""
        assert self.crowd is not None
        told = self.crowd.told()
        yield from self._catch_up(told.last)
        self.looking.let_go()
        self.crowd = None
        return told

    def describe(self, records: Sequence[str], source: SourceLabel) -> dict[str, Advertisement]:
        """Return advertisements, as all members make them."""
        assert self.crowd is not None
        return self.crowd.describe(records, lambda some: self.looking.describe(some, source))

    def described(self, records: Sequence[str]) -> list[Advertisement] | None:
        """Return advertisements if they are few and there without a look at records; else None."""
        known = self.crowd is not None and len(records) <= _FEW
        return self.crowd.described(records) if self.crowd is not None and known else None

    def served(self, records: Sequence[str], most_bytes: int) -> list[Record] | None:
        """Return records if they are there without a look at the store; else None."""
        try:
            return None if self.crowd is None else self.crowd.served(records, most_bytes)
        except StoreError:
            return None

    def _newest(self) -> Newest | None:
        try:
            return None if self.crowd is None else self.crowd.newest()
        except StoreError:
            return None  # whoever looks at records hears of it

    def _catch_up(self, last: Turn) -> Generator[m.Evaluated, None, frozenset[str]]:
        """Tell what is new up to a turn; return what was forgotten."""
        forgotten: set[str] = set()
        for turn in between(self._turn, last):
            self._turn = turn
            for part in turn.parts:
                forgotten |= part.forgotten
                yield replace(part, forgotten=frozenset())
        return frozenset(forgotten)

    def _lost(self, missed: frozenset[str], forgets: int | None) -> frozenset[str]:
        """Return what was forgotten since the last time and is not here again.

        The store says it, or else the crowd, if that is too long ago.
        """
        assert forgets is not None
        lost = self.looking.store.forgotten(forgets)
        gone = missed if lost is None else lost
        return frozenset(hash for hash in gone if not self.looking.store.has(RecordHash(hash)))


def _size(part: m.Evaluated) -> int:
    """Return of how many records something is said."""
    return len(part.sendable) + len(part.unsendable) + len(part.unrequestable)
