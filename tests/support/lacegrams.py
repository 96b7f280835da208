"""Short ways to say what rules derive."""

from __future__ import annotations

from collections.abc import Iterable

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.roles import Role
from lace.datalog.source import Fact, FactSource, parse_facts
from lace.errors import Code
from lace.limits import DEFAULT_LIMITS, Limits
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.text import fact_line
from lace.vocabulary import PLAIN


def run(
    rules: str,
    facts: str | Iterable[str] = (),
    *,
    source: FactSource | None = None,
    outputs: list[Predicate] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Evaluation:
    """Evaluate rules, one a line, over fact lines."""
    text = facts if isinstance(facts, str) else "\n".join(facts)
    program = compile_program(check_lacegram(rules, limits=limits).lacegram)
    given = MemorySource(parse_facts(text), limits) if source is None else source
    return evaluate(program, given, outputs=outputs, limits=limits)


def derive(rules: str, facts: str | Iterable[str] = (), *, of: str = "A") -> set[str]:
    """Return the facts that rules derive for predicates of one name, as fact lines."""
    result = run(rules, facts)
    return {fact_line(p.name, row) for p, row in result.facts() if p.name == of}


def codes(rules: str | bytes, role: Role = PLAIN, **options: object) -> list[Code]:
    """Return the codes of all errors in a text."""
    return [d.code for d in check_lacegram(rules, role, **options).errors]  # type: ignore[arg-type]


def all_at_once(facts: Iterable[Fact]) -> MemorySource:
    """Return a source that got the facts of each predicate together, every other one twice."""
    tables: dict[Predicate, list[tuple[str, ...]]] = {}
    for name, *values in facts:
        tables.setdefault(Predicate(name, len(values)), []).append(tuple(values))
    source = MemorySource()
    for predicate, rows in tables.items():
        source.add_rows(predicate, [*rows, *rows[::2]])
    return source
