"""The lake at an address: takes connections, or makes one, and runs exchanges over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lace.answering.answers import Answers
from lace.answering.store import StoreAnswers
from lace.crypto.keys import SigningKey
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.driving.ratelimit import Allowance, Allowances, RateLimit
from lace.driving.waiting import Places
from lace.errors import Code
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.lake.peer import LakeStore, Mirror, lake_answers
from lace.lake.places import scheme_of
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.foreign import Foreign
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.serving.grants import ServePolicy
from lace.serving.metrics import Metrics
from lace.serving.quota import Meter, Quotas, site_of
from lace.serving.workers import Workers
from lace.stream.binding import Endpoint
from lace.transport.address import Address
from lace.transport.base import ByteStream
from lace.transport.dial import connect, listen
from lace.transport.tls import Certificate

_GRACE_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 5.0

Tell = Callable[[str, m.Event], None]
"""Hears of each event, with where the peer is."""


@dataclass(slots=True)
class LakeHost:
    """A lake with its selector and its exposure, for any number of exchanges."""

    records: LakeStore
    module: PolicyModule
    exposure: Exposure
    key: SigningKey | None = None
    """Proven to peers if it is given."""
    limits: Limits = DEFAULT_LIMITS
    worker: Executor | None = None
    """Where Spark is waited for; None waits in the event loop."""
    tell: Tell = lambda _peer, _event: None
    most: int = 16
    """Exchanges at the same time; a connection beyond that waits for its turn."""
    most_per_host: int = 8
    """The same with one network address, so that one alone cannot keep others out."""
    most_waiting: int = 64
    """Connections that wait; half as many from one address. One beyond that is turned away."""
    last: m.Closed | m.Aborted | None = None
    """How the exchange that ended last ended."""
    addresses: tuple[str, ...] = ()
    metrics: Metrics = field(default_factory=Metrics)
    policy: ServePolicy | None = None
    """Who may read and write how much, for those who connect; None lets anyone do all."""
    _mirror: Mirror | None = None
    _running: dict[Exchange, asyncio.Task[Any]] = field(default_factory=dict)
    _places: Places = field(init=False)
    _quotas: Quotas | None = None
    _sends: Allowances | None = None
    _workers: Workers | None = None

    def __post_init__(self) -> None:
        self._places = Places(self.most, self.most_per_host, self.most_waiting)
        policy, root = self.policy, self.records.lake.root
        if policy is not None:
            policy.check(self._verifier)
            folder = None if scheme_of(root) else Path(root)
            self._quotas = Quotas(None, policy, folder=folder)
            self._sends = Allowances(policy.limits.sent_bytes_per_minute)
            self._workers = Workers.for_policy(policy)
        log = self.records.lake.records_log
        self.metrics.gauges |= {
            "lace_connections": lambda: len(self._running),
            "lace_waiting": lambda: self._places.waiting,
        }
        self.metrics.stored["lace_store_records"] = lambda: log.version().rows

    @property
    def _verifier(self) -> Verifier | None:
        return None if self.key is None else self.key.verifier

    @asynccontextmanager
    async def at(
        self, address: Address, certificate: Certificate | None = None
    ) -> AsyncIterator[str]:
        """Take connections at an address while the block runs; gives the address with its port."""
        self._places.open()
        listener = await listen(address, self._serve, certificate=certificate)
        self.addresses = (listener.address,)
        try:
            yield listener.address
        finally:
            await listener.close()
            self._places.close()
            if self._workers is not None:
                await asyncio.to_thread(self._workers.close)
            await self._end_exchanges()

    async def _end_exchanges(self) -> None:
        """Let exchanges come to their end, then ask for it: what was stored is stored."""
        if self._running:
            await asyncio.wait(set(self._running.values()), timeout=_GRACE_SECONDS)
        for exchange in self._running:
            exchange.give(m.CloseRequested())
        if self._running:
            await asyncio.wait(set(self._running.values()), timeout=_CLOSE_SECONDS)

    async def sync(
        self, address: Address, *, expected: Verifier | None = None, trust: Path | None = None
    ) -> m.Closed | m.Aborted:
        """Run one bounded exchange with whoever is at an address."""
        stream = await connect(address, trust=trust)
        endpoint = Endpoint(
            accepting=False,
            nonce=new_nonce(),
            addresses=(str(address),),
            transport=stream.address,
            encrypted=stream.encrypted,
            channel=stream.channel,
            key=self.key,
            expected=expected,
            packs=not stream.encrypted,
        )
        return await self._run(stream, endpoint, index=1)

    async def _serve(self, stream: ByteStream) -> None:
        self.metrics.add("lace_connections_total")
        host = _host_of(stream)
        placed = await self._places.take(stream, host)
        if placed is None:
            self.metrics.add("lace_refused_total")
            return
        try:
            await self._serve_guest(placed)
        finally:
            self._places.leave(host)

    async def _serve_guest(self, stream: ByteStream) -> None:
        endpoint = Endpoint(
            accepting=True,
            nonce=new_nonce(),
            addresses=self.addresses,
            transport=stream.address,
            encrypted=stream.encrypted,
            channel=stream.channel,
            key=self.key,
            packs=not stream.encrypted,
        )
        await self._run(stream, endpoint, index=0, guest=self._guest(stream))

    def _guest(self, stream: ByteStream) -> _Guest | None:
        """Return what holds for whoever has connected."""
        if self.policy is None or self._quotas is None or self._workers is None:
            return None
        assert self._sends is not None
        host = _host_of(stream)
        sends = self._sends.of(site_of(host), asyncio.get_running_loop().time())
        number = self.metrics.counts["lace_connections_total"]
        meter = self._quotas.meter(host, self._verifier)
        return _Guest(self.policy, meter, self._workers.for_peer(host, number), sends)

    async def _run(
        self, stream: ByteStream, endpoint: Endpoint, *, index: int, guest: _Guest | None = None
    ) -> m.Closed | m.Aborted:
        module = self.module if guest is None else guest.module_for(None)

        def answers(side: Side) -> Answers:
            if guest is not None and not guest.meter.takes:
                connection.refuse(Code.SERVE_READING)
            return self._answers(guest, side)

        connection = Connection.over(
            endpoint,
            module,
            answers,
            base=Side(index=index, module=module, limits=self.limits),
            limits=self.limits,
            module_for=None if guest is None else guest.module_for,
        )
        exchange = Exchange(
            stream,
            connection,
            limits=self.limits,
            listen=lambda event: self._hear(stream.peer, connection, event),
            worker=self.worker,
            rate_limit=None if guest is None else guest.rate_limit(),
        )
        task = asyncio.current_task()
        assert task is not None
        self._running[exchange] = task
        try:
            self.last = await exchange.run()
        finally:
            del self._running[exchange]
        ended = self.last
        how, code = ("aborted", str(ended.code)) if isinstance(ended, m.Aborted) else ("closed", "")
        self.metrics.add("lace_ended_total", how=how, code=code)
        return ended

    def _hear(self, peer: str, connection: Connection, event: m.Event) -> None:
        match event:
            case m.RecordSaved():
                self.metrics.add("lace_records_saved_total")
            case m.RecordRejected() if event.code is Code.SERVE_QUOTA:
                self.metrics.add("lace_records_refused_total")
                connection.refuse(event.code)
            case m.RecordRejected():
                self.metrics.add("lace_records_rejected_total")
            case m.FixedPoint():
                self.metrics.add("lace_fixed_points_total")
        self.tell(peer, event)

    def _answers(self, guest: _Guest | None, side: Side) -> Answers:
        made = lake_answers(
            self.records,
            side,
            self.exposure,
            mirror=self._mirror,
            meter=None if guest is None else guest.meter,
            foreign=None if guest is None else guest.foreign,
        )
        if isinstance(made, StoreAnswers) and isinstance(made.store, Mirror):
            self._mirror = made.store
        return made


def _host_of(stream: ByteStream) -> str:
    """Return the network address of whoever is at the other end, without the port."""
    return stream.peer.rpartition(":")[0] or stream.peer


@dataclass(slots=True)
class _Guest:
    """What holds for somebody who has connected: what is exchanged, and how much is taken."""

    policy: ServePolicy
    meter: Meter
    foreign: Foreign
    sends: Allowance

    def module_for(self, proven: Verifier | None) -> PolicyModule:
        """Return the selector for the peer, once it is known who that is."""
        self.meter.peer = proven
        return self.policy.module_for(proven, self.meter.server)

    def rate_limit(self) -> RateLimit:
        limits = self.policy.limits
        return RateLimit(limits.bytes_per_minute, limits.phases_per_minute, self.sends)
