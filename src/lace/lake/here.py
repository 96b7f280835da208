"""Rules over a lake of moderate size without Spark: the embedded engine over what rules mention.

Columns are read straight from the files, and of the fields only those that some rule names. The
engine is the one that every lace has, so that its answer is the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lace import vocabulary
from lace.datalog.ast import Predicate
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.explain import Explainer, FailedRule, Proof
from lace.datalog.program import RuleProgram
from lace.datalog.source import Fact, Row
from lace.lake.places import filesystem
from lace.lake.rows import PROMOTED
from lace.lake.tables import Snapshot
from lace.limits import DEFAULT_LIMITS, UNLIMITED, Limits
from lace.record.facts import facts
from lace.rules import MemorySource
from lace.vocabulary import FIELD, RECORD_FACTS

HERE_ROWS: Final = 300_000
"""Records of a lake that is looked at without Spark."""
HERE_LIMITS: Final = replace(
    DEFAULT_LIMITS, base_facts=UNLIMITED, derived_facts=1 << 26, work=1 << 36
)


def evaluate_here(
    snapshot: Snapshot,
    program: RuleProgram,
    outputs: Iterable[Predicate],
    given: Iterable[Fact] = (),
    limits: Limits = HERE_LIMITS,
) -> Evaluation:
    """Return what a program derives over all records of a lake, computed in this process."""
    source = MemorySource(given, limits)
    wanted = {pattern.predicate for view in program.views for pattern in view.patterns}
    names = _field_names(program)
    for table in _tables(snapshot, _columns(wanted, names)):
        for predicate in wanted & RECORD_FACTS:
            source.add_rows(predicate, _rows(table, predicate, names))
    return evaluate(program, source, outputs=list(outputs), limits=limits)


def explain_here(
    snapshot: Snapshot,
    program: RuleProgram,
    row: Row,
    *,
    predicate: Predicate,
    given: Iterable[Fact] = (),
) -> Proof | tuple[FailedRule, ...]:
    """Return the smallest proof of a fact, or how far each rule got towards it.

    Near misses are told from all fields of the record that was asked about.
    """
    asked = (fact for record in snapshot.load(set(row)) for fact in facts(record))
    explainer = Explainer(evaluate_here(snapshot, program, program.derived, chain(given, asked)))
    proof = explainer.why(predicate, row)
    return proof if proof is not None else explainer.why_not(predicate, row)


def _field_names(program: RuleProgram) -> frozenset[str] | None:
    """Return the fields that rules name; None if a rule asks for fields of any name."""
    names: set[str] = set()
    for view in program.views:
        for pattern in view.patterns:
            if pattern.predicate == FIELD:
                name = pattern.slots[1]
                if not isinstance(name, str):
                    return None
                names.add(name)
    return frozenset(names)


def _columns(wanted: Collection[Predicate], names: frozenset[str] | None) -> list[str]:
    """Return the columns that facts are made of."""
    columns = ["hash"]
    if FIELD in wanted:
        columns += [c for name, c in PROMOTED.items() if names is None or name in names]
        if names is None or not names <= PROMOTED.keys():
            columns.append("extras")
    if vocabulary.RECORD_LINK in wanted:
        columns.append("links")
    if vocabulary.BLOB_HASH in wanted:
        columns += ["type", "blob_hash"]
    if vocabulary.PLEX_HASH in wanted:
        columns += ["type", "plex_hash"]
    return list(dict.fromkeys(columns))


def _tables(snapshot: Snapshot, columns: list[str]) -> Iterator[pa.Table]:
    system, _ = filesystem(snapshot.version.root)
    for uri in snapshot.version.uris():
        with pq.ParquetFile(filesystem(uri)[1], filesystem=system) as file:
            for batch in file.iter_batches(50_000, columns=columns):
                yield pa.Table.from_batches([batch])


def _rows(table: pa.Table, predicate: Predicate, names: frozenset[str] | None) -> Collection[Row]:
    hashes = table.column("hash").to_pylist()
    match predicate:
        case vocabulary.HAVE:
            return [(hash,) for hash in hashes]
        case vocabulary.FIELD:
            return list(_fields(table, hashes, names))
        case vocabulary.RECORD_LINK:
            return [
                (hash, link["name"], str(link["index"]), link["data"], link["target"])
                for hash, links in zip(hashes, table.column("links").to_pylist(), strict=True)
                for link in links or ()
            ]
        case vocabulary.BLOB_HASH:
            return _embedded(table, "P", "blob_hash")
    return _embedded(table, "S", "plex_hash")


def _embedded(table: pa.Table, kind: str, column: str) -> list[Row]:
    chosen = table.filter(pc.equal(table.column("type"), kind))
    return list(
        zip(chosen.column("hash").to_pylist(), chosen.column(column).to_pylist(), strict=True)
    )


def _fields(table: pa.Table, hashes: list[str], names: frozenset[str] | None) -> Iterator[Row]:
    for name, column in PROMOTED.items():
        if names is None or name in names:
            values: list[Any] = table.column(column).to_pylist()
            yield from (
                (hash, name, "0", str(value))
                for hash, value in zip(hashes, values, strict=True)
                if value is not None
            )
    if "extras" in table.column_names:
        lists = table.column("extras").combine_chunks()
        inner = lists.flatten()
        parents = pc.list_parent_indices(lists).to_pylist()
        parts = (inner.field(part).to_pylist() for part in ("name", "index", "value"))
        yield from (
            (hashes[parent], name, str(index), value)
            for parent, name, index, value in zip(parents, *parts, strict=True)
            if names is None or name in names
        )
