"""A program over a lake: large relations stay DataFrames, small ones are evaluated right here.

Rounds are dear in Spark and cheap in this process. So each component of a program is looked at in
turn: where all that it needs is small, it goes to the in-process engine, whole, and what comes out
is sent along with the next join. What is too large stays with Spark, recursion included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.ast import Predicate
from lace.datalog.canonical import canonical_lacegram
from lace.datalog.evaluate import evaluate
from lace.datalog.program import CompiledRule, Relation, RuleProgram
from lace.datalog.source import Row
from lace.datalog.stratify import Component
from lace.errors import Code, Diagnostic, LacegramError, LimitExceeded
from lace.lake.counting import RowMeter
from lace.lake.facts import FactFrames, columns_of, frame_of_rows
from lace.lake.jobs import job
from lace.lake.lower import Increment, RuleLowering, view_arity, view_frame
from lace.lake.placing import Placement, Step, plan
from lace.lake.rebuild import ViewNames, as_rule, view_rule
from lace.lake.rowfilter import OnePass
from lace.lake.session import is_local
from lace.lake.staging import Staging
from lace.limits import DEFAULT_LIMITS, Limits
from lace.rules import MemorySource, compile_program

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LAKE_LIMITS: Final = replace(
    DEFAULT_LIMITS, base_facts=1 << 36, derived_facts=1 << 34, work=1 << 42
)
"""As everywhere, set larger: a lake is more than one machine's memory."""

_UNLIMITED: Final = (1 << 31) - 1  # Spark counts a limit in 32 bits


