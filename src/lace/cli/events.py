"""What happens in an exchange, as lines: words on a terminal, JSON objects in a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lace.api.handles import Lace
from lace.api.operations import get
from lace.cli.names import key_names, named, place_for_people
from lace.cli.output import echo
from lace.cli.progress import ProgressLine
from lace.cli.render import print_json
from lace.cli.shape import short_hashes
from lace.interlace import messages as m

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_EVENTS_SHOWN: Final = 20
_FRAME_SECONDS: Final = 0.1


@dataclass(slots=True)
class Reporter:
    """Tells what happened; ``brief`` keeps a long list short on a terminal."""

    local: Lace
    brief: bool = True
    form: str = "json"
    """Words for people, as they can be shown (``table``), or an object at once (``json``)."""
    received: int = 0
    rejected: int = 0
    _waiting: list[tuple[str, str]] = field(default_factory=list)
    """Records to be shown, with the arrow before them."""
    _left_out: int = 0

    def hear(self, event: m.Event) -> None:
        """Tell an event: an object at once, words with ``flush``."""
        if isinstance(event, m.RecordSaved):
            self.received += 1
        elif isinstance(event, m.RecordRejected):
            self.rejected += 1
        if self.form == "json":
            for entry in as_entries(event):
                print_json(entry)
            sys.stdout.buffer.flush()
            return
        match event:
            case m.RecordSaved():
                self._show("←", event.hash)
            case m.RecordRejected():
                echo(f"✗ {event.hash} was rejected: {event.detail} [{event.code}]")
            case m.FixedPoint():
                for hash in event.result.sent:
                    self._show("→", hash)
            case _:
                pass

    def _show(self, arrow: str, hash: str) -> None:
        if self.brief and len(self._waiting) >= _EVENTS_SHOWN:
            self._left_out += 1
        else:
            self._waiting.append((arrow, hash))

    async def flush(self) -> None:
        """Show what waits, each record with its place."""
        waiting, self._waiting = self._waiting, []
        left_out, self._left_out = self._left_out, 0
        short = short_hashes(hash for _, hash in waiting)
        names = key_names() if waiting else {}
        for arrow, hash in waiting:
            record = await get(self.local, f"////{hash}")
            place = place_for_people(None if record is None else record.place, names)
            echo(f"{arrow} {short[hash]} {place}".rstrip())
        if left_out:
            echo(f"  … and {left_out} more")

    @asynccontextmanager
    async def progress(self) -> AsyncIterator[None]:
        """Show on standard error that work goes on, once it has taken a second."""
        with ProgressLine("records received") as line:
            ticking = asyncio.create_task(self._tick(line))
            try:
                yield
            finally:
                ticking.cancel()

    async def _tick(self, line: ProgressLine) -> None:
        while True:
            await asyncio.sleep(_FRAME_SECONDS)
            line.tell(self.received)


def as_entries(event: m.Event) -> Iterator[dict[str, Any]]:
    """Yield an event as objects: one, but for what was sent, which has one a record."""
    match event:
        case m.RecordSaved():
            yield {"event": "saved", "hash": event.hash}
        case m.RecordDuplicate():
            yield {"event": "duplicate", "hash": event.hash}
        case m.RecordRejected():
            rejected = {"code": str(event.code), "detail": event.detail}
            yield {"event": "rejected", "hash": event.hash} | rejected
        case m.FixedPoint():
            for hash in event.result.sent:
                yield {"event": "sent", "hash": hash}
            yield {"event": "fixed-point"} | numbers(event.result)
        case m.Closed(ending=m.Ending.LOOPS):
            yield {"event": "closed", "reason": event.reason} | numbers(event.result)
        case m.Closed():
            yield {"event": "closed", "reason": event.reason}
        case m.Aborted():
            why = {"blame": str(event.blame), "code": str(event.code), "detail": event.detail}
            yield {"event": "aborted"} | why | numbers(event.result)


def numbers(result: m.InterlaceResult) -> dict[str, Any]:
    """Return what one round did, counted."""
    return {
        "bytes_received": result.bytes_received,
        "bytes_sent": result.bytes_sent,
        "ending": result.ending,
        "loops": result.loops,
        "not_available": len(result.not_available),
        "not_stored": result.not_stored,
        "offered": result.offered,
        "peer": result.peer,
        "plan": result.plan,
        "received": len(result.received),
        "rejected": len(result.rejected),
        "sent": len(result.sent),
    }


def summary(result: m.InterlaceResult) -> str:
    """Return the same in one line of words."""
    parts = [
        f"{len(result.received):,} received ({result.bytes_received:,} bytes)",
        f"{len(result.sent):,} sent ({result.bytes_sent:,} bytes)",
    ]
    if result.rejected:
        parts.append(f"{len(result.rejected):,} rejected")
    if result.not_available:
        parts.append(f"{len(result.not_available):,} no longer available")
    peer = f" with {named(result.peer)}" if result.peer else ""
    loops = "1 loop" if result.loops == 1 else f"{result.loops} loops"
    return f"{', '.join(parts)}{peer}, in {loops}"
