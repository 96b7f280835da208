"""Which predicates a program may define and mention, by the role it is read under (A10-A12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lace.datalog.ast import Predicate


def _predicates(*names: tuple[str, int]) -> frozenset[Predicate]:
    return frozenset(Predicate(name, arity) for name, arity in names)


RECORD_FACTS: Final = _predicates(
    ("Have", 1), ("Field", 4), ("RecordLink", 5), ("BlobHash", 2), ("PlexHash", 2)
)
ADVERTISEMENT_FACTS: Final = _predicates(("Advertised", 2), ("AdvertisedField", 5))
RUNTIME_FACTS: Final = _predicates(
    ("Here", 1), ("Peer", 1), ("Transport", 1), ("TransportEncrypted", 0), ("StartTAI", 1),
    ("TickTAI", 1), ("ClockSkewSeconds", 1),
)  # fmt: skip
SELECT_HAVE: Final = Predicate("SelectHave", 1)
SELECT_ADVERTISED: Final = Predicate("SelectAdvertised", 2)
ALLOW_QUERY_RECORD: Final = Predicate("AllowQueryRecord", 2)
_GENERATED: Final = frozenset(("MaySend", "MayRequest", "CanQueryRecord"))
_SCOPES: Final = ("o0_", "o1_")


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


_EXCHANGE: Final = RECORD_FACTS | ADVERTISEMENT_FACTS | RUNTIME_FACTS

PLAIN: Final = Role(name="plain", base=RECORD_FACTS)
"""The rule engine alone: only base predicates and built-ins are reserved."""

SELECTOR: Final = Role(
    name="selector",
    base=_EXCHANGE,
    undefinable_prefixes=(*_SCOPES, "Allow"),
    unmentionable_names=_GENERATED | {ALLOW_QUERY_RECORD.name},
    allows_local=False,
)
"""An operand of an exchange: it says what is selected, and knows nothing of enforcement."""

EXPOSE: Final = Role(
    name="expose",
    base=_EXCHANGE - ADVERTISEMENT_FACTS,
    undefinable=frozenset((SELECT_HAVE, SELECT_ADVERTISED)) | ADVERTISEMENT_FACTS,
    undefinable_names=_GENERATED,
    undefinable_prefixes=_SCOPES,
)
"""Local policy that says which records a viewer's rules may see."""

ROLES: Final = {role.name: role for role in (PLAIN, SELECTOR, EXPOSE)}
