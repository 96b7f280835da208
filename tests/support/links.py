"""Exchanges over one link, one after the other: two stores, two proven sides, what they know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exchanges import AUTHORITY, BOB, EVE, NOTES, NOW
from sides import Pair, Participant

from lace.answering.memory import read_known
from lace.answering.warm import WarmLinks
from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore, SqliteStore, StoreRecordId
from lace.recordstore.base import LinkMemory, RecordStore
from lace.tai import NS_PER_SECOND, Tai, add_ns

KEYS: tuple[SigningKey, ...] = (AUTHORITY, BOB, EVE)
SELECTED = Exposure(default="selected")
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: Takes what has a tag that some grant here names: what is wanted may come long after the offer.
GRANTED = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Tag',_,T), Good(T).\n"
    "Good(T) :- Have(Q), Field(Q,'App',_,'grant'), Field(Q,'Tag',_,T).\n"
)
TAG = [("Tag", "t0")]

Stores = tuple[RecordStore, RecordStore]
Tamper = Callable[[int, m.Incoming], list[m.Incoming]]


def later(seconds: float) -> Tai:
    return add_ns(NOW, int(seconds * NS_PER_SECOND))


def held(store: RecordStore) -> set[str]:
    return {entry.hash for entry in store.read(StoreRecordId(0), 10**6)}


def copied(store: RecordStore) -> MemoryStore:
    """Return a store with the same records that remembers nothing."""
    made = MemoryStore()
    made.save(
        filter(None, (store.load(entry.hash) for entry in store.read(StoreRecordId(0), 10**6)))
    )
    return made


@contextmanager
def two_stores(kind: str, folder: Path) -> Iterator[Stores]:
    """Give two empty stores, in memory or in files."""
    with ExitStack() as stack:
        if kind == "memory":
            yield MemoryStore(), MemoryStore()
        else:
            paths = folder / "left", folder / "right"
            left, right = (stack.enter_context(SqliteStore(path)) for path in paths)
            yield left, right


def link_of(store: RecordStore, key: bytes) -> LinkMemory | None:
    """Return what a store keeps for a link, read whole, so that nothing stays open."""
    kept = store.link(key)
    if kept is not None:
        kept.hold()
    return kept


class Meeting:
    """One exchange between two stores, with what was asked and said."""

    def __init__(
        self,
        stores: Sequence[RecordStore],
        modules: tuple[PolicyModule, PolicyModule] = (NOTES, NOTES),
        *,
        remembers: bool = True,
        stays: bool = False,
        exposure: Exposure | tuple[Exposure, Exposure] = SELECTED,
        now: Tai = NOW,
        warm: tuple[WarmLinks | None, WarmLinks | None] | None = None,
        keys: tuple[int, int] = (0, 1),
        limits: Limits = DEFAULT_LIMITS,
        runs: bool = True,
        tamper: Tamper = lambda _side, crossing: [crossing],
        **options: object,
    ) -> None:
        self.now = now
        self.asked_by: tuple[list[m.Effect], list[m.Effect]] = [], []
        self.crossed: list[tuple[int, m.Incoming]] = []
        self._tamper = tamper
        sides = []
        for index, store in enumerate(stores):
            side = Side(
                index=index, module=modules[index], open=stays, remembers=remembers, limits=limits,
                verifier=KEYS[keys[index]].verifier, peer_verifier=KEYS[keys[1 - index]].verifier,
                **options,  # type: ignore[arg-type]
            )  # fmt: skip
            shown = exposure if isinstance(exposure, Exposure) else exposure[index]
            kept = None if warm is None else warm[index]
            made = Participant(store, side, shown, limits, warm=kept, whole=False)
            self._watch(made, index)
            sides.append(made)
        self.pair = Pair(sides[0], sides[1], self._hear)
        if runs:
            self.run()

    def _watch(self, side: Participant, index: int) -> None:
        receive = side.machine.receive

        def watched(given: m.Input, now: Tai) -> list[m.Effect]:
            effects = receive(given, now)
            self.asked_by[index].extend(effects)
            return effects

        side.machine.receive = watched  # type: ignore[method-assign]

    def _hear(self, side: int, crossing: m.Incoming) -> list[m.Incoming]:
        self.crossed.append((side, crossing))
        return self._tamper(side, crossing)

    def run(self) -> Meeting:
        self.pair.start(self.now)
        self.pair.run(self.now)
        return self

    def wake(self, sides: Sequence[int] = (0, 1), now: Tai | None = None) -> Meeting:
        """Let sides look at what is new, as a driver does when something was stored."""
        self.now = now or self.now
        for index in sides:
            self.pair.give(index, m.Woken(), self.now)
        self.pair.run(self.now)
        return self

    def tick(self, now: Tai) -> Meeting:
        """Let the timers run out that have run out by now, side by side."""
        self.now = now
        for index in (0, 1):
            self.pair.fire(index, now)
        self.pair.run(now)
        return self

    def change(self, side: int, module: PolicyModule) -> Meeting:
        """Go on with another selector on one side."""
        self.pair.give(side, m.OperandChanged(module), self.now)
        self.pair.run(self.now)
        return self

    def end(self) -> Meeting:
        """Take the connection away; both sides must have ended in order."""
        self.pair.end(self.now)
        for side in self.pair.sides:
            assert isinstance(side.told[-1], m.Closed), side.told[-1]
        return self

    def close(self) -> None:
        """Close what an exchange that a side aborted still reads."""
        for side in self.pair.sides:
            side.local.close()

    # --- what became of it ---

    @property
    def asked(self) -> list[m.Effect]:
        """What either side asked for, and did."""
        return [effect for effects in self.asked_by for effect in effects]

    def ticks(self, side: int) -> list[str]:
        """The TickTAI of each evaluation of one side, in order."""
        evaluations = (e for e in self.asked_by[side] if isinstance(e, m.Evaluate))
        return [fact[1] for e in evaluations for fact in e.runtime if fact[0] == "TickTAI"]

    @property
    def said(self) -> list[bytes]:
        """The fact blocks that crossed."""
        return [c.content for _, c in self.crossed if isinstance(c, m.PeerFacts)]

    def said_by(self, side: int) -> list[m.Incoming]:
        return [crossing for index, crossing in self.crossed if index == side]

    def facts(self, side: int, predicate: str) -> list[str]:
        """The facts of one predicate that one side said, each as its line."""
        blocks = [c.content.decode() for c in self.said_by(side) if isinstance(c, m.PeerFacts)]
        lines = [line for block in blocks for line in block.splitlines()]
        return [line for line in lines if line.startswith(f"{predicate}(")]

    @property
    def worked(self) -> list[bool]:
        """Whether each side had to look at its records."""
        return [side.local.has_looked for side in self.pair.sides]

    @property
    def idle(self) -> bool:
        return all(side.idle for side in self.pair.sides)

    def results(self, side: int) -> list[m.InterlaceResult]:
        """The results of one side's fixed points so far."""
        told = self.pair.sides[side].told
        return [event.result for event in told if isinstance(event, m.FixedPoint)]

    def advertised(self, side: int) -> set[str]:
        """What one side advertises, as it says itself."""
        return self._tables(side)[0]

    def believed(self, side: int) -> set[str]:
        """What one side believes that the other one advertises."""
        return self._tables(side)[1]

    def _tables(self, side: int) -> list[set[str]]:
        """What one side advertises, and what it believes that the other one does."""
        made, tables = self.pair.sides[side], self.pair.sides[side].machine.tables
        links = [e.link for e in self.asked_by[side] if isinstance(e, m.Remember) and e.link]
        kept = link_of(made.local.store, links[-1]) if made.ended and links else None
        if kept is None:
            return [set(table.records("")) for table in tables]
        known = read_known(kept, made.local.parameters.standard_prefix)  # else it is closed by now
        assert known is not None
        return [set(table.records("")) for table in (known.state.own, known.state.peers)]


def left_over(
    stores: Sequence[RecordStore], modules: tuple[PolicyModule, PolicyModule], **options: object
) -> list[tuple[str, ...]]:
    """Return what each side would get by an exchange from scratch: nothing, at a fixed point."""
    copies = [copied(store) for store in stores]
    meeting = Meeting(copies, modules, remembers=False, **options).end()  # type: ignore[arg-type]
    return [meeting.results(side)[-1].received for side in (0, 1)]
