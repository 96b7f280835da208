"""The interlace machine: it decides, a driver does (spec 050).

``receive`` takes one input and returns what to do about it. The machine calls no store, no policy,
no clock and no stream: it asks for what it needs by effects, and is told by inputs. Everything a
peer sends is held to the phase it comes in; whatever has no place there ends the exchange, and
nothing but the exchange. An input of the driver that has no place raises ``LocalProtocolError``,
and changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import (
    LaceError,
    LimitExceeded,
    LocalProtocolError,
    ProtocolError,
    StoreError,
)
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.deferring import GO_ON, Deferral, deferred, fitting, texts_within
from lace.interlace.hearing import Hearing, Terms
from lace.interlace.lasting import Lasting
from lace.interlace.loops import Loops
from lace.interlace.negotiate import Agreement
from lace.interlace.opening import Epoch, Opening
from lace.interlace.opening import Side as Side  # noqa: PLC0414  (what a machine is made of)
from lace.interlace.partition import Partitions
from lace.interlace.phases import Occasion, Phase, Phases, Said
from lace.interlace.places import Listed, check_requests
from lace.interlace.reconcile import PeerAdverts
from lace.interlace.rest import Rest, Standing
from lace.interlace.sketching import Sketching
from lace.interlace.telling import OwnAdverts, Saying
from lace.interlace.tick import Ticking
from lace.interlace.transfer import Transfer
from lace.policy.module import PolicyModule
from lace.policy.origin import SourceLabel
from lace.tai import NS_PER_SECOND, Tai, add_ns, difference_ns

_QUESTIONS: Final = tuple(m.ANSWERS)  # as Python looks through them most quickly
_Ending = Callable[[m.InterlaceResult], m.Closed | m.Aborted]


class InterlaceMachine:
    """One side of one exchange."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._phases = Phases()
        self._started = False
        self._nonces = ("", "")
        self._effects: list[m.Effect] = []
        self._awaiting: deque[m.Question] = deque()  # answers of the driver that are still due
        self._blame = m.Blame.LOCAL  # where an error lies that is raised now
        # This phase.
        self._hearing = Hearing(side, self._phases)
        self._bytes_said = 0  # of this side's fact block, which is all its lines of a phase
        self._advert_bytes = 1  # of those that were said last, each
        self._saying: Saying | None = None
        # The epoch: one plan, and everything that goes by it.
        self._module = side.module
        self._next_module: PolicyModule | None = None
        self._opening = Opening(side, self._module, side.peer_verifier, None)
        self._epoch: Epoch | None = None
        self._own: OwnAdverts | None = None
        self._peers: PeerAdverts | None = None
        self._ticking: Ticking | None = None
        self._ticks_here = False  # what this side shows depends on time, beyond the plan
        self._asked: list[Fact] = []
        self._answer = Saying()
        self._deferral = Deferral(0)
        self._put_off = 0  # bytes that are held of the parts before this phase
        # This loop: what each side has listed, and can be asked for by place.
        self._own_places = Listed(0)
        self._peers_places = Listed(0)
        # The round.
        self._loops = Loops()
        self._lasting = Lasting(side.limits.round_seconds)
        most = side.limits.max_total_transferred_bytes
        self._transfer = Transfer(side.limits, side.parameters, most)
        self._evaluated = False  # just before this loop began
        self._woken = False
        self._tick_fired = False
        self._ending: _Ending | None = None

    # --- the one entrance ---

    def receive(self, given: m.Input, now: Tai) -> list[m.Effect]:
        """Take one input; return what is to be done, in order."""
        self._effects = []
        if self._phases.is_over:
            return []
        if self._ending is not None:
            self._finish(given)
            return self._effects
        try:
            if isinstance(given, m.FromPeer):
                self._blame = m.Blame.REMOTE
                self._hear(given, now)
            else:
                self._blame = m.Blame.LOCAL
                self._take(given, now)
            self._check_time(now)
            if self._transfer.over is not None:
                self._blame = m.Blame.REMOTE  # it asked for all that
                raise self._transfer.over
            self._advance(now)
        except LocalProtocolError:
            raise
        except StoreError as error:  # tables are read when they are looked at
            self._abort(error.code, error.message, m.Blame.LOCAL)
        except LaceError as error:  # malformed data, a limit, a module that cannot be used
            self._abort(error.code, error.message, self._blame)
        return self._effects

    @property
    def phase(self) -> Phase:
        return self._phases.phase

    @property
    def phase_timeout(self) -> int:
        """Seconds for which a side may say nothing: as agreed, or this side's own before that."""
        return self._limit("phase_timeout")

    @property
    def agreement(self) -> Agreement | None:
        """What both sides hold to, once both have said hello."""
        return self._opening.agreement if self._opening.has_agreement else None

    @property
    def peer_source(self) -> SourceLabel | None:
        """Whom the peer's advertisements have to name, once both have said hello."""
        return self._opening.theirs.source_label if self._opening.has_agreement else None

    @property
    def tables(self) -> tuple[Partitions, Partitions]:
        """What this side and the peer advertise."""
        if self._own is None or self._peers is None:
            return Partitions(), Partitions()
        return self._own.table, self._peers.table

    @property
    def held(self) -> int:
        """About how many bytes wait here for the end of a phase, or to be stored."""
        said = self._hearing.memory + self._put_off
        sent = 0 if self._peers is None else self._peers.memory
        own = 0 if self._own is None else self._own.memory
        places = self._own_places.memory + self._peers_places.memory
        return said + own + self._transfer.held + sent + places + self._loops.memory

    @property
    def hears_more(self) -> bool:
        """Whether what the peer says may be handed over before the questions are answered."""
        return not self._phases.peer_ended

    @property
    def can_look_ahead(self) -> bool:
        """Whether to call ``look_ahead`` when all was sent: the peer is busy with what it got."""
        phases = self._phases
        waits = phases.phase is Phase.ADVERTISE and phases.ended and not phases.peer_ended
        return waits and self._adverts.can_look_ahead

    def look_ahead(self) -> None:
        """Find out now what else would have to be found out when the peer speaks."""
        if self.can_look_ahead:
            self._adverts.look_ahead()

    @property
    def needs_peer(self) -> bool:
        """Whether no answer is of use any more if the peer says no more than it has said by now.

        What it did say may be handed over before the questions are answered.
        """
        return self._ending is None and self._phases.needs_peer

    def standing(self) -> Standing | None:
        """Return how this side stands at rest, if others can stand like that: else None."""
        own, peers, transfer, opening = self._own, self._peers, self._transfer, self._opening
        if not self._phases.is_idle or own is None or peers is None or opening.link is not None:
            return None
        orders = self._woken or self._tick_fired or self._next_module is not None
        if orders or self._wants_ticks or self._awaiting or self._ending is not None:
            return None
        if not own.tells_tables:  # nobody has asked for their digests
            return None
        if not (own.is_at_rest and peers.is_at_rest and transfer.is_at_rest):
            return None
        return Standing(
            agreed=opening.digest,
            own=own.table.check,
            peers=peers.table.check,
            base=own.base,
            starts=(own.start, peers.start),
            advert_bytes=self._advert_bytes,
            wanted=transfer.wanted,
            forgotten=transfer.forgotten,
        )

    def rest(self) -> Rest | None:
        """Return how this side stands at rest, for others to stand like it."""
        standing = self.standing()
        if standing is None:
            return None
        own, peers = self.tables
        return Rest(standing, own.copy(), peers.copy(), self._transfer.tally)

    def stand_as(self, rest: Rest) -> None:
        """Stand as another machine does that stood as this one, and has gone on since."""
        own = self._adverts_of_own
        own.stand_as(rest)
        self._adverts.stand_as(rest, own.table)
        own.sketching.own = own.table
        self._transfer.stand_as(rest)
        self._advert_bytes = rest.standing.advert_bytes
        self._lasting.begin()

    def leave_rest(self, now: Tai) -> None:
        """Count time from now on, for a round that goes on without this machine."""
        self._lasting.rest_until(now)

    def has_time(self, now: Tai) -> bool:
        """Count the time of such a round; return False, and count nothing, if it is over by now."""
        return self._lasting.go_on(now, self.phase_timeout)

    def peer_advertises(self, record: str) -> bool:
        """Whether the peer claims, as far as was heard, to have a record."""
        return self._peers is not None and record in self._peers.table

    # --- the peer's entrance ---

    def _hear(self, given: m.FromPeer, now: Tai) -> None:
        match given:
            case m.PeerRecord() | m.PeerValidated():  # first, because there are many
                self._join(Said.RECORD, now)
                self._do(*self._transfer.take_record(given))
            case m.PeerModule():
                self._join(Said.MODULE, now)
                self._opening.take_module(given)
            case m.PeerFacts() | m.PeerTuples():
                self._join(Said.FACTS, now)
                self._hear_facts(given)
            case m.PeerPhaseEnd():
                self._join(Said.END, now)
                self._hear_end()
            case m.PeerAlive():
                pass  # time goes on, and that is looked at below
            case m.PeerProven():
                self._join(Said.PROOF, now)
                self._opening.proven = given.verifier
            case m.StreamFailed():
                self._abort(given.code, given.detail, m.Blame.REMOTE)
            case m.PeerGone():
                self._hear_gone(given)

    def _join(self, said: Said, now: Tai) -> None:
        """Hold what the peer says to its place; it may begin a loop, or another epoch."""
        match self._phases.occasion_of(said):
            case Occasion.WAKE:
                self._begin_round()
                self._go(Occasion.WAKE, now)
            case Occasion.OPERAND:
                self._begin_epoch(now, own=False)
        self._phases.take(said)

    def _hear_end(self) -> None:
        for tick in self._hearing.end(self._terms):
            self._hear_tick(tick)
        if not self._phases.take_end():
            return
        if self.phase is Phase.SETUP and not self._opening.has_both_modules:  # 050-SET-06
            raise ProtocolError("set-up without a module", code=Code.INTERLACE_PHASE)
        if self.phase is Phase.TRANSFER:
            self._do(*self._transfer.save())

    def _hear_facts(self, given: m.PeerFacts | m.PeerTuples) -> None:
        for tick in self._hearing.take(given, self._terms):
            self._hear_tick(tick)

    @property
    def _terms(self) -> Terms:
        return Terms(self._limit, None if self._peers is None else self._peers.source)

    def _hear_gone(self, given: m.PeerGone) -> None:
        if given.orderly and self._phases.may_end_here:
            self._close(m.Ending.PEER_CLOSED)
        else:
            during = str(self.phase) if self._started else "the beginning"
            detail = f"the connection ended during {during}"
            self._abort(Code.INTERLACE_GONE, detail, m.Blame.LINK)

    # --- this side's entrance ---

    def _take(self, given: m.FromDriver, now: Tai) -> None:
        match given:
            case m.Started():
                if self._started:
                    raise LocalProtocolError("started twice", code=Code.INTERLACE_DRIVER)
                self._started = True
                self._nonces = given.nonces
                self._wait_for_peer()
                self._say_module()
            case m.Woken():
                self._woken = True
            case m.OperandChanged():
                self._next_module = given.module
            case m.TimerFired():
                self._take_timer()
            case m.CloseRequested():
                self._close(m.Ending.ASKED)
            case _:
                self._take_answer(given, now)

    def _take_timer(self) -> None:
        if self._phases.is_idle:
            self._woken = self._tick_fired = True  # a tick was reached
            return
        seconds = self.phase_timeout
        doing = f"in {self.phase}" if self._started else "to begin"
        detail = f"the peer took more than {seconds} s {doing}"
        self._abort(Code.INTERLACE_TIMEOUT, detail, m.Blame.LINK)

    def _check_time(self, now: Tai) -> None:
        """End a round that goes on for too long, however much is said in it."""
        if self._phases.is_idle:
            self._lasting.rest_until(now)
        elif not self.has_time(now):
            detail = f"a round took more than {self._lasting.seconds} s"
            self._abort(Code.INTERLACE_TIMEOUT, detail, m.Blame.LINK)

    def _take_answer(self, given: m.Answer, now: Tai) -> None:
        if not self._is_due(given):
            name = type(given).__name__
            raise LocalProtocolError(f"{name} answers no question", code=Code.INTERLACE_DRIVER)
        match given:
            case m.Evaluated():
                self._adverts_of_own.take_evaluation(given)
                self._adverts.take_back(given.unsendable)
                self._transfer.take_evaluation(given)
                if not given.more and self._phases.is_idle:
                    self._consider_waking(now)
            case m.Recalled():
                self._ticks_here = given.ticks
                if given.state is not None:
                    self._take_state(given.state)
            case m.Described():
                if self._saying is None:
                    return  # the peer began an epoch: the phase that this was for is no more
                self._list(given.adverts, self._saying.listing)
            case m.Served():
                self._do(*self._transfer.take_served(given))
            case m.Saved():
                self._do(*self._transfer.take_saved(given))
            case m.EvaluationFailed() | m.StoreFailed():
                self._abort(given.code, given.detail, m.Blame.LOCAL)

    def _is_due(self, given: m.Input | None) -> bool:
        """Whether an input answers the next question; its last part ends the wait for it."""
        if not self._awaiting or not m.fits(self._awaiting[0], given):
            return False
        if not (isinstance(given, m.Evaluated) and given.more):
            self._awaiting.popleft()
        return True

    # --- phases ---

    def _advance(self, now: Tai) -> None:
        """Say what there is to say, and move on whenever both sides have ended a phase."""
        while self._ending is None and not self._must_wait:
            if self._phases.is_idle:
                if not self._leave_idle(now):
                    return
            elif not self._phases.ended and self._can_speak():
                self._blame = m.Blame.LOCAL
                self._speak(now)
            elif self._phases.is_complete and not self._awaiting:
                self._blame = m.Blame.REMOTE  # what it said is looked at as a whole
                facts = self._hearing.take_facts()
                self._go(self._conclude(facts), now)
            else:
                return

    @property
    def _must_wait(self) -> bool:
        """Whether nothing can be said before an answer; what came may be stored meanwhile."""
        awaiting = self._awaiting
        return bool(awaiting) and any(not isinstance(asked, m.Save) for asked in awaiting)

    def _go(self, occasion: Occasion, now: Tai, *, own: bool = False) -> None:
        """Move on, and ask the driver for what the next phase needs before it can speak."""
        phase = self._phases.move(occasion, own=own)
        self._hearing.begin()
        self._saying, self._bytes_said = None, 0
        if phase is Phase.IDLE:
            self._reach_fixed_point(now)
            return
        if phase is Phase.ADVERTISE and self._next_module is not None:
            self._begin_epoch(now, own=True)
            return
        self._wait_for_peer()
        if phase is Phase.REQUEST:
            self._loops.advertised(*self.tables)
        if phase is Phase.ADVERTISE:
            self._begin_loop()
        elif phase is Phase.REQUEST or (phase is Phase.TRANSFER and self._transfer.is_serving):
            self._evaluate()  # what leaves is decided by what is known after it was asked for

    def _can_speak(self) -> bool:
        if self.phase is not Phase.SETUP:
            return True
        return self._started and self._opening.has_both_modules

    def _wait_for_peer(self) -> None:
        """Set the time for a phase; before both have agreed, nobody has reason to work for long."""
        agreed = self.phase not in {Phase.SETUP, Phase.HELLO}
        self._do(m.SetTimer(self.phase_timeout, silence=agreed))

    def _speak(self, now: Tai) -> None:
        """Say one piece of this phase, and end it when there is no more."""
        if self.phase is Phase.TRANSFER:
            self._do(*self._transfer.serve(self._adverts_of_own.table))
            if not self._must_wait and not self._transfer.is_serving:
                self._end()
            return
        if self._saying is None:
            self._saying = self._sayings(now)
            if self._saying.facts:
                self._do(m.SendFacts(tuple(self._saying.facts)))
        listing = self._saying.listing
        if listing:
            room = self._limit("max_fact_block_size") - self._bytes_said
            likely = room // self._advert_bytes  # as large as those before
            most = max(1, min(self._side.parameters.describe_at_once, likely))
            batch = tuple(listing[:most])
            del listing[:most]
            self._do(m.Describe(self._opening.plan, batch))
        else:
            self._end()

    def _list(self, adverts: tuple[Advertisement, ...], behind: list[str]) -> None:
        """Say advertisements; if they do not fit the block, put off the rest (L67)."""
        room = self._limit("max_fact_block_size") - self._bytes_said
        texts = texts_within(adverts, room)
        fit = len(texts)
        if self._limit("max_deferred_advertisements"):
            left = len(adverts) - fit + len(behind)
            fit = fitting(list(map(len, texts)), left, room)
        rest = [advert.record for advert in adverts[fit:]]
        if rest and not fit and not self._bytes_said:  # nor would it fit the next part
            raise _too_large(rest[0], len(texts[0]), room)
        if fit:
            said, text = adverts[:fit], b"".join(texts[:fit])
            self._own_places.add(advert.record for advert in said)
            self._advert_bytes = len(text) // fit
            self._do(m.SendFacts(tuple(fact for advert in said for fact in advert.facts()), text))
        if rest:
            rest += behind
            behind.clear()
            self._adverts_of_own.defer(rest)
            self._do(m.SendFacts((deferred(len(rest)),)))

    def _sayings(self, now: Tai) -> Saying:
        match self.phase:
            case Phase.SETUP:
                return Saying(self._opening.setup_facts())
            case Phase.HELLO:
                return Saying(self._opening.hello_facts(now))
            case Phase.ADVERTISE:
                start = self._limit("partition_prefix_start")
                saying = self._adverts_of_own.advertise(start, self._transfer.take_received())
                return Saying(self._tick_facts(now) + saying.facts, saying.listing)
            case Phase.ASK:
                return Saying(list(self._asked))
            case Phase.ANSWER:
                answer, self._answer = self._answer, Saying()  # it is not held any longer
                return answer
            case _:
                return Saying(self._request_facts())

    def _conclude(self, facts: list[Fact]) -> Occasion:
        """Draw the consequences of the peer's phase; say what both ends amount to."""
        if self._phases.takes_listings:
            told = (fact[1] for fact in facts if fact[0] == "Advertised")
            self._peers_places.add(chain(self._hearing.listed, told))
        match self.phase:
            case Phase.SETUP:
                self._opening.conclude_setup(facts)
            case Phase.HELLO:
                self._conclude_hello(facts)
            case Phase.ADVERTISE | Phase.ANSWER:
                self._asked = self._take_adverts(facts)
            case Phase.ASK:
                asks = list(dict.fromkeys(facts))  # a phase may come in many blocks
                self._answer = self._adverts_of_own.answer(asks)
                if facts or self._asked:
                    return Occasion.ASKED
                if self._adverts.is_unsettled:
                    raise ProtocolError("a difference was not found out", code=Code.INTERLACE_PHASE)
                return Occasion.NOTHING
            case Phase.REQUEST:
                return self._conclude_requests(facts)
            case _:
                sent, refused = self._transfer.take_sent()
                self._adverts.take_sent(sent)
                self._adverts_of_own.refuse(refused)
                self._transfer.conclude(facts)
        return Occasion.DONE

    def _take_adverts(self, facts: list[Fact]) -> list[Fact]:
        """Take what the peer says of its advertisements; return what to ask."""
        whole = self._deferral.take(self.phase, facts, self._hearing.listed)
        if whole is None:
            self._put_off += self._hearing.memory
            return [GO_ON]
        self._put_off = 0
        began = self._deferral.began or self.phase
        self._deferral = Deferral(self._limit("max_deferred_advertisements"))
        if began is Phase.ADVERTISE:
            start = self._limit("partition_prefix_start")
            return self._adverts.take_advertise(whole[0], start, whole[1])
        return self._adverts.take_answer(*whole)

    # --- epochs: one plan each ---

    def _say_module(self) -> None:
        self._do(m.SendModule(self._module.id, self._module.text.encode()))

    def _begin_epoch(self, now: Tai, *, own: bool) -> None:
        """Set up anew: by our own wish, or because the peer did."""
        self._module, self._next_module = self._next_module or self._module, None
        tick = None if self._ticking is None else self._ticking.now
        self._opening = Opening(self._side, self._module, self._opening.proven, tick)
        self._evaluated = False  # if at all, then by another plan
        self._go(Occasion.OPERAND, now, own=own)
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
        sketching = self._sketching(own)
        self._own = OwnAdverts(agreement.limits, parameters, own, sketching)
        self._peers = PeerAdverts(source, agreement.limits, parameters, own, peers, sketching)
        most = self._limit("max_total_transferred_bytes")
        self._transfer = self._transfer.next_epoch(most, source, agreement.fields)
        runtime = opening.runtime_facts(self._ticks.now)
        self._do(m.Recall(opening.link, opening.plan, agreement.fields, runtime))

    def _sketching(self, own: Partitions) -> Sketching:
        """Return the talk about sketches of one loop."""
        key, listed = self._opening.sketch_key(self._nonces), "max_advertisement_records_listed"
        most = self._limit("max_cells_in_sketch")
        return Sketching(key, self._side.index, own, most, self._limit(listed))

    def _take_state(self, state: m.LinkState) -> None:
        """Begin where the link stood when it was last used."""
        own, peers = state.own.copy(), state.peers.copy()
        self._adverts_of_own.table = self._adverts.own = self._adverts.sketching.own = own
        self._adverts.table = peers
        if self._opening.proven_link is not None:  # else it was maybe told to somebody else
            self._adverts_of_own.base = own.check
        own.mark()
        self._transfer.recall(state.wanted)

    # --- rounds and loops ---

    def _begin_round(self) -> None:
        self._loops = Loops()
        self._transfer.begin_round()
        self._adverts_of_own.begin_round()
        self._adverts.begin_round()

    def _begin_loop(self) -> None:
        if not self._transfer.is_going_on:
            self._transfer.tally.loops += 1
        limit = self._limit("max_loop_iterations")
        if self._transfer.tally.loops > limit:
            if not self._loops.lacks_first:
                self._transfer.tally.ending = m.Ending.LOOPS
                self._remember()
            self._close(m.Ending.LOOPS, f"limit max_loop_iterations of {limit} was reached")
            return
        self._adverts_of_own.begin_loop()
        self._deferral = Deferral(self._limit("max_deferred_advertisements"))
        self._put_off = 0
        self._forget_places()
        sketching = self._sketching(self._adverts_of_own.table)
        self._adverts_of_own.sketching = self._adverts.sketching = sketching
        if self._evaluated:
            self._evaluated = False  # just now, on waking
        else:
            self._evaluate()

    def _forget_places(self) -> None:
        """Number anew what both sides list: a loop begins, or its requests have been said."""
        most = self._limit("max_places_listed")
        self._own_places, self._peers_places = Listed(most), Listed(most)

    def _reach_fixed_point(self, now: Tai) -> None:
        self._loops = Loops()
        self._transfer.tally.ending = m.Ending.FIXED_POINT
        self._lasting.begin()
        self._remember()
        self._do(m.Emit(m.FixedPoint(self._result())))
        if not self._side.open:
            self._close(m.Ending.FIXED_POINT)
        else:
            self._set_tick_timer(now)

    def _remember(self) -> None:
        """Have the driver keep how the link stands, as of the last evaluation (L14)."""
        self._transfer.tally.cursor_updated = self._adverts.take_changed()
        state = None
        if self._opening.link is not None:
            own, peers = self.tables
            if not self._adverts_of_own.tells_tables:  # next time both will say their roots again
                own.summary("")
                peers.summary("")
            state = m.LinkState(own.copy(), peers.copy(), self._transfer.wanted)
        self._do(m.Remember(self._opening.link, state))

    def _leave_idle(self, now: Tai) -> bool:
        """Return whether there is a reason to leave idle, or at least to look for one."""
        if self._next_module is not None:
            self._begin_epoch(now, own=True)
            return True
        if self._woken:
            self._woken = False
            self._evaluate()
            return True
        return False

    def _consider_waking(self, now: Tai) -> None:
        """Begin a loop if it could change anything; what the peer may not know wakes nobody."""
        ticked, self._tick_fired = self._tick_fired and self._is_tick_due(now), False
        if self._adverts_of_own.has_changed or self._requestable(1) or ticked:
            self._begin_round()
            self._evaluated = True
            self._go(Occasion.WAKE, now, own=True)
        else:
            self._do(m.Remember())
            self._set_tick_timer(now)

    # --- time ---

    def _hear_tick(self, text: str) -> None:
        self._ticking = self._ticks.heard(text)
        self._phases.take_tick()

    def _tick_facts(self, now: Tai) -> list[Fact]:
        """Say how far the clock is, if the exchange lasts and anyone cares (050-TIC-11)."""
        if not self._is_tick_due(now):
            return []
        self._ticking = self._ticks.reached(now)
        return [("TickReady", self._ticks.local_ready)]

    def _is_tick_due(self, now: Tai) -> bool:
        if not self._side.open or not self._wants_ticks:
            return False
        return self._ticks.reached(now).local_ready > self._ticks.local_ready

    @property
    def _wants_ticks(self) -> bool:
        """Whether time matters to the plan, to what this side shows, or to a peer that said so.

        Time moves only when both sides tick, and what a peer shows is its own affair.
        """
        ticks = self._ticks
        return self._ticks_here or self._opening.looks_at_time or ticks.peer_ready > ticks.start

    def _set_tick_timer(self, now: Tai) -> None:
        seconds = None
        if self._wants_ticks:
            following = add_ns(self._ticks.local_ready, self._ticks.interval)
            seconds = max(0, difference_ns(following, now)) / NS_PER_SECOND
        self._do(m.SetTimer(seconds))

    # --- evaluation, requests ---

    def _evaluate(self) -> None:
        self._woken = False
        changes = self._adverts.take_changes()
        opening = self._opening
        fresh = (advert.record for advert in changes.advertised)
        self._transfer.advertised_anew(fresh, frozenset(changes.named), changes.adopted)
        self._do(
            m.Evaluate(
                plan=opening.plan,
                schema=opening.agreement.fields,
                runtime=opening.runtime_facts(self._ticks.now),
                withdrawn=changes.withdrawn,
                advertised=changes.advertised,
                adopted=changes.adopted,
                own=self._adverts_of_own.table.copy(),
            )
        )

    def _requestable(self, most: int) -> dict[str, bytes]:
        formats = self._opening.agreement.formats
        return self._transfer.requestable(self._adverts.table, formats, most)

    def _request_facts(self) -> list[Fact]:
        """Say what is requested; a tick says that there is more to advertise (L11)."""
        most = self._side.parameters.requested_at_once(self._opening.agreement.limits)
        records = self._requestable(most)
        self._transfer.ask(records)
        facts: list[Fact] = [("MayRequest", record) for record in records]
        if len(records) >= self._side.parameters.place_from:
            facts = self._peers_places.requests(list(records))
        if self._adverts_of_own.has_changed:
            self._phases.announce_more()
            facts.append(("TickReady", self._ticks.local_ready))
        return facts

    def _conclude_requests(self, facts: list[Fact]) -> Occasion:
        check_requests(facts, self._adverts_of_own.told)
        asked = self._transfer.take_requests(self._own_places.requested(facts))
        if self._transfer.tally.loops >= self._limit("max_loop_iterations"):  # the last loop
            self._loops.end(self._transfer.to_serve, self._requestable(len(self._transfer.wanted)))
        self._forget_places()
        if asked:
            return Occasion.ASKED
        return Occasion.AGAIN if self._phases.has_more else Occasion.NOTHING

    # --- ends ---

    def _close(self, ending: m.Ending, detail: str = "") -> None:
        self._finish_by(lambda result: m.Closed(ending, result, detail))

    def _abort(self, code: Code, detail: str, blame: m.Blame) -> None:
        self._finish_by(lambda result: m.Aborted(code, detail, blame, result))

    def _finish_by(self, ending: _Ending) -> None:
        """End the exchange, but store first what was received and is valid."""
        if self._ending is not None:
            return
        self._ending = ending
        self._hearing.begin()  # nobody looks at it any more, and it may be much
        self._deferral, self._put_off = Deferral(0), 0
        self._do(*self._transfer.save())
        self._finish(None)

    def _finish(self, given: m.Input | None) -> None:
        """Hear what became of the last records; nothing else matters now."""
        assert self._ending is not None
        if self._is_due(given) and isinstance(given, m.Saved):
            self._do(*self._transfer.take_saved(given))
        if any(isinstance(asked, m.Save) for asked in self._awaiting):
            return
        self._phases.move(Occasion.OVER)
        self._do(m.Emit(self._ending(self._result())), m.Close())

    def _result(self) -> m.InterlaceResult:
        opening = self._opening
        plan = opening.plan.id if opening.has_plan else None
        offered = len(self.tables[1])
        return self._transfer.tally.result(opening.proven_link, plan, opening.proven, offered)

    # --- small things ---

    def _end(self) -> None:
        self._do(m.EndPhase(self._phases.end()))

    def _do(self, *effects: m.Effect) -> None:
        self._effects += [
            self._fitting(effect) if isinstance(effect, m.SendFacts) else effect
            for effect in effects
        ]
        for effect in effects:
            if isinstance(effect, _QUESTIONS):
                self._awaiting.append(effect)

    def _fitting(self, said: m.SendFacts) -> m.SendFacts:
        """Return facts as text; raise if they and what was said before are more than fits."""
        text = said.content
        self._bytes_said += len(text)
        most = self._limit("max_fact_block_size")
        if self._bytes_said > most:
            observed = self._bytes_said
            raise LimitExceeded("max_fact_block_size", configured=most, observed=observed)
        return m.SendFacts(said.facts, text)

    def _limit(self, name: str) -> int:
        agreed = self._opening.limits
        return int(getattr(self._side.limits, name)) if agreed is None else agreed[name]

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


def _too_large(record: str, size: int, most: int) -> LaceError:
    return LaceError(
        f"the advertisement of {record} has {size} bytes, and no block that both sides take has"
        f" room for it and for the word that others follow: max_fact_block_size is {most};"
        " raise it, or do not show this record",
        code=Code.LIMIT_EXCEEDED,
    )
