"""Why a fact holds, and why it does not; paid for only when asked, without evaluating again.

Derivations of a fact are found by running its rules with the head bound, over the facts that are
already there. The smallest proof is the tree with the fewest nodes, found by settling facts in the
order of the size of their smallest proof; ties go to the first rule in canonical order and then to
the smallest premises, so that the answer never depends on chance.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lace.datalog.ast import (
    Anonymous,
    Atom,
    BodyAtom,
    Cardinality,
    Constant,
    Negated,
    Predicate,
    Term,
    TextShape,
    Truth,
    Variable,
    atom_of,
    tested_terms,
)
from lace.datalog.canonical import RuleId, canonical_part
from lace.datalog.counting import decide
from lace.datalog.evaluate import Evaluation
from lace.datalog.program import CompiledRule, view_test
from lace.datalog.source import Row
from lace.datalog.views import compile_test
from lace.errors import Code, LimitExceeded, UsageError
from lace.limits import FIXED
from lace.text import fact_line

Binding = dict[str, str]
GroundFact = tuple[Predicate, Row]

_NEAR_MISSES = 3


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """A fact, the rule that derived it (None for a base fact), and the proofs of its premises.

    A premise that is used twice is one object used twice: written out as a tree, a proof can be far
    larger than what is held.
    """

    fact: str
    """What is proven, as a fact line."""
    rule: RuleId | None = None
    """The rule that derived it; None for a base fact."""
    because: tuple[Proof, ...] = ()
    """The proofs of its premises."""
    conditions: tuple[str, ...] = ()
    """What else had to hold: negations, counts and tests, with the values they were about."""
    size: int = 1
    """How many nodes the tree has."""

    def __repr__(self) -> str:
        return f"<Proof of {self.fact} with {self.size} nodes>"


@dataclass(frozen=True, slots=True)
class FailedRule:
    """How far a rule got towards a fact that does not hold."""

    id: RuleId
    """The rule."""
    failed_atom: str
    """The first body atom that could not be satisfied, as written in the rule."""
    bindings: Binding
    """The values of the variables that the satisfied part had bound."""
    satisfied: int
    """How many body atoms, in the author's order, could be satisfied together."""
    near_misses: tuple[str, ...] = ()
    """Facts of the failed predicate that differ in the fewest values."""
    because: Proof | None = None
    """Where a negation failed: the smallest proof of a fact that it denies."""
    below: tuple[FailedRule, ...] = ()
    """Where a derived fact is missing: how far each rule got that could derive it, and so on down
    to what is missing in the end."""


@dataclass(slots=True)
class _Below:
    """What was asked on the way down, so that nothing is asked twice."""

    asked: set[tuple[Predicate, tuple[str | None, ...]]]
    depth: int = 0


@dataclass(slots=True)
class _Derivation:
    rule: CompiledRule
    binding: Binding
    premises: tuple[GroundFact, ...]


