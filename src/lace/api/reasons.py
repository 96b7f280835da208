"""Why a record is here or may travel, and what stands in its way, layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from lace.api.handles import Lace, as_lace, store_of
from lace.api.policies import Exposes, Policy, as_module, exposure_of, policy_of
from lace.clock import tai_now
from lace.datalog.explain import FailedRule, Proof
from lace.datalog.source import parse_fact
from lace.ids import RecordHash, Verifier, parse_record_hash
from lace.interlace.advertise import advertise
from lace.limits import FIXED
from lace.policy.executable import ExchangePolicy, Layer, Verdict
from lace.policy.mentions import Mentions
from lace.policy.module import PolicyModule
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.rules import LocalFacts
from lace.vocabulary import ADVERTISEMENT_FACTS, RECORD_FACTS

__all__ = ["Explanation", "Question", "Step", "Trial", "explain", "try_rules"]

_ABOUT_RECORDS: Final = frozenset(p.name for p in RECORD_FACTS | ADVERTISEMENT_FACTS)


class Question(StrEnum):
    """What is explained."""

    HERE = "here"
    """Does it belong here?"""
    SEND = "send"
    """May it go to the peer?"""
    REQUEST = "request"
    """May it be asked of the peer?"""


_ORDER: Final = {
    Question.HERE: (Layer.NOT_HERE, Layer.MY_RULES),
    Question.SEND: (
        Layer.NOT_HERE, Layer.MY_RULES, Layer.VIEW, Layer.THEIR_RULES, Layer.LOWERING,
    ),
    Question.REQUEST: (
        Layer.FORMAT, Layer.NOT_ADVERTISED, Layer.MY_RULES, Layer.THEIR_RULES, Layer.LOWERING,
    ),
}  # fmt: skip
_PASSED: Final = {
    Layer.NOT_HERE: ("here", "it is stored here"),
    Layer.FORMAT: ("format", "this engine can validate it"),
    Layer.NOT_ADVERTISED: ("advertised", "the peer offers it"),
    Layer.MY_RULES: ("my rules", "my selector selects it"),
    Layer.VIEW: ("the view", "the peer's rules may see it"),
    Layer.THEIR_RULES: ("their rules", "their selector selects it"),
    Layer.LOWERING: ("the lowering", "both selectors select it"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One layer on a record's way."""

    name: str
    """Which layer it is."""
    passed: bool | None
    """None if an earlier layer decided."""
    detail: str = ""
    """What it found, in words."""


