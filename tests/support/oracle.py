"""A naive evaluator, straight from the definition: slow, obvious, sharing nothing but the AST."""

from __future__ import annotations

import operator as operators
from collections.abc import Iterable, Iterator
from typing import Any

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
    atom_of,
)

Row = tuple[str, ...]
World = dict[Predicate, set[Row]]
Fact = tuple[Predicate, Row]
Binding = dict[str, str]


def naive(rules: Iterable[Rule], facts: Iterable[tuple[str, ...]]) -> World:
    """Return every derived fact."""
    world: World = {}
    for name, *values in facts:
        world.setdefault(Predicate(name, len(values)), set()).add(tuple(values))
    rules = list(rules)
    derived = {rule.head.predicate for rule in rules}
    for layer in _layers(rules):
        while True:
            new = {
                (rule.head.predicate, _ground(rule.head, binding))
                for rule in layer
                for binding in _solve(rule.body, world)
            }
            new = {(p, row) for p, row in new if row not in world.get(p, ())}
            if not new:
                break
            for predicate, row in new:
                world.setdefault(predicate, set()).add(row)
    return {predicate: world.get(predicate, set()) for predicate in derived}


def smallest_proofs(rules: Iterable[Rule], facts: Iterable[tuple[str, ...]]) -> dict[Fact, int]:
    """Return how many nodes the smallest proof of each fact has; base facts are one node."""
    facts = list(facts)
    rules = list(rules)
    sizes: dict[Fact, int] = {(Predicate(f[0], len(f) - 1), f[1:]): 1 for f in facts}
    world = naive(rules, facts)
    for predicate, row in list(sizes):
        world.setdefault(predicate, set()).add(row)
    steps = []
    for rule in rules:
        positive = [part for part in rule.body if isinstance(part, Atom)]
        for binding, rows in _matches(rule.body, world):
            premises = [(atom.predicate, row) for atom, row in zip(positive, rows, strict=True)]
            steps.append(((rule.head.predicate, _ground(rule.head, binding)), premises))
    changed = True
    while changed:
        changed = False
        for fact, premises in steps:
            if all(premise in sizes for premise in premises):
                size = 1 + sum(sizes[premise] for premise in premises)
                if size < sizes.get(fact, size + 1):
                    sizes[fact] = size
                    changed = True
    return sizes


def _layers(rules: list[Rule]) -> Iterator[list[Rule]]:
    """Yield rules in layers: whatever is negated or counted was complete in an earlier one."""
    level = {rule.head.predicate: 0 for rule in rules}
    changed = True
    while changed:
        changed = False
        for rule in rules:
            for part in rule.body:
                atom = atom_of(part)
                if atom is None or atom.predicate not in level:
                    continue
                needed = level[atom.predicate] + (not isinstance(part, Atom))
                if level[rule.head.predicate] < needed:
                    level[rule.head.predicate] = needed
                    changed = True
                    assert needed <= len(rules), "unstratified"
    for number in range(len(rules) + 1):
        layer = [rule for rule in rules if level[rule.head.predicate] == number]
        if layer:
            yield layer


def _solve(body: tuple[BodyAtom, ...], world: World) -> Iterator[Binding]:
    return (binding for binding, _ in _matches(body, world))


def _matches(body: tuple[BodyAtom, ...], world: World) -> Iterator[tuple[Binding, list[Row]]]:
    """Yield every way to satisfy a body, with the rows of its positive atoms."""
    positive = [part for part in body if isinstance(part, Atom)]
    rest = [part for part in body if not isinstance(part, Atom)]

    def extend(binding: Binding, rows: list[Row]) -> Iterator[tuple[Binding, list[Row]]]:
        if len(rows) == len(positive):
            if all(_holds(part, binding, world) for part in rest):
                yield binding, rows
            return
        atom = positive[len(rows)]
        for row in list(world.get(atom.predicate, ())):
            new = _match(atom.terms, row, binding)
            if new is not None:
                yield from extend(new, [*rows, row])

    return extend({}, [])


def _match(terms: tuple[Term, ...], row: Row, binding: Binding) -> Binding | None:
    new = dict(binding)
    for term, value in zip(terms, row, strict=True):
        if isinstance(term, Anonymous):
            continue
        expected = term.value if isinstance(term, Constant) else new.setdefault(term.name, value)
        if expected != value:
            return None
    return new


def _holds(part: BodyAtom, binding: Binding, world: World) -> bool:
    match part:
        case Truth():
            return True
        case Negated():
            rows = world.get(part.atom.predicate, set())
            return all(_match(part.atom.terms, row, binding) is None for row in rows)
        case Cardinality():
            rows = world.get(part.atom.predicate, set())
            count = sum(_match(part.atom.terms, row, binding) is not None for row in rows)
            bound = _value(part.bound, binding)
            return _is_integer(bound) and _ordered(count, part.operator, int(bound))
        case NotEqual():
            return _value(part.left, binding) != _value(part.right, binding)
        case Compare():
            left, right = _value(part.left, binding), _value(part.right, binding)
            if part.kind == "LexCompare":
                return _ordered(left.encode(), part.operator, right.encode())
            return (
                _is_integer(left)
                and _is_integer(right)
                and _ordered(int(left), part.operator, int(right))
            )
        case TextShape():
            text, start, end = (_value(t, binding) for t in (part.text, part.start, part.end))
            return _shape(text, start, end, part.delimiters)
    raise AssertionError(part)


def _shape(text: str, start: str, end: str, delimiters: str) -> bool:
    if not delimiters:
        return any(
            text == start + text[len(start) : len(start) + n] + end for n in range(len(text) + 1)
        )
    return any(
        text == start + segment + delimiter + end
        for n in range(1, len(text) + 1)
        for segment in [text[len(start) : len(start) + n]]
        for delimiter in delimiters
        if len(segment) == n and not set(segment) & set(delimiters)
    )


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return bool(digits) and all(c in "0123456789" for c in digits)


def _ordered(left: Any, operator: str, right: Any) -> bool:
    return bool(
        getattr(operators, {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[operator])(left, right)
    )


def _value(term: Term, binding: Binding) -> str:
    assert not isinstance(term, Anonymous)
    return term.value if isinstance(term, Constant) else binding[term.name]


def _ground(atom: Atom, binding: Binding) -> Row:
    return tuple(_value(term, binding) for term in atom.terms)
