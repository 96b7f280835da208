"""The interlace machine: it decides, a driver does (spec 050).

``receive`` takes one input and returns what to do about it. The machine calls no store, no policy,
no clock and no stream: it asks for what it needs by effects, and is told by inputs. Everything a
peer sends is held to the phase it comes in; whatever has no place there ends the exchange, and
nothing but the exchange.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LaceError, LimitExceeded, Status
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.interlace.facts import block, parse_block
from lace.interlace.negotiate import WIRE_LIMITS, Agreement, Hello, negotiate, parse_hello
from lace.interlace.phases import FACTS, Occasion, Phase, next_phase
from lace.interlace.reconcile import OwnAdverts, PeerAdverts
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule, facet_of, module_from_peer
from lace.policy.origin import Operand, Party, check_announced_origin, label_operands
from lace.policy.plan import ExchangePlan
from lace.record.validate import validate_record
from lace.tai import Tai

_MARKLINE_START: Final = len("🖧: ".encode())
_MARKLINE_END: Final = 100
_REQUEST_AT_ONCE: Final = 10_000
_SEND_AT_ONCE: Final = 32 * 1024 * 1024  # bytes in one transfer phase; the rest is deferred


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What this side brings to an exchange."""

    index: int
    module: PolicyModule
    nonce: str = ""
    peer_nonce: str = ""
    verifier: Verifier | None = None
    """Proven to the peer by the binding, if any."""
    peer_verifier: Verifier | None = None
    """Proven by the peer, as the binding found out."""
    transport: str = ""
    encrypted: bool = False
    tick_interval: int = 10_000_000_000
    coarse: bool = True
    """Offer to start reconciliation at one root partition."""
    limits: Limits = DEFAULT_LIMITS


class _Abort(Exception):
    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


@dataclass(slots=True)
class _Tally:
    received: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    not_available: list[str] = field(default_factory=list)
    bytes_received: int = 0
    bytes_sent: int = 0
    loops: int = 0


