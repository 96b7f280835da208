"""Whether rules take records from anyone, or only from signers and peers that the rules name.

A key, a text or a record is *named* if a constant of the rules is it, or leads to it: what a record
says is named if its signer is, or if its hash is. So a rule takes records from anyone unless, by
what must hold in its body, the signer of the record, the record itself or the peer is named. A
grant without a named signer, any proven peer, and all but some signers are no such conditions,
since a new key meets them. Comparisons name nothing.

Of each predicate it is worked out which of its arguments are named if others are, in each of its
rules at once. A predicate that rests on itself is given the benefit of the doubt until one of its
rules takes it away. That is sound: each fact has a proof, which rests on shorter ones.

Rules for which that would take too much work are taken to be open to anyone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from lace.datalog.ast import Anonymous, Atom, Constant, Predicate, Rule, Term, Variable
from lace.limits import FIXED
from lace.policy.module import PolicyModule
from lace.vocabulary import (
    ADVERTISED_FIELD,
    FIELD,
    HERE,
    PEER,
    RECORD_FACTS,
    SELECT_ADVERTISED,
)

_NAMED: Final = "named"
_PEER: Final = "peer"
_SIGNED_BY: Final = Constant("Signed-By")

_Mark = Literal["named", "peer"]
_Place = _Mark | int | tuple[int, int]
"""What a predicate speaks of: the constants, the peer, an argument, or a record with its source."""
_Node = _Mark | Variable | tuple["_Node", "_Node"]
"""The same in one rule."""
_Steps = frozenset[tuple[_Place, _Place]]
"""The first is named only if the second is."""


def takes_from_anyone(module: PolicyModule, work: int = FIXED.admission_work) -> bool:
    """Return whether a key that the rules do not lead to can sign and bring what they select.

    It is True as well if that cannot be found out with so much ``work``.
    """
    rules: dict[Predicate, list[Rule]] = {}
    for rule in module.lacegram.rules:
        rules.setdefault(rule.head.predicate, []).append(rule)
    if SELECT_ADVERTISED not in rules:
        return False
    found = _steps(rules, work)
    return found is None or (_NAMED, (0, 1)) not in found[SELECT_ADVERTISED]


def _steps(rules: Mapping[Predicate, list[Rule]], work: int) -> dict[Predicate, _Steps] | None:
    """Return the steps that hold for each fact of each predicate that the goal rests on.

    Returns None if that takes more work.
    """
    rests_on = {SELECT_ADVERTISED: _used(rules[SELECT_ADVERTISED], rules)}
    waiting = deque(rests_on[SELECT_ADVERTISED])
    while waiting:
        predicate = waiting.popleft()
        if predicate not in rests_on:
            rests_on[predicate] = _used(rules[predicate], rules)
            waiting.extend(rests_on[predicate])
    users: dict[Predicate, set[Predicate]] = {predicate: set() for predicate in rests_on}
    for user, used in rests_on.items():
        for predicate in used:
            users[predicate].add(user)
    found = {predicate: frozenset(_all_steps(predicate)) for predicate in rests_on}
    queue = dict.fromkeys(reversed(rests_on))
    while queue:
        predicate = next(iter(queue))
        del queue[predicate]
        held = found[predicate]
        for rule in rules[predicate]:
            work -= _work(held, rule, found)
            if work < 0:
                return None
            held = _held(held, rule, found)
        if held != found[predicate]:
            found[predicate] = held
            queue |= dict.fromkeys(users[predicate])
    return found


def _used(of: list[Rule], rules: Mapping[Predicate, list[Rule]]) -> set[Predicate]:
    """Return the derived predicates that must hold where one of the rules applies."""
    atoms = (atom for rule in of for atom in rule.body if isinstance(atom, Atom))
    return {atom.predicate for atom in atoms} & rules.keys()


def _all_steps(predicate: Predicate) -> Iterator[tuple[_Place, _Place]]:
    arguments = range(predicate.arity)
    ends: list[_Place] = [_PEER, *arguments]
    ends += [(record, source) for record in arguments for source in arguments]
    for start in (_NAMED, *arguments):
        yield from ((start, end) for end in ends)


def _work(steps: _Steps, rule: Rule, found: Mapping[Predicate, _Steps]) -> int:
    """Return about how many steps ``_held`` looks at: those of the body, from each start."""
    atoms = (atom for atom in rule.body if isinstance(atom, Atom))
    of_body = sum(len(found.get(atom.predicate, atom.terms)) for atom in atoms)
    return len(steps) + of_body * (len(rule.head.terms) + 1)


def _held(steps: _Steps, rule: Rule, found: Mapping[Predicate, _Steps]) -> _Steps:
    """Return those of the steps that hold for the facts of one rule."""
    edges: dict[_Node, set[_Node]] = {}
    for atom in rule.body:
        if isinstance(atom, Atom):
            for left, right in _edges(atom, found):
                edges.setdefault(left, set()).add(right)
    terms = rule.head.terms
    reached: dict[_Place, set[_Node]] = {}
    for start in {start for start, _ in steps}:
        starts: set[_Node] = {_NAMED}
        if (node := _node(start, terms)) is not None:
            starts.add(node)
        reached[start] = _reached(starts, edges)

    def ends_in(start: _Place, end: _Place) -> bool:
        there = reached[start]
        if isinstance(end, tuple) and (_PEER in there or _node(end[0], terms) in there):
            return True
        return _node(end, terms) in there

    return frozenset(step for step in steps if ends_in(*step))


def _edges(atom: Atom, found: Mapping[Predicate, _Steps]) -> Iterator[tuple[_Node, _Node]]:
    """Yield what one condition adds: the second is named if the first is."""
    predicate, terms = atom.predicate, atom.terms
    pairs: list[tuple[_Place, _Place]] = []
    if predicate in found:
        pairs += found[predicate]
    elif predicate in RECORD_FACTS:
        pairs += [(0, place) for place in range(1, len(terms))]
        if predicate == FIELD and terms[1] == _SIGNED_BY:
            pairs.append((3, 0))
    elif predicate == ADVERTISED_FIELD and terms[2] == _SIGNED_BY:
        pairs.append((4, (0, 1)))  # a claim, which is checked when the record comes (L74)
    elif predicate == PEER:
        pairs.append((0, _PEER))
    elif predicate == HERE:
        pairs.append((_NAMED, 0))
    for start, end in pairs:
        left, right = _node(start, terms), _node(end, terms)
        if left is not None and right is not None:
            yield left, right


def _node(place: _Place, terms: tuple[Term, ...]) -> _Node | None:
    """Return what stands at a place of an atom; None for what has no name there."""
    if isinstance(place, str):
        return place
    if isinstance(place, tuple):
        record, source = (_node(one, terms) for one in place)
        return None if record is None or source is None else (record, source)
    term = terms[place]
    if isinstance(term, Anonymous):
        return None
    return _NAMED if isinstance(term, Constant) else term


def _reached(starts: set[_Node], edges: Mapping[_Node, set[_Node]]) -> set[_Node]:
    reached, waiting = set(starts), list(starts)
    while waiting:
        fresh = edges.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh
    return reached
