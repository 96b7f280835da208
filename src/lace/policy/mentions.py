"""Which facts a set of modules can look at, so that nothing else is loaded for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lace.datalog.ast import Atom, Constant, Predicate, atom_of
from lace.datalog.source import Fact, FactSource, MemorySource, Row
from lace.policy.module import PolicyModule
from lace.record.facts import facts, fields
from lace.record.model import Record
from lace.vocabulary import FIELD, HAVE, RECORD_FACTS

_OTHERS: Final = RECORD_FACTS - {HAVE, FIELD}
_NAME: Final = 1


@dataclass(frozen=True, slots=True)
class Mentions:
    """The record facts that rules can look at: whole predicates, and fields by name."""

    predicates: frozenset[Predicate]
    fields: frozenset[str]

    @classmethod
    def of(cls, modules: Iterable[PolicyModule]) -> Mentions:
        predicates = {HAVE}  # which records there are matters to everyone
        fields: set[str] = set()
        for module in modules:
            for rule in module.lacegram.rules:
                for atom in filter(None, map(atom_of, rule.body)):
                    if atom.predicate not in RECORD_FACTS:
                        continue
                    name = _field_name(atom)
                    if name is None:
                        predicates.add(atom.predicate)
                    else:
                        fields.add(name)
        return cls(frozenset(predicates), frozenset(fields))

    def facts(self, record: Record) -> Iterator[Fact]:
        """Yield the facts of one record that are mentioned."""
        predicates = self.predicates
        yield "Have", record.hash
        names = None if FIELD in predicates else self.fields
        for name, index, value in fields(record, names):
            yield "Field", record.hash, name, str(index), value
        if not predicates.isdisjoint(_OTHERS):
            for fact in facts(record):
                if (fact[0], len(fact) - 1) in _OTHERS & predicates:
                    yield fact

    def rows(self, source: FactSource) -> Iterator[tuple[Predicate, Iterator[Row]]]:
        """Yield the facts of a source that are mentioned, in parts; one may come twice."""
        for predicate in sorted(self.predicates):
            yield predicate, source.select(predicate, {})
        if FIELD not in self.predicates:
            for name in sorted(self.fields):
                yield FIELD, source.select(FIELD, {_NAME: name})

    def load(self, source: FactSource, into: MemorySource) -> None:
        """Add the facts of a source that are mentioned, and no others."""
        for predicate, rows in self.rows(source):
            into.add_rows(predicate, rows)


def _field_name(atom: Atom) -> str | None:
    """Return the name of the field that an atom asks for, or None if it may be any."""
    if atom.predicate != FIELD:
        return None
    name = atom.terms[_NAME]
    return name.value if isinstance(name, Constant) else None
