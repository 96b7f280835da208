"""Set-up and hello: from two modules to one plan, and from two hellos to one agreement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lace.codes import Code
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import PolicyError, ProtocolError
from lace.ids import Verifier
from lace.interlace.messages import PeerModule
from lace.interlace.negotiate import (
    WIRE_LIMITS,
    Agreement,
    Hello,
    link_id,
    negotiate,
    parse_hello,
)
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.interlace.sketch import sketch_key
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.module import PolicyModule, facet_of, module_from_peer
from lace.policy.origin import (
    Operand,
    Party,
    bind_verifier,
    check_announced_origin,
    label_operands,
)
from lace.policy.plan import ExchangePlan
from lace.tai import NS_PER_SECOND, Tai, difference_ns

_TICK: Final = 10 * NS_PER_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What this side brings to an exchange."""

    index: int
    """0 for the side that was connected to, 1 for the one that connected (A24)."""
    module: PolicyModule
    open: bool = False
    """Stay after the fixed point, and go on when there is something new."""
    nonce: str = ""
    peer_nonce: str = ""
    verifier: Verifier | None = None
    """Proven to the peer by the binding, if any."""
    peer_verifier: Verifier | None = None
    """Proven by the peer before the exchange began; else the binding tells later."""
    expected_peer: Verifier | None = None
    """The only peer to exchange with, if that matters."""
    transport: str = ""
    encrypted: bool = False
    tick_interval: int = _TICK
    """In nanoseconds."""
    coarse: bool = True
    """Offer to start reconciliation at one root partition."""
    remembers: bool = True
    """Begin from how the link stood when it was last used; without, from nothing."""
    link: bytes | None = None
    """Where to keep the cursor of a link without two proven verifiers; never proof of anything."""
    limits: Limits = DEFAULT_LIMITS
    parameters: Parameters = DEFAULT_PARAMETERS


@dataclass(frozen=True, slots=True)
class Epoch:
    """What both sides agreed on, as far as tables of advertisements depend on it (050-EPO-02)."""

    plan: ExchangePlan
    fields: frozenset[str] | None
    formats: frozenset[str]
    limits: dict[str, int]
    link: bytes | None


