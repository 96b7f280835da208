"""Fact sources and fact blocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import fact_sets

from lace.datalog.ast import Predicate
from lace.datalog.source import parse_fact, parse_facts
from lace.errors import Code, EncodingError, LacegramError, LimitExceeded, UsageError
from lace.limits import Limits
from lace.rules import MemorySource
from lace.text import fact_line
from lace.vocabulary import FIELD, HAVE

FACTS = [
    ("Field", "p", "Group", "0", "u"),
    ("Field", "p", "App", "0", "a"),
    ("Field", "q", "Group", "0", "u"),
    ("E", "a", "b"),
    ("Now",),
]


@pytest.mark.req("030-SRC-01", "030-SRC-02", "030-SRC-03")
def test_the_three_calls() -> None:
    source = MemorySource([*FACTS, *FACTS])
    assert sorted(source.iterate(FIELD)) == sorted(f[1:] for f in FACTS[:3])
    assert source.count(FIELD) == 3
    assert list(source.query(FIELD, "p", "Group")) == [("p", "Group", "0", "u")]
    assert sorted(source.query(FIELD)) == sorted(source.iterate(FIELD))
    assert list(source.query(FIELD, "p", "Group", "0", "u")) == [("p", "Group", "0", "u")]
    assert list(source.iterate(Predicate("Now", 0))) == [()]


@pytest.mark.req("030-SRC-05")
def test_unknown_predicates_are_empty_and_too_many_values_an_error() -> None:
    source = MemorySource(FACTS)
    nope = Predicate("Nope", 1)
    assert list(source.iterate(nope)) == list(source.query(nope)) == []
    assert source.count(nope) == 0
    with pytest.raises(UsageError) as caught:
        source.query(HAVE, "a", "b")
    assert caught.value.code is Code.FACT_ARITY


@pytest.mark.req("030-SRC-01", "030-SRC-04")
@given(fact_sets, st.lists(st.integers(0, 100), max_size=8), st.data())
def test_a_source_shows_what_was_put_in(
    facts: list[tuple[str, ...]], picks: list[int], data: st.DataObject
) -> None:
    source = MemorySource(facts)
    kept = set(facts)
    list(source.query(FIELD, "a"))  # makes the index before facts go
    for pick in picks:
        if facts:
            gone = facts[pick % len(facts)]
            assert source.discard(gone) is (gone in kept)
            kept.discard(gone)
    for name, *values in facts:
        predicate = Predicate(name, len(values))
        rows = {tuple(f[1:]) for f in kept if f[0] == name and len(f) == len(values) + 1}
        assert set(source.iterate(predicate)) == rows
        assert source.count(predicate) == len(rows)
        columns = data.draw(st.sets(st.sampled_from(range(len(values))))) if values else set()
        bound = {c: values[c] for c in columns}
        expected = {row for row in rows if all(row[c] == v for c, v in bound.items())}
        assert set(source.select(predicate, bound)) == expected
    assert set(source.predicates()) == {Predicate(f[0], len(f) - 1) for f in kept}


@pytest.mark.req("030-VAL-01", "030-VAL-02", "030-VAL-03", "030-VAL-06", "030-LIM-08")
def test_values_are_judged_before_they_enter() -> None:
    source = MemorySource(limits=Limits(value_bytes=1024, arity=8))
    assert source.add(("B", "é"))
    assert source.add(("B", "a" * 1024))
    with pytest.raises(EncodingError) as caught:
        source.add(("B", "e\u0301"))
    assert caught.value.code is Code.TEXT_NFC
    for value in ("a" * 1025, "é" * 600):
        with pytest.raises(LimitExceeded) as exceeded:
            source.add(("B", value))
        assert exceeded.value.limit == "value_bytes"
    assert source.add(("B", *"12345678"))
    with pytest.raises(LimitExceeded):
        source.add(("B", *"123456789"))
    with pytest.raises(EncodingError) as caught:
        parse_facts(b"B('\xc3\x28')")
    assert caught.value.code is Code.TEXT_UTF8


@pytest.mark.req("030-LIM-01", "030-LIM-02", "030-LIM-03")
def test_the_number_of_facts_is_limited() -> None:
    source = MemorySource(limits=Limits(base_facts=10, runtime_facts=10))
    for i in range(10):
        source.add(("B", str(i)))
        source.add(("TickTAI", str(i)))
    for name, limit in (("B", "base_facts"), ("TickTAI", "runtime_facts")):
        with pytest.raises(LimitExceeded) as caught:
            source.add((name, "x"))
        assert caught.value.limit == limit
        assert source.count(Predicate(name, 1)) == 10
    bulk = MemorySource(limits=Limits(base_facts=10))
    with pytest.raises(LimitExceeded):
        bulk.add_rows(FIELD, ((str(i), "Group", "0", "u") for i in range(11)))


@pytest.mark.req("030-LIM-02")
def test_a_million_facts_load() -> None:
    source = MemorySource()
    source.add_rows(FIELD, ((f"p{i}", "Group", "0", "u") for i in range(2**20)))
    assert source.count(FIELD) == 2**20


@given(fact_sets)
def test_fact_blocks_round_trip(facts: list[tuple[str, ...]]) -> None:
    block = "".join(f"{fact_line(fact[0], fact[1:])}\n" for fact in facts)
    assert parse_facts(block) == facts
    assert parse_facts(block.encode()) == facts


@pytest.mark.parametrize(
    "line",
    [
        "B", "B(", "B(a)", "B('a'", "B('a',)", "B(,'a')", "B('a' )", "B ('a')", " B('a')", "B('a').",
        "B('a','b)", "B('\\n')", "B('a'b')", 'B("a")', "1('a')", "B('a') ", "B('a')\r", "# x", "B('a''b')",
    ],
)  # fmt: skip
def test_malformed_fact_lines(line: str) -> None:
    with pytest.raises(LacegramError) as caught:
        parse_facts(f"Good('x')\n{line}\nGood('y')\n")
    assert [(d.code, d.line) for d in caught.value.diagnostics] == [(Code.FACT_MALFORMED, 2)]


def test_values_of_facts_are_text_too() -> None:
    with pytest.raises(LacegramError) as caught:
        parse_facts("B('e\u0301')\n")
    assert caught.value.code is Code.TEXT_NFC


def test_exactly_one_fact() -> None:
    assert parse_fact("B('it\\'s','\\\\')") == ("B", "it's", "\\")
    for text in ("", "A()\nB()"):
        with pytest.raises(LacegramError):
            parse_fact(text)
