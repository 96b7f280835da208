"""Connections of tests: with a store that can be looked at, given any input, two of them joined."""

from __future__ import annotations

from lace.answering.store import StoreAnswers
from lace.answering.warm import WarmLinks
from lace.driving import pair
from lace.driving.connection import Connection
from lace.driving.journal import Journal
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.view import Exposure
from lace.recordstore.base import RecordStore
from lace.tai import Tai

INCOMING = (
    m.PeerModule, m.PeerFacts, m.PeerTuples, m.PeerRecord, m.PeerValidated, m.PeerPhaseEnd,
)  # fmt: skip


class Participant(Connection):
    """One side within this process, and what its application was told."""

    def __init__(
        self,
        store: RecordStore,
        side: Side,
        exposure: Exposure | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        journal: Journal | None = None,
        warm: WarmLinks | None = None,
        whole: bool = True,
    ) -> None:
        """``whole`` holds a policy to look at, also where none is needed."""
        self.store = store
        self.local = StoreAnswers.of(store, side, exposure or Exposure(), limits, warm)
        self.local.whole = whole
        self.told: list[m.Event] = []
        super().__init__(side, lambda _side: self.local, journal=journal)

    def take(self, given: m.Input, now: Tai) -> None:
        """Take an input by whichever entrance it has."""
        if isinstance(given, INCOMING):
            self.receive(given, now)
        elif isinstance(given, m.Started):
            self._give(given, now)
        elif isinstance(given, m.TimerFired):
            assert self.timer is not None
            self.receive_timer(self.timer, now)
        elif isinstance(given, m.PeerGone):
            self.lose(now, orderly=given.orderly)
        elif isinstance(given, m.StreamFailed):
            self.receive_failure(given, now)
        elif isinstance(given, m.PeerProven):
            self._give(given, now)
        else:
            assert isinstance(given, m.Woken | m.OperandChanged | m.CloseRequested)
            self.tell(given, now)

    def _close_call(self) -> None:
        super()._close_call()
        self.told += self.events()

    def give(self, given: m.Input, now: Tai) -> list[m.Incoming]:
        """Take an input; return what the peer hears of it."""
        self.take(given, now)
        return list(map(pair.as_text, self.sent()))

    def give_directly(self, given: m.Input, now: Tai) -> list[m.Incoming]:
        self.take(given, now)
        return [
            m.PeerValidated(said.record) if isinstance(said, m.SendRecord) else pair.as_it_is(said)
            for said in self.sent()
        ]


class Pair(pair.Pair):
    """Two participants, joined."""

    left: Participant
    right: Participant

    @property
    def sides(self) -> tuple[Participant, Participant]:
        return self.left, self.right

    def give(self, index: int, given: m.Input, now: Tai) -> None:
        self.sides[index].take(given, now)
        self._pass_on(index)
