"""Two participants and what is under way between them, one message at a time.

A link delivers one input to one side and stops: whoever drives it may look, lose, repeat, reorder
or change what is under way before going on. Run to the end without interfering it does exactly what
``lace.runtime.pair.interlace`` does.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from lace.interlace import messages as m
from lace.interlace.phases import Phase
from lace.policy.executable import ExchangePolicy
from lace.runtime.pair import Crossing, Participant
from lace.scenario.model import Deed
from lace.tai import NS_PER_SECOND, Tai, add_ns

_MARK: Final = len("🖧: ".encode())
MOST_DELIVERIES: Final = 20_000


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
    crossing: Crossing
    deed: Deed | None = None
    """What befell it on its way."""
    original: Crossing | None = None
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
    sent: tuple[Message, ...]
    lost: tuple[Message, ...]
    """Sent, and never to arrive."""
    events: tuple[m.Event, ...]
    now: Tai


Fate = Callable[[Message], Deed | None]


@dataclass(slots=True)
class Link:
    """An exchange under way."""

    sides: tuple[Participant, Participant]
    now: Tai
    fate: Fate = lambda _message: None
    flip: Callable[[Message], int] = lambda _message: -1
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
    _ended: list[bool] = field(default_factory=lambda: [False, False])
    _held: list[Message | None] = field(default_factory=lambda: [None, None])
    _numbers: int = 0
    _started: int = 0
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311  (a schedule, not a secret)

    @property
    def over(self) -> bool:
        return all(side.closed for side in self.sides)

    def policy(self, index: int) -> ExchangePolicy | None:
        """Return the policy of a side once it has evaluated it."""
        return self.sides[index]._policy  # noqa: SLF001

    def step(self) -> Delivery | None:
        """Deliver one input; None when the exchange is over."""
        if self.over or len(self.deliveries) >= MOST_DELIVERIES:
            return None
        if self._started < 2:
            self._started += 1
            return self._give(self._started - 1, m.Started(), None)
        open_ = [i for i in (0, 1) if self.waiting[i]]
        if open_:
            index = self._turn if self._turn in open_ else open_[0]
            if self.seed and len(open_) == 2:
                index = self._chance.randrange(2)
            self._turn = 1 - index
            message = self.waiting[index].popleft()
            return self._give(index, message.crossing, message)
        return self._nothing_under_way()

    def run(self) -> None:
        """Deliver until the exchange is over."""
        while self.step() is not None:
            pass

    def _nothing_under_way(self) -> Delivery:
        """Let a side notice that nothing comes: its peer is gone, or its time has run out."""
        for index in (0, 1):
            if self._held[index] is not None:  # waits for a successor that never came
                self.waiting[1 - index].append(self._take_held(index))
                return self.step() or self.deliveries[-1]
        index = next(i for i in (0, 1) if not self.sides[i].closed)
        if self.cut or self.sides[1 - index].closed:
            return self._give(index, m.PeerGone(), None)
        self.now = add_ns(self.now, self.sides[index].side.limits.phase_timeout * NS_PER_SECOND)
        return self._give(index, m.TimerFired(), None)

    def _give(self, index: int, given: m.Input, message: Message | None) -> Delivery:
        side = self.sides[index]
        before, events = side.machine.phase, len(side.events)
        crossings = side.give(given, self.now)
        after = side.machine.phase
        if after is not before and after is Phase.ADVERTISE:
            self._loops[index] += 1
        sent, lost = [], []
        for crossing, phase in self._phases(index, crossings, before, after):
            made = self._message(index, crossing, phase)
            sent.append(made)
            lost += self._dispatch(made)
        delivery = Delivery(
            number=len(self.deliveries), to=index, given=given, message=message, before=before,
            after=after, loop=self._loops[index], sent=tuple(sent), lost=tuple(lost),
            events=tuple(side.events[events:]), now=self.now,
        )  # fmt: skip
        self.deliveries.append(delivery)
        return delivery

    def _phases(
        self, index: int, crossings: list[Crossing], before: Phase, after: Phase
    ) -> list[tuple[Crossing, Phase]]:
        """Say which phase each thing belongs to: the end of a phase is sent within it."""
        phase = after if self._ended[index] else before
        found = []
        for crossing in crossings:
            found.append((crossing, phase))
            if isinstance(crossing, m.PeerPhaseEnd):
                phase = after
        ended = [p for c, p in found if isinstance(c, m.PeerPhaseEnd)]
        if ended or after is not before:
            self._ended[index] = bool(ended) and ended[-1] is after
        return found

    def _message(self, index: int, crossing: Crossing, phase: Phase) -> Message:
        self._sent[index] += 1
        made = Message(
            number=self._numbers, sender=index, own=self._sent[index], phase=phase,
            loop=self._loops[index], crossing=crossing,
        )  # fmt: skip
        self._numbers += 1
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


def claimed_hash(crossing: Crossing) -> str | None:
    """Return the hash that record bytes claim, or None if they are no record's."""
    if not isinstance(crossing, m.PeerRecord):
        return None
    return crossing.raw[_MARK : _MARK + 48].partition(b"\n")[0].decode("ascii", "replace")


def crossing_bytes(crossing: Crossing) -> bytes:
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


def flipped(crossing: Crossing, byte: int) -> Crossing:
    """Return the message with one bit of one byte turned over; an empty one stays as it is."""
    content = bytearray(
        crossing.raw if isinstance(crossing, m.PeerRecord)
        else crossing.content if isinstance(crossing, m.PeerFacts | m.PeerModule) else b""
    )  # fmt: skip
    if not content:
        return crossing
    content[byte % len(content)] ^= 1
    match crossing:
        case m.PeerRecord():
            return m.PeerRecord(bytes(content))
        case m.PeerModule():
            return m.PeerModule(crossing.id, bytes(content))
    return m.PeerFacts(bytes(content))
