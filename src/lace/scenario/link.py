"""Two connections and what is under way between them, one message at a time.

A link delivers one input to one side and stops: whoever drives it may look, lose, repeat, reorder
or change what is under way before going on. Run to the end without interfering it does exactly what
``lace.driving.pair.interlace`` does.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from lace.answering.store import StoreAnswers
from lace.driving.connection import Connection
from lace.driving.journal import Journal
from lace.driving.pair import as_text
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.phases import Phase
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.foreign import Job
from lace.policy.view import Exposure
from lace.record.facts import facts
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.rules import LocalFacts
from lace.scenario.model import Deed
from lace.tai import NS_PER_SECOND, Tai, add_ns
from lace.vocabulary import RECORD_FACTS

_MARK: Final = len("🖧: ".encode())
_READ: Final = 1000


class _Noting(StoreAnswers):
    """Answers of a store that note whether they were asked to evaluate."""

    evaluated = False

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        self.evaluated = True
        yield from super().evaluate(asked)


class Watched(Connection):
    """A connection whose store and policy can be looked at."""

    def __init__(
        self,
        store: RecordStore,
        side: Side,
        exposure: Exposure,
        limits: Limits = DEFAULT_LIMITS,
        journal: Journal | None = None,
    ) -> None:
        self.store = store
        self.local = _Noting(
            store, side.index, exposure, limits, parameters=side.parameters, whole=True
        )
        super().__init__(side, lambda _side: self.local, journal=journal)

    def take(self, given: m.Input, now: Tai) -> None:
        """Take one input, by whichever entrance it has."""
        match given:
            case m.Started():
                self.start(now)
            case m.TimerFired():
                if self.timer is not None:
                    self.receive_timer(self.timer, now)
            case m.PeerGone():
                self.lose(now, orderly=given.orderly)
            case m.Woken() | m.OperandChanged() | m.CloseRequested():
                self.tell(given, now)
            case (
                m.PeerModule() | m.PeerFacts() | m.PeerTuples() | m.PeerRecord()
                | m.PeerValidated() | m.PeerPhaseEnd()
            ):  # fmt: skip
                self.receive(given, now)
            case _:
                raise TypeError(f"nobody can give a {type(given).__name__}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing that a side sent."""

    number: int
    """Over both sides, from 0."""
    sender: int
    own: int
    """Among the messages of its sender, from 1."""
    phase: Phase
    loop: int
    crossing: m.Incoming
    deed: Deed | None = None
    """What befell it on its way."""
    original: m.Incoming | None = None
    """What was sent, where that is not what arrives."""

    @property
    def record(self) -> str | None:
        """The hash that a record claims for itself."""
        return claimed_hash(self.original or self.crossing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One input given to one side, and what came of it."""

    number: int
    to: int
    given: m.Input
    message: Message | None
    """What was delivered, if it was a message of the other side."""
    before: Phase
    after: Phase
    loop: int
    """The loop that the side was in when it took the input, from 1; 0 before the first one."""
    sent: tuple[Message, ...]
    lost: tuple[Message, ...]
    """Sent, and never to arrive."""
    events: tuple[m.Event, ...]
    evaluated: bool
    """Whether the side's policy was brought up to date."""
    now: Tai


Fate = Callable[[Message], Deed | None]


def _unharmed(_message: Message) -> Deed | None:
    return None


def _last_byte(_message: Message) -> int:
    return -1


@dataclass(slots=True)
class Link:
    """An exchange under way."""

    sides: tuple[Watched, Watched]
    now: Tai
    fate: Fate = _unharmed
    flip: Callable[[Message], int] = _last_byte
    """Which byte a flip hits."""
    seed: int = 0
    """0 delivers in turns; any other number draws whose turn it is."""
    waiting: tuple[deque[Message], deque[Message]] = field(
        default_factory=lambda: (deque(), deque())
    )
    """What is under way to side 0 and to side 1."""
    deliveries: list[Delivery] = field(default_factory=list)
    cut: bool = False
    _turn: int = 0
    _sent: list[int] = field(default_factory=lambda: [0, 0])
    _loops: list[int] = field(default_factory=lambda: [0, 0])
    _spoke: list[bool] = field(default_factory=lambda: [False, False])
    _deadlines: list[Tai | None] = field(default_factory=lambda: [None, None])
    _held: list[Message | None] = field(default_factory=lambda: [None, None])
    _numbers: int = 0
    _started: int = 0
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311  (a schedule, not a secret)

    @property
    def over(self) -> bool:
        return all(side.closed for side in self.sides)

    @property
    def quiet(self) -> bool:
        """Whether both sides are at a fixed point and stay, and nothing is under way."""
        return not any(self.waiting) and all(side.idle for side in self.sides)

    def policy(self, index: int) -> ExchangePolicy | None:
        """Return the policy of a side once it has evaluated it."""
        return self.sides[index].local.policy

    def whole_policy(self, index: int) -> ExchangePolicy | None:
        """Return the policy over all facts, also those that its rules do not look at."""
        policy = self.policy(index)
        if policy is None:
            return None
        source = LocalFacts(limits=policy.limits)
        for predicate in policy.source.predicates():
            if predicate not in RECORD_FACTS:
                source.add_rows(predicate, policy.source.iterate(predicate))
        store, seen = self.sides[index].store, StoreRecordId(0)
        while batch := store.read(seen, _READ):
            for stored in batch:
                record = store.load(stored.hash)
                if record is not None:
                    for fact in facts(record):
                        source.add(fact)
            seen = batch[-1].id
        return ExchangePolicy(policy.plan, policy.index, source, policy.exposure, policy.limits)

    # --- driving ---

    def step(self) -> Delivery | None:
        """Deliver one input; None when the exchange is over or waits for something new."""
        if self.over or len(self.deliveries) >= FIXED.deliveries:
            return None
        if self._started < 2:
            self._started += 1
            return self.give(self._started - 1, m.Started())
        open_ = [i for i in (0, 1) if self.waiting[i]]
        if open_:
            index = self._turn if self._turn in open_ else open_[0]
            if self.seed and len(open_) == 2:
                index = self._chance.randrange(2)
            self._turn = 1 - index
            message = self.waiting[index].popleft()
            return self.give(index, message.crossing, message)
        return self._nothing_under_way()

    def run(self) -> None:
        """Deliver until the exchange is over or quiet."""
        while self.step() is not None:
            pass

    def advance(self, seconds: int) -> None:
        """Let time pass, and wake whoever has waited for it."""
        self.now = add_ns(self.now, seconds * NS_PER_SECOND)
        for index in (0, 1):
            deadline = self._deadlines[index]
            if deadline is not None and deadline <= self.now and not self.sides[index].closed:
                self.give(index, m.TimerFired())

    def end(self) -> None:
        """Take the connection away."""
        for index, side in enumerate(self.sides):
            if not side.closed:
                self.give(index, m.PeerGone(orderly=side.idle))

    def give(self, index: int, given: m.Input, message: Message | None = None) -> Delivery:
        """Give one input to one side, and put under way what it sends."""
        side = self.sides[index]
        before, loop = side.machine.phase, self._loop(index)
        side.local.evaluated = False
        side.take(given, self.now)
        after, timer = side.machine.phase, side.timer
        self._deadlines[index] = (
            None if timer is None else add_ns(self.now, round(timer.seconds * NS_PER_SECOND))
        )
        sent, lost = [], []
        for said, phase in in_phases(side.sent(), after):
            made = self._message(index, as_text(said), phase)
            sent.append(made)
            lost += self._dispatch(made)
        delivery = Delivery(
            number=len(self.deliveries), to=index, given=given, message=message, before=before,
            after=after, loop=loop, sent=tuple(sent), lost=tuple(lost),
            events=tuple(side.events()), evaluated=side.local.evaluated, now=self.now,
        )  # fmt: skip
        self.deliveries.append(delivery)
        return delivery

    def _nothing_under_way(self) -> Delivery | None:
        """Let a side notice that nothing comes: its peer is gone, or its time has run out."""
        for index in (0, 1):
            if self._held[index] is not None:  # waits for a successor that never came
                self.waiting[1 - index].append(self._take_held(index))
                return self.step()
        if self.quiet and not self.cut:
            return None
        index = next(i for i in (0, 1) if not self.sides[i].closed)
        if self.cut or self.sides[1 - index].closed:
            return self.give(index, m.PeerGone())
        waiting = [i for i in (0, 1) if not self.sides[i].idle] or [index]
        deadline = self._deadlines[waiting[0]]
        if deadline is not None and deadline > self.now:
            self.now = deadline
        return self.give(waiting[0], m.TimerFired())

    # --- messages ---

    def _loop(self, index: int) -> int:
        """Return the loop that a side is in: it counts the ends of its advertise phases."""
        speaking = self.sides[index].machine.phase is Phase.ADVERTISE and not self._spoke[index]
        return self._loops[index] + speaking

    def _message(self, index: int, crossing: m.Incoming, phase: Phase) -> Message:
        self._sent[index] += 1
        advertising = phase is Phase.ADVERTISE
        made = Message(
            number=self._numbers, sender=index, own=self._sent[index], phase=phase,
            loop=self._loops[index] + advertising, crossing=crossing,
        )  # fmt: skip
        self._numbers += 1
        self._spoke[index] = advertising and isinstance(crossing, m.PeerPhaseEnd)
        self._loops[index] += self._spoke[index]
        return made

    def _dispatch(self, message: Message) -> list[Message]:
        """Put a message under way, or let befall it what was decided; return what is lost."""
        index = message.sender
        queue = self.waiting[1 - index]
        if self.cut:
            return [replace(message, deed="cut")]
        deed = self.fate(message)
        marked = replace(message, deed=deed)
        lost: list[Message] = []
        match deed:
            case "drop":
                lost.append(marked)
            case "cut":
                self.cut = True
                lost.append(marked)
            case "flip":
                changed = flipped(message.crossing, self.flip(message))
                queue.append(replace(marked, crossing=changed, original=message.crossing))
            case "duplicate":
                queue.extend((message, marked))
            case "swap":
                self._held[index] = marked
                return []
            case None:
                queue.append(message)
        if self._held[index] is not None:
            queue.append(self._take_held(index))
        return lost

    def _take_held(self, index: int) -> Message:
        held = self._held[index]
        assert held is not None
        self._held[index] = None
        return held


def in_phases(sent: list[m.Outgoing], after: Phase) -> list[tuple[m.Outgoing, Phase]]:
    """Say which phase each thing was said in: everything up to an end belongs to what it ends."""
    found = []
    phase = after
    for said in reversed(sent):
        phase = said.phase if isinstance(said, m.EndPhase) else phase
        found.append((said, phase))
    return found[::-1]


def claimed_hash(crossing: m.Incoming) -> str | None:
    """Return the hash that record bytes claim, or None if they are no record's."""
    if not isinstance(crossing, m.PeerRecord):
        return None
    return crossing.raw[_MARK : _MARK + 48].partition(b"\n")[0].decode("ascii", "replace")


def crossing_bytes(crossing: m.Incoming) -> bytes:
    """Return what a peer sees of a message."""
    match crossing:
        case m.PeerRecord():
            return crossing.raw
        case m.PeerFacts():
            return crossing.content
        case m.PeerModule():
            return crossing.id.encode() + b"\n" + crossing.content
        case _:
            return b""


def flipped(crossing: m.Incoming, byte: int) -> m.Incoming:
    """Return the message with one bit of one byte turned over; an empty one stays as it is."""
    match crossing:
        case m.PeerRecord():
            return m.PeerRecord(_flipped(crossing.raw, byte))
        case m.PeerModule():
            return m.PeerModule(crossing.id, _flipped(crossing.content, byte))
        case m.PeerFacts():
            return m.PeerFacts(_flipped(crossing.content, byte))
    return crossing


def _flipped(content: bytes, byte: int) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[byte % len(changed)] ^= 1
    return bytes(changed)
