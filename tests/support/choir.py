"""One store, one server without any input or output, and many peers that come, stay and go."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from exchanges import NOTES, note
from simulator import small_parameters

from lace import b64a
from lace.answering.crowd import Crowds
from lace.answering.store import StoreAnswers
from lace.driving.connection import Connection
from lace.driving.unison import Unison
from lace.errors import Code
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.stream.binding import WORKING, Endpoint, farewell, not_stored
from lace.tai import Tai, add_ns

_BEGIN = Tai("1700000000:000000000")
_OPEN = Exposure(default="selected")
_FAREWELL = farewell(Code.INTERLACE_GONE)
_REFUSAL = not_stored(Code.SERVE_QUOTA)
#: What a client brings: the second cannot be decided on apart, the third looks at time.
MODULES: tuple[PolicyModule, ...] = (
    NOTES,
    module_from_text(
        "SelectHave(P) :- Have(P), Some().\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Some() :- Have(P), Field(P,'App',_,A), A != 'closed'.\n"
    ),
    module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), LexCompare(T,'<',N).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    ),
)


@dataclass
class Line:
    """One peer of the server, and what is under way between them."""

    number: int
    server: Connection
    client: Connection
    store: MemoryStore
    to_server: bytearray = field(default_factory=bytearray)
    to_client: bytearray = field(default_factory=bytearray)
    said: bytearray = field(default_factory=bytearray)
    """All that the server has said."""
    heard: list[m.Event] = field(default_factory=list)


@dataclass
class Choir:
    """A server with its peers, moved on step by step."""

    chance: random.Random
    unison: Unison | None
    parameters: Parameters = DEFAULT_PARAMETERS
    limits: Limits = DEFAULT_LIMITS
    store: MemoryStore = field(default_factory=MemoryStore)
    crowds: Crowds = field(default_factory=Crowds)
    lines: list[Line] = field(default_factory=list)
    gone: list[Line] = field(default_factory=list)
    trace: list[tuple[int, bytes, tuple[m.Event, ...], bool]] = field(default_factory=list)
    """What the server has said and told, in order, and whether it was idle then."""
    now: Tai = _BEGIN
    made: int = 0

    # --- peers ---

    def join(self, module: PolicyModule = NOTES, have: int = 0, *, packs: bool = True) -> Line:
        """Let one more peer come, with records that the server has already."""
        number = len(self.lines) + len(self.gone)
        store = MemoryStore()
        store.save([note(i) for i in range(have)])
        line = Line(number, self._server(number), self._client(number, module, store, packs), store)
        self.lines.append(line)
        self.settle(line)
        return line

    def _server(self, number: int) -> Connection:
        def answers(side: Side) -> StoreAnswers:
            made = StoreAnswers.of(self.store, side, _OPEN, crowds=self.crowds)
            if connection.voice is not None:
                connection.voice.answers = made
            return made

        endpoint = Endpoint(
            accepting=True, nonce=_nonce(2 * number), addresses=("tcp:here:1",), packs=True
        )
        base = Side(
            index=0, module=NOTES, open=True, parameters=self.parameters, limits=self.limits
        )
        connection = Connection.over(
            endpoint, NOTES, answers, base=base, limits=self.limits, unison=self.unison
        )
        return connection

    def _client(
        self, number: int, module: PolicyModule, store: MemoryStore, packs: bool
    ) -> Connection:
        endpoint = Endpoint(
            accepting=False, nonce=_nonce(2 * number + 1), addresses=("tcp:here:1",), packs=packs
        )
        base = Side(index=1, module=module, open=True, parameters=self.parameters)
        return Connection.over(
            endpoint, module, lambda side: StoreAnswers.of(store, side, _OPEN), base=base
        )

    def leave(self, line: Line) -> None:
        """Let a peer go."""
        line.server.receive_eof(self.now, waits=False)
        self.settle(line)
        self.lines.remove(line)
        self.gone.append(line)

    # --- the server ---

    def save(self, app: str = "notes") -> str:
        """Store one more record; return its hash."""
        self.made += 1
        record = note(1000 + self.made, app=app)
        self.store.save([record])
        return str(record.hash)

    def forget(self, hash: str) -> None:
        self.store.forget([RecordHash(hash)])

    def wake(self) -> None:
        """Do what a server does when something was stored: look once, wake who has news."""
        self.crowds.advance()
        for line in self.lines:
            answers = line.server.answers if line.server.machine.agreement else None
            assert answers is None or isinstance(answers, StoreAnswers)
            if answers is None or not answers.is_up_to_date:
                line.server.tell(m.Woken(), self.now, waits=False)
                self.settle(line)

    # --- what is under way ---

    def settle(self, line: Line) -> None:
        """Let both ends do what they have to, and take what they say."""
        line.to_client += self._said(line)
        for pieces in _spoken(line.client, self.now):
            line.to_server += pieces

    def _said(self, line: Line) -> bytes:
        said = b"".join(_spoken(line.server, self.now))
        events = tuple(line.server.events())
        line.said += said
        line.heard += events
        if said or events:
            self.trace.append((line.number, said, events, line.server.idle))
        return said

    def deliver(self, line: Line, to_server: bool, size: int) -> None:
        """Hand over a few bytes that are under way."""
        way, end = (line.to_server, line.server) if to_server else (line.to_client, line.client)
        chunk = bytes(way[:size])
        del way[:size]
        if chunk and end.ended is None:
            end.receive_data(chunk, self.now, waits=not to_server)
        self.settle(line)

    def calm(self) -> None:
        """Deliver all that is under way, until nothing is."""
        while any(line.to_server or line.to_client for line in self.lines):
            for line in self.lines:
                self.deliver(line, True, 1 << 30)
                self.deliver(line, False, 1 << 30)

    def pass_time(self, seconds: int) -> None:
        self.now = add_ns(self.now, seconds * 10**9)

    def work_aloud(self, line: Line, remark: bytes = WORKING) -> None:
        """Let a client say that it works, or something else, where an item may stand."""
        line.client._pieces.append(remark)
        self.settle(line)


def _spoken(end: Connection, now: Tai) -> Iterator[bytes]:
    """Yield what an end says until it has no work left."""
    while True:
        yield from end.data_to_send()
        if not end.has_work:
            return
        end.work(now)


def _nonce(number: int) -> str:
    return b64a.encode(number.to_bytes(2, "big") * 16)


def story(seed: int, unison: Unison | None, most: int = 150) -> Choir:
    """Tell a story of a server and its peers; with the same seed it is the same for all."""
    chance = random.Random(seed)
    parameters = small_parameters(chance) if chance.random() < 0.5 else DEFAULT_PARAMETERS
    hurried = replace(DEFAULT_LIMITS, round_seconds=chance.choice([12, 25, 3600]))
    choir = Choir(chance, unison, parameters, hurried)
    choir.store.save([note(i) for i in range(chance.choice([0, 3, 12]))])
    hashes = [str(note(i).hash) for i in range(12)]
    busy = chance.random()
    for _ in range(chance.randint(3, 8)):
        choir.join(have=chance.choice([0, 0, 3]), packs=chance.random() < 0.8)
    choir.calm()
    for _ in range(most):
        line = chance.choice(choir.lines) if choir.lines else choir.join()
        match chance.randrange(14):
            case 0:
                have = chance.choice([0, 3, 12])
                choir.join(chance.choice([NOTES, NOTES, NOTES, *MODULES]), have, packs=have != 3)
            case 1 if chance.random() < 0.3:
                choir.leave(line)
            case 2 | 3:
                hashes.append(choir.save(chance.choice(["notes", "notes", "notes/x", "hidden"])))
            case 4 if chance.random() < 0.4:
                choir.forget(chance.choice(hashes))
            case 5 if chance.random() < 0.4:
                choir.made += 1
                line.store.save([note(5000 + choir.made)])
                line.client.tell(m.Woken(), choir.now)
                choir.settle(line)
            case 6 | 7:
                choir.wake()
            case 8 if chance.random() < 0.2:
                line.client.tell(m.OperandChanged(chance.choice(MODULES)), choir.now)
                choir.settle(line)
            case 9 if chance.random() < 0.2:
                choir.work_aloud(line, chance.choice([WORKING, _FAREWELL, _REFUSAL]))
            case 9 if chance.random() < 0.1 and line.server.timer is not None:
                line.server.receive_timer(line.server.timer, choir.now)
                choir.settle(line)
            case 10:
                choir.pass_time(chance.choice([0, 1, 11]))
            case 11:
                choir.crowds.rest()
            case _:
                if chance.random() < busy:
                    choir.calm()
        for line in list(choir.lines):
            for to_server in (True, False):
                if chance.random() < 0.7:
                    choir.deliver(line, to_server, chance.choice([1, 7, 60, 1 << 20, 1 << 20]))
        for line in [line for line in choir.lines if line.server.ended is not None]:
            choir.leave(line)
    choir.wake()
    choir.calm()
    return choir


def alone(choir: Choir) -> list[tuple[object, ...]]:
    """Return how each exchange stands, when its machine knows all that was heard and said."""
    found: list[tuple[object, ...]] = []
    for line in [*choir.lines, *choir.gone]:
        line.server._go_alone()
        own, peers = line.server.machine.tables
        found.append(
            (
                bytes(line.said),
                line.server.machine.phase,
                own.check,
                peers.check,
                list(line.heard),
                line.server.phases_sent,
                line.server.phases_received,
                sorted(str(s.hash) for s in line.store.read(0, 10**6)),  # type: ignore[arg-type]
            )
        )
    return found


def unison(seed: int) -> None:
    """Tell a story in which exchanges go on in unison; all that is said is what is said without."""
    plain, together = story(seed, None), story(seed, Unison())
    assert plain.trace == together.trace
    assert alone(plain) == alone(together)


CHOIRS: dict[str, Callable[[int], None]] = {"unison": unison}
