"""Two laces and the bytes between them, without any input or output."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

from lace import b64a
from lace.answering.store import StoreAnswers
from lace.crypto import SigningKey
from lace.driving.connection import Connection
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal
from lace.recordstore import MemoryStore
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.stream.binding import Binding, Endpoint
from lace.tai import Tai

NOW = Tai("1700000000:000000000")
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
OPEN = Exposure(default="everything")
_numbers = count(1)


def nonce() -> str:
    return b64a.encode(next(_numbers).to_bytes(32, "big"))


def notes(
    number: int, *, start: int = 0, size: int = 20, key: SigningKey | None = None
) -> list[Record]:
    made: list[Record] = []
    for index in range(start, start + number):
        plex = build_plex(
            group="g", app="notes", name=f"n/{index}", tai=f"{1_700_000_000 + index}:000000000",
            data=b"x" * size,
        )  # fmt: skip
        made.append(plex if key is None else seal(plex, key, aux=b"\x01" * 32))
    return made


def store_of(records: Sequence[Record]) -> MemoryStore:
    store = MemoryStore()
    store.save(records)
    return store


class BusyStore(MemoryStore):
    """Stores one more record whenever some are sent."""

    def load_all(self, hashes: Sequence[RecordHash], most_bytes: int) -> list[Record | None]:
        found = super().load_all(hashes, most_bytes)
        self.save(notes(1, start=self.count()))
        return found


def hashes(store: RecordStore) -> set[str]:
    return {stored.hash for stored in store.read(StoreRecordId(0), 10**6)}


@dataclass
class End:
    """One end of a wire: a connection, and all that it has sent and taken."""

    endpoint: Endpoint
    store: RecordStore
    module: PolicyModule = EVERYTHING
    exposure: Exposure = OPEN
    limits: Limits = DEFAULT_LIMITS
    stays: bool = False
    sent: bytearray = field(default_factory=bytearray)
    events: list[m.Event] = field(default_factory=list)
    inputs: list[m.FromPeer] = field(default_factory=list)

    @cached_property
    def local(self) -> StoreAnswers:
        return StoreAnswers.of(self.store, self.binding.side(self.module), self.exposure)

    @cached_property
    def binding(self) -> Binding:
        return Binding(self.endpoint, self.limits)

    @cached_property
    def connection(self) -> Connection:
        receive = self.binding.inputs

        def noting(chunk: bytes) -> Iterator[m.FromPeer]:
            for given in receive(chunk):
                self.inputs.append(given)
                yield given

        self.binding.inputs = noting  # type: ignore[method-assign]
        side = replace(self.binding.side(self.module), open=self.stays)
        made = Connection(side, lambda _side: self.local, binding=self.binding)
        self.sent += b"".join(made.data_to_send())
        return made

    def take(self, chunk: bytes) -> None:
        self.connection.receive_data(chunk, NOW)
        self._pass_on()

    def give(self, order: m.Order | m.StreamFailed | m.PeerGone) -> None:
        if isinstance(order, m.StreamFailed):
            self.connection.receive_failure(order, NOW)
        elif isinstance(order, m.PeerGone):
            self.connection.receive_eof(NOW)
        else:
            self.connection.tell(order, NOW)
        self._pass_on()

    def _pass_on(self) -> None:
        while True:
            self.sent += b"".join(self.connection.data_to_send())
            self.events += self.connection.events()
            if not self.connection.has_work:
                return
            self.connection.work(NOW)

    @property
    def last(self) -> m.Event:
        return self.events[-1]

    @property
    def closed(self) -> bool:
        return self.connection.closed


def ends(
    left: RecordStore,
    right: RecordStore,
    *,
    accepting: dict[str, object] | None = None,
    connecting: dict[str, object] | None = None,
) -> tuple[End, End]:
    """Return the accepting and the connecting end of a wire to ``tcp:here:1``."""
    base = Endpoint(accepting=True, nonce=nonce(), addresses=("tcp:here:1",))
    one = replace(base, **(accepting or {}))  # type: ignore[arg-type]
    differs = {"accepting": False, "nonce": nonce(), **(connecting or {})}
    other = replace(base, **differs)  # type: ignore[arg-type]
    return End(one, left), End(other, right)


def run(
    left: End,
    right: End,
    size: int = 1000,
    tamper: Callable[[int, bytes], bytes] = lambda _index, chunk: chunk,
) -> None:
    """Carry bytes both ways in chunks until both ends are closed or nothing moves."""
    both = (left, right)
    read = [0, 0]
    waiting = deque([0, 1])
    idle = 0
    while idle < 2 and not (left.closed and right.closed):
        index = waiting[0]
        waiting.rotate(1)
        sender = both[index]
        chunk = bytes(sender.sent[read[index] : read[index] + size])
        read[index] += len(chunk)
        idle = 0 if chunk else idle + 1
        if chunk and not both[1 - index].closed:
            both[1 - index].take(tamper(index, chunk))
