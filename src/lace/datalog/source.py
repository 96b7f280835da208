"""Where base facts come from: three calls of the specification, and one more for indexes.

``iterate``, ``query`` and ``count`` are all that a source must have. ``select`` is what the engine
uses to load: the facts with given values in given columns. A store answers it from an index; the
default answers it by looking at every fact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, Protocol

from lace import text
from lace.datalog.ast import Predicate
from lace.datalog.roles import RUNTIME_FACTS
from lace.datalog.wide import WIDE_TABLES
from lace.errors import Code, Diagnostic, EncodingError, LacegramError, LimitExceeded, UsageError
from lace.limits import DEFAULT_LIMITS, Limits

Row = tuple[str, ...]
_PARTED: Final[dict[tuple[str, int], int]] = {table.predicate: table.name for table in WIDE_TABLES}
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
        """Yield the facts that have these values in these columns."""


class _Table:
    """The facts of one predicate: parted by one column, and indexed by the first when asked.

    Wide tables are parted by field name, because that is how rules ask for them.
    """

    __slots__ = ("by_first", "parted_by", "parts", "size")

    def __init__(self, parted_by: int | None) -> None:
        self.parted_by = parted_by
        # Dicts stand for sets here: they keep the order of arrival, which is the order in memory.
        self.parts: dict[str, dict[Row, None]] = {} if parted_by is not None else {"": {}}
        self.by_first: dict[str, dict[Row, None]] | None = None
        self.size = 0

    def rows(self) -> Iterator[Row]:
        return chain.from_iterable(self.parts.values())

    def add(self, row: Row) -> bool:
        part = self.parts.setdefault("" if self.parted_by is None else row[self.parted_by], {})
        if row in part:
            return False
        part[row] = None
        self.size += 1
        if self.by_first is not None:
            self.by_first.setdefault(row[0], {})[row] = None
        return True

    def add_all(self, rows: Iterable[Row]) -> None:
        column = self.parted_by
        if column is None:
            self.parts[""].update(dict.fromkeys(rows))
        else:
            parts = self.parts
            for row in rows:
                part = parts.get(row[column])
                if part is None:
                    part = parts[row[column]] = {}
                part[row] = None
        self.size = sum(map(len, self.parts.values()))
        self.by_first = None

    def discard(self, row: Row) -> bool:
        part = self.parts.get("" if self.parted_by is None else row[self.parted_by])
        if part is None or row not in part:
            return False
        del part[row]
        self.size -= 1
        if self.by_first is not None:
            bucket = self.by_first[row[0]]
            del bucket[row]
            if not bucket:
                del self.by_first[row[0]]
        return True

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
            rows = self.parts.get(rest.pop(self.parted_by), ())
        else:
            rows = self.rows()
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
    """Facts held in memory."""

    def __init__(self, facts: Iterable[Fact] = (), limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._tables: dict[tuple[str, int], _Table] = {}
        self._sizes = {"base_facts": 0, "runtime_facts": 0}
        for fact in facts:
            self.add(fact)

    def predicates(self) -> Iterable[Predicate]:
        return [Predicate(*key) for key, table in self._tables.items() if table.size]

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        table = self._tables.get(predicate)
        return table.rows() if table else iter(())

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        if len(values) > predicate.arity:
            raise UsageError(f"{predicate} has no {len(values)} values", code=Code.FACT_ARITY)
        return self.select(predicate, dict(enumerate(values)))

    def count(self, predicate: Predicate, /) -> int:
        table = self._tables.get(predicate)
        return table.size if table else 0

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        table = self._tables.get(predicate)
        return table.select(bound) if table else iter(())

    def add(self, fact: Fact) -> bool:
        """Add a fact; return whether it is new. What breaks a rule or a limit raises."""
        check_fact(fact, self._limits)
        return self.add_valid(fact)

    def add_valid(self, fact: Fact) -> bool:
        """Add a fact whose values are known to be valid, as those of a validated record are."""
        key = fact[0], len(fact) - 1
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = _Table(_PARTED.get(key))
        if not table.add(fact[1:]):
            return False
        kind = "runtime_facts" if key in RUNTIME_FACTS else "base_facts"
        self._sizes[kind] += 1
        limit = getattr(self._limits, kind)
        if self._sizes[kind] > limit:
            self.discard(fact)
            raise LimitExceeded(kind, configured=limit, observed=limit + 1)
        return True

    def add_rows(self, predicate: Predicate, rows: Iterable[Row]) -> None:
        """Add many facts of one predicate whose values are known to be valid."""
        table = self._tables.setdefault(predicate, _Table(_PARTED.get(predicate)))
        before = table.size
        kind = "runtime_facts" if predicate in RUNTIME_FACTS else "base_facts"
        room = getattr(self._limits, kind) - self._sizes[kind]
        table.add_all(islice(iter(rows), room + 1))
        self._sizes[kind] += table.size - before
        if table.size - before > room:
            limit = getattr(self._limits, kind)
            raise LimitExceeded(kind, configured=limit, observed=limit + 1)

    def discard(self, fact: Fact) -> bool:
        """Remove a fact; return whether it was there."""
        key = fact[0], len(fact) - 1
        table = self._tables.get(key)
        if table is None or not table.discard(fact[1:]):
            return False
        self._sizes["runtime_facts" if key in RUNTIME_FACTS else "base_facts"] -= 1
        return True


def check_fact(fact: Fact, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise unless every value is valid text within the limits (030-VAL)."""
    if len(fact) - 1 > limits.arity:
        raise LimitExceeded("arity", configured=limits.arity, observed=len(fact) - 1)
    for value in fact[1:]:
        code = text.fault(value)
        if code is not None:
            raise EncodingError(f"{fact[0]}: {code.meaning}", code=code)
        if len(value) * 4 > limits.value_bytes and len(value.encode()) > limits.value_bytes:
            raise LimitExceeded(
                "value_bytes", configured=limits.value_bytes, observed=len(value.encode())
            )


_FACT: Final = re.compile(r"(_?[A-Za-z][A-Za-z0-9_~-]*)\((.*)\)")
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
