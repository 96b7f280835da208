"""Every predicate that Lace gives a meaning to, in one place, and what rules may do with it.

Whoever needs one of them takes it from here; nobody else spells it. The rule engine knows none of
them: roles and schemas are handed to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.roles import Role
from lace.datalog.schema import Schema, WideTable


class Kind(StrEnum):
    """Who says a fact."""

    RECORD = "record"
    """It follows from a record that is stored."""
    ADVERTISEMENT = "advertisement"
    """A peer claims it."""
    RUNTIME = "runtime"
    """This process knows it of the exchange that runs."""
    SELECTION = "selection"
    """Rules of a selector derive it."""
    EXPOSURE = "exposure"
    """Rules of an expose module derive it."""
    ENFORCEMENT = "enforcement"
    """It is computed here from selections and exposure; nobody's rules derive it."""
    WIRE = "wire"
    """One side tells it the other; rules never see it."""
    PLAN = "plan"
    """It stands in a text that is hashed."""
    PROVENANCE = "provenance"
    """It tells tools where rules came from."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One predicate: how it is written, and what a fact of it says."""

    kind: Kind
    name: str
    arguments: tuple[str, ...]
    meaning: str

    @property
    def arity(self) -> int:
        return len(self.arguments)

    @property
    def predicate(self) -> Predicate:
        return Predicate(self.name, self.arity)

    def __str__(self) -> str:
        return f"{self.name}({','.join(self.arguments)})"


_ENTRIES: Final[list[Entry]] = []
_WRITTEN: Final = re.compile(r"([A-Za-z]+)\(((?:[a-z]+(?:,[a-z]+)*)?)\)")


def _entry(kind: Kind, written: str, meaning: str) -> Predicate:
    """Add an entry, written as an atom with names for its arguments; return its predicate."""
    match = _WRITTEN.fullmatch(written)
    assert match is not None, written
    arguments = tuple(filter(None, match[2].split(",")))
    _ENTRIES.append(Entry(kind, match[1], arguments, meaning))
    return _ENTRIES[-1].predicate


# --- records (spec 020) ---

HAVE: Final = _entry(Kind.RECORD, "Have(record)", "The record is stored here.")
FIELD: Final = _entry(
    Kind.RECORD,
    "Field(record,name,index,value)",
    "The record has a field of this name and value; index counts those of one name from 0.",
)
RECORD_LINK: Final = _entry(
    Kind.RECORD,
    "RecordLink(record,name,index,data,target)",
    "A field of the record links to the target; data is what stands before its hash.",
)
BLOB_HASH: Final = _entry(
    Kind.RECORD, "BlobHash(record,blob)", "The record is a Plex around the Blob of this hash."
)
PLEX_HASH: Final = _entry(
    Kind.RECORD, "PlexHash(record,plex)", "The record is a Seal around the Plex of this hash."
)

# --- advertisements (spec 050) ---

ADVERTISED: Final = _entry(
    Kind.ADVERTISEMENT, "Advertised(record,source)", "The source offers the record."
)
ADVERTISED_FIELD: Final = _entry(
    Kind.ADVERTISEMENT,
    "AdvertisedField(record,source,name,index,value)",
    "The source says that the record it offers has this field.",
)

# --- the exchange that runs (spec 040) ---

HERE: Final = _entry(
    Kind.RUNTIME, "Here(verifier)", "This side has proven the key of the verifier to the peer."
)
PEER: Final = _entry(Kind.RUNTIME, "Peer(verifier)", "The peer proved the key of the verifier.")
TRANSPORT: Final = _entry(
    Kind.RUNTIME, "Transport(name)", "The exchange runs over a transport of this name."
)
TRANSPORT_ENCRYPTED: Final = _entry(
    Kind.RUNTIME, "TransportEncrypted()", "This process knows that the transport is encrypted."
)
START_TAI: Final = _entry(Kind.RUNTIME, "StartTAI(instant)", "The exchange began at the instant.")
TICK_TAI: Final = _entry(
    Kind.RUNTIME, "TickTAI(instant)", "Both sides have agreed that it is now the instant."
)
CLOCK_SKEW_SECONDS: Final = _entry(
    Kind.RUNTIME, "ClockSkewSeconds(seconds)", "The clocks of both sides differ by so many seconds."
)

