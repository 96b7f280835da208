"""A server: one store, many peers at once, in one process that no peer can bring down.

Each connection has an exchange of its own; what one stores wakes the others. Connections, bytes,
phases and memory are bounded in all and for each peer; a peer that is too much is ended alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from lace.allocator import give_back_large
from lace.answering.crowd import Crowd, Crowds
from lace.answering.following import Position
from lace.answering.store import StoreAnswers
from lace.answering.warm import WarmLinks
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.driving.journal import Journal, JournalFile
from lace.driving.ratelimit import Allowances, RateLimit
from lace.driving.unison import Unison
from lace.driving.waiting import turn_away
from lace.errors import Code, LaceError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.shares import memory_of, shares_of
from lace.policy.foreign import Foreign
from lace.policy.module import PolicyModule
from lace.recordstore.base import RecordStore, StoredRecord
from lace.recordstore.sqlite import SqliteStore
from lace.serving.grants import ServePolicy
from lace.serving.metrics import Metrics
from lace.serving.quota import Meter, MeteredAnswers, Quotas, site_of
from lace.serving.watching import Watching
from lace.serving.workers import Workers
from lace.stream.binding import Endpoint
from lace.threads import Threads
from lace.transport.address import Address, Scheme, parse_address
from lace.transport.base import ByteStream, Listener
from lace.transport.dial import listen
from lace.transport.tls import Certificate

Log = Callable[[dict[str, Any]], None]
Look = Callable[[], Awaitable[None]]

_WAKE_SECONDS: Final = 0.05  # what is stored within this time wakes the others once
_WATCH_SECONDS: Final = 1.0
_GUARD_SECONDS: Final = 0.25  # between two looks at memory
_GRACE_SECONDS: Final = 0.5  # for a last word to who is too large
_REFUSALS_AT_ONCE: Final = 50
_LOG_BYTES: Final = 8 * 1024 * 1024  # of the store's log, before it is brought into the file
_DETAIL_SHOWN: Final = 200
_MIB: Final = 1024 * 1024
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_LOCAL: Final = ("unix:", "stdio")


@dataclass(slots=True)
class _Peer:
    """One connection that stands."""

    number: int
    host: str
    exchange: Exchange
    answers: StoreAnswers | None = None
    idle: asyncio.TimerHandle | None = None
    told: dict[str, Any] = field(default_factory=dict)
    journal: JournalFile | None = None
    is_ending: bool = False
    is_told: bool = False
    """Whether it was told that its quota is used up."""

    @property
    def crowd(self) -> Crowd | None:
        return None if self.answers is None else self.answers.crowd


class Server:
    """Takes connections and runs their exchanges until it is shut down."""

    def __init__(
        self,
        store: RecordStore,
        policy: ServePolicy,
        *,
        key: SigningKey | None = None,
        names: tuple[str, ...] = (),
        trusts_local: bool = False,
        threaded: bool = True,
        journals: Path | None = None,
        watching: Watching | None = None,
        proxy_channel: str = "",
        log: Log = lambda _entry: None,
    ) -> None:
        self._store = store
        self._policy = policy
        self._key = key
        self._names = set(names)
        self._trusts_local = trusts_local
        self._journals = journals
        self._watching = watching
        self._proxy_channel = proxy_channel  # of a proxy that ends TLS before this server
        self._log = log
        self._verifier: Verifier | None = key.verifier if key else None
        policy.check(self._verifier)
        # Only a store in a file may be used by several threads at once. Without threads of its own
        # the server works in the thread of its event loop, where nobody else is at the same time.
        threads = policy.limits.workers if isinstance(store, SqliteStore) else 1
        spare = int(threads > 1)  # so that who has had little done need not wait for the rest
        self._worker = Threads(threads - spare, "lace", spare=spare) if threaded else None
        # What is long to read is read apart, so that answers to others do not wait for it.
        self._reader = Threads(1, "lace-reads") if threaded else None
        self._warm = WarmLinks()
        self._quotas = Quotas(store, policy)
        self._sends = Allowances(policy.limits.sent_bytes_per_minute)
        self._crowds = Crowds()
        self._unison = Unison()
        self._workers = Workers.for_policy(policy)
        self._peers: dict[int, _Peer] = {}
        self._hosts: Counter[str] = Counter()
        self._entered: Counter[str] = Counter()  # by host, with those still in their handshake
        self._listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing = 0
        self._stopping = False
        self._is_down = False
        self._wake_soon: asyncio.TimerHandle | None = None
        self._waking = False  # a look at the store is under way
        self._wakes_again = False  # something was stored meanwhile
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._seen = Position.of(store)
        if isinstance(store, SqliteStore):
            store.on_quarantine = self._quarantined
        self.metrics = Metrics()
        self.metrics.gauges |= {
            "lace_connections": lambda: len(self._peers),
            "lace_memory_bytes": self._memory,
            "lace_rules_waiting": lambda: self._workers.waiting,
            "lace_rules_evaluated": lambda: self._workers.started,
            "lace_rules_stopped": lambda: self._workers.killed,
        }
        self.metrics.stored["lace_store_records"] = store.count

    @property
    def connections(self) -> int:
        """How many peers are connected now."""
        return len(self._peers)

    # --- life ---

    async def start(self) -> None:
        """Begin to look after connections; needed once, before the first one."""
        give_back_large()
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = self._store.subscribe(self._heard)
        self._keep_alive("store", self._look_at_store, _WATCH_SECONDS)
        self._keep_alive("memory", self._bound_memory, _GUARD_SECONDS)

    async def listen(
        self,
        address: Address,
        certificate: Certificate | None = None,
        origins: Sequence[str] = (),
    ) -> str:
        """Take connections at an address; return it with the port it really has."""
        listener = await listen(
            address, self.accept, certificate=certificate, origins=origins, gate=self
        )
        self._listeners.append(listener)
        self._names |= own_names(parse_address(listener.address))
        self._note("listening", address=listener.address)
        return listener.address

    def enter(self, host: str) -> bool:
        """Whether one more connection from a host may begin its handshake.

        A few more may than can stay, so that one too many can be told why it is refused.
        """
        limits = self._policy.limits
        if (
            sum(self._entered.values()) >= limits.connections + _REFUSALS_AT_ONCE
            or self._entered[host] >= limits.connections_per_host + _REFUSALS_AT_ONCE
        ):
            self.metrics.add("lace_refused_total")
            return False
        self._entered[host] += 1
        return True

    def leave(self, host: str) -> None:
        """Take note that a connection of a host is closed."""
        self._entered[host] -= 1
        if not self._entered[host]:
            del self._entered[host]

    async def accept(self, stream: ByteStream) -> None:
        """Run the exchange of one connection to its end."""
        host = stream.peer.rpartition(":")[0] or stream.peer
        limits = self._policy.limits
        if (
            self._stopping
            or len(self._peers) >= limits.connections
            or self._hosts[host] >= limits.connections_per_host
        ):
            await self._refuse(stream, host)
            return
        self.metrics.add("lace_connections_total")
        number = self.metrics.counts["lace_connections_total"]
        journal = self._journal(number)
        kept = self._watching.journal(number, host, journal) if self._watching else journal
        peer = _Peer(number, host, self._exchange(stream, number, host, kept), journal=journal)
        self._peers[number] = peer
        self._hosts[host] += 1
        self._note("connected", number, host=host, address=stream.address)
        try:
            await self._run(peer)
        finally:
            if journal is not None:
                journal.close()
            if self._watching is not None:
                self._watching.end(number)
            self._set_idle(peer, None)
            del self._peers[number]
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]

    async def shut_down(self) -> None:
        """Take nobody any more, let exchanges come to rest, then end what is left."""
        self._stopping = True
        self._note("stopping", connections=len(self._peers))
        for listener in self._listeners:
            await listener.close()
        await asyncio.to_thread(self._workers.close)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.limits.grace_seconds):
                while self._peers:
                    for peer in list(self._peers.values()):
                        if peer.exchange.connection.idle:
                            peer.exchange.give(m.CloseRequested())
                    await asyncio.sleep(_WAKE_SECONDS)
        for peer in list(self._peers.values()):
            peer.exchange.give(m.CloseRequested())
        with suppress(TimeoutError):
            async with asyncio.timeout(_WATCH_SECONDS * 3):
                while self._peers:  # noqa: ASYNC110 (they end one by one)
                    await asyncio.sleep(_WAKE_SECONDS)
        self._unsubscribe()
        self._is_down = True
        if self._wake_soon is not None:
            self._wake_soon.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for executor in (self._worker, self._reader):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)
        self._note("stopped")

    # --- connections ---

    def _journal(self, number: int) -> JournalFile | None:
        """Return a new journal for a connection; what cannot be written is told, and not kept."""
        if self._journals is None:
            return None
        name = f"{tai_now().replace(':', '-')}-{number:06d}.jsonl"
        try:
            return JournalFile(self._journals / name)
        except LaceError as error:
            self._note("journal-failed", number, detail=error.message)
            return None

    def _exchange(
        self, stream: ByteStream, number: int, host: str, journal: Journal | None
    ) -> Exchange:
        policy = self._policy
        meter = self._quotas.meter(host, self._verifier)
        address = stream.address
        local = self._trusts_local and address.startswith(_LOCAL)
        module = policy.module_for(None, self._verifier)
        endpoint = Endpoint(
            accepting=True,
            nonce=new_nonce(),
            addresses=tuple(sorted(self._names)),
            transport=address,
            encrypted=stream.encrypted or local,
            channel=stream.channel or self._proxy_channel,
            key=self._key,
            packs=not stream.encrypted and not address.startswith(_LOCAL),
        )
        connection = Connection.over(
            endpoint,
            module,
            partial(self._answers, self._workers.for_peer(host, number), meter, number),
            base=Side(index=0, module=module, open=True, limits=policy.engine),
            limits=policy.engine,
            module_for=lambda proven: self._module_for(proven, meter),
            journal=journal,
            unison=self._unison,
        )
        return Exchange(
            stream,
            connection,
            limits=policy.engine,
            listen=lambda event: self._hear(number, event),
            worker=self._worker,
            reader=self._reader,
            rate_limit=RateLimit(
                policy.limits.bytes_per_minute,
                policy.limits.phases_per_minute,
                self._sends.of(site_of(host), asyncio.get_running_loop().time()),
            ),
        )

    def _answers(self, foreign: Foreign, meter: Meter, number: int, side: Side) -> StoreAnswers:
        policy = self._policy
        made = MeteredAnswers.of(
            self._store, side, policy.exposure, policy.engine, self._warm, foreign, self._crowds
        )
        assert isinstance(made, MeteredAnswers)
        made.meter = meter
        if (peer := self._peers.get(number)) is not None:
            peer.answers = made
            if (voice := peer.exchange.connection.voice) is not None:
                voice.answers = made
            if not meter.takes:
                peer.exchange.connection.refuse(Code.SERVE_READING)
        return made

    def _module_for(self, peer: Verifier, meter: Meter) -> PolicyModule:
        meter.peer = peer
        return self._policy.module_for(peer, self._verifier)

    async def _run(self, peer: _Peer) -> None:
        exchange = peer.exchange
        try:
            ended = await exchange.run()
        except LaceError as error:
            self._ended(peer, "failed", code=str(error.code))
        except Exception as error:  # noqa: BLE001 (a fault of ours ends this connection alone)
            self._ended(peer, "failed", error=type(error).__name__)
        else:
            if isinstance(ended, m.Closed):
                self._ended(peer, "closed", reason=ended.reason)
            else:
                blame, code = str(ended.blame), str(ended.code)
                detail = ended.detail[:_DETAIL_SHOWN]  # a peer may have had a say in it
                self._ended(peer, "aborted", code=code, blame=blame, detail=detail)

    def _ended(self, peer: _Peer, how: str, **told: Any) -> None:
        traffic = peer.exchange.traffic
        self.metrics.add("lace_ended_total", how=how, code=told.get("code", ""))
        self.metrics.add("lace_bytes_received_total", traffic.bytes_in)
        self.metrics.add("lace_bytes_sent_total", traffic.bytes_out)
        told |= {"bytes_in": traffic.bytes_in, "bytes_out": traffic.bytes_out}
        self._note(how, peer.number, **told)

    async def _refuse(self, stream: ByteStream, host: str) -> None:
        self.metrics.add("lace_refused_total")
        if self._refusing >= _REFUSALS_AT_ONCE:
            stream.abort()
            return
        self._note("refused", host=host, connections=len(self._peers))
        self._refusing += 1
        try:
            await turn_away(stream)
        finally:
            self._refusing -= 1

    # --- what happens ---

    def _hear(self, number: int, event: m.Event) -> None:
        peer = self._peers.get(number)
        match event:
            case m.RecordSaved():
                self.metrics.add("lace_records_saved_total")
            case m.RecordRejected() if event.code is Code.SERVE_QUOTA:
                self.metrics.add("lace_records_refused_total")
                if peer is not None and not peer.is_told:  # once, and not for each record
                    peer.is_told = True
                    peer.exchange.connection.refuse(event.code)
                    self._note("quota", number, code=str(event.code), detail=event.detail)
            case m.RecordRejected():
                self.metrics.add("lace_records_rejected_total")
                self._note("rejected", number, hash=event.hash, code=str(event.code))
            case m.FixedPoint():
                self.metrics.add("lace_fixed_points_total")
                result = event.result
                self._note(
                    "fixed-point", number, peer=result.peer, received=len(result.received),
                    rejected=len(result.rejected), loops=result.loops,
                )  # fmt: skip
        if peer is not None:
            idles = isinstance(event, m.FixedPoint)
            self._set_idle(peer, self._policy.limits.idle_seconds if idles else None)

    def _set_idle(self, peer: _Peer, seconds: int | None) -> None:
        if peer.idle is not None:
            peer.idle.cancel()
            peer.idle = None
        if seconds is not None and self._loop is not None:
            peer.idle = self._loop.call_later(seconds, peer.exchange.give, m.CloseRequested())

    def _heard(self, stored: list[StoredRecord]) -> None:
        """Hear of what was stored here; comes from whichever thread stored it."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop may be gone already
            self._loop.call_soon_threadsafe(self._stored_until, stored[-1].id)

    def _quarantined(self, hash: str) -> None:
        self.metrics.add("lace_records_quarantined_total")
        self._note("quarantined", hash=hash, code=str(Code.STORE_QUARANTINE))

    def _stored_until(self, id: int) -> None:
        self._seen = Position(max(id, self._seen.high_water), self._seen.forgets)
        self._wake_later()

    def _wake_later(self) -> None:
        if self._waking:
            self._wakes_again = True
        elif self._wake_soon is None and self._loop is not None and not self._is_down:
            self._wake_soon = self._loop.call_later(_WAKE_SECONDS, self._wake)

    def _wake(self) -> None:
        self._wake_soon, self._waking = None, True
        self._start_task(self._wake_those_concerned()).add_done_callback(self._have_woken)

    def _have_woken(self, _done: object) -> None:
        self._waking, again, self._wakes_again = False, self._wakes_again, False
        if again:
            self._wake_later()

    async def _wake_those_concerned(self) -> None:
        """Look at the store once for all that are told the same, then wake whoever has news."""
        if self._worker is None:
            self._crowds.advance()
        else:
            await self._worker.do(self._crowds.advance)
        for peer in list(self._peers.values()):
            if peer.answers is None or not peer.answers.is_up_to_date:
                peer.exchange.give(m.Woken())

    def _keep_alive(self, what: str, look: Look, seconds: float) -> None:
        """Look after something for as long as the server runs; begin again whatever ends it."""
        task = self._start_task(self._look_after(what, look, seconds))

        def begin_again(_ended: object) -> None:
            if not self._stopping:
                self.metrics.add("lace_watch_restarts_total", watch=what)
                with suppress(Exception):  # a log that fails is no reason to stop either
                    self._note("watch-restarted", watch=what)
                self._keep_alive(what, look, seconds)

        task.add_done_callback(begin_again)

    async def _look_after(self, what: str, look: Look, seconds: float) -> None:
        """Look at something again and again, whatever fails."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await look()
            except Exception as error:  # noqa: BLE001 (the server goes on, and so does this)
                self.metrics.add("lace_watch_failures_total", watch=what)
                code = str(error.code) if isinstance(error, LaceError) else None
                with suppress(Exception):  # a log that fails is no reason to stop either
                    self._note("watch-failed", watch=what, error=type(error).__name__, code=code)

    async def _look_at_store(self) -> None:
        """Wake exchanges when another process has stored something, or anything was forgotten."""
        loop = asyncio.get_running_loop()
        store = self._store
        now = await loop.run_in_executor(None, Position.of, store)
        self._crowds.rest()
        if isinstance(store, SqliteStore):
            store.check_identity()
        if isinstance(store, SqliteStore) and store.log_bytes > _LOG_BYTES:
            await loop.run_in_executor(None, store.checkpoint)
        if now.high_water > self._seen.high_water or now.forgets != self._seen.forgets:
            self._seen = now
            self._wake_later()

    async def _bound_memory(self) -> None:
        """Let go of what is kept for later when memory is short, then of connections.

        The largest goes first, and so many at once that what is left fits.
        """
        limit = (self._policy.limits.memory_mib - self._workers.mebibytes) * _MIB
        if self._memory_at_most() <= limit or self._memory() <= limit:
            return
        self._unison.clear()
        self._warm.clear()
        self._crowds.clear()
        standing = [peer for peer in self._peers.values() if not peer.is_ending]
        members = Counter(peer.crowd for peer in standing)
        shares = shares_of([peer.exchange.connection.machine.tables for peer in standing])
        held = {
            peer.number: peer.exchange.memory_apart + share
            for peer, share in zip(standing, shares, strict=True)
        }
        for peer in standing:  # each is worth its part of what is held for all of them
            if peer.crowd is not None:
                held[peer.number] += peer.crowd.memory // members[peer.crowd]
        over = sum(held.values()) - limit
        for peer in sorted(standing, key=lambda peer: held[peer.number], reverse=True):
            if over <= 0:
                return
            over -= held[peer.number]
            peer.is_ending = True
            peer.exchange.drop(
                m.StreamFailed(Code.SERVE_FULL, "the server is short of memory"), _GRACE_SECONDS
            )

    def _memory_at_most(self) -> int:
        """Return the most that all connections can hold together, which takes little to say."""
        held = sum(peer.exchange.memory for peer in list(self._peers.values()))
        return held + self._warm.memory + self._crowds.memory + self._unison.memory

    def _memory(self) -> int:
        """Return about how much all connections hold together; what they share counts once."""
        exchanges = [peer.exchange for peer in list(self._peers.values())]
        held = sum(exchange.memory_apart for exchange in exchanges) + self._unison.memory_apart
        tables = (table for one in exchanges for table in one.connection.machine.tables)
        held += memory_of(chain(tables, self._unison.tables))
        return held + self._warm.memory + self._crowds.memory

    # --- small things ---

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _note(self, event: str, connection: int | None = None, **told: Any) -> None:
        entry: dict[str, Any] = {"event": event, "tai": tai_now()}
        if connection is not None:
            entry["connection"] = connection
        self._log(entry | {key: value for key, value in told.items() if value is not None})


def own_names(address: Address) -> set[str]:
    """Return the addresses that a listener may be dialled by, as far as the process can know.

    All names of the loopback mean the same machine. A listener on every interface has no name of
    its own: what it is called must be said.
    """
    if address.is_wild:
        return set()
    if address.host in _LOOPBACK:
        return {
            str(Address(scheme=address.scheme, host=host, port=address.port)) for host in _LOOPBACK
        }
    return {str(address)} if address.scheme is not Scheme.STDIO else {"stdio"}
