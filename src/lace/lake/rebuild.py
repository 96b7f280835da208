"""Compiled rules as rules again: over relations that are known, instead of base facts.

What the in-process engine is to compute of a larger program is handed to it as a program of its
own, in which a view is a predicate like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lace.datalog.ast import (
    Anonymous,
    Atom,
    BodyAtom,
    Cardinality,
    Compare,
    Constant,
    Negated,
    NotEqual,
    Predicate,
    Rule,
    Term,
    TextShape,
    Truth,
    Variable,
)
from lace.datalog.program import Argument, CompiledRule, Relation, RuleProgram, View, ViewTest
from lace.lake.lower import view_arity


class ViewNames:
    """Names for the views of a program that none of its predicates has."""

    def __init__(self, program: RuleProgram) -> None:
        taken = {p.name for p in program.derived | program.base}
        self._stem = "_view"
        while any(name.startswith(self._stem) for name in taken):
            self._stem += "~"
        self._program = program

    def of(self, relation: Relation) -> Predicate:
        if isinstance(relation, Predicate):
            return relation
        arity = view_arity(self._program.views[relation])
        return Predicate(f"{self._stem}{relation}", arity)


def as_rule(rule: CompiledRule, names: ViewNames) -> Rule:
    """Return a rule that says the same over relations as its source says over base facts."""

    def term(argument: Argument) -> Term:
        if argument is None:
            return Anonymous()
        return Constant(argument) if isinstance(argument, str) else Variable(f"X{argument}")

    def atom(relation: Relation, arguments: Iterable[Argument]) -> Atom:
        return Atom(names.of(relation).name, tuple(map(term, arguments)))

    def counted(
        count_arguments: tuple[Argument, ...], same: Iterable[tuple[int, int]]
    ) -> list[Term]:
        terms = list(map(term, count_arguments))
        for number, pair in enumerate(same):
            local = next((terms[c] for c in pair if isinstance(terms[c], Variable)), None)
            for column in pair:
                terms[column] = local or Variable(f"L{number}")
        return terms

    body: list[BodyAtom] = [atom(join.relation, join.arguments) for join in rule.joins]
    body += [Negated(atom(absent.relation, absent.arguments)) for absent in rule.absents]
    for count in rule.counts:
        inner = Atom(names.of(count.relation).name, tuple(counted(count.arguments, count.same)))
        body.append(Cardinality(inner, count.operator, term(count.bound)))
    body += [_as_test(test, term) for test in rule.tests]
    head = Atom(rule.head.name, tuple(map(term, rule.head_arguments)))
    return Rule(head, tuple(body) or (Truth(),))


def _as_test(test: ViewTest, term: Callable[[Argument], Term]) -> BodyAtom:
    left, right, end = term(test.left), term(test.right), term(test.end)
    match test.kind:
        case "NotEqual":
            return NotEqual(left, right)
        case "TextShape":
            return TextShape(left, right, test.operator, end)
    return Compare(test.kind, left, test.operator, right)  # type: ignore[arg-type]


def view_rule(view: View, name: str) -> Rule:
    """Return a rule that derives the rows of a view from base facts."""

    def term(slot: Argument) -> Term:
        if slot is None:
            return Anonymous()
        return Constant(slot) if isinstance(slot, str) else Variable(f"L{slot}")

    if view.outputs is None:
        (pattern,) = view.patterns
        terms = [
            Variable(f"A{n}") if slot is None else term(slot)
            for n, slot in enumerate(pattern.slots)
        ]
        body: list[BodyAtom] = [Atom(pattern.predicate.name, tuple(terms))]
        head = Atom(name, tuple(terms))
    else:
        body = [Atom(p.predicate.name, tuple(map(term, p.slots))) for p in view.patterns]
        head = Atom(name, tuple(map(term, view.outputs)))
    return Rule(head, (*body, *(_as_test(test, term) for test in view.tests)))
