"""Seeded exchanges with an adversary between the sides; every seed replays exactly.

A world is made from a seed: stores, rules, exposures, limits. A schedule delivers what the sides
say: in any interleaving, cut into any blocks, with clocks that differ, with a connection that
breaks and comes back. A hostile schedule also lies for one of the sides. What an honest side says
is checked against its own policy and store at the moment it is said.
"""

from __future__ import annotations

import random
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import forge
from sides import Participant
from small_room import room

from lace import b64a
from lace.codes import Code
from lace.crypto import SigningKey
from lace.datalog.source import parse_facts
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace import sketch
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.interlace.phases import Phase
from lace.limits import MIB, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, build_plex, facts, fields, seal, validate_record
from lace.recordstore import MemoryStore
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.rules import LocalFacts
from lace.selectors import any_of, selector, with_support
from lace.tai import NS_PER_SECOND, Tai, add_ns
from lace.vocabulary import FIELD, HAVE

NOW = Tai("1700000000:000000000")
#: Holds a hello, the cells of some dozen differences, and few advertisements.
SMALL_BLOCK = 5000
#: Cells, names and digests, as facts say them.
BYTES = re.compile(
    rb"((?:AdvertisementSketch\('\d+',|AdvertisementTable\('\d+',|AdvertisementDelta\("
    rb"|ListAdvertisementItems\()')([^']+)'\)"
)
#: Lengths of the tags of records, in turn.
LONG = ((), (1,), (500, 900), (), (300, 1, 700), (900,))
KEYS = [forge.KEY, *(SigningKey(bytes([i]) * 32) for i in range(1, 4))]
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: As much, and tags are advertised, which may be long.
TAGGED = module_from_text(
    f"{EVERYTHING.text}SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Tag',_,'t').\n"
)
MODULES: list[PolicyModule] = [
    room("//g//notes//", authority=KEYS[0].verifier),
    room("//g//notes//", authority=KEYS[0].verifier, delegation=True, revocation_app="ended"),
    selector("//g//notes//"),
    with_support(selector("//g//notes/message//")),
    any_of(selector("//g//notes/member//"), selector("//h//other//x/")),
    EVERYTHING,
    TAGGED,
]
MONOTONE = [MODULES[0], *MODULES[2:]]
ONE_BY_ONE = [MODULES[2], MODULES[4], EVERYTHING, TAGGED]
"""They decide on each record by itself."""
EVIL = seal(
    build_plex(group="g", app="notes", name="evil", tai=f"{1:010d}:{0:09d}"), KEYS[3], aux=forge.AUX
)


def population(chance: random.Random, most: int = 25) -> list[Record]:
    """Return records of a room: grants, notes, links, strangers."""
    made: list[Record] = []
    for number in range(chance.randint(0, most)):
        app = chance.choice(["notes/member", "notes/message", "notes/ended", "notes", "other"])
        extras: list[tuple[str, str]] = []
        if app in {"notes/member", "notes/ended"}:
            extras.append(("Member", chance.choice(KEYS).verifier))
        if made and chance.random() < 0.4:
            extras.append(("+Link", f"evidence {chance.choice(made).hash}"))
        extras += [("Tag", chance.choice("tuv") * length) for length in LONG[number % len(LONG)]]
        group = chance.choice(["g", "g", "g", "h"])
        name = chance.choice(["n", "x/y"]) + f"/{number}"
        plex = build_plex(
            group=group, app=app, name=name, tai=f"{number:010d}:{0:09d}", extras=extras
        )
        made.append(
            seal(plex, chance.choice(KEYS), aux=forge.AUX) if chance.random() < 0.8 else plex
        )
    return made


def held(store: RecordStore) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for stored in store.read(StoreRecordId(0), 10**6):
        record = store.load(stored.hash)
        assert record is not None
        found[record.hash] = record
    return found


