"""Runs a scenario with real stores, machines and policies, and holds it to its expectations.

Nothing is drawn by chance and no clock is read: the same scenario always gives the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from lace.driving.journal import Journal
from lace.errors import Code
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.policy.module import PolicyModule
from lace.recordstore.base import StoreRecordId
from lace.recordstore.memory import MemoryStore
from lace.scenario.build import Built
from lace.scenario.link import Delivery, Link, Message, Watched, crossing_bytes
from lace.scenario.model import ENGINE_LIMITS, Deed, Fault
from lace.tai import NS_PER_SECOND, Tai, add_ns, difference_ns

_READ = 10_000
TRANSPORT = "memory"


@dataclass(slots=True)
class World:
    """All laces of a scenario at one moment."""

    built: Built
    now: Tai
    stores: dict[str, MemoryStore]
    modules: dict[str, PolicyModule]
    meetings: dict[tuple[str, str], Meeting] = field(default_factory=dict)
    """The latest meeting of each two, by who accepted and who connected."""
    journals: dict[tuple[str, str], tuple[list[str], list[str]]] | None = None
    """If there is a place for them: the journals of both sides of the latest exchanges."""

    @classmethod
    def begin(cls, built: Built) -> World:
        stores = {}
        for peer in built.scenario.peers:
            store = stores[peer.id] = MemoryStore()
            store.save([built.records[id] for id in peer.has])
        return cls(built, built.scenario.now, stores, dict(built.modules))

    def held(self, peer: str) -> list[str]:
        """Return the hashes that a peer has stored, in the order they came."""
        return [str(stored.hash) for stored in self.stores[peer].read(StoreRecordId(0), _READ)]

    def prepare(self, number: int) -> None:
        """Do everything of a step that comes before an exchange."""
        step = self.built.scenario.steps[number]
        self.now = add_ns(self.now, step.advance * NS_PER_SECOND)
        for id, _ in step.rules:
            self.modules[id] = self.built.changes[number, id]
        for id, names in step.store:
            self.stores[id].save([self.built.records[name] for name in names])
        for id, names in step.forget:
            self.stores[id].forget([self.built.hash(name) for name in names])

    def meet(
        self, number: int, fate: Fate | None = None, seed: int = 0, *, stay: bool = False
    ) -> Meeting:
        """Return the meeting of a step: a new exchange, or one that stayed open, gone on with."""
        step = self.built.scenario.steps[number]
        assert step.interlace is not None
        pair = step.interlace
        before = self.meetings.get(pair)
        if before is None or before.link.over:
            link = self._link(pair, seed, stay=stay or step.stay)
            meeting = Meeting(pair=pair, link=link)
        else:
            link = before.link
            before.until = len(link.deliveries)
            meeting = Meeting(pair=pair, link=link, first=before.until)
        if fate is not None:
            link.fate, link.flip = fate.deed, fate.byte
        if meeting.first:
            self._wake(number, link, pair)
        self.meetings[pair] = meeting
        return meeting

    def _wake(self, number: int, link: Link, pair: tuple[str, str]) -> None:
        """Tell an open exchange what is new: rules, records, time."""
        step = self.built.scenario.steps[number]
        link.advance(max(0, difference_ns(self.now, link.now) // NS_PER_SECOND))
        for id, _ in step.rules:
            if id in pair:
                link.give(pair.index(id), m.OperandChanged(self.modules[id]))
        for id, _ in step.store:
            if id in pair:
                link.give(pair.index(id), m.Woken())

    def _link(self, pair: tuple[str, str], seed: int, *, stay: bool) -> Link:
        verifiers = tuple(self.built.verifier(id) for id in pair)
        lines: tuple[list[str], list[str]] = ([], [])
        if self.journals is not None:
            self.journals[pair] = lines
        sides = tuple(
            Watched(
                self.stores[id],
                Side(
                    index=index,
                    module=self.modules[id],
                    open=stay,
                    verifier=verifiers[index],
                    peer_verifier=verifiers[1 - index],
                    limits=ENGINE_LIMITS,
                    transport=TRANSPORT,
                    remembers=False,  # whoever watches wants to see what is decided, each time
                ),
                self.built.exposures[id],
                ENGINE_LIMITS,
                journal=None if self.journals is None else Journal(lines[index].append),
            )
            for index, id in enumerate(pair)
        )
        return Link((sides[0], sides[1]), self.now, seed=seed)


@dataclass(slots=True)
class Fate:
    """What a list of faults does to the messages of one exchange."""

    pair: tuple[str, str]
    faults: tuple[Fault, ...]
    built: Built

    def deed(self, message: Message) -> Deed | None:
        fault = self._fault(message)
        return None if fault is None else fault.do

    def byte(self, message: Message) -> int:
        fault = self._fault(message)
        return -1 if fault is None else fault.byte

    def _fault(self, message: Message) -> Fault | None:
        for fault in self.faults:
            if fault.sender != self.pair[message.sender]:
                continue
            if fault.record is None:
                if fault.message == message.own:
                    return fault
            elif message.record == self.built.hash(fault.record):
                return fault
        return None


@dataclass(slots=True, kw_only=True)
class Meeting:
    """One step's part of an exchange."""

    pair: tuple[str, str]
    link: Link
    first: int = 0
    """The number of the first delivery that belongs to it."""
    until: int | None = None
    """The number of the first one that belongs to a later step, once there is one."""

    @property
    def deliveries(self) -> list[Delivery]:
        return self.link.deliveries[self.first : self.until]

    def side(self, peer: str) -> int:
        return self.pair.index(peer)

    def events(self, index: int) -> list[m.Event]:
        return [event for d in self.deliveries if d.to == index for event in d.events]

    def end(self, index: int) -> m.Closed | m.Aborted | m.FixedPoint | None:
        """Return how it ended for one side; an open exchange ends with its fixed point."""
        kinds = m.Closed | m.Aborted | m.FixedPoint
        return next((e for e in reversed(self.events(index)) if isinstance(e, kinds)), None)

    @property
    def outcome(self) -> m.Ending | Code | Literal["not over"]:
        """``fixed point``, or the code of the first abort, or how it was closed."""
        events = [event for d in self.deliveries for event in d.events]
        for event in events:
            if isinstance(event, m.Aborted):
                return event.code
        fixed = [any(isinstance(e, m.FixedPoint) for e in self.events(i)) for i in (0, 1)]
        if all(fixed) or self.link.quiet:
            return m.Ending.FIXED_POINT
        closed = [event.ending for event in events if isinstance(event, m.Closed)]
        return closed[0] if closed else "not over"

    def heard(self, peer: str) -> list[tuple[str, bytes]]:
        """Return all that crossed to a peer, as it saw it."""
        index = self.side(peer)
        return [
            (type(d.message.crossing).__name__, crossing_bytes(d.message.crossing))
            for d in self.deliveries
            if d.to == index and d.message is not None
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What became of one expectation."""

    text: str
    ok: bool
    detail: str
    line: int = 1


@dataclass(slots=True, kw_only=True)
class StepRun:
    """One step as it went."""

    number: int
    say: str
    meeting: Meeting | None
    held: dict[str, list[str]]
    """What each peer has stored after the step."""
    checks: list[Checked] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """A whole run."""

    built: Built
    steps: list[StepRun]
    world: World
    driven: Callable[[Built], Iterator[Run]] | None = None
    """How it was run, where that is not by ``play``."""

    def again(self, built: Built) -> Iterator[Run]:
        """Run another scenario in the way that this one was run."""
        return (self.driven or play)(built)

    @property
    def checks(self) -> list[Checked]:
        return [check for step in self.steps for check in step.checks]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def heard(self, peer: str) -> list[list[tuple[str, bytes]]]:
        """Return all that crossed to a peer, exchange by exchange."""
        return [
            step.meeting.heard(peer)
            for step in self.steps
            if step.meeting is not None and peer in step.meeting.pair
        ]


def play(built: Built) -> Iterator[Run]:
    """Yield the run after each step, without checking anything."""
    run = Run(built, [], World.begin(built))
    for number, step in enumerate(built.scenario.steps):
        run.world.prepare(number)
        meeting = None
        if step.interlace is not None:
            meeting = run.world.meet(number, Fate(step.interlace, step.faults, built))
            meeting.link.run()
            if not step.stay:
                meeting.link.end()
        held = {peer.id: run.world.held(peer.id) for peer in built.scenario.peers}
        run.steps.append(StepRun(number=number, say=step.say, meeting=meeting, held=held))
        yield run


def run_scenario(built: Built, progress: Callable[[StepRun], None] = lambda _step: None) -> Run:
    """Run a scenario to its end and check each expectation where it stands."""
    from lace.scenario.verdicts import check_step  # it runs scenarios itself, to compare them

    run = Run(built, [], World.begin(built))
    for run in play(built):
        step = run.steps[-1]
        step.checks = check_step(run)
        progress(step)
    return run
