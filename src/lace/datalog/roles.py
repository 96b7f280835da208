"""Which predicates a program may define and mention: a value that whoever checks it hands in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lace.datalog.ast import Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a program may do under one role."""

    name: str
    base: frozenset[Predicate]
    """Supplied by the profile; a rule may use but not define them."""
    undefinable: frozenset[Predicate] = frozenset()
    undefinable_names: frozenset[str] = frozenset()
    undefinable_prefixes: tuple[str, ...] = ()
    unmentionable_names: frozenset[str] = frozenset()
    allows_local: bool = True
    """Whether names with a leading underscore may be used."""

    def may_define(self, predicate: Predicate) -> bool:
        return not (
            predicate in self.undefinable
            or predicate.name in self.undefinable_names | self.unmentionable_names
            or predicate.name.startswith(self.undefinable_prefixes)
        )

    def may_mention(self, predicate: Predicate) -> bool:
        return predicate.name not in self.unmentionable_names


FREE: Final = Role(name="free", base=frozenset())
"""Nothing is reserved but the words of the language."""
