"""Where each part of a program will run over a lake, in what order and why: a plan as a value.

A plan is made from the program alone and starts nothing. Where a decision hangs on how large a
relation turns out to be, the plan says so, with both ways; the evaluation finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from lace.datalog.ast import Predicate
from lace.datalog.canonical import canonical_rule
from lace.datalog.program import Absent, CompiledRule, Join, Relation, RuleProgram, View
from lace.datalog.stratify import Component
from lace.lake.facts import is_star, makes_several
from lace.vocabulary import HAVE, RECORD_FACTS


class Where(StrEnum):
    HERE = "on the driver"
    FILTER = "one pass over the records"
    JOINS = "joins on Spark"
    ROUNDS = "round by round on Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How large a relation may be to be taken here."""

    rows: int = 200_000
    """Of a relation that other rules use."""
    recursive_rows: int = 1_000_000
    """Of each relation that a recursion starts from."""
    sent_rows: int = 200_000
    """Of what is new in a round of a recursion, to be sent to every worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One component of a program, and where it runs."""

    component: Component
    rules: tuple[CompiledRule, ...]
    inputs: frozenset[Relation]
    """What has to be known before."""
    where: Where
    otherwise: Where | None
    """Where it runs if what it hangs on turns out to be too large; None: it hangs on nothing."""
    why: str
    is_used: bool
    """Whether other steps need what it derives."""


def plan(
    program: RuleProgram,
    outputs: Iterable[Predicate],
    placement: Placement | None = None,
    is_held: Callable[[Predicate], bool] = lambda predicate: predicate not in RECORD_FACTS,
) -> tuple[Step, ...]:
    """Return the steps that derive the outputs, in order; ``is_held`` tells facts held here."""
    made = placement or Placement()
    needed = needed_predicates(program, frozenset(outputs))
    used = {
        literal.relation
        for rule in program.rules
        if rule.head in needed
        for literal in rule.literals
    }
    steps: list[Step] = []
    certain: set[Relation] = {
        number for number, view in enumerate(program.views) if all(map(is_held, view.predicates))
    }
    for component in program.components:
        if not needed.issuperset(component.predicates):
            continue
        rules = tuple(rule for p in component.predicates for rule in program.rules_of[p])
        inside = set(component.predicates)
        inputs = frozenset({x.relation for rule in rules for x in rule.literals} - inside)
        where, otherwise, why = _placed(program, component, rules, inputs - certain, made)
        if where is Where.HERE and otherwise is None:
            certain |= inside
        steps.append(
            Step(
                component=component,
                rules=rules,
                inputs=inputs,
                where=where,
                otherwise=otherwise,
                why=why,
                is_used=bool(used & inside),
            )
        )
    return tuple(steps)


def _placed(
    program: RuleProgram,
    component: Component,
    rules: tuple[CompiledRule, ...],
    open_inputs: frozenset[Relation],
    placement: Placement,
) -> tuple[Where, Where | None, str]:
    """Return where a component runs, where else it might, and why."""
    if not open_inputs and (placement.rows or component.recursive):
        return Where.HERE, None, "all that it needs is held here"
    names = _named(program, open_inputs)
    if component.recursive:
        if not placement.recursive_rows:
            return Where.ROUNDS, None, "recursion, and nothing is to be brought here"
        most = f"{placement.recursive_rows:,}"
        return (
            Where.HERE,
            Where.ROUNDS,
            f"recursion, dear on Spark; hangs on at most {most} rows of {names}",
        )
    derived = frozenset(relation for relation in open_inputs if isinstance(relation, Predicate))
    if all(decides_by_record(program, rule) for rule in rules):
        if not derived:
            return Where.FILTER, None, "one look at a record decides"
        hangs = f"one look at a record decides, given the rows of {_named(program, derived)}"
        return Where.FILTER, Where.JOINS, f"{hangs}; hangs on their being few"
    if derived == open_inputs and placement.rows:
        most = f"{placement.rows:,}"
        return Where.HERE, Where.JOINS, f"hangs on at most {most} rows of {names}"
    return Where.JOINS, None, f"several records together decide, over {names}"


def decides_by_record(program: RuleProgram, rule: CompiledRule) -> bool:
    """Whether one look at a record can decide a rule, given the relations that it looks up."""
    stars = [join for join in rule.joins if isinstance(join.relation, int)]
    if len(stars) != 1 or rule.counts or len(rule.head_arguments) != 1:
        return False
    (star,) = stars
    assert isinstance(star.relation, int)
    view = program.views[star.relation]
    if not is_star(view) or view.outputs is None or any(map(makes_several, view.patterns)):
        return False
    key = view.patterns[0].slots[0]
    if (
        not isinstance(key, int)
        or star.arguments[view.outputs.index(key)] != rule.head_arguments[0]
    ):
        return False
    asked: list[Join | Absent] = [join for join in rule.joins if join is not star]
    asked += rule.absents
    return all(len({a for a in literal.arguments if isinstance(a, int)}) <= 1 for literal in asked)


def needed_predicates(program: RuleProgram, outputs: frozenset[Predicate]) -> frozenset[Predicate]:
    """Return the derived predicates that outputs depend on, themselves included."""
    found = set(outputs)
    queue = list(outputs)
    for predicate in queue:
        for rule in program.rules_of[predicate]:
            for literal in rule.literals:
                if isinstance(literal.relation, Predicate) and literal.relation not in found:
                    found.add(literal.relation)
                    queue.append(literal.relation)
    return frozenset(found)


def _named(program: RuleProgram, relations: Iterable[Relation]) -> str:
    """Return what people call relations."""
    names = {
        str(relation) if isinstance(relation, Predicate) else _view_name(program.views[relation])
        for relation in relations
    }
    return ", ".join(sorted(names)) or "nothing"


def _view_name(view: View) -> str:
    fields = sorted({
        str(pattern.slots[1])
        for pattern in view.patterns
        if len(pattern.slots) > 2 and isinstance(pattern.slots[1], str)
    })  # fmt: skip
    if fields:
        return f"records with {' and '.join(fields)}"
    if view.predicates == {HAVE}:
        return "all records"
    return " and ".join(sorted(map(str, view.predicates)))


def lines(steps: Iterable[Step]) -> Iterator[str]:
    """Yield a plan as text: each step with its rules, where it runs, and why."""
    for number, step in enumerate(steps, 1):
        names = ", ".join(map(str, step.component.predicates))
        where = str(step.where)
        if step.otherwise is not None:
            where += f", else {step.otherwise}"
        yield f"{number}. {names}: {where}"
        yield f"   {step.why}"
        for rule in step.rules:
            yield f"   {rule.id}  {canonical_rule(rule.source)}"
        if step.is_used and step.where is not Where.HERE:
            yield "   other steps need it: brought to the driver if it is small, else kept on disk"
