"""Rules as Python functions: one nested loop for each way of starting.

A rule is run from one of its literals: the rows of a relation, or only those that changed, are gone
through, and the other literals are looked up by what is bound by then. The same rule with its head
bound enumerates the derivations of given facts. The text of the functions is made of numbers and
fixed words only; names and constants of a lacegram never enter it, they are passed beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType
from typing import Any, Final, Literal

from lace.datalog.builtins import integer_compare, text_shape
from lace.datalog.counting import Counter, decide, stored_counter
from lace.datalog.meter import ROW, Meter, writing_cost
from lace.datalog.program import Absent, Argument, CompiledRule, Count, Join, ViewTest
from lace.datalog.relation import Relation, Rows, Values
from lace.datalog.source import Row

_NESTED_LOOPS: Final = 12  # Python allows 20 nested blocks in one function

Run = Callable[[Iterable[Row], Rows], None]
"""Go through rows of the first literal and add the heads that follow."""

Enumerate = Callable[..., Iterator[Row]]
"""Given the bound values of the head, yield a tuple for each derivation."""

Tally = Callable[..., bool | None]
"""Given a dict, how many are enough and the bound values of the head, add what sets heads apart
to the dict; stop and return True as soon as there are enough."""


@dataclass(frozen=True, slots=True)
class World:
    """What the functions of rules look at."""

    relation: Callable[[Any], Relation]
    counter: Callable[[Count], Counter | None]
    """For a count over a predicate that is not stored; None for all others."""
    values: Callable[[Any, tuple[int, ...], int], Values]
    """For relations that are settled: one column by others."""
    meter: Meter
    needs: list[Callable[[], object]] = field(default_factory=list)
    """Makes each index that some function will ask for."""


def compile_run(
    rule: CompiledRule,
    first: Join | Absent | Count | None,
    world: World,
    settled: Callable[[Any], bool] = lambda _: False,
) -> Run:
    """Return the function that runs a rule from the rows of one literal, or once if None.

    ``settled`` says which relations do not change as long as the function is in use.
    """
    return _Writer(rule, world, settled).run(first)


def compile_enumerate(
    rule: CompiledRule,
    bound: frozenset[int],
    world: World,
    result: Literal["head", "variables"] = "head",
) -> Enumerate:
    """Return the function that yields a rule's derivations for given head columns."""
    return _Writer(rule, world).enumerate(bound, result)


def compile_tally(rule: CompiledRule, part: Count, world: World) -> Tally:
    """Return the function that counts what a rule derives for a count, no further than needed."""
    return _Writer(rule, world).tally(part)


def join_order(rule: CompiledRule, bound: set[int], skip: Join | None = None) -> list[Join]:
    """Return the order in which to look up the joins: the most bound next, then as written."""
    bound = set(bound)
    left = [join for join in rule.joins if join is not skip]
    order: list[Join] = []
    while left:
        best = max(left, key=lambda join: _boundness(join, bound))
        left = [join for join in left if join is not best]
        order.append(best)
        bound.update(a for a in best.arguments if isinstance(a, int))
    return order


def look_ups(rule: CompiledRule, first: Join) -> Iterator[tuple[Join, tuple[int, ...]]]:
    """Yield the other joins in the order of looking them up, with the columns known by then."""
    bound = {a for a in first.arguments if isinstance(a, int)}
    for join in join_order(rule, bound, first):
        known = (c for c, a in enumerate(join.arguments) if isinstance(a, str) or a in bound)
        yield join, tuple(known)
        bound.update(a for a in join.arguments if isinstance(a, int))


def _boundness(join: Join, bound: set[int]) -> tuple[bool, int]:
    known = [isinstance(a, str) or a in bound for a in join.arguments]
    return all(known), sum(known)


