"""Stories of laces that meet several times, drawn from a seed and told in several ways of knowing.

Between meetings and in the middle of them records are saved and forgotten, rules and exposures
change, clocks move either way, stores are restored from copies, memory is lost, connections break.
Sizes are tiny, so that few records go through every way that millions would. A story that is told
again gives the same bytes, whatever the laces remember and however they keep it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace

import forge
from plain import PlainAnswers
from simulator import KEYS, MONOTONE, NOW, held, population, small_blocks, small_parameters
from small_room import room

from lace import b64a
from lace.answering.store import StoreAnswers
from lace.answering.warm import WarmLinks
from lace.crypto import SigningKey
from lace.driving.connection import Connection
from lace.driving.pair import as_text
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.limits import Limits
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal
from lace.recordstore import MemoryStore
from lace.stream.binding import Endpoint
from lace.tai import NS_PER_SECOND, Tai, add_ns

SHY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes/message').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), Advertised(Q,S),"
    " AdvertisedField(Q,S,'App',_,'notes/message').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
PAIRED = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Advertised(Q,S),"
    " AdvertisedField(Q,S,'App',_,'notes').\n"
)
DUE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
EVIDENCE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g').\n"
    "SelectHave(Q) :- Have(P), Field(P,'Group',_,'g'), RecordLink(P,_,_,_,Q).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
GIVES = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), P != P.\n"
)
TAKES = module_from_text(
    "SelectHave(P) :- Have(P), P != P.\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
BEGUN = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), Field(P,'TAI',_,T), StartTAI(Now),"
    " LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Offered(P,S), not Have(P).\n"
    "Offered(P,S) :- Advertised(P,S), AdvertisedField(P,S,'TAI',_,T), StartTAI(Now),"
    " LexCompare(T,'<=',Now).\n"
)
LINKED = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), RecordLink(P,_,_,_,_).\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), Field(P,_,_,V), Here(V).\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), not PlexHash(P,_).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), not AdvertisedField(P,S,'App',_,'other').\n"
)
ENDED = room("//g//notes//", authority=KEYS[0].verifier, delegation=True, revocation_app="ended")
BUSY = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), Field(P,'App',_,A), not Busy(A).\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g'), Cardinality(Busy(_),'>','1').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,A), not Busy(A).\n"
    "Busy('notes') :- Field(P,'Group',_,'h'), not PlexHash(P,_).\n"
    "Busy('notes/message') :- Sealed(P), Field(P,'Type',_,'S'), Field(P,'App',_,'other').\n"
    "Sealed(P) :- PlexHash(P,_).\n"
)
RULES = [*MONOTONE, SHY, PAIRED, DUE, EVIDENCE, GIVES, TAKES, BEGUN, LINKED, ENDED, BUSY]
CAREFUL = [*MONOTONE[:4], SHY, EVIDENCE, TAKES, BEGUN, LINKED, ENDED, BUSY]
"""Rules that select nothing of a group that they do not name."""
EXPOSURES = [
    Exposure(default="selected"),
    Exposure(default="everything"),
    Exposure(),
    Exposure(
        (module_from_text("AllowQueryRecord(V,P) :- Have(P), Field(P,'App',_,'notes'), Peer(V).", Facet.EXPOSE),)
    ),
    Exposure(
        (module_from_text("AllowQueryRecord(V,P) :- Have(P), Field(P,'Group',_,'g'), Field(P,'TAI',_,T), TickTAI(N), LexCompare(T,'<=',N), Peer(V).", Facet.EXPOSE),)
    ),
]  # fmt: skip
CAREFUL_EXPOSURES = [EXPOSURES[0], *EXPOSURES[2:]]
SECRETS = tuple(
    build_plex(group="secret", app="diary", name=f"{i}", tai=f"{i:010d}:{0:09d}") for i in range(4)
)
LATE = [
    build_plex(group="g", app="notes", name=f"late/{i}", tai=f"{1_700_000_000 + 7 * i}:000000000")
    for i in range(5)
]


def _of_a_room(app: str, number: int, writer: int, member: int | None = None) -> Record:
    extras = [] if member is None else [("Member", KEYS[member].verifier)]
    plex = build_plex(
        group="g", app=app, name=f"room/{number}", tai=f"{number:010d}:{0:09d}", extras=extras
    )
    return seal(plex, KEYS[writer], aux=forge.AUX)


ROOM = [
    _of_a_room("notes/member", 1, 0, 1),
    _of_a_room("notes/member", 2, 1, 2),
    _of_a_room("notes/ended", 3, 0, 1),
    _of_a_room("notes/message", 4, 1),
    _of_a_room("notes/message", 5, 2),
]
"""Two grants, one of them passed on, the end of the first, and what both members wrote."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that one lace does, or that befalls it."""

    do: str
    who: str
    what: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Meet:
    """A meeting: who accepts, who connects, and what happens on the way."""

    who: tuple[str, str]
    stays: bool = False
    moments: tuple[tuple[Deed, ...], ...] = ()
    """In an open exchange: what happens at each fixed point, before the next one."""
    midst: tuple[tuple[int, Deed], ...] = ()
    """What happens after so many deliveries."""
    cut: int | None = None
    """Break the connection after so many deliveries."""


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that is drawn: nothing else is left to chance when it is told."""

    records: tuple[Record, ...]
    has: dict[str, tuple[int, ...]]
    keys: dict[str, SigningKey]
    parameters: Parameters
    limits: Limits
    coarse: bool
    apart: bool
    """Whether all rules are of the kind that decides on each record apart."""
    deeds: tuple[Deed | Meet, ...]

    @classmethod
    def draw(cls, chance: random.Random, *, steady: bool = False) -> Story:
        """``steady`` leaves out what may well end otherwise without memory."""
        records = (*population(chance, 15), *LATE, *ROOM)
        numbers = range(len(records))
        some = chance.choice([0.0, 0.3, 0.7, 1.0])
        has = {
            who: tuple(n for n in numbers if chance.random() < share)
            for who, share in (("a", some), ("b", chance.random()), ("c", 0.3))
        }
        shared = chance.random() < 0.3
        keys = {"a": KEYS[0], "b": KEYS[1], "c": KEYS[1] if shared else KEYS[2]}
        parameters = small_parameters(chance)
        if steady:  # a request list in parts may end otherwise where rules count
            parameters = replace(parameters, request_at_once=100_000)
        limits = Limits(
            max_loop_iterations=64,
            clock_seconds=10**9,
            max_narrowing_depth=chance.choice([0, 1, 2, 12]),
            max_partition_summaries=chance.choice([0, 3, 70, 16_384]),
            max_advertisements_in_delta=chance.choice([0, 3, 100_000]),
            max_cells_in_sketch=chance.choice([0, 8, 64, 65_536]),
            max_places_listed=chance.choice([0, 4, 100_000]),
            transfer_phase_bytes=chance.choice([1, 2000, 1 << 25]),
            **small_blocks(chance),
        )
        coarse, apart = chance.random() < 0.7, chance.random() < 0.5
        made = cls(records, has, keys, parameters, limits, coarse, apart, ())
        deeds = tuple(made._deed(chance, steady) for _ in range(chance.randint(2, 9)))
        last = Meet(("a", "b"))
        return replace(made, deeds=(*deeds, last, last))

    def _deed(self, chance: random.Random, steady: bool) -> Deed | Meet:
        if chance.random() < 0.45:
            return self._meet(chance, steady)
        return self._small(chance, within=False)

    def _small(self, chance: random.Random, *, within: bool) -> Deed:
        who = chance.choice("abc" if not within else "xy")
        kinds = ["save", "save", "forget", "forget"]
        if within:
            kinds += ["rules", "rules back", "tick"]
        else:
            kinds += ["rules", "expose", "clock", "backup", "restore", "lose"]
        do = chance.choice(kinds)
        match do:
            case "save" | "forget":
                count = chance.randint(1, 3)
                what = tuple(chance.randrange(len(self.records)) for _ in range(count))
            case "rules" | "rules back":
                what = (chance.randrange(len(RULES)),)
            case "expose":
                what = (chance.randrange(len(EXPOSURES)),)
            case "clock" | "tick":
                what = (chance.choice([1, 10, 20, 100, *([] if within else [-50, 3600])]),)
            case _:
                what = ()
        return Deed(do, who, what)

    def _meet(self, chance: random.Random, steady: bool) -> Meet:
        who = chance.choice([("a", "b")] * 4 + [("b", "a"), ("a", "c"), ("c", "a"), ("b", "c")])
        stays = chance.random() < 0.5
        moments = tuple(
            tuple(self._small(chance, within=True) for _ in range(chance.randint(0, 2)))
            for _ in range(chance.randint(0, 3) if stays else 0)
        )
        if steady:
            return Meet(who, stays, moments)
        midst = tuple(
            (chance.randint(0, 40), self._small(chance, within=True))
            for _ in range(chance.choice([0, 0, 1, 2]))
        )
        cut = chance.choice([None, None, None, chance.randint(0, 40)])
        return Meet(who, stays, moments, midst, cut)


MakeAnswers = Callable[["Lace", Side], StoreAnswers | PlainAnswers]


def plain(lace: Lace, side: Side) -> PlainAnswers:
    """Everything is evaluated afresh."""
    return PlainAnswers(lace.store, side, lace.exposure, side.limits)


def stored(lace: Lace, side: Side) -> StoreAnswers:
    """What is known comes from the store."""
    return StoreAnswers.of(lace.store, side, lace.exposure, side.limits)


def warm(lace: Lace, side: Side) -> StoreAnswers:
    """What is known is still in memory, as long as there is room."""
    return StoreAnswers.of(lace.store, side, lace.exposure, side.limits, lace.warm)


def loaded(lace: Lace, side: Side) -> StoreAnswers:
    """What rules look at is loaded, also where records could be decided on apart."""
    made = StoreAnswers.of(lace.store, side, lace.exposure, side.limits, lace.warm)
    made.whole = True
    return made


@dataclass(slots=True)
class Lace:
    """One lace of a story."""

    key: SigningKey
    store: MemoryStore
    rules: PolicyModule = RULES[1]
    exposure: Exposure = EXPOSURES[0]
    warm: WarmLinks = field(default_factory=WarmLinks)
    copy: MemoryStore | None = None


@dataclass(slots=True)
class Telling:
    """A story as it is told in one way."""

    story: Story
    ways: tuple[MakeAnswers, MakeAnswers]
    """How the accepting and the connecting side know what they know."""
    remembers: bool = True
    careful: bool = False
    """Let ``a`` have only rules and exposures by which nobody learns of its secrets."""
    hidden: tuple[Record, ...] = ()
    """Saved and forgotten here and there by ``a``: nobody else may ever know of them."""
    laces: dict[str, Lace] = field(default_factory=dict)
    now: Tai = NOW
    said: list[list[tuple[int, m.Incoming]]] = field(default_factory=list)
    """All that crossed in each meeting."""
    told: list[list[list[m.Event]]] = field(default_factory=list)
    """What the applications of both sides heard, in each meeting."""
    ends: list[dict[str, set[str]]] = field(default_factory=list)
    """What each lace has after each meeting."""

    def run(self) -> Telling:
        story = self.story
        for who, numbers in story.has.items():
            store = MemoryStore()
            store.save([story.records[number] for number in numbers])
            self.laces[who] = Lace(story.keys[who], store)
        for number, deed in enumerate(story.deeds):
            self._hide(number)
            if self.hidden and number % 3 == 0:  # more is forgotten than can be told
                self.laces["a"].store._forgotten.clear()
            if isinstance(deed, Meet):
                self._meet(deed)
                self.ends.append({who: set(held(lace.store)) for who, lace in self.laces.items()})
            else:
                self._do(deed, self.laces[deed.who])
        return self

    def _hide(self, number: int) -> None:
        """Do something with a hidden record, where there are any."""
        if self.hidden:
            record = self.hidden[number % len(self.hidden)]
            store = self.laces["a"].store
            if store.has(record.hash):
                store.forget([record.hash])
            else:
                store.save([record])

    def _do(self, deed: Deed, lace: Lace) -> None:
        story = self.story
        match deed.do:
            case "save":
                lace.store.save([story.records[number] for number in deed.what])
            case "forget":
                lace.store.forget([story.records[number].hash for number in deed.what])
            case "rules":
                lace.rules = self._rules(lace, deed.what[0])
            case "expose":
                shown = CAREFUL_EXPOSURES if self._is_careful(lace) else EXPOSURES
                lace.exposure = shown[deed.what[0] % len(shown)]
            case "clock":
                self.now = add_ns(self.now, deed.what[0] * NS_PER_SECOND)
            case "backup":
                lace.copy = deepcopy(lace.store)
            case "restore":
                lace.store = lace.store if lace.copy is None else deepcopy(lace.copy)
            case "lose":
                lace.store._links.clear()

    def _is_careful(self, lace: Lace) -> bool:
        return self.careful and lace is self.laces["a"]

    def _rules(self, lace: Lace, number: int) -> PolicyModule:
        rules = CAREFUL if self._is_careful(lace) else RULES
        if self.story.apart:
            rules = [module for module in rules if module.guards is not None]
        return rules[number % len(rules)]

    # --- meetings ---

    def _meet(self, meet: Meet) -> None:
        laces = [self.laces[who] for who in meet.who]
        sides: list[Connection] = []
        for index, lace in enumerate(laces):
            side = Side(
                index=index, module=lace.rules, open=meet.stays, verifier=lace.key.verifier,
                peer_verifier=laces[1 - index].key.verifier, coarse=self.story.coarse,
                remembers=self.remembers, limits=self.story.limits,
                parameters=self.story.parameters,
            )  # fmt: skip
            made = self.ways[index](lace, side)
            sides.append(Connection(side, lambda _side, made=made: made))  # type: ignore[misc]
        said: list[tuple[int, m.Incoming]] = []
        told: list[list[m.Event]] = [[], []]
        self.said.append(said)
        self.told.append(told)
        line = Line((sides[0], sides[1]), said, told)
        line.start(self.now)
        self._deliver(meet, line, laces)
        for moment in meet.moments:
            for _ in range(1 + len(meet.midst)):  # for what was done in the midst of it
                for index in (0, 1):
                    line.tell(index, m.Woken(), self.now)
                self._deliver(meet, line, laces)
            self._hide(len(said))
            before = len(said)
            if self.hidden and not line.is_cut(meet):
                for index, lace in enumerate(laces):
                    if lace is self.laces["a"]:
                        line.tell(index, m.Woken(), self.now)
            assert len(said) == before, "what nobody may know of has woken somebody"
            for deed in moment:
                self._within(deed, laces, line)
            for index in (0, 1):
                line.tell(index, m.Woken(), self.now)
            self._deliver(meet, line, laces)
        line.end(self.now)

    def _deliver(self, meet: Meet, line: Line, laces: list[Lace]) -> None:
        """Deliver until it is quiet, or broken."""
        while not line.is_cut(meet) and line.deliver(self.now):
            for number, deed in meet.midst:
                if number == line.delivered:
                    self._within(deed, laces, line)
            if line.delivered % 5 == 0:
                self._hide(line.delivered)

    def _within(self, deed: Deed, laces: list[Lace], line: Line) -> None:
        index = "xy".index(deed.who)
        match deed.do:
            case "rules" | "rules back":
                other = self._rules(laces[index], deed.what[0])
                line.tell(index, m.OperandChanged(other), self.now)
                if deed.do == "rules back":
                    line.tell(index, m.OperandChanged(laces[index].rules), self.now)
            case "tick":
                self.now = add_ns(self.now, deed.what[0] * NS_PER_SECOND)
                for side in (0, 1):
                    line.fire(side, self.now)
            case _:
                self._do(deed, laces[index])


@dataclass(slots=True)
class Line:
    """What is under way between two sides."""

    sides: tuple[Connection, Connection]
    said: list[tuple[int, m.Incoming]]
    told: list[list[m.Event]]
    delivered: int = 0
    _queues: tuple[deque[m.Incoming], deque[m.Incoming]] = field(
        default_factory=lambda: (deque(), deque())
    )

    def start(self, now: Tai) -> None:
        for index, side in enumerate(self.sides):
            side.start(now)
            self._pass_on(index)

    def is_cut(self, meet: Meet) -> bool:
        return meet.cut is not None and self.delivered >= meet.cut

    def deliver(self, now: Tai) -> bool:
        """Deliver one thing; return whether there was one."""
        for index in (0, 1):
            if self._queues[index] and not self.sides[index].closed:
                self.delivered += 1
                self.sides[index].receive(self._queues[index].popleft(), now)
                self._pass_on(index)
                return True
        return False

    def tell(self, index: int, order: m.Order, now: Tai) -> None:
        if not self.sides[index].closed:
            self.sides[index].tell(order, now)
            self._pass_on(index)

    def fire(self, index: int, now: Tai) -> None:
        side = self.sides[index]
        if side.idle and side.timer is not None:
            side.receive_timer(side.timer, now)
            self._pass_on(index)

    def end(self, now: Tai) -> None:
        for index, side in enumerate(self.sides):
            if not side.closed:
                side.lose(now, orderly=side.idle)
                self._pass_on(index)

    def _pass_on(self, index: int) -> None:
        said = list(map(as_text, self.sides[index].sent()))
        self.said += [(index, item) for item in said]
        self._queues[1 - index].extend(said)
        self.told[index] += self.sides[index].events()


def check_meetings(telling: Telling) -> None:
    """Fail unless every meeting that was not broken came to a fixed point on both sides."""
    meets = [deed for deed in telling.story.deeds if isinstance(deed, Meet)]
    for meet, told in zip(meets, telling.told, strict=True):
        for events in told:
            assert isinstance(events[-1], m.Closed | m.Aborted), events
            if meet.cut is None:
                assert isinstance(events[-1], m.Closed), events[-1]
                assert any(isinstance(event, m.FixedPoint) for event in events)


def check_same(one: Telling, other: Telling) -> None:
    """Fail unless two tellings are the same to the byte, for everybody who is part of them."""
    for number, (was, now) in enumerate(zip(one.said, other.said, strict=True)):
        if was != now:
            pairs = enumerate(zip(was, now, strict=False))
            at = next((n for n, (x, y) in pairs if x != y), min(len(was), len(now)))
            raise AssertionError(
                f"meeting {number}, message {at}: {was[at : at + 1]} against {now[at : at + 1]}"
            )
    assert one.told == other.told


# --- the simulations ---

WAYS: list[tuple[MakeAnswers, MakeAnswers]] = [
    (stored, stored),
    (warm, warm),
    (warm, plain),
    (plain, warm),
    (stored, warm),
    (loaded, loaded),
    (loaded, stored),
]


def memory(seed: int) -> None:
    """What is said does not depend on how it came to be known: evaluated, kept warm, read back."""
    chance = random.Random(seed)
    story, ways = Story.draw(chance), chance.choice(WAYS)
    afresh = Telling(story, (plain, plain)).run()
    check_meetings(afresh)
    check_same(afresh, Telling(story, ways).run())


def forgetful(seed: int) -> None:
    """What both sides have in the end is what they would have without any memory."""
    chance = random.Random(seed)
    story, ways = Story.draw(chance, steady=True), chance.choice(WAYS)
    remembering = Telling(story, ways).run()
    forgetting = Telling(story, (stored, stored), remembers=False).run()
    check_meetings(forgetting)
    check_meetings(remembering)
    assert remembering.ends == forgetting.ends


def secret(seed: int) -> None:
    """What is hidden changes no byte and no moment, over several meetings with memory."""
    chance = random.Random(seed)
    story, ways = Story.draw(chance), chance.choice(WAYS)
    without = Telling(story, ways, careful=True).run()
    check_same(without, Telling(story, ways, careful=True, hidden=SECRETS).run())


def granting(seed: int) -> None:
    """A server that grants a peer more once it is proven: over bytes, again and again, with memory.

    Both end up with what they would have if the server had said so from the beginning.
    """
    chance = random.Random(seed)
    records = population(chance, 20)
    parameters = small_parameters(chance)
    to_all, to_friends = chance.choice(MONOTONE), chance.choice(MONOTONE)
    asks = chance.choice(MONOTONE)
    server, client, granted, given = (MemoryStore() for _ in range(4))
    kept = WarmLinks()
    way = chance.choice([stored, warm])
    for _ in range(chance.randint(2, 4)):
        for record in records:
            if chance.random() < 0.4:
                several = chance.choice([(server, granted), (client, given)])
                for store in several:
                    store.save([record])
            elif chance.random() < 0.1:
                for store in chance.choice([(server, granted), (client, given)]):
                    store.forget([record.hash])
        if chance.random() < 0.3:
            to_friends = chance.choice(MONOTONE)
        ends = []
        for index, (store, module) in enumerate(((server, to_all), (client, asks))):
            lace = Lace(
                KEYS[index], store, module, EXPOSURES[0], kept if index == 0 else WarmLinks()
            )
            endpoint = Endpoint(
                accepting=index == 0, nonce=b64a.encode(bytes([index]) * 32),
                addresses=("tcp:here:1",), key=KEYS[index], packs=chance.random() < 0.5,
            )  # fmt: skip
            base = Side(index=index, module=module, open=index == 0, parameters=parameters)
            friends = to_friends
            ends.append(
                Connection.over(
                    endpoint, module, lambda side, lace=lace: way(lace, side), base=base,  # type: ignore[misc]
                    module_for=None if index else lambda _peer, friends=friends: friends,  # type: ignore[misc]
                )
            )  # fmt: skip
        carry(ends[0], ends[1], chance)
        for end in ends:
            assert isinstance(end.ended, m.Closed), end.ended
        telling = Line(
            tuple(  # type: ignore[arg-type]
                Connection(
                    Side(
                        index=i, module=module, verifier=KEYS[i].verifier,
                        peer_verifier=KEYS[1 - i].verifier, remembers=False,
                    ),
                    lambda side, store=store: StoreAnswers.of(store, side, EXPOSURES[0]),  # type: ignore[misc]
                )
                for i, (store, module) in enumerate(((granted, to_friends), (given, asks)))
            ),
            [],
            [[], []],
        )  # fmt: skip
        telling.start(NOW)
        while telling.deliver(NOW):
            pass
        assert (set(held(server)), set(held(client))) == (set(held(granted)), set(held(given)))


def carry(left: Connection, right: Connection, chance: random.Random) -> None:
    """Carry bytes between two ends in chunks of any size, until the connecting side is through."""
    ends, waiting = (left, right), [bytearray(), bytearray()]
    while True:
        for index, end in enumerate(ends):
            waiting[1 - index] += b"".join(end.data_to_send())
            while end.has_work:
                end.work(NOW)
                waiting[1 - index] += b"".join(end.data_to_send())
        ready = [i for i in (0, 1) if waiting[i] and ends[i].ended is None]
        if not ready:
            break
        index = chance.choice(ready)
        size = chance.choice([1, 7, 100, 10**6])
        chunk = bytes(waiting[index][:size])
        del waiting[index][:size]
        ends[index].receive_data(chunk, NOW)
    for end in ends:
        if end.ended is None:
            end.receive_eof(NOW)


STORIES: dict[str, Callable[[int], None]] = {
    "memory": memory, "forgetful": forgetful, "secret": secret, "granting": granting,
}  # fmt: skip
