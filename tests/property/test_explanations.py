"""Explanations are true: every proof checks, every refusal names something that fails."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from oracle import naive, smallest_proofs
from programs import fact_sets, programs

from lace.datalog.ast import Atom, Constant, Rule, Variable
from lace.datalog.canonical import canonical_rule, rule_id
from lace.datalog.evaluate import evaluate
from lace.datalog.explain import Explainer, Proof
from lace.datalog.source import parse_fact
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.text import fact_line

Fact = tuple[str, ...]


def check(proof: Proof, base: set[Fact], rules: dict[str, Rule]) -> None:
    """Hold a proof to the definition: leaves are base facts, each step fits its rule."""
    fact = parse_fact(proof.fact)
    if proof.rule is None:
        assert fact in base
        assert proof.because == ()
        return
    rule = rules[proof.rule]
    premises = [parse_fact(premise.fact) for premise in proof.because]
    positive = [part for part in rule.body if isinstance(part, Atom)]
    binding: dict[str, str] = {}
    for atom, row in zip([rule.head, *positive], [fact, *premises], strict=True):
        assert (atom.name, len(atom.terms)) == (row[0], len(row) - 1)
        for term, value in zip(atom.terms, row[1:], strict=True):
            if isinstance(term, Constant):
                assert term.value == value
            elif isinstance(term, Variable):
                assert binding.setdefault(term.name, value) == value
    for premise in proof.because:
        assert premise.size < proof.size
        check(premise, base, rules)


@pytest.mark.req("030-EVAL-09")
@settings(max_examples=examples(150), deadline=None)
@given(programs(), fact_sets)
def test_every_derived_fact_has_a_proof_that_checks(text: str, facts: list[Fact]) -> None:
    lacegram = check_lacegram(text).lacegram
    program = compile_program(lacegram)
    evaluation = evaluate(program, MemorySource(facts))
    explainer = Explainer(evaluation)
    rules: dict[str, Rule] = {rule_id(canonical_rule(r)): r for r in lacegram.rules}
    base = set(facts)
    sizes = smallest_proofs(lacegram.rules, facts)
    for predicate, row in sorted(evaluation.facts())[:20]:
        proof = explainer.why(predicate, row)
        assert proof is not None
        assert proof.fact == fact_line(predicate.name, row)
        assert proof.size == sizes[predicate, row]
        check(proof, base, rules)
        alternatives = explainer.all_derivations(predicate, row)
        assert min(a.size for a in alternatives) == proof.size
        assert explainer.why(predicate, row) == proof


@pytest.mark.req("030-EVAL-09")
@settings(max_examples=examples(100), deadline=None)
@given(programs(), fact_sets)
def test_every_missing_fact_is_refused_by_every_rule(text: str, facts: list[Fact]) -> None:
    lacegram = check_lacegram(text).lacegram
    evaluation = evaluate(compile_program(lacegram), MemorySource(facts))
    explainer = Explainer(evaluation)
    expected = naive(lacegram.rules, facts)
    for predicate in sorted(evaluation.program.derived):
        row = ("a",) * predicate.arity
        if row in expected[predicate]:
            continue
        assert explainer.why(predicate, row) is None
        refusals = explainer.why_not(predicate, row)
        heads = [r.head for r in lacegram.rules if r.head.predicate == predicate]
        assert len(refusals) <= len(heads)
        for refusal in refusals:
            assert refusal.failed_atom