class InterlaceMachine:
    """One side of one bounded exchange."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self.phase = Phase.SETUP
        self._effects: list[m.Effect] = []
        self._ended = False  # our own end of this phase was sent
        self._peer_ended = False
        self._facts: list[Fact] = []  # the peer's, in this phase
        self._peer_module: PolicyModule | None = None
        self._operands: tuple[Operand, Operand] | None = None
        self._plan: ExchangePlan | None = None
        self._hello: Hello | None = None
        self._agreement: Agreement | None = None
        self._own: OwnAdverts | None = None
        self._peers: PeerAdverts | None = None
        self._may_send: set[str] = set()
        self._may_request: set[str] = set()
        self._have: set[str] = set()
        self._refused: set[str] = set()  # rejected or not available, until advertised anew (A34)
        self._asked: list[Fact] = []
        self._peer_asks: list[Fact] = []
        self._phase_bytes = 0
        self._outstanding: set[str] = set()
        self._to_serve: list[str] = []
        self._awaiting = 0  # answers of the driver that a phase still needs
        self._round_bytes = 0
        self._tally = _Tally()

    # --- the one entrance ---

    def receive(self, given: m.Input, now: Tai) -> list[m.Effect]:
        """Take one input; return what is to be done, in order."""
        self._effects = []
        if self.phase is Phase.CLOSED:
            return []
        try:
            self._take(given)
            self._advance(now)
        except _Abort as abort:
            self._abort(abort.code, abort.detail)
        except LaceError as error:  # malformed data, a limit, a module that cannot be used
            self._abort(error.code, error.message)
        return self._effects

    def _take(self, given: m.Input) -> None:
        match given:
            case m.Started():
                self._do(m.SetTimer(self._side.limits.phase_timeout))
                self._do(m.SendModule(self._side.module.id, self._side.module.text.encode()))
            case m.PeerModule():
                self._take_module(given)
            case m.PeerFacts():
                allowed = FACTS[self.phase]
                if self._peer_ended:
                    raise _Abort(Code.INTERLACE_PHASE, "facts after the end of their phase")
                self._facts += parse_block(given.content, allowed, self._side.limits)
            case m.PeerRecord():
                self._take_record(given.raw)
            case m.PeerPhaseEnd():
                if self._peer_ended:
                    raise _Abort(Code.INTERLACE_PHASE, "a phase was ended twice")
                self._peer_ended = True
            case m.Evaluated():
                self._take_evaluation(given)
            case m.EvaluationFailed():
                raise _Abort(given.code, given.detail)
            case m.Loaded():
                self._take_loaded(given)
            case m.Saved():
                self._take_saved(given)
            case m.TimerFired():
                raise _Abort(Code.INTERLACE_TIMEOUT, f"{self.phase} took too long")
            case m.PeerGone():
                raise _Abort(Code.INTERLACE_GONE, f"the connection ended during {self.phase}")
            case m.CloseRequested():
                self._close("asked to close")

    # --- phases ---

    def _advance(self, now: Tai) -> None:
        """Say what there is to say, and move on whenever both sides have ended a phase."""
        while self.phase is not Phase.CLOSED:
            if not self._ended and not self._awaiting and self._can_speak():
                self._speak(now)
            if not (self._ended and self._peer_ended) or self._awaiting:
                return
            facts, self._facts = self._facts, []
            occasion = self._conclude(facts)
            following = next_phase(self.phase, occasion)
            if following is None:
                raise _Abort(Code.INTERLACE_PHASE, f"{occasion} in {self.phase}")
            self._ended = self._peer_ended = False
            if following is Phase.CLOSED:
                self._fixed_point()
                return
            self.phase = following
            self._do(m.SetTimer(self._side.limits.phase_timeout))
            self._enter()

    def _can_speak(self) -> bool:
        return self.phase is not Phase.SETUP or self._operands is not None

    def _enter(self) -> None:
        """Ask the driver for what a phase needs before it can speak."""
        if self.phase is Phase.ADVERTISE:
            self._tally.loops += 1
            limit = self._limit("max_loop_iterations")
            if self._tally.loops > limit:
                self._close(f"limit max_loop_iterations of {limit} was reached")
                return
            first = self._tally.loops == 1
            self._evaluate(tuple(self._runtime_facts()) if first else (), ())
        elif self.phase is Phase.REQUEST:
            added, removed = self._adverts.take_changes()
            self._refused -= {fact[1] for fact in added if fact[0] == "Advertised"}
            self._evaluate(added, removed)

    def _speak(self, now: Tai) -> None:
        match self.phase:
            case Phase.SETUP:
                mine = self._mine
                facet = mine.module.facet
                fact = ("ExchangeOperand", str(mine.index), mine.module.id, mine.origin, facet)
                self._say([fact])
            case Phase.HELLO:
                self._hello = self._make_hello(now)
                self._say(self._hello.facts())
            case Phase.ADVERTISE:
                self._say(self._own_adverts.advertise(self._start_length))
            case Phase.ASK:
                self._say(self._asked)
            case Phase.ANSWER:
                self._say(self._own_adverts.answer(self._peer_asks))
            case Phase.REQUEST:
                self._outstanding = set(self._requestable())
                self._say([("MayRequest", record) for record in sorted(self._outstanding)])
            case Phase.TRANSFER:
                if self._to_serve:
                    self._serve()
                    return
        if self.phase is not Phase.CLOSED:
            self._end()

    def _conclude(self, facts: list[Fact]) -> Occasion:
        """Draw the consequences of the peer's phase; say what both ends amount to."""
        match self.phase:
            case Phase.SETUP:
                self._conclude_setup(facts)
            case Phase.HELLO:
                self._conclude_hello(facts)
            case Phase.ADVERTISE:
                self._asked = self._adverts.take_advertise(facts, self._start_length)
            case Phase.ASK:
                self._peer_asks = facts
                return Occasion.ASKED if facts or self._asked else Occasion.NOTHING
            case Phase.ANSWER:
                self._asked = self._adverts.take_answer(facts, self._start_length)
            case Phase.REQUEST:
                self._to_serve = [fact[1] for fact in facts]
                requested = bool(facts or self._outstanding)
                return Occasion.ASKED if requested else Occasion.NOTHING
            case Phase.TRANSFER:
                self._conclude_transfer(facts)
        return Occasion.DONE

    # --- set-up and hello ---

    def _take_module(self, given: m.PeerModule) -> None:
        if self.phase is not Phase.SETUP or self._peer_module is not None:
            raise _Abort(Code.INTERLACE_PHASE, "a module out of place")
        side = self._side
        module = module_from_peer(given.content, given.id, facet_of("selector"), side.limits)
        self._peer_module = module
        self._operands = label_operands(
            Party(index=side.index, module=side.module, nonce=side.nonce, verifier=side.verifier),
            Party(
                index=1 - side.index, module=module, nonce=side.peer_nonce,
                verifier=side.peer_verifier,
            ),
        )  # fmt: skip
        self._plan = ExchangePlan(self._operands)

    def _conclude_setup(self, facts: list[Fact]) -> None:
        if len(facts) != 1:
            raise _Abort(Code.INTERLACE_PHASE, "set-up needs exactly one operand")
        _, index, module, origin, facet = facts[0]
        theirs = self._theirs
        facet_of(facet)
        if index != str(theirs.index):
            raise _Abort(Code.POLICY_OPERAND, "the peer claims another operand index")
        if module != theirs.module.id:
            raise _Abort(Code.POLICY_MODULE_ID, "the operand names another module")
        check_announced_origin(origin, theirs)

    def _make_hello(self, now: Tai) -> Hello:
        side = self._side
        offers = {name: int(getattr(side.limits, name)) for name in WIRE_LIMITS}
        offers["partition_prefix_start"] = 0 if side.coarse else 2
        return Hello(
            plan=self._agreed_plan.id, tai=now, tick_interval=side.tick_interval,
            signer=side.verifier, limits=offers,
        )  # fmt: skip

    def _conclude_hello(self, facts: list[Fact]) -> None:
        assert self._hello is not None
        side = self._side
        theirs = parse_hello(facts)
        agreement = negotiate(
            self._hello, theirs, self._agreed_plan, side.peer_verifier, side.limits
        )
        self._agreement = agreement
        self._own = OwnAdverts(self._mine.source_label, agreement.fields, agreement.limits)
        self._peers = PeerAdverts(self._theirs.source_label, agreement.limits)

    def _runtime_facts(self) -> list[Fact]:
        assert self._agreement is not None
        side = self._side
        facts = self._agreement.runtime_facts()
        if side.verifier is not None:
            facts.append(("Here", side.verifier))
        if side.peer_verifier is not None:
            facts.append(("Peer", side.peer_verifier))
        if side.transport:
            facts.append(("Transport", side.transport))
        if side.encrypted:
            facts.append(("TransportEncrypted",))
        return facts

    # --- evaluation ---

    def _evaluate(self, added: tuple[Fact, ...], removed: tuple[Fact, ...]) -> None:
        self._awaiting += 1
        self._do(m.Evaluate(self._agreed_plan, added, removed))

    def _take_evaluation(self, given: m.Evaluated) -> None:
        self._answered()
        own = self._own_adverts
        for record in given.unsendable:
            self._may_send.discard(record)
            own.remove(record)
        for record, fields in given.sendable.items():
            self._may_send.add(record)
            own.put(advertise(record, own.source, fields, own.schema))
        self._may_request -= given.unrequestable
        self._may_request |= given.requestable

    # --- requests and transfer ---

    def _requestable(self) -> list[str]:
        """Return what may be asked for now: the invariant of 050, in one place (050-STA)."""
        assert self._agreement is not None
        wanted = [
            record
            for record in sorted(self._may_request)
            if record in self._adverts.adverts
            and record not in self._have
            and record not in self._refused
            and record.rpartition(".")[2] in self._agreement.formats
        ]
        return wanted[:_REQUEST_AT_ONCE]

    def _serve(self) -> None:
        """Ask the driver for the next record to send, or say that it cannot be had."""
        while self._to_serve:
            record = self._to_serve.pop(0)
            if record in self._may_send:
                self._awaiting += 1
                self._do(m.Load(record))
                return
            self._do(m.SendFacts(block([("NotAvailable", record)])))
        self._end()

    def _take_loaded(self, given: m.Loaded) -> None:
        self._answered()
        if given.record is None or given.hash not in self._may_send:
            self._do(m.SendFacts(block([("NotAvailable", given.hash)])))
        else:
            self._tally.bytes_sent += len(given.record.raw)
            self._phase_bytes += len(given.record.raw)
            self._do(m.SendRecord(given.record))
        if self._phase_bytes >= _SEND_AT_ONCE:
            self._to_serve = []  # deferred: neither sent nor unavailable
        if not self._to_serve:
            self._end()

    def _take_record(self, raw: bytes) -> None:
        if self.phase is not Phase.TRANSFER or self._peer_ended:
            raise _Abort(Code.INTERLACE_PHASE, "a record out of place")
        claimed = raw[_MARKLINE_START:_MARKLINE_END].partition(b"\n")[0].decode("ascii", "replace")
        if claimed not in self._outstanding:
            raise _Abort(Code.INTERLACE_UNASKED, "a record that was not asked for")
        self._outstanding.discard(claimed)
        self._round_bytes += len(raw)
        self._tally.bytes_received += len(raw)
        limit = self._limit("max_total_transferred_bytes")
        if self._round_bytes > limit:
            raise LimitExceeded(
                "max_total_transferred_bytes", configured=limit, observed=self._round_bytes
            )
        outcome = validate_record(raw, self._side.limits)
        if outcome.value is None:
            self._reject(claimed, outcome.code or Code.RECORD_MALFORMED, outcome.detail)
        else:
            self._awaiting += 1
            self._do(m.Save(outcome.value))

    def _take_saved(self, given: m.Saved) -> None:
        self._answered()
        match given.outcome.status:
            case Status.ACCEPTED:
                self._have.add(given.hash)
                self._tally.received.append(given.hash)
                self._do(m.Emit(m.RecordSaved(given.hash)))
            case Status.DUPLICATE:
                self._have.add(given.hash)
                self._do(m.Emit(m.RecordDuplicate(given.hash)))
            case _:
                code = given.outcome.code or Code.STORE_FAILED
                self._reject(given.hash, code, given.outcome.detail)

    def _reject(self, record: str, code: Code, detail: str) -> None:
        self._refused.add(record)
        self._tally.rejected.append(record)
        self._do(m.Emit(m.RecordRejected(record, code, detail)))

    def _conclude_transfer(self, facts: list[Fact]) -> None:
        for _, record in facts:
            if record not in self._outstanding:
                raise _Abort(Code.INTERLACE_UNASKED, "NotAvailable for what was not asked for")
            self._outstanding.discard(record)
            self._refused.add(record)
            self._tally.not_available.append(record)
        self._outstanding = set()  # what is left was deferred, and may be asked for again
        self._phase_bytes = 0

    # --- ends ---

    def _fixed_point(self) -> None:
        self.phase = Phase.CLOSED
        self._do(m.Emit(m.FixedPoint(self._result())))
        self._do(m.Emit(m.Closed("fixed point", self._result())))
        self._do(m.Close())

    def _close(self, reason: str) -> None:
        self.phase = Phase.CLOSED
        self._do(m.Emit(m.Closed(reason, self._result())))
        self._do(m.Close())

    def _abort(self, code: Code, detail: str) -> None:
        self.phase = Phase.CLOSED
        self._do(m.Emit(m.Aborted(code, detail, self._result())))
        self._do(m.Close())

    def _result(self) -> m.InterlaceResult:
        tally = self._tally
        return m.InterlaceResult(
            plan=self._plan.id if self._plan else None,
            peer=self._side.peer_verifier,
            received=tuple(tally.received),
            rejected=tuple(tally.rejected),
            not_available=tuple(tally.not_available),
            bytes_received=tally.bytes_received,
            bytes_sent=tally.bytes_sent,
            loops=tally.loops,
        )

    # --- small things ---

    def _say(self, facts: list[Fact]) -> None:
        if facts:
            self._do(m.SendFacts(block(facts)))

    def _end(self) -> None:
        self._ended = True
        self._do(m.EndPhase(self.phase))

    def _do(self, effect: m.Effect) -> None:
        self._effects.append(effect)

    def _answered(self) -> None:
        if not self._awaiting:
            raise _Abort(Code.INTERLACE_PHASE, "an answer to no question")
        self._awaiting -= 1

    def _limit(self, name: str) -> int:
        if self._agreement is not None:
            return self._agreement.limits[name]
        return int(getattr(self._side.limits, name))

    @property
    def _start_length(self) -> int:
        return self._limit("partition_prefix_start")

    @property
    def _mine(self) -> Operand:
        assert self._operands is not None
        return self._operands[self._side.index]

    @property
    def _theirs(self) -> Operand:
        assert self._operands is not None
        return self._operands[1 - self._side.index]

    @property
    def _agreed_plan(self) -> ExchangePlan:
        assert self._plan is not None
        return self._plan

    @property
    def _own_adverts(self) -> OwnAdverts:
        assert self._own is not None
        return self._own

    @property
    def _adverts(self) -> PeerAdverts:
        assert self._peers is not None
        return self._peers
