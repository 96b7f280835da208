"""Misbehave towards another implementation, in known ways, and see whether it ends them in order.

The side that misbehaves is an honest one whose words are changed at one place. So everything before
that place is right, and what the other side does is its answer to the change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lace.answering.store import StoreAnswers
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.errors import Code
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.phases import Phase
from lace.kit.cases import SHOWN, store_of
from lace.kit.misbehaviours import Kind
from lace.kit.playing import Tapped
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import PolicyModule
from lace.record import Record, build_plex, seal
from lace.recordstore.memory import MemoryStore
from lace.stream.binding import Binding, Endpoint
from lace.tai import Tai
from lace.transport.base import ByteStream

Finding = dict[str, Any]

_RECORDS: Final = 12  # more than are listed outright


@dataclass
class _Twist:
    """Applies a kind once, at the first place that it is for."""

    kind: Kind | None
    done: bool = False

    def greeting(self, honest: bytes) -> bytes:
        if self.kind is None or self.kind.phase is not None:
            return honest
        self.done = True
        return self.kind.change(honest)

    def said(self, phase: Phase, said: m.Outgoing, honest: bytes) -> bytes:
        kind = self.kind
        if kind is None or self.done or kind.said is not type(said) or kind.phase is not phase:
            return honest
        if kind.said is m.SendRecord and b"Signature: " not in honest[:300]:
            return honest
        self.done = True
        return kind.change(honest)


class _Twisted(Binding):
    """An honest binding whose words are changed at one place."""

    def __init__(self, endpoint: Endpoint, twist: _Twist) -> None:
        super().__init__(endpoint)
        self._twist = twist
        self._phase = Phase.SETUP

    def greeting(self) -> bytes:
        return self._twist.greeting(super().greeting())

    def send(self, sent: Iterable[m.Outgoing], now: Tai) -> list[bytes]:
        pieces: list[bytes] = []
        listed = list(sent)
        for at, said in enumerate(listed):
            ends = (later.phase for later in listed[at:] if isinstance(later, m.EndPhase))
            phase = next(ends, self._phase)
            honest = b"".join(super().send([said], now))
            pieces.append(self._twist.said(phase, said, honest))
        return pieces or super().send([], now)

    def note_phase(self, phase: Phase) -> None:
        """Take note of the phase that the machine is in; what is said next belongs there."""
        self._phase = phase


class _Connection(Connection):
    """A connection that tells its binding in which phase it is."""

    def _step(self, given: m.Input, now: Tai) -> None:
        binding = self._binding
        assert isinstance(binding, _Twisted)
        binding.note_phase(self.machine.phase)
        super()._step(given, now)


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
        tapped = Tapped(stream)
        twist = _Twist(kind)
        limits = replace(
            DEFAULT_LIMITS, phase_timeout=self.patience, max_delta_advertisements=0,
            max_sketch_cells=0,
        )  # fmt: skip
        endpoint = Endpoint(
            accepting=self.index == 0, nonce=new_nonce(), addresses=(dialled,),
            transport=stream.address, encrypted=stream.encrypted, channel=stream.channel,
        )  # fmt: skip
        binding = _Twisted(endpoint, twist)
        store = self._store()
        side = binding.side(self.module, Side(index=self.index, module=self.module, limits=limits))
        connection = _Connection(
            side, lambda made: StoreAnswers.of(store, made, SHOWN, limits), binding=binding
        )
        ended = await Exchange(tapped, connection, limits=limits).run()
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
