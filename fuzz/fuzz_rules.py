"""Fuzz the reading of rules and facts: any text is answered, and what is accepted is stable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import atheris

from fuzzing import Choices, noise, start, vector_texts

with atheris.instrument_imports(include=["lace.datalog"]):
    from lace.datalog.evaluate import evaluate
    from lace.datalog.parse import parse_canonical
    from lace.datalog.source import parse_facts
    from lace.errors import LaceError, LimitExceeded
    from lace.limits import Limits
    from lace.rules import MemorySource, check_lacegram, compile_program
    from lace.text import fact_line
    from lace.vocabulary import ROLES

_WORDS: Final = (
    "A(X)", "B(X,Y)", "Have(P)", "Field(P,'Group',_,X)", "not ", "true", "X != Y", " :- ", ", ",
    ".", ".\n", "\n", "IntCompare(X,'<','1')", "LexCompare(X,'>=',Y)", "TextShape(X,'a','/','')",
    "_", "Cardinality(B(X,_),'<','2')", "'a'", "'\\''", "'\\x'", "'", '"', "(", ")", "=", "#",
    "#:json {}\n", "# c\n", "\t", "\r", "1", "x", "_x", "Prefix(X,'a')", "é", "e\u0301",
    "Cardinality(", "not(", "true(",
)  # fmt: skip
_LIMITS: Final = Limits(work=20_000, derived_facts=2_000, iterations=50, rules=30)
_FACTS: Final = [
    ("Have", "p"), ("Have", "q"), ("Field", "p", "Group", "0", "u"), ("B", "a", "b"),
    ("Field", "q", "Group", "0", "v"), ("B", "b", "c"), ("B", "1", "2"), ("C", "a"),
]  # fmt: skip


def check(data: bytes) -> None:
    """Let the first byte choose what the other bytes are taken for."""
    if not data:
        return
    mode, rest = data[0] % 4, data[1:]
    if mode == 0:
        check_rules(rest)
    elif mode == 1:
        check_facts(rest)
    else:
        check_rules(_text(Choices(rest)).encode("utf-8", "surrogatepass"))


def check_rules(source: bytes) -> None:
    """A text has errors with places, or a canonical form that reads back to itself and runs."""
    for role in ROLES.values():
        checked = check_lacegram(source, role, limits=_LIMITS)
        for diagnostic in checked.diagnostics:
            assert diagnostic.line >= 1
            assert diagnostic.column >= 1
            assert diagnostic.message
    checked = check_lacegram(source, limits=_LIMITS)
    if checked.errors:
        return
    lacegram = checked.lacegram
    again = parse_canonical(lacegram.text.encode())
    assert (again.text, again.id, again.rules) == (lacegram.text, lacegram.id, lacegram.rules)
    program = compile_program(lacegram)
    facts = [f for f in _FACTS if (f[0], len(f) - 1) not in program.derived]
    with suppress(LimitExceeded):
        whole = evaluate(program, MemorySource(facts), limits=_LIMITS)
        part = evaluate(program, MemorySource(facts), outputs=(), limits=_LIMITS)
        for predicate in program.derived - part.virtual:
            assert set(whole.rows(predicate)) == set(part.rows(predicate))


def check_facts(source: bytes) -> None:
    """A block is refused with a code, or every fact of it is written as it was read."""
    try:
        facts = parse_facts(source)
    except LaceError:
        return
    lines = [line for line in source.decode().split("\n") if line]
    assert [fact_line(fact[0], fact[1:]) for fact in facts] == lines


def _text(choices: Choices) -> str:
    return "".join(choices.pick(_WORDS) for _ in range(choices.number(0, 40)))


def _seeds() -> Iterator[bytes]:
    for text in vector_texts():
        yield b"\x00" + text.encode("utf-8", "surrogatepass")
    for fact in _FACTS:
        yield b"\x01" + fact_line(fact[0], fact[1:]).encode()
    for bytes_ in noise(50):
        yield b"\x02" + bytes_


if __name__ == "__main__":
    start("rules", check, _seeds())
