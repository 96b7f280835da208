"""W6: what a change costs, as a share of evaluating everything again; lace alone.

Each change is applied to a room that is kept up to date, and undone again. One full evaluation runs
in every round, between them. The first time, every result is compared with an evaluation from
scratch.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.maintain import Maintained
from lace.datalog.program import RuleProgram
from lace.datalog.source import Fact
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.tai import from_ns
from rules.engine_lace import load_facts
from rules.workloads import SECOND_NS, START_NS, TICK, Facts, NotesRoom, Row, as_facts, notes_room

_REPEATS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A change of base facts."""

    name: str
    added: tuple[Fact, ...] = ()
    removed: tuple[Fact, ...] = ()
    target: float | None = None
    """Most share of a full evaluation."""


@dataclass(slots=True, kw_only=True)
class Cost:
    """The least CPU time of a change, and how many derived facts it changed."""

    delta: Delta
    seconds: float = math.inf
    undo_seconds: float = math.inf
    changed: int = 0


@dataclass(slots=True, kw_only=True)
class Costs:
    """What changes cost, and a full evaluation in the same run."""

    full_seconds: float
    changes: list[Cost]


def make_room(count: int) -> tuple[Facts, list[Delta]]:
    """Return the facts of a room with a clock, and changes to it."""
    room = notes_room(count)
    facts = as_facts(room.records)
    now = START_NS + count // 2 * SECOND_NS
    facts["TickTAI"] = [(from_ns(now),)]
    return facts, _deltas(room, count, now)


def _deltas(room: NotesRoom, count: int, now: int) -> list[Delta]:
    member, stranger = room.members[0], room.strangers[0]
    choose = room.maker.chance.choice
    authors = room.members + room.strangers

    def notes(start: int, many: int) -> tuple[Fact, ...]:
        return _facts(room.note(start + place, choose(authors)) for place in range(many))

    old = next(r for r in room.records if ("App", "notes/message") in _fields(r))
    return [
        Delta(name="one note added", added=_facts([room.note(count, member)]), target=1 / 1000),
        Delta(name="one grant added", added=_facts([room.grant(count, stranger)])),
        Delta(name="100 notes added", added=notes(count, 100)),
        Delta(name="1000 notes added", added=notes(count, 1000)),
        Delta(name="one note removed", removed=_facts([old])),
        Delta(
            name="one tick, 10 s on",
            added=(("TickTAI", from_ns(now + 10 * SECOND_NS)),),
            removed=(("TickTAI", from_ns(now)),),
        ),
    ]


def _fields(rows: Iterable[Row]) -> set[tuple[str, str]]:
    return {(name, value) for _, name, _, value in rows}


def _facts(records: Iterable[list[Row]]) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    for rows in records:
        facts.append(("Have", rows[0][0]))
        facts += [("Field", *row) for row in rows]
    return tuple(facts)


def measure(count: int, rounds: int) -> Costs:
    """Time every change, more often if it is a small one. Run this ``apart``."""
    facts, deltas = make_room(count)
    gc.collect()
    gc.freeze()
    program = compile_program(check_lacegram(TICK).lacegram)
    source = load_facts(facts)
    evaluation = evaluate(program, source)
    maintained = Maintained(evaluation, source)
    costs = Costs(full_seconds=math.inf, changes=[Cost(delta=delta) for delta in deltas])
    for cost in costs.changes:
        changes = maintained.apply(cost.delta.added, cost.delta.removed)
        cost.changed = sum(len(c.added) + len(c.removed) for c in changes.values())
        _compare(cost.delta.name, evaluation, program, source)
        maintained.apply(cost.delta.removed, cost.delta.added)
        _compare(f"{cost.delta.name}, undone", evaluation, program, source)
    for _ in range(rounds):
        gc.collect()
        start = time.process_time()
        again = evaluate(program, source)
        costs.full_seconds = min(costs.full_seconds, time.process_time() - start)
        del again
        for cost in costs.changes:
            added, removed = cost.delta.added, cost.delta.removed
            for _ in range(_REPEATS if len(added) + len(removed) < 100 else 2):
                start = time.process_time()
                maintained.apply(added, removed)
                done = time.process_time()
                maintained.apply(removed, added)
                undone = time.process_time()
                cost.seconds = min(cost.seconds, done - start)
                cost.undo_seconds = min(cost.undo_seconds, undone - done)
    return costs


def _compare(name: str, evaluation: Evaluation, program: RuleProgram, source: MemorySource) -> None:
    again = evaluate(program, source)
    for predicate in sorted(program.derived):
        if set(evaluation.rows(predicate)) != set(again.rows(predicate)):
            raise RuntimeError(f"{name}: {predicate} is not what a full evaluation gives")
