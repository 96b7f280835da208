"""Why and why not, one story each; the random ones are among the properties."""

from __future__ import annotations

import pytest
from lacegrams import run

from lace.datalog.ast import Predicate
from lace.datalog.explain import Explainer
from lace.vocabulary import HAVE

A = Predicate("A", 1)
ROOM = (
    "Member(V) :- Have(G), Field(G,'App',_,'member'), Field(G,'Member',_,V).\n"
    "A(N) :- Have(N), Field(N,'App',_,'note'), Field(N,'By',_,V), Member(V), not Blocked(V).\n"
)
FACTS = [
    "Have('g')", "Field('g','App','0','member')", "Field('g','Member','0','bob')",
    "Have('n')", "Field('n','App','0','note')", "Field('n','By','0','bob')",
    "Have('m')", "Field('m','App','0','note')", "Field('m','By','0','eve')",
]  # fmt: skip


@pytest.mark.req("030-EVAL-09")
def test_why_a_note_belongs() -> None:
    result = run(ROOM, FACTS)
    proof = Explainer(result).why(A, ("n",))
    assert proof is not None
    assert proof.fact == "A('n')"
    assert [premise.fact for premise in proof.because] == [
        "Have('n')",
        "Field('n','App','0','note')",
        "Field('n','By','0','bob')",
        "Member('bob')",
    ]
    assert [leaf.fact for leaf in proof.because[3].because] == FACTS[:3]
    assert proof.conditions == ("not Blocked('bob')",)
    assert proof.rule in result.program.lacegram.rule_ids
    assert proof.size == 8


@pytest.mark.req("030-EVAL-09")
def test_why_not_says_how_far_each_rule_got() -> None:
    explainer = Explainer(run(ROOM, FACTS))
    (refusal,) = explainer.why_not(A, ("m",))
    assert refusal.failed_atom == "Member(V)"
    assert refusal.bindings == {"N": "m", "V": "eve"}
    assert refusal.satisfied == 3
    assert refusal.near_misses == ()
    (refusal,) = explainer.why_not(A, ("g",))
    assert refusal.failed_atom == "Field(N,'App',_,'note')"
    assert "Field('g','App','0','member')" in refusal.near_misses
    (refusal,) = explainer.why_not(A, ("nobody",))
    assert refusal.failed_atom == "Have(N)"


@pytest.mark.req("030-EVAL-09")
def test_why_not_names_a_negation_that_stands_in_the_way() -> None:
    (refusal,) = Explainer(run(ROOM, [*FACTS, "Blocked('bob')"])).why_not(A, ("n",))
    assert refusal.failed_atom == "not Blocked(V)"
    assert refusal.bindings == {"N": "n", "V": "bob"}


def test_the_smallest_proof_is_found_among_many() -> None:
    rules = "A(X) :- S(X).\nA(Y) :- A(X), E(X,Y).\n"
    facts = ["S('0')", *[f"E('{i}','{i + 1}')" for i in range(9)], "E('2','9')", "E('9','0')"]
    explainer = Explainer(run(rules, facts))
    proof = explainer.why(A, ("9",))
    assert proof is not None
    assert proof.size == 8  # by way of 0, 1, 2
    assert len(explainer.all_derivations(A, ("9",))) == 2


def test_a_proof_may_be_a_thousand_steps_deep() -> None:
    rules = "A(X) :- S(X).\nA(Y) :- A(X), E(X,Y).\n"
    facts = ["S('0')", *[f"E('{i}','{i + 1}')" for i in range(3000)]]
    proof = Explainer(run(rules, facts)).why(A, ("3000",))
    assert proof is not None
    depth = 0
    while proof.because:
        proof, depth = proof.because[0], depth + 1
    assert depth == 3001


def test_base_facts_explain_themselves() -> None:
    explainer = Explainer(run(ROOM, FACTS))
    proof = explainer.why(HAVE, ("g",))
    assert proof is not None
    assert (proof.rule, proof.because) == (None, ())
    assert explainer.why(HAVE, ("x",)) is None
    assert explainer.why_not(HAVE, ("x",)) == ()


def test_what_is_not_stored_is_explained_too() -> None:
    rules = "C(X,Y) :- B(X), B(Y).\nA(X) :- B(X), Cardinality(C(X,_),'<','3').\n"
    result = run(rules, "B('1')\nB('2')", outputs=[A])
    explainer = Explainer(result)
    proof = explainer.why(Predicate("C", 2), ("1", "2"))
    assert proof is not None
    assert [premise.fact for premise in proof.because] == ["B('1')", "B('2')"]
    counted = explainer.why(A, ("1",))
    assert counted is not None
    assert counted.conditions == ("Cardinality(C('1',_),'<','3')",)
