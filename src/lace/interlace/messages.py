"""What goes into the machine, what comes out of it, and what an application hears.

Inputs come by one of two entrances: from the peer, or from the driver. Whatever is wrong with the
former is the peer's fault, whatever is wrong with the latter is ours. A driver answers questions
(``Evaluate``, ``Recall``, ``Describe``, ``Serve``, ``Save``) in the order in which they were asked,
and all of them before it hands over what the peer says after its end of a phase.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lace.codes import Code
from lace.datalog.canonical import LacegramId
from lace.datalog.source import Fact
from lace.errors import Outcome
from lace.ids import Verifier
from lace.interlace.advertise import Advertisement
from lace.interlace.facts import block
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.policy.module import PolicyModule
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan, PlanId
from lace.record.model import Record

# --- inputs: from the peer ---


@dataclass(frozen=True, slots=True)
class PeerModule:
    """The canonical text of the peer's module."""

    id: str
    content: bytes


@dataclass(frozen=True, slots=True)
class PeerFacts:
    """A fact block of the peer, as it came."""

    content: bytes


@dataclass(frozen=True, slots=True)
class PeerTuples:
    """Facts of a peer in this process, as they are; no text was needed between (050-BLK-07)."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """Record bytes of the peer, not yet validated."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class PeerValidated:
    """A record of a peer in this process, validated by this process when it was stored there."""

    record: Record


@dataclass(frozen=True, slots=True)
class PeerPhaseEnd:
    """The peer has said everything it has to say in this phase."""


# --- inputs: from the binding ---


@dataclass(frozen=True, slots=True)
class PeerAlive:
    """Something came that says nothing, or nothing yet: a comment, or part of an item."""


@dataclass(frozen=True, slots=True)
class Started:
    """Begin: the connection stands."""

    nonces: tuple[str, str] = ("", "")
    """What both sides drew for this connection, side 0 first; empty where nothing was drawn."""


@dataclass(frozen=True, slots=True)
class PeerProven:
    """The peer has proven that it controls a verifier; comes before the end of its hello."""

    verifier: Verifier


@dataclass(frozen=True, slots=True)
class StreamFailed:
    """What the peer sent cannot be read any further."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The connection ended."""

    orderly: bool = False
    """At the end of a phase, and not in the middle of one."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The time that was set has passed."""


# --- inputs: from this side ---


@dataclass(frozen=True, slots=True)
class Woken:
    """Records may have been stored since the last evaluation, or runtime facts changed."""


@dataclass(frozen=True, slots=True)
class OperandChanged:
    """The application exchanges by another selector from now on."""

    module: PolicyModule


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The application wants to stop."""


# --- inputs: answers ---


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The answer to ``Evaluate``: how the local policy's decisions changed."""

    sendable: Mapping[str, bytes] = field(default_factory=dict)
    """Records that may now be sent, with two digests each: of the advertisement that this side
    makes, and of the one that the peer would make."""
    unsendable: frozenset[str] = frozenset()
    """Records that may not be sent any more, or are not here any more."""
    requestable: frozenset[str] = frozenset()
    """Records that may now be requested and are not here."""
    unrequestable: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    """Records that were here and are gone; only another exchange may ask for them again."""
    more: bool = False
    """Another part of the answer follows."""


@dataclass(frozen=True, slots=True)
class EvaluationFailed:
    """The answer to ``Evaluate`` when a limit or an error stopped it."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class LinkState:
    """How a link stands: what both sides advertise, and what is wanted and was not to be had."""

    own: Partitions
    peers: Partitions
    wanted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Recalled:
    """The answer to ``Recall``: how the link stood at its last fixed point, if that is known."""

    state: LinkState | None = None
    ticks: bool = False
    """Whether decisions here depend on moving time, beyond what the plan says."""


@dataclass(frozen=True, slots=True)
class Described:
    """The answer to ``Describe``, in the order asked."""

    adverts: tuple[Advertisement, ...]


@dataclass(frozen=True, slots=True)
class Served:
    """The answer to ``Serve``: the first of the records asked for, None for one that is gone."""

    records: tuple[Record | None, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer to ``Save``, in the order asked; what is not valid is rejected, and not stored."""

    outcomes: tuple[tuple[str, Outcome[Record]], ...]


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The answer to any question when the store could not be read or written."""

    code: Code
    detail: str


Incoming = PeerModule | PeerFacts | PeerTuples | PeerRecord | PeerValidated | PeerPhaseEnd
"""What a peer says."""
FromPeer = Incoming | PeerAlive | PeerProven | StreamFailed | PeerGone
"""The peer's entrance."""
Answer = Evaluated | EvaluationFailed | Recalled | Described | Served | Saved | StoreFailed
Order = Woken | OperandChanged | CloseRequested
"""What an application may tell its own side."""
FromDriver = Started | TimerFired | Order | Answer
"""This side's entrance."""
Input = FromPeer | FromDriver

