"""Which predicates must be complete before which: an order, or the cycle that forbids one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lace.datalog.ast import Atom, Cardinality, Negated, Predicate, Rule, Span, atom_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Predicates that depend on each other, or one alone; evaluated together."""

    predicates: tuple[Predicate, ...]
    recursive: bool
    stratum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A predicate that depends on its own negation or count."""

    span: Span
    spelled_out: str


@dataclass(frozen=True, slots=True)
class _Edge:
    source: Predicate
    """The predicate that is defined."""
    target: Predicate
    """The predicate that it needs."""
    word: str
    span: Span

    @property
    def strict(self) -> bool:
        return bool(self.word)


def stratify(rules: Sequence[Rule]) -> tuple[Component, ...] | Cycle:
    """Return the components of the derived predicates, each after all that it needs."""
    derived = {rule.head.predicate for rule in rules}
    edges: dict[Predicate, list[_Edge]] = {predicate: [] for predicate in sorted(derived)}
    for rule in rules:
        for part in rule.body:
            atom = atom_of(part)
            if atom is not None and atom.predicate in derived:
                word = {Atom: "", Negated: "not ", Cardinality: "count of "}[type(part)]
                edges[rule.head.predicate].append(
                    _Edge(rule.head.predicate, atom.predicate, word, part.span)
                )
    groups = _components(edges)
    member = {predicate: index for index, group in enumerate(groups) for predicate in group}
    strata: dict[Predicate, int] = {}
    components = []
    for index, group in enumerate(groups):
        stratum = 0
        recursive = False
        for predicate in sorted(group):
            for edge in edges[predicate]:
                if member[edge.target] == index:
                    if edge.strict:
                        return _cycle(edge, edges, set(group))
                    recursive = True
                else:
                    stratum = max(stratum, strata[edge.target] + edge.strict)
        strata |= dict.fromkeys(group, stratum)
        components.append(
            Component(predicates=tuple(sorted(group)), recursive=recursive, stratum=stratum)
        )
    return tuple(components)


def _cycle(forbidden: _Edge, edges: dict[Predicate, list[_Edge]], group: set[Predicate]) -> Cycle:
    """Spell out the shortest way from the needed predicate back to the one that needs it."""
    way: dict[Predicate, _Edge | None] = {forbidden.target: None}
    queue = [forbidden.target]
    for predicate in queue:
        for edge in edges[predicate]:
            if edge.target in group and edge.target not in way:
                way[edge.target] = edge
                queue.append(edge.target)
    steps: list[_Edge] = []
    step = way[forbidden.source]
    while step is not None:
        steps.append(step)
        step = way[step.source]
    path = [forbidden, *reversed(steps)]
    text = str(forbidden.source) + "".join(f" → {e.word}{e.target}" for e in path)
    return Cycle(span=forbidden.span, spelled_out=text)


def _components(edges: dict[Predicate, list[_Edge]]) -> list[list[Predicate]]:
    """Tarjan's algorithm without recursion; a component comes after those it needs."""
    index: dict[Predicate, int] = {}
    low: dict[Predicate, int] = {}
    on_stack: set[Predicate] = set()
    stack: list[Predicate] = []
    groups: list[list[Predicate]] = []
    for root, first in edges.items():
        if root in index:
            continue
        work = [(root, iter(first))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for edge in rest:
                if edge.target not in index:
                    index[edge.target] = low[edge.target] = len(index)
                    stack.append(edge.target)
                    on_stack.add(edge.target)
                    work.append((edge.target, iter(edges[edge.target])))
                    break
                if edge.target in on_stack:
                    low[node] = min(low[node], index[edge.target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    group: list[Predicate] = []
                    while not group or group[-1] != node:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                    groups.append(group)
    return groups
