"""Policy modules: canonical rules together with what they are for (spec 040)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import islice
from typing import Final

from lace.datalog.ast import (
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
    Variable,
    atom_of,
)
from lace.datalog.canonical import Lacegram, LacegramId, canonical_lacegram
from lace.datalog.check import check_rules
from lace.datalog.cost import check_cost, check_size
from lace.datalog.parse import parse_canonical
from lace.datalog.program import RuleProgram
from lace.datalog.roles import Role
from lace.errors import Code, Diagnostic, LacegramError, PolicyError, Severity
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.apart import Guard, guards_of, names_matter
from lace.rules import check_lacegram, compile_program
from lace.text import line_fault
from lace.vocabulary import (
    ADVERTISED_FIELD,
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    EXPOSE,
    RUNTIME_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    SELECTOR,
)

_NAME: Final = 2
_BRACES: Final = re.compile(r"\{([a-z0-9]+(?:[_-][a-z0-9]+)*)\}")
_PROBLEMS_SHOWN: Final = 20


class Facet(StrEnum):
    """What a module is for."""

    SELECTOR = "selector"
    """Says which records are selected; exchanged with the peer."""
    EXPOSE = "expose"
    """Says which records a viewer's rules may see; stays here."""


_ROLES: Final[dict[Facet, Role]] = {Facet.SELECTOR: SELECTOR, Facet.EXPOSE: EXPOSE}
_EXPORTS: Final = {
    Facet.SELECTOR: (SELECT_HAVE, SELECT_ADVERTISED),
    Facet.EXPOSE: (ALLOW_QUERY_RECORD,),
}


@dataclass(frozen=True)
class PolicyModule:
    """Rules that were checked under their facet; there is no other way to get one."""

    facet: Facet
    """What the rules are for."""
    lacegram: Lacegram
    """The rules."""
    views: tuple[PolicyModule, ...] = field(default=(), compare=False, repr=False)
    """The expose modules of what this selects, for whoever does not say what is exposed."""

    @cached_property
    def id(self) -> LacegramId:
        """The id of the rules, by which peers name them."""
        return self.lacegram.id

    @cached_property
    def text(self) -> str:
        """The canonical text, as it is exchanged and hashed."""
        return self.lacegram.text

    @cached_property
    def program(self) -> RuleProgram:
        """The rules, ready to be evaluated."""
        return compile_program(self.lacegram)

    @cached_property
    def required_fields(self) -> frozenset[str] | None:
        """The advertised fields that the rules look at; None for all of them (040-FLD)."""
        names: set[str] = set()
        for rule in self.lacegram.rules:
            for part in rule.body:
                atom = atom_of(part)
                if atom is not None and atom.predicate == ADVERTISED_FIELD:
                    name = atom.terms[_NAME]
                    if not isinstance(name, Constant):
                        return None
                    names.add(name.value)
        return frozenset(names)

    @cached_property
    def adverts_stand_alone(self) -> bool:
        """Whether an advertisement matters to nothing but the request of its own record."""
        rules = self.lacegram.rules
        follows: defaultdict[Predicate, set[Predicate]] = defaultdict(set)
        for rule in rules:
            for atom in atoms_of(rule):
                follows[atom.predicate].add(rule.head.predicate)
        spoken_of = set(ADVERTISEMENT_FACTS)  # and everything that follows from them
        fresh = list(spoken_of)
        while fresh:
            new = follows[fresh.pop()] - spoken_of
            spoken_of |= new
            fresh += new
        return SELECT_HAVE not in spoken_of and all(
            atom.terms[:2] == rule.head.terms[:2]  # record and source
            for rule in rules
            for atom in atoms_of(rule)
            if atom.predicate in spoken_of
        )

    @cached_property
    def offers_by_adverts(self) -> bool:
        """Whether an advertisement can have a part in what is offered."""
        return any(True for _ in feedback(self.lacegram.rules))

    @cached_property
    def guards(self) -> frozenset[Guard] | None:
        """How to tell the records that others depend on; None if those may be any records."""
        return guards_of(self.lacegram.rules)

    @cached_property
    def names_matter(self) -> bool:
        """Whether it may decide otherwise on records that differ in nothing but their names."""
        return names_matter(self.lacegram.rules)

    def mentions(self, name: str) -> bool:
        """Whether any rule looks at a predicate of this name."""
        return name in self._mentioned

    @cached_property
    def _mentioned(self) -> frozenset[str]:
        atoms = (atom_of(part) for rule in self.lacegram.rules for part in rule.body)
        return frozenset(atom.name for atom in atoms if atom is not None)

    def viewers(self) -> frozenset[str] | None:
        """Return the viewers an expose module speaks of; None if it speaks of any (A18)."""
        viewers: set[str] = set()
        for rule in self.lacegram.rules:
            if rule.head.predicate == ALLOW_QUERY_RECORD:
                viewer = rule.head.terms[0]
                if not isinstance(viewer, Constant):
                    return None
                viewers.add(viewer.value)
        return frozenset(viewers)