# --- effects: to the peer ---


@dataclass(frozen=True, slots=True)
class SendModule:
    id: LacegramId
    content: bytes


@dataclass(frozen=True, slots=True)
class SendFacts:
    facts: tuple[Fact, ...]
    text: bytes | None = field(default=None, compare=False, repr=False)
    """The facts as a block, if that was at hand."""

    @property
    def content(self) -> bytes:
        """The facts as a block."""
        return block(self.facts) if self.text is None else self.text


@dataclass(frozen=True, slots=True)
class SendRecord:
    record: Record


@dataclass(frozen=True, slots=True)
class EndPhase:
    phase: Phase


Outgoing = SendModule | SendFacts | SendRecord | EndPhase
"""What this side says."""


# --- effects: questions ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Bring the local policy in line with this and with whatever is stored; say what changed."""

    plan: ExchangePlan
    schema: frozenset[str] | None
    """Fields that advertisements have; None for all."""
    runtime: tuple[Fact, ...]
    """All runtime facts that hold now."""
    withdrawn: tuple[str, ...] = ()
    """Records that the peer no longer advertises as it did."""
    advertised: tuple[Advertisement, ...] = ()
    adopted: Collection[str] = ()
    """Records that the peer advertises exactly as this side would; many may be read one by one."""
    own: Partitions | None = field(default=None, compare=False, repr=False)
    """What this side advertises by the answers so far; None if nobody holds it."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Begin an epoch: say how the link stood when it was last used under the same plan.

    Whatever was known of another epoch is let go.
    """

    link: bytes | None
    """None if nothing is kept for this link."""
    plan: ExchangePlan
    schema: frozenset[str] | None
    runtime: tuple[Fact, ...] = ()
    """All runtime facts with which the epoch begins."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Make the advertisements of records that may be sent, as of the last evaluation."""

    plan: ExchangePlan
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Serve:
    """Give records that the peer requested and that may be sent by the last evaluation.

    In this order, up to so many bytes, but at least one.
    """

    hashes: tuple[str, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Save:
    """Validate what came as bytes, and store what is valid and was advertised as what it is."""

    hashes: tuple[str, ...]
    """What the records claim to be."""
    came: tuple[PeerRecord | PeerValidated, ...] = field(repr=False)
    claims: tuple[bytes, ...] = field(repr=False)
    """The digests of the advertisements by which they were asked for."""
    source: SourceLabel
    """Who advertised them."""
    schema: frozenset[str] | None
    """The fields that advertisements have; None for all."""


# --- effects: the rest ---


@dataclass(frozen=True, slots=True)
class Remember:
    """This is a fixed point: keep how the link stands, and hold nothing that others wait for.

    No answer is needed.
    """

    link: bytes | None = None
    state: LinkState | None = None
    """None, as the link is, if nothing is kept for it, or it stands as it stood."""


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire after so many seconds, unless another timer is set before; None: not at all."""

    seconds: float | None
    silence: bool = False
    """Count only the time in which nothing comes from the peer and this side does no work."""


@dataclass(frozen=True, slots=True)
class Emit:
    event: Event


@dataclass(frozen=True, slots=True)
class Close:
    """The exchange is over; nothing more is sent or received."""


# --- events ---


class Ending(StrEnum):
    """How an exchange ends in order."""

    FIXED_POINT = "fixed point"
    """There was nothing left to exchange."""
    ASKED = "asked to close"
    """This side was asked to close."""
    PEER_CLOSED = "the peer closed"
    """The peer closed, when it might."""
    LOOPS = "too many loops"
    """The limit of loops was reached, and there may be more to exchange."""


class Blame(StrEnum):
    """Where the reason of an abort lies."""

    LOCAL = "local"
    """On this side: its store, its rules, its limits."""
    REMOTE = "remote"
    """At the peer: it said what it must not."""
    LINK = "link"
    """Between the two: the connection broke, or was silent for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterlaceResult:
    """What one round did: a bounded exchange is one, each wake of an open exchange another."""

    link: bytes | None = None
    """The key of a link between two proven verifiers."""
    plan: PlanId | None = None
    """The id of the plan; None if it ended before there was one."""
    peer: Verifier | None = None
    """Whom the peer proved to be; None if it proved nothing."""
    received: tuple[str, ...] = ()
    """The records that came and were stored."""
    rejected: tuple[str, ...] = ()
    """The records that came and were not stored."""
    not_available: tuple[str, ...] = ()
    """The records that were requested, and that the peer could not send."""
    sent: tuple[str, ...] = ()
    """The records that were sent."""
    offered: int = 0
    """How many records the peer said that it could send, whether they were here already or not."""
    not_stored: str | None = None
    """The code by which the peer said that it stores nothing more of this side, if it did."""
    bytes_received: int = 0
    """Bytes of the records that came."""
    bytes_sent: int = 0
    """Bytes of the records that were sent."""
    loops: int = 0
    """How many loops it took; those that only went on with a large transfer are not counted."""
    cursor_updated: bool = False
    """Whether what the peer advertises has changed."""
    ending: Ending | None = None
    """``FIXED_POINT``; or ``LOOPS`` if the limit of loops ended the round while more was stored,
    and everything that was advertised at its beginning has arrived or was refused; else None."""

    @property
    def fixed_point(self) -> bool:
        """Whether nothing was left to exchange at the end of the round."""
        return self.ending is Ending.FIXED_POINT

    def __repr__(self) -> str:
        """How many, not which: there may be very many."""
        return (
            f"<InterlaceResult {len(self.received)} received, {len(self.sent)} sent, "
            f"{len(self.rejected)} rejected, {self.offered} offered, peer {self.peer}>"
        )


@dataclass(frozen=True, slots=True)
class RecordSaved:
    """A record of the peer was validated and stored."""

    hash: str
    """The record."""


@dataclass(frozen=True, slots=True)
class RecordDuplicate:
    """A record came that was here already."""

    hash: str
    """The record."""


@dataclass(frozen=True, slots=True)
class RecordRejected:
    """Bytes that claimed to be this record were not valid, or were refused; nothing was stored."""

    hash: str
    """The record that the bytes claimed to be."""
    code: Code
    """Why it was not stored, for programs."""
    detail: str
    """Why, in words."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Nothing more can be requested of the peer that it could send."""

    result: InterlaceResult
    """What was done to get there."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The exchange ended in order; not a fixed point unless one was reported."""

    ending: Ending
    """How it ended."""
    result: InterlaceResult
    """What was done."""
    detail: str = ""
    """More on why, if there is more to say."""

    @property
    def reason(self) -> str:
        """Why it ended, in words."""
        return self.detail or str(self.ending)

    @property
    def code(self) -> Code | None:
        """Why it ended although there may be more to exchange; None if there was not."""
        return Code.LIMIT_EXCEEDED if self.ending is Ending.LOOPS else None


@dataclass(frozen=True, slots=True)
class Aborted:
    """The exchange ended early; what was stored stays stored."""

    code: Code
    """Why, for programs."""
    detail: str
    """Why, in words."""
    blame: Blame
    """Where the reason lies."""
    result: InterlaceResult
    """What was done before."""


Event = RecordSaved | RecordDuplicate | RecordRejected | FixedPoint | Closed | Aborted
"""What an exchange tells those who started it."""

Question = Evaluate | Recall | Describe | Serve | Save
Effect = Outgoing | Question | Remember | SetTimer | Emit | Close

ANSWERS: Final[dict[type[Question], tuple[type[Input], ...]]] = {
    Evaluate: (Evaluated, EvaluationFailed, StoreFailed),
    Recall: (Recalled, EvaluationFailed, StoreFailed),
    Describe: (Described, EvaluationFailed, StoreFailed),
    Serve: (Served, EvaluationFailed, StoreFailed),
    Save: (Saved, StoreFailed),
}


def fits(asked: Question, given: Input | None) -> bool:
    """Whether an input is an answer to a question, and speaks of nothing but what was asked."""
    if not isinstance(given, ANSWERS[type(asked)]):
        return False
    match asked, given:
        case Describe(), Described():
            left = iter(asked.records)  # what is gone by now is left out
            return all(advert.record in left for advert in given.adverts)
        case Serve(), Served():
            served = zip(asked.hashes, given.records, strict=False)
            return 0 < len(given.records) <= len(asked.hashes) and all(
                record is None or record.hash == hash for hash, record in served
            )
        case Save(), Saved():
            return tuple(hash for hash, _ in given.outcomes) == asked.hashes
    return True
