"""Where base facts come from: three calls of the specification, and one more for indexes.

``iterate``, ``query`` and ``count`` are all that a source must have. ``select`` is what the engine
uses to load: the facts with given values in given columns. A store answers it from an index; the
default answers it by looking at every fact.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, Protocol

from lace import text
from lace.datalog.ast import Predicate
from lace.datalog.schema import NOTHING_KNOWN, Schema
from lace.errors import Code, Diagnostic, EncodingError, LacegramError, LimitExceeded, UsageError
from lace.limits import DEFAULT_LIMITS, Limits

Row = tuple[str, ...]
Fact = tuple[str, ...]
"""Predicate name, then the values."""


class FactSource(Protocol):
    """The facts of one snapshot; they do not change while an evaluation runs."""

    def predicates(self) -> Iterable[Predicate]:
        """Return the predicates that have facts."""

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        """Yield every fact of a predicate once."""

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        """Yield the facts whose first values are these."""

    def count(self, predicate: Predicate, /) -> int:
        """Return how many facts a predicate has."""

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        """Yield the facts that have these values in these columns; one may come twice."""


class _Part:
    """Rows in the order of arrival, hashed when one of them has to be found: many never are."""

    __slots__ = ("_hashed", "_listed")

    def __init__(self) -> None:
        self._hashed: dict[Row, None] = {}  # in place of a set: it keeps the order
        self._listed: list[Row] = []
        """Rows in place of ``_hashed``, some perhaps twice."""

    def listed(self) -> Collection[Row]:
        """Return the rows; one may be there twice."""
        return self._listed or self._hashed

    def hashed(self) -> dict[Row, None]:
        """Return every row once, in a form that can be changed."""
        if self._listed:
            self._hashed, self._listed = dict.fromkeys(self._listed), []
        return self._hashed

    def add_all(self, rows: list[Row]) -> int:
        """Add rows; return how many are new, or more if the part was empty."""
        if not self.listed():
            self._listed = rows
            return len(rows)
        before = len(self.hashed())
        self._hashed.update(dict.fromkeys(rows))
        return len(self._hashed) - before


class _Table:
    """The facts of one predicate: parted by one column, and indexed by the first when asked.

    Wide tables are parted by the name of the field, because that is how rules ask for them.
    """

    __slots__ = ("by_first", "limit", "parted_by", "parts")

    def __init__(self, key: tuple[str, int], schema: Schema) -> None:
        self.limit = schema.limit_of(key)
        """The name of the limit that the facts count towards."""
        self.parted_by = schema.parting.get(key)
        self.parts: defaultdict[str, _Part] = defaultdict(_Part)
        self.by_first: dict[str, dict[Row, None]] | None = None

    def part_of(self, row: Row) -> _Part:
        return self.parts["" if self.parted_by is None else row[self.parted_by]]

    def is_empty(self) -> bool:
        return not any(part.listed() for part in self.parts.values())

    def size(self) -> int:
        return sum(len(part.hashed()) for part in self.parts.values())

    def size_at_most(self) -> int:
        return sum(len(part.listed()) for part in self.parts.values())

    def rows(self) -> Iterator[Row]:
        return chain.from_iterable(part.hashed() for part in self.in_order())

    def in_order(self) -> Iterable[_Part]:
        """Return the parts by name: whose facts came first must not be seen in what is done."""
        parts = self.parts
        return parts.values() if len(parts) < 2 else map(parts.__getitem__, sorted(parts))

    def has(self, row: Row) -> bool:
        part = self.parts.get("" if self.parted_by is None else row[self.parted_by])
        return part is not None and row in part.hashed()

    def add(self, row: Row) -> bool:
        part = self.part_of(row).hashed()
        if row in part:
            return False
        part[row] = None
        if self.by_first is not None:
            self.by_first.setdefault(row[0], {})[row] = None
        return True

    def add_all(self, rows: list[Row]) -> int:
        """Add rows; return how many are new, or more where there were none."""
        self.by_first = None
        column = self.parted_by
        if column is None:
            return self.parts[""].add_all(rows)
        parted: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            parted[row[column]].append(row)
        return sum(self.parts[name].add_all(some) for name, some in parted.items())

    def discard(self, row: Row) -> bool:
        part = self.part_of(row).hashed()
        if row not in part:
            return False
        del part[row]
        if self.by_first is not None:
            bucket = self.by_first[row[0]]
            del bucket[row]
            if not bucket:
                del self.by_first[row[0]]
        return True

    def looked_at(self, bound: Mapping[int, str]) -> int:
        """Return how many rows ``select`` goes through, or more."""
        if 0 in bound and self.by_first is not None:
            return len(self.by_first.get(bound[0], ()))
        if 0 not in bound and self.parted_by is not None and self.parted_by in bound:
            part = self.parts.get(bound[self.parted_by])
            return 0 if part is None else len(part.listed())
        return self.size_at_most()

    def select(self, bound: Mapping[int, str]) -> Iterator[Row]:
        rest = dict(bound)
        rows: Iterable[Row]
        if 0 in rest:
            if self.by_first is None:
                self.by_first = {}
                for row in self.rows():
                    self.by_first.setdefault(row[0], {})[row] = None
            rows = self.by_first.get(rest.pop(0), ())
        elif self.parted_by is not None and self.parted_by in rest:
            part = self.parts.get(rest.pop(self.parted_by))
            rows = () if part is None else part.listed()
        else:
            rows = chain.from_iterable(part.listed() for part in self.in_order())
        match list(rest.items()):
            case []:
                return iter(rows)
            case [(column, value)]:
                return iter([row for row in rows if row[column] == value])
            case [(column, value), (other, also)]:
                return iter([r for r in rows if r[column] == value and r[other] == also])
            case several:
                return iter([row for row in rows if all(row[c] == v for c, v in several)])


class MemorySource:
    """Facts held in memory, no more of them than the limits allow."""

    def __init__(
        self,
        facts: Iterable[Fact] = (),
        limits: Limits = DEFAULT_LIMITS,
        schema: Schema = NOTHING_KNOWN,
    ) -> None:
        self._limits = limits
        self._schema = schema
        self._tables: dict[tuple[str, int], _Table] = {}
        self._sizes = dict.fromkeys(schema.limits, 0)
        """For each limit, how many facts count towards it at most."""
        for fact in facts:
            self.add(fact)

    def predicates(self) -> Iterable[Predicate]:
        return [Predicate(*key) for key, table in self._tables.items() if not table.is_empty()]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        table = self._tables.get(predicate)
        return table.rows() if table else iter(())

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        if len(values) > predicate.arity:
            raise UsageError(f"{predicate} has no {len(values)} values", code=Code.FACT_ARITY)
        if not values:
            return self.iterate(predicate)
        return self.select(predicate, dict(enumerate(values)))

    def count(self, predicate: Predicate, /) -> int:
        table = self._tables.get(predicate)
        return table.size() if table else 0

    def count_at_most(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has, or more if that is quicker to say."""
        table = self._tables.get(predicate)
        return table.size_at_most() if table else 0

    def size_at_most(self) -> int:
        """Return how many facts there are, or more if that is quicker to say."""
        return sum(self._sizes.values())

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        table = self._tables.get(predicate)
        return table.select(bound) if table else iter(())

    def looked_at(self, predicate: Predicate, bound: Mapping[int, str]) -> int:
        """Return how many facts ``select`` goes through, or more."""
        table = self._tables.get(predicate)
        return table.looked_at(bound) if table else 0

    def has(self, fact: Fact) -> bool:
        """Whether a fact is here."""
        table = self._tables.get((fact[0], len(fact) - 1))
        return table is not None and table.has(fact[1:])

    def add(self, fact: Fact) -> bool:
        """Add a fact; return whether it is new. What breaks a rule or a limit raises."""
        check_fact(fact, self._limits)
        return self.add_valid(fact)

    def add_valid(self, fact: Fact) -> bool:
        """Add a fact whose values are known to be valid, as those of a validated record are."""
        key = fact[0], len(fact) - 1
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(key, self._schema)
        if not table.add(fact[1:]):
            return False
        try:
            self._grow(table.limit, 1)
        except LimitExceeded:
            self.discard(fact)
            raise
        return True

    def add_rows(self, predicate: Predicate, rows: Iterable[Row]) -> None:
        """Add many facts of one predicate whose values are known to be valid."""
        table = self._tables.setdefault(predicate, _Table(predicate, self._schema))
        remaining = iter(rows)
        room = self._limit(table.limit) + 1
        while some := list(islice(remaining, min(room - self._sizes[table.limit], sys.maxsize))):
            self._grow(table.limit, table.add_all(some))

    def add_all(self, facts: Iterable[Fact]) -> None:
        """Add many facts whose values are known to be valid."""
        rows: defaultdict[Predicate, list[Row]] = defaultdict(list)
        for fact in facts:
            rows[Predicate(fact[0], len(fact) - 1)].append(fact[1:])
        for predicate, some in rows.items():
            self.add_rows(predicate, some)

    def _limit(self, name: str) -> int:
        limit: int = getattr(self._limits, name)
        return limit

    def _grow(self, name: str, more: int) -> None:
        """Take note that so many more facts count towards a limit; raise if it is passed."""
        limit = self._limit(name)
        self._sizes[name] += more
        if self._sizes[name] > limit:
            # Repeats may have been counted; now it is worth while to look for them.
            tables = self._tables.values()
            self._sizes[name] = sum(table.size() for table in tables if table.limit == name)
        if self._sizes[name] > limit:
            raise LimitExceeded(name, configured=limit, observed=limit + 1)

    def discard(self, fact: Fact) -> bool:
        """Remove a fact; return whether it was there."""
        key = fact[0], len(fact) - 1
        table = self._tables.get(key)
        if table is None or not table.discard(fact[1:]):
            return False
        self._sizes[table.limit] -= 1
        return True