@dataclass(slots=True)
class _Writer:
    """Writes one function, then has Python compile it."""

    rule: CompiledRule
    world: World
    settled: Callable[[Any], bool] = lambda _: False
    names: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    header: str = ""
    depth: int = 1
    loops: int = 0
    bound: set[int] = field(default_factory=set)
    pending: list[ViewTest | Absent | Count] = field(default_factory=list)
    kind: Literal["run", "enumerate", "tally"] = "run"
    emit: str = ""
    serial: int = 0
    prelude: dict[str, str] = field(default_factory=dict)
    """Indexes by the expression that makes them; looked up once, before the loops."""

    # --- the three kinds of functions ---

    def run(self, first: Join | Absent | Count | None) -> Run:
        self.emit = f"out[{self._tuple(self.rule.head_arguments)}] = None"
        self._begin()
        if first is not None:
            self._loop("rows")
            self._bind(first.arguments)
        self._body(skip=first if isinstance(first, Join) else None)
        return self._compile("rows, out")  # type: ignore[no-any-return]

    def enumerate(self, bound: frozenset[int], result: Literal["head", "variables"]) -> Enumerate:
        self.kind = "enumerate"
        self._begin()
        parameters = self._bind_head(bound)
        everything = range(len(self.rule.variables))
        row = self.rule.head_arguments if result == "head" else tuple(everything)
        self.emit = f"yield {self._tuple(row)}"
        self._body(skip=None)
        return self._compile(", ".join(parameters))  # type: ignore[no-any-return]

    def tally(self, part: Count) -> Tally:
        self.kind = "tally"
        self._begin()
        head = self.rule.head_arguments
        given = frozenset(c for c, a in enumerate(part.arguments) if a is not None)
        parameters = self._bind_head(given)
        key = self._key(head, tuple(c for c in range(len(head)) if c not in given))
        same = " and ".join(
            f"{self._value(head[a])} == {self._value(head[b])}" for a, b in part.same
        )
        self.emit = f"if {same}: out[{key}] = None" if same else f"out[{key}] = None"
        self._body(skip=None)
        return self._compile(", ".join(["out", "stop", *parameters]))  # type: ignore[no-any-return]

    def _begin(self) -> None:
        rule = self.rule
        others = len(rule.absents) + len(rule.counts) + len(rule.tests)
        self.world.meter.spend(writing_cost(len(rule.joins), others))
        self.pending = [*self.rule.tests, *self.rule.absents, *self.rule.counts]
        self.names["meter"] = self.world.meter

    def _bind_head(self, bound: frozenset[int]) -> list[str]:
        """Take the given columns of the head; return the names of the parameters."""
        parameters = []
        for column, argument in enumerate(self.rule.head_arguments):
            if column not in bound:
                continue
            parameters.append(f"h{column}")
            if isinstance(argument, str):
                self._unless(f"h{column} == {self._constant(argument)}")
            elif argument in self.bound:
                self._unless(f"h{column} == v{argument}")
            else:
                self._line(f"v{argument} = h{column}")
                self.bound.add(argument)
        return parameters

    # --- the body ---

    def _body(self, skip: Join | None) -> None:
        self._settle()
        for join in join_order(self.rule, self.bound, skip):
            self._look_up(join)
            self._settle()
        assert not self.pending, "safety guarantees that everything is bound by now"
        self._line(self.emit)
        if self.kind == "tally":
            self._line("if len(out) >= stop: meter.spend(w); return True")

    def _look_up(self, join: Join) -> None:
        if self.loops >= _NESTED_LOOPS:
            self._continue_elsewhere()
        relation = self._relation(join.relation)
        known = [isinstance(a, str) or a in self.bound for a in join.arguments]
        if all(known):
            self._unless(f"{self._tuple(join.arguments)} in {self._rows(join.relation)}")
            return
        columns = tuple(c for c, is_known in enumerate(known) if is_known)
        ranged = None if columns else self._ranges(join)
        if ranged is not None:
            column, bounds = ranged
            self.world.needs.append(partial(self.world.relation(join.relation).order, column))
            self.serial += 1
            name = self.serial
            self._line(
                f"o{name}, s{name} = {relation}.order({column}).between({', '.join(bounds)})"
            )
            self._loop(f"s{name}", item=f"i{name}")
            self._line(f"r = o{name}[i{name}]")
        elif columns:
            self._look_up_by_key(join, columns)
            return
        else:
            # What is found may be added to it meanwhile, unless it is settled.
            rows = f"{relation}.scan()"
            self._line(f"b = {rows if self.settled(join.relation) else f'[*{rows}]'}")
            self._loop("b")
        self._bind(join.arguments, columns)

    def _look_up_by_key(self, join: Join, columns: tuple[int, ...]) -> None:
        key = self._key(join.arguments, columns)
        open_ = [c for c, a in enumerate(join.arguments) if c not in columns and a is not None]
        if not open_:
            self._unless(f"{key} in {self._index(join.relation, columns)}")
        elif len(open_) == 1 and self.settled(join.relation):
            variable = join.arguments[open_[0]]
            assert isinstance(variable, int)
            alone, values = self.world.values(join.relation, columns, open_[0])
            item = f"v{variable}" if alone else "b"
            self._line(f"{item} = {self._constant(values, 'k')}.get({key})")
            self._unless(f"{item} is not None")
            if not alone:
                self._loop("b", item=f"v{variable}")
            self.bound.add(variable)
        else:
            self._line(f"b = {self._index(join.relation, columns)}.get({key})")
            self._unless("b is not None")
            self._loop("b")
            self._bind(join.arguments, columns)

    def _bind(self, arguments: tuple[Argument, ...], agreed: tuple[int, ...] = ()) -> None:
        """Take what is new from the row ``r``; what is known must agree, unless it was the key."""
        for column, argument in enumerate(arguments):
            if column in agreed:
                continue
            if isinstance(argument, str):
                self._unless(f"r[{column}] == {self._constant(argument)}")
            elif argument is not None and argument in self.bound:
                self._unless(f"r[{column}] == v{argument}")
            elif argument is not None:
                self._line(f"v{argument} = r[{column}]")
                self.bound.add(argument)

    def _settle(self) -> None:
        """Write every test whose variables are bound by now."""
        waiting = []
        for part in self.pending:
            match part:
                case ViewTest():
                    needed = [v for v in (part.left, part.right, part.end) if isinstance(v, int)]
                case Absent():
                    needed = [a for a in part.arguments if isinstance(a, int)]
                case Count():
                    values = (*part.arguments, part.bound)
                    needed = [a for a in values if isinstance(a, int)]
            if self.bound.issuperset(needed):
                self._unless(self._condition(part))
            else:
                waiting.append(part)
        self.pending = waiting

    def _condition(self, part: ViewTest | Absent | Count) -> str:
        match part:
            case ViewTest():
                return self._test(part)
            case Absent():
                return f"not {self._exists(part)}"
            case Count():
                return self._count(part)

    def _test(self, test: ViewTest) -> str:
        left, right = self._value(test.left), self._value(test.right)
        if test.kind == "NotEqual":
            return f"{left} != {right}"
        if test.kind == "LexCompare":
            return f"{left} {test.operator} {right}"
        if test.kind == "IntCompare":
            self.names["integer_compare"] = integer_compare
            return f"integer_compare({left}, {test.operator!r}, {right})"
        if not test.operator and test.end == "":
            return f"{left}.startswith({right})"
        self.names["text_shape"] = text_shape
        delimiters = self._constant(test.operator)
        return f"text_shape({left}, {right}, {delimiters}, {self._value(test.end)})"

    def _exists(self, part: Absent) -> str:
        columns = tuple(c for c, a in enumerate(part.arguments) if a is not None)
        if len(columns) == len(part.arguments):
            return f"({self._tuple(part.arguments)} in {self._rows(part.relation)})"
        if not columns:
            return f"{self._relation(part.relation)}.scan()"
        return f"({self._key(part.arguments, columns)} in {self._index(part.relation, columns)})"

    def _count(self, part: Count) -> str:
        counter = self.world.counter(part)
        place = len(self.names)
        if counter is None:
            relation = self.world.relation(part.relation)
            counter = stored_counter(part, relation, self.world.meter)
        self.names[f"n{place}"] = counter
        self.names["decide"] = decide
        values = ", ".join("None" if a is None else self._value(a) for a in part.arguments)
        values = f"({values},)" if values else "()"
        bound = self._value(part.bound)
        return f"decide(n{place}, {values}, {part.operator!r}, {bound})"

    def _ranges(self, join: Join) -> tuple[int, list[str]] | None:
        """Return comparisons of one column that an ordered list can answer instead of a scan."""
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        found: dict[int, list[tuple[ViewTest, str]]] = {}
        for test in self.pending:
            if not isinstance(test, ViewTest) or test.kind != "LexCompare":
                continue
            for mine, operator, other in (
                (test.left, test.operator, test.right),
                (test.right, turned[test.operator], test.left),
            ):
                known = isinstance(other, str) or other in self.bound
                if isinstance(mine, int) and known and mine in join.arguments:
                    column = join.arguments.index(mine)
                    bound = f"({operator!r}, {self._value(other)})"
                    found.setdefault(column, []).append((test, bound))
                    break
        if not found:
            return None
        column = max(found, key=lambda c: len(found[c]))
        answered = [test for test, _ in found[column]]
        self.pending = [part for part in self.pending if part not in answered]
        return column, [bound for _, bound in found[column]]

    # --- words ---

    def _relation(self, relation: Any) -> str:
        return self._constant(self.world.relation(relation), "k")

    def _rows(self, relation: Any) -> str:
        expression = f"{self._relation(relation)}.rows"
        return self.prelude.setdefault(expression, f"x{len(self.prelude)}")

    def _index(self, relation: Any, columns: tuple[int, ...]) -> str:
        # Asked for at each call: an index that is not there yet is made then.
        self.world.needs.append(partial(self.world.relation(relation).index, columns))
        expression = f"{self._relation(relation)}.index({columns!r})"
        return self.prelude.setdefault(expression, f"x{len(self.prelude)}")

    def _key(self, arguments: tuple[Argument, ...], columns: tuple[int, ...]) -> str:
        if len(columns) == 1:
            return self._value(arguments[columns[0]])
        return self._tuple(tuple(arguments[c] for c in columns))

    def _tuple(self, arguments: tuple[Argument, ...]) -> str:
        return f"({''.join(self._value(a) + ', ' for a in arguments)})"

    def _value(self, argument: Argument) -> str:
        assert argument is not None
        return f"v{argument}" if isinstance(argument, int) else self._constant(argument)

    def _constant(self, value: Any, prefix: str = "c") -> str:
        for name, known in self.names.items():
            if known is value or (isinstance(value, str) and type(known) is str and known == value):
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    # --- lines ---

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def _unless(self, condition: str) -> None:
        self._line(f"if not ({condition}): {'continue' if self.loops else 'return'}")

    def _loop(self, rows: str, *, item: str = "r") -> None:
        if self.kind == "run":
            self._spend(f"len({rows})")
        self._line(f"for {item} in {rows}:")
        self.depth += 1
        self.loops += 1
        if self.kind != "run":  # it may be left before all rows were looked at
            self._spend("1")

    def _spend(self, tuples: str) -> None:
        """Sum up in a local variable what is looked at; the meter is told when it matters."""
        if self.kind == "enumerate":
            self._line(f"meter.spend({tuples})")
        else:
            self._line(f"w += {tuples}")
            self._line(f"if w > left: left = meter.pace(w, {self._kept})")

    @property
    def _kept(self) -> str:
        """How many rows there are, and were at the beginning; those of a tally are soon dropped."""
        return "len(out), n" if self.kind == "run" else "0, 0"

    def _continue_elsewhere(self) -> None:
        """Go on in a function of its own, because loops cannot be nested any deeper."""
        name = f"inner{len(self.functions)}"
        passed = {"run": ["out"], "enumerate": [], "tally": ["out", "stop"]}[self.kind]
        arguments = ", ".join([*passed, *(f"v{v}" for v in sorted(self.bound))])
        call = f"{name}({arguments})"
        self._line(
            {
                "run": call,
                "enumerate": f"yield from {call}",
                "tally": f"if {call}: meter.spend(w); return True",
            }[self.kind]
        )
        self._finish_function()
        self.header = f"def {call}:"
        self.depth, self.loops = 1, 0

    def _finish_function(self) -> None:
        lines = [f"    {name} = {expression}" for expression, name in self.prelude.items()]
        if self.kind == "run":
            lines += ["    w, n = 0, len(out)", f"    left = meter.pace(0, {self._kept})"]
            lines += [*self.lines, f"    meter.spend(w + {ROW} * (len(out) - n))"]
        elif self.kind == "tally":
            lines += [f"    w, left = 0, meter.pace(0, {self._kept})"]
            lines += [*self.lines, "    meter.spend(w)"]
        else:
            lines += self.lines
        self.functions.append("\n".join([self.header, *lines]))
        self.lines, self.prelude = [], {}

    def _compile(self, parameters: str) -> Any:
        self._finish_function()
        self.functions[0] = f"def rule({parameters}):{self.functions[0]}"
        namespace = dict(self.names)
        text = "\n".join(self.functions)
        exec(_code(text), namespace)  # noqa: S102  (numbers and fixed words)
        return namespace["rule"]


@lru_cache(maxsize=4096)
def _code(text: str) -> CodeType:
    """Return compiled text; rules of one shape share it, whatever their names and constants."""
    return compile(text, "<rule>", "exec")