class Opening:
    """One epoch's set-up and hello."""

    def __init__(
        self, side: Side, module: PolicyModule, proven: Verifier | None, not_before: Tai | None
    ) -> None:
        self._side = side
        self._module = module
        self.proven = proven
        self._not_before = not_before  # the tick of the epoch before: time never goes back
        self._operands: tuple[Operand, Operand] | None = None
        self._plan: ExchangePlan | None = None
        self._hello: Hello | None = None
        self._clock: Tai | None = None  # what this side's own clock showed at hello
        self._agreement: Agreement | None = None
        self.limits: Mapping[str, int] | None = None  # that both hold to, once they have agreed
        self._hellos: tuple[Tai, Tai] | None = None  # when both said hello, this side first
        self._runtime: tuple[Tai, tuple[Fact, ...]] | None = None  # with the tick they hold at
        self._digest: bytes | None = None

    # --- set-up ---

    @property
    def has_both_modules(self) -> bool:
        return self._operands is not None

    def take_module(self, given: PeerModule) -> None:
        """Take the peer's module; the labels of both operands follow from the two."""
        if self._operands is not None:
            raise ProtocolError("a second module", code=Code.INTERLACE_PHASE)
        side = self._side
        module = module_from_peer(given.content, given.id, facet_of("selector"), side.limits)
        # Verifiers are proven in hello, so labels cannot depend on them.
        self._operands = label_operands(
            Party(index=side.index, module=self._module, nonce=side.nonce),
            Party(index=1 - side.index, module=module, nonce=side.peer_nonce),
        )
        self._plan = ExchangePlan(self._operands)

    def setup_facts(self) -> list[Fact]:
        mine = self.mine
        return [
            ("ExchangeOperand", str(mine.index), mine.module.id, mine.origin, mine.module.facet)
        ]

    def conclude_setup(self, facts: list[Fact]) -> None:
        """Hold the peer's set-up block against what was computed."""
        if len(facts) != 1:
            raise ProtocolError("set-up needs exactly one operand", code=Code.INTERLACE_PHASE)
        _, index, module, origin, facet = facts[0]
        theirs = self.theirs
        if facet_of(facet) is not theirs.module.facet:
            raise PolicyError("the operand is for something else", code=Code.POLICY_FACET)
        if index != str(theirs.index):
            raise PolicyError("the peer claims another operand index", code=Code.POLICY_OPERAND)
        if module != theirs.module.id:
            raise PolicyError("the operand names another module", code=Code.POLICY_MODULE_ID)
        check_announced_origin(origin, theirs)

    # --- hello ---

    def hello_facts(self, now: Tai) -> list[Fact]:
        side = self._side
        offers = {name: int(getattr(side.limits, name)) for name in WIRE_LIMITS}
        offers["partition_prefix_start"] = 0 if side.coarse else side.parameters.standard_prefix
        self._clock = now
        now = max(now, self._not_before or now)
        self._hello = Hello(
            plan=self.plan.id, tai=now, tick_interval=side.tick_interval, signer=side.verifier,
            fields=self.plan.required_fields,  # no more than the plan looks at
            limits=offers,
        )  # fmt: skip
        return self._hello.facts()

    def conclude_hello(self, facts: list[Fact]) -> None:
        """Agree with the peer's hello, and bind what was proven to the operands."""
        assert self._hello is not None
        side = self._side
        theirs = parse_hello(facts)
        if side.expected_peer is not None and self.proven != side.expected_peer:
            found = "proved no key" if self.proven is None else f"is {self.proven}"
            detail = f"the peer {found}, and {side.expected_peer} was expected"
            raise ProtocolError(detail, code=Code.INTERLACE_SIGNER)
        self._hellos = self._hello.tai, theirs.tai
        agreed = negotiate(self._hello, theirs, self.plan, self.proven, side.limits)
        self._check_start(agreed.start)
        self._agreement, self.limits = agreed, agreed.limits
        bound = [self.mine, self.theirs]
        bound[0] = bind_verifier(self.mine, side.verifier, side.verifier)
        bound[1] = bind_verifier(self.theirs, theirs.signer, self.proven)
        first, second = sorted(bound, key=lambda operand: operand.index)
        self._operands = first, second
        self._plan = ExchangePlan(self._operands)

    def _check_start(self, start: Tai) -> None:
        """Refuse a start that one's own clock will reach too late: a peer does not make the time.

        The start is the later of both clocks, so that it cannot lie behind one's own.
        """
        assert self._clock is not None
        most = self._side.limits.clock_seconds
        ahead = difference_ns(start, self._clock) / NS_PER_SECOND
        if ahead > most:
            raise ProtocolError(
                f"the exchange would begin {ahead:.0f} s ahead of this clock; {most} s are allowed",
                code=Code.INTERLACE_CLOCK,
            )

    # --- what came of it ---

    @property
    def plan(self) -> ExchangePlan:
        assert self._plan is not None
        return self._plan

    @property
    def has_plan(self) -> bool:
        return self._plan is not None

    @property
    def agreement(self) -> Agreement:
        assert self._agreement is not None
        return self._agreement

    @property
    def has_agreement(self) -> bool:
        return self._agreement is not None

    @property
    def mine(self) -> Operand:
        assert self._operands is not None
        return self._operands[self._side.index]

    @property
    def theirs(self) -> Operand:
        assert self._operands is not None
        return self._operands[1 - self._side.index]

    @property
    def proven_link(self) -> bytes | None:
        """The Link-Id, if both verifiers are proven (050-LNK-01)."""
        mine, theirs = self._side.verifier, self.proven
        if mine is None or theirs is None or not self.has_plan:
            return None
        return link_id(mine, theirs, self.plan.id)

    def sketch_key(self, nonces: tuple[str, str]) -> bytes:
        """Return the key of names in sketches: of this epoch, and neither side could choose it."""
        assert self._hellos is not None
        hellos = self._hellos[::-1] if self._side.index else self._hellos
        return sketch_key(nonces, hellos, self.plan.id)

    @property
    def link(self) -> bytes | None:
        """Under what the state of this link is kept, if anywhere."""
        if not self._side.remembers:
            return None
        if self.proven_link is None and self._side.link is not None:
            return self._side.link + self.plan.id.encode()
        return self.proven_link

    @property
    def epoch(self) -> Epoch:
        """Return what the state of an epoch depends on; another value begins another one."""
        agreement = self.agreement
        return Epoch(
            self.plan, agreement.fields, agreement.formats, dict(agreement.limits), self.link
        )

    @property
    def digest(self) -> bytes:
        """Return a digest of what this side brought and of what was agreed, but for time."""
        if self._digest is None:
            side, agreed = self._side, self.agreement
            fields = None if agreed.fields is None else sorted(agreed.fields)
            terms = fields, sorted(agreed.formats), sorted(agreed.limits.items())
            brought = side.index, side.open, side.limits, side.parameters
            self._digest = digest(repr((self.plan.id, *terms, *brought)).encode())
        return self._digest

    def runtime_facts(self, tick: Tai) -> tuple[Fact, ...]:
        """Return every runtime fact that holds at a tick; the same value while the tick stands."""
        if self._runtime is None or self._runtime[0] != tick:
            self._runtime = tick, self._facts_at(tick)
        return self._runtime[1]

    def _facts_at(self, tick: Tai) -> tuple[Fact, ...]:
        side, agreement = self._side, self.agreement
        facts: list[Fact] = [
            ("ClockSkewSeconds", str(agreement.clock_skew_seconds)),
            ("StartTAI", agreement.start),
            ("TickTAI", tick),
        ]
        if side.verifier is not None:
            facts.append(("Here", side.verifier))
        if self.proven is not None:
            facts.append(("Peer", self.proven))
        if side.transport:
            facts.append(("Transport", side.transport))
        if side.encrypted:
            facts.append(("TransportEncrypted",))
        return tuple(facts)

    @property
    def looks_at_time(self) -> bool:
        """Whether a rule of the plan depends on moving time."""
        return self.plan.looks_at_time
