"""The intermediate form that every evaluator takes: what to compute, nothing of how (RuleProgram).

Base facts enter a program through *views*. A view names the facts it needs, the tests on them that
need nothing else, and the columns that rules go on with. All atoms about named fields of the same
row of a wide table become one view, a *star*, with one row for each way the fields can satisfy them
together; only the fields that a program mentions are ever looked at. What is left of a rule are
joins of views and derived predicates. Which tables are wide is told by a ``Schema``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from lace.datalog.ast import (
    Anonymous,
    Atom,
    Cardinality,
    Compare,
    Constant,
    Negated,
    NotEqual,
    Operator,
    Predicate,
    Rule,
    Term,
    Test,
    TextShape,
    Truth,
    Variable,
    tested_terms,
    variables,
)
from lace.datalog.canonical import Lacegram, RuleId
from lace.datalog.schema import NOTHING_KNOWN, Schema, WideTable
from lace.datalog.stratify import Component, Cycle, stratify
from lace.errors import Code, Diagnostic, LacegramError

Slot = str | int | None
"""In a view: a constant, the number of a local column, or anything."""


@dataclass(frozen=True, slots=True)
class ViewTest:
    """A test on constants (text) and columns of a view or variables of a rule (numbers)."""

    kind: Literal["IntCompare", "LexCompare", "TextShape", "NotEqual"]
    left: str | int
    operator: str
    """The operator of a comparison, or the delimiters of a TextShape."""
    right: str | int
    end: str | int = ""
    """Of a TextShape only; there ``left`` is the text and ``right`` its start."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Facts of one base predicate, slot by slot."""

    predicate: Predicate
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Rows made of base facts alone: all patterns hold together, then the tests, then the output.

    Patterns of one star share their key slots, so that they are joined by key alone.
    """

    patterns: tuple[Pattern, ...]
    width: int
    """How many local columns there are."""
    tests: tuple[ViewTest, ...]
    outputs: tuple[int, ...] | None
    """The local columns that make up a row; None if a row is the fact itself."""
    key: int = 0
    """How many slots of each pattern make up the key of a star."""

    @property
    def predicates(self) -> frozenset[Predicate]:
        return frozenset(pattern.predicate for pattern in self.patterns)


Relation = int | Predicate
"""The number of a view, or a derived predicate."""

Argument = str | int | None
"""In a rule: a constant, the number of a variable, or anything."""


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of a relation that fit these arguments; binds the variables among them."""

    relation: Relation
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """No row of a relation fits these arguments."""

    relation: Relation
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows of a relation fit these arguments, compared with a bound.

    ``same`` lists pairs of columns that must agree: a local variable used twice (A8).
    """

    relation: Relation
    arguments: tuple[Argument, ...]
    same: tuple[tuple[int, int], ...]
    operator: Operator
    bound: str | int


Literal_ = Join | Absent | Count


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRule:
    """One rule over views and derived predicates."""

    id: RuleId
    source: Rule
    head: Predicate
    head_arguments: tuple[str | int, ...]
    variables: tuple[str, ...]
    """Names of the numbered variables."""
    joins: tuple[Join, ...]
    absents: tuple[Absent, ...]
    counts: tuple[Count, ...]
    tests: tuple[ViewTest, ...]

    @property
    def literals(self) -> tuple[Literal_, ...]:
        return (*self.joins, *self.absents, *self.counts)


@dataclass(frozen=True)
class RuleProgram:
    """A checked lacegram, ready for any evaluator; immutable."""

    lacegram: Lacegram
    """The rules that it was made from."""
    views: tuple[View, ...]
    """Joins of base facts that the rules look at."""
    rules: tuple[CompiledRule, ...]
    """The rules, in the order in which they are evaluated."""
    components: tuple[Component, ...]
    """Derived predicates in the order in which they become complete."""
    schema: Schema = NOTHING_KNOWN
    """What it was compiled for."""

    @cached_property
    def derived(self) -> frozenset[Predicate]:
        """The predicates that rules define."""
        return frozenset(rule.head for rule in self.rules)

    @cached_property
    def rules_of(self) -> dict[Predicate, tuple[CompiledRule, ...]]:
        """The rules of each derived predicate."""
        rules: dict[Predicate, list[CompiledRule]] = {}
        for rule in self.rules:
            rules.setdefault(rule.head, []).append(rule)
        return {predicate: tuple(some) for predicate, some in rules.items()}

    @cached_property
    def base(self) -> frozenset[Predicate]:
        """The base predicates that the program looks at."""
        return frozenset(predicate for view in self.views for predicate in view.predicates)

    @cached_property
    def only_counted(self) -> frozenset[Predicate]:
        """Derived, not recursive, and used in no other way than by being counted."""
        recursive = {p for c in self.components if c.recursive for p in c.predicates}
        uses: dict[Predicate, set[type]] = {}
        for rule in self.rules:
            for literal in rule.literals:
                if isinstance(literal.relation, Predicate):
                    uses.setdefault(literal.relation, set()).add(type(literal))
        return frozenset(p for p, kinds in uses.items() if kinds == {Count} and p not in recursive)


def compile_program(lacegram: Lacegram, schema: Schema = NOTHING_KNOWN) -> RuleProgram:
    """Return the program of a checked lacegram; what it derives does not depend on the schema."""
    components = stratify(lacegram.rules)
    if isinstance(components, Cycle):
        problem = Diagnostic(
            code=Code.LACEGRAM_UNSTRATIFIED, message=components.spelled_out,
            line=components.span.line, column=components.span.column,
            hint=Code.LACEGRAM_UNSTRATIFIED.fix,
        )  # fmt: skip
        raise LacegramError((problem,))
    derived = frozenset(rule.head.predicate for rule in lacegram.rules)
    views: dict[View, int] = {}
    rules = tuple(
        _RuleCompiler(rule, id, derived, views, schema).compile()
        for rule, id in zip(lacegram.rules, lacegram.rule_ids, strict=True)
    )
    return RuleProgram(lacegram, tuple(views), rules, components, schema)


_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def window_rules(rule: CompiledRule, first: Join, column: int) -> tuple[CompiledRule, ...] | None:
    """Return the rule with a second value of one column that must fail where the first passes.

    The first join of each takes rows with the second value at their end. There is one rule for each
    comparison that can fail; None if the column is used for anything but comparisons.
    """
    variable = first.arguments[column]
    if not isinstance(variable, int) or first.arguments.count(variable) != 1:
        return None
    others = [join for join in rule.joins if join is not first]
    used = [
        *rule.head_arguments,
        *(a for join in others for a in join.arguments),
        *(a for absent in rule.absents for a in absent.arguments),
        *(a for count in rule.counts for a in count.arguments),
        *(count.bound for count in rule.counts),
    ]
    comparing = [t for t in rule.tests if variable in {t.left, t.right, t.end}]
    if variable in used or any(t.kind != "LexCompare" or t.left == t.right for t in comparing):
        return None
    second = len(rule.variables)
    return tuple(
        replace(
            rule,
            variables=(*rule.variables, ""),
            joins=(Join(first.relation, (*first.arguments, second)), *others),
            tests=(
                *rule.tests,
                ViewTest(
                    "LexCompare",
                    second if test.left == variable else test.left,
                    _OPPOSITE[test.operator],
                    second if test.right == variable else test.right,
                ),
            ),
        )
        for test in comparing
    )


class _RuleCompiler:
    """Turns one rule into joins of views and derived predicates."""

    def __init__(
        self,
        rule: Rule,
        id: RuleId,
        derived: frozenset[Predicate],
        views: dict[View, int],
        schema: Schema,
    ) -> None:
        self._rule = rule
        self._id = id
        self._derived = derived
        self._views = views
        self._schema = schema
        self._numbers: dict[str, int] = {}
        self._tests: list[Test] = [
            part for part in rule.body if isinstance(part, NotEqual | Compare | TextShape)
        ]
        self._uses = self._count_uses()
        self._groups = self._group_atoms()

    def compile(self) -> CompiledRule:
        joins = [self._join(group) for group in self._groups]
        absents = [self._absent(p.atom) for p in self._rule.body if isinstance(p, Negated)]
        counts = [self._count(p) for p in self._rule.body if isinstance(p, Cardinality)]
        tests = tuple(view_test(test, self._argument) for test in self._tests)
        head = tuple(self._argument(term) for term in self._rule.head.terms)
        assert None not in head
        return CompiledRule(
            id=self._id,
            source=self._rule,
            head=self._rule.head.predicate,
            head_arguments=tuple(a for a in head if a is not None),
            variables=tuple(self._numbers),
            joins=tuple(joins),
            absents=tuple(absents),
            counts=tuple(counts),
            tests=tests,
        )

    # --- which atoms make up one view ---

    def _group_atoms(self) -> list[list[Atom]]:
        """Gather positive atoms: those of one star together, each other one alone."""
        groups: dict[object, list[Atom]] = {}
        for position, part in enumerate(self._rule.body):
            if isinstance(part, Atom):
                is_base = part.predicate not in self._derived
                key = _star_key(part, self._schema) if is_base else None
                groups.setdefault(position if key is None else key, []).append(part)
        return list(groups.values())

    # --- literals ---

    def _join(self, atoms: list[Atom]) -> Join:
        if atoms[0].predicate in self._derived:
            return Join(atoms[0].predicate, self._join_arguments(atoms))
        inside = {name for atom in atoms for name in variables(atom.terms)}
        pushed = [t for t in self._tests if inside >= set(variables(tested_terms(t)))]
        # A test without variables is decided anywhere; it stays with the rule.
        pushed = [t for t in pushed if any(True for _ in variables(tested_terms(t)))]
        gone = set(map(id, pushed))
        self._tests = [t for t in self._tests if id(t) not in gone]
        for test in pushed:
            self._uses.subtract(variables(tested_terms(test)))
        wanted = inside & self._used_outside(atoms)
        view, names = _build_view(atoms, pushed, wanted, self._schema)
        return Join(self._number_of(view), self._named(names))

    def _named(self, names: list[str | None]) -> tuple[Argument, ...]:
        return tuple(None if n is None else self._argument(Variable(n)) for n in names)

    def _join_arguments(self, atoms: list[Atom]) -> tuple[Argument, ...]:
        """Return arguments in which a variable that nothing else looks at is left open."""
        (atom,) = atoms
        repeats = Counter(variables(atom.terms))
        used = self._used_outside(atoms) | {name for name, times in repeats.items() if times > 1}
        return tuple(
            None if isinstance(t, Variable) and t.name not in used else self._argument(t)
            for t in atom.terms
        )

    def _used_outside(self, atoms: list[Atom]) -> set[str]:
        """Return the variables that the rest of the rule needs from these atoms."""
        inside = Counter(name for atom in atoms for name in variables(atom.terms))
        return {name for name, times in inside.items() if self._uses[name] > times}

    def _count_uses(self) -> Counter[str]:
        """Return how often each variable stands in the rule, without tests that views decide."""
        uses = Counter(variables(self._rule.head.terms))
        for part in self._rule.body:
            match part:
                case Atom():
                    uses.update(variables(part.terms))
                case Negated() | Cardinality():
                    uses.update(variables(part.atom.terms))
                    if isinstance(part, Cardinality):
                        uses.update(variables((part.bound,)))
                case NotEqual() | Compare() | TextShape():
                    uses.update(variables(tested_terms(part)))
                case Truth():
                    pass
        return uses

    def _absent(self, atom: Atom) -> Absent:
        if atom.predicate in self._derived:
            return Absent(atom.predicate, self._arguments(atom.terms))
        view, names = _build_view([atom], [], set(variables(atom.terms)), self._schema)
        return Absent(self._number_of(view), self._named(names))

    def _count(self, part: Cardinality) -> Count:
        bound = self._argument(part.bound)
        assert bound is not None
        terms = part.atom.terms
        if part.atom.predicate in self._derived:
            relation: Relation = part.atom.predicate
        else:
            # Every column that is not constant makes facts distinct, so all of them are kept.
            fresh = tuple(
                t if isinstance(t, Constant) else Variable(f"{i}") for i, t in enumerate(terms)
            )
            kept = {f"{i}" for i, t in enumerate(terms) if not isinstance(t, Constant)}
            view, names = _build_view([Atom(part.atom.name, fresh)], [], kept, self._schema)
            relation = self._number_of(view)
            terms = tuple(Anonymous() if name is None else terms[int(name)] for name in names)
        arguments: list[Argument] = []
        same: list[tuple[int, int]] = []
        first: dict[str, int] = {}
        for column, term in enumerate(terms):
            if isinstance(term, Variable) and term.name not in self._numbers:
                arguments.append(None)
                if term.name in first:
                    same.append((first[term.name], column))
                first.setdefault(term.name, column)
            else:
                arguments.append(self._argument(term))
        return Count(relation, tuple(arguments), tuple(same), part.operator, bound)

    def _arguments(self, terms: Iterable[Term]) -> tuple[Argument, ...]:
        return tuple(self._argument(term) for term in terms)

    def _argument(self, term: Term) -> Argument:
        match term:
            case Constant():
                return term.value
            case Variable():
                return self._numbers.setdefault(term.name, len(self._numbers))
            case Anonymous():
                return None

    def _number_of(self, view: View) -> int:
        return self._views.setdefault(view, len(self._views))


def _star_key(atom: Atom, schema: Schema) -> tuple[WideTable, tuple[Term, ...]] | None:
    """Return what atoms of one star have in common, or None if this is no part of a star."""
    table = schema.table_of(atom.predicate)
    if table is None:
        return None
    key = atom.terms[: table.key]
    if any(isinstance(term, Anonymous) for term in key):
        return None  # only known columns make a key
    named = atom.predicate == table.presence or isinstance(atom.terms[table.name], Constant)
    return (table, key) if named else None


def _build_view(
    atoms: Sequence[Atom], tests: Sequence[Test], wanted: set[str], schema: Schema
) -> tuple[View, list[str | None]]:
    """Return a view and what its columns are for: a variable of the rule, or None.

    A row must tell which facts made it, so that changes can be followed: a star keeps its key, and
    a row of any other view is the fact itself. Atoms are put into one order, so that equal views of
    different rules are one view.
    """
    ordered = sorted(dict.fromkeys(atoms), key=_atom_order)
    numbers: dict[str, int] = {}
    star = _star_key(ordered[0], schema)
    kept = wanted | (set(variables(ordered[0].terms[: star[0].key])) if star else set())

    def slot(term: Term) -> Slot:
        match term:
            case Constant():
                return term.value
            case Variable():
                return numbers.setdefault(term.name, len(numbers))
            case Anonymous():
                return None

    patterns = tuple(Pattern(atom.predicate, tuple(map(slot, atom.terms))) for atom in ordered)
    view_tests = tuple(sorted((view_test(test, slot) for test in tests), key=repr))
    if star is None:
        (atom,) = ordered
        names = [
            t.name if isinstance(t, Variable) and t.name in wanted else None for t in atom.terms
        ]
        return View(patterns, len(numbers), view_tests, None), names
    columns = [name for name in numbers if name in kept]
    outputs = tuple(numbers[name] for name in columns)
    names = [name if name in wanted else None for name in columns]
    return View(patterns, len(numbers), view_tests, outputs, star[0].key), names


def _atom_order(atom: Atom) -> tuple[object, ...]:
    """Constants first, so that the most selective pattern is looked at first."""
    constants = sum(isinstance(term, Constant) for term in atom.terms)
    return (
        -constants,
        atom.name,
        tuple((0, t.value) if isinstance(t, Constant) else (1, "") for t in atom.terms),
    )


def view_test(test: Test, number: Callable[[Term], Argument]) -> ViewTest:
    """Return a test on what ``number`` makes of its terms."""

    def value(term: Term) -> str | int:
        found = number(term)
        assert isinstance(found, str | int)
        return found

    match test:
        case NotEqual():
            return ViewTest("NotEqual", value(test.left), "", value(test.right))
        case Compare():
            return ViewTest(test.kind, value(test.left), test.operator, value(test.right))
        case TextShape():
            return ViewTest(
                "TextShape", value(test.text), test.delimiters, value(test.start), value(test.end)
            )