@dataclass(slots=True)
class LakeEvaluation:
    """The relations of a program over the facts of a lake; computed as they are asked for."""

    program: RuleProgram
    facts: FactFrames
    limits: Limits = LAKE_LIMITS
    placement: Placement = field(default_factory=Placement)
    outputs: frozenset[Predicate] = frozenset()
    meter: RowMeter | None = None
    """For rules that are not trusted: counts the rows of joins before they are made."""
    _frames: dict[Relation, DataFrame] = field(default_factory=dict)
    _rows: dict[Relation, Collection[Row]] = field(default_factory=dict)
    _here: list[CompiledRule] = field(default_factory=list)
    """Rules that the in-process engine takes, with all that they need known here."""
    _here_done: frozenset[Predicate] = frozenset()
    _conditions: dict[Predicate, Column] = field(default_factory=dict)
    """By which condition on wide rows a predicate chooses records, where it does."""
    _persisted: list[DataFrame] = field(default_factory=list)
    plan: tuple[Step, ...] = field(init=False)
    """Where each part runs, in order."""
    _is_run: bool = False
    _lowering: RuleLowering = field(init=False)
    _staging: Staging | None = None
    """Where rounds of a recursion are kept, if workers can be lost."""

    def __post_init__(self) -> None:
        root = self.facts.root
        if root is not None and not is_local(self.facts.spark):
            self._staging = Staging(root)
        self._lowering = RuleLowering(
            self.facts.spark, self._frame, self._is_small, self.limits, self.meter
        )
        self.facts.check(self.limits)
        self.plan = plan(
            self.program,
            self.outputs,
            self.placement,
            lambda predicate: self.facts.rows_here(predicate) is not None,
        )

    def _run(self) -> None:
        """Take the steps of the plan, once: nothing runs before something is asked for."""
        if self._is_run:
            return
        self._is_run = True
        with job("evaluating rules"):
            for step in self.plan:
                self._place(step)

    # --- what it knows ---

    def frame(self, predicate: Predicate) -> DataFrame:
        """Return the facts of a derived predicate, each once, in columns c0, c1, …"""
        self._run()
        return self._frame(predicate)

    def condition(self, predicate: Predicate) -> Column | None:
        """Return by which condition on the wide rows of its facts a predicate has records.

        None if that takes more than a look at a row.
        """
        self._run()
        return self._conditions.get(predicate)

    def rows(self, predicate: Predicate) -> Collection[Row]:
        """Return the facts of a derived predicate, brought here."""
        self._run()
        rows = self._rows_here(predicate)
        if rows is None:
            with job("bringing facts here"):
                rows = self._bring(self._frame(predicate), self.limits.derived_facts)
            if rows is None:
                limit = self.limits.derived_facts
                raise LimitExceeded("derived_facts", configured=limit, observed=limit + 1)
            self._rows[predicate] = rows
        return rows

    def all_facts(self) -> Iterator[tuple[Predicate, Row]]:
        """Yield every fact of the outputs."""
        for predicate in sorted(self.outputs):
            for row in self.rows(predicate):
                yield predicate, row

    def close(self) -> None:
        """Give back what was kept on disk."""
        for frame in self._persisted:
            frame.unpersist()
        self._persisted.clear()
        self._frames.clear()
        if self._staging is not None:
            self._staging.close()

    # --- where relations are ---

    def _frame(self, relation: Relation) -> DataFrame:
        rows = self._rows_here(relation)
        frame = self._frames.get(relation)
        if frame is None:
            if rows is not None:
                arity = self._arity(relation)
                frame = frame_of_rows(self.facts.spark, rows, arity)
            else:
                assert isinstance(relation, int)
                frame = view_frame(self.program.views[relation], self.facts, self.meter)
            self._frames[relation] = frame
        return frame

    def _rows_here(self, relation: Relation) -> Collection[Row] | None:
        if relation in self._here_predicates():
            assert isinstance(relation, Predicate)
            self._run_here(relation)
        return self._rows.get(relation)

    def _is_small(self, relation: Relation) -> bool:
        return relation in self._rows or relation in self._here_predicates()

    def _arity(self, relation: Relation) -> int:
        if isinstance(relation, Predicate):
            return relation.arity
        return view_arity(self.program.views[relation])

    def _look_here(self, relation: Relation) -> None:
        """Compute a view right here if all facts that it is made of are held here."""
        if isinstance(relation, Predicate) or relation in self._rows:
            return
        view = self.program.views[relation]
        held = {predicate: self.facts.rows_here(predicate) for predicate in view.predicates}
        source = MemorySource(limits=replace(self.limits, base_facts=1 << 62))
        for predicate, rows in held.items():
            if rows is None:
                return
            source.add_rows(predicate, rows)
        name = ViewNames(self.program).of(relation)
        program = compile_program(canonical_lacegram([view_rule(view, name.name)]))
        self._rows[relation] = evaluate(program, source, limits=self.limits).rows(name)

    def _try_bring(self, relation: Relation, limit: int) -> bool:
        """Bring a relation here if it is small enough; return whether it is here."""
        if self._is_small(relation):
            return True
        rows = self._bring(self._frame(relation).distinct(), limit)
        if rows is not None:
            if isinstance(relation, Predicate):
                self._check_size(len(rows))
            self._rows[relation] = rows
            self._frames.pop(relation, None)
        return rows is not None

    def _bring(self, frame: DataFrame, limit: int) -> Collection[Row] | None:
        """Return the rows of a frame, or None if there are more than a limit."""
        table = (frame if limit >= _UNLIMITED else frame.limit(limit + 1)).toArrow()
        if table.num_rows > limit:
            return None
        if table.column_names == columns_of(0):
            return {()} if table.num_rows else set()
        return set(zip(*map(_values, table.columns), strict=True))

    # --- placing components ---

    def _place(self, step: Step) -> None:
        component, rules, inputs = step.component, list(step.rules), step.inputs
        if self.placement.rows or component.recursive:
            for relation in inputs:
                self._look_here(relation)
        if component.recursive:
            limit = self.placement.recursive_rows
            if limit and all(self._try_bring(relation, limit) for relation in inputs):
                self._here.extend(rules)
            else:
                self._fixed_point(component, rules)
            return
        if self.placement.rows and all(map(self._is_small, inputs)):
            self._here.extend(rules)
            return
        (predicate,) = component.predicates
        one_pass = OnePass(self.program, self.facts, self._rows_here)
        condition, others = one_pass.split(rules)
        frames = [self._lowering.heads(rule) for rule in others]
        if condition is not None:
            passed = self.facts.records.where(condition)
            frames.append(passed.select(F.col("hash").alias("c0")))
        self._frames[predicate] = _union(frames).distinct() if others else frames[0]
        if condition is not None and not others:
            self._conditions[predicate] = condition
        if step.is_used:
            self._settle(predicate)

    def _settle(self, predicate: Predicate) -> None:
        """Compute a relation that others use: here if it is small, else once, kept on disk."""
        if self.placement.rows and self._try_bring(predicate, self.placement.rows):
            return
        frame = self._frames[predicate].persist(StorageLevel.DISK_ONLY)
        self._persisted.append(frame)
        self._frames[predicate] = frame
        self._check_size(frame.count())

    def _check_size(self, size: int) -> None:
        if size > self.limits.derived_facts:
            raise LimitExceeded(
                "derived_facts", configured=self.limits.derived_facts, observed=size
            )

    # --- recursion that is too large to be taken here ---

    def _fixed_point(self, component: Component, rules: list[CompiledRule]) -> None:
        """Round by round, from what was new in the last one; each round forgets how it came."""
        spark = self.facts.spark
        inside = set(component.predicates)
        adaptive = "spark.sql.adaptive.enabled"
        before = str(spark.conf.get(adaptive))
        # Planning anew within each round costs more than a bad plan for small increments.
        spark.conf.set(adaptive, "false")
        try:
            fresh = {
                p: [
                    self._lowering.heads(rule)
                    for rule in rules
                    if rule.head == p and not any(join.relation in inside for join in rule.joins)
                ]
                for p in inside
            }
            total: dict[Relation, DataFrame] = {
                p: frame_of_rows(spark, (), p.arity) for p in inside
            }
            sizes = dict.fromkeys(inside, 0)
            for rounds in range(self.limits.iterations + 2):
                delta: dict[Predicate, Increment] = {}
                for predicate in inside:
                    if not fresh[predicate]:
                        continue
                    derived = _union(fresh[predicate]).distinct()
                    new = derived.join(total[predicate], derived.columns, "left_anti")
                    new = self._fixed(new)
                    count = new.count()
                    if count:
                        delta[predicate] = Increment(new, count <= self.placement.sent_rows)
                        sizes[predicate] += count
                        self._check_size(sizes[predicate])
                if not delta:
                    break
                if rounds >= self.limits.iterations:
                    limit = self.limits.iterations
                    raise LimitExceeded("iterations", configured=limit, observed=rounds + 1)
                for predicate, found in delta.items():
                    joint = total[predicate].union(found.frame)
                    joint = joint.coalesce(_partitions(sizes[predicate]))
                    total[predicate] = self._fixed(joint)
                self._frames.update(total)
                fresh = {
                    p: [
                        self._lowering.heads(rule, {number: delta[join.relation]})
                        for rule in rules
                        if rule.head == p
                        for number, join in enumerate(rule.joins)
                        if isinstance(join.relation, Predicate) and join.relation in delta
                    ]
                    for p in inside
                }
            self._frames.update(total)
        finally:
            spark.conf.set(adaptive, before)

    def _fixed(self, frame: DataFrame) -> DataFrame:
        """Return the rows of a frame without how they came, so that plans do not grow.

        Where workers can be lost, the rows are written into the lake: what a lost worker held
        alone could not be computed again.
        """
        if self._staging is None:
            return frame.localCheckpoint()
        return self._staging.written(frame)

    # --- the in-process engine ---

    def _here_predicates(self) -> set[Relation]:
        heads: set[Relation] = {rule.head for rule in self._here}
        return heads - self._here_done

    def _run_here(self, wanted: Predicate) -> None:
        """Evaluate all rules that were placed here; what is only counted is never stored."""
        heads = {rule.head for rule in self._here}
        outputs = (heads - self.program.only_counted) | {wanted}
        source = MemorySource(limits=replace(self.limits, base_facts=1 << 62))
        names = ViewNames(self.program)
        for relation in {x.relation for rule in self._here for x in rule.literals} - heads:
            source.add_rows(names.of(relation), self._rows[relation])
        rules = tuple(as_rule(rule, names) for rule in self._here)
        program = compile_program(canonical_lacegram(rules))
        result = evaluate(program, source, outputs=outputs, limits=self.limits)
        for predicate in outputs:
            self._rows[predicate] = result.rows(predicate)
        self._here_done |= outputs


