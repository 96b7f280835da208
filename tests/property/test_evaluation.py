"""The engine against the naive evaluator, on random programs and facts."""

from __future__ import annotations

import random

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lacegrams import all_at_once
from oracle import naive
from programs import fact_sets, programs

from lace.datalog import program, source
from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.explain import Explainer
from lace.rules import MemorySource, check_lacegram, compile_program

Fact = tuple[str, ...]


def run(text: str, facts: list[Fact], outputs: list[Predicate] | None = None) -> Evaluation:
    compiled = compile_program(check_lacegram(text).lacegram)
    return evaluate(compiled, MemorySource(facts), outputs=outputs)


@pytest.mark.req("030-EVAL-03", "030-EVAL-04", "030-SRC-01")
@settings(max_examples=examples(150), deadline=None)
@given(programs(), fact_sets)
def test_it_does_not_matter_how_facts_arrive(text: str, facts: list[Fact]) -> None:
    compiled = compile_program(check_lacegram(text).lacegram)
    expected = evaluate(compiled, MemorySource(facts))
    result = evaluate(compiled, all_at_once(facts))
    assert set(result.facts()) == set(expected.facts())
    for fact, row in sorted(expected.facts())[:3]:
        assert Explainer(result).why(fact, row) == Explainer(expected).why(fact, row)


@settings(max_examples=examples(150), deadline=None)
@given(programs(), fact_sets)
def test_answers_do_not_depend_on_what_the_engine_is_told_of_predicates(
    text: str, facts: list[Fact]
) -> None:
    """Wide tables make it fast; without them, every atom is looked up by itself."""
    told = run(text, facts)
    untold = evaluate(
        program.compile_program(check_lacegram(text).lacegram), source.MemorySource(facts)
    )
    assert set(untold.facts()) == set(told.facts())
    assert not any(view.key for view in untold.program.views)


@pytest.mark.req("030-EVAL-01", "030-EVAL-02", "030-EVAL-04")
@settings(max_examples=examples(300), deadline=None)
@given(programs(), fact_sets)
def test_the_engine_derives_what_the_definition_says(text: str, facts: list[Fact]) -> None:
    expected = naive(check_lacegram(text).lacegram.rules, facts)
    result = run(text, facts)
    for predicate, rows in expected.items():
        assert set(result.rows(predicate)) == rows, predicate


@pytest.mark.req("030-EVAL-02", "030-CARD-01")
@settings(max_examples=examples(150), deadline=None)
@given(programs(), fact_sets, st.data())
def test_what_is_not_stored_is_counted_all_the_same(
    text: str, facts: list[Fact], data: st.DataObject
) -> None:
    expected = naive(check_lacegram(text).lacegram.rules, facts)
    outputs = data.draw(st.lists(st.sampled_from(sorted(expected)), max_size=2)) if expected else []
    result = run(text, facts, outputs)
    for predicate, rows in expected.items():
        if predicate not in result.virtual:
            assert set(result.rows(predicate)) == rows, predicate


@pytest.mark.req("030-EVAL-03")
@settings(max_examples=examples(40), deadline=None)
@given(programs(), fact_sets, st.randoms(use_true_random=False))
def test_the_order_of_rules_and_facts_does_not_matter(
    text: str, facts: list[Fact], chance: random.Random
) -> None:
    expected = sorted(run(text, facts).facts())
    lines = text.splitlines(keepends=True)
    shuffled = list(facts)
    chance.shuffle(lines)
    chance.shuffle(shuffled)
    assert sorted(run("".join(lines), shuffled).facts()) == expected
