"""Is this program safe, within its role, stratified, within limits? Before any fact exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final

from lace.datalog.ast import (
    Anonymous,
    Atom,
    Cardinality,
    Compare,
    Negated,
    NotEqual,
    Rule,
    Span,
    TextShape,
    Variable,
    atom_of,
    tested_terms,
    variables,
)
from lace.datalog.canonical import Lacegram
from lace.datalog.parse import Form, ParsedText, parse_lacegram
from lace.datalog.roles import FREE, Role
from lace.datalog.stratify import Cycle, stratify
from lace.errors import Code, Diagnostic, LacegramError, Severity
from lace.limits import DEFAULT_LIMITS, Limits

_ADVICE_SHOWN: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedText:
    """A text with everything that is wrong with it; ``lacegram`` raises unless it is usable."""

    parsed: ParsedText
    diagnostics: tuple[Diagnostic, ...]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    @property
    def lacegram(self) -> Lacegram:
        if self.errors:
            raise LacegramError(self.errors)
        return self.parsed.lacegram


def check_lacegram(
    source: str | bytes,
    role: Role = FREE,
    *,
    form: Form = "authoring",
    limits: Limits = DEFAULT_LIMITS,
) -> CheckedText:
    """Read a text and judge it under a role; never raises for what is in it."""
    parsed = parse_lacegram(source, form, limits)
    found = [*parsed.diagnostics, *check_rules(parsed.rules, role, limits, advice=True)]
    found.sort(key=lambda d: (d.line, d.column, d.code))
    return CheckedText(parsed=parsed, diagnostics=tuple(found))


def check_rules(
    rules: list[Rule], role: Role, limits: Limits, *, advice: bool = False
) -> Iterator[Diagnostic]:
    """Yield what is wrong with parsed rules, and advice for their author if asked for."""
    if len(rules) > limits.rules:
        message = f"{len(rules)} rules, at most {limits.rules}"
        yield _at(rules[limits.rules].span, Code.LACEGRAM_LIMIT, message)
        return
    long = [rule for rule in rules if len(rule.body) > limits.body_atoms]
    for rule in long:
        message = f"{len(rule.body)} body atoms, at most {limits.body_atoms}"
        yield _at(rule.span, Code.LACEGRAM_LIMIT, message)
    if long:
        return
    for rule in rules:
        yield from _check_names(rule, role, limits)
        yield from _check_safety(rule)
    yield from _check_strata(rules)
    if advice:
        yield from islice(_advice(rules, role), _ADVICE_SHOWN)


def _check_names(rule: Rule, role: Role, limits: Limits) -> Iterator[Diagnostic]:
    head = rule.head.predicate
    if head in role.base:
        yield _at(rule.head.span, Code.LACEGRAM_SHADOW, f"{head} is supplied, not defined by rules")
    elif not role.may_define(head):
        yield _at(
            rule.head.span, Code.LACEGRAM_RESERVED, f"no {role.name} module may define {head}"
        )
    for atom in _atoms(rule):
        predicate = atom.predicate
        if predicate.arity > limits.arity:
            message = f"{predicate}: at most {limits.arity} values"
            yield _at(atom.span, Code.LACEGRAM_LIMIT, message)
        if predicate.name.startswith("_") and not role.allows_local:
            yield _at(atom.span, Code.LACEGRAM_LOCAL, f"{predicate} in a shared module")
        if atom is not rule.head and not role.may_mention(predicate):
            message = f"no {role.name} module may mention {predicate}"
            yield _at(atom.span, Code.LACEGRAM_RESERVED, message)


def _check_safety(rule: Rule) -> Iterator[Diagnostic]:
    bound = {name for part in rule.body if isinstance(part, Atom) for name in variables(part.terms)}
    for term in rule.head.terms:
        if isinstance(term, Anonymous):
            yield _at(rule.head.span, Code.LACEGRAM_ANONYMOUS, "_ in the head of a rule")
    yield from _unsafe(variables(rule.head.terms), bound, rule.head.span, "the head")
    # A variable that only negated or counted atoms share is bound by none of them (A9).
    outside = _seen_outside_counts(rule)
    counting = Counter(
        name
        for part in rule.body
        if isinstance(part, Cardinality)
        for name in set(variables(part.atom.terms))
    )
    for part in rule.body:
        match part:
            case Negated():
                yield from _unsafe(variables(part.atom.terms), bound, part.span, "a negated atom")
            case NotEqual() | Compare() | TextShape():
                if any(isinstance(term, Anonymous) for term in tested_terms(part)):
                    yield _at(part.span, Code.LACEGRAM_ANONYMOUS, "_ in a built-in")
                names = variables(tested_terms(part))
                yield from _unsafe(names, bound, part.span, "a built-in")
            case Cardinality():
                if isinstance(part.bound, Variable):
                    yield from _unsafe([part.bound.name], bound, part.span, "a Cardinality bound")
                names = variables(part.atom.terms)
                shared = [name for name in names if name in outside or counting[name] > 1]
                yield from _unsafe(shared, bound, part.span, "a counted atom and outside it")


def _seen_outside_counts(rule: Rule) -> set[str]:
    names = set(variables(rule.head.terms))
    for part in rule.body:
        match part:
            case Atom():
                names.update(variables(part.terms))
            case Negated():
                names.update(variables(part.atom.terms))
            case NotEqual() | Compare() | TextShape():
                names.update(variables(tested_terms(part)))
            case Cardinality(bound=Variable(name)):
                names.add(name)
    return names


def _unsafe(names: Iterable[str], bound: set[str], span: Span, where: str) -> Iterator[Diagnostic]:
    for name in dict.fromkeys(names):
        if name not in bound:
            message = f"{name} in {where} is not bound by a positive atom"
            yield _at(span, Code.LACEGRAM_UNSAFE, message)


def _check_strata(rules: list[Rule]) -> Iterator[Diagnostic]:
    result = stratify(rules)
    if isinstance(result, Cycle):
        yield _at(result.span, Code.LACEGRAM_UNSTRATIFIED, f"unstratified: {result.spelled_out}")


def _advice(rules: list[Rule], role: Role) -> Iterator[Diagnostic]:
    derived = {rule.head.predicate for rule in rules}
    known = derived | role.base
    names = sorted({p.name for p in known})
    for rule in rules:
        for atom in _atoms(rule)[1:]:
            if atom.predicate not in known:
                near = get_close_matches(atom.name, names, n=1, cutoff=0.75)
                hint = f"Did you mean {near[0]}?" if near and near[0] != atom.name else ""
                if near and near[0] == atom.name:
                    arities = sorted(p.arity for p in known if p.name == atom.name)
                    hint = f"{atom.name} has {' or '.join(map(str, arities))} arguments."
                yield _at(
                    atom.span,
                    Code.LACEGRAM_UNKNOWN_PREDICATE,
                    f"no rule defines {atom.predicate}",
                    severity=Severity.WARNING,
                    hint=hint,
                )
        negations = [part for part in rule.body if isinstance(part, Negated)]
        positive = {part.predicate for part in rule.body if isinstance(part, Atom)}
        if negations and not positive & role.base and not positive & derived:
            yield _at(
                negations[0].span,
                Code.LACEGRAM_UNBOUNDED,
                "nothing bounds this negation",
                severity=Severity.WARNING,
            )


def _atoms(rule: Rule) -> list[Atom]:
    """Return the head, then every predicate atom of the body."""
    return [rule.head, *(atom for part in rule.body if (atom := atom_of(part)) is not None)]


def _at(span: Span, code: Code, message: str, **more: Any) -> Diagnostic:
    hint = more.pop("hint", "") or code.fix
    return Diagnostic(
        code=code, message=message, line=span.line, column=span.column, length=span.length,
        hint=hint, **more,
    )  # fmt: skip
