"""Predicates whose facts are the named fields of keyed rows: the ones that make up stars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lace.datalog.ast import Predicate


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


WIDE_TABLES: Final = (
    WideTable(Predicate("Field", 4), 1, Predicate("Have", 1)),
    WideTable(Predicate("AdvertisedField", 5), 2, Predicate("Advertised", 2)),
)