_FORGOTTEN: Final = Step(
    "here",
    passed=False,
    detail="it was forgotten here for good; lace store remember lets it come back",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What decided about a record, and why."""

    record: RecordHash
    """The record that was asked about."""
    question: Question
    """What was asked."""
    steps: tuple[Step, ...]
    """The layers on the record's way, in order."""
    proof: Proof | None = None
    """Why my own rules select it, if they do."""
    their_proof: Proof | None = None
    """Why the rules of the other side select it, if they do."""
    refusals: tuple[FailedRule, ...] = ()
    """How far each rule of the layer in the way got."""
    module: PolicyModule
    """The own selector."""
    their_module: PolicyModule
    """The selector of the other side."""

    @property
    def allowed(self) -> bool:
        """Whether nothing stands in the way."""
        return all(step.passed for step in self.steps)

    @property
    def obstacle(self) -> Step | None:
        """The layer that stands in the way, if one does."""
        return next((step for step in self.steps if step.passed is False), None)

    @property
    def evidence(self) -> tuple[str, ...]:
        """The other records that the reason rests on, such as the grant of a membership."""
        found = dict.fromkeys(
            fact[1]
            for proof in (self.proof, self.their_proof)
            if proof is not None
            for fact in map(parse_fact, _leaves(proof))
            if fact[0] in _ABOUT_RECORDS
        )
        return tuple(hash for hash in found if hash != self.record)

    @property
    def rules(self) -> tuple[str, ...]:
        """The texts of the rules that the reason rests on, the deciding one first."""
        texts = (self.rule(id) for id in self.rule_ids)
        return tuple(text for text in texts if text)

    @property
    def rule_ids(self) -> tuple[str, ...]:
        """The ids of the rules that the reason rests on, the deciding one first."""
        found: dict[str, None] = {}
        queue = [proof for proof in (self.proof, self.their_proof) if proof is not None]
        seen = set(map(id, queue))
        for item in queue:
            if item.rule is not None:
                found[item.rule] = None
            for premise in item.because:
                if id(premise) not in seen and len(seen) < FIXED.explained_premises:
                    seen.add(id(premise))
                    queue.append(premise)
        return tuple(found)

    def rule(self, id: str) -> str:
        """Return the text of a rule that is named here; a lowering's rules are named only."""
        for module in (self.module, self.their_module):
            if id in module.lacegram.rule_ids:
                return module.lacegram.lines[module.lacegram.rule_ids.index(id)]
        return ""


def explain(
    local: Lace,
    record: str,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
    peer: Verifier | None = None,
    expose: Exposes | None = None,
    offered: Record | None = None,
) -> Explanation:
    """Say why a record belongs here or may travel, or which layer stands in its way.

    Without ``their_policy`` it is about this lace alone. With it, a record that is here is to be
    sent to a peer who brings that policy, proven to be ``peer``; one that is not here is to be
    requested. ``offered`` is such a record as the peer would advertise it.
    """
    hash = parse_record_hash(record)
    module = policy_of(as_lace(local), policy)
    theirs = module if their_policy is None else as_module(their_policy)
    # Alone, nothing but the own rules decides: whatever they select, the second operand does too.
    exposure = Exposure(default="everything")
    if their_policy is not None:
        exposure = exposure_of(local, expose, policy)
    made = _policy(local, module, theirs, peer, exposure, () if offered is None else (offered,))
    is_here = store_of(local).has(hash)
    if their_policy is not None:
        question = Question.SEND if is_here else Question.REQUEST
    else:
        question = Question.HERE if is_here or offered is None else Question.REQUEST
    found = _explanation(made, hash, question, is_here=is_here, alone=their_policy is None)
    if is_here or not store_of(local).kept_out([hash]):
        return found
    others = (step for step in found.steps if step.name != _FORGOTTEN.name)
    return replace(found, steps=(_FORGOTTEN, *(Step(step.name, passed=None) for step in others)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What rules would do with the records of a lace, were there an exchange."""

    here: tuple[Explanation, ...]
    """Of each record that is here, oldest first: whether it belongs, or may be sent."""
    offered: tuple[Explanation, ...]
    """Of each record that a peer would offer: whether it may be asked for."""
    left_out: int = 0
    """How many more records there are, beyond those that were looked at."""


def try_rules(
    local: Lace,
    policy: Policy,
    *,
    their_policy: Policy | None = None,
    peer: Verifier | None = None,
    expose: Exposes | None = None,
    offered: Iterable[Record] = (),
    at: str | None = None,
    limit: int = 1000,
) -> Trial:
    """Say what rules would select, send and ask for, record by record, without an exchange.

    With ``their_policy`` a peer is met who brings that policy, proven to be ``peer``, and offers
    the records of ``offered``. ``at`` is the time that rules are told, by default now.
    """
    module = policy_of(as_lace(local), policy)
    alone = their_policy is None
    theirs = module if their_policy is None else as_module(their_policy)
    exposure = Exposure(default="everything") if alone else exposure_of(local, expose, policy)
    store = store_of(local)
    given = {record.hash: record for record in offered if not store.has(record.hash)}
    made = _policy(local, module, theirs, peer, exposure, given.values(), at)
    stored = store.read(StoreRecordId(0), limit)
    question = Question.HERE if alone else Question.SEND
    return Trial(
        here=tuple(
            _explanation(made, record.hash, question, is_here=True, alone=alone)
            for record in stored
        ),
        offered=tuple(
            _explanation(made, hash, Question.REQUEST, is_here=False, alone=alone)
            for hash in list(given)[:limit]
        ),
        left_out=store.count() - len(stored) + max(0, len(given) - limit),
    )


def _explanation(
    made: ExchangePolicy, hash: RecordHash, question: Question, *, is_here: bool, alone: bool
) -> Explanation:
    decided = made.explain_send(hash) if is_here else made.explain_request(hash)
    return Explanation(
        record=hash,
        question=question,
        steps=tuple(_steps(question, decided, is_here=is_here)),
        proof=decided.mine,
        their_proof=None if alone else decided.theirs,
        refusals=decided.refusals,
        module=made.local.module,
        their_module=made.peer.module,
    )


def _policy(
    local: Lace,
    module: PolicyModule,
    theirs: PolicyModule,
    peer: Verifier | None,
    exposure: Exposure,
    offered: Iterable[Record],
    at: str | None = None,
) -> ExchangePolicy:
    """Return the same policy that an exchange would follow, over the records that are here."""
    operands = label_operands(
        Party(index=0, module=module, verifier=local.verifier),
        Party(index=1, module=theirs, verifier=peer),
    )
    source = LocalFacts(limits=local.limits)
    modules = [module, theirs, *exposure.modules_for(operands[1].viewer)]
    with store_of(local).snapshot() as snapshot:
        Mentions.of(modules).load(snapshot, source)
    now = at or tai_now()
    for fact in (("StartTAI", now), ("TickTAI", now), ("ClockSkewSeconds", "0")):
        source.add(fact)
    for name, verifier in (("Here", local.verifier), ("Peer", peer)):
        if verifier is not None:
            source.add((name, verifier))
    for record in offered:
        advert = advertise(record.hash, operands[1].source_label, fields(record), None)
        for advertised in advert.facts():
            source.add(advertised)
    return ExchangePolicy(ExchangePlan(operands), 0, source, exposure, local.limits)


def _steps(question: Question, decided: Verdict, *, is_here: bool) -> Iterator[Step]:
    if question is Question.HERE and not is_here:
        yield Step("here", passed=False, detail="it is not stored here")
        yield Step("my rules", passed=None)
        return
    has_decided = False
    for layer in _ORDER[question]:
        name, passed = _PASSED[layer]
        if has_decided:
            yield Step(name, passed=None)
        elif layer is decided.layer:
            has_decided = True
            yield Step(name, passed=False, detail=decided.detail)
        else:
            yield Step(name, passed=True, detail=passed)


def _leaves(proof: Proof) -> Iterator[str]:
    """Yield the base facts under a proof, each once; a premise that is shared is one object."""
    seen = {id(proof)}
    queue = [proof]
    for item in queue:
        if item.rule is None:
            yield item.fact
        for premise in item.because:
            if id(premise) not in seen and len(seen) < FIXED.explained_premises:
                seen.add(id(premise))
                queue.append(premise)
