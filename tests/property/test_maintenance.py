"""Kept up to date equals computed afresh, under any sequence of edits."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lacegrams import all_at_once
from oracle import naive
from programs import fact_sets, facts, programs

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.datalog.maintain import Maintained
from lace.rules import MemorySource, check_lacegram, compile_program

Fact = tuple[str, ...]
edits = st.lists(
    st.tuples(st.lists(facts, max_size=4), st.lists(st.integers(0, 1000), max_size=4)),
    min_size=1,
    max_size=6,
)


operators = st.sampled_from(["<", "<=", ">", ">="])


@st.composite
def ticking(draw: st.DrawFn) -> str:
    """Return a program that compares with moving values, alone and together, in several ways."""
    a, b, c, d, e, f = (draw(operators) for _ in range(6))
    return (
        f"A(X) :- E(X,Y), TickTAI(T), LexCompare(Y,'{a}',T).\n"
        f"B(X,Y) :- E(X,Y), TickTAI(T), LexCompare(T,'{b}',Y), LexCompare(X,'{c}',T), not A(Y).\n"
        f"C(X) :- N(X), TickTAI(T), A(X), LexCompare(T,'{d}','ab').\n"
        "C(X) :- B(X,Y), C(Y).\n"
        "F(T) :- TickTAI(T), N(T).\n"
        f"D(X,Y) :- E(X,Y), TickTAI(T), Until(U), LexCompare(T,'{e}',U), LexCompare(Y,'{f}',U).\n"
        "G() :- TickTAI(T), Cardinality(A(_),'>','1'), T != 'a'.\n"
    )


moments = st.sampled_from(["a", "b", "ab", "1", "2", "10", ""])
ticks = st.lists(
    st.tuples(
        moments,
        moments,
        st.lists(facts, max_size=2),
        st.lists(st.integers(0, 1000), max_size=2),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.req("030-INC-04")
@settings(max_examples=examples(200), deadline=None)
@given(ticking(), fact_sets, ticks)
def test_moving_values_change_what_they_pass_over(
    text: str, start: list[Fact], moves: list[tuple[str, str, list[Fact], list[int]]]
) -> None:
    lacegram = check_lacegram(text).lacegram
    source = MemorySource(start)
    kept = Maintained(evaluate(compile_program(lacegram), source), source)
    now = dict.fromkeys(start)
    moving: list[Fact] = []
    for tick, until, added, picks in moves:
        present = list(now)
        removed = [present[pick % len(present)] for pick in picks] if present else []
        removed += moving
        moving = [("TickTAI", tick), ("Until", until)]
        kept.apply([*added, *moving], removed)
        for fact in removed:
            now.pop(fact, None)
        now |= dict.fromkeys([*added, *moving])
        for predicate, rows in naive(lacegram.rules, now).items():
            assert set(kept.evaluation.rows(predicate)) == rows, predicate


@pytest.mark.req("030-INC-01", "030-INC-02", "030-INC-03", "030-INC-04", "030-STR-08")
@settings(max_examples=examples(400), deadline=None)
@given(programs(), fact_sets, edits, st.booleans())
def test_maintained_equals_evaluated_afresh(
    text: str,
    start: list[Fact],
    changes: list[tuple[list[Fact], list[int]]],
    some_not_stored: bool,
) -> None:
    lacegram = check_lacegram(text).lacegram
    program = compile_program(lacegram)
    source = all_at_once(start)
    outputs = [p for p in sorted(program.derived) if p.name in "BG"] if some_not_stored else None
    kept = Maintained(evaluate(program, source, outputs=outputs), source)
    stored = program.derived - kept.evaluation.virtual
    now = dict.fromkeys(start)
    before: dict[Predicate, set[tuple[str, ...]]] = {
        p: set(kept.evaluation.rows(p)) for p in stored
    }
    for added, picks in changes:
        present = list(now)
        removed = [present[pick % len(present)] for pick in picks] if present else []
        reported = kept.apply(added, removed)
        for fact in removed:
            now.pop(fact, None)
        now |= dict.fromkeys(added)
        expected = naive(lacegram.rules, now)
        for predicate in stored:
            rows = set(kept.evaluation.rows(predicate))
            assert rows == expected[predicate], predicate
            change = reported.get(predicate)
            gone = before[predicate] - rows
            came = rows - before[predicate]
            assert (set() if change is None else change.removed) == gone
            assert (set() if change is None else change.added) == came
            before[predicate] = rows
