"""The connecting side: one exchange with an address, or one that is taken up again for ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lace import b64a
from lace.answering.store import StoreAnswers
from lace.answering.warm import WarmLinks
from lace.crypto.keys import SigningKey
from lace.driving.backoff import Backoff
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange, Listen
from lace.driving.journal import Journal
from lace.errors import Code, TransportError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.recordstore.base import RecordStore
from lace.stream.binding import Endpoint
from lace.stream.items import NONCE_BYTES
from lace.transport.address import Address, Scheme
from lace.transport.base import ByteStream
from lace.transport.dial import connect

#: Ends that another try may cure; anything else would only happen again.
PASSING: Final = frozenset((
    Code.TRANSPORT_CONNECT, Code.TRANSPORT_LOST, Code.INTERLACE_GONE, Code.INTERLACE_TIMEOUT,
))  # fmt: skip

_PACKING_SCHEMES: Final = frozenset((Scheme.TCP, Scheme.WS))
_LOCAL_SCHEMES: Final = frozenset((Scheme.UNIX, Scheme.STDIO))


def new_nonce() -> str:
    """Return 32 fresh random bytes, as a preface has them."""
    return b64a.encode(os.urandom(NONCE_BYTES))


@dataclass(slots=True, kw_only=True)
class Client:
    """What the connecting side brings to exchanges with servers."""

    store: RecordStore
    module: PolicyModule
    exposure: Exposure = field(default_factory=Exposure)
    key: SigningKey | None = None
    """Proven to the server if it is given."""
    expected: Verifier | None = None
    """Whom the server must prove to be."""
    trust: Path | None = None
    """One more certificate that wss believes."""
    packs: bool | None = None
    """Whether to offer packed fact lines; None offers them where nothing is encrypted."""
    trusts_local: bool = False
    """Whether Unix sockets and stdio count as encrypted, by local policy."""
    limits: Limits = DEFAULT_LIMITS
    warm: WarmLinks | None = field(default_factory=WarmLinks)
    """What exchanges left behind for later ones over the same links."""
    journal: Callable[[], Journal | None] = lambda: None
    """Gives each connection the journal that it is to keep, if it is to keep one."""
    worker: Executor | None = None
    """Where evaluation and storing run. None runs them in the event loop: the server hears nothing
    meanwhile."""

    async def dial(
        self, address: Address, *, stays: bool = False, listen: Listen | None = None
    ) -> Exchange:
        """Return an exchange over a new connection, ready to run; ``stays`` keeps it open."""
        stream = await connect(address, trust=self.trust)
        return self.over(stream, address, stays=stays, listen=listen)

    def over(
        self,
        stream: ByteStream,
        address: Address,
        *,
        stays: bool = False,
        listen: Listen | None = None,
    ) -> Exchange:
        """Return an exchange over a stream that stands already."""
        packs = address.scheme in _PACKING_SCHEMES if self.packs is None else self.packs
        local = self.trusts_local and address.scheme in _LOCAL_SCHEMES
        endpoint = Endpoint(
            accepting=False,
            nonce=new_nonce(),
            addresses=(str(address),),
            transport=stream.address,
            encrypted=stream.encrypted or local,
            channel=stream.channel,
            key=self.key,
            expected=self.expected,
            packs=packs,
        )
        connection = Connection.over(
            endpoint,
            self.module,
            self._answers,
            base=Side(index=1, module=self.module, open=stays, limits=self.limits),
            limits=self.limits,
            journal=self.journal(),
        )
        return Exchange(stream, connection, limits=self.limits, listen=listen, worker=self.worker)

    async def sync(self, address: Address, listen: Listen | None = None) -> m.Closed | m.Aborted:
        """Run one bounded exchange; raise ``TransportError`` if there is no connection."""
        exchange = await self.dial(address, listen=listen)
        return await exchange.run()

    async def follow(
        self,
        address: Address,
        *,
        listen: Listen | None = None,
        backoff: Backoff | None = None,
        begin: Callable[[Exchange], None] | None = None,
        retry: Callable[[float, str], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> m.Closed | m.Aborted:
        """Keep an open exchange going over any number of connections, until it is asked to close.

        Returns when it was asked to close, or when trying again could not help. ``begin`` is told
        of each exchange, so that it can be woken and closed; ``retry`` is told how many seconds it
        waits before it tries again, and why.
        """
        wait = backoff or Backoff()

        def hear(event: m.Event) -> None:
            if isinstance(event, m.FixedPoint):
                wait.reset()
            if listen is not None:
                listen(event)

        while True:
            try:
                exchange = await self.dial(address, stays=True, listen=hear)
            except TransportError as error:
                if error.code not in PASSING:
                    raise
                why = error.message
            else:
                if begin is not None:
                    begin(exchange)
                ended = await exchange.run()
                if isinstance(ended, m.Closed):
                    if ended.ending is m.Ending.ASKED:
                        return ended
                    why = ended.reason
                elif ended.code not in PASSING:
                    return ended
                else:
                    why = ended.detail
            seconds = wait.delay()
            if retry is not None:
                retry(seconds, why)
            await sleep(seconds)

    def _answers(self, side: Side) -> StoreAnswers:
        return StoreAnswers.of(self.store, side, self.exposure, self.limits, self.warm)
