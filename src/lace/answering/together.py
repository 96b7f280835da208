"""Answers under a plan whose rules look at records together: a policy that follows the store.

Facts are loaded once for a plan, only those that its rules look at; then they follow what is stored
and forgotten, so that an answer costs in proportion to what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lace.answering.following import Position, facts_of, lost_since
from lace.answering.looking import Looking
from lace.answering.warm import WarmLink, memory_of
from lace.datalog.source import Fact, Row
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, digests_of, gather
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.foreign import Foreign, Job
from lace.policy.mentions import Mentions
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.rules import LocalFacts
from lace.vocabulary import ADVERTISED, ADVERTISED_FIELD, HAVE

Told = tuple[set[Row], set[Row]]
"""What may be sent and requested by all that was told so far."""


@dataclass(slots=True)
class TogetherAnswers:
    """What one side decides in one epoch by a policy that it holds."""

    looking: Looking
    index: int
    exposure: Exposure
    limits: Limits = DEFAULT_LIMITS
    foreign: Foreign | None = None
    """Where rules of the peer are evaluated; None for here."""
    policy: ExchangePolicy | None = None
    """The plan made executable; None before anything had to be evaluated."""
    memory: int = 0
    """About how many bytes the policy takes, by the last answer."""
    _mentions: Mentions | None = None

    # --- to and from the next exchange ---

    def take_over(self, rest: WarmLink) -> None:
        """Go on with what another exchange has left behind."""
        self.policy, self._mentions = rest.policy, rest.mentions
        self.policy.hand_over(self.foreign)

    def rest(self, head: bytes, runtime: tuple[Fact, ...]) -> WarmLink | None:
        """Return what the next exchange may go on with."""
        if self.policy is None or self._mentions is None:
            return None
        return WarmLink(head, self.policy, self._mentions, runtime)

    def drop(self) -> None:
        """Hold no policy."""
        self.policy, self.memory = None, 0

    # --- deciding ---

    def begin(
        self, asked: m.Evaluate, remembered: Iterable[Fact], told: Told
    ) -> Iterator[m.Evaluated | Job]:
        """Load what a plan's rules look at, and evaluate it in full."""
        plan = asked.plan
        viewer = plan.operands[1 - self.index].viewer
        modules = [operand.module for operand in plan.operands]
        self._mentions = Mentions.of([*modules, *self.exposure.modules_for(viewer)])
        source = LocalFacts(limits=self.limits)
        self._mentions.load(self.looking.snapshot, source)
        for fact in (*remembered, *self._advert_facts(asked), *asked.runtime):
            source.add(fact)
        policy = ExchangePolicy(plan, self.index, source, self.exposure, self.limits, self.foreign)
        if self.foreign is not None:
            yield from policy.start()
        self.policy = policy
        send = {row for row in policy.may_send if source.has(("Have", *row))}
        request = {row for row in policy.may_request if not source.has(("Have", *row))}
        sent, wanted = told
        yield from self._answer(
            policy, send - sent, sent - send, request - wanted, wanted - request
        )

    def follow(
        self, asked: m.Evaluate, before: Position, runtime: tuple[Fact, ...]
    ) -> Iterator[m.Evaluated | Job]:
        """Bring the policy in line with what changed since a position and runtime facts."""
        assert self.policy is not None
        assert self._mentions is not None
        policy, store, snapshot = self.policy, self.looking.store, self.looking.snapshot
        source = policy.source
        here: set[Row] = set()
        came: list[Fact] = []
        for record in self.looking.came_since(before):
            here.add((record.hash,))
            came += self._mentions.facts(record)
        lost = lost_since(before, store, snapshot, source)
        change = yield from policy.following(
            added=(*came, *self._advert_facts(asked), *asked.runtime),
            removed=(
                *(fact for fact in runtime if fact not in asked.runtime),
                *self._withdrawn_facts(asked.withdrawn, self._peer_label(asked.plan)),
                *facts_of(lost, source),
            ),
        )
        # Rules may speak of a record before it is here, and after it is gone.
        send = {row for row in change.may_send.added | here if row in policy.may_send}
        gone = {(record,) for record in lost}
        # What may come back is told as forgotten, although it was not here.
        told = store.forgotten(before.forgets)
        again = policy.may_request if told is None else {(record,) for record in told}
        request = change.may_request.added | {
            row for row in gone.union(again) if row in policy.may_request
        }
        yield from self._answer(
            policy,
            {row for row in send if source.has(("Have", *row))},
            change.may_send.removed | gone,
            {row for row in request if not source.has(("Have", *row))},
            change.may_request.removed | here,
        )

    def _answer(
        self,
        policy: ExchangePolicy,
        send: set[Row],
        unsend: set[Row],
        request: set[Row],
        unrequest: set[Row],
    ) -> Iterator[m.Evaluated]:
        mine, theirs = policy.local.source_label, policy.peer.source_label
        yield m.Evaluated(
            unsendable=frozenset(row[0] for row in unsend),
            requestable=frozenset(row[0] for row in request),
            unrequestable=frozenset(row[0] for row in unrequest),
            more=True,
        )
        for described in self.looking.in_parts({row[0] for row in send}):
            yield m.Evaluated(sendable=digests_of(described, (mine, theirs)), more=True)
        self.memory = memory_of(policy)

    # --- what the peer says ---

    def advert(self, record: str, plan: ExchangePlan) -> Advertisement | None:
        """Return what the peer says of a record, as far as the policy knows it."""
        source = self._peer_label(plan)
        return gather(self._known_facts(record, source), source).get(record)

    def here(self) -> list[str]:
        """Return the records that the policy takes to be here."""
        return [] if self.policy is None else [r[0] for r in self.policy.source.iterate(HAVE)]

    def _advert_facts(self, asked: m.Evaluate) -> Iterator[Fact]:
        for advert in asked.advertised:
            yield from advert.facts()
        if not asked.plan.adverts_stand_alone:
            label = self._peer_label(asked.plan)
            for advert in self.looking.describe(tuple(asked.adopted), label):
                yield from advert.facts()

    def _withdrawn_facts(self, records: Iterable[str], source: SourceLabel) -> Iterator[Fact]:
        for record in records:
            yield from self._known_facts(record, source)

    def _known_facts(self, record: str, source: SourceLabel) -> Iterator[Fact]:
        assert self.policy is not None
        for predicate in (ADVERTISED, ADVERTISED_FIELD):
            for row in self.policy.source.query(predicate, record, source):
                yield predicate.name, *row

    def _peer_label(self, plan: ExchangePlan) -> SourceLabel:
        return plan.operands[1 - self.index].source_label