def count_at_most(source: FactSource, predicate: Predicate) -> int:
    """Return how many facts a predicate has, or more if that is quicker to say."""
    if isinstance(source, MemorySource):
        return source.count_at_most(predicate)
    return source.count(predicate)


def looked_at(source: FactSource, predicate: Predicate, bound: Mapping[int, str]) -> int:
    """Return how many facts a source goes through to select some; 0 if only the source knows."""
    return source.looked_at(predicate, bound) if isinstance(source, MemorySource) else 0


def check_fact(fact: Fact, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise unless every value is valid text within the limits (030-VAL)."""
    if len(fact) - 1 > limits.arity:
        raise LimitExceeded("arity", configured=limits.arity, observed=len(fact) - 1)
    together = "".join(fact)
    if together.isascii() and len(together) <= limits.value_bytes:
        return  # nearly all of them
    for value in fact[1:]:
        code = text.fault(value)
        if code is not None:
            raise EncodingError(f"{fact[0]}: {code.meaning}", code=code)
        if len(value) * 4 > limits.value_bytes and len(value.encode()) > limits.value_bytes:
            raise LimitExceeded(
                "value_bytes", configured=limits.value_bytes, observed=len(value.encode())
            )


_FACT: Final = re.compile(r"(_?[A-Za-z][A-Za-z0-9_~-]*)\((.*)\)")
# The same without escapes, which is how nearly all of them are written.
_PLAIN: Final = re.compile(r"(_?[A-Za-z][A-Za-z0-9_~-]*)\('([^'\\\n\r]*(?:','[^'\\\n\r]*)*)'\)")
_VALUES: Final = re.compile(r"'([^'\\\n\r]*(?:\\[\\'][^'\\\n\r]*)*)'(,|$)")
_ESCAPE: Final = re.compile(r"\\(.)")


def parse_facts(source: str | bytes, *, most_problems: int = 200) -> list[Fact]:
    """Return the facts of a fact block; raise ``LacegramError`` with the bad lines (G6).

    Blank lines are passed over; duplicates merge when the facts are added to a source.
    """
    content = text.decode_utf8(source) if isinstance(source, bytes) else source
    facts: list[Fact] = []
    problems: list[Diagnostic] = []
    for number, line in enumerate(content.split("\n"), 1):
        if not line:
            continue
        fact = _parse_fact(line)
        code = Code.FACT_MALFORMED if fact is None else text.fault(line)
        if code is not None or fact is None:
            code = code or Code.FACT_MALFORMED
            problems.append(
                Diagnostic(code=code, message=code.meaning, line=number, column=1, hint=code.fix)
            )
            if len(problems) >= most_problems:
                break
        else:
            facts.append(fact)
    if problems:
        raise LacegramError(tuple(problems))
    return facts


def parse_fact(line: str) -> Fact:
    """Return the fact of one line, or raise ``LacegramError``."""
    facts = parse_facts(line)
    if len(facts) != 1:
        problem = Diagnostic(
            code=Code.FACT_MALFORMED, message="exactly one fact is needed", line=1, column=1,
            hint=Code.FACT_MALFORMED.fix,
        )  # fmt: skip
        raise LacegramError((problem,))
    return facts[0]


def _parse_fact(line: str) -> Fact | None:
    plain = _PLAIN.fullmatch(line)
    if plain is not None:
        return plain[1], *plain[2].split("','")
    match = _FACT.fullmatch(line)
    if match is None:
        return None
    name, rest = match.groups()
    values: list[str] = []
    at = 0
    while at < len(rest):
        value = _VALUES.match(rest, at)
        if value is None:
            return None
        values.append(_ESCAPE.sub(r"\1", value.group(1)))
        at = value.end()
        if value.group(2) == "," and at == len(rest):
            return None
    return name, *values