@dataclass(slots=True)
class Explainer:
    """Answers questions about one evaluation."""

    evaluation: Evaluation
    """What the questions are about."""
    _found: dict[GroundFact, list[_Derivation]] = field(default_factory=dict)

    # --- why ---

    def holds(self, predicate: Predicate, row: Row) -> bool:
        """Return whether a fact holds."""
        evaluation = self.evaluation
        if len(row) != predicate.arity:
            raise UsageError(f"{predicate} has no {len(row)} values", code=Code.FACT_ARITY)
        if predicate in evaluation.virtual:
            return evaluation.derivable(predicate, row)
        if predicate in evaluation.program.derived:
            return row in evaluation.rows(predicate)
        return next(evaluation.source.query(predicate, *row), None) is not None

    def why(self, predicate: Predicate, row: Row) -> Proof | None:
        """Return the smallest proof of a fact, or None if it does not hold."""
        goal = (predicate, row)
        if not self.holds(predicate, row):
            return None
        return self._tree(goal, self._settle(goal))

    def all_derivations(self, predicate: Predicate, row: Row) -> tuple[Proof, ...]:
        """Return a proof for each way the fact is derived in one step, smallest premises below."""
        if not self.holds(predicate, row):
            return ()
        chosen = self._settle((predicate, row))
        return tuple(
            self._proof((predicate, row), derivation, chosen)
            for derivation in self._derivations((predicate, row))
            if all(premise in chosen or self._is_base(premise) for premise in derivation.premises)
        )

    def _settle(self, goal: GroundFact) -> dict[GroundFact, _Derivation]:
        """Return the first step of the smallest proof of each fact that matters for the goal."""
        reached = self._reach(goal)
        waiting: dict[int, int] = {}
        users: dict[GroundFact, list[tuple[int, GroundFact, _Derivation]]] = {}
        cost: dict[int, int] = {}
        heap: list[tuple[int, str, int, GroundFact, _Derivation]] = []
        serial = 0
        for fact in reached:
            for derivation in self._derivations(fact):
                serial += 1
                derived = {p for p in derivation.premises if not self._is_base(p)}
                base = sum(1 for p in derivation.premises if self._is_base(p))
                waiting[serial] = len(derived)
                cost[serial] = 1 + base
                for premise in derived:
                    users.setdefault(premise, []).append((serial, fact, derivation))
                if not derived:
                    entry = (cost[serial], _text(fact), serial, fact, derivation)
                    heapq.heappush(heap, entry)
        size: dict[GroundFact, int] = {}
        chosen: dict[GroundFact, _Derivation] = {}
        while heap:
            amount, _, _, fact, derivation = heapq.heappop(heap)
            if fact in chosen:
                continue
            chosen[fact], size[fact] = derivation, amount
            if fact == goal:
                continue
            for number, user, use in users.get(fact, ()):
                waiting[number] -= 1
                cost[number] += amount * use.premises.count(fact)
                if waiting[number] == 0:
                    heapq.heappush(heap, (cost[number], _text(user), number, user, use))
        return chosen

    def _reach(self, goal: GroundFact) -> list[GroundFact]:
        """Return the derived facts that can play a part in a proof of the goal."""
        seen = {goal}
        queue = [goal]
        for fact in queue:
            for derivation in self._derivations(fact):
                for premise in derivation.premises:
                    if premise not in seen and not self._is_base(premise):
                        seen.add(premise)
                        queue.append(premise)
                        if len(seen) > FIXED.explained_facts:
                            raise LimitExceeded(
                                "explained facts",
                                configured=FIXED.explained_facts,
                                observed=len(seen),
                            )
        return queue

    def _tree(self, fact: GroundFact, chosen: dict[GroundFact, _Derivation]) -> Proof:
        """Build the tree without recursion: proofs can be thousands of steps deep."""
        built: dict[GroundFact, Proof] = {}
        stack = [fact]
        while stack:
            current = stack[-1]
            if current in built:
                stack.pop()
            elif self._is_base(current):
                built[current] = Proof(_text(current))
            else:
                missing = [p for p in chosen[current].premises if p not in built]
                if missing:
                    stack.extend(missing)
                else:
                    built[current] = _assemble(current, chosen[current], built)
        return built[fact]

    def _proof(
        self, fact: GroundFact, derivation: _Derivation, chosen: dict[GroundFact, _Derivation]
    ) -> Proof:
        built = {premise: self._tree(premise, chosen) for premise in derivation.premises}
        return _assemble(fact, derivation, built)

    def _is_base(self, fact: GroundFact) -> bool:
        return fact[0] not in self.evaluation.program.derived

    def _derivations(self, fact: GroundFact) -> list[_Derivation]:
        """Return every way to derive a fact in one step, in a fixed order."""
        if self._is_base(fact):
            return []
        found = self._found.get(fact)
        if found is None:
            predicate, row = fact
            found = []
            for rule in self.evaluation.program.rules_of[predicate]:
                bindings = {
                    tuple(sorted(zip(rule.variables, values, strict=True)))
                    for values in self.evaluation.derivations(rule, row)
                }
                for binding in sorted(bindings):
                    found.extend(self._completions(rule, dict(binding)))
                    if len(found) > FIXED.explained_facts:
                        raise LimitExceeded(
                            "derivations", configured=FIXED.explained_facts, observed=len(found)
                        )
            self._found[fact] = found
        return found

    def _completions(self, rule: CompiledRule, binding: Binding) -> Iterator[_Derivation]:
        """Yield the derivations behind one match of a rule: values it did not need are filled in.

        Every choice of derived premises is a derivation of its own, because their proofs differ;
        for base facts the smallest that fit stand for all.
        """
        body = rule.source.body
        atoms = [part for part in body if isinstance(part, Atom)]
        tests = [part for part in body if atom_of(part) is None]
        derived = self.evaluation.program.derived
        first = [atom for atom in atoms if atom.predicate in derived]
        rest = [atom for atom in atoms if atom.predicate not in derived]
        for filled, premises in self._match(first, tests, binding):
            for whole, facts in self._match(rest, tests, filled):
                found = iter(premises), iter(facts)
                ordered = tuple(
                    next(found[0] if atom.predicate in derived else found[1]) for atom in atoms
                )
                yield _Derivation(rule, whole, ordered)
                break

    def _match(
        self, atoms: list[Atom], tests: list[BodyAtom], binding: Binding
    ) -> Iterator[tuple[Binding, list[GroundFact]]]:
        """Yield ways to satisfy all atoms, smallest facts first; tests cut as soon as they can."""
        if not atoms:
            yield binding, []
            return
        first, *rest = atoms
        for row in sorted(self._rows(first, binding)):
            self.evaluation.meter.spend(1)
            extended = _unify(first.terms, row, binding)
            if extended is not None and all(_test_holds(test, extended) for test in tests):
                for filled, premises in self._match(rest, tests, extended):
                    yield filled, [(first.predicate, row), *premises]

    def _rows(self, atom: Atom, binding: Binding) -> Iterator[Row]:
        """Yield the facts that may fit an atom, through the best access there is."""
        bound = {
            column: value
            for column, term in enumerate(atom.terms)
            if (value := _value(term, binding)) is not None
        }
        predicate = atom.predicate
        evaluation = self.evaluation
        if predicate in evaluation.virtual:
            for rule in evaluation.program.rules_of[predicate]:
                yield from set(evaluation.enumerate(rule, bound))
        elif predicate in evaluation.program.derived:
            relation = evaluation.relations[predicate]
            columns = tuple(sorted(bound))
            if not columns:
                yield from relation.rows
            elif len(columns) == predicate.arity:
                row = tuple(bound[c] for c in columns)
                yield from ([row] if row in relation.rows else [])
            else:
                key = tuple(bound[c] for c in columns)
                yield from relation.index(columns).get(key[0] if len(key) == 1 else key, ())
        else:
            yield from evaluation.source.select(predicate, bound)

    # --- why not ---

    def why_not(self, predicate: Predicate, row: Row) -> tuple[FailedRule, ...]:
        """Return, for each rule that could derive the fact, how far it got."""
        rules = self.evaluation.program.rules_of.get(predicate, ())
        failed = []
        for rule in rules:
            binding = _unify(rule.source.head.terms, row, {})
            if binding is not None:
                failed.append(self._furthest(rule, binding, _Below({(predicate, row)})))
        return tuple(failed)

    def _furthest(self, rule: CompiledRule, start: Binding, below: _Below) -> FailedRule:
        """Follow the author's order, keeping all ways open, until no way is left."""
        body = rule.source.body
        ways: list[Binding] = [start]
        for number, part in enumerate(body):
            following = self._step(part, ways)
            if not following:
                binding = min(ways, key=lambda b: sorted(b.items()))
                return FailedRule(
                    rule.id,
                    canonical_part(part),
                    binding,
                    number,
                    tuple(self._near(part, binding)),
                    self._denied(part, binding),
                    self._missing(part, binding, below),
                )
            ways = following
        # Tests are put off while their variables are open; the last one decides.
        binding = min(ways, key=lambda b: sorted(b.items()))
        return FailedRule(rule.id, canonical_part(body[-1]), binding, len(body) - 1)

    def _denied(self, part: BodyAtom, binding: Binding) -> Proof | None:
        """Return why a fact holds that a negation says does not; None if it is none."""
        if not isinstance(part, Negated):
            return None
        atom = part.atom
        rows = self._rows(atom, binding)
        row = min((r for r in rows if _unify(atom.terms, r, binding) is not None), default=None)
        if row is None:
            return None
        try:
            return self.why(atom.predicate, row)
        except LimitExceeded:
            return Proof(_text((atom.predicate, row)))

    def _missing(self, part: BodyAtom, binding: Binding, below: _Below) -> tuple[FailedRule, ...]:
        """Return how far the rules got that could derive what an atom asks for."""
        if not isinstance(part, Atom) or part.predicate not in self.evaluation.program.derived:
            return ()
        wanted = tuple(_value(term, binding) for term in part.terms)
        asked = (part.predicate, wanted)
        if (
            asked in below.asked
            or below.depth >= FIXED.explained_depth
            or len(below.asked) >= FIXED.explained_below
        ):
            return ()
        below.asked.add(asked)
        below.depth += 1
        found = []
        for rule in self.evaluation.program.rules_of[part.predicate]:
            start = _unify_known(rule.source.head.terms, wanted)
            if start is not None:
                found.append(self._furthest(rule, start, below))
        below.depth -= 1
        return tuple(found)

    def _step(self, part: BodyAtom, ways: list[Binding]) -> list[Binding]:
        result: dict[tuple[tuple[str, str], ...], Binding] = {}
        for way in ways:
            if isinstance(part, Atom):
                for row in self._rows(part, way):
                    extended = _unify(part.terms, row, way)
                    if extended is not None:
                        result.setdefault(tuple(sorted(extended.items())), extended)
                    self.evaluation.meter.spend(1)
                    if len(result) >= FIXED.explained_ways:
                        return list(result.values())  # enough to tell how far the rule gets
            elif self._holds_now(part, way):
                result.setdefault(tuple(sorted(way.items())), way)
        return list(result.values())

    def _holds_now(self, part: BodyAtom, binding: Binding) -> bool:
        match part:
            case Negated():
                rows = self._rows(part.atom, binding)
                return all(_unify(part.atom.terms, row, binding) is None for row in rows)
            case Cardinality():
                bound = _value(part.bound, binding)
                if bound is None:
                    return True
                atom = part.atom

                def count(_values: tuple[str | None, ...], _stop: int) -> int:
                    rows = set(self._rows(atom, binding))
                    return sum(_unify(atom.terms, row, binding) is not None for row in rows)

                return decide(count, (), part.operator, bound)
        return _test_holds(part, binding)

    def _near(self, part: BodyAtom, binding: Binding) -> Iterator[str]:
        """Yield facts of the failed predicate that differ in the fewest values."""
        atom = part if isinstance(part, Atom) else None
        if atom is None:
            return
        wanted = [_value(term, binding) for term in atom.terms]
        scored = []
        first = {0: wanted[0]} if wanted and wanted[0] is not None else {}
        for row in set(self._rows(Atom(atom.name, _only(first, len(wanted))), {})):
            different = sum(w is not None and w != v for w, v in zip(wanted, row, strict=True))
            scored.append((different, row))
        for _, row in heapq.nsmallest(_NEAR_MISSES, scored):
            yield fact_line(atom.name, row)


