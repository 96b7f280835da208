"""What happens in exchanges that stay, or begin from memory: one course for each such thing.

A course is a case, and what the kit does while it is played. The other side has to serve, or to
stay connected. What else it has to do follows from what it hears, but for one course: there the kit
says when the other side is to change its selector.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from lace.clock import tai_now
from lace.crypto.keys import demo_key
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.interlace import messages as m
from lace.kit.cases import CHANGED, SELECTOR, Case, Part, hashes, store_of
from lace.kit.playing import Finding, Tapped, connection_of, ended_well, received, tidy
from lace.policy.module import PolicyModule, module_from_text
from lace.record import Record, build_plex
from lace.recordstore.memory import MemoryStore
from lace.selectors import selector
from lace.tai import NS_PER_SECOND, Tai, add_ns, difference_ns
from lace.transport.base import ByteStream

Streams = Callable[[], Awaitable[ByteStream]]

_NOTES: Final = selector("//kit//notes//")
_FEW: Final = selector("//kit//notes//n/")
_DUE: Final = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'kit'), Field(P,'TAI',_,T), TickTAI(N),"
    " LexCompare(T,'<=',N).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'kit'),"
    " AdvertisedField(P,S,'TAI',_,T), TickTAI(N), LexCompare(T,'<=',N).\n"
)
_TICK: Final = re.compile(rb"^TickReady\('([0-9:]{20})'\)$", re.MULTILINE)
_ADVERTISE: Final = 2  # set-up and hello come before the first advertise phase
_CLOCKS: Final = 5 * NS_PER_SECOND  # by which two clocks on the way may seem to differ


def _note(name: str, tai: str = "1600000000:000000000") -> Record:
    return build_plex(group="kit", app="notes", name=name, tai=tai, data=name.encode())


_BOTH: Final = tuple(_note(f"n/{number}") for number in range(12))
_THEIRS: Final = tuple(_note(f"m/{number}") for number in range(3))


@dataclass(slots=True, kw_only=True)
class Playing:
    """One course that is being played."""

    case: Case
    index: int
    streams: Streams
    """Makes or takes the next connection."""
    dialled: Callable[[], str]
    patience: int
    tell: Callable[[str], None]
    """Says to whoever runs the other side which selector it is to go on with now."""
    tick: int = NS_PER_SECOND
    """What the kit offers as the time between ticks, in nanoseconds."""
    store: MemoryStore = field(init=False)
    contacts: int = 0

    def __post_init__(self) -> None:
        self.store = store_of(self.part.records)

    @property
    def part(self) -> Part:
        return self.case.parts[self.index]

    @property
    def accepts(self) -> bool:
        """Whether the side that is tried accepts connections: then there may be two at a time."""
        return self.index == 1

    async def stay(self) -> _Stay:
        """Meet the other side, and stay."""
        stream = Tapped(await self.streams())
        self.contacts += 1
        connection = connection_of(
            self.part, self.index, self.store, stream, self.dialled(), self.patience,
            open=True, tick_interval=self.tick,
        )  # fmt: skip
        return _Stay(stream, connection, self.patience)

    async def meet(self, part: Part | None = None, *, store: MemoryStore | None = None) -> _Met:
        """Meet the other side until there is nothing new."""
        stream = Tapped(await self.streams())
        self.contacts += 1
        store = self.store if store is None else store
        connection = connection_of(
            part or self.part, self.index, store, stream, self.dialled(), self.patience
        )
        return _Met(stream, await Exchange(stream, connection).run(), store)

    async def give(self, record: Record) -> None:
        """Let the other side get a record from somebody else."""
        other = replace(self.part, key=None)
        await self.meet(other, store=store_of([record]))


@dataclass(slots=True)
class _Met:
    """A contact that is over."""

    stream: Tapped
    ended: m.Closed | m.Aborted
    store: MemoryStore

    @property
    def first(self) -> bytes:
        """What the other side said in its first advertise phase."""
        return (
            bytes(self.stream.blocks[_ADVERTISE]) if len(self.stream.blocks) > _ADVERTISE else b""
        )


class _Stay:
    """An exchange that goes on while the kit does things."""

    def __init__(self, stream: Tapped, connection: Connection, patience: int) -> None:
        self.stream = stream
        self.exchange = Exchange(stream, connection, listen=self._hear)
        self.plans: list[str] = []
        """Of each fixed point."""
        self._patience = patience
        self._moved = asyncio.Event()
        self._running = asyncio.create_task(self.exchange.run())

    def _hear(self, event: m.Event) -> None:
        if isinstance(event, m.FixedPoint):
            self.plans.append(str(event.result.plan))
        self._moved.set()

    def is_advertised(self, record: Record) -> bool:
        """Tell whether the other side advertises a record by now."""
        return str(record.hash) in self.exchange.connection.machine.tables[1]

    async def until(self, so: Callable[[], bool], seconds: float = 0) -> bool:
        """Wait until something is so; say whether it came to be, before the end and in time."""
        try:
            async with asyncio.timeout(self._patience + seconds):
                while not so():
                    if self._running.done():
                        return False
                    self._moved.clear()
                    waking = asyncio.create_task(self._moved.wait())
                    await asyncio.wait((self._running, waking), return_when="FIRST_COMPLETED")
                    waking.cancel()
        except TimeoutError:
            return False
        return True

    async def close(self) -> Finding:
        """End in order; say whether the other side lets it."""
        self.exchange.give(m.CloseRequested())
        ended = await self._running
        return ended_well(ended, self.stream)


def _check(name: str, ok: bool, detail: str = "") -> Finding:
    return {"check": name, "ok": ok} | ({} if ok or not detail else {"detail": detail})


# --- the courses ---


async def _open(playing: Playing) -> AsyncIterator[Finding]:
    staying = await playing.stay()
    yield _check("fixed point", await staying.until(lambda: len(staying.plans) == 1))
    mine = _note("n/later")
    playing.store.save([mine])
    staying.exchange.give(m.Woken())
    taken = await staying.until(lambda: staying.is_advertised(mine))
    yield _check("taken later", taken, "what the kit stored after the fixed point was not taken")
    if playing.accepts:
        theirs = _note("n/of somebody else")
        await playing.give(theirs)
        told = await staying.until(lambda: str(theirs.hash) in hashes(playing.store))
        yield _check("told later", told, "what came from somebody else was not told here")
    yield await staying.close()


async def _set_up(playing: Playing) -> AsyncIterator[Finding]:
    staying = await playing.stay()
    yield _check("fixed point", await staying.until(lambda: len(staying.plans) == 1))
    for number, module in ((2, _NOTES), (3, _FEW)):
        staying.exchange.give(m.OperandChanged(module))
        again = await staying.until(lambda number=number: len(staying.plans) >= number)  # type: ignore[misc]
        yield _check("set up again", again, f"there was no fixed point after set-up {number}")
    plans = staying.plans
    yield _check("plan", len(plans) == 3 and plans[0] == plans[2] != plans[1])
    yield received(playing.case.stores[playing.index], hashes(playing.store))
    yield await staying.close()


async def _change(playing: Playing) -> AsyncIterator[Finding]:
    staying = await playing.stay()
    yield _check("fixed point", await staying.until(lambda: len(staying.plans) == 1))
    late = "it began no set-up, or none that led to a fixed point"
    playing.tell(CHANGED)
    yield _check("set up again", await staying.until(lambda: len(staying.plans) == 2), late)
    # As if both had begun at once: the kit begins a loop before it looks at the other's module.
    new = _note("n/later")

    async def begin() -> None:
        playing.store.save([new])
        staying.exchange.give(m.Woken())
        await staying.stream.says()

    staying.stream.before_module = begin
    playing.tell(SELECTOR)
    yield _check("set up again", await staying.until(lambda: len(staying.plans) == 3), late)
    plans = staying.plans
    yield _check("plan", len(plans) == 3 and plans[0] == plans[2] != plans[1])
    taken = await staying.until(lambda: staying.is_advertised(new))
    yield _check("taken later", taken, "what the kit stored meanwhile was not taken")
    expected = playing.case.stores[playing.index] | {str(new.hash)}
    yield received(expected, hashes(playing.store))
    yield await staying.close()


async def _ticks(playing: Playing) -> AsyncIterator[Finding]:
    staying = await playing.stay()
    yield _check("fixed point", await staying.until(lambda: len(staying.plans) == 1))
    agreed = staying.exchange.connection.machine.agreement
    if agreed is not None:
        late = _note("n/due", add_ns(agreed.start, agreed.tick_interval))
        playing.store.save([late])
        staying.exchange.give(m.Woken())
        seconds = 2 * agreed.tick_interval / NS_PER_SECOND
        came = await staying.until(lambda: staying.is_advertised(late), seconds)
        yield _check(
            "due", came, "what became due was not taken: time did not move, or it was not asked for"
        )
        said = [Tai(one.decode()) for one in _TICK.findall(b"".join(staying.stream.blocks))]
        yield _check("ticks", bool(said), "it never said TickReady")
        ahead = [one for one in said if difference_ns(one, tai_now()) > _CLOCKS]
        yield _check("ticks in time", not ahead, "it said that it had reached an instant to come")
    yield await staying.close()


async def _cursors(playing: Playing) -> AsyncIterator[Finding]:
    has = playing.case.stores[playing.index]
    met = await playing.meet()
    yield ended_well(met.ended, met.stream)
    yield received(has, hashes(playing.store))
    # Each side begins from what both had, and the kit tells what is new.
    new = _note("n/new")
    playing.store.save([new])
    met = await playing.meet()
    yield ended_well(met.ended, met.stream)
    sent = {str(name) for name in met.ended.result.sent}
    yield _check("what is new", sent == {str(new.hash)}, f"{len(sent)} records were asked for")
    # The kit comes with the same key from another machine: it remembers nothing, and has less.
    left = [record for name, record in playing.case.records.items() if name in has][1:]
    met = await playing.meet(store=store_of(left))
    yield ended_well(met.ended, met.stream)
    yield received(has | {str(new.hash)}, hashes(met.store))
    # Whoever proves nothing may be anybody.
    met = await playing.meet(replace(playing.part, key=None))
    yield ended_well(met.ended, met.stream)
    delta = b"AdvertisementDelta(" in met.first
    yield _check(
        "unproven", not delta, "it told somebody who proved nothing what is new since last time"
    )


@dataclass(frozen=True, slots=True)
class Course:
    """A case, and what the kit does while it is played."""

    name: str
    about: str
    modules: tuple[PolicyModule, PolicyModule]
    """Of the side that is tried, and of the kit."""
    play: Callable[[Playing], AsyncIterator[Finding]]
    keys: bool = True
    changed: PolicyModule | None = None
    """What the side that is tried changes to, when it is told."""

    def case(self, index: int) -> Case:
        """Return the case, with the kit on the side of this index."""
        tried = Part(
            module=self.modules[0], records=(*_BOTH, *_THEIRS),
            key=demo_key("kit course tried") if self.keys else None, changed=self.changed,
        )  # fmt: skip
        kit = Part(
            module=self.modules[1], records=_BOTH[:10],
            key=demo_key("kit course") if self.keys else None,
        )  # fmt: skip
        both = frozenset(str(record.hash) for record in tried.records)
        return Case(
            name=f"course: {self.name}",
            parts=(tried, kit) if index == 1 else (kit, tried),
            stores=(both, both),
        )


COURSES: Final = {
    course.name: course
    for course in (
        Course("open", "records that come later, also from others", (_NOTES, _NOTES), _open),
        Course("set-up", "a second and a third set-up on one connection", (_NOTES, _FEW), _set_up),
        Course("change", "a set-up that the other side begins, when it is told to", (_FEW, _NOTES),
               _change, changed=_NOTES),
        Course("ticks", "a record that becomes due", (_DUE, _DUE), _ticks, keys=False),
        Course("cursors", "contacts that begin from memory, or not", (_NOTES, _NOTES), _cursors),
    )
}  # fmt: skip


async def play(
    course: Course,
    index: int,
    streams: Streams,
    dialled: Callable[[], str],
    *,
    patience: int = 10,
    tick: int = NS_PER_SECOND,
    tell: Callable[[str], None],
) -> AsyncIterator[Finding]:
    """Play a course on the side of this index; yield what was found, right or not."""
    playing = Playing(
        case=course.case(index), index=index, streams=streams, dialled=dialled,
        patience=patience, tick=tick, tell=tell,
    )  # fmt: skip
    async for finding in course.play(playing):
        common = {"case": playing.case.name, "contact": playing.contacts}
        yield tidy(common | finding)
