"""What goes into the machine, what comes out of it, and what an application hears."""

from __future__ import annotations

from dataclasses import dataclass, field

from lace.codes import Code
from lace.datalog.canonical import LacegramId
from lace.datalog.source import Fact
from lace.errors import Outcome
from lace.ids import Verifier
from lace.interlace.advertise import FieldValue
from lace.interlace.phases import Phase
from lace.policy.plan import ExchangePlan, PlanId
from lace.record.model import Record

# --- inputs ---


@dataclass(frozen=True, slots=True)
class Started:
    """Begin: the connection stands, both nonces are known."""


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
class PeerRecord:
    """Record bytes of the peer, not yet validated."""

    raw: bytes


@dataclass(frozen=True, slots=True)
class PeerPhaseEnd:
    """The peer has said everything it has to say in this phase."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The answer to ``Evaluate``: how the local policy's decisions changed."""

    sendable: dict[str, tuple[FieldValue, ...]] = field(default_factory=dict)
    """Records that may now be sent, with their fields."""
    unsendable: frozenset[str] = frozenset()
    requestable: frozenset[str] = frozenset()
    unrequestable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EvaluationFailed:
    """The answer to ``Evaluate`` when a limit or an error stopped it."""

    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The answer to ``Load``: a record, or None if it is gone."""

    hash: str
    record: Record | None


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer to ``Save``."""

    hash: str
    outcome: Outcome[Record]


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A deadline has passed."""


@dataclass(frozen=True, slots=True)
class PeerGone:
    """The connection ended."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The application wants to stop."""


Input = (
    Started | PeerModule | PeerFacts | PeerRecord | PeerPhaseEnd | Evaluated | EvaluationFailed
    | Loaded | Saved | TimerFired | PeerGone | CloseRequested
)  # fmt: skip

# --- effects ---


@dataclass(frozen=True, slots=True)
class SendModule:
    id: LacegramId
    content: bytes


@dataclass(frozen=True, slots=True)
class SendFacts:
    content: bytes


@dataclass(frozen=True, slots=True)
class SendRecord:
    record: Record


@dataclass(frozen=True, slots=True)
class EndPhase:
    phase: Phase


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Bring the local policy in line with these facts and whatever is stored, and answer."""

    plan: ExchangePlan
    added: tuple[Fact, ...] = ()
    removed: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    hash: str


@dataclass(frozen=True, slots=True)
class Save:
    record: Record


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Fire after so many seconds, unless another timer is set before."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Emit:
    event: Event


@dataclass(frozen=True, slots=True)
class Close:
    """The exchange is over; nothing more is sent or received."""


# --- events ---


@dataclass(frozen=True, slots=True, kw_only=True)
class InterlaceResult:
    """What an exchange did."""

    plan: PlanId | None = None
    peer: Verifier | None = None
    received: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    not_available: tuple[str, ...] = ()
    bytes_received: int = 0
    bytes_sent: int = 0
    loops: int = 0


@dataclass(frozen=True, slots=True)
class RecordSaved:
    hash: str


@dataclass(frozen=True, slots=True)
class RecordDuplicate:
    hash: str


@dataclass(frozen=True, slots=True)
class RecordRejected:
    hash: str
    code: Code
    detail: str


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Nothing more can be requested of the peer that it could send."""

    result: InterlaceResult


@dataclass(frozen=True, slots=True)
class Closed:
    """The exchange ended in order; not a fixed point unless one was reported."""

    reason: str
    result: InterlaceResult


@dataclass(frozen=True, slots=True)
class Aborted:
    """The exchange ended early; what was stored stays stored."""

    code: Code
    detail: str
    result: InterlaceResult


Event = RecordSaved | RecordDuplicate | RecordRejected | FixedPoint | Closed | Aborted

Effect = (
    SendModule
    | SendFacts
    | SendRecord
    | EndPhase
    | Evaluate
    | Load
    | Save
    | SetTimer
    | Emit
    | Close
)
