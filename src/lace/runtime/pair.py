"""Two laces in one process: machines, stores and policies put together, without a stream between.

What crosses from one side to the other is exactly what would cross a connection: modules, fact
blocks, record bytes and ends of phases. The order is fixed, so that a run can be repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lace.datalog.source import Fact, MemorySource
from lace.errors import LaceError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.view import Exposure
from lace.record.facts import facts, fields
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.tai import Tai

_READ: int = 1000

Crossing = m.PeerModule | m.PeerFacts | m.PeerRecord | m.PeerPhaseEnd
"""What one side sends, as the other receives it."""


@dataclass(slots=True)
class Participant:
    """One side with everything it needs: does what its machine asks for."""

    store: RecordStore
    side: Side
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    events: list[m.Event] = field(default_factory=list)
    machine: InterlaceMachine = field(init=False)
    _policy: ExchangePolicy | None = None
    _seen: StoreRecordId = field(default_factory=lambda: StoreRecordId(0))

    def __post_init__(self) -> None:
        self.machine = InterlaceMachine(self.side)

    @property
    def closed(self) -> bool:
        return self.machine.phase == "closed"

    def give(self, given: m.Input, now: Tai) -> list[Crossing]:
        """Hand the machine an input, do all it asks for, and return what crosses to the peer."""
        crossing: list[Crossing] = []
        inputs = deque([given])
        while inputs:
            for effect in self.machine.receive(inputs.popleft(), now):
                match effect:
                    case m.SendModule():
                        crossing.append(m.PeerModule(effect.id, effect.content))
                    case m.SendFacts():
                        crossing.append(m.PeerFacts(effect.content))
                    case m.SendRecord():
                        crossing.append(m.PeerRecord(effect.record.raw))
                    case m.EndPhase():
                        crossing.append(m.PeerPhaseEnd())
                    case m.Evaluate():
                        inputs.append(self._evaluate(effect))
                    case m.Load():
                        record = self.store.load(RecordHash(effect.hash))
                        inputs.append(m.Loaded(effect.hash, record))
                    case m.Save():
                        (outcome,) = self.store.save([effect.record])
                        inputs.append(m.Saved(effect.record.hash, outcome))
                    case m.Emit():
                        self.events.append(effect.event)
                    case m.SetTimer() | m.Close():
                        pass
        return crossing

    def _evaluate(self, effect: m.Evaluate) -> m.Evaluated | m.EvaluationFailed:
        try:
            new = self._new_facts()
            if self._policy is None:
                source = MemorySource(limits=self.limits)
                for fact in (*new, *effect.added):
                    source.add(fact)
                self._policy = ExchangePolicy(
                    effect.plan, self.side.index, source, self.exposure, self.limits
                )
                policy = self._policy
                return self._answer(set(policy.may_send), set(), set(policy.may_request), set())
            change = self._policy.apply((*new, *effect.added), effect.removed)
        except LaceError as error:
            return m.EvaluationFailed(error.code, error.message)
        return self._answer(
            change.may_send.added,
            change.may_send.removed,
            change.may_request.added,
            change.may_request.removed,
        )

    def _answer(
        self,
        send: set[tuple[str, ...]],
        unsend: set[tuple[str, ...]],
        request: set[tuple[str, ...]],
        unrequest: set[tuple[str, ...]],
    ) -> m.Evaluated:
        sendable = {}
        for (hash,) in send:
            record = self.store.load(RecordHash(hash))
            if record is not None:  # a selector may name what is not here
                sendable[hash] = tuple(fields(record))
        return m.Evaluated(
            sendable=sendable,
            unsendable=frozenset(row[0] for row in unsend),
            requestable=frozenset(
                row[0] for row in request if not self.store.has(RecordHash(row[0]))
            ),
            unrequestable=frozenset(row[0] for row in unrequest),
        )

    def _new_facts(self) -> list[Fact]:
        """Return the facts of records stored since the last evaluation, whoever stored them."""
        found: list[Fact] = []
        while batch := self.store.read(self._seen, _READ):
            for stored in batch:
                record = self.store.load(stored.hash)
                if record is not None:
                    found.extend(facts(record))
            self._seen = batch[-1].id
        return found


def interlace(
    left: Participant,
    right: Participant,
    now: Tai,
    tamper: Callable[[int, Crossing], list[Crossing]] = lambda _side, crossing: [crossing],
) -> None:
    """Run a bounded exchange to its end; ``tamper`` may change what crosses (for tests)."""
    sides = (left, right)
    queues: tuple[deque[Crossing], deque[Crossing]] = (deque(), deque())

    def deliver(index: int, given: m.Input) -> None:
        for crossing in sides[index].give(given, now):
            queues[1 - index].extend(tamper(index, crossing))

    deliver(0, m.Started())
    deliver(1, m.Started())
    while any(queues) and not all(side.closed for side in sides):
        for index in (0, 1):
            if queues[index]:
                deliver(index, queues[index].popleft())
    for index, side in enumerate(sides):
        if not side.closed:
            deliver(index, m.PeerGone())
