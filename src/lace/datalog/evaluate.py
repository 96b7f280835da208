"""From base facts to derived facts: semi-naive, component by component, within the limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial

from lace import collector
from lace.datalog.ast import Predicate
from lace.datalog.counting import Counter
from lace.datalog.join import (
    Enumerate,
    Run,
    World,
    compile_enumerate,
    compile_run,
    compile_tally,
    look_ups,
)
from lace.datalog.meter import Meter, choosing_cost
from lace.datalog.program import (
    Absent,
    CompiledRule,
    Count,
    Join,
    RuleProgram,
    window_rules,
)
from lace.datalog.program import Relation as RelationName
from lace.datalog.relation import Relation, Rows, Values
from lace.datalog.source import FactSource, Row, count_at_most
from lace.datalog.stratify import Component
from lace.datalog.views import view_rows
from lace.errors import Code, Diagnostic, LacegramError, LimitExceeded
from lace.limits import DEFAULT_LIMITS, UNLIMITED, Limits

Step = tuple[Predicate, Predicate, Run]
"""From new facts of one predicate to facts of another."""

RunMaker = Callable[[CompiledRule, Join | None], Run]
"""Returns the function that runs a rule from one of its joins."""


@dataclass(slots=True)
class Evaluation:
    """A program with all its facts. Made by ``evaluate``; kept up to date by ``maintain``."""

    program: RuleProgram
    """What was evaluated."""
    source: FactSource
    """The base facts."""
    limits: Limits
    """What it is held to."""
    virtual: frozenset[Predicate]
    """Counted where they are needed and not stored."""
    relations: dict[RelationName, Relation] = field(default_factory=dict)
    """What was derived, and the views of base facts."""
    meter: Meter = field(init=False)
    """How much work was done."""
    _world: World = field(init=False)
    _values: dict[tuple[RelationName, tuple[int, ...], int], Values] = field(default_factory=dict)
    """Columns by others while everything is computed; see ``Relation.values``."""
    _runs: dict[tuple[int, int], Run] = field(default_factory=dict)
    _enumerations: dict[tuple[int, frozenset[int]], Enumerate] = field(default_factory=dict)
    _derivations: dict[int, Enumerate] = field(default_factory=dict)
    _windows: dict[tuple[int, int, int], tuple[CompiledRule, ...] | None] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.meter = Meter(self.limits)
        self._world = World(
            self.relations.__getitem__, self._counter, self._settled_values, self.meter
        )
        names: list[RelationName] = [*range(len(self.program.views)), *self.program.derived]
        for name in names:
            self.relations[name] = Relation(self.meter.spend)

    # --- what it knows ---

    def rows(self, predicate: Predicate) -> AbstractSet[Row]:
        """Return the facts of a derived predicate."""
        relation = self.relations.get(predicate)
        return relation.rows.keys() if relation is not None else frozenset()

    def facts(self) -> Iterator[tuple[Predicate, Row]]:
        """Yield every stored derived fact."""
        for predicate in sorted(self.program.derived - self.virtual):
            for row in self.rows(predicate):
                yield predicate, row

    def derivable(self, predicate: Predicate, row: Row) -> bool:
        """Whether some rule derives the fact from what is there now."""
        return any(
            next(self.enumerate(rule, dict(enumerate(row))), None) is not None
            for rule in self.program.rules_of[predicate]
        )

    def enumerate(self, rule: CompiledRule, bound: dict[int, str]) -> Iterator[Row]:
        """Yield the heads a rule derives, some of whose columns are given; repeats are possible."""
        columns = frozenset(bound)
        return self._enumeration(rule, columns)(*(bound[c] for c in sorted(columns)))

    def _enumeration(self, rule: CompiledRule, columns: frozenset[int]) -> Enumerate:
        key = id(rule), columns
        function = self._enumerations.get(key)
        if function is None:
            function = self._enumerations[key] = compile_enumerate(rule, columns, self._world)
        return function

    def derivations(self, rule: CompiledRule, row: Row) -> Iterator[Row]:
        """Yield the values of all variables of a rule for each way it derives a fact."""
        function = self._derivations.get(id(rule))
        if function is None:
            bound = frozenset(range(len(row)))
            function = compile_enumerate(rule, bound, self._world, "variables")
            self._derivations[id(rule)] = function
        return function(*row)

    def limit(self, limits: Limits) -> None:
        """Hold what comes to other limits."""
        self.limits = self.meter.limits = limits

    def prepare(self) -> None:
        """Make every function and index that an update may need, so that no update has to wait."""
        for rule in self.program.rules:
            if rule.head in self.virtual:
                continue
            for literal in rule.literals:
                self._function(rule, literal)
            for join in rule.joins:
                for column in range(len(join.arguments)):
                    for windowed in self.windows(rule, join, column) or ():
                        self._function(windowed, windowed.joins[0])
            self._enumeration(rule, frozenset(range(rule.head.arity)))
        self._make_indexes()

    def _make_indexes(self) -> None:
        for make in self._world.needs:
            make()
        self._world.needs.clear()

    # --- computing ---

    def load(self) -> None:
        """Read the views from the source and compute everything from scratch."""
        self.meter.work = 0
        self._check_base()
        for number, view in enumerate(self.program.views):
            self.relations[number].replace(view_rows(view, self.source, self.meter))
        try:
            for component in self.program.components:
                self._compute(component, partial(self._compile_for_once, component))
        finally:
            self._values.clear()
            self._world.needs.clear()

    def _check_base(self) -> None:
        schema = self.program.schema
        for name in schema.limits:
            looked_at = [p for p in self.program.base if schema.limit_of(p) == name]
            limit: int = getattr(self.limits, name)
            if limit >= UNLIMITED:
                continue  # to count them may take long
            if sum(count_at_most(self.source, p) for p in looked_at) > limit:
                facts = sum(map(self.source.count, looked_at))
                if facts > limit:
                    raise LimitExceeded(name, configured=limit, observed=facts)

    def compute(self, component: Component) -> None:
        """Compute the predicates of a component from scratch; what it needs is complete."""
        self._compute(component, self._function)

    def _compute(self, component: Component, function: RunMaker) -> None:
        for predicate in component.predicates:
            self.relations[predicate].replace({})
        if self.virtual.issuperset(component.predicates):
            return
        rules = [rule for p in component.predicates for rule in self.program.rules_of[p]]
        steps = _steps(rules, component, function)
        for rule in rules:
            if not any(join.relation in component.predicates for join in rule.joins):
                self.meter.spend(choosing_cost(len(rule.joins)))
                first = min(rule.joins, key=lambda join: self._cost(rule, join), default=None)
                rows = () if first is None else self.relations[first.relation].scan()
                if first is None or rows:
                    function(rule, first)(rows, self.relations[rule.head].rows)
        self._spread(component, steps)

    def _compile_for_once(
        self, component: Component, rule: CompiledRule, first: Join | None
    ) -> Run:
        """Return a function for one computation, in which all that came before is settled."""
        inside = component.predicates
        return compile_run(rule, first, self._world, lambda name: name not in inside)

    def _settled_values(self, name: RelationName, columns: tuple[int, ...], column: int) -> Values:
        key = name, columns, column
        values = self._values.get(key)
        if values is None:
            values = self._values[key] = self.relations[name].values(columns, column)
        return values

    def grow(
        self,
        component: Component,
        rules: Iterable[CompiledRule],
        fresh: dict[Predicate, Rows],
    ) -> dict[Predicate, list[Row]]:
        """Add facts and all that follows from them within a component; return what was new."""
        for predicate, rows in fresh.items():
            self.relations[predicate].rows.update(rows)
        return self._spread(component, _steps(rules, component, self._function))

    def _spread(self, component: Component, steps: list[Step]) -> dict[Predicate, list[Row]]:
        """Settle new facts and add what follows from them, round by round; return all new ones."""
        added: dict[Predicate, list[Row]] = {predicate: [] for predicate in component.predicates}
        rounds = 0
        while True:
            fresh = {predicate: self._settle(predicate) for predicate in component.predicates}
            for predicate, rows in fresh.items():
                added[predicate] += rows
            if not steps or not any(fresh.values()):
                return added
            rounds += 1
            if rounds > self.limits.iterations:
                raise LimitExceeded(
                    "iterations", configured=self.limits.iterations, observed=rounds
                )
            for name, head, function in steps:
                if fresh[name]:
                    function(fresh[name], self.relations[head].rows)

    def _settle(self, predicate: Predicate) -> list[Row]:
        relation = self.relations[predicate]
        if len(relation) > self.limits.derived_facts:
            raise LimitExceeded(
                "derived_facts", configured=self.limits.derived_facts, observed=len(relation)
            )
        return relation.settle()

    def run(
        self, rule: CompiledRule, first: Join | Absent | Count, rows: Collection[Row], out: Rows
    ) -> None:
        """Add to ``out`` the heads that follow with the rows in the place of one literal."""
        if rows:
            self._function(rule, first)(rows, out)

    def windows(
        self, rule: CompiledRule, first: Join, column: int
    ) -> tuple[CompiledRule, ...] | None:
        """Return rules for what a moving value passes over, or None if they cannot be had."""
        key = id(rule), id(first), column
        if key not in self._windows:
            self._windows[key] = window_rules(rule, first, column)
        return self._windows[key]

    def _cost(self, rule: CompiledRule, first: Join) -> int:
        """Estimate: the rows gone through, and those of the indexes that would have to be made."""
        cost = len(self.relations[first.relation].scan())
        made = {(name, columns) for name, columns, _ in self._values}
        for join, columns in look_ups(rule, first):
            relation = self.relations[join.relation]
            there = relation.has_index(columns) or (join.relation, columns) in made
            if len(columns) < len(join.arguments) and not there:
                cost += len(relation.scan())
        return cost

    def _function(self, rule: CompiledRule, first: Join | Absent | Count | None) -> Run:
        key = id(rule), id(first)
        function = self._runs.get(key)
        if function is None:
            function = self._runs[key] = compile_run(rule, first, self._world)
        return function

    def _counter(self, part: Count) -> Counter | None:
        if part.relation not in self.virtual:
            return None
        assert isinstance(part.relation, Predicate)
        rules = self.program.rules_of[part.relation]
        tallies = [compile_tally(rule, part, self._world) for rule in rules]

        def count(values: tuple[str | None, ...], stop: int) -> int:
            given = [value for value in values if value is not None]
            found: dict[object, None] = {}
            for tally in tallies:
                if tally(found, stop, *given):
                    return stop
            return len(found)

        return count


def _steps(rules: Iterable[CompiledRule], component: Component, function: RunMaker) -> list[Step]:
    """Return what has to be done in every round."""
    return [
        (join.relation, rule.head, function(rule, join))
        for rule in rules
        for join in rule.joins
        if isinstance(join.relation, Predicate) and join.relation in component.predicates
    ]


def evaluate(
    program: RuleProgram,
    source: FactSource,
    *,
    outputs: Iterable[Predicate] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Evaluation:
    """Return all derived facts of a program over the facts of a source.

    ``outputs`` names the predicates that will be read; one that is only counted and is not among
    them is never stored. By default everything can be read.
    """
    shadowed = sorted(p for p in source.predicates() if p in program.derived)
    if shadowed:
        message = f"{shadowed[0]} has base facts and rules"
        problem = Diagnostic(
            code=Code.LACEGRAM_SHADOW, message=message, line=1, column=1,
            hint=Code.LACEGRAM_SHADOW.fix,
        )  # fmt: skip
        raise LacegramError((problem,))
    virtual = frozenset() if outputs is None else program.only_counted - frozenset(outputs)
    evaluation = Evaluation(program, source, limits, virtual)
    with collector.paused():
        evaluation.load()
    return evaluation
