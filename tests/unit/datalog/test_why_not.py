"""Why a fact does not hold: the fact that a negation denies, and what nobody derives."""

from __future__ import annotations

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.explain import Explainer, FailedRule
from lace.rules import MemorySource, check_lacegram, compile_program


def failed(rules: str, facts: list[tuple[str, ...]], *goal: str) -> list[FailedRule]:
    source = MemorySource()
    for fact in facts:
        source.add(fact)
    made = evaluate(compile_program(check_lacegram(rules).lacegram), source)
    name, *row = goal
    return list(Explainer(made).why_not(Predicate(name, len(row)), tuple(row)))


def test_a_negation_that_fails_names_the_fact_and_its_proof() -> None:
    rules = "A(X) :- B(X), not C(X).\nC(X) :- D(X,_)."
    (one,) = failed(rules, [("B", "x"), ("D", "x", "2"), ("D", "x", "1")], "A", "x")
    assert one.failed_atom == "not C(X)"
    assert one.because is not None
    assert (one.because.fact, one.because.because[0].fact) == ("C('x')", "D('x','1')")
    assert one.below == ()


def test_a_negation_without_variables_and_one_of_a_base_fact() -> None:
    (one,) = failed("A(X) :- B(X), not C('c').", [("B", "x"), ("C", "c")], "A", "x")
    assert one.because is not None
    assert (one.because.fact, one.because.rule) == ("C('c')", None)
    (other,) = failed(
        "A(X) :- B(X), not C(X,X).", [("B", "x"), ("C", "x", "y"), ("C", "x", "x")], "A", "x"
    )
    assert other.because is not None
    assert other.because.fact == "C('x','x')"


def test_what_nobody_derives_is_followed_down() -> None:
    rules = "A(X) :- B(X), M(X,'r').\nM(X,R) :- G(X,R,_).\nG(X,R,Y) :- S(Y,X), F(Y,R).\nG('never',R,Y) :- F(Y,R)."
    (one,) = failed(rules, [("B", "x"), ("S", "s", "x"), ("F", "s", "q")], "A", "x")
    assert one.failed_atom == "M(X,'r')"
    (two,) = one.below
    (three,) = two.below  # the rule for another constant could not derive it
    assert (three.failed_atom, three.satisfied) == ("F(Y,R)", 1)
    assert three.bindings == {"X": "x", "R": "r", "Y": "s"}
    assert three.near_misses == ("F('s','q')",)


def test_a_circle_ends() -> None:
    rules = "A(X) :- B(X), P(X).\nP(X) :- Q(X).\nQ(X) :- P(X)."
    (one,) = failed(rules, [("B", "x")], "A", "x")
    assert one.below[0].failed_atom == "Q(X)"
    assert one.below[0].below[0].failed_atom == "P(X)"
    assert one.below[0].below[0].below == ()


def test_a_long_way_down_ends_too() -> None:
    rules = "".join(f"P{n}(X) :- P{n + 1}(X).\n" for n in range(50)) + "P50(X) :- Z(X)."
    (one,) = failed(rules, [("B", "x")], "P0", "x")
    depth = 0
    while one.below:
        (one,) = one.below
        depth += 1
    assert depth == 8
