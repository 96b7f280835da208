"""Answers from a store: its records, an exposure, and the policy that follows a plan.

Where records can be decided on apart, only those are looked at that changed since the link was last
used. Else facts are loaded once for a plan, only those that its rules look at, and then follow what
is stored and forgotten. Either way an answer costs in proportion to what changed. How it came to be
known (it stands since the link was last used, it was followed, it was evaluated) cannot be seen.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from lace.answering.apart import ApartAnswers
from lace.answering.crowd import Crowd, Crowds
from lace.answering.following import Position, look
from lace.answering.link import Link
from lace.answering.looking import Looking, Moment
from lace.answering.member import Heard, Membership
from lace.answering.memory import basis_of, runtime_of
from lace.answering.together import TogetherAnswers, Told
from lace.answering.warm import WarmLink, WarmLinks
from lace.datalog.source import Fact
from lace.errors import Outcome, StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.machine import Side
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.interlace.partition import Partitions
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.foreign import Foreign, Job
from lace.policy.one_by_one import OneByOne
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.recordstore.base import RecordStore

_DECIDED_AT_ONCE: Final = 1000


@dataclass(slots=True)
class StoreAnswers:
    """What one side of one exchange decides, over its store as it is."""

    store: RecordStore
    index: int
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    warm: WarmLinks | None = None
    """Where the next exchange finds what this one leaves behind."""
    parameters: Parameters = DEFAULT_PARAMETERS
    foreign: Foreign | None = None
    """Where rules of the peer are evaluated; None for here."""
    crowds: Crowds | None = None
    """Where exchanges that differ in nothing are evaluated together; None if each is alone."""
    _looking: Looking = field(init=False)
    _together: TogetherAnswers = field(init=False)
    """What decides by a policy, if records cannot be decided on apart."""
    _position: Position = field(default_factory=lambda: Position(0, 0))
    """The state of the store that was answered about last."""
    _runtime: tuple[Fact, ...] = ()
    _link: Link = field(init=False)
    """What is known of the link, in this epoch."""
    _forgets: int | None = None
    """How often anything was forgotten, by the last evaluation of this exchange."""
    _lost: frozenset[str] = frozenset()
    """What was forgotten under an earlier plan of this exchange, and was not told yet."""
    _own_asked: Partitions | None = None
    """What this side advertised when it was last asked to evaluate."""
    _saved_bytes: int = 0
    """Bytes of records that this exchange has stored."""
    _stays: bool = False
    """The exchange stays open after its fixed point."""
    _rest: tuple[bytes, WarmLink] | None = None
    """What the next exchange over the link may go on with; None while this one moves on."""
    whole: bool = False
    """Whether the policy is held with all it looks at, for somebody who wants to look at it."""
    _plan: ExchangePlan | None = None
    _apart: ApartAnswers | None = None
    """What decides in place of a policy, if records can be decided on apart."""
    _choice: bool = False
    """Whether it is still to be seen if there are too many guards for that."""
    _decided: bool = False
    """Whether anything was decided apart in this epoch."""
    _member: Membership = field(init=False)
    """What shares its answers with other exchanges, if this one differs in nothing from them."""
    _told: Told | None = None
    """What may be sent and requested by all that was told before there was a policy."""

    def __post_init__(self) -> None:
        self._looking = Looking(self.store, self.parameters)
        self._link = Link(self.store)
        self._member = Membership(self._looking, self.crowds)
        self._together = TogetherAnswers(
            self._looking, self.index, self.exposure, self.limits, self.foreign
        )

    @classmethod
    def of(
        cls,
        store: RecordStore,
        side: Side,
        exposure: Exposure,
        limits: Limits = DEFAULT_LIMITS,
        warm: WarmLinks | None = None,
        foreign: Foreign | None = None,
        crowds: Crowds | None = None,
    ) -> StoreAnswers:
        """Return the answers of a store for one side of an exchange."""
        return cls(
            store, side.index, exposure, limits, warm, side.parameters, foreign, crowds,
            _stays=side.open,
        )  # fmt: skip

    # --- records ---

    def serve(self, asked: m.Serve) -> m.Served:
        """Return requested records as far as they fit; None for one that is gone by now."""
        hashes = [RecordHash(hash) for hash in asked.hashes]
        return m.Served(tuple(self.store.load_all(hashes, asked.bytes)))

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Store records."""
        outcomes = self._looking.save(records)
        self._saved_bytes += sum(len(record.raw) for record in records)
        return outcomes

    # --- evaluation ---

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        """Answer ``Evaluate``, in parts of a bounded size.

        What was forgotten for good is asked for as little as if it were here.
        """
        for part in self._evaluate(asked):
            if isinstance(part, m.Evaluated) and part.requestable:
                out = self.store.kept_out(part.requestable)
                yield replace(part, requestable=part.requestable - out) if out else part
            else:
                yield part

    def _evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        if self._saved_bytes > self.parameters.hold_bytes:
            self._link.hold()  # whoever reads it keeps the log of the store from being emptied
        if self.crowds is not None and self._link.known is None:
            key = self._key_of_crowd(asked)
            if key is not None and (self.crowd is None or key == self._member.key):
                make, before = lambda: self._new_crowd(asked), self._forgets
                shared = yield from self._member.share(key, make, before)
                if shared is not None:
                    self._forgets, lost = shared
                    self._runtime, self._own_asked = asked.runtime, asked.own
                    yield m.Evaluated(forgotten=lost | self._lost)
                    self._lost = frozenset()
                    return
            if self.crowd is not None:
                yield from self._leave_crowd()
        now = self._looking.look()
        self._own_asked = asked.own
        lost, self._lost = self._forgotten(), frozenset()
        self._forgets = now.forgets
        asked = self._link.hear(asked)
        self._rest = None
        yield from self._answer_to(asked, now)
        self._runtime, self._position = asked.runtime, self._looking.at
        self._looking.put_away()
        yield m.Evaluated(forgotten=lost)

    def _answer_to(self, asked: m.Evaluate, now: Position) -> Iterator[m.Evaluated | Job]:
        """Answer in the way that has least to do."""
        apart = self._apart
        if apart is not None and self._stands_apart(apart, asked, now):
            return iter(())
        if apart is not None and self._stays_apart(apart, asked.runtime):
            return self._decide(apart, asked, now)
        return self._decide_together(asked, now)

    def _take_stock(self) -> None:
        """Find out what was forgotten since the last answer, before it is dropped what was here."""
        if self._forgets is None:
            self._forgets = self.store.forgets()
            return
        now = self._looking.look()
        self._lost = self._forgotten()
        self._forgets = now.forgets

    def _forgotten(self) -> frozenset[str]:
        """Return what was forgotten in the course of this exchange, and is not here again."""
        assert self._forgets is not None
        lost: Iterable[str] | None = self.store.forgotten(self._forgets)
        if lost is None:  # too much to say what: then all that is known to have been here
            if self._apart is not None:
                lost = self._apart.perhaps_here(self._link.doubtful(self._own_asked))
            elif self.policy is not None:
                lost = self._together.here()
            else:
                known = self._link.known
                lost = () if known is None else known.state.own.records("")
        gone = self._lost.union(lost)
        return gone.difference(self._looking.snapshot.present(sorted(gone))) if gone else gone

    def _stands(self, asked: m.Evaluate, now: Position) -> bool:
        """Whether the last fixed point of the link is still all there is to know.

        Rules that look at several advertisements at a time need the words of all of them. What
        the peer says as this side does is known by the record, for as long as that is here; so it
        is read before anything can be forgotten.
        """
        known = self._link.known
        if known is None or _has_claims(asked) or not asked.plan.adverts_stand_alone:
            return False
        runtime = runtime_of(asked.plan, self.exposure, asked.runtime)
        return (known.position, known.runtime) == (now, runtime)

    def _stands_apart(self, apart: ApartAnswers, asked: m.Evaluate, now: Position) -> bool:
        """Whether nothing has changed that a decision could depend on."""
        runtime = runtime_of(asked.plan, self.exposure, asked.runtime)
        return now == self._position and apart.stands(runtime) and not _has_claims(asked)

    def _decide(
        self, apart: ApartAnswers, asked: m.Evaluate, now: Position
    ) -> Iterator[m.Evaluated]:
        """Decide on what changed, each record apart; on everything if that is not known."""
        before, snapshot = self._position, self._looking.snapshot
        if now != before:
            apart.look_at_guards(snapshot)
        runtime = apart.basis(runtime_of(asked.plan, self.exposure, asked.runtime))
        apart.hear(asked)
        lost = self.store.forgotten(before.forgets) if apart.runtime == runtime else None
        if lost is None:
            doubtful = self._link.doubtful(self._own_asked)
            answer = apart.decide_all(snapshot, doubtful, asked.runtime)
        else:
            came = self._looking.came_since(before)
            answer = apart.decide_some(snapshot, came, frozenset(lost), asked)
        first = self._link.known is None and apart.runtime is None
        for part in answer:
            if first and asked.own is None:
                self._link.told_first.add(part.sendable)
            elif not first:
                self._link.touched.update(part.sendable, part.unsendable)
            yield part
        apart.runtime, self._decided = runtime, True

    def _begin(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        """Hold a policy from now on."""
        if self.foreign is not None and self._asks_elsewhere(asked.plan):
            self._looking.let_go()  # that may take a while
            yield from self.foreign.admit()
            self._looking.look()
        told, self._told = self._told or (set(), set()), None
        known, source = self._link.known, self._peer_label(asked.plan)
        if known is not None:
            state = known.state
            told = {(r,) for r in state.own.records("")}, {(r,) for r in state.wanted}
        remembered = self._link.remembered(asked, source, self._looking.describe)
        yield from self._together.begin(asked, remembered, told)

    def _decide_together(self, asked: m.Evaluate, now: Position) -> Iterator[m.Evaluated | Job]:
        """Answer by a policy: the one that is held, if one is."""
        if self.policy is None:
            if self._stands(asked, now):
                return
            answer = self._begin(asked)
        elif now == self._position and asked.runtime == self._runtime and not _has_claims(asked):
            return
        else:
            answer = self._together.follow(asked, self._position, self._runtime)
        for part in answer:
            if isinstance(part, m.Evaluated):
                self._link.touched.update(part.sendable, part.unsendable)
            yield part

    # --- together with others ---

    @property
    def is_up_to_date(self) -> bool:
        """Whether the crowd has nothing to tell that was not told; False for one who is alone."""
        return self._member.is_up_to_date

    @property
    def crowd(self) -> Crowd | None:
        """The crowd that this exchange is evaluated with."""
        return self._member.crowd

    def _key_of_crowd(self, asked: m.Evaluate) -> bytes | None:
        """Return what decides on a crowd, or None if this exchange has to be evaluated alone."""
        plan, crowd = asked.plan, self.crowd
        if self._link.name is not None or self.has_looked or asked.advertised:
            return None
        if crowd is not None and not crowd.is_looked_after:
            return None  # its leader has failed
        if crowd is not None and asked.runtime == self._runtime:
            return self._member.key
        if not plan.adverts_stand_alone:
            return None
        if self._asks_elsewhere(plan):
            return None  # what is evaluated elsewhere is not waited for by others
        return self._link.basis + runtime_of(plan, self.exposure, asked.runtime)

    def _leave_crowd(self) -> Generator[m.Evaluated, None, None]:
        """Go on alone, from what was told."""
        told = yield from self._member.leave()
        self._told = (
            {(record,) for record in told.sendable},
            {(record,) for record in told.requestable},
        )
        if self._apart is not None:
            self._apart.begin({}, None, told.requestable, told.apart)
            self._link.touched |= told.sendable  # whatever is decided anew was perhaps told
            if told.apart is not None:
                self._position, self._decided = told.position, True

    def _new_crowd(self, asked: m.Evaluate) -> Crowd:
        """Return a crowd with a leader that advertises nothing and is told nothing."""
        leader = StoreAnswers(
            self.store, self.index, self.exposure, self.limits, parameters=self.parameters
        )
        leader.recall(m.Recall(None, asked.plan, self._looking.schema))
        question = m.Evaluate(plan=asked.plan, schema=asked.schema, runtime=asked.runtime)
        mine = asked.plan.operands[self.index].source_label

        def lead() -> tuple[list[m.Evaluated], Moment]:
            try:
                answers = leader.evaluate(question)
                parts = [part for part in answers if isinstance(part, m.Evaluated)]
                return parts, leader._looking.hand_over()
            finally:
                leader._looking.let_go()

        def read(moment: Moment, some: Sequence[str]) -> Iterator[tuple[Record, Advertisement]]:
            for record in moment.snapshot.records(some):
                yield record, leader._looking.advertisement(record, mine)

        def standing() -> tuple[Position, bytes | None]:
            return leader._position, None if leader._apart is None else leader._apart.runtime

        return Crowd(
            lead,
            position=lambda: Position.of(leader.store),
            look=lambda: Moment(*look(leader.store)),
            standing=standing,
            memory_of_leader=lambda: leader.memory,
            read=read,
        )

    def heard(self) -> Heard | None:
        """Return how far this has heard its crowd, if another member may take that for heard."""
        if self.crowd is None or self._link.known is not None or self._lost:
            return None
        return self._member.heard(self._forgets, self._own_asked)

    def take_heard(self, heard: Heard, *, is_current: bool = False) -> bool:
        """Take for heard what another member was told since both had heard as much.

        Returns False, and takes nothing, if that is not what it would be told now; unless it is
        known that it is.
        """
        if not is_current and not self._member.take_heard(heard):
            return False
        self._forgets, self._own_asked = heard.forgets, heard.own
        return True

    def let_go(self) -> None:
        """Look at nothing any more: a fixed point was reached."""
        self._looking.let_go()

    # --- advertisements ---

    def describe(self, asked: m.Describe) -> m.Described:
        """Answer ``Describe``, from the store as it was at the last evaluation."""
        mine = asked.plan.operands[self.index].source_label
        if self.crowd is not None:
            made = self._member.describe(asked.records, mine)
        else:
            made = {a.record: a for a in self._looking.describe(asked.records, mine)}
        return m.Described(tuple(made[hash] for hash in asked.records if hash in made))

    def _peer_label(self, plan: ExchangePlan) -> SourceLabel:
        return plan.operands[1 - self.index].source_label

    # --- at hand ---

    def at_hand(self, asked: m.Question) -> Sequence[m.Input] | None:
        """Return what the crowd knows already."""
        match asked:
            case m.Evaluate() if self.crowd is not None and self._link.known is None:
                if self._key_of_crowd(asked) != self._member.key:
                    return None
                news = self._member.news(self._forgets)
                if news is not None:
                    self._runtime = asked.runtime
                return news
            case m.Describe():
                known = self._member.described(asked.records)
                return None if known is None else [m.Described(tuple(known))]
            case m.Serve():
                found = self._member.served(asked.hashes, asked.bytes)
                return None if found is None else [m.Served(tuple(found))]
        return None

    # --- memory ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Answer ``Recall``: how the link stood, if everything that it depended on is the same."""
        self._take_stock()
        schema, link = asked.schema, asked.link
        basis = basis_of(asked.plan, self.index, schema, self.exposure, self.limits, link)
        self._looking.begin(schema)
        self._link.let_go()
        self._link = Link(self.store, link, basis)
        self._together.drop()
        self._rest = None
        self._plan, self._decided = asked.plan, False
        self._apart, self._position = self._decides_apart(asked), Position(0, 0)
        self._choice = self._apart is not None and bool(self._apart.told_by)
        self._told, self._member.crowd = None, None
        viewer = asked.plan.operands[1 - self.index].viewer
        ticks = self.exposure.looks_at_time(viewer)
        rest = None if self.warm is None or link is None else self.warm.take(link)
        state = self._link.recall(self.parameters.standard_prefix)
        known = self._link.known
        if known is not None:
            if self._apart is not None:
                self._position = known.position
                self._apart.begin(known.texts, known.state.own, known.state.wanted, known.runtime)
            at_hand = rest is not None and rest.head == known.head
            if rest is not None and at_hand and (self._apart is None or self._choice):
                self._together.take_over(rest)
                self._position, self._runtime = known.position, rest.runtime
        return m.Recalled(state, ticks=ticks)

    def _decides_apart(self, asked: m.Recall) -> ApartAnswers | None:
        """Return what decides on records apart, if the plan allows it and there is no better way.

        While an exchange stays open and time moves on, a policy that follows has less to do.
        """
        plan, most = asked.plan, min(self.parameters.answer_at_once, _DECIDED_AT_ONCE)
        if self._asks_elsewhere(plan):
            return None  # what is done elsewhere keeps what it was told
        viewer = plan.operands[1 - self.index].viewer
        looks_at_time = plan.looks_at_time or self.exposure.looks_at_time(viewer)
        guards = OneByOne.guards(plan, self.index, self.exposure)
        if guards is None or self.whole or (self._stays and looks_at_time):
            return None
        rules = OneByOne(plan, self.index, self.exposure, self.limits, most)
        return ApartAnswers(rules, asked.schema, told_by=guards, note=self._looking.note)

    def _asks_elsewhere(self, plan: ExchangePlan) -> bool:
        """Whether the peer's rules are a stranger's, to be evaluated elsewhere."""
        own, peer = plan.operands[self.index].module, plan.operands[1 - self.index].module
        return self.foreign is not None and own.id != peer.id and self.foreign.is_needed(peer)

    def _stays_apart(self, apart: ApartAnswers, runtime: tuple[Fact, ...]) -> bool:
        """Whether records are decided on apart, as they are if guards are few."""
        if self._choice:
            self._choice = False
            apart.look_at_guards(self._looking.snapshot)
            if apart.has_many_guards(self.parameters.most_guards, runtime):
                self._apart = None
            else:
                self._together.drop()
        return self._apart is not None

    def remember(self, told: m.Remember) -> None:
        """Keep how the link stands, as one value: in the store, and at hand if there is room."""
        link, state = told.link, told.state
        if self.has_looked and link and state:  # else it stands as it stood, or nowhere
            try:
                self._keep(link, state)
            except StoreError:
                self._link.known = None  # without it the next exchange has more to do, and no more
        self._looking.let_go()

    def rest(self) -> None:
        """Read all that is kept of the link, whatever others may keep for it meanwhile."""
        with suppress(StoreError):  # whoever looks at it later hears of it
            self._link.hold()

    def _keep(self, link: bytes, state: m.LinkState) -> None:
        assert self._plan is not None
        if self._apart is not None and self._apart.runtime is not None:
            runtime = self._apart.runtime
        else:
            runtime = runtime_of(self._plan, self.exposure, self._runtime)
        known = self._link.keep(link, state, self._position, runtime, self._text)
        if self._apart is not None:
            self._apart.own = known.state.own
        rest = self._together.rest(known.head, self._runtime)
        if rest is not None and self._link.is_whole:
            self._rest = link, rest

    def _text(self, record: str, state: m.LinkState) -> bytes | None:
        """Return the peer's advertisement, nothing if it follows from ours, None if it is lost."""
        assert self._plan is not None
        claimed = state.peers.digest(record)
        if claimed is None or claimed == state.own.digest(record, 1):
            return b""
        source = self._peer_label(self._plan)
        known = None
        if self._apart is not None:
            known = self._apart.advert(record)
        elif record in self._link.listed or not self._plan.adverts_stand_alone:
            known = self._together.advert(record, self._plan)
        if known is None or known.digest() != claimed:
            known = next(self._looking.describe([record], source), None)
        if known is None or known.digest() != claimed:
            return None
        return known.canonical()

    # --- the end ---

    def close(self) -> None:
        """End; what came to rest is left to the next exchange."""
        self._looking.let_go()
        self._link.let_go()
        if self.warm is not None and self._rest is not None:
            self.warm.put(*self._rest)
            self._rest = None

    @property
    def policy(self) -> ExchangePolicy | None:
        """The plan made executable, if records are not decided on apart."""
        return self._together.policy

    def drop_policy(self) -> None:
        """Hold no policy, whatever was decided by it."""
        self._together.drop()

    @property
    def has_looked(self) -> bool:
        """Whether any records had to be looked at since the epoch began."""
        return self.policy is not None or self._decided

    @property
    def memory(self) -> int:
        """About how many bytes the policy and what is at hand take."""
        apart = 0 if self._apart is None else self._apart.memory
        return self._together.memory + self._looking.memory + apart


def _has_claims(asked: m.Evaluate) -> bool:
    """Whether the peer has said anything of its records since the last time."""
    return bool(asked.withdrawn or asked.advertised or asked.adopted)
