"""Exchanges over real streams within one test: an accepting side and a connecting side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from wires import EVERYTHING, OPEN

from lace.answering.store import StoreAnswers
from lace.crypto import SigningKey
from lace.driving.client import Client, new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.recordstore.base import RecordStore
from lace.stream.binding import Endpoint
from lace.transport.address import parse_address
from lace.transport.base import ByteStream
from lace.transport.dial import listen
from lace.transport.tls import Certificate

T = TypeVar("T")


def within(work: Awaitable[T], seconds: float = 60) -> T:
    """Run to the end; what hangs is a failure, not a hang."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            result = await work
        await asyncio.sleep(0.05)  # lets closed transports be forgotten before the loop is
        return result

    return asyncio.run(bounded())


@dataclass
class Host:
    """The accepting side: one store, any number of connections."""

    store: RecordStore
    module: PolicyModule = EVERYTHING
    key: SigningKey | None = None
    stays: bool = True
    limits: Limits = DEFAULT_LIMITS
    addresses: tuple[str, ...] = ("memory",)
    exchanges: list[Exchange] = field(default_factory=list)
    ends: list[m.Closed | m.Aborted] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def accept(self, stream: ByteStream) -> Exchange:
        endpoint = Endpoint(
            accepting=True,
            nonce=new_nonce(),
            addresses=self.addresses,
            transport=stream.address,
            encrypted=stream.encrypted,
            channel=stream.channel,
            key=self.key,
            packs=True,
        )
        connection = Connection.over(
            endpoint,
            self.module,
            lambda side: StoreAnswers.of(self.store, side, OPEN, self.limits),
            base=Side(index=0, module=self.module, open=self.stays, limits=self.limits),
            limits=self.limits,
        )
        exchange = Exchange(stream, connection, limits=self.limits)
        self.exchanges.append(exchange)
        return exchange

    async def serve(self, stream: ByteStream) -> None:
        self.ends.append(await self.accept(stream).run())
        self.ended.set()

    @asynccontextmanager
    async def at(self, address: str, certificate: Certificate | None = None) -> AsyncIterator[str]:
        listener = await listen(parse_address(address), self.serve, certificate=certificate)
        self.addresses = (listener.address,)
        yield listener.address
        await listener.close()


def client(store: RecordStore, **changes: object) -> Client:
    parts = {"store": store, "module": EVERYTHING, "exposure": OPEN}
    return Client(**(parts | changes))  # type: ignore[arg-type]


def trusting(certificate: Certificate | None) -> Path | None:
    return certificate.chain if certificate else None