# --- what modules define (spec 040) ---

SELECT_HAVE: Final = _entry(
    Kind.SELECTION, "SelectHave(record)", "A stored record is among what the selector selects."
)
SELECT_ADVERTISED: Final = _entry(
    Kind.SELECTION,
    "SelectAdvertised(record,source)",
    "A record that the source offers is among what the selector selects.",
)
ALLOW_QUERY_RECORD: Final = _entry(
    Kind.EXPOSURE, "AllowQueryRecord(viewer,record)", "Rules of the viewer may see the record."
)

# --- what is computed from them (spec 040) ---

CAN_QUERY_RECORD: Final = _entry(
    Kind.ENFORCEMENT, "CanQueryRecord(viewer,record)", "Rules of the viewer can see the record."
)
MAY_SEND: Final = _entry(Kind.ENFORCEMENT, "MaySend(record)", "The peer may get the record.")
MAY_REQUEST: Final = _entry(
    Kind.ENFORCEMENT,
    "MayRequest(record)",
    "The peer may be asked for the record; on the wire, it is asked for it.",
)

# --- what sides tell each other (spec 050) ---

_entry(
    Kind.WIRE,
    "ExchangeOperand(index,module,origin,facet)",
    "The sender brings this module as the operand of this index and origin.",
)
_entry(Kind.WIRE, "HelloExchangePlan(plan)", "The sender has computed the plan of this id.")
_entry(Kind.WIRE, "HelloSigner(verifier)", "The sender claims the key of the verifier.")
_entry(Kind.WIRE, "HelloTAI(instant)", "The sender's clock shows the instant.")
_entry(Kind.WIRE, "HelloTickInterval(nanoseconds)", "The sender wants ticks no closer than this.")
_entry(Kind.WIRE, "HelloRecordFormat(suffix)", "The sender validates hashes with this suffix.")
_entry(Kind.WIRE, "HelloAdvertisedField(name)", "The sender can advertise fields of this name.")
_entry(Kind.WIRE, "HelloAllAdvertisedFields()", "The sender can advertise fields of any name.")
_entry(Kind.WIRE, "HelloLimit(name,value)", "The sender holds to this limit.")
_entry(
    Kind.WIRE,
    "AdvertisementPartition(prefix,count,root)",
    "So many advertised records have hashes with the prefix; root is their Merkle root.",
)
_entry(
    Kind.WIRE,
    "ListAdvertisementPartition(prefix)",
    "The sender asks for the advertisements of a partition.",
)
_entry(
    Kind.WIRE,
    "NarrowAdvertisementPartition(prefix)",
    "The sender asks for summaries of the parts of a partition.",
)
_entry(
    Kind.WIRE,
    "AdvertisementTable(count,check)",
    "The sender advertises so many records, and this is the digest of all of them.",
)
_entry(
    Kind.WIRE,
    "AdvertisementDelta(base)",
    "What is listed in this phase leads from the table of this digest to the one that is told.",
)
_entry(
    Kind.WIRE,
    "SketchAdvertisements(first,last)",
    "The sender asks for cells of a sketch, from the first to before the last; 0 to 0: it waits.",
)
_entry(
    Kind.WIRE,
    "AdvertisementSketch(first,cells)",
    "These are cells of the sketch of all that the sender advertises, from the first on.",
)
_entry(
    Kind.WIRE,
    "ListAdvertisementItems(names)",
    "The sender asks for the advertisements of these names of a sketch.",
)
_entry(
    Kind.WIRE,
    "AdvertisementsDeferred(count)",
    "So many advertisements did not fit this phase, and can be asked for in the next one.",
)
_entry(
    Kind.WIRE,
    "ListDeferredAdvertisements()",
    "The sender asks for the advertisements that did not fit.",
)
_entry(
    Kind.WIRE,
    "RequestListed(first,last)",
    "The sender asks for records that were listed in this loop: by place, first to before last.",
)
_entry(Kind.WIRE, "NotAvailable(record)", "The sender cannot send a record that it was asked for.")
_entry(Kind.WIRE, "TickReady(instant)", "The sender is ready to go on to the instant.")

# --- texts that are hashed (spec 040) ---

