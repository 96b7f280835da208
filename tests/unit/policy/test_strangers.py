"""Rules of a stranger cost what they may and no more: counted in steps and rows, never in time."""

from __future__ import annotations

import random

import pytest
from small_room import room

from lace.datalog import join
from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation
from lace.datalog.meter import ROW, Meter
from lace.datalog.program import Join
from lace.errors import Code, LacegramError, LimitExceeded
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.module import (
    Facet,
    PolicyModule,
    foreign_faults,
    module_from_peer,
    module_from_text,
)
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure, _RulesHere
from lace.rules import LocalFacts, MemorySource
from lace.selectors import selector
from lace.vocabulary import SELECT_HAVE

REST = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
MINE = selector("//g//notes//")

HUNGRY = {
    "pairs": "Big(P,Q) :- Have(P), Have(Q).\n",
    "triples": "Big(P) :- Have(P), Have(Q), Have(R), P != Q, Q != R, P != R.\n",
    "compared": "Big(P,Q) :- Field(P,'N',_,X), Field(Q,'N',_,Y), LexCompare(X,'<',Y).\n",
    "counted": "Two(P,Q) :- Have(P), Have(Q).\nBig(P) :- Have(P), Cardinality(Two(_,_),'>','999999').\n",
    "advertised": "Big(P,Q) :- Advertised(P,S), Advertised(Q,S).\n",
    "closure": "Big(P,Q) :- Have(P), Have(Q).\nBig(P,R) :- Big(P,Q), Big(Q,R).\n",
    "links": "Big(P,Q) :- Field(P,'Group',_,G), Field(Q,'Group',_,G).\n",
}


