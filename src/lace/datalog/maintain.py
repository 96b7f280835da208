"""Keep an evaluation up to date: changes in, changes out, work in proportion to what follows.

Component by component, in three steps (delete and re-derive):

1. *Doubt.* With everything this component looks at as it was before, every fact that had some
   derivation through a change is found, and all that follows from it within the component.
2. *Check.* With everything as it is now, doubted facts are taken out, and those that still have
   another derivation are put back.
3. *Grow.* What newly follows from the changes is added, with all that follows from it.

A negated or counted literal takes part like any other: what was added below may remove above, and
the other way round; the literal itself is tested again in each step. A component that counts a
predicate which is not stored is computed afresh and compared, because nothing tells which of its
counts have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lace.datalog.ast import Predicate
from lace.datalog.change import Change, FactChange, net_change, swap
from lace.datalog.evaluate import Evaluation
from lace.datalog.meter import Meter
from lace.datalog.program import Absent, CompiledRule, Count, Join, View
from lace.datalog.program import Relation as RelationName
from lace.datalog.relation import Rows
from lace.datalog.source import Fact, FactSource, MemorySource, Row, check_fact
from lace.datalog.stratify import Component
from lace.datalog.views import view_rows

Changes = dict[RelationName, Change]


@dataclass(slots=True)
class Maintained:
    """An evaluation over facts that come and go."""

    evaluation: Evaluation
    """What follows from the facts at present."""
    source: MemorySource
    """The base facts at present."""

    def __post_init__(self) -> None:
        self.evaluation.prepare()

    def apply(
        self, added: Iterable[Fact] = (), removed: Iterable[Fact] = ()
    ) -> dict[Predicate, Change]:
        """Change the base facts; return how the derived predicates changed.

        A fact that is both removed and added is there afterwards. If a limit stops the update,
        everything is as it was before.
        """
        came, gone = net_change(self.source, added, removed)
        for fact in came:
            check_fact(fact, self.evaluation.limits)
        try:
            swap(self.source, gone=gone, came=came)
            change = FactChange(self.source, came, gone, self.evaluation.program.schema)
            return follow(self.evaluation, change.before, change.after)
        except BaseException:
            # All of it or nothing: back to the facts before, and to what follows from them.
            swap(self.source, gone=came, came=gone)
            self.evaluation.load()
            raise


def follow(
    evaluation: Evaluation, before: FactSource, after: FactSource
) -> dict[Predicate, Change]:
    """Bring an evaluation in line with a change of its base facts.

    ``before`` and ``after`` hold everything around the change: for wide tables all facts of each
    key that is touched, for others the facts that went or came.
    """
    evaluation.meter.work = 0
    predicates = {*before.predicates(), *after.predicates()}
    changes: Changes = {}
    for number, view in enumerate(evaluation.program.views):
        if view.predicates & predicates:
            change = _view_change(view, before, after, evaluation.meter)
            if change:
                changes[number] = change
    return update(evaluation, changes)


def update(evaluation: Evaluation, changes: Changes) -> dict[Predicate, Change]:
    """Bring everything in line with changed views; return what changed in derived predicates."""
    for name, change in changes.items():
        _apply(evaluation, name, change)
    for component in evaluation.program.components:
        changes |= _Updater(evaluation, component, changes).update()
    return {n: c for n, c in changes.items() if isinstance(n, Predicate)}


class _Updater:
    """One component."""

    def __init__(self, evaluation: Evaluation, component: Component, changes: Changes) -> None:
        self._evaluation = evaluation
        self._component = component
        self._changes = changes
        self._rules = [
            rule for p in component.predicates for rule in evaluation.program.rules_of[p]
        ]
        self._inside = set(component.predicates)

    def update(self) -> Changes:
        if self._inside <= self._evaluation.virtual:
            return self._pass_on()
        if self._counts_changed_virtual():
            return self._recompute()
        if not any(self._looks_at(rule, self._changes) for rule in self._rules):
            return {}
        doubted = self._doubt()
        kept = self._check(doubted)
        added = self._grow(kept)
        result: Changes = {}
        for predicate in self._component.predicates:
            gone, came = doubted[predicate].keys(), set(added[predicate])
            change = Change(gone - came, came - gone)
            if change:
                result[predicate] = change
        return result

    # --- predicates that are counted but not stored ---

    def _pass_on(self) -> Changes:
        """A predicate that is not stored may have changed if anything it looks at has."""
        if any(self._looks_at(rule, self._changes) for rule in self._rules):
            return {predicate: Change() for predicate in self._inside}
        return {}

    def _counts_changed_virtual(self) -> bool:
        virtual = self._evaluation.virtual
        return any(
            count.relation in virtual and count.relation in self._changes
            for rule in self._rules
            for count in rule.counts
        )

    def _recompute(self) -> Changes:
        relations = self._evaluation.relations
        before = {p: relations[p].rows.keys() for p in self._inside}
        self._evaluation.compute(self._component)
        result: Changes = {}
        for predicate, rows in before.items():
            now = relations[predicate].rows.keys()
            change = Change(rows - now, now - rows)
            if change:
                result[predicate] = change
        return result

    # --- the three steps ---

    def _doubt(self) -> dict[Predicate, Rows]:
        """Return the facts that had a derivation through something that is gone."""
        evaluation = self._evaluation
        doubted: dict[Predicate, Rows] = {p: {} for p in self._inside}
        if not self._may_lose():
            return doubted
        self._turn(back=True)
        found: dict[Predicate, Rows] = {p: {} for p in self._inside}
        for rule in self._rules:
            for literal in rule.literals:
                change = self._changes.get(literal.relation)
                if change and not self._slide(rule, literal, change, found[rule.head], back=True):
                    rows = sorted(_against(literal, change))
                    evaluation.run(rule, literal, rows, found[rule.head])
        while any(found.values()):
            # Heads are found with the state before, so each of them was a fact.
            fresh: dict[RelationName, list[Row]] = {}
            for predicate, heads in found.items():
                fresh[predicate] = [row for row in heads if row not in doubted[predicate]]
                doubted[predicate].update(heads)
            found = {p: {} for p in self._inside}
            for rule in self._rules:
                for join in rule.joins:
                    evaluation.run(rule, join, fresh.get(join.relation, ()), found[rule.head])
        self._turn(back=False)
        return doubted

    def _may_lose(self) -> bool:
        """Whether there is a change that a derivation may be lost through."""
        return any(
            _against(literal, self._changes[literal.relation])
            for rule in self._rules
            for literal in rule.literals
            if literal.relation in self._changes
        )

    def _check(self, doubted: dict[Predicate, Rows]) -> dict[Predicate, Rows]:
        """Take doubted facts out; return those that are derivable without each other."""
        for predicate, rows in doubted.items():
            self._evaluation.relations[predicate].remove_all(rows)
        return {
            predicate: {row: None for row in rows if self._evaluation.derivable(predicate, row)}
            for predicate, rows in doubted.items()
        }

    def _grow(self, fresh: dict[Predicate, Rows]) -> dict[Predicate, list[Row]]:
        for rule in self._rules:
            for literal in rule.literals:
                change = self._changes.get(literal.relation)
                if change and not self._slide(rule, literal, change, fresh[rule.head], back=False):
                    rows = sorted(_in_favour(literal, change))
                    self._evaluation.run(rule, literal, rows, fresh[rule.head])
        return self._evaluation.grow(self._component, self._rules, fresh)

    def _slide(
        self,
        rule: CompiledRule,
        literal: Join | Absent | Count,
        change: Change,
        out: Rows,
        *,
        back: bool,
    ) -> bool:
        """Follow one row that took the place of another, such as a tick; say whether it applies.

        Where the replaced value is only compared with others, a derivation is lost if it passed
        with the old value and fails with the new one, and gained the other way round. So only what
        lies between the two values has to be looked at.
        """
        if not isinstance(literal, Join) or len(change.removed) != 1 or len(change.added) != 1:
            return False
        if any(other is not literal and other.relation in self._changes for other in rule.literals):
            return False  # two moves together can break what neither breaks alone
        (old,), (new,) = change.removed, change.added
        moved = [c for c, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
        if len(moved) != 1:
            return False
        windows = self._evaluation.windows(rule, literal, moved[0])
        if windows is None:
            return False
        here, there = (old, new) if back else (new, old)
        for windowed in windows:
            self._evaluation.run(windowed, windowed.joins[0], [(*here, there[moved[0]])], out)
        return True

    def _turn(self, *, back: bool) -> None:
        """Put every changed relation that the rules look at into its state before, or after."""
        names = {literal.relation for rule in self._rules for literal in rule.literals}
        for name in names - self._inside:
            change = self._changes.get(name)
            if change:
                _apply(
                    self._evaluation,
                    name,
                    Change(change.added, change.removed) if back else change,
                )

    @staticmethod
    def _looks_at(rule: CompiledRule, changes: Changes) -> bool:
        return any(literal.relation in changes for literal in rule.literals)


def _against(literal: Join | Absent | Count, change: Change) -> set[Row]:
    """Return the changed rows through which a derivation may have been lost."""
    match literal:
        case Join():
            return change.removed
        case Absent():
            return change.added
        case Count():
            return change.removed | change.added


def _in_favour(literal: Join | Absent | Count, change: Change) -> set[Row]:
    """Return the changed rows through which a derivation may have been gained."""
    match literal:
        case Join():
            return change.added
        case Absent():
            return change.removed
        case Count():
            return change.removed | change.added


def _apply(evaluation: Evaluation, name: RelationName, change: Change) -> None:
    relation = evaluation.relations[name]
    relation.remove_all(change.removed)
    relation.add_all(sorted(change.added))  # so that the work after it is the same on every run


def _view_change(view: View, before: FactSource, after: FactSource, meter: Meter) -> Change:
    """Return how a view changed, from the facts around the change alone.

    A row of a star belongs to one key and is decided by that key's facts; a row of any other view
    stands for one fact.
    """
    old, new = set(view_rows(view, before, meter)), set(view_rows(view, after, meter))
    return Change(old - new, new - old)
