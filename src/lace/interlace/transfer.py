"""Requests and transfer: what was asked, what is served, and what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError, Status
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.interlace.rest import Rest
from lace.interlace.summary import payload
from lace.limits import Limits
from lace.policy.origin import SourceLabel
from lace.policy.plan import PlanId

_MARKLINE_START: Final = len("🖧: ".encode())
_MARKLINE_END: Final = 100
_NOBODY: Final = SourceLabel("")


@dataclass(slots=True)
class Tally:
    """What a round has done so far."""

    received: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    not_available: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    bytes_received: int = 0
    bytes_sent: int = 0
    loops: int = 0
    cursor_updated: bool = False
    ending: m.Ending | None = None

    def result(
        self, link: bytes | None, plan: PlanId | None, peer: Verifier | None, offered: int
    ) -> m.InterlaceResult:
        """Return the tally as an application hears it."""
        return m.InterlaceResult(
            link=link,
            plan=plan,
            peer=peer,
            received=tuple(self.received),
            rejected=tuple(self.rejected),
            not_available=tuple(self.not_available),
            sent=tuple(self.sent),
            offered=offered,
            bytes_received=self.bytes_received,
            bytes_sent=self.bytes_sent,
            loops=self.loops,
            cursor_updated=self.cursor_updated,
            ending=self.ending,
        )


@dataclass(slots=True)
class Transfer:
    """Decides on every single record that is asked for, sent or received."""

    limits: Limits
    parameters: Parameters
    most_bytes: int
    """Most record bytes of one round, each way."""
    source: SourceLabel = _NOBODY
    """Who advertises what is received."""
    schema: frozenset[str] | None = None
    """Fields that advertisements have; None for all."""
    tally: Tally = field(default_factory=Tally)
    _wanted: set[str] = field(default_factory=set)
    """What MayRequest derives and the store lacks, by the last evaluation."""
    _rejected: set[str] = field(default_factory=set)
    """Until they are advertised in other words, or the round is over (A34)."""
    _unavailable: set[str] = field(default_factory=set)
    """Until the peer speaks of them again (A34)."""
    _received: set[str] = field(default_factory=set)
    """Stored since this side last advertised."""
    _unserved: list[str] = field(default_factory=list)
    """What the peer was told in this phase that it is not available."""
    _forgotten: set[str] = field(default_factory=set)
    """Forgotten here in the course of this exchange: not asked for again in it."""
    _outstanding: dict[str, bytes] = field(default_factory=dict)
    """What was asked for, with the digest of the advertisement that rules decided by."""
    _to_serve: deque[str] = field(default_factory=deque)
    _serving: tuple[str, ...] = ()
    _sent: list[str] = field(default_factory=list)
    """Sent in this phase."""
    _phase_bytes: int = 0
    _unsaved: dict[str, tuple[m.PeerRecord | m.PeerValidated, bytes]] = field(default_factory=dict)
    """What came and is not yet asked to be stored, by the hash that it claims; with that digest."""
    _unsaved_bytes: int = 0
    over: LimitExceeded | None = None
    """Set when a limit was broken: what was received before is stored, and then it ends."""
    _moved: bool = False
    _deferred: bool = False

    def next_epoch(
        self, most_bytes: int, source: SourceLabel, schema: frozenset[str] | None
    ) -> Transfer:
        """Return a transfer for another plan; what was forgotten in this exchange stays so."""
        return Transfer(
            self.limits, self.parameters, most_bytes, source, schema, _forgotten=self._forgotten
        )

    def begin_round(self) -> None:
        self.tally = Tally()
        self._rejected, self._unavailable = set(), set()
        self._deferred = False

    def recall(self, wanted: frozenset[str]) -> None:
        """Start from what was wanted when the link was last used."""
        self._wanted = set(wanted)

    def take_evaluation(self, given: m.Evaluated) -> None:
        self._wanted -= given.unrequestable
        self._wanted |= given.requestable
        self._forgotten |= given.forgotten

    @property
    def wanted(self) -> frozenset[str]:
        """What rules ask for, and is not here."""
        return frozenset(self._wanted)

    @property
    def forgotten(self) -> frozenset[str]:
        """What was forgotten here in the course of this exchange."""
        return frozenset(self._forgotten)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left open here but what is wanted, and what was forgotten."""
        refused = self._rejected, self._unavailable, self._unserved
        moving = self._received, self._outstanding, self._to_serve, self._sent, self._unsaved
        return self.over is None and not any(refused) and not any(moving)

    def stand_as(self, rest: Rest) -> None:
        """Stand as another side does that is at rest."""
        standing = rest.standing
        self._wanted, self._forgotten = set(standing.wanted), set(standing.forgotten)
        self.tally = rest.tally

    def advertised_anew(
        self, records: Iterable[str], named: Collection[str], adopted: Container[str] = ()
    ) -> None:
        """Allow to ask again for records, and for what is in the partitions that were named."""
        fresh = set(records)
        for refused in (self._rejected, self._unavailable):
            refused -= {record for record in refused if record in fresh or record in adopted}
        lengths = {len(prefix) for prefix in named}
        self._unavailable = {
            record
            for record in self._unavailable
            if not any(payload(record)[:length] in named for length in lengths)
        }

    @property
    def held(self) -> int:
        """Bytes of records that wait to be stored."""
        return self._unsaved_bytes

    # --- requests ---

    def requestable(
        self, advertised: Partitions, formats: frozenset[str], most: int
    ) -> dict[str, bytes]:
        """Return what may be asked for now: the invariant of 050, in one place (050-REQ-01).

        With each record comes the digest of its advertisement.
        """
        found = advertised.among(self._wanted)
        allowed = (
            record
            for record in sorted(found)
            if record not in self._rejected
            and record not in self._unavailable
            and record not in self._forgotten
            and record.rpartition(".")[2] in formats
        )
        return {record: found[record] for record in islice(allowed, most)}

    def ask(self, records: dict[str, bytes]) -> None:
        self._outstanding = records

    @property
    def to_serve(self) -> Collection[str]:
        """What the peer has requested in this loop, and has not been answered yet."""
        return self._to_serve

    def take_requests(self, records: Iterable[str]) -> bool:
        """Take the peer's request list; return whether anything is to be transferred."""
        self._to_serve = deque(dict.fromkeys(records))
        self._phase_bytes = 0
        self._moved = self._deferred = False
        return bool(self._to_serve or self._outstanding)

    # --- serving ---

    def serve(self, may_send: Container[str]) -> list[m.Effect]:
        """Return how to go on serving; nothing when all is served or deferred (050-COR-04)."""
        batch: list[str] = []
        unsendable: list[Fact] = []
        while self._to_serve and len(batch) < self.parameters.serve_at_once:
            record = self._to_serve.popleft()
            if record in may_send:
                batch.append(record)
            else:
                unsendable.append(("NotAvailable", record))
                self._unserved.append(record)
        effects: list[m.Effect] = [m.SendFacts(tuple(unsendable))] if unsendable else []
        if batch:
            self._serving = tuple(batch)
            most = min(self.parameters.hold_bytes, self.limits.transfer_phase_bytes)
            effects.append(m.Serve(self._serving, most))
        return effects

    def take_served(self, given: m.Served) -> list[m.Effect]:
        """Send what there is; say of what is gone that it is not available."""
        effects: list[m.Effect] = []
        for hash, record in zip(self._serving, given.records, strict=False):
            if record is None:
                effects.append(m.SendFacts((("NotAvailable", hash),)))
                self._unserved.append(hash)
            else:
                self.tally.sent.append(hash)
                self._sent.append(hash)
                self.tally.bytes_sent += len(record.raw)
                self._phase_bytes += len(record.raw)
                effects.append(m.SendRecord(record))
                if self._is_over(self.tally.bytes_sent):
                    return effects
        self._moved |= bool(given.records)
        self._to_serve.extendleft(reversed(self._serving[len(given.records) :]))
        if self._phase_bytes >= self.limits.transfer_phase_bytes and self._to_serve:
            self._to_serve.clear()  # neither sent nor unavailable: the peer may ask again
            self._deferred = True
        return effects

    def take_sent(self) -> tuple[list[str], list[str]]:
        """Return what was sent, and what was refused, since this was last asked."""
        done = self._sent, self._unserved
        self._sent, self._unserved = [], []
        return done

    def take_received(self) -> set[str]:
        """Return what was received and stored since this was last asked."""
        received, self._received = self._received, set()
        return received

    @property
    def is_serving(self) -> bool:
        return bool(self._to_serve)

    # --- receiving ---

    def take_record(self, given: m.PeerRecord | m.PeerValidated) -> list[m.Effect]:
        """Take a requested record; whether it is valid is found out when it is to be stored."""
        if isinstance(given, m.PeerValidated):
            claimed, raw = str(given.record.hash), given.record.raw
        else:
            claimed, raw = _claimed(given.raw), given.raw
        claim = self._outstanding.pop(claimed, None)
        if claim is None:
            raise ProtocolError("a record that was not asked for", code=Code.INTERLACE_UNASKED)
        self._moved = True
        self.tally.bytes_received += len(raw)
        if self._is_over(self.tally.bytes_received):
            return []
        self._unsaved[claimed] = given, claim
        self._unsaved_bytes += len(raw)
        if (
            len(self._unsaved) >= self.parameters.save_at_once
            or self._unsaved_bytes >= self.parameters.hold_bytes
        ):
            return self.save()
        return []

    def save(self) -> list[m.Effect]:
        """Return the question to validate and store what is held, if anything is."""
        if not self._unsaved:
            return []
        came, claims = zip(*self._unsaved.values(), strict=True)
        question = m.Save(tuple(self._unsaved), came, claims, self.source, self.schema)
        self._unsaved, self._unsaved_bytes = {}, 0
        return [question]

    def take_saved(self, given: m.Saved) -> list[m.Effect]:
        """Tell what became of records; what is not valid is rejected, and no more."""
        effects: list[m.Effect] = []
        for hash, outcome in given.outcomes:
            if outcome.status not in {Status.ACCEPTED, Status.DUPLICATE}:
                code = outcome.code or Code.STORE_FAILED
                effects.append(self._reject(hash, code, outcome.detail))
                continue
            self._wanted.discard(hash)
            if outcome.status is Status.ACCEPTED:
                self.tally.received.append(hash)
                self._received.add(hash)
                effects.append(m.Emit(m.RecordSaved(hash)))
            else:
                effects.append(m.Emit(m.RecordDuplicate(hash)))
        return effects

    def conclude(self, facts: list[Fact]) -> None:
        """End a transfer phase; what was neither sent nor unavailable may be asked for again."""
        for fact in facts:
            record = fact[1]
            if record not in self._outstanding:
                raise ProtocolError(
                    "NotAvailable for what was not asked for", code=Code.INTERLACE_UNASKED
                )
            del self._outstanding[record]
            self._unavailable.add(record)
            self.tally.not_available.append(record)
        self._deferred |= bool(self._outstanding)
        self._outstanding = {}

    @property
    def is_going_on(self) -> bool:
        """Whether the next loop only goes on with what was deferred; such are not counted (A30)."""
        return self._deferred and self._moved

    def _reject(self, record: str, code: Code, detail: str) -> m.Emit:
        self._rejected.add(record)
        self.tally.rejected.append(record)
        return m.Emit(m.RecordRejected(record, code, detail))

    def _is_over(self, observed: int) -> bool:
        if observed <= self.most_bytes:
            return False
        self.over = LimitExceeded(
            "max_total_transferred_bytes", configured=self.most_bytes, observed=observed
        )
        return True


def _claimed(raw: bytes) -> str:
    """Return the hash that record bytes claim to have."""
    return raw[_MARKLINE_START:_MARKLINE_END].partition(b"\n")[0].decode("ascii", "replace")