def atoms_of(rule: Rule) -> Iterator[Atom]:
    """Yield the atoms of a body, negated and counted ones too."""
    return filter(None, map(atom_of, rule.body))


def facet_of(text: str) -> Facet:
    """Return the facet of a role text, or raise; unknown facets are refused (040-FAC-07)."""
    try:
        return Facet(text)
    except ValueError:
        raise PolicyError("unknown facet", code=Code.POLICY_FACET) from None


def module_from_text(
    source: str | bytes,
    facet: Facet = Facet.SELECTOR,
    limits: Limits = DEFAULT_LIMITS,
    **parameters: str,
) -> PolicyModule:
    """Return the module of an author's text; raise ``LacegramError`` with everything wrong.

    ``parameters`` fill in names in braces: with ``owner=…`` the constant ``'{owner}'`` has that
    value. Where any is given, all that the rules name must be, and no others.
    """
    checked = check_lacegram(source, _ROLES[facet], limits=limits)
    problems = (*checked.errors, *_missing_exports(checked.parsed.rules, facet))
    if problems:
        raise LacegramError(problems)
    if not parameters:
        return PolicyModule(facet, checked.lacegram)
    return filled(PolicyModule(facet, checked.lacegram), parameters, limits)


def open_names(module: PolicyModule) -> frozenset[str]:
    """Return the names in braces that constants of a module have."""
    found: set[str] = set()

    def look(constant: Constant) -> Constant:
        found.update(_BRACES.findall(constant.value))
        return constant

    for rule in module.lacegram.rules:
        _with_constants(rule, look)
    return frozenset(found)


def filled(
    module: PolicyModule, parameters: Mapping[str, str], limits: Limits = DEFAULT_LIMITS
) -> PolicyModule:
    """Return a module with its names in braces filled in; raise ``PolicyError`` if they differ."""
    names = open_names(module)
    for name in sorted(names - set(parameters)):
        raise PolicyError(f"the rules leave {{{name}}} open", code=Code.POLICY_PARAMETER)
    for name in sorted(set(parameters) - names):
        known = ", ".join(f"{{{known}}}" for known in sorted(names)) or "none"
        raise PolicyError(
            f"the rules have no {{{name}}}; they have {known}", code=Code.POLICY_PARAMETER
        )

    def fill(constant: Constant) -> Constant:
        value = _BRACES.sub(lambda found: parameters[found[1]], constant.value)
        code = line_fault(value)
        if code is not None:
            raise PolicyError(f"a parameter cannot be used: {code.meaning}", code=code)
        return Constant(value)

    rules = tuple(_with_constants(rule, fill) for rule in module.lacegram.rules)
    return module_from_rules(rules, module.facet, limits)


def _with_constants(rule: Rule, change: Callable[[Constant], Constant]) -> Rule:
    """Return a rule with each constant changed."""

    def term(old: Term) -> Term:
        return change(old) if isinstance(old, Constant) else old

    def atom(old: Atom) -> Atom:
        return replace(old, terms=tuple(map(term, old.terms)))

    def part(old: BodyAtom) -> BodyAtom:
        match old:
            case Atom():
                return atom(old)
            case Negated():
                return replace(old, atom=atom(old.atom))
            case Cardinality():
                return replace(old, atom=atom(old.atom), bound=term(old.bound))
            case TextShape():
                return replace(old, text=term(old.text), start=term(old.start), end=term(old.end))
            case NotEqual() | Compare():
                return replace(old, left=term(old.left), right=term(old.right))
        return old

    return Rule(atom(rule.head), tuple(map(part, rule.body)), rule.span)


def module_from_peer(
    content: bytes, announced: str, facet: Facet, limits: Limits = DEFAULT_LIMITS
) -> PolicyModule:
    """Return the module that a peer announced; its bytes must be canonical and match the id.

    Rules that cost too much by themselves are refused before anything is made of them.
    """
    length = min(limits.lacegram_bytes, limits.peer_lacegram_bytes)
    lacegram = parse_canonical(content, replace(limits, lacegram_bytes=length))
    if lacegram.id != announced:
        raise PolicyError(
            f"the module is {lacegram.id}, announced was another", code=Code.POLICY_MODULE_ID
        )
    _refuse(check_size(lacegram.rules, limits))
    module = module_from_rules(lacegram.rules, facet, limits)
    _refuse(foreign_faults(module, limits))
    return module


