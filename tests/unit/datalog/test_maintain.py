"""Changes that come and go, one story each; the random ones are among the properties."""

from __future__ import annotations

import pytest
from lacegrams import run

from lace.datalog.ast import Predicate
from lace.datalog.change import Change
from lace.datalog.maintain import Maintained
from lace.datalog.source import parse_facts
from lace.rules import MemorySource

A = Predicate("A", 1)


def keep(rules: str, facts: str, outputs: list[Predicate] | None = None) -> Maintained:
    source = MemorySource(parse_facts(facts))
    return Maintained(run(rules, source=source, outputs=outputs), source)


@pytest.mark.req("030-INC-02")
def test_unblocking_brings_notes_back() -> None:
    kept = keep("A(P) :- By(P,V), not Blocked(V).", "By('n','v')\nBlocked('v')")
    assert kept.apply(removed=[("Blocked", "v")]) == {A: Change(set(), {("n",)})}
    assert kept.apply(added=[("Blocked", "v")]) == {A: Change({("n",)}, set())}


@pytest.mark.req("030-INC-02")
def test_a_second_support_holds_a_fact_up() -> None:
    kept = keep("A(X) :- B(X).\nA(X) :- C(X).", "B('1')\nC('1')")
    assert kept.apply(removed=[("B", "1")]) == {}
    assert kept.apply(removed=[("C", "1")]) == {A: Change({("1",)}, set())}


@pytest.mark.req("030-INC-03")
def test_a_cycle_does_not_hold_itself_up() -> None:
    kept = keep(
        "A(X) :- S(X).\nA(Y) :- A(X), E(X,Y).", "S('1')\nE('1','2')\nE('2','3')\nE('3','2')"
    )
    assert kept.apply(removed=[("E", "1", "2")]) == {A: Change({("2",), ("3",)}, set())}


@pytest.mark.req("030-INC-04")
def test_replacing_a_runtime_fact() -> None:
    kept = keep(
        "A(P) :- At(P,T), TickTAI(N), LexCompare(T,'<=',N).",
        "At('x','1')\nAt('y','2')\nTickTAI('1')",
    )
    changed = kept.apply(added=[("TickTAI", "2")], removed=[("TickTAI", "1")])
    assert changed == {A: Change(set(), {("y",)})}
    changed = kept.apply(added=[("TickTAI", "0")], removed=[("TickTAI", "2")])
    assert changed == {A: Change({("x",), ("y",)}, set())}


@pytest.mark.req("030-INC-01")
def test_a_field_of_a_record_changes_its_star() -> None:
    kept = keep(
        "A(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'Tag',_,T), Wanted(T).",
        "Have('p')\nField('p','Group','0','u')\nField('p','Tag','0','x')\nWanted('x')",
    )
    assert set(kept.evaluation.rows(A)) == {("p",)}
    assert kept.apply(removed=[("Have", "p")]) == {A: Change({("p",)}, set())}
    assert kept.apply(added=[("Have", "p")]) == {A: Change(set(), {("p",)})}
    assert kept.apply(added=[("Field", "p", "Tag", "1", "x")]) == {}
    assert kept.apply(removed=[("Field", "p", "Tag", "0", "x")]) == {}
    assert kept.apply(removed=[("Field", "p", "Tag", "1", "x")]) == {A: Change({("p",)}, set())}


@pytest.mark.req("030-INC-01")
def test_a_fact_removed_and_added_at_once_is_there() -> None:
    kept = keep("A(X) :- B(X).", "B('1')")
    assert kept.apply(added=[("B", "1"), ("B", "2")], removed=[("B", "1")]) == {
        A: Change(set(), {("2",)})
    }
    assert kept.apply(removed=[("B", "nothing")]) == {}


@pytest.mark.req("030-INC-01")
def test_counts_of_what_is_not_stored() -> None:
    rules = "C(X,Y) :- B(X), B(Y).\nA(X) :- B(X), Cardinality(C(X,_),'<','3')."
    kept = keep(rules, "B('1')\nB('2')", [A])
    assert kept.evaluation.virtual == {Predicate("C", 2)}
    changed = kept.apply(added=[("B", "3")])
    assert changed[A] == Change({("1",), ("2",)}, set())


def test_work_grows_with_the_change_and_not_with_the_store() -> None:
    """Counted in tuples looked at, not in seconds."""
    facts = "\n".join(f"By('n{i}','v{i % 50}')" for i in range(20_000))
    kept = keep("A(P) :- By(P,V), Member(V).", f"{facts}\nMember('v1')")
    whole = kept.evaluation.meter.work
    kept.apply(added=[("By", "new", "v1")])
    assert kept.evaluation.meter.work < whole / 1000
    kept.apply(added=[("Member", "v2")])
    assert kept.evaluation.meter.work < whole / 10
