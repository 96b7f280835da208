"""Machines that are given one input at a time: every situation they get into can be met again.

A meeting joins two real machines with real answers. One of them is looked at: all that it was given
is written down, and with it the situation that it was in afterwards. A machine that is given the
same inputs is in the same situation; so a test may stop anywhere, and try what it likes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import MemberDescriptorType
from typing import Any, NamedTuple

from exchanges import NOTES, NOW, note

from lace.answering.store import StoreAnswers
from lace.driving.pair import as_text
from lace.driving.saving import saved
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.policy.foreign import Job
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record
from lace.recordstore import MemoryStore

SMALL = Parameters(
    list_up_to=2,
    describe_at_once=2,
    serve_at_once=1,
    save_at_once=2,
    answer_at_once=3,
    put_at_once=2,
    standard_prefix=1,
)
"""With these, five records are many."""
WIDER = module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
SHY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'tasks'), Advertised(Q,S),"
    " AdvertisedField(Q,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
"""Offers tasks only to a peer that advertises a note: there is more to say after advertising."""

Late = tuple[type[m.Question], ...]
"""Questions that are answered only when the peer has said all of its phase."""


class Situation(NamedTuple):
    """Where a machine stands, as far as phases are concerned."""

    where: str
    due: str
    """The question that has to be answered next, if one has."""


def situation_of(machine: InterlaceMachine) -> Situation:
    phases = machine._phases
    due = type(machine._awaiting[0]).__name__ if machine._awaiting else "-"
    if phases.is_over:
        return Situation("closed", "-")
    if machine._ending is not None:
        return Situation("ending", due)
    is_content = (
        phases.phase is Phase.REQUEST and phases.ended and not machine._transfer._outstanding
    )
    peer = "ended" if phases.peer_ended else "spoke" if phases.joined else "silent"
    words = [
        str(phases.phase) if machine._started else "unstarted",
        "ended" if phases.ended else "begun",
        peer,
        *(["asking-nothing"] if is_content else []),
        *(["passing-over"] if phases.passing_over else []),
        *(["crossing"] if phases.crossing else []),
    ]
    return Situation(" ".join(words), due)


@dataclass
class Half:
    """One side: a machine, and answers from a store that are given when it is told to."""

    side: Side
    store: MemoryStore
    machine: InterlaceMachine = field(init=False)
    answers: StoreAnswers = field(init=False)
    given: list[m.Input] = field(default_factory=list)
    effects: list[list[m.Effect]] = field(default_factory=list)
    situations: list[Situation] = field(default_factory=list)
    due: deque[Iterator[m.Input | Job]] = field(default_factory=deque)
    asked: deque[m.Question] = field(default_factory=deque)
    said: deque[m.Incoming] = field(default_factory=deque)
    events: list[m.Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = InterlaceMachine(self.side)
        exposure = Exposure(default="everything")
        self.answers = StoreAnswers.of(self.store, self.side, exposure)

    def give(self, given: m.Input) -> None:
        effects = self.machine.receive(given, NOW)
        self.given.append(given)
        self.effects.append(effects)
        self.situations.append(situation_of(self.machine))
        for effect in effects:
            match effect:
                case m.SendModule() | m.SendFacts() | m.SendRecord() | m.EndPhase():
                    self.said.append(as_text(effect))
                case m.Emit():
                    self.events.append(effect.event)
                case m.Remember():
                    self.answers.remember(effect)
                case m.Evaluate() | m.Recall() | m.Describe() | m.Serve() | m.Save():
                    self.asked.append(effect)
                    self.due.append(self._answer(effect))

    def answer(self) -> None:
        """Give the next part of the answer that is due."""
        given = next(self.due[0])
        assert not isinstance(given, Job), "nothing is done elsewhere"
        if not (isinstance(given, m.Evaluated) and given.more):
            self.due.popleft()
            self.asked.popleft()
        self.give(given)

    def _answer(self, asked: m.Question) -> Iterator[m.Input | Job]:
        match asked:
            case m.Evaluate():
                yield from self.answers.evaluate(asked)
            case m.Recall():
                yield self.answers.recall(asked)
            case m.Describe():
                yield self.answers.describe(asked)
            case m.Serve():
                yield self.answers.serve(asked)
            case m.Save():
                yield from saved(asked, self.side, self.answers)


@dataclass
class Meeting:
    """The side that is looked at, and another one that does all at once."""

    mine: Half
    other: Half
    late: Late = ()
    ahead: int = 1000
    """How much of what the peer says may be handed over before an answer that is late."""

    def run(self, until: Callable[[Situation], bool] = lambda _: False) -> bool:
        """Go on until this side is in such a situation, or until nothing is left to do."""
        mine, handed = self.mine, 0
        while True:
            self.serve_other()
            if mine.situations and until(mine.situations[-1]):
                return True
            waits = bool(mine.due) and isinstance(mine.asked[0], self.late) and handed < self.ahead
            if mine.due and not (waits and self.may_hear):
                mine.answer()
                handed = 0
            elif self.other.said:
                mine.give(self.other.said.popleft())
                handed += 1
            else:
                return False

    @property
    def may_hear(self) -> bool:
        """Whether the peer has said something that may be handed over before any answer."""
        return bool(self.other.said) and not self.mine.machine._phases.peer_ended

    def serve_other(self) -> None:
        """Let the other side hear all that this one said, and do all that there is to do."""
        while self.other.due or self.mine.said:
            if self.other.due:
                self.other.answer()
            else:
                self.other.give(self.mine.said.popleft())

    def start(self) -> None:
        self.mine.give(m.Started())
        self.other.give(m.Started())

    def save(self, half: Half, *records: Record) -> None:
        """Store records on a side, and wake it."""
        half.store.save(records)
        half.give(m.Woken())


def meeting(
    index: int,
    *,
    is_open: bool,
    mine: Sequence[Record] = (),
    theirs: Sequence[Record] = (),
    module: PolicyModule = NOTES,
    late: Late = (),
    ahead: int = 1000,
) -> Meeting:
    halves = []
    for number, records in ((index, mine), (1 - index, theirs)):
        store = MemoryStore()
        store.save(records)
        side = Side(index=number, module=module, open=is_open, parameters=SMALL)
        halves.append(Half(side, store))
    return Meeting(halves[0], halves[1], late, ahead)


# --- stories: between them they lead into every situation ---

MANY = [note(number) for number in range(6)]
MANY_MORE = [note(number) for number in range(3, 9)]
FEW, FEW_MORE = [note(1)], [note(2)]
LATE: Late = (m.Evaluate, m.Recall, m.Describe, m.Serve, m.Save)


def _differing(index: int, is_open: bool, late: Late = (), ahead: int = 1000) -> Meeting:
    met = meeting(index, is_open=is_open, mine=MANY, theirs=MANY_MORE, late=late, ahead=ahead)
    met.start()
    met.run()
    return met


def _waking(index: int, late: Late = ()) -> Meeting:
    """Both sides wake the other: one after the other, and at the same moment."""
    met = _differing(index, is_open=True, late=late)
    met.save(met.mine, note(20))
    met.run()
    met.save(met.other, note(21))
    met.run()
    met.mine.store.save([note(22)])
    met.save(met.other, note(23))
    met.serve_other()
    met.mine.give(m.Woken())
    met.run()
    return met


def _few(index: int, is_open: bool, late: Late = ()) -> Meeting:
    met = meeting(index, is_open=is_open, mine=FEW, theirs=FEW_MORE, late=late)
    met.start()
    met.run()
    return met


def _nothing(index: int, is_open: bool) -> Meeting:
    met = meeting(index, is_open=is_open, mine=MANY, theirs=MANY)
    met.start()
    met.run()
    return met


def _own_epoch(index: int, late: Late = ()) -> Meeting:
    """This side changes its operand: at rest, while the peer wakes it, and in the middle of a loop."""
    met = _differing(index, is_open=True, late=late)
    met.mine.give(m.OperandChanged(WIDER))
    met.run()
    met.save(met.other, note(20))
    met.serve_other()
    met.mine.give(m.OperandChanged(NOTES))
    met.run()
    met.save(met.other, note(21))
    assert met.run(lambda now: now.where.startswith("ask"))
    met.mine.give(m.OperandChanged(WIDER))
    met.run()
    met.save(met.mine, note(22))
    met.mine.give(m.OperandChanged(NOTES))  # while the evaluation is under way
    met.run()
    return met


def _own_epoch_at_once(index: int, late: Late = ()) -> Meeting:
    met = meeting(index, is_open=True, mine=MANY, theirs=MANY_MORE, late=late)
    met.start()
    met.mine.give(m.OperandChanged(WIDER))
    met.run()
    return met


def _peers_epoch(index: int, records: tuple[list[Record], list[Record]], late: Late) -> Meeting:
    """The peer changes its operand before the first loop, between two, and at rest."""
    mine, theirs = records
    met = meeting(index, is_open=True, mine=mine, theirs=theirs, late=late)
    met.start()
    met.other.give(m.OperandChanged(WIDER))
    met.run()
    met.save(met.mine, note(20))
    assert met.run(lambda now: now.where.startswith("transfer"))
    met.other.give(m.OperandChanged(NOTES))
    met.run()
    met.other.give(m.OperandChanged(WIDER))
    met.run()
    return met


def _again(index: int, is_open: bool, *tasks: int) -> Meeting:
    """One side has more to say when it has heard what the other has: this one (0) or that (1)."""
    sides = [[note(1), note(9, app="tasks")] if side in tasks else [note(1)] for side in (0, 1)]
    met = meeting(index, is_open=is_open, mine=sides[0], theirs=sides[1], module=SHY)
    met.start()
    met.run()
    return met


def _early(index: int, is_open: bool) -> Meeting:
    """This side begins when the peer has said all of its set-up."""
    met = meeting(index, is_open=is_open, mine=FEW, theirs=FEW_MORE)
    met.other.give(m.Started())
    met.other.give(m.PeerModule(NOTES.id, NOTES.text.encode()))
    while met.other.said:
        met.mine.give(met.other.said.popleft())
    met.mine.give(m.Started())
    met.mine.said.popleft()  # the module: the peer knows it
    met.run()
    return met


def _ending(index: int, is_open: bool, where: Situation, late: Late = ()) -> Meeting:
    """This side is closed while it has records that it has not stored."""
    met = meeting(index, is_open=is_open, mine=MANY, theirs=MANY_MORE, late=late)
    met.start()
    assert met.run(lambda now: now == where)
    met.mine.give(m.CloseRequested())
    met.run()
    return met


def stories(index: int, *, is_open: bool) -> Iterator[Half]:
    """Yield sides that have been through everything, with all that they were given on the way."""
    return (met.mine for met in meetings(index, is_open=is_open))


def meetings(index: int, *, is_open: bool) -> list[Meeting]:
    """Return meetings that have come to their ends."""
    made: list[Meeting] = [
        _early(index, is_open),
        _differing(index, is_open),
        _differing(index, is_open, LATE),
        _differing(index, is_open, (m.Serve, m.Save)),
        _differing(index, is_open, (m.Serve,), 1),
        _differing(index, is_open, (m.Save,)),
        _few(index, is_open),
        _few(index, is_open, (m.Describe,)),
        _nothing(index, is_open),
        _again(index, is_open, 0),
        _again(index, is_open, 1),
        _again(index, is_open, 0, 1),
        _ending(index, is_open, Situation("transfer ended spoke", "-")),
        _ending(index, is_open, Situation("transfer begun ended", "Serve"), (m.Serve,)),
    ]
    if is_open:
        made += [
            _waking(index),
            _waking(index, LATE),
            _own_epoch(index),
            _own_epoch(index, LATE),
            _own_epoch_at_once(index),
            _own_epoch_at_once(index, LATE),
            *(
                _peers_epoch(index, records, (question,))
                for records in ((MANY, MANY_MORE), (FEW, FEW_MORE))
                for question in LATE[:3]
            ),
        ]
    return made


def wandering(seed: int) -> tuple[Half, Half]:
    """Return two sides that were driven by chance, as far as a driver is free to choose."""
    chance = random.Random(seed)
    is_open, haste = chance.random() < 0.8, chance.random()
    records = chance.choice([(MANY, MANY_MORE), (FEW, FEW_MORE), (MANY, MANY), (MANY, [])])
    met = meeting(0, is_open=is_open, mine=records[0], theirs=records[1])
    halves = met.mine, met.other
    met.start()
    for number in range(20, 320):
        index = chance.randrange(2)
        half, words = halves[index], halves[1 - index].said
        if half.machine.phase is Phase.CLOSED:
            break
        may_hear = words and not (half.due and half.machine._phases.peer_ended)
        if half.due and (not may_hear or chance.random() < haste):
            half.answer()
        elif may_hear:
            half.give(words.popleft())
        elif chance.random() < 0.6:
            met.save(half, note(number, chance.choice(["notes", "tasks"])))
        else:
            half.give(m.OperandChanged(chance.choice([WIDER, NOTES])))
    return halves


# --- all of a machine, to compare ---

_SCRATCH = frozenset(("_effects", "_blame"))
"""Made anew for each input."""


def frozen(value: Any) -> Any:
    """Return a value that equals that of another moment if nothing has changed since."""
    if isinstance(value, Partitions):
        return list(map(value.run, range(64**value.standard))), dict(value.odd)
    if isinstance(value, dict):
        return {key: frozen(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | deque):
        return [frozen(inner) for inner in value]
    if isinstance(value, set):
        return set(value)
    if not type(value).__module__.startswith("lace.interlace"):
        return value
    if is_dataclass(value):
        return {
            each.name: frozen(getattr(value, each.name)) for each in fields(value) if each.compare
        }
    names = [*getattr(value, "__dict__", ())]
    for kind in type(value).__mro__:
        names += [n for n, slot in vars(kind).items() if isinstance(slot, MemberDescriptorType)]
    if not names:
        return value
    return {name: frozen(getattr(value, name)) for name in names if name not in _SCRATCH}
