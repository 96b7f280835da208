"""What rules cost whatever the facts are: told before anything is evaluated.

Whoever evaluates rules of a stranger wants to know this from their text alone. What depends on the
facts is counted while it is done (``meter``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lace.datalog.ast import (
    Atom,
    Cardinality,
    Compare,
    NotEqual,
    Predicate,
    Rule,
    TextShape,
    atom_of,
    tested_terms,
    variables,
)
from lace.datalog.meter import choosing_cost, writing_cost
from lace.datalog.program import CompiledRule, Join, RuleProgram
from lace.errors import Code, Diagnostic
from lace.limits import Limits


def check_size(rules: Sequence[Rule], limits: Limits) -> Iterator[Diagnostic]:
    """Yield what is too large in parsed rules for a program to be made of them."""
    atoms = 0
    derived = {rule.head.predicate for rule in rules}
    for rule in rules:
        atoms += len(rule.body)
        if atoms > limits.peer_atoms:
            message = f"more than {limits.peer_atoms} body atoms in all rules up to this one"
            yield _at(rule, Code.LACEGRAM_COST, message)
            return
        joins = sum(isinstance(part, Atom) and part.predicate in derived for part in rule.body)
        if joins > limits.peer_joins:  # there may be more; these are told at once
            yield _at(rule, Code.LACEGRAM_COST, f"{joins} joins, at most {limits.peer_joins}")
        names = _variables(rule)
        if len(names) > limits.peer_variables:
            message = f"{len(names)} variables, at most {limits.peer_variables}"
            yield _at(rule, Code.LACEGRAM_COST, message)


def check_cost(
    program: RuleProgram, limits: Limits, small: frozenset[Predicate]
) -> Iterator[Diagnostic]:
    """Yield which rules of a program cost too much, and why.

    ``small`` names the base predicates that have a few facts however many records there are.
    """
    few = _small(program, small)
    dear: list[tuple[int, CompiledRule]] = []
    for rule in program.rules:
        if len(rule.joins) > limits.peer_joins:
            message = f"{len(rule.joins)} joins, at most {limits.peer_joins}"
            yield _at(rule.source, Code.LACEGRAM_COST, message)
        parts = _products(rule, program, few)
        if parts > limits.peer_products:
            message = (
                f"{parts} parts that share no variable, at most {limits.peer_products}: "
                "their facts are multiplied"
            )
            yield _at(rule.source, Code.LACEGRAM_COST, message)
        dear.append((preparing_cost(rule), rule))
    whole = sum(cost for cost, _ in dear)
    if whole > limits.peer_work:
        cost, rule = max(dear, key=lambda pair: pair[0])
        message = (
            f"to prepare all rules takes {whole} steps, at most {limits.peer_work}; "
            f"this one takes {cost}, more than any other"
        )
        yield _at(rule.source, Code.LACEGRAM_COST, message)


def preparing_cost(rule: CompiledRule) -> int:
    """Return about what it costs to prepare a rule for its first evaluation."""
    joins = len(rule.joins)
    others = len(rule.absents) + len(rule.counts) + len(rule.tests)
    return choosing_cost(joins) + writing_cost(joins, others)


def _small(program: RuleProgram, small: frozenset[Predicate]) -> set[Predicate]:
    """Return the predicates that have a few facts however many records there are."""
    few = set(small)
    for component in program.components:
        inside = set(component.predicates)
        rules = [rule for p in component.predicates for rule in program.rules_of[p]]
        if all(_predicates(join, program) <= few | inside for rule in rules for join in rule.joins):
            few |= inside
    return few


def _predicates(join: Join, program: RuleProgram) -> frozenset[Predicate]:
    if isinstance(join.relation, Predicate):
        return frozenset((join.relation,))
    return program.views[join.relation].predicates


def _products(rule: CompiledRule, program: RuleProgram, few: set[Predicate]) -> int:
    """Return how many parts of a rule share no variable, without those that have few facts."""
    parts: list[tuple[set[int], bool]] = []
    for join in rule.joins:
        if not join.arguments:
            continue  # it holds, or it does not
        names = {a for a in join.arguments if isinstance(a, int)}
        large = not _predicates(join, program) <= few
        apart = []
        for others, was_large in parts:
            if others & names:
                names |= others
                large = large or was_large
            else:
                apart.append((others, was_large))
        parts = [*apart, (names, large)]
    return sum(large for _, large in parts)


def _variables(rule: Rule) -> set[str]:
    names = set(variables(rule.head.terms))
    for part in rule.body:
        atom = atom_of(part)
        if atom is not None:
            names.update(variables(atom.terms))
        if isinstance(part, Cardinality):
            names.update(variables((part.bound,)))
        if isinstance(part, NotEqual | Compare | TextShape):
            names.update(variables(tested_terms(part)))
    return names


def _at(rule: Rule, code: Code, message: str) -> Diagnostic:
    span = rule.head.span
    return Diagnostic(
        code=code, message=f"{rule.head.predicate}: {message}", line=span.line,
        column=span.column, length=span.length, hint=code.fix,
    )  # fmt: skip
