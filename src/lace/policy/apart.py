"""Rules that decide on each record apart: by its own facts, by runtime facts, and by guards.

Most selectors look at a place, a field, a signer, the time at which an exchange began, and nothing
else. What such rules say of a record stays the same whatever other records come and go, so that
nobody has to look at those.

The rules of a room are nearly of this kind. Who is a member follows from grants, which are other
records; but there are few of them, and they can be told by the values of their fields. Records of
which others depend in this way are guards: together with them, each record is decided on apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from lace.datalog.ast import (
    Anonymous,
    Atom,
    Cardinality,
    Constant,
    Predicate,
    Rule,
    Term,
    Test,
    atom_of,
    tested_terms,
)
from lace.vocabulary import (
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    FIELD,
    RECORD_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
)

_EXPORTS: Final = frozenset((SELECT_HAVE, SELECT_ADVERTISED, ALLOW_QUERY_RECORD))

_OF_RECORDS: Final = RECORD_FACTS | ADVERTISEMENT_FACTS | _EXPORTS

Guard = frozenset[tuple[str, str]]
"""Names of fields with the values by which guards can be told."""


def guards_of(rules: Iterable[Rule]) -> frozenset[Guard] | None:
    """Return how the guards of rules can be told; None if rules do not decide apart.

    With all records that are guards, what rules derive of any other record follows from its own
    facts and from runtime facts; and nothing is derived of a record of which nothing is known.
    There are rules of this kind that are not recognised; these cost time and nothing else.
    """
    rules = list(rules)
    speaking = _speaking(rules)
    collective: set[Predicate] = set()  # what is derived of no single record
    while more := _collective(rules, speaking - collective):
        collective |= more
    if collective & _EXPORTS:
        return None
    found: set[Guard] = set()
    for rule in rules:
        if rule.head.predicate in collective:
            guards = _guards_in(rule, speaking - collective)
            if guards is None:
                return None
            found |= guards
    return frozenset(found)


def names_matter(rules: Iterable[Rule]) -> bool:
    """Whether rules may decide otherwise on records that differ in nothing but their names.

    They do not if the name of a record is held against names of records alone: against no constant,
    no value, in no test. There are rules that do without and are not recognised.
    """
    rules = list(rules)
    defined = {rule.head.predicate for rule in rules} - _EXPORTS
    found: dict[tuple[Predicate, int], set[str]] = {}

    def kinds_at(predicate: Predicate, place: int) -> set[str]:
        if (predicate, place) not in found:
            is_record = predicate in _OF_RECORDS and place == _place_of_record(predicate)
            given = {"record"} if is_record else {"value"}
            found[predicate, place] = set() if predicate in defined else given
        return found[predicate, place]

    joined = [kinds for rule in rules for kinds in _joined(rule, kinds_at)]
    while sum(map(_make_alike, joined)):
        pass
    return any(len(kinds) > 1 for kinds in found.values())


def _joined(rule: Rule, kinds_at: Callable[[Predicate, int], set[str]]) -> Iterator[list[set[str]]]:
    """Yield what is known of places where a rule has the same term."""
    places: dict[Term, list[set[str]]] = {}
    for atom in (rule.head, *_atoms(rule)):
        for place, term in enumerate(atom.terms):
            places.setdefault(term, []).append(kinds_at(atom.predicate, place))
    tested: set[Term] = set()
    for part in rule.body:
        if isinstance(part, Test):
            tested.update(tested_terms(part))
        elif isinstance(part, Cardinality):
            tested.add(part.bound)
    for term, kinds in places.items():
        if isinstance(term, Constant) or term in tested:
            kinds.append({"value"})
        if not isinstance(term, Anonymous):
            yield kinds


def _make_alike(kinds: list[set[str]]) -> bool:
    """Make sets equal to all of them together; return whether one has changed."""
    together = set[str]().union(*kinds)
    changed = any(together != one for one in kinds)
    for one in kinds:
        one.update(together)
    return changed


def _speaking(rules: list[Rule]) -> set[Predicate]:
    """Return the predicates that speak of records, or follow from those that do."""
    speaking = set(_OF_RECORDS)
    while True:
        follows = {
            rule.head.predicate
            for rule in rules
            if any(atom.predicate in speaking for atom in _atoms(rule))
        }
        if follows <= speaking:
            return speaking
        speaking |= follows


def _collective(rules: list[Rule], single: set[Predicate]) -> set[Predicate]:
    """Return some predicates that do not speak of a single record, whatever the others do."""
    rules = [rule for rule in rules if rule.head.predicate in single]
    found = {rule.head.predicate for rule in rules if not _finds_its_record(rule, single)}
    if not found:
        # What is left to speak of another record than the head: that is better derived of none.
        found = {
            atom.predicate
            for rule in rules
            for atom in _atoms(rule)
            if atom.predicate in single and _record_of(atom) != _record_of(rule.head)
        }
    return found


def _finds_its_record(rule: Rule, single: set[Predicate]) -> bool:
    """Whether a rule looks for the record of its head, and at no facts of another one."""
    record = _record_of(rule.head)
    if record is None:
        return False
    base = [a for a in _atoms(rule) if a.predicate in RECORD_FACTS | ADVERTISEMENT_FACTS]
    found = (p for p in rule.body if isinstance(p, Atom) and p.predicate in single)
    return all(_record_of(a) == record for a in base) and any(
        _record_of(a) == record for a in found
    )


def _guards_in(rule: Rule, speaking: set[Predicate]) -> set[Guard] | None:
    """Return how the records that a rule looks at can be told; None if one of them cannot be."""
    told: dict[Term, set[tuple[str, str]]] = {}
    for atom in _atoms(rule):
        if atom.predicate in ADVERTISEMENT_FACTS:
            return None
        if atom.predicate in speaking:
            record = _record_of(atom)
            if record is None:
                return None
            told.setdefault(record, set())
    for part in rule.body:
        if isinstance(part, Atom) and part.predicate == FIELD:
            record, name, _, value = part.terms
            if isinstance(name, Constant) and isinstance(value, Constant):
                told[record].add((name.value, value.value))
    return (
        None if any(not fields for fields in told.values()) else set(map(frozenset, told.values()))
    )


def _atoms(rule: Rule) -> Iterator[Atom]:
    return filter(None, map(atom_of, rule.body))


def _record_of(atom: Atom) -> Term | None:
    """Return the term that stands for the record; None if it may be any, or there is none."""
    place = _place_of_record(atom.predicate)
    if len(atom.terms) <= place or isinstance(atom.terms[place], Anonymous):
        return None
    return atom.terms[place]


def _place_of_record(predicate: Predicate) -> int:
    return 1 if predicate == ALLOW_QUERY_RECORD else 0
