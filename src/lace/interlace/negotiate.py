"""Hello: what two sides tell each other before they exchange, and what follows from it (050)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Final, NoReturn

from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import Code, EncodingError, ProtocolError
from lace.ids import Verifier, is_verifier
from lace.interlace.facts import decimal
from lace.limits import Limits
from lace.policy.plan import ExchangePlan, PlanId
from lace.tai import NS_PER_SECOND, Tai, difference_ns, parse_tai

_SUFFIX: Final = re.compile(r"[A-Z][A-Z0-9]*")
_LONGEST_TICK: Final = 10**9 * NS_PER_SECOND

#: The limits that are told to a peer, by their names on the wire (G15).
WIRE_LIMITS: Final = frozenset(
    name.name
    for name in fields(Limits)
    if name.name.startswith("max_") or name.name in {"phase_timeout", "partition_prefix_start"}
)


#: Limits of what earlier versions do not know: without an offer of both sides there is none of it.
CAPABILITIES: Final = frozenset(
    (
        "max_advertisements_in_delta",
        "max_cells_in_sketch",
        "max_places_listed",
        "max_deferred_advertisements",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What one side says."""

    plan: PlanId
    tai: Tai
    tick_interval: int
    """In nanoseconds."""
    signer: Verifier | None = None
    formats: frozenset[str] = frozenset(("H3",))
    fields: frozenset[str] | None = None
    """Fields it can advertise; None for all of them."""
    limits: dict[str, int] = field(default_factory=dict)

    def facts(self) -> list[Fact]:
        """Return the hello block, in a fixed order."""
        facts: list[Fact] = [("HelloExchangePlan", self.plan)]
        if self.signer is not None:
            facts.append(("HelloSigner", self.signer))
        facts.append(("HelloTAI", self.tai))
        facts.append(("HelloTickInterval", str(self.tick_interval)))
        facts += [("HelloRecordFormat", suffix) for suffix in sorted(self.formats)]
        if self.fields is None:
            facts.append(("HelloAllAdvertisedFields",))
        else:
            facts += [("HelloAdvertisedField", name) for name in sorted(self.fields)]
        facts += [("HelloLimit", name, str(value)) for name, value in sorted(self.limits.items())]
        return facts


def parse_hello(facts: Iterable[Fact]) -> Hello:
    """Return what a peer's hello block says; raise ``ProtocolError`` for anything malformed."""
    values: dict[str, list[tuple[str, ...]]] = {}
    for fact in facts:
        values.setdefault(fact[0], []).append(fact[1:])
    signer = _single(values, "HelloSigner", optional=True)
    if signer is not None and not is_verifier(signer):
        _refuse("HelloSigner is no verifier")
    instant = _single(values, "HelloTAI")
    interval = decimal(_single(values, "HelloTickInterval") or "")
    if interval is None or not 0 < interval <= _LONGEST_TICK:
        _refuse("HelloTickInterval is no usable number of nanoseconds")
    try:
        start = parse_tai(instant or "")
    except EncodingError:
        _refuse("HelloTAI is no TAI instant")
    formats = frozenset(row[0] for row in values.get("HelloRecordFormat", ()))
    if any(not _SUFFIX.fullmatch(suffix) for suffix in formats):
        _refuse("HelloRecordFormat is no hash suffix")
    every = "HelloAllAdvertisedFields" in values
    names = frozenset(row[0] for row in values.get("HelloAdvertisedField", ()))
    return Hello(
        plan=PlanId(_single(values, "HelloExchangePlan") or ""),
        tai=start,
        tick_interval=interval,
        signer=Verifier(signer) if signer is not None else None,
        formats=formats,
        fields=None if every else names,
        limits=_limits(values.get("HelloLimit", [])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What both sides hold to for the whole exchange; equal on both, but for their own limits."""

    start: Tai
    clock_skew_seconds: int
    tick_interval: int
    formats: frozenset[str]
    fields: frozenset[str] | None
    limits: dict[str, int]
    """Effective value of each limit that is told on the wire."""

    def runtime_facts(self) -> list[Fact]:
        """Return the shared runtime facts at the start."""
        return [
            ("ClockSkewSeconds", str(self.clock_skew_seconds)),
            ("StartTAI", self.start),
            ("TickTAI", self.start),
        ]


def negotiate(
    mine: Hello, theirs: Hello, plan: ExchangePlan, proven: Verifier | None, limits: Limits
) -> Agreement:
    """Return what follows from both hellos; raise ``ProtocolError`` if they cannot exchange.

    ``proven`` is the verifier that the binding has proof of for the peer, if any.
    """
    if theirs.plan != mine.plan or mine.plan != plan.id:
        raise ProtocolError("the exchange plans differ", code=Code.INTERLACE_PLAN)
    if theirs.signer != proven:
        raise ProtocolError(
            "the peer's signer is not the one that was proven", code=Code.INTERLACE_SIGNER
        )
    formats = mine.formats & theirs.formats
    if not formats:
        raise ProtocolError("no record format in common", code=Code.INTERLACE_FORMAT)
    schema = intersect_fields(mine.fields, theirs.fields)
    if not plan.is_met_by(schema):
        raise ProtocolError(
            "the plan needs advertised fields that are not supported", code=Code.INTERLACE_SCHEMA
        )
    return Agreement(
        start=max(mine.tai, theirs.tai),
        clock_skew_seconds=abs(difference_ns(mine.tai, theirs.tai)) // NS_PER_SECOND,
        tick_interval=max(mine.tick_interval, theirs.tick_interval),
        formats=formats,
        fields=schema,
        limits=_effective(mine.limits, theirs.limits, limits),
    )


def intersect_fields(
    mine: frozenset[str] | None, theirs: frozenset[str] | None
) -> frozenset[str] | None:
    """Return the schema that both can advertise; None stands for all fields."""
    if mine is None:
        return theirs
    return mine if theirs is None else mine & theirs


def link_id(one: Verifier, other: Verifier, plan: PlanId) -> bytes:
    """Return the key under which cursors of two proven signers are kept; never sent (A36)."""
    first, second = sorted((one.encode(), other.encode()))
    return digest(first + second + plan.encode())


def _effective(mine: dict[str, int], theirs: dict[str, int], limits: Limits) -> dict[str, int]:
    effective = {}
    for name in sorted(WIRE_LIMITS):
        local = int(getattr(limits, name))
        offers = [offer[name] for offer in (mine, theirs) if name in offer]
        if name == "partition_prefix_start":
            # A coarser start needs both sides to ask for it; the standard needs nobody.
            effective[name] = 0 if offers == [0, 0] else 2
        elif name in CAPABILITIES and len(offers) < 2:
            effective[name] = 0
        else:
            effective[name] = min([local, *offers])
    return effective


def _limits(rows: list[tuple[str, ...]]) -> dict[str, int]:
    """Return the offers for known limits, the least of each; unknown names are passed over."""
    found: dict[str, int] = {}
    for name, text in rows:
        value = decimal(text)
        if value is None:
            _refuse(f"HelloLimit {name if name in WIRE_LIMITS else 'of this name'} is no number")
        if name in WIRE_LIMITS:
            found[name] = min(value, found.get(name, value))
    return found


def _single(
    values: dict[str, list[tuple[str, ...]]], name: str, *, optional: bool = False
) -> str | None:
    rows = values.get(name, [])
    if len(rows) == 1:
        return rows[0][0]
    if rows or not optional:
        _refuse(f"{name} is given {len(rows)} times")
    return None


def _refuse(message: str) -> NoReturn:
    raise ProtocolError(message, code=Code.INTERLACE_HELLO)
