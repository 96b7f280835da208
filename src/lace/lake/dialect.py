"""The part of Spark's SQL that DuckDB answers with the same rows, names and types.

Queries are Spark's, whatever runs them. Here one is read, and written again for DuckDB if all of it
is known to mean the same there: what each node may hold is listed, operands must be of one kind,
and what an engine decides silently (where nulls are sorted, what a column is called, how wide a sum
is) is written out. Anything else raises ``OnlySpark``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lace.errors import Code, LakeError
from lace.limits import LAKE
from lace.text import shown


class OnlySpark(Exception):
    """A query says something that is not known to mean the same to DuckDB."""


class Kind(StrEnum):
    """What values are, as far as it decides what may be done with them."""

    TEXT = "text"
    INTEGER = "integers"
    FLOAT = "fractions"
    TIME = "times"
    DATE = "dates"
    TRUTH = "truth values"
    BYTES = "bytes"
    LIST = "lists"
    NULL = "nulls"


Tables = Mapping[str, Mapping[str, Kind]]
"""Each table with its columns."""

_TRUNCATED: Final = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE"})
_POINT_IN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?", re.ASCII)
_SIMPLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_BIGINT: Final = (1 << 63) - 1
_INT: Final = (1 << 31) - 1
_ORDERED: Final = frozenset(Kind) - {Kind.LIST, Kind.TRUTH, Kind.BYTES}
_SHOWN: Final = frozenset(Kind) - {Kind.NULL}
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_JOINS: Final = frozenset({
    ("", ""), ("", "INNER"), ("", "CROSS"), ("LEFT", ""), ("LEFT", "OUTER"), ("RIGHT", ""),
    ("RIGHT", "OUTER"), ("FULL", ""), ("FULL", "OUTER"), ("", "SEMI"), ("LEFT", "SEMI"),
    ("", "ANTI"), ("LEFT", "ANTI"),
})  # fmt: skip
_HOLDS: Final[Mapping[type[Any], str]] = {
    exp.Select: "expressions from_ joins where group having order limit offset distinct with_",
    exp.Subquery: "this alias",
    exp.With: "expressions",
    exp.CTE: "this alias",
    exp.From: "this",
    exp.Table: "this alias",
    exp.TableAlias: "this",
    exp.Join: "this side kind on using",
    exp.Where: "this",
    exp.Having: "this",
    exp.Group: "expressions",
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Distinct: "expressions",
    exp.Alias: "this alias",
    exp.Column: "this table",
    exp.Identifier: "this quoted",
    exp.Star: "",
    exp.Literal: "this is_string",
    exp.Boolean: "this",
    exp.Null: "",
    exp.Paren: "this",
    exp.And: "this expression",
    exp.Or: "this expression",
    exp.Not: "this",
    exp.Is: "this expression",
    exp.In: "this expressions query",
    exp.Between: "this low high",
    exp.Exists: "this",
    exp.Like: "this expression",
    exp.DPipe: "this expression safe",
    exp.Add: "this expression",
    exp.Sub: "this expression",
    exp.Mul: "this expression",
    exp.Neg: "this",
    exp.Case: "this ifs default",
    exp.If: "this true false",
    exp.Coalesce: "this expressions",
    exp.Length: "this",
    exp.Substring: "this start length",
    exp.TimestampTrunc: "this unit",
    exp.Var: "this",
    exp.Cast: "this to",
    exp.TryCast: "this to",
    exp.DataType: "this",
    exp.Count: "this big_int",
    exp.Sum: "this",
    exp.Min: "this",
    exp.Max: "this",
    exp.Avg: "this",
    **dict.fromkeys(_COMPARED, "this expression"),
}
_PARTS: Final = {kind: frozenset(names.split()) for kind, names in _HOLDS.items()}
_FIRST: Final = frozenset({"with_", "from_", "joins"})
_WIDTHS: Final[Mapping[type[Any], str]] = {exp.Sum: "BIGINT", exp.Length: "INT"}
_FUNCTIONS: Final[Mapping[type[Any], str]] = {
    exp.Count: "count", exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Avg: "avg",
}  # fmt: skip


def translate(query: str, tables: Tables) -> str:
    """Return a query of Spark as one of DuckDB that gives the same answer.

    Raises ``OnlySpark`` where that is not known, and ``LakeError`` where a table or a column is
    named that neither would find.
    """
    if len(query) > LAKE.query_characters:
        raise OnlySpark(f"a query of more than {LAKE.query_characters:,} characters")
    if "\\" in query:
        raise OnlySpark("a backslash")  # text, patterns: it means something else in each of them
    try:
        parsed = sqlglot.parse(query, read="spark")
        if len(parsed) != 1 or not isinstance(parsed[0], exp.Select):
            raise OnlySpark("anything but one SELECT")
        return _translated(parsed[0], tables)
    except (SqlglotError, RecursionError):
        raise OnlySpark("what cannot be read here") from None


def _translated(tree: Any, tables: Tables) -> str:
    if sum(1 for _ in tree.walk()) > LAKE.query_parts:
        raise OnlySpark(f"more than {LAKE.query_parts:,} parts")
    _Check(tables).whole(tree)
    # From the inside out: a copy of the outer one then has what was done to the inner one.
    for node in reversed(list(tree.find_all(exp.Sum, exp.Length))):
        node.replace(exp.cast(node.copy(), _WIDTHS[type(node)], dialect="duckdb"))
    return str(tree.sql(dialect="duckdb", identify=True))


def same(what: str) -> LakeError:
    """Return the error for a query that no engine can answer."""
    return LakeError(
        f"query: {what}", code=Code.LAKE_JOB,
        hint="lace help --page lake says which tables and columns there are.",
    )  # fmt: skip


@dataclass(slots=True)
class _Check:
    tables: Tables
    columns: dict[str, Kind] = field(default_factory=dict)
    """All names of columns, in small letters: of tables, and those that the query gives."""
    given: set[str] = field(default_factory=set)
    """Those that the query gives, anywhere in it."""

    def whole(self, tree: Any) -> None:
        for node in tree.walk():
            _shape(node)
        self._know_tables(tree)
        self.given = {alias.alias.lower() for alias in tree.find_all(exp.Alias)}
        for select in _inner_first(tree):
            self._select(select)

    def _know_tables(self, tree: Any) -> None:
        own = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        known = {name.lower(): columns for name, columns in self.tables.items()}
        if own & known.keys():
            raise OnlySpark("a name of a table that is given to something else")
        for node in tree.find_all(exp.Table):
            name = node.name.lower()
            if name not in known and name not in own:
                raise same(f"there is no table {shown(node.name)}: there are {', '.join(known)}")
            for column, kind in known.get(name, {}).items():
                self._add(column, kind)

    def _add(self, name: str, kind: Kind) -> None:
        if self.columns.setdefault(name.lower(), kind) is not kind:
            raise OnlySpark(f"two columns {shown(name)} of different types")

    def _select(self, select: Any) -> None:
        if not select.expressions:
            raise OnlySpark("a query for nothing")
        self._joins(select)
        made: dict[str, Kind] = {}
        inside = isinstance(select.parent, exp.Exists)
        found = [item if inside else self._named(item, made) for item in select.expressions]
        select.set("expressions", found)
        if select.args.get("where"):
            self._truth(select.args["where"].this, "what WHERE asks")
        # Up to here the names that this part gives are not known: engines differ in who sees them.
        for name, kind in made.items():
            if name in self.columns:
                raise OnlySpark(f"the name {shown(name)} of a column for something else")
            self.columns[name] = kind
        for item in select.args["group"].expressions if select.args.get("group") else ():
            if not self._position(item, len(found)):
                self._one_of(item, _ORDERED | {Kind.TRUTH}, "GROUP BY")
        if select.args.get("having"):
            self._truth(select.args["having"].this, "what HAVING asks")
        for item in select.args["order"].expressions if select.args.get("order") else ():
            if not self._position(item.this, len(found)):
                self._one_of(item.this, _ORDERED, "ORDER BY")
        for part in ("limit", "offset"):
            if select.args.get(part):
                count = select.args[part].expression
                if not isinstance(count, exp.Literal) or self.kind(count) is not Kind.INTEGER:
                    raise OnlySpark(f"{part.upper()} of anything but a number")
                if int(count.this) > _INT:
                    raise OnlySpark(f"{part.upper()} of so many rows")

    def _joins(self, select: Any) -> None:
        starred = any(item.is_star for item in select.expressions)
        for join in select.args.get("joins") or ():
            side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
            if (side, kind) not in _JOINS:
                raise OnlySpark(f"a join of this kind: {side} {kind}")
            if join.args.get("using"):
                if starred or side in {"RIGHT", "FULL"}:
                    raise OnlySpark("USING with *, or in a join that keeps the right side")
                for name in join.args["using"]:
                    self._column(name.name)
            if join.args.get("on"):
                self._truth(join.args["on"], "what ON asks")

    def _named(self, item: Any, made: dict[str, Kind]) -> Any:
        """Return what is asked for, with the name that Spark gives it."""
        if item.is_star:
            return item
        if not isinstance(item, exp.Alias):
            self._one_of(item, _SHOWN, "a column")
            name = item.name if isinstance(item, exp.Column) else _spark_name(item)
            return exp.alias_(item, name, quoted=True)
        kind = self._one_of(item.this, _SHOWN, "a column")
        name = item.alias.lower()
        if not isinstance(item.this, exp.Column) or item.this.name.lower() != name:
            if name in made:
                raise OnlySpark("one name for two columns")
            made[name] = kind
        return item

    def _position(self, item: Any, count: int) -> bool:
        """Whether a column is named by its number."""
        if isinstance(item, exp.Literal) and not item.is_string:
            if item.this.isdecimal() and 1 <= int(item.this) <= count:
                return True
            raise OnlySpark("a number of a column that is not there")
        return False

    # --- kinds ---

    def kind(self, node: Any) -> Kind:
        """Return what the values of an expression are; raise where engines may differ."""
        match node:
            case exp.Column() if not node.is_star:
                return self._column(node.name, qualified=bool(node.table))
            case exp.Literal():
                return _literal(node)
            case exp.Null():
                return Kind.NULL
            case exp.Boolean():
                return Kind.TRUTH
            case exp.Paren():
                return self.kind(node.this)
            case exp.And() | exp.Or():
                self._truth(node.this, "what AND and OR join")
                self._truth(node.expression, "what AND and OR join")
                return Kind.TRUTH
            case exp.Not():
                self._truth(node.this, "what NOT turns round")
                return Kind.TRUTH
            case exp.Is():
                self.kind(node.this)
                if not isinstance(node.expression, exp.Null):
                    raise OnlySpark("IS with anything but NULL")
                return Kind.TRUTH
            case exp.Exists():
                if not isinstance(node.this, exp.Select):
                    raise OnlySpark("EXISTS of anything but a query")
                return Kind.TRUTH
            case exp.In():
                return self._in(node)
            case exp.Between():
                self._alike([node.this, node.args["low"], node.args["high"]], _ORDERED)
                return Kind.TRUTH
            case exp.Like():
                self._one_of(node.this, {Kind.TEXT}, "LIKE")
                if not (isinstance(node.expression, exp.Literal) and node.expression.is_string):
                    raise OnlySpark("LIKE with a pattern that is no text")
                return Kind.TRUTH
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Coalesce():
                return self._alike([node.this, *node.expressions], frozenset(Kind), literal=False)
        if isinstance(node, _COMPARED):
            self._alike([node.this, node.expression], _ORDERED | {Kind.TRUTH})
            return Kind.TRUTH
        return self._computed(node)

    def _computed(self, node: Any) -> Kind:
        match node:
            case exp.Add() | exp.Sub() | exp.Mul():
                self._one_of(node.this, {Kind.INTEGER}, "arithmetic")
                self._one_of(node.expression, {Kind.INTEGER}, "arithmetic")
                return Kind.INTEGER
            case exp.Neg():
                return self._one_of(node.this, {Kind.INTEGER}, "arithmetic")
            case exp.DPipe():
                self._one_of(node.this, {Kind.TEXT}, "||")
                return self._one_of(node.expression, {Kind.TEXT}, "||")
            case exp.Length():
                self._one_of(node.this, {Kind.TEXT}, "length")
                return Kind.INTEGER
            case exp.Substring():
                return self._substring(node)
            case exp.TimestampTrunc():
                if node.args["unit"].name.upper() not in _TRUNCATED:
                    raise OnlySpark("date_trunc to this unit")
                return self._one_of(node.this, {Kind.TIME}, "date_trunc")
            case exp.Cast() if node.to.this == exp.DataType.Type.DATE:
                self._one_of(node.this, {Kind.TIME}, "CAST AS DATE")
                return Kind.DATE
            case exp.Count():
                return self._count(node)
            case exp.Sum():
                self._one_of(node.this, {Kind.INTEGER}, "sum")
                return Kind.INTEGER
            case exp.Avg():
                # A sum of what is stored is exact in both, so that the quotient is the same.
                if not isinstance(node.this, exp.Column):
                    raise OnlySpark("avg of anything but a column")
                self._one_of(node.this, {Kind.INTEGER}, "avg")
                return Kind.FLOAT
            case exp.Min() | exp.Max():
                return self._one_of(node.this, _ORDERED - {Kind.NULL}, "min and max")
        raise OnlySpark(_word(node))

    def _column(self, name: str, *, qualified: bool = False) -> Kind:
        found = self.columns.get(name.lower())
        if found is None and (qualified or name.lower() in self.given):
            raise OnlySpark(f"the name {shown(name)} in this place")
        if found is None:
            known = ", ".join(sorted(self.columns)) or "none"
            raise same(f"there is no column {shown(name)}: there are {known}")
        return found

    def _in(self, node: Any) -> Kind:
        query = node.args.get("query")
        if query is None:
            self._alike([node.this, *node.expressions], _ORDERED)
            return Kind.TRUTH
        inner = query.this if isinstance(query, exp.Subquery) else query
        if len(inner.expressions) != 1 or inner.expressions[0].is_star:
            raise OnlySpark("IN with a query of several columns")
        asked = inner.expressions[0]
        self._alike([node.this, asked.this if isinstance(asked, exp.Alias) else asked], _ORDERED)
        return Kind.TRUTH

    def _case(self, node: Any) -> Kind:
        if isinstance(node, exp.If):
            self._truth(node.this, "what IF asks")
            return self._alike([node.args["true"], node.args.get("false") or exp.Null()],
                               frozenset(Kind), literal=False)  # fmt: skip
        if node.this is not None:
            self._alike([node.this, *(branch.this for branch in node.args["ifs"])], _ORDERED)
        else:
            for branch in node.args["ifs"]:
                self._truth(branch.this, "what WHEN asks")
        results = [branch.args["true"] for branch in node.args["ifs"]]
        results.append(node.args.get("default") or exp.Null())
        return self._alike(results, frozenset(Kind), literal=False)

    def _substring(self, node: Any) -> Kind:
        self._one_of(node.this, {Kind.TEXT}, "substring")
        start, length = node.args.get("start"), node.args.get("length")
        for number in (start, length):
            if number is not None and (
                not isinstance(number, exp.Literal)
                or self.kind(number) is not Kind.INTEGER
                or (number is start and number.this == "0")
            ):
                raise OnlySpark("substring from anything but a number from 1 on")
        return Kind.TEXT

    def _count(self, node: Any) -> Kind:
        counted = node.this
        if isinstance(counted, exp.Distinct):
            if len(counted.expressions) != 1:
                raise OnlySpark("count of several columns")
            self._one_of(counted.expressions[0], _ORDERED, "count")
        elif not isinstance(counted, exp.Star):
            self.kind(counted)
        return Kind.INTEGER

    def _truth(self, node: Any, what: str) -> None:
        self._one_of(node, {Kind.TRUTH, Kind.NULL}, what)

    def _one_of(self, node: Any, kinds: Iterable[Kind], what: str) -> Kind:
        found = self.kind(node)
        if found not in kinds:
            raise OnlySpark(f"{what}: {found}")
        return found

    def _alike(self, nodes: list[Any], kinds: Iterable[Kind], *, literal: bool = True) -> Kind:
        """Return the one kind of several expressions.

        Where a ``literal`` may stand for a point in time, it is written out in full.
        """
        found = [(node, self.kind(node)) for node in nodes]
        real = {kind for _, kind in found} - {Kind.NULL}
        if literal and real == {Kind.TIME, Kind.TEXT}:
            for node, kind in found:
                if kind is Kind.TEXT and not (
                    isinstance(node, exp.Literal) and _POINT_IN_TIME.fullmatch(node.this)
                ):
                    raise OnlySpark("a time that is not written as '2024-06-01 12:00:00'")
            real = {Kind.TIME}
        if real == {Kind.INTEGER, Kind.FLOAT}:
            real = {Kind.FLOAT}
        if len(real) > 1:
            raise OnlySpark(f"{' and '.join(sorted(real))} together")
        one = real.pop() if real else Kind.NULL
        if one not in kinds:
            raise OnlySpark(f"a comparison of {one}")
        return one


def _shape(node: Any) -> None:
    """Raise ``OnlySpark`` for a node that holds more than is known here."""
    allowed = _PARTS.get(type(node))
    if allowed is None:
        raise OnlySpark(_word(node))
    for name, value in node.args.items():
        if value and name not in allowed:
            raise OnlySpark(f"{_word(node)} with {name.strip('_')}")


def _word(node: Any) -> str:
    return str(getattr(node, "key", type(node).__name__)).upper()


def _literal(node: Any) -> Kind:
    if node.is_string:
        return Kind.TEXT
    if not node.this.isdecimal() or int(node.this) > _BIGINT:
        raise OnlySpark(f"the number {shown(node.this)}")
    return Kind.INTEGER


def _inner_first(node: Any) -> Iterator[Any]:
    """Yield the queries in a query, each after those whose names it may use."""
    for name in sorted(node.args, key=lambda name: name not in _FIRST):
        value = node.args[name]
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expression):
                yield from _inner_first(child)
    if isinstance(node, exp.Select):
        yield node


def _spark_name(node: Any) -> str:
    """Return what Spark calls a count or the like that has no name."""
    inner, distinct = node.this, ""
    called = _FUNCTIONS.get(type(node))
    if isinstance(inner, exp.Distinct):
        inner, distinct = inner.expressions[0], "DISTINCT "
    inside = "1" if isinstance(inner, exp.Star) else getattr(inner, "name", "")
    plain = isinstance(inner, exp.Column) and not inner.table and _SIMPLE.fullmatch(inside)
    if called is None or not (plain or isinstance(inner, exp.Star)):
        raise OnlySpark("a column without a name: give it one with AS")
    return f"{called}({distinct}{inside})"
