"""Rules and facts made to hurt: wrong answers that once were, and work that must be paid for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lacegrams import codes, derive, run

from lace.datalog.ast import Predicate
from lace.datalog.builtins import integer_key
from lace.datalog.explain import Explainer
from lace.datalog.maintain import Maintained
from lace.datalog.source import parse_facts
from lace.errors import Code, LaceError, LacegramError, LimitExceeded, ProtocolError, UsageError
from lace.interlace.facts import parse_block
from lace.limits import DEFAULT_LIMITS, Limits
from lace.rules import MemorySource, check_lacegram

P = Predicate("P", 1)


@pytest.mark.req("030-INC-01", "030-INC-04")
@pytest.mark.parametrize(
    ("before", "after"),
    [(("1", "5"), ("3", "2")), (("3", "2"), ("1", "5")), (("1", "2"), ("3", "4"))],
)
def test_two_values_that_move_at_once(before: tuple[str, str], after: tuple[str, str]) -> None:
    start = [("TickTAI", before[0]), ("Expiry", before[1])]
    source = MemorySource(start)
    rules = "P('k') :- TickTAI(T), Expiry(E), LexCompare(T,'<',E).\n"
    kept = Maintained(run(rules, source=source), source)
    kept.apply([("TickTAI", after[0]), ("Expiry", after[1])], start)
    assert set(kept.evaluation.rows(P)) == set(run(rules, source=source).rows(P))


@pytest.mark.req("030-SYN-23")
def test_one_variable_twice_in_a_key() -> None:
    rule = "A(K) :- AdvertisedField(K,K,'A',_,X), Advertised(K,K).\n"
    facts = ["AdvertisedField('h','s','A','0','1')", "Advertised('h','s')"]
    assert derive(rule, facts) == set()
    assert derive(rule, ["AdvertisedField('h','h','A','0','1')", "Advertised('h','h')"]) == {
        "A('h')"
    }


@pytest.mark.req("030-EVAL-09")
def test_a_proof_does_not_rest_on_itself_through_a_column_nobody_looks_at() -> None:
    result = run("P(X) :- Q(X,_).\nQ(X,'a') :- P(X).\nQ(X,'b') :- B(X).\n", "B('x')")
    proof = Explainer(result).why(P, ("x",))
    assert proof is not None
    assert proof.because[0].fact == "Q('x','b')"
    rules = "P(X) :- Q(X,_).\nQ(X,'a') :- R(X).\nR(X) :- S(X).\nS(X) :- B(X).\nQ(X,'b') :- B(X).\n"
    proof = Explainer(run(rules, "B('x')")).why(P, ("x",))
    assert proof is not None
    assert proof.size == 3


def test_an_update_that_fails_changes_nothing() -> None:
    rules = "Q(X) :- A(X).\nP(X,Y) :- Q(X), Q(Y).\n"
    limits = replace(DEFAULT_LIMITS, derived_facts=30)
    source = MemorySource([("A", str(i)) for i in range(5)], limits)
    kept = Maintained(run(rules, source=source, limits=limits), source)
    for bad in ([("A", "6"), ("A", "x" * 2000)], [("A", "6")]):
        with pytest.raises(LaceError):
            kept.apply(bad)
        assert len(kept.evaluation.rows(Predicate("P", 2))) == 25
        assert source.count(Predicate("A", 1)) == 5
    kept.apply(removed=[("A", "1")])
    assert len(kept.evaluation.rows(Predicate("P", 2))) == 16
    kept.apply([("A", "6")])
    assert len(kept.evaluation.rows(Predicate("P", 2))) == 25


def test_products_within_one_record_are_paid_for() -> None:
    facts = [("Have", "h"), *(("Field", "h", "X", str(i), f"v{i}") for i in range(60))]
    rule = "S(P) :- Field(P,'X',_,A), Field(P,'X',_,B), Field(P,'X',_,C), A != B, B != C.\n"
    for limit in ({"work": 1000}, {"derived_facts": 10_000}):
        with pytest.raises(LimitExceeded):
            run(rule, source=MemorySource(facts), limits=Limits(**limit))


def test_counting_pairs_is_paid_for() -> None:
    facts = [("A", str(i)) for i in range(100)] + [("B", str(i), str(i + 1)) for i in range(100)]
    rule = "P(X) :- A(X), Cardinality(B(Y,Y),'<','1').\n"
    assert run(rule, source=MemorySource(facts)).meter.work > 10_000


def test_facts_of_any_source_are_limited() -> None:
    source = MemorySource([("A", str(i)) for i in range(10)])
    with pytest.raises(LimitExceeded) as caught:
        run("P(X) :- A(X).\n", source=source, limits=Limits(base_facts=9))
    assert caught.value.limit == "base_facts"


@pytest.mark.req("030-LIM-01", "030-LIM-05")
def test_texts_that_would_take_long_are_refused_early() -> None:
    many = "".join(f"Pred{i:05}(X) :- Unkn{i:05}(X).\n" for i in range(4000))
    assert codes(many) == [Code.LACEGRAM_LIMIT]
    long = "P(X0) :- " + ", ".join(f"A(X{i},X{i + 1})" for i in range(3000)) + ".\n"
    assert codes(long) == [Code.LACEGRAM_LIMIT]
    counts = (
        "P(X) :- A(X), " + ", ".join(f"Cardinality(B(Y{i}),'<','1')" for i in range(3000)) + ".\n"
    )
    assert codes(counts) == [Code.LACEGRAM_LIMIT]
    notes = "".join(f"A('{i}') :- true.\n" for i in range(1000)) + "#:json {}\n" * 10_000
    assert set(codes(notes)) == {Code.LACEGRAM_NOTE_ALONE}
    advice = "".join(f"Pred{i:05}(X) :- Unkn{i:05}(X).\n" for i in range(200))
    assert len(check_lacegram(advice).diagnostics) <= 50


def test_numbers_are_read_in_one_pass() -> None:
    assert integer_key("0" * 100_000 + "x") is None
    assert integer_key("0" * 100_000) == integer_key("0")


def test_notes_are_json_and_nothing_else() -> None:
    assert codes('#:json {"a":NaN}\nA(X) :- B(X).\n') == [Code.LACEGRAM_NOTE]


def test_the_size_of_a_text_is_in_bytes_however_it_is_given() -> None:
    text = f"A('{'é' * 20}') :- true.\n"
    limits = Limits(lacegram_bytes=45)
    assert (
        codes(text, limits=limits)
        == codes(text.encode(), limits=limits)
        == [Code.LACEGRAM_TOO_LONG]
    )


def test_explaining_is_bounded() -> None:
    facts = [f"A('{i}')" for i in range(150)]
    result = run("P('z') :- A(X), A(Y), A(Z), N(X).\n", facts)
    (refusal,) = Explainer(result).why_not(P, ("z",))
    assert refusal.failed_atom == "N(X)"
    deep = "A0('x') :- true.\nB0('x') :- true.\n" + "".join(
        f"A{i}(X) :- A{i - 1}(X), B{i - 1}(X).\nB{i}(X) :- A{i - 1}(X), B{i - 1}(X).\n"
        for i in range(1, 60)
    )
    proof = Explainer(run(deep)).why(Predicate("A59", 1), ("x",))
    assert proof is not None
    assert proof.size > 2**59
    assert "A59('x')" in repr(proof)
    with pytest.raises(UsageError):
        Explainer(run(deep)).why(Predicate("A59", 1), ("x", "y"))


def test_bad_blocks_are_given_up_on_early() -> None:
    with pytest.raises(LacegramError) as caught:
        parse_facts("x\n" * 10_000)
    assert len(caught.value.diagnostics) == 200
    with pytest.raises(ProtocolError):
        parse_block(b"NotAvailable('" + b"x" * 2000 + b"')\n", frozenset({"NotAvailable"}))