def facts(records: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for i in range(records):
        record = f"P{i}"
        found += [
            ("Have", record),
            ("Field", record, "Group", "0", "g"),
            ("Field", record, "App", "0", "notes"),
            ("Field", record, "N", "0", f"{i:06}"),
            ("Advertised", f"A{i}", "s"),
        ]
    return found


def policy_of(
    theirs: PolicyModule, records: int, limits: Limits = DEFAULT_LIMITS
) -> ExchangePolicy:
    plan = ExchangePlan(label_operands(Party(index=0, module=MINE), Party(index=1, module=theirs)))
    source = LocalFacts(facts(records), limits)
    return ExchangePolicy(plan, 0, source, Exposure(default="everything"), limits)


def meter_of(policy: ExchangePolicy) -> Meter:
    rules = policy._peer._rules
    assert isinstance(rules, _RulesHere)
    return rules.evaluation.meter


@pytest.mark.parametrize("name", HUNGRY)
def test_hungry_rules_end_with_a_code_at_the_default_limits(name: str) -> None:
    with pytest.raises(LimitExceeded) as raised:
        policy_of(module_from_text(HUNGRY[name] + REST), 2000)
    assert raised.value.limit == "work"
    assert raised.value.observed < 3 * raised.value.configured


@pytest.mark.parametrize("name", HUNGRY)
def test_rows_are_counted_while_they_are_made(name: str) -> None:
    """Even one round, of one rule, keeps no more than the work that is left pays for."""
    limits = Limits(work=500_000)
    program = module_from_text(HUNGRY[name] + REST).program
    evaluation = Evaluation(program, MemorySource(facts(3000)), limits, frozenset())
    with pytest.raises(LimitExceeded):
        evaluation.load()
    kept = sum(len(evaluation.rows(predicate)) for predicate in program.derived)
    assert kept <= limits.work / ROW + (1 << 16) + 3000


def test_one_predicate_keeps_no_more_than_its_limit_within_a_round() -> None:
    limits = Limits(derived_facts=1000)
    program = module_from_text(HUNGRY["pairs"] + REST).program
    evaluation = Evaluation(program, MemorySource(facts(1500)), limits, frozenset())
    with pytest.raises(LimitExceeded, match="limit derived_facts is 1000"):
        evaluation.load()
    assert len(evaluation.rows(Predicate("Big", 2))) <= 1000 + (1 << 16) + 1500


@pytest.mark.parametrize(
    "module",
    [
        MINE,
        room("//g//notes//", authority="V." + "0" * 43 + ".H3"),
        room("//g//notes//", authority="V." + "0" * 43 + ".H3", delegation=True,
             revocation_app="revoked"),
    ],
)  # fmt: skip
def test_honest_rules_stay_far_below_what_they_may_do(module: PolicyModule) -> None:
    assert list(foreign_faults(module)) == []
    policy = policy_of(module, 5000)
    meter = meter_of(policy)
    assert meter.work < meter.limits.work / 10


def test_work_is_allowed_in_proportion_to_what_is_seen() -> None:
    looks_twice = module_from_text("Twice(P,N) :- Field(P,'N',_,N), Field(P,'App',_,_).\n" + REST)
    limits = Limits(peer_work=4_000, peer_work_per_fact=40)
    for records in (100, 1000, 5000):
        policy = policy_of(looks_twice, records, limits)
        assert len(policy.peer_selects(SELECT_HAVE)) == records
    with pytest.raises(LimitExceeded, match="limit work is"):
        policy_of(looks_twice, 5000, Limits(peer_work=4_000, peer_work_per_fact=4))


def test_what_may_be_done_follows_what_is_seen() -> None:
    """A store that grows record by record allows as much as one that was always so large."""
    limits = Limits(peer_work=100_000, peer_work_per_fact=7)
    grown = policy_of(module_from_text(REST), 100, limits)
    for fact in facts(120)[500:]:
        grown.apply([fact])
    at_once = policy_of(module_from_text(REST), 120, limits)
    assert meter_of(grown).limits.work == meter_of(at_once).limits.work


# --- what a text costs before anything is evaluated ---


def shapes(rules: int, joins: int) -> str:
    """Rules whose joins are all connected, each in another way."""
    chance = random.Random(1)
    lines = ["D(P,X) :- Field(P,'x',_,X)."]
    for number in range(rules):
        body = ", ".join(f"D(V{k},V{chance.randrange(k)})" for k in range(1, joins + 1))
        lines.append(f"A{number}(V0) :- {body}.")
    return "\n".join(lines) + "\n" + REST


def from_peer(text: str, limits: Limits = DEFAULT_LIMITS) -> PolicyModule:
    module = module_from_text(text)
    return module_from_peer(module.text.encode(), module.id, Facet.SELECTOR, limits)


DEAR = {
    "joins": (shapes(1, 33), "A0/1: 33 joins, at most 32"),
    "variables": (
        "A(X0) :- "
        + ", ".join(f"Field(X{2 * n},_,_,X{2 * n + 1})" for n in range(40))
        + ".\n"
        + REST,
        "A/1: 80 variables, at most 64",
    ),
    "atoms": (shapes(140, 30), "more than 4096 body atoms"),
    "all together": (shapes(60, 20), "to prepare all rules takes"),
    "a product": (
        "Big(P) :- Have(P), Have(Q), Have(R), Have(T).\n" + REST,
        "Big/1: 4 parts that share no variable, at most 3",
    ),
}


@pytest.mark.parametrize("name", DEAR)
def test_a_text_that_costs_too_much_is_refused_with_rule_and_reason(name: str) -> None:
    text, reason = DEAR[name]
    with pytest.raises(LacegramError) as raised:
        from_peer(text)
    (first, *_) = raised.value.diagnostics
    assert first.code is Code.LACEGRAM_COST
    assert reason in first.message
    assert first.line >= 1
    assert [problem.code for problem in foreign_faults(module_from_text(text))]


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(LacegramError) as raised:
        from_peer(REST, Limits(peer_lacegram_bytes=50))
    assert raised.value.diagnostics[0].code is Code.LACEGRAM_TOO_LONG


@pytest.mark.parametrize(
    "rule",
    [
        # Runtime facts are few, and so is what follows from them alone.
        "Big(P) :- Have(P), Here(V), Peer(W), TickTAI(T).\n",
        "Us(V) :- Here(V).\nUs(V) :- Peer(V).\nBig(P) :- Have(P), Us(A), Us(B), Us(C).\n",
        "Big(P) :- Have(P), Open(), Have(Q), Have(R).\nOpen() :- Have(P).\n",
    ],
)
def test_products_with_few_facts_are_no_reason_to_refuse(rule: str) -> None:
    assert list(foreign_faults(from_peer(rule + REST))) == []


def test_to_prepare_rules_is_paid_for_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever skips the check of a text still pays: choosing, ordering and compiling are work."""
    steps = 0
    real = join._boundness

    def counted(one: Join, bound: set[int]) -> tuple[bool, int]:
        nonlocal steps
        steps += 1
        return real(one, bound)

    monkeypatch.setattr(join, "_boundness", counted)
    with pytest.raises(LimitExceeded, match="limit work is"):
        policy_of(module_from_text(shapes(16, 120)), 2)
    assert steps < DEFAULT_LIMITS.peer_work


def test_rules_of_a_chain_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether advertisements stand alone is told in one pass, however long the chain."""
    links = "".join(f"L{i}(P) :- L{i + 1}(P).\n" for i in range(900))
    module = module_from_text(links + "L900(P) :- Advertised(P,_).\n" + REST)
    asked = 0
    real = type(module.lacegram.rules[0].head).predicate

    def counted(self: object) -> Predicate:
        nonlocal asked
        asked += 1
        return real.__get__(self)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(module.lacegram.rules[0].head), "predicate", property(counted))
    assert not module.adverts_stand_alone
    assert asked < 10 * len(module.lacegram.rules)
