"""Shared time: both sides move on together, in aligned ticks, and never back (050)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lace.errors import Code, EncodingError, ProtocolError
from lace.tai import Tai, add_ns, difference_ns, parse_tai


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticking:
    """Where both sides are."""

    start: Tai
    interval: int
    """In nanoseconds."""
    local_ready: Tai
    peer_ready: Tai

    @classmethod
    def begin(cls, start: Tai, interval: int) -> Ticking:
        return cls(start=start, interval=interval, local_ready=start, peer_ready=start)

    @property
    def now(self) -> Tai:
        """TickTAI: the later side waits for the earlier one."""
        return min(self.local_ready, self.peer_ready)

    def reached(self, clock: Tai) -> Ticking:
        """Return the state when the local clock shows this; the newest aligned tick counts."""
        passed = difference_ns(clock, self.start)
        if passed < 0:
            return self
        tick = add_ns(self.start, passed // self.interval * self.interval)
        return replace(self, local_ready=max(tick, self.local_ready))

    def heard(self, ready: str) -> Ticking:
        """Return the state after a peer's TickReady; raise ``ProtocolError`` if it is invalid."""
        try:
            instant = parse_tai(ready)
        except EncodingError:
            raise ProtocolError("TickReady is no TAI instant", code=Code.INTERLACE_TICK) from None
        if instant < self.start or instant < self.peer_ready:
            raise ProtocolError("TickReady goes back in time", code=Code.INTERLACE_TICK)
        if difference_ns(instant, self.start) % self.interval:
            raise ProtocolError("TickReady is not on an aligned tick", code=Code.INTERLACE_TICK)
        return replace(self, peer_ready=instant)
