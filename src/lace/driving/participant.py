"""One side with everything it needs: does what its machine asks for, but for the stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from lace.errors import LaceError, StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.phases import Phase
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.recordstore.base import RecordStore
from lace.driving.journal import Journal
from lace.answering.store import LocalPolicy
from lace.answering.warm import Resting, memory_of
from lace.tai import Tai

Crossing = m.PeerModule | m.PeerFacts | m.PeerRecord | m.PeerPhaseEnd
"""What one side sends, as the other receives it over a stream."""

Sent = m.SendModule | m.SendFacts | m.SendRecord | m.EndPhase


@dataclass(slots=True)
class Participant:
    """A machine with its store and its policy."""

    store: RecordStore
    side: Side
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    events: list[m.Event] = field(default_factory=list)
    """What the application may hear; whoever reads it may empty it."""
    timer: float | None = None
    """The seconds of the latest ``SetTimer``; None if there is none."""
    journal: Journal | None = None
    """Writes down everything that the machine is told and does."""
    resting: Resting | None = None
    """What exchanges over the same links left behind; a journal begins without it."""
    machine: InterlaceMachine = field(init=False)
    local: LocalPolicy = field(init=False)

    def __post_init__(self) -> None:
        self.side = replace(self.side, ticks=self.side.ticks or self.exposure.looks_at_time)
        self.machine = InterlaceMachine(self.side)
        resting = self.resting if self.journal is None else None
        self.local = LocalPolicy(
            self.store, self.side.index, self.exposure, self.limits, resting, self.side.parameters
        )
        if self.journal is not None:
            self.journal.begin(self.side)

    @property
    def closed(self) -> bool:
        return self.machine.phase is Phase.CLOSED

    @property
    def idle(self) -> bool:
        return self.machine.phase is Phase.IDLE

    @property
    def memory(self) -> int:
        """About how many bytes its policy and its tables take."""
        return memory_of(self.local.policy, *self.machine.tables)

    def give(self, given: m.Input, now: Tai) -> list[Crossing]:
        """Hand the machine an input, do all it asks for, and return what crosses to the peer."""
        return list(map(_as_crossing, self.give_directly(given, now)))

    def give_directly(self, given: m.Input, now: Tai) -> list[Sent]:
        """Do the same, but return what is sent as it is, for a peer in this process."""
        crossing: list[Sent] = []
        inputs: deque[Iterable[m.Input]] = deque([[given]])
        while inputs:
            for item in inputs.popleft():
                effects = self.machine.receive(item, now)
                if self.journal is not None:
                    self.journal.step(item, now, effects)
                for effect in effects:
                    answers = self._do(effect, crossing)
                    if answers is not None:
                        inputs.append(answers)
        return crossing

    def _do(self, effect: m.Effect, sent: list[Sent]) -> Iterable[m.Input] | None:
        """Do one thing; return the answers if it was a question."""
        match effect:
            case m.SendModule() | m.SendFacts() | m.SendRecord() | m.EndPhase():
                sent.append(effect)
            case m.SetTimer():
                self.timer = effect.seconds
            case m.Emit():
                self.events.append(effect.event)
                if isinstance(effect.event, m.FixedPoint):
                    self.local.rest()
            case m.Close():
                self.timer = None
                self.local.close()
            case m.Remember():
                self.local.remember(effect)
            case _:
                return self._answers(effect)
        return None

    def _answers(self, question: m.Question) -> Iterator[m.Input]:
        """Answer a question; a failure is an answer too."""
        try:
            match question:
                case m.Evaluate():
                    yield from self.local.evaluate(question)
                case m.Recall():
                    yield self.local.recall(question)
                case m.Describe():
                    yield self.local.describe(question)
                case m.Load():
                    yield m.Loaded(tuple(self._load(question)))
                case m.Save():
                    outcomes = self.store.save(question.records)
                    self.local.saved(question.records)
                    hashes = (record.hash for record in question.records)
                    yield m.Saved(tuple(zip(hashes, outcomes, strict=True)))
        except StoreError as error:
            yield m.StoreFailed(error.code, error.message)
        except LaceError as error:
            yield m.EvaluationFailed(error.code, error.message)

    def _load(self, question: m.Load) -> Iterator[Record | None]:
        size = 0
        for hash in question.hashes:
            record = self.store.load(RecordHash(hash))
            yield record
            size += 0 if record is None else len(record.raw)
            if size >= question.bytes:
                return


def _as_crossing(sent: Sent) -> Crossing:
    match sent:
        case m.SendModule():
            return m.PeerModule(sent.id, sent.content)
        case m.SendFacts():
            return m.PeerFacts(sent.content)
        case m.SendRecord():
            return m.PeerRecord(sent.record.raw)
        case m.EndPhase():
            return m.PeerPhaseEnd()


def as_heard(sent: Sent) -> m.Input:
    """Return what is sent as a peer in this process hears it: nothing is turned into text."""
    match sent:
        case m.SendModule():
            return m.PeerModule(sent.id, sent.content)
        case m.SendFacts():
            return m.PeerTuples(sent.facts)
        case m.SendRecord():
            return m.PeerValidated(sent.record)
        case m.EndPhase():
            return m.PeerPhaseEnd()