_entry(Kind.PLAN, "ExchangePlanProfile(profile)", "The transcript is written by this profile.")
_entry(Kind.PLAN, "ExchangePlanLowering(name)", "Selections become permissions by this lowering.")
_entry(
    Kind.PLAN,
    "ExchangePlanOperand(index,facet,module)",
    "The operand of this index is the module of this id.",
)
_entry(
    Kind.PLAN,
    "ExchangePlanOperandOrigin(index,origin)",
    "The operand of this index has this origin.",
)
_entry(
    Kind.PLAN,
    "ExchangePlanRequireAdvertisedField(name)",
    "Rules of the plan look at advertised fields of this name.",
)
_entry(
    Kind.PLAN,
    "ExchangePlanRequireAllAdvertisedFields()",
    "Rules of the plan look at advertised fields of any name.",
)
_entry(
    Kind.PLAN,
    "ExchangePlanRuntime(name,arity)",
    "Rules of the plan may look at this runtime predicate.",
)
_entry(
    Kind.PLAN,
    "OpaqueOrigin(index,nonce,verifier,facet,module)",
    "What the label of an operand is made from.",
)

# --- for tools (spec 040) ---

_entry(Kind.PROVENANCE, "RuleSource(rule,module,original)", "A rule comes from one of a module.")
_entry(Kind.PROVENANCE, "RuleGeneratedBy(rule,step,subject)", "A step of lowering made the rule.")
_entry(Kind.PROVENANCE, "RuleOrigin(rule,origin)", "The rule came with the operand of this origin.")

VOCABULARY: Final = tuple(_ENTRIES)
"""All of it, in the order of a reference."""


def _of(kind: Kind) -> frozenset[Predicate]:
    return frozenset(entry.predicate for entry in VOCABULARY if entry.kind is kind)


RECORD_FACTS: Final = _of(Kind.RECORD)
ADVERTISEMENT_FACTS: Final = _of(Kind.ADVERTISEMENT)
RUNTIME_FACTS: Final = _of(Kind.RUNTIME)
WIRE_FACTS: Final = _of(Kind.WIRE) | ADVERTISEMENT_FACTS | {MAY_REQUEST}
"""All that may stand in a fact block of an exchange."""

# --- what the engine is told ---

_WIDE: Final = (
    WideTable(FIELD, 1, presence=HAVE),
    WideTable(ADVERTISED_FIELD, 2, presence=ADVERTISED),
)
PLAIN_SCHEMA: Final = Schema(_WIDE, (("runtime_facts", RUNTIME_FACTS),))
"""For rules alone: fields of one record are looked at together."""

EXCHANGE_SCHEMA: Final = Schema(
    _WIDE, (("runtime_facts", RUNTIME_FACTS), ("advertised_facts", ADVERTISEMENT_FACTS))
)
"""For exchanges: what a peer advertises is counted by itself."""

# --- roles (A10, A12) ---

_ENFORCED: Final = frozenset(predicate.name for predicate in _of(Kind.ENFORCEMENT))
_SCOPES: Final = ("o0_", "o1_")
_EXCHANGE: Final = RECORD_FACTS | ADVERTISEMENT_FACTS | RUNTIME_FACTS

PLAIN: Final = Role(name="plain", base=RECORD_FACTS)
"""The rule engine alone: only base predicates and built-ins are reserved."""

SELECTOR: Final = Role(
    name="selector",
    base=_EXCHANGE,
    undefinable_prefixes=(*_SCOPES, "Allow"),
    unmentionable_names=_ENFORCED | {ALLOW_QUERY_RECORD.name},
    allows_local=False,
)
"""An operand of an exchange: it says what is selected, and knows nothing of enforcement."""

EXPOSE: Final = Role(
    name="expose",
    base=_EXCHANGE - ADVERTISEMENT_FACTS,
    undefinable=_of(Kind.SELECTION) | ADVERTISEMENT_FACTS,
    undefinable_names=_ENFORCED,
    undefinable_prefixes=_SCOPES,
)
"""Local policy that says which records a viewer's rules may see."""

ROLES: Final = {role.name: role for role in (PLAIN, SELECTOR, EXPOSE)}


def scoped(index: int, predicate: Predicate) -> Predicate:
    """Return the name under which a lowering sees what an operand derives."""
    return Predicate(f"{_SCOPES[index]}{predicate.name}", predicate.arity)