def small_parameters(chance: random.Random) -> Parameters:
    """Return sizes by which few records go through every way that millions would."""
    return Parameters(
        list_up_to=chance.choice([0, 1, 3, 8]),
        summarize_up_to=chance.choice([0, 2, 8]),
        tell_at_once=chance.choice([0, 2, 10_000]),
        sketch_from=chance.choice([0, 1, 5, 64]),
        sketch_block=chance.choice([SMALL_BLOCK, 4 * MIB]),
        list_at_once=chance.choice([1, 4, 20_000]),
        advert_bytes=chance.choice([1, 1, 1024]),
        describe_at_once=chance.choice([1, 3, 1000]),
        request_at_once=chance.choice([5, 100_000]),
        place_from=chance.choice([0, 2, 8]),
        serve_at_once=chance.choice([1, 2, 256]),
        save_at_once=chance.choice([1, 3, 1024]),
        validate_at_once=chance.choice([1, 2, 256]),
        foresee_from=chance.choice([0, 2, 256]),
        hold_bytes=chance.choice([1, 1000, 1 << 22]),
        hold_cut_bytes=chance.choice([1, 200, 1 << 16]),
        hold_fresh_bytes=chance.choice([0, 500, 1 << 26]),
        note_up_to=chance.choice([0, 4, 20_000]),
        answer_at_once=chance.choice([1, 4, 5000]),
        put_at_once=chance.choice([1, 5, 32_768]),
        scan_from=chance.choice([0, 3, 1000]),
        most_guards=chance.choice([1, 1000, 1000]),
        standard_prefix=chance.choice([1, 2]),
    )


