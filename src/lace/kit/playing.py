"""Play one side of a case against another implementation, and say what differed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lace.answering.store import StoreAnswers
from lace.datalog.source import parse_facts
from lace.driving.client import new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.errors import LaceError
from lace.interlace import messages as m
from lace.interlace.advertise import advertise, gather
from lace.interlace.machine import Side
from lace.kit.cases import SHOWN, Case, Part, hashes, store_of
from lace.record.facts import fields
from lace.recordstore.memory import MemoryStore
from lace.stream import items as i
from lace.stream.binding import Endpoint
from lace.transport.base import ByteStream, StreamOver

Finding = dict[str, Any]
"""One line of a report: what was looked at, whether it is right, and what was found if not."""

_NAMES_SHOWN: Final = 10
_CLOSING: Final = b"# closing: "
_CODE_SHOWN: Final = 60
_ADVERTS: Final = frozenset(("Advertised", "AdvertisedField"))


class Tapped(StreamOver):
    """A stream that keeps what came over it: fact lines by phase, and the last word."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream)
        self._reader = i.ItemReader(unpacks=True)
        self.blocks: list[bytearray] = [bytearray()]
        """The fact lines of each phase."""
        self.closing: str | None = None
        """What the peer said when it gave up."""
        self.malformed: str | None = None
        self.before_module: Callable[[], Awaitable[None]] | None = None
        """What is to be done once, before the next module that comes is looked at."""
        self._said = asyncio.Event()

    async def read(self) -> bytes:
        chunk = await super().read()
        for item in self._reader.feed(chunk):
            match item:
                case i.FactLines():
                    self.blocks[-1] += item.content
                case i.PhaseEnd():
                    self.blocks.append(bytearray())
                case i.Comments():
                    for line in item.content.splitlines():
                        if line.startswith(_CLOSING):
                            word = line.removeprefix(_CLOSING)[:_CODE_SHOWN]
                            self.closing = word.decode("ascii", "replace")
                case i.Malformed():
                    self.malformed = f"{item.detail}, at byte {item.offset}"
                case i.Resource() if self.before_module is not None:
                    do, self.before_module = self.before_module, None
                    await do()
        return chunk

    async def write(self, data: bytes) -> None:
        await super().write(data)
        self._said.set()

    async def says(self) -> None:
        """Wait until this side has said something more."""
        self._said.clear()
        await self._said.wait()


@dataclass(slots=True)
class Player:
    """One side of a case, over any number of connections."""

    case: Case
    index: int
    """0 plays the accepting side, 1 the connecting one."""
    patience: int = 30
    """Seconds for which the other side may say nothing."""
    store: MemoryStore = field(init=False)
    contacts: int = 0

    def __post_init__(self) -> None:
        self.store = store_of(self.case.parts[self.index].records)

    async def meet(self, stream: ByteStream, dialled: str) -> list[Finding]:
        """Meet the other side over a stream; return what was found, right or not."""
        tapped = Tapped(stream)
        part = self.case.parts[self.index]
        connection = connection_of(part, self.index, self.store, tapped, dialled, self.patience)
        exchange = Exchange(tapped, connection, limits=connection.side.limits)
        ended = await exchange.run()
        self.contacts += 1
        common = {"case": self.case.name, "contact": self.contacts}
        found = [common | finding for finding in self._judge(ended, connection, tapped)]
        return [tidy(finding) for finding in found]

    # --- what is right and what is not ---

    def _judge(
        self, ended: m.Closed | m.Aborted, connection: Connection, tapped: Tapped
    ) -> Iterator[Finding]:
        yield ended_well(ended, tapped)
        other = self.case.parts[1 - self.index]
        verifier = other.key and str(other.key.verifier)
        proven = ended.result.peer
        yield _compared("identity", verifier, None if proven is None else str(proven))
        if connection.machine.agreement is None:
            return
        yield self._advertised(connection, tapped)
        yield received(self.case.stores[self.index], hashes(self.store))
        if self.contacts > 1:
            sent, came = set(ended.result.sent), set(ended.result.received)
            ok = not (sent or came)
            yield {"check": "nothing new", "ok": ok, "sent": sent, "received": came}

    def _advertised(self, connection: Connection, tapped: Tapped) -> Finding:
        """Hold what was advertised against the records that are behind it."""
        agreement, source = connection.machine.agreement, connection.machine.peer_source
        assert agreement is not None
        assert source is not None
        records = self.case.records
        listed: set[str] = set()
        wrong: set[str] = set()
        try:
            for block in tapped.blocks:
                facts = [fact for fact in parse_facts(bytes(block)) if fact[0] in _ADVERTS]
                for name, said in gather(facts, source).items():
                    listed.add(name)
                    if name in records:
                        true = advertise(name, source, fields(records[name]), agreement.fields)
                        wrong |= set() if said == true else {name}
        except LaceError as error:
            return {"check": "advertised", "ok": False, "detail": error.message}
        # What both sides select, both have in the end.
        hidden = listed - (self.case.stores[0] & self.case.stores[1])
        ok = not (wrong or hidden)
        return {"check": "advertised", "ok": ok, "other_words": wrong, "too_much": hidden}


def connection_of(
    part: Part,
    index: int,
    store: MemoryStore,
    stream: ByteStream,
    dialled: str,
    patience: int,
    **options: Any,
) -> Connection:
    """Return one side of a case over a stream; options are those of its ``Side``."""
    limits = replace(part.limits, phase_timeout=min(part.limits.phase_timeout, patience))
    endpoint = Endpoint(
        accepting=index == 0,
        nonce=new_nonce(),
        addresses=(dialled,),
        transport=stream.address,
        encrypted=stream.encrypted,
        channel=stream.channel,
        key=part.key,
        packs=part.packs,
    )
    side = Side(index=index, module=part.module, coarse=part.coarse, limits=limits, **options)
    return Connection.over(
        endpoint,
        part.module,
        lambda made: StoreAnswers.of(store, made, SHOWN, limits),
        base=side,
        limits=limits,
    )


def received(expected: frozenset[str], found: frozenset[str]) -> Finding:
    """Say whether a store has exactly what it has to have."""
    missing, extra = expected - found, found - expected
    return {"check": "received", "ok": not (missing or extra), "missing": missing, "extra": extra}


def ended_well(ended: m.Closed | m.Aborted, tapped: Tapped) -> Finding:
    """Say whether an exchange came to a fixed point and ended in order."""
    found: Finding = {"check": "end", "ok": isinstance(ended, m.Closed) and ended.code is None}
    if isinstance(ended, m.Aborted):
        found |= {"code": str(ended.code), "detail": ended.detail, "blame": str(ended.blame)}
    elif not found["ok"]:
        found |= {"code": str(ended.code), "detail": ended.reason}
    if tapped.closing is not None:
        found["peer_said"] = tapped.closing
    return found | {"loops": ended.result.loops}


def _compared(check: str, expected: object, found: object) -> Finding:
    return {"check": check, "ok": expected == found, "expected": expected, "found": found}


def tidy(finding: Finding) -> Finding:
    """Return a finding as it is printed: what is right says no more, and lists are short."""
    kept: Finding = {}
    for name, value in finding.items():
        if isinstance(value, set | frozenset):
            if value:
                kept[name] = sorted(value)[:_NAMES_SHOWN]
                kept[f"{name}_count"] = len(value)
        elif value is not None:
            kept[name] = value
    return kept


def verdict(findings: Iterable[Finding]) -> bool:
    """Whether everything was right."""
    return all(finding["ok"] for finding in findings)
