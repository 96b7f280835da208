"""What the engine is told of base predicates; by itself it knows none of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lace.datalog.ast import Predicate

BASE_FACTS: Final = "base_facts"
"""The limit that facts count towards unless a schema names another."""


@dataclass(frozen=True, slots=True)
class WideTable:
    """A predicate whose facts are the named fields of keyed rows."""

    predicate: Predicate
    """Key columns, then name, index and value."""
    key: int
    """How many columns the key has."""
    presence: Predicate
    """Says which keys there are."""

    @property
    def name(self) -> int:
        return self.key

    @property
    def index(self) -> int:
        return self.key + 1

    @property
    def value(self) -> int:
        return self.key + 2


@dataclass(frozen=True)
class Schema:
    """Which predicates are wide, and which limits facts count towards.

    Answers never depend on it: it decides how facts are kept and joined, and how they are counted.
    """

    wide: tuple[WideTable, ...] = ()
    counted: tuple[tuple[str, frozenset[Predicate]], ...] = ()
    """Names of limits with the predicates whose facts they count."""

    @cached_property
    def parting(self) -> dict[tuple[str, int], int]:
        """The column by which the facts of a predicate are kept apart: that of the field name."""
        return {table.predicate: table.name for table in self.wide}

    @cached_property
    def _limits(self) -> dict[tuple[str, int], str]:
        return {predicate: limit for limit, some in self.counted for predicate in some}

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """The names of all limits that facts may count towards."""
        return (BASE_FACTS, *(limit for limit, _ in self.counted))

    def limit_of(self, predicate: tuple[str, int]) -> str:
        """Return the name of the limit that facts of a predicate count towards."""
        return self._limits.get(predicate, BASE_FACTS)

    @cached_property
    def _tables(self) -> dict[Predicate, WideTable]:
        return {name: table for table in self.wide for name in (table.presence, table.predicate)}

    def table_of(self, predicate: Predicate) -> WideTable | None:
        """Return the wide table that a predicate belongs to, as its fields or as its presence."""
        return self._tables.get(predicate)


NOTHING_KNOWN: Final = Schema()
"""No predicate means anything."""