def small_blocks(chance: random.Random) -> dict[str, int]:
    """Return limits of sides whose advertisements may be too many, or too large, for a block."""
    block = chance.choice([SMALL_BLOCK // 2, SMALL_BLOCK, 64 * MIB, 64 * MIB])
    deferred = 100_000 if block <= SMALL_BLOCK else chance.choice([0, 100_000])
    return {"max_fact_block_size": block, "max_deferred_advertisements": deferred}


@dataclass(slots=True)
class World:
    """Two sides before they meet."""

    stores: tuple[MemoryStore, MemoryStore]
    sides: tuple[Side, Side]
    exposures: tuple[Exposure, Exposure]

    @classmethod
    def make(cls, chance: random.Random, modules: list[PolicyModule] = MODULES) -> World:
        everything = population(chance)
        stores = MemoryStore(), MemoryStore()
        for store in stores:
            store.save([record for record in everything if chance.random() < 0.6])
        limits = Limits(
            max_loop_iterations=64,
            clock_seconds=10**9,
            max_narrowing_depth=chance.choice([0, 2, 12]),
            max_partition_summaries=chance.choice([0, 100, 16_384]),
            max_advertisements_in_delta=chance.choice([0, 3, 100_000]),
            max_cells_in_sketch=chance.choice([0, 8, 64, 65_536]),
            max_places_listed=chance.choice([0, 4, 100_000]),
            transfer_phase_bytes=chance.choice([1, 2000, 1 << 25]),
            **small_blocks(chance),
        )
        coarse = chance.random() < 0.5
        exposure = chance.choice(
            [Exposure(default="selected"), Exposure(default="everything"), Exposure()]
        )
        parameters = small_parameters(chance)
        sides = [
            Side(
                index=i, module=chance.choice(modules), limits=limits, coarse=coarse,
                parameters=parameters,
            )
            for i in (0, 1)
        ]  # fmt: skip
        return cls(stores, (sides[0], sides[1]), (exposure, exposure))

    def participants(self) -> tuple[Participant, Participant]:
        made = [
            Participant(store, side, exposure, side.limits)
            for store, side, exposure in zip(self.stores, self.sides, self.exposures, strict=True)
        ]
        return made[0], made[1]


# --- what the definition says ---


def naive(world: World, start: Tai, skew: int) -> tuple[set[str], set[str]]:
    """Run an exchange from its definition: evaluate everything afresh, move all that may move."""
    stores = [held(store) for store in world.stores]
    plan = ExchangePlan(
        label_operands(
            Party(index=0, module=world.sides[0].module),
            Party(index=1, module=world.sides[1].module),
        )
    )
    time = [("StartTAI", start), ("TickTAI", start), ("ClockSkewSeconds", str(skew))]
    adverts: list[dict[str, Record]] = [{}, {}]  # what each side has heard of the other

    def policy(index: int) -> ExchangePolicy:
        source = LocalFacts(fact for r in stores[index].values() for fact in facts(r))
        label = plan.operands[1 - index].source_label
        for fact in time:
            source.add(fact)
        for record in adverts[index].values():
            source.add(("Advertised", record.hash, label))
            for name, number, value in fields(record):
                source.add(("AdvertisedField", record.hash, label, name, str(number), value))
        return ExchangePolicy(plan, index, source, world.exposures[index])

    while True:
        sendable = [{h for (h,) in policy(i).may_send if h in stores[i]} for i in (0, 1)]
        for index in (0, 1):
            adverts[index] = {h: stores[1 - index][h] for h in sendable[1 - index]}
        moved = []
        for index in (0, 1):
            wanted = {h for (h,) in policy(index).may_request} - set(stores[index])
            moved.append({h: adverts[index][h] for h in wanted if h in adverts[index]})
        # A request is served only while it may still be sent, after the second evaluation.
        again = [{h for (h,) in policy(i).may_send if h in stores[i]} for i in (0, 1)]
        for index in (0, 1):
            moved[index] = {h: r for h, r in moved[index].items() if h in again[1 - index]}
        if not any(moved) and again == sendable:
            return set(stores[0]), set(stores[1])
        for index in (0, 1):
            stores[index] |= moved[index]


# --- what an honest side may say ---


def check_saying(side: Participant, crossing: m.Incoming) -> None:
    """Fail unless what a side says is what its policy and its store allow right now."""
    local = side.local.policy
    if isinstance(crossing, m.PeerRecord):
        assert local is not None
        record = validate_record(crossing.raw).unwrap()
        assert (record.hash,) in local.may_send  # 050-COR-04
        assert side.store.has(record.hash)
    elif isinstance(crossing, m.PeerFacts):
        for fact in parse_facts(crossing.content):
            if fact[0] == "Advertised":
                assert local is not None
                assert (fact[1],) in local.may_send  # 050-STA-06
                assert fact[2] == local.local.source_label
            elif fact[0] in {"MayRequest", "RequestListed"}:
                assert local is not None
                asked = side.machine._transfer._outstanding
                for name in asked if fact[0] == "RequestListed" else fact[1:]:
                    assert name in asked
                    assert (name,) in local.may_request  # 050-COR-03
                    assert not side.store.has(RecordHash(name))
                    assert name in side.machine._adverts.table


def check_side(side: Participant) -> None:
    """Fail unless the facts a side goes by are those of validated records (050-STA-04, -07)."""
    if side.local.policy is not None:
        source = side.local.policy.source
        have = {row[0] for row in source.iterate(HAVE)}
        assert {row[0] for row in source.iterate(FIELD)} <= have
        assert all(side.store.has(RecordHash(record)) for record in have)


def check_end(side: Participant, before: dict[str, Record]) -> None:
    """Fail unless an exchange ended once, lost nothing, and let nothing in that is not valid."""
    assert side.closed
    after = held(side.store)
    assert set(before) <= set(after)
    assert all(validate_record(record.raw).ok for record in after.values())
    ends = [event for event in side.told if isinstance(event, m.Closed | m.Aborted)]
    assert len(ends) == 1
    assert side.told[-1] is ends[0]
    if isinstance(ends[0], m.Aborted):
        assert not any(isinstance(event, m.FixedPoint) for event in side.told)


def check_selected(side: Participant, before: dict[str, Record]) -> None:
    """Fail unless what came is what rules select by the fields that it has (050-ADF-04)."""
    came = [record for hash, record in held(side.store).items() if hash not in before]
    local = side.local.policy
    if not came or local is None:
        return
    label, source = local.peer.source_label, LocalFacts(())
    for record in came:
        source.add(("Advertised", record.hash, label))
        for name, number, value in fields(record):
            source.add(("AdvertisedField", record.hash, label, name, str(number), value))
    policy = ExchangePolicy(local.plan, local.local.index, source, Exposure())
    assert {record.hash for record in came} <= {record for (record,) in policy.may_request}


# --- schedules ---

Lie = Callable[[m.Incoming], list[m.Incoming]]


@dataclass(slots=True)
class Schedule:
    """Delivers what two sides say, in an order that chance decides."""

    sides: tuple[Participant, Participant]
    chance: random.Random
    skew: tuple[int, int] = (0, 0)
    """Seconds by which each clock is ahead."""
    lie: Lie | None = None
    """What becomes of that which side 0 says."""
    cut_after: int | None = None
    """Break the connection after so many deliveries."""
    _queues: tuple[deque[m.Incoming], deque[m.Incoming]] = field(
        default_factory=lambda: (deque(), deque())
    )

    def run(self) -> None:
        """Deliver until both sides are through, or nothing moves any more."""
        for index in self.chance.sample((0, 1), 2):
            self._give(index, m.Started())
        delivered = 0
        while waiting := [i for i in (0, 1) if self._queues[i] and not self.sides[i].closed]:
            if delivered == self.cut_after:
                break
            index = self.chance.choice(waiting)
            for _ in range(self.chance.randint(1, 4)):  # a slow peer gets a little at a time
                if self._queues[index]:
                    self._give(index, self._queues[index].popleft())
            delivered += 1
        for index, side in enumerate(self.sides):
            if not side.closed:
                self._give(index, m.PeerGone())

    def _give(self, index: int, given: m.Input) -> None:
        side = self.sides[index]
        said = side.give(given, self.now(index))
        honest = index == 1 or self.lie is None
        if honest:
            check_side(side)
        for crossing in said:
            if honest:
                check_saying(side, crossing)
                self._queues[1 - index].extend(self._cut(crossing))
            else:
                assert self.lie is not None
                self._queues[1].extend(self.lie(crossing))

    def now(self, index: int) -> Tai:
        return add_ns(NOW, self.skew[index] * NS_PER_SECOND)

    def _cut(self, crossing: m.Incoming) -> list[m.Incoming]:
        """Cut a block of facts between lines, as a stream might."""
        if not isinstance(crossing, m.PeerFacts) or self.chance.random() < 0.7:
            return [crossing]
        lines = crossing.content.splitlines(keepends=True)
        at = self.chance.randint(0, len(lines))
        parts = (lines[:at], lines[at:])
        return [m.PeerFacts(b"".join(part)) for part in parts if part]


@dataclass(slots=True)
class Liar:
    """Says almost what its side says."""

    chance: random.Random
    secret: str
    """A record that the other side has and must not show."""
    rate: float = 0.1
    _recent: list[m.Incoming] = field(default_factory=list)

    def __call__(self, crossing: m.Incoming) -> list[m.Incoming]:
        self._recent.append(crossing)
        if self.chance.random() >= self.rate:
            return [crossing]
        return self.chance.choice(self._ways)(crossing)

    @property
    def _ways(self) -> list[Lie]:
        return [
            self._drop, self._twice, self._old, self._late, self._unasked, self._flip, self._claim,
            self._ask, self._narrow, self._summary, self._tick, self._flood, self._module,
            self._not_available, self._places, self._defer, self._go_on, self._other_bytes,
        ]  # fmt: skip

    def _drop(self, _: m.Incoming) -> list[m.Incoming]:
        return []

    def _twice(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [crossing, crossing]

    def _old(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [crossing, self.chance.choice(self._recent)]

    def _late(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerPhaseEnd(), crossing]

    def _unasked(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerRecord(EVIL.raw), crossing]

    def _flip(self, crossing: m.Incoming) -> list[m.Incoming]:
        match crossing:
            case m.PeerRecord(raw=content) | m.PeerFacts(content=content) if content:
                changed = bytearray(content)
                changed[self.chance.randrange(len(changed))] ^= 1 << self.chance.randrange(8)
                return [type(crossing)(bytes(changed))]
            case m.PeerModule():
                return [replace(crossing, content=crossing.content[:-1])]
        return [crossing]

    def _claim(self, crossing: m.Incoming) -> list[m.Incoming]:
        claim = self.chance.choice([b"Advertised('P.x.H9','V.liar')\n", b"MaySend('P.x.H3')\n"])
        return [m.PeerFacts(claim), crossing]

    def _ask(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerFacts(f"MayRequest('{self.secret}')\n".encode()), crossing]

    def _narrow(self, crossing: m.Incoming) -> list[m.Incoming]:
        kind = self.chance.choice(["List", "Narrow"])
        prefix = self.chance.choice(["", "0", "zz", "~" * 43, "x" * 50])
        return [m.PeerFacts(f"{kind}AdvertisementPartition('{prefix}')\n".encode()), crossing]

    def _summary(self, crossing: m.Incoming) -> list[m.Incoming]:
        root = "0" * 43
        count = self.chance.choice([0, 1, 9, 10**9, 10**40])
        prefix = self.chance.choice(["", "ab"])
        text = f"AdvertisementPartition('{prefix}','{count}','{root}')\n"
        return [m.PeerFacts(text.encode()), crossing]

    def _tick(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerFacts(b"TickReady('9999999999:000000000')\n"), crossing]

    def _flood(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerFacts(b"MayRequest('P.x.H9')\n" * 3000), *[m.PeerPhaseEnd()] * 50, crossing]

    def _module(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerModule(EVERYTHING.id, EVERYTHING.text.encode()), crossing]

    def _not_available(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerFacts(b"NotAvailable('P.x.H9')\n"), crossing]

    def _places(self, crossing: m.Incoming) -> list[m.Incoming]:
        first, last = (self.chance.choice(["0", "1", "7", "99", "x", ""]) for _ in range(2))
        return [m.PeerFacts(f"RequestListed('{first}','{last}')\n".encode()), crossing]

    def _defer(self, crossing: m.Incoming) -> list[m.Incoming]:
        count = self.chance.choice(["0", "1", "2", "100000", "100001", "x", ""])
        return [m.PeerFacts(f"AdvertisementsDeferred('{count}')\n".encode()), crossing]

    def _other_bytes(self, crossing: m.Incoming) -> list[m.Incoming]:
        """Say other cells, other names, the digest of another table or of another base."""
        if not isinstance(crossing, m.PeerFacts):
            return [crossing]

        def chosen(found: re.Match[bytes]) -> bytes:
            count = len(b64a.decode(found[2].decode()))
            return found[1] + b64a.encode(self.chance.randbytes(count)).encode() + b"')"

        return [m.PeerFacts(BYTES.sub(chosen, crossing.content))]

    def _go_on(self, crossing: m.Incoming) -> list[m.Incoming]:
        return [m.PeerFacts(b"ListDeferredAdvertisements()\n"), crossing]


# --- the simulations ---


def honest(seed: int) -> None:
    """Honest sides reach the fixed point of the definition, in whatever order things arrive."""
    chance = random.Random(seed)
    world = World.make(chance)
    skew = chance.choice([(0, 0), (7, 0), (0, 3600)])
    start = add_ns(NOW, max(skew) * NS_PER_SECOND)
    expected = naive(world, start, abs(skew[0] - skew[1]))
    before = [held(store) for store in world.stores]
    sides = world.participants()
    Schedule(sides, chance, skew).run()
    for side, was in zip(sides, before, strict=True):
        check_end(side, was)
        assert any(isinstance(event, m.FixedPoint) for event in side.told), side.told[-1]
    assert tuple(set(held(store)) for store in world.stores) == expected


def alike(chance: random.Random) -> World:
    """Return a world in which both sides have nearly the same, so that they go by sketches."""
    world = World.make(chance, [MODULES[2], EVERYTHING, TAGGED])
    everything = population(chance, 60)
    for store in world.stores:
        store.save([record for record in everything if chance.random() < 0.9])
    limits = replace(
        world.sides[0].limits,
        max_advertisements_in_delta=chance.choice([3, 100_000]),
        max_cells_in_sketch=chance.choice([8, 64, 65_536, 65_536]),
        max_fact_block_size=64 * MIB,
    )
    parameters = replace(
        world.sides[0].parameters, list_up_to=0, sketch_from=chance.choice([0, 1, 5])
    )
    one, other = (replace(side, limits=limits, parameters=parameters) for side in world.sides)
    return World(world.stores, (one, other), (Exposure(default="everything"),) * 2)


def sketched(seed: int) -> None:
    """Sides that find out by sketches what differs reach the fixed point, whatever these miss."""
    chance = random.Random(seed)
    world = alike(chance)
    expected = naive(world, NOW, 0)
    sides = world.participants()
    with names_of_bits(chance.choice([1, 3, 8, 64, 64, 64])):
        Schedule(sides, chance).run()
    for side in sides:
        assert any(isinstance(event, m.FixedPoint) for event in side.told), side.told[-1]
    assert tuple(set(held(store)) for store in world.stores) == expected


@contextmanager
def names_of_bits(bits: int) -> Iterator[None]:
    """Have names in sketches so many bits; if these are few, names collide and sketches miss."""
    whole = sketch.names_of

    def cut(key: bytes, adverts: Iterable[bytes]) -> array[int]:
        return array("Q", [name >> 64 - bits for name in whole(key, adverts)])

    sketch.names_of = cut
    try:
        yield
    finally:
        sketch.names_of = whole


def broken(seed: int) -> None:
    """A connection that breaks and comes back delays the fixed point, and loses nothing."""
    chance = random.Random(seed)
    world = World.make(chance, MONOTONE)
    expected = naive(world, NOW, 0)
    for attempt in range(100):
        before = [held(store) for store in world.stores]
        sides = world.participants()
        cut = chance.randint(0, 40) if attempt < 20 else None
        Schedule(sides, chance, cut_after=cut).run()
        for side, was in zip(sides, before, strict=True):
            check_end(side, was)
        if all(isinstance(event, m.Closed) for event in (s.told[-1] for s in sides)):
            break
    assert tuple(set(held(store)) for store in world.stores) == expected


def hostile(seed: int) -> None:
    """A peer that lies ends its own exchange, and nothing else."""
    chance = random.Random(seed)
    check_against_lies(World.make(chance), chance)


def misled(seed: int) -> None:
    """So does one that lies about tables and sketches."""
    chance = random.Random(seed)
    check_against_lies(alike(chance), chance)


def dressed(seed: int) -> None:
    """A peer that advertises records as what they are not gets nothing in that rules refuse."""
    chance = random.Random(seed)
    world = World.make(chance, ONE_BY_ONE)
    liar, honest = world.stores
    records = [*held(liar).values()]
    disguised = MemoryStore()
    disguised.save([disguise(record, chance.choice(records)) for record in records])
    before = held(honest)
    sides = replace(world, stores=(disguised, honest)).participants()
    Schedule(sides, chance).run()
    check_end(sides[1], before)
    check_selected(sides[1], before)


def disguise(record: Record, other: Record) -> Record:
    """Return a record whose bytes are those of one, and whose fields are those of another."""
    return type(other)(record.hash, record.raw, other.parts)


def check_against_lies(world: World, chance: random.Random) -> None:
    secret = build_plex(group="secret", app="diary", name="1", tai=f"{1:010d}:{0:09d}")
    world.stores[1].save([secret])
    before = held(world.stores[1])
    sides = world.participants()
    Schedule(sides, chance, lie=Liar(chance, secret.hash)).run()
    check_end(sides[1], before)
    assert EVIL.hash not in held(world.stores[1])


def open_room(seed: int) -> None:
    """Three laces with open exchanges converge on what a server in the middle selects."""
    chance = random.Random(seed)
    module = chance.choice(MONOTONE)
    exposure = Exposure(default="selected")
    stores = [MemoryStore() for _ in range(3)]
    everything = population(chance, 12)
    for record in everything:
        chance.choice(stores).save([record])
    joints: list[tuple[Participant, Participant]] = []
    for client in (1, 2):
        server = Participant(stores[0], Side(index=0, module=module, open=True), exposure)
        joints.append(
            (server, Participant(stores[client], Side(index=1, module=module, open=True), exposure))
        )
    queues: list[tuple[deque[m.Incoming], deque[m.Incoming]]] = [(deque(), deque()) for _ in joints]

    def give(joint: int, index: int, given: m.Input) -> None:
        side = joints[joint][index]
        for crossing in side.give(given, NOW):
            check_saying(side, crossing)
            queues[joint][1 - index].append(crossing)

    for joint in range(2):
        for index in (0, 1):
            give(joint, index, m.Started())
    fresh = population(chance, 6)
    sizes = None
    while True:
        waiting = [(j, i) for j in range(2) for i in (0, 1) if queues[j][i]]
        if waiting:
            joint, index = chance.choice(waiting)
            give(joint, index, queues[joint][index].popleft())
        elif fresh:
            chance.choice(stores).save([fresh.pop()])
        elif sizes == (sizes := [store.count() for store in stores]):
            break
        if not waiting or chance.random() < 0.1:
            joint, index = chance.randrange(2), chance.randrange(2)
            for j, i in [(joint, index)] if fresh else [(j, i) for j in range(2) for i in (0, 1)]:
                give(j, i, m.Woken())
    for pair in joints:
        for side in pair:
            assert side.idle, side.told[-1]
            check_side(side)
    # Nothing is left that one side could give to another.
    for joint, pair in enumerate(joints):
        world = World(
            (pair[0].store, pair[1].store),  # type: ignore[arg-type]
            (pair[0].side, pair[1].side),
            (exposure, exposure),
        )
        assert naive(world, NOW, 0) == tuple(set(held(side.store)) for side in pair), joint


def busy(seed: int) -> None:
    """While writers go on storing, a bounded exchange ends; its end says no more than is true.

    What both sides keep of it is of no consequence: the next exchange does what one does that
    remembers nothing.
    """
    chance = random.Random(seed)
    module = chance.choice(MONOTONE)
    most = chance.choice([1, 2, 2, 3, 4])
    parameters = small_parameters(chance) if chance.random() < 0.5 else Parameters()
    limits = Limits(
        max_loop_iterations=most,
        max_advertisements_in_delta=chance.choice([0, 3, 100_000]),
        transfer_phase_bytes=chance.choice([2000, 1 << 25]),
    )
    stores = MemoryStore(), MemoryStore()
    everything = population(chance)
    for store in stores:
        store.save([record for record in everything if chance.random() < 0.6])
    writers = chance.choice([(0,), (1,), (0, 1)])
    written = iter(range(60))  # they would go on for as long as loops only go on (A30)

    def write(index: int) -> None:
        number = next(written, None)
        if number is None:
            return
        plex = build_plex(
            group="g", app="notes/message", name=f"n/w{number}", tai=f"{number:010d}:{1:09d}"
        )
        stores[index].save([seal(plex, KEYS[0], aux=forge.AUX)])

    offered: list[set[str] | None] = [None, None]  # to each side, in the first loop

    def meet(*, writing: bool, limits: Limits) -> tuple[Participant, Participant]:
        made = []
        for index, store in enumerate(stores):
            side = Side(
                index=index, module=module, limits=limits, parameters=parameters,
                verifier=KEYS[index].verifier, peer_verifier=KEYS[1 - index].verifier,
            )  # fmt: skip
            made.append(Participant(store, side, Exposure(default="everything"), side.limits))
        queues: tuple[deque[m.Incoming], deque[m.Incoming]] = (deque(), deque())
        for index in (0, 1):
            queues[1 - index].extend(made[index].give(m.Started(), NOW))
        while any(queues) and not all(side.closed for side in made):
            index = chance.choice([i for i in (0, 1) if queues[i]])
            crossing = queues[index].popleft()
            if writing and isinstance(crossing, m.PeerPhaseEnd) and index in writers:
                write(index)
            queues[1 - index].extend(made[index].give(crossing, NOW))
            machine = made[index].machine
            if offered[index] is None and machine.phase is Phase.REQUEST:
                offered[index] = set(machine.tables[1].records(""))
        return made[0], made[1]

    world = World(
        (MemoryStore(), MemoryStore()),
        (Side(index=0, module=module), Side(index=1, module=module)),
        (Exposure(default="everything"),) * 2,
    )
    for copy, store in zip(world.stores, stores, strict=True):
        copy.save(held(store).values())
    at_first = naive(world, NOW, 0)
    sides = meet(writing=True, limits=limits)
    endings = [side.ended for side in sides]
    assert all(isinstance(ended, m.Closed) for ended in endings), endings
    assert endings[0].ending is endings[1].ending  # type: ignore[union-attr]
    if parameters.request_at_once > len(everything):
        assert endings[0].result.ending is endings[1].result.ending  # type: ignore[union-attr]
    for index, (side, ended) in enumerate(zip(sides, endings, strict=True)):
        assert isinstance(ended, m.Closed)
        reached = any(isinstance(event, m.FixedPoint) for event in side.told)
        assert ended.result.fixed_point == reached == (ended.ending is m.Ending.FIXED_POINT)
        if ended.result.ending is not None:
            # All that was there, both selected and the other side advertised at once is here.
            assert at_first[index] & (offered[index] or set()) <= set(held(stores[index]))
            assert ended.result.ending is ended.ending
        else:
            assert ended.code is Code.LIMIT_EXCEEDED
    # The next one goes on from there, and what was kept makes no other difference.
    for copy, store in zip(world.stores, stores, strict=True):
        copy.save(held(store).values())
    expected = naive(world, NOW, 0)
    for side in meet(writing=False, limits=Limits()):
        assert isinstance(side.ended, m.Closed)
        assert side.ended.ending is m.Ending.FIXED_POINT, side.ended
    assert tuple(set(held(store)) for store in stores) == expected


def hidden(seed: int) -> None:
    """Stores that differ only in what the peer may neither query nor select say the same bytes."""
    chance = random.Random(seed)
    secrets = [
        build_plex(group="secret", app="diary", name=f"{i}", tai=f"{i:010d}:{0:09d}")
        for i in range(chance.randint(1, 5))
    ]
    mine, theirs = chance.choice(MODULES[:4]), chance.choice(MODULES)
    shown, others = population(chance), population(chance)
    is_open = chance.random() < 0.5
    limits, parameters = Limits(**small_blocks(chance)), Parameters()
    if chance.random() < 0.5:
        parameters = small_parameters(chance)
    heard: list[list[m.Incoming]] = []
    for extra in ([], secrets):
        store, other = MemoryStore(), MemoryStore()
        store.save([*shown, *extra[1:]])
        other.save(others)
        exposure = Exposure(default="selected")
        sides = tuple(
            Participant(
                kept,
                Side(index=i, module=rules, open=is_open, limits=limits, parameters=parameters),
                exposure,
                limits,
            )
            for i, (kept, rules) in enumerate(((store, mine), (other, theirs)))
        )
        queues: tuple[deque[m.Incoming], deque[m.Incoming]] = (deque(), deque())
        said: list[m.Incoming] = []
        inputs: list[tuple[int, m.Input]] = [(0, m.Started()), (1, m.Started())]
        for moment in range(2):
            while inputs or any(queues):
                inputs += [(index, queues[index].popleft()) for index in (0, 1) if queues[index]]
                for index, given in inputs:
                    for crossing in sides[index].give(given, NOW):
                        queues[1 - index].append(crossing)
                        if index == 0:
                            said.append(crossing)
                inputs = []
            if moment == 0 and extra:
                store.save(extra[:1])  # in an open exchange, also what is stored later
            if moment == 0:
                inputs = [(0, m.Woken())]
        heard.append(said)
    assert heard[0] == heard[1]


SIMULATIONS: dict[str, Callable[[int], None]] = {
    "honest": honest, "sketched": sketched, "broken": broken, "hostile": hostile,
    "misled": misled, "dressed": dressed, "open": open_room, "hidden": hidden,
    "busy": busy,
}  # fmt: skip