def _only(bound: dict[int, str], arity: int) -> tuple[Term, ...]:
    return tuple(Constant(bound[c]) if c in bound else Anonymous() for c in range(arity))


def _assemble(fact: GroundFact, derivation: _Derivation, built: dict[GroundFact, Proof]) -> Proof:
    body = derivation.rule.source.body
    conditions = tuple(
        canonical_part(_ground(part, derivation.binding))
        for part in body
        if not isinstance(part, Atom | Truth)
    )
    because = tuple(built[premise] for premise in derivation.premises)
    size = 1 + sum(proof.size for proof in because)
    return Proof(_text(fact), derivation.rule.id, because, conditions, size)


def _ground(part: BodyAtom, binding: Binding) -> BodyAtom:
    """Return a body atom with the values in place of the variables that have one."""

    def term(old: Term) -> Term:
        value = _value(old, binding)
        return old if value is None else Constant(value)

    match part:
        case Negated():
            return Negated(Atom(part.atom.name, tuple(map(term, part.atom.terms))))
        case Cardinality():
            atom = Atom(part.atom.name, tuple(map(term, part.atom.terms)))
            return Cardinality(atom, part.operator, term(part.bound))
        case Atom() | Truth():
            return part
    if isinstance(part, TextShape):
        return replace(part, text=term(part.text), start=term(part.start), end=term(part.end))
    return replace(part, left=term(part.left), right=term(part.right))