def foreign_faults(module: PolicyModule, limits: Limits = DEFAULT_LIMITS) -> Iterator[Diagnostic]:
    """Yield why a peer would refuse a module, whatever its records are."""
    size = len(module.text.encode())
    if size > limits.peer_lacegram_bytes:
        message = f"the rules take {size} bytes, at most {limits.peer_lacegram_bytes}"
        code = Code.LACEGRAM_TOO_LONG
        yield Diagnostic(code=code, message=message, line=1, column=1, hint=code.fix)
    oversized = list(check_size(module.lacegram.rules, limits))
    yield from oversized or check_cost(module.program, limits, RUNTIME_FACTS)


def feedback(rules: Iterable[Rule]) -> Iterator[Diagnostic]:
    """Yield a warning for each advertisement that has a part in what is offered.

    Two sides that offer by what the other one offers may never come to rest: what one takes back
    makes the other one offer, and the other way round, up to the limit of loops.
    """
    parts: defaultdict[Predicate, list[tuple[Atom, bool]]] = defaultdict(list)
    for rule in rules:
        for part in rule.body:
            if (atom := atom_of(part)) is not None:
                is_test = isinstance(part, Negated | Cardinality)
                parts[rule.head.predicate].append((atom, is_test))
    turns = {SELECT_HAVE: False}  # whether a negation or a count lies on the way to a predicate
    fresh = [SELECT_HAVE]
    while fresh:
        head = fresh.pop()
        for atom, is_test in parts.get(head, ()):
            turned = turns[head] or is_test
            if turned > turns.get(atom.predicate, -1):
                turns[atom.predicate] = turned
                fresh.append(atom.predicate)
    for head, turned in turns.items():
        for atom, is_test in parts.get(head, ()):
            if atom.predicate not in ADVERTISEMENT_FACTS:
                continue
            message = f"SelectHave depends on {atom.predicate}, which the peer says"
            if is_test or turned:
                message += ", by way of a negation or a count: an exchange may never come to rest"
            code, span = Code.POLICY_FEEDBACK, atom.span
            yield Diagnostic(
                code=code, message=message, line=span.line, column=span.column,
                length=span.length, severity=Severity.WARNING, hint=code.fix,
            )  # fmt: skip


def _refuse(problems: Iterator[Diagnostic]) -> None:
    found = tuple(islice(problems, _PROBLEMS_SHOWN))
    if found:
        raise LacegramError(found)


def module_from_rules(
    rules: tuple[Rule, ...], facet: Facet = Facet.SELECTOR, limits: Limits = DEFAULT_LIMITS
) -> PolicyModule:
    """Return the module of rules, checked like any other."""
    found = (*check_rules(list(rules), _ROLES[facet], limits), *_missing_exports(rules, facet))
    errors = tuple(d for d in found if d.severity is Severity.ERROR)
    if errors:
        raise LacegramError(errors)
    return PolicyModule(facet, canonical_lacegram(rules))


def combine(modules: tuple[PolicyModule, ...]) -> PolicyModule:
    """Return one selector that selects what all of them select (040-MOD-04).

    The helpers of each are kept apart by a number; what comes out is an ordinary module.
    """
    if len(modules) == 1:
        return modules[0]
    rules: list[Rule] = []
    for number, module in enumerate(modules):
        names = {p: f"m{number}_{p.name}" for p in module.program.derived}
        rules += [renamed(rule, names) for rule in module.lacegram.rules]
    for export, variables in ((SELECT_HAVE, "P"), (SELECT_ADVERTISED, "PS")):
        terms = tuple(map(Variable, variables))
        body = tuple(Atom(f"m{i}_{export.name}", terms) for i in range(len(modules)))
        rules.append(Rule(Atom(export.name, terms), body))
    return replace(module_from_rules(tuple(rules)), views=views_of(modules))


def views_of(modules: Iterable[PolicyModule]) -> tuple[PolicyModule, ...]:
    """Return the views of some modules, each once; together they show what all of them show."""
    return tuple({view.id: view for module in modules for view in module.views}.values())


def renamed(rule: Rule, names: Mapping[Predicate, str]) -> Rule:
    """Return a rule with other names for some predicates, wherever they stand."""

    def atom(old: Atom) -> Atom:
        return replace(old, name=names.get(old.predicate, old.name))

    def part(old: BodyAtom) -> BodyAtom:
        match old:
            case Atom():
                return atom(old)
            case Negated() | Cardinality():
                return replace(old, atom=atom(old.atom))
        return old

    body = tuple(part(old) for old in rule.body)
    return Rule(atom(rule.head), body, rule.span)


def _missing_exports(rules: tuple[Rule, ...] | list[Rule], facet: Facet) -> list[Diagnostic]:
    defined = {rule.head.predicate for rule in rules}
    return [
        Diagnostic(
            code=Code.POLICY_EXPORT,
            message=f"no rule of the {facet} module defines {export}",
            line=1,
            column=1,
            hint=Code.POLICY_EXPORT.fix,
        )
        for export in _EXPORTS[facet]
        if export not in defined
    ]
