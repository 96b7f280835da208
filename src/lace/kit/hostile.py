"""Misbehave towards another implementation, in known ways, and see whether it ends them in order.

The side that misbehaves is an honest one whose words are changed at one place. So everything before
that place is right, and what the other side does is its answer to the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lace.answering.store import StoreAnswers
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.errors import Code, TransportError
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.negotiate import CAPABILITIES, Agreement
from lace.interlace.phases import Phase
from lace.kit.cases import SHOWN, store_of
from lace.kit.misbehaviours import LATER, START, Kind
from lace.kit.playing import Tapped
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import PolicyModule
from lace.record import Record, build_plex, seal
from lace.recordstore.memory import MemoryStore
from lace.stream.binding import Binding, Endpoint
from lace.tai import Tai, add_ns
from lace.transport.base import LINGER_SECONDS, ByteStream

Finding = dict[str, Any]

_RECORDS: Final = 12  # more than are listed outright


class _Attentive(Tapped):
    """Hears the peer out: the answer to a change may come after this side has given up."""

    async def finish(self) -> None:
        with suppress(TransportError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while self.closing is None and await self.read():
                    pass
        await super().finish()


@dataclass
class _Twist:
    """Applies a kind at the first place that it is for, or at so many as it says."""

    kind: Kind | None
    times: int = 0
    """How often it was applied."""

    @property
    def done(self) -> bool:
        return self.times > 0

    def greeting(self, honest: bytes) -> bytes:
        if self.kind is None or self.kind.phase is not None:
            return honest
        self.times += 1
        return self.kind.change(honest)

    def said(self, phase: Phase, said: m.Outgoing, honest: bytes) -> bytes:
        kind = self.kind
        if kind is None or self.times >= kind.times:
            return honest
        if kind.said is not type(said) or kind.phase is not phase:
            return honest
        if kind.said is m.SendRecord and b"Signature: " not in honest[:300]:
            return honest
        self.times += 1
        return kind.change(honest)


class _Twisted(Binding):
    """An honest binding whose words are changed at one place."""

    def __init__(self, endpoint: Endpoint, twist: _Twist) -> None:
        super().__init__(endpoint)
        self._twist = twist
        self._phase = Phase.SETUP
        self._agreed: Agreement | None = None

    def greeting(self) -> bytes:
        return self._twist.greeting(super().greeting())

    def send(self, sent: Iterable[m.Outgoing], now: Tai) -> list[bytes]:
        pieces: list[bytes] = []
        listed = list(sent)
        for at, said in enumerate(listed):
            ends = (later.phase for later in listed[at:] if isinstance(later, m.EndPhase))
            phase = next(ends, self._phase)
            honest = b"".join(super().send([said], now))
            pieces.append(self._filled(self._twist.said(phase, said, honest)))
        return pieces or super().send([], now)

    def note(self, phase: Phase, agreed: Agreement | None) -> None:
        """Take note of the phase that the machine is in; what is said next belongs there."""
        self._phase, self._agreed = phase, agreed

    def _filled(self, said: bytes) -> bytes:
        if self._agreed is None:
            return said
        start, later = self._agreed.start, add_ns(self._agreed.start, self._agreed.tick_interval)
        return said.replace(START, start.encode()).replace(LATER, later.encode())


class _Connection(Connection):
    """A connection that tells its binding in which phase it is."""

    def _step(self, given: m.Input, now: Tai) -> None:
        binding = self._binding
        assert isinstance(binding, _Twisted)
        binding.note(self.machine.phase, self.machine.agreement)
        super()._step(given, now)


@dataclass(slots=True)
class _Leaving:
    """Ends an exchange that stays when nothing happened for a while after its last fixed point."""

    seconds: int
    leave: Callable[[m.CloseRequested], None] = lambda _order: None
    _timer: asyncio.TimerHandle | None = None

    def hear(self, event: m.Event) -> None:
        if isinstance(event, m.FixedPoint):
            self.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.seconds, self.leave, m.CloseRequested())

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


@dataclass(slots=True)
class Attacker:
    """Meets another implementation once for each kind."""

    module: PolicyModule
    group: str
    app: str
    index: int = 1
    """1 connects, 0 accepts."""
    patience: int = 10
    """Seconds for which the other side may say nothing."""
    number: int = 0
    key: SigningKey = field(default_factory=SigningKey.generate)

    async def meet(self, stream: ByteStream, dialled: str, kind: Kind | None) -> Finding:
        """Meet over a stream, and misbehave in this way; None is an honest contact."""
        tapped = _Attentive(stream)
        twist = _Twist(kind)
        offers = dict.fromkeys(CAPABILITIES, 0)
        offers |= {} if kind is None else dict(kind.offers)
        limits = replace(DEFAULT_LIMITS, phase_timeout=self.patience, **offers)
        stays = kind is not None and kind.times > 1
        endpoint = Endpoint(
            accepting=self.index == 0, nonce=new_nonce(), addresses=(dialled,),
            transport=stream.address, encrypted=stream.encrypted, channel=stream.channel,
        )  # fmt: skip
        binding = _Twisted(endpoint, twist)
        store = self._store()
        base = Side(index=self.index, module=self.module, limits=limits, open=stays)
        side = binding.side(self.module, base)
        connection = _Connection(
            side, lambda made: StoreAnswers.of(store, made, SHOWN, limits), binding=binding
        )
        leaving = _Leaving(self.patience)
        exchange = Exchange(tapped, connection, limits=limits, listen=leaving.hear)
        leaving.leave = exchange.give
        try:
            ended = await exchange.run()
        finally:
            leaving.cancel()
        return _judged(kind, twist, tapped, ended)

    def _store(self) -> MemoryStore:
        """Return records that the other side cannot have seen before."""
        made: list[Record] = []
        for _ in range(_RECORDS):
            self.number += 1
            plex = build_plex(
                group=self.group, app=self.app, name=f"kit/{self.number}", tai=tai_now(),
                data=b"of a peer that misbehaves",
            )  # fmt: skip
            made.append(seal(plex, self.key))
        return store_of(made)


def _judged(
    kind: Kind | None, twist: _Twist, tapped: Tapped, ended: m.Closed | m.Aborted
) -> Finding:
    closed = isinstance(ended, m.Closed) and ended.code is None
    if kind is None:
        # Whoever stored what was not valid now hands it on.
        rejected = len(ended.result.rejected)
        found: Finding = {"kind": "an honest contact", "ok": closed and not rejected}
        if rejected:
            found |= {"detail": f"it handed on {rejected} records that are not valid"}
        if isinstance(ended, m.Aborted):
            found |= {"code": str(ended.code), "detail": ended.detail}
        return found
    found = {"kind": kind.name, "expected": list(kind.codes)}
    if not twist.done:
        needs = kind.needs or "an exchange that gets there"
        return found | {"ok": None, "detail": f"it did not come to this: {needs}"}
    said = tapped.closing
    found["said"] = said
    if not kind.codes:
        # What this side never asked for may be answered: then it is this side that ends.
        mine = isinstance(ended, m.Aborted) and ended.code is Code.INTERLACE_UNASKED
        return found | {"ok": said is None and (closed or mine)}
    gone = isinstance(ended, m.Aborted) and ended.blame is not m.Blame.LOCAL
    silent = isinstance(ended, m.Aborted) and ended.code is Code.INTERLACE_TIMEOUT
    found["ok"] = gone and not silent
    found["same_code"] = said is not None and said.startswith(kind.codes)
    if silent:
        found["detail"] = "it neither went on nor ended"
    elif closed:
        found["detail"] = "it went on as if nothing had happened"
    return found