def evaluate_on_spark(
    program: RuleProgram,
    facts: FactFrames,
    *,
    outputs: Iterable[Predicate] | None = None,
    limits: Limits = LAKE_LIMITS,
    placement: Placement | None = None,
    meter: RowMeter | None = None,
) -> LakeEvaluation:
    """Return the relations of a program over base facts; by default all can be asked for.

    A meter is for rules that are not trusted.
    """
    shadowed = sorted(p for p in facts.predicates() if p in program.derived)
    if shadowed:
        message = f"{shadowed[0]} has base facts and rules"
        raise LacegramError((
            Diagnostic(code=Code.LACEGRAM_SHADOW, message=message, line=1, column=1,
                       hint=Code.LACEGRAM_SHADOW.fix),
        ))  # fmt: skip
    wanted = program.derived if outputs is None else frozenset(outputs) & program.derived
    return LakeEvaluation(program, facts, limits, placement or Placement(), wanted, meter)


def _values(column: pa.ChunkedArray) -> Iterator[str]:
    """Yield the values of a column; equal ones that are near each other are one object."""
    for chunk in column.iterchunks():
        coded = chunk.dictionary_encode()
        yield from map(coded.dictionary.to_pylist().__getitem__, coded.indices.to_pylist())


def _union(frames: list[DataFrame]) -> DataFrame:
    first, *rest = frames
    for frame in rest:
        first = first.union(frame)
    return first


def _partitions(rows: int) -> int:
    return max(1, min(64, rows // 100_000))
