"""Rules that decide on each record apart: by its own facts and by runtime facts alone.

Most selectors are of this kind: a place, a field, a signer, the time at which an exchange began.
What such rules say of a record stays the same whatever other records come and go, so that nobody
has to look at those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lace.datalog.ast import Anonymous, Atom, Predicate, Rule, Term, atom_of
from lace.vocabulary import (
    ADVERTISEMENT_FACTS,
    ALLOW_QUERY_RECORD,
    RECORD_FACTS,
    SELECT_ADVERTISED,
    SELECT_HAVE,
)

_SPEAK_OF_RECORDS: Final = (
    RECORD_FACTS | ADVERTISEMENT_FACTS | {SELECT_HAVE, SELECT_ADVERTISED, ALLOW_QUERY_RECORD}
)


def decide_apart(rules: Iterable[Rule]) -> bool:
    """Whether what rules derive of a record follows from its own facts and from runtime facts.

    Then a record of which nothing is known has nothing derived of it, either. Rules of this kind
    that are not recognised (the record has to stand first in what helpers derive) cost only time.
    """
    rules = list(rules)
    speaking = set(_SPEAK_OF_RECORDS)  # and everything that follows from them
    while True:
        follows = {
            rule.head.predicate
            for rule in rules
            if any(atom.predicate in speaking for atom in filter(None, map(atom_of, rule.body)))
        }
        if follows <= speaking:
            break
        speaking |= follows
    return all(
        _is_about_one(rule, [part for part in map(atom_of, rule.body) if part], speaking)
        for rule in rules
        if rule.head.predicate in speaking
    )


def _is_about_one(rule: Rule, atoms: list[Atom], speaking: set[Predicate]) -> bool:
    """Whether a rule looks at the record of its head and at no other, and finds something there."""
    record = _record_of(rule.head)
    if record is None:
        return False
    looked_at = [atom for atom in atoms if atom.predicate in speaking]
    found = any(isinstance(part, Atom) and part.predicate in speaking for part in rule.body)
    return found and all(_record_of(atom) == record for atom in looked_at)


def _record_of(atom: Atom) -> Term | None:
    """Return the term that stands for the record; None if it may be any, or there is none."""
    place = 1 if atom.predicate == ALLOW_QUERY_RECORD else 0
    if len(atom.terms) <= place or isinstance(atom.terms[place], Anonymous):
        return None
    return atom.terms[place]