def _test_holds(part: BodyAtom, binding: Binding) -> bool:
    """Decide a test; one whose variables are still open is put off and taken to hold."""
    if isinstance(part, Atom | Negated | Cardinality | Truth):
        return True
    if any(_value(term, binding) is None for term in tested_terms(part)):
        return True
    return compile_test(view_test(part, lambda term: _value(term, binding)))(())


def _unify(terms: tuple[Term, ...], row: Row, binding: Binding) -> Binding | None:
    new = dict(binding)
    for term, value in zip(terms, row, strict=True):
        match term:
            case Constant():
                if term.value != value:
                    return None
            case Variable():
                if new.setdefault(term.name, value) != value:
                    return None
    return new


def _unify_known(terms: tuple[Term, ...], values: tuple[str | None, ...]) -> Binding | None:
    """Return the binding under which a head fits the values that are known; None if none does."""
    new: Binding = {}
    for term, value in zip(terms, values, strict=True):
        if value is None:
            continue
        if isinstance(term, Constant) and term.value != value:
            return None
        if isinstance(term, Variable) and new.setdefault(term.name, value) != value:
            return None
    return new


def _value(term: Term, binding: Binding) -> str | None:
    if isinstance(term, Constant):
        return term.value
    return binding.get(term.name) if isinstance(term, Variable) else None


def _text(fact: GroundFact) -> str:
    return fact_line(fact[0].name, fact[1])
