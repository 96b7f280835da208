"""The interlace machine: it decides, a driver does (spec 050).

``receive`` takes one input and returns what to do about it. The machine calls no store, no policy,
no clock and no stream: it asks for what it needs by effects, and is told by inputs. Everything a
peer sends is held to the phase it comes in; whatever has no place there ends the exchange, and
nothing but the exchange.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LaceError, ProtocolError
from lace.interlace import messages as m
from lace.interlace.facts import check_facts, read_block
from lace.interlace.listing import Listing, read_listing
from lace.interlace.opening import Epoch, Opening
from lace.interlace.opening import Side as Side  # noqa: PLC0414  (what a machine is made of)
from lace.interlace.partition import Partitions
from lace.interlace.phases import FACTS, Occasion, Phase, next_phase
from lace.interlace.reconcile import OwnAdverts, PeerAdverts, Saying
from lace.interlace.tick import Ticking
from lace.interlace.transfer import Transfer
from lace.policy.module import PolicyModule
from lace.tai import NS_PER_SECOND, Tai, add_ns, difference_ns

_Said = m.PeerFacts | m.PeerTuples | m.PeerRecord | m.PeerValidated | m.PeerPhaseEnd
_Ending = Callable[[m.InterlaceResult], m.Event]


class InterlaceMachine:
    """One side of one exchange."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self.phase = Phase.SETUP
        self._effects: list[m.Effect] = []
        self._awaiting: deque[m.Question] = deque()  # answers of the driver that are still due
        # This phase.
        self._ended = False
        self._peer_ended = False
        self._facts: list[Fact] = []  # the peer's
        self._listed: Listing = {}  # the peer's advertisements, where they need not be facts
        self._saying: Saying | None = None
        self._again = False  # we have more to advertise, whatever is requested
        self._peer_again = False
        # The epoch: one plan, and everything that goes by it.
        self._module = side.module
        self._next_module: PolicyModule | None = None
        self._opening = Opening(side, self._module, side.peer_verifier, None)
        self._epoch: Epoch | None = None
        self._passing_over = False  # an advertise phase that crossed with our set-up
        self._own: OwnAdverts | None = None
        self._peers: PeerAdverts | None = None
        self._ticking: Ticking | None = None
        self._asked: list[Fact] = []
        self._peer_asks: list[Fact] = []
        # The round.
        most = side.limits.max_total_transferred_bytes
        self._transfer = Transfer(side.limits, side.parameters, most)
        self._evaluated = False  # just before this loop began
        self._woken = False
        self._tick_fired = False
        self._ending: _Ending | None = None
        self._crossing = False  # we woke, and the peer has not said anything since

    # --- the one entrance ---

    def receive(self, given: m.Input, now: Tai) -> list[m.Effect]:
        """Take one input; return what is to be done, in order."""
        self._effects = []
        if self.phase is Phase.CLOSED:
            return []
        if self._ending is not None:
            self._finish(given)
            return self._effects
        try:
            self._take(given, now)
            if self._transfer.over is not None:
                raise self._transfer.over
            self._advance(now)
        except LaceError as error:  # malformed data, a limit, a module that cannot be used
            self._abort(error.code, error.message, m.Blame.REMOTE)
        return self._effects

    @property
    def tables(self) -> tuple[Partitions, Partitions]:
        """What this side and the peer advertise."""
        if self._own is None or self._peers is None:
            return Partitions(), Partitions()
        return self._own.table, self._peers.table

    def peer_advertises(self, record: str) -> bool:
        """Whether the peer claims, as far as was heard, to have a record."""
        return self._peers is not None and record in self._peers.table

    def _take(self, given: m.Input, now: Tai) -> None:
        match given:
            case m.PeerModule():
                self._hear_module(given)
            case (
                m.PeerFacts() | m.PeerTuples() | m.PeerRecord() | m.PeerValidated()
                | m.PeerPhaseEnd()
            ):  # fmt: skip
                self._hear(given, now)
            case m.Started():
                self._say_module()
            case m.PeerProven():
                self._opening.proven = given.verifier
            case m.Woken():
                self._woken = True
            case m.OperandChanged():
                self._next_module = given.module
            case m.TimerFired():
                self._take_timer()
            case m.StreamFailed():
                self._abort(given.code, given.detail, m.Blame.REMOTE)
            case m.PeerGone():
                self._take_end(given)
            case m.CloseRequested():
                self._close("asked to close")
            case _:
                self._take_answer(given, now)

    def _hear_module(self, given: m.PeerModule) -> None:
        """Take the peer's module; a loop that it has not yet joined gives way to a new epoch."""
        joined = bool(self._facts or self._listed) or self._peer_ended
        if self.phase is Phase.IDLE or (self.phase is Phase.ADVERTISE and not joined):
            self._begin_epoch(own=False)
        if self.phase is not Phase.SETUP or self._peer_ended:
            raise ProtocolError("a module out of place", code=Code.INTERLACE_PHASE)
        self._passing_over = False
        self._opening.take_module(given)

    def _hear(self, given: _Said, now: Tai) -> None:
        """Take what the peer says in a phase; in idle it begins the next loop."""
        if self.phase is Phase.IDLE:
            self._begin_round()
            self._go(Occasion.WAKE, now)
        if self._peer_ended:
            raise ProtocolError("more after the end of a phase", code=Code.INTERLACE_PHASE)
        self._crossing = False
        if isinstance(given, m.PeerRecord | m.PeerValidated):
            if self.phase is not Phase.TRANSFER:
                raise ProtocolError("a record out of place", code=Code.INTERLACE_PHASE)
            self._do(*self._transfer.take_record(given))
        elif isinstance(given, m.PeerFacts | m.PeerTuples):
            self._hear_facts(given)
        elif self._passing_over:
            self._passing_over = False
        else:
            if self.phase is Phase.SETUP and not self._opening.has_both_modules:  # 050-SET-06
                raise ProtocolError("set-up without a module", code=Code.INTERLACE_PHASE)
            self._peer_ended = True
            if self.phase is Phase.TRANSFER:
                self._do(*self._transfer.save())

    def _hear_facts(self, given: m.PeerFacts | m.PeerTuples) -> None:
        limits = self._side.limits
        if isinstance(given, m.PeerFacts) and self._hear_listing(given.content):
            return
        facts = read_block(given.content, limits) if isinstance(given, m.PeerFacts) else given.facts
        if self._passing_over:
            if all(fact[0] != "ExchangeOperand" for fact in facts):
                check_facts(facts, FACTS[Phase.ADVERTISE], limits)
                return
            self._passing_over = False
        check_facts(facts, FACTS[self.phase], limits)
        for fact in facts:
            if fact[0] == "TickReady":
                self._hear_tick(fact[1])
            else:
                self._facts.append(fact)

    def _hear_listing(self, content: bytes) -> bool:
        """Take a block that has advertisements and nothing else; return whether it was one."""
        if self.phase not in {Phase.ADVERTISE, Phase.ANSWER} or self._passing_over:
            return False
        listed = read_listing(content, self._adverts.source, self._side.limits)
        if not listed or not self._listed.keys().isdisjoint(listed):
            return False
        self._listed |= listed
        return True

    def _take_timer(self) -> None:
        if self.phase is Phase.IDLE:
            self._woken = self._tick_fired = True  # a tick was reached
        else:
            detail = f"{self.phase} took too long"
            self._abort(Code.INTERLACE_TIMEOUT, detail, m.Blame.LINK)

    def _take_end(self, given: m.PeerGone) -> None:
        if given.orderly and (self.phase is Phase.IDLE or self._crossing):
            self._close("the peer closed")
        else:
            detail = f"the connection ended during {self.phase}"
            self._abort(Code.INTERLACE_GONE, detail, m.Blame.LINK)

    # --- answers ---

    def _take_answer(self, given: m.Input, now: Tai) -> None:
        if not self._awaiting or not isinstance(given, m.ANSWERS[type(self._awaiting[0])]):
            raise ProtocolError("an answer to no question", code=Code.INTERLACE_PHASE)
        if not (isinstance(given, m.Evaluated) and given.more):
            self._awaiting.popleft()
        match given:
            case m.Evaluated():
                self._adverts_of_own.table.remove(given.unsendable)
                self._adverts_of_own.table.put(given.sendable)
                self._transfer.take_evaluation(given)
                if not given.more and self.phase is Phase.IDLE:
                    self._consider_waking(now)
            case m.Recalled():
                if given.state is not None:
                    self._take_state(given.state)
            case m.Described():
                facts = tuple(fact for advert in given.adverts for fact in advert.facts())
                text = b"".join(advert.canonical() for advert in given.adverts)
                self._do(m.SendFacts(facts, text))
            case m.Loaded():
                self._do(*self._transfer.take_loaded(given))
            case m.Saved():
                self._do(*self._transfer.take_saved(given))
            case m.EvaluationFailed() | m.StoreFailed():
                self._abort(given.code, given.detail, m.Blame.LOCAL)

    # --- phases ---

    def _advance(self, now: Tai) -> None:
        """Say what there is to say, and move on whenever both sides have ended a phase."""
        while self._ending is None and not self._awaiting:
            if self.phase is Phase.IDLE:
                if not self._leave_idle():
                    return
                continue
            if not self._ended and self._can_speak():
                self._speak(now)
                continue
            if not (self._ended and self._peer_ended):
                return
            facts, self._facts = self._facts, []
            occasion = self._conclude(facts)
            self._go(occasion, now)

    def _go(self, occasion: Occasion, now: Tai) -> None:
        following = next_phase(self.phase, occasion)
        if following is None:
            raise ProtocolError(f"{occasion} in {self.phase}", code=Code.INTERLACE_PHASE)
        if following is Phase.ADVERTISE and self._next_module is not None:
            self._begin_epoch(own=True)
            return
        self._enter(following, now)

    def _enter(self, phase: Phase, now: Tai) -> None:
        """Begin a phase, and ask the driver for what it needs before it can speak."""
        self._clear(phase)
        if phase is Phase.IDLE:
            self._reach_fixed_point(now)
            return
        self._do(m.SetTimer(self._limit("phase_timeout")))
        if phase is Phase.ADVERTISE:
            self._begin_loop()
        elif phase is Phase.REQUEST or (phase is Phase.TRANSFER and self._transfer.is_serving):
            self._evaluate()  # what leaves is decided by what is known after it was asked for

    def _can_speak(self) -> bool:
        return self.phase is not Phase.SETUP or self._opening.has_both_modules

    def _speak(self, now: Tai) -> None:
        """Say one piece of this phase, and end it when there is no more."""
        if self.phase is Phase.TRANSFER:
            self._do(*self._transfer.serve(self._adverts_of_own.table))
            if not self._awaiting and not self._transfer.is_serving:
                self._end()
            return
        if self._saying is None:
            self._saying = self._sayings(now)
            if self._saying.facts:
                self._do(m.SendFacts(tuple(self._saying.facts)))
        listing = self._saying.listing
        if listing:
            most = self._side.parameters.describe_at_once
            batch = tuple(listing[:most])
            del listing[:most]
            self._do(m.Describe(self._opening.plan, batch))
        else:
            self._end()

    def _sayings(self, now: Tai) -> Saying:
        match self.phase:
            case Phase.SETUP:
                return Saying(self._opening.setup_facts())
            case Phase.HELLO:
                return Saying(self._opening.hello_facts(now))
            case Phase.ADVERTISE:
                saying = self._adverts_of_own.advertise(self._limit("partition_prefix_start"))
                return Saying(self._tick_facts(now) + saying.facts, saying.listing)
            case Phase.ASK:
                return Saying(list(self._asked))
            case Phase.ANSWER:
                return self._adverts_of_own.answer(self._peer_asks)
            case _:
                return Saying(self._request_facts())

    def _conclude(self, facts: list[Fact]) -> Occasion:
        """Draw the consequences of the peer's phase; say what both ends amount to."""
        start = self._limit("partition_prefix_start")
        match self.phase:
            case Phase.SETUP:
                self._opening.conclude_setup(facts)
            case Phase.HELLO:
                self._conclude_hello(facts)
            case Phase.ADVERTISE:
                self._asked = self._adverts.take_advertise(facts, start, self._listed)
            case Phase.ASK:
                self._peer_asks = list(dict.fromkeys(facts))  # a phase may come in many blocks
                return Occasion.ASKED if facts or self._asked else Occasion.NOTHING
            case Phase.ANSWER:
                self._asked = self._adverts.take_answer(facts, start, self._listed)
            case Phase.REQUEST:
                return self._conclude_requests(facts)
            case _:
                self._transfer.conclude(facts)
        return Occasion.DONE

    # --- epochs: one plan each ---

    def _say_module(self) -> None:
        self._do(m.SetTimer(self._limit("phase_timeout")))
        self._do(m.SendModule(self._module.id, self._module.text.encode()))

    def _begin_epoch(self, *, own: bool) -> None:
        """Set up anew; if it is our wish, the peer may have begun a loop that it does not know of.

        The peer can be ahead by its advertise phase and no more, because it waits for ours.
        """
        self._module, self._next_module = self._next_module or self._module, None
        tick = None if self._ticking is None else self._ticking.now
        self._opening = Opening(self._side, self._module, self._opening.proven, tick)
        self._clear(Phase.SETUP)
        self._passing_over = own
        self._say_module()

    def _conclude_hello(self, facts: list[Fact]) -> None:
        opening = self._opening
        opening.conclude_hello(facts)
        agreement = opening.agreement
        self._ticking = Ticking.begin(agreement.start, agreement.tick_interval)
        before, self._epoch = self._epoch, opening.epoch
        if before == self._epoch:  # nothing that is known depends on anything that changed
            self._adverts_of_own.begin_again()
            self._adverts.begin_again()
        else:
            self._forget_epoch()
        self._begin_round()

    def _forget_epoch(self) -> None:
        """Begin with what is known of the link under its new plan, or with nothing."""
        opening = self._opening
        agreement = opening.agreement
        parameters, standard = self._side.parameters, self._side.parameters.standard_prefix
        own, peers = Partitions(2, standard=standard), Partitions(standard=standard)
        source = opening.theirs.source_label
        self._own = OwnAdverts(agreement.limits, parameters, own)
        self._peers = PeerAdverts(source, agreement.limits, parameters, own, peers)
        self._transfer = self._transfer.next_epoch(self._limit("max_total_transferred_bytes"))
        self._do(m.Recall(opening.link, opening.plan, agreement.fields))

    def _take_state(self, state: m.LinkState) -> None:
        """Begin where the link stood when it was last used."""
        own, peers = state.own.copy(), state.peers.copy()
        self._adverts_of_own.table = self._adverts.own = own
        self._adverts.table = peers
        self._transfer.recall(state.wanted)

    # --- rounds and loops ---

    def _begin_round(self) -> None:
        self._transfer.begin_round()
        self._adverts_of_own.begin_round()
        self._adverts.begin_round()
        self._crossing = False

    def _begin_loop(self) -> None:
        if not self._transfer.is_going_on:
            self._transfer.tally.loops += 1
        limit = self._limit("max_loop_iterations")
        if self._transfer.tally.loops > limit:
            self._close(f"limit max_loop_iterations of {limit} was reached")
            return
        self._adverts_of_own.begin_loop()
        if self._evaluated:
            self._evaluated = False  # just now, on waking
        else:
            self._evaluate()

    def _reach_fixed_point(self, now: Tai) -> None:
        self._transfer.tally.cursor_updated = self._adverts.take_changed()
        if self._opening.link is not None:
            own, peers = self.tables
            state = m.LinkState(own.copy(), peers.copy(), self._transfer.wanted)
            self._do(m.Remember(self._opening.link, state))
        self._do(m.Emit(m.FixedPoint(self._result())))
        if not self._side.open:
            self._close("fixed point")
        else:
            self._set_tick_timer(now)

    def _leave_idle(self) -> bool:
        """Return whether there is a reason to leave idle, or at least to look for one."""
        if self._next_module is not None:
            self._begin_epoch(own=True)
            return True
        if self._woken:
            self._woken = False
            self._evaluate()
            return True
        return False

    def _consider_waking(self, now: Tai) -> None:
        """Begin a loop if it could change anything; what the peer may not know wakes nobody."""
        ticked, self._tick_fired = self._tick_fired and self._is_tick_due(now), False
        if self._adverts_of_own.has_changed or self._requestable() or ticked:
            self._begin_round()
            self._crossing = True
            self._evaluated = True
            self._go(Occasion.WAKE, now)
        else:
            self._set_tick_timer(now)

    # --- time ---

    def _hear_tick(self, text: str) -> None:
        self._ticking = self._ticks.heard(text)
        if self.phase is Phase.REQUEST:
            self._peer_again = True

    def _tick_facts(self, now: Tai) -> list[Fact]:
        """Say how far the clock is, if the exchange lasts and anyone cares (050-TIC-11)."""
        if not self._is_tick_due(now):
            return []
        self._ticking = self._ticks.reached(now)
        return [("TickReady", self._ticks.local_ready)]

    def _is_tick_due(self, now: Tai) -> bool:
        if not self._side.open or not self._opening.wants_ticks:
            return False
        return self._ticks.reached(now).local_ready > self._ticks.local_ready

    def _set_tick_timer(self, now: Tai) -> None:
        seconds = None
        if self._opening.wants_ticks:
            following = add_ns(self._ticks.local_ready, self._ticks.interval)
            seconds = max(0, difference_ns(following, now)) / NS_PER_SECOND
        self._do(m.SetTimer(seconds))

    # --- evaluation, requests ---

    def _evaluate(self) -> None:
        self._woken = False
        changes = self._adverts.take_changes()
        opening = self._opening
        self._transfer.advertised_anew(advert.record for advert in changes.advertised)
        self._transfer.advertised_anew(changes.adopted)
        self._do(
            m.Evaluate(
                plan=opening.plan,
                schema=opening.agreement.fields,
                runtime=opening.runtime_facts(self._ticks.now),
                withdrawn=changes.withdrawn,
                advertised=changes.advertised,
                adopted=changes.adopted,
            )
        )

    def _requestable(self) -> list[str]:
        formats = self._opening.agreement.formats
        return self._transfer.requestable(self._adverts.table, formats)

    def _request_facts(self) -> list[Fact]:
        """Say what is requested; a tick says that there is more to advertise (L11)."""
        records = self._requestable()
        self._transfer.ask(records)
        facts: list[Fact] = [("MayRequest", record) for record in records]
        self._again = self._adverts_of_own.has_changed
        if self._again:
            facts.append(("TickReady", self._ticks.local_ready))
        return facts

    def _conclude_requests(self, facts: list[Fact]) -> Occasion:
        if self._transfer.take_requests(fact[1] for fact in facts):
            return Occasion.ASKED
        return Occasion.AGAIN if self._again or self._peer_again else Occasion.NOTHING

    # --- ends ---

    def _close(self, reason: str) -> None:
        self._finish_by(lambda result: m.Closed(reason, result))

    def _abort(self, code: Code, detail: str, blame: m.Blame) -> None:
        self._finish_by(lambda result: m.Aborted(code, detail, blame, result))

    def _finish_by(self, ending: _Ending) -> None:
        """End the exchange, but store first what was received and is valid."""
        if self._ending is not None:
            return
        self._ending = ending
        self._awaiting.clear()
        self._do(*self._transfer.save())
        if not self._awaiting:
            self._finish(None)

    def _finish(self, given: m.Input | None) -> None:
        assert self._ending is not None
        if self._awaiting and not isinstance(given, m.Saved | m.StoreFailed):
            return  # nothing else matters now
        if isinstance(given, m.Saved):
            self._do(*self._transfer.take_saved(given))
        self.phase = Phase.CLOSED
        self._do(m.Emit(self._ending(self._result())), m.Close())

    def _result(self) -> m.InterlaceResult:
        opening = self._opening
        plan = opening.plan.id if opening.has_plan else None
        return self._transfer.tally.result(opening.proven_link, plan, opening.proven)

    # --- small things ---

    def _clear(self, phase: Phase) -> None:
        self.phase = phase
        self._ended = self._peer_ended = False
        self._again = self._peer_again = False
        self._facts = []
        self._listed = {}
        self._saying = None

    def _end(self) -> None:
        self._ended = True
        self._do(m.EndPhase(self.phase))

    def _do(self, *effects: m.Effect) -> None:
        self._effects += effects
        self._awaiting += [effect for effect in effects if isinstance(effect, m.Question)]

    def _limit(self, name: str) -> int:
        if self._opening.has_agreement:
            return self._opening.agreement.limits[name]
        return int(getattr(self._side.limits, name))

    @property
    def _adverts_of_own(self) -> OwnAdverts:
        assert self._own is not None
        return self._own

    @property
    def _adverts(self) -> PeerAdverts:
        assert self._peers is not None
        return self._peers

    @property
    def _ticks(self) -> Ticking:
        assert self._ticking is not None
        return self._ticking
