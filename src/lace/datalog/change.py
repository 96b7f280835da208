"""Facts that come and go, and all that has to be looked at again because of them."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.schema import Schema
from lace.datalog.source import Fact, FactSource, MemorySource, Row
from lace.limits import UNCOUNTED

_LARGE: Final = (
    0.1  # of what is there; to follow one fact costs about ten times as much as to load it
)

Touched = tuple[Predicate, Row]
"""A predicate and the first values of the facts that have to be looked at again."""


@dataclass(slots=True)
class Change:
    """What a relation lost and gained; nothing is in both."""

    removed: set[Row] = field(default_factory=set)
    added: set[Row] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)

    @classmethod
    def between(cls, before: AbstractSet[Row], after: AbstractSet[Row]) -> Change:
        return cls(set(before - after), set(after - before))


@dataclass
class FactChange:
    """Facts that came into a source and went out of it, once that has happened."""

    source: MemorySource
    came: list[Fact]
    gone: list[Fact]
    schema: Schema

    @cached_property
    def is_large(self) -> bool:
        """Whether it costs less to begin anew than to follow it."""
        return is_large(len(self.came) + len(self.gone), self.source.size_at_most())

    @cached_property
    def touched(self) -> set[Touched]:
        """What has to be looked at again."""
        return touched_by((*self.gone, *self.came), self.schema)

    @cached_property
    def after(self) -> MemorySource:
        """All facts of what was touched, as it is now."""
        return facts_around(self.source, self.touched, self.schema)

    @cached_property
    def before(self) -> MemorySource:
        """All facts of what was touched, as it was before."""
        near = MemorySource(limits=UNCOUNTED, schema=self.schema)
        came = set(self.came)
        for predicate in self.after.predicates():
            for row in self.after.iterate(predicate):
                fact = (predicate.name, *row)
                if fact not in came:
                    near.add_valid(fact)
        for fact in self.gone:
            near.add_valid(fact)
        return near


def is_large(changes: int, size: int) -> bool:
    """Whether so many changes among so many things are better not followed one by one."""
    return changes > _LARGE * size


def net_change(
    source: MemorySource, added: Iterable[Fact], removed: Iterable[Fact]
) -> tuple[list[Fact], list[Fact]]:
    """Return the facts that really come and the facts that really go."""
    wanted = dict.fromkeys(added)
    gone = [fact for fact in dict.fromkeys(removed) if fact not in wanted and source.has(fact)]
    return [fact for fact in wanted if not source.has(fact)], gone


def swap(source: MemorySource, *, gone: Iterable[Fact], came: Iterable[Fact]) -> None:
    """Take some facts out of a source and put others in, whose values are known to be valid."""
    for fact in gone:
        source.discard(fact)
    new = list(came)
    if is_large(len(new), source.size_at_most()):
        source.add_all(new)
    else:
        for fact in new:
            source.add_valid(fact)


def touched_by(facts: Iterable[Fact], schema: Schema) -> set[Touched]:
    """Return what has to be looked at again: whole keys of wide tables, single facts of others."""
    touched: set[Touched] = set()
    for name, *values in facts:
        predicate, row = Predicate(name, len(values)), tuple(values)
        table = schema.table_of(predicate)
        if table is None:
            touched.add((predicate, row))
        else:
            touched.add((table.predicate, row[: table.key]))
            touched.add((table.presence, row[: table.key]))
    return touched


def facts_around(source: FactSource, touched: Iterable[Touched], schema: Schema) -> MemorySource:
    """Return a source with just the facts of everything that was touched."""
    near = MemorySource(limits=UNCOUNTED, schema=schema)
    for predicate, values in touched:
        for row in source.query(predicate, *values):
            near.add_valid((predicate.name, *row))
    return near
