"""Measure the lake beside floors in the same run: plain processes and the embedded engine.

make bench-lake
.venv/bin/python bench/lake.py --quick --only validation
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Process
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import pyarrow as pa
from small_room import room

from lace import collector
from lace.datalog.evaluate import evaluate
from lace.interlace.partition import Partitions
from lace.lake.evaluate import evaluate_on_spark
from lace.lake.facts import GivenFacts
from lace.lake.ingest import STEP_BYTES, ingest
from lace.lake.parts import Input, Part, Reading, plan_steps, shared_out
from lace.lake.places import Bytes
from lace.lake.placing import Placement
from lace.lake.salvage import next_record
from lace.lake.select import select
from lace.lake.session import SparkOptions, open_session
from lace.lake.source import careful_judge
from lace.lake.summarize import Advertising, SummaryTables, summarize
from lace.lake.tables import Lake
from lace.record.split import Frame, split_records
from lace.record.validate import validate_record
from lace.rules import MemorySource, check_lacegram, compile_program
from lake_opening import command, snapshot, tables, warm
from lake_room import AUTHORITY, make_room
from records import make_seals
from told import cpu_of_all, java, peak_mib

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
ROUNDS: Final = 3


@dataclass(frozen=True)
class Amounts:
    validated: int
    selected: tuple[int, ...]
    edges: int
    depth: int
    digests: int
    files: int
    rows: int


FULL: Final = Amounts(
    300_000, (100_000, 1_000_000, 5_000_000), 10_000, 50, 1_000_000, 30_000, 100_000
)
QUICK: Final = Amounts(20_000, (100_000, 300_000), 1_000, 20, 100_000, 3_000, 20_000)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the lake.")
    parser.add_argument("--quick", action="store_true", help="smaller amounts: a hint only")
    parser.add_argument("--only", action="append", choices=PARTS, help="run only this part")
    parser.add_argument("--keep", type=Path, help="keep (and use again) the lakes in this folder")
    options = parser.parse_args()
    amounts = QUICK if options.quick else FULL
    folder = options.keep or Path(tempfile.mkdtemp(prefix="lace-bench-lake-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; wall clock, least of {ROUNDS}")
    spark = open_session(SparkOptions(master=f"local[{CORES}]"))
    try:
        warm(spark, folder)
        for name in options.only or PARTS:
            print(f"\n{name}")
            PARTS[name](spark, folder, amounts)
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def least(job: Callable[[], object], rounds: int = ROUNDS) -> float:
    return min(timed(job) for _ in range(rounds))


def timed(job: Callable[[], object]) -> float:
    """Return how long a job takes by the wall clock."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


# --- validation ---------------------------------------------------------------------------------


def validation(spark: SparkSession, folder: Path, amounts: Amounts) -> None:
    """Spark with two cores against one plain process, and against two that share nothing.

    Workers validate as an ingest has them do it: each cuts its parts of the bundle into records,
    and tells Java how many are valid. ``format("lace")`` hands all rows to Java instead.
    """
    bundle = folder / f"seals-{amounts.validated}.records"
    if not bundle.exists():
        bundle.write_bytes(b"".join(seal.raw for seal in make_seals(amounts.validated)))
    frames = [f.raw for f in split_records([bundle.read_bytes()]) if isinstance(f, Frame)]
    count = len(frames)
    rows = spark.read.format("lace").load(str(bundle))
    lakes = (folder / f"ingest-{time.time_ns()}-{n}" for n in range(ROUNDS + 1))

    def worked() -> None:
        _check(_validate_on_spark(spark, str(bundle)) == count)

    def read() -> None:
        rows.write.format("noop").mode("overwrite").save()

    def ingested() -> None:
        lake = Lake.open(spark, str(next(lakes)), create=True)
        _check(ingest(lake, [str(bundle)]).records == count)

    ways: dict[str, Callable[[], None]] = {
        "one plain process": lambda: _validate(frames),
        f"{CORES} plain processes": lambda: _apart(frames),
        "Spark's workers": worked,
        "rows to Java": read,
        "whole ingest": ingested,
    }
    for way in (worked, read, ingested):
        way()  # compiles, and starts the workers
    # In turns, so that whatever else the machine does disturbs all of them alike.
    spent = [{name: _cost(way) for name, way in ways.items()} for _ in range(ROUNDS)]
    cpu = {name: min(one[name][0] for one in spent) for name in ways}
    clock = {name: min(one[name][1] for one in spent) for name in ways}
    for name in ways:
        print(
            f"  {name:20} {cpu[name] * 1e6 / count:6.1f} CPU s a million,"
            f" {count / clock[name]:,.0f} records/s by the clock"
        )
    alone, apart, workers, java_rows, whole = ways
    for name, other, target in (
        (workers, apart, "   (target 0.90)"),
        (workers, alone, ""),
        (java_rows, apart, ""),
        (java_rows, alone, ""),
        (whole, workers, "   (target 0.60)"),
    ):
        # One process has half of the cores, so that the clock says nothing beside it.
        told = f", {clock[other] / clock[name]:.2f} by the clock" if other != alone else ""
        print(f"  {name} over {other}: {cpu[other] / cpu[name]:.2f} by CPU time{told}{target}")


def _cost(job: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of all processes that a job takes, and its time by the clock."""
    cpu = cpu_of_all()
    seconds = timed(job)
    return cpu_of_all() - cpu, seconds


def _validate_on_spark(spark: SparkSession, bundle: str) -> int:
    """Return how many valid records the workers find in a bundle, read in parts by an ingest."""
    (step,) = plan_steps([Input.of(bundle)], STEP_BYTES)
    parts = shared_out(step, CORES)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with collector.paused():
            for batch in batches:
                found = [_valid_in(parts[number]) for number in batch.column("id").to_pylist()]
                yield pa.RecordBatch.from_pydict({"valid": found})

    counts = spark.range(0, len(parts), 1, len(parts)).mapInArrow(work, "valid long")
    return sum(counts.toArrow().column("valid").to_pylist())


def _valid_in(part: Part) -> int:
    with Bytes(part.bundle) as file:
        judge = careful_judge()
        begin = next_record(file, part.start, part.end, judge) if part.start else 0
        if begin is None:
            return 0
        reading = Reading(file, begin, part.end, judge)
        return sum(outcome.ok for _, _, outcomes in reading for outcome in outcomes)


def _check(holds: bool) -> None:
    if not holds:
        raise RuntimeError("the lake has something else than it was given")


def _validate(raws: list[bytes]) -> None:
    for raw in raws:
        if not validate_record(raw).ok:
            raise RuntimeError("a valid record was refused")


def _apart(raws: list[bytes]) -> None:
    processes = [Process(target=_validate, args=(raws[n::CORES],)) for n in range(CORES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


# --- selection ----------------------------------------------------------------------------------


def selection(spark: SparkSession, folder: Path, amounts: Amounts) -> None:
    """A notes room: members by their grants, without those whose grant was revoked."""
    program = room("//notes-demo//notes//", authority=AUTHORITY, revocation_app="revoked").program
    for size in amounts.selected:
        lake = make_room(spark, str(folder / f"room-{size}"), size)
        counts: list[int] = []

        def run(lake: Lake = lake, counts: list[int] = counts) -> None:
            counts.append(select(lake.snapshot(), program).hashes().count())

        start = time.perf_counter()
        run()
        first = time.perf_counter() - start
        seconds, cpu = least(run), cpu_of_all()
        run()
        cpu = (cpu_of_all() - cpu) * 1e6 / size
        print(
            f"  {size:>9,} records  first {first:5.1f} s, then {seconds:5.2f} s; "
            f"{cpu:6.2f} CPU s a million (target 0.40 at 5,000,000); "
            f"{counts[0]:,} selected; {_peaks()}"
        )
        with select(lake.snapshot(), program) as chosen:
            cpu = cpu_of_all()
            chosen.hashes().write.format("noop").mode("overwrite").save()
            cpu = (cpu_of_all() - cpu) * 1e6 / size
        print(f"            their hashes, read too: {cpu:6.2f} CPU s a million")


# --- recursion ----------------------------------------------------------------------------------

CLOSURE: Final = "Reach(X,Y) :- Edge(X,Y).\nReach(X,Z) :- Reach(X,Y), Edge(Y,Z).\n"


def recursion(spark: SparkSession, folder: Path, amounts: Amounts) -> None:
    """Closure of many chains: the embedded engine, the lake as it places it, Spark alone."""
    del folder
    chains = amounts.edges // amounts.depth
    facts = [
        ("Edge", f"{chain}/{step}", f"{chain}/{step + 1}")
        for chain in range(chains)
        for step in range(amounts.depth)
    ]
    program = compile_program(check_lacegram(CLOSURE).lacegram)
    (reach,) = program.derived
    sizes: list[int] = []
    embedded = least(lambda: sizes.append(len(evaluate(program, MemorySource(facts)).rows(reach))))
    given = GivenFacts.of(spark, facts)

    def placed() -> None:
        sizes.append(len(evaluate_on_spark(program, given).rows(reach)))

    def frames() -> None:
        only = Placement(rows=0, recursive_rows=0)
        sizes.append(evaluate_on_spark(program, given, placement=only).frame(reach).count())

    here, there = least(placed), least(frames, 1)
    if len(set(sizes)) != 1:
        raise RuntimeError(f"the engines differ: {sizes}")
    print(f"  {len(facts):,} edges, {amounts.depth} rounds, {sizes[0]:,} facts")
    print(f"  embedded engine     {embedded:6.2f} s")
    print(f"  lake, driver path   {here:6.2f} s   ({here / embedded:.1f} times)")
    print(f"  lake, Spark alone   {there:6.2f} s   ({there / embedded:.1f} times)")


# --- summaries ----------------------------------------------------------------------------------


def summaries(spark: SparkSession, folder: Path, amounts: Amounts) -> None:
    """Digests and partition summaries of everything; then again, and after one more record."""
    lake = make_room(spark, str(folder / f"room-{amounts.digests}"), amounts.digests)
    name = f"bench {time.time_ns()}"
    advertising = Advertising(selection=name, source="V.x", schema=frozenset(("Group", "App")))
    tables = SummaryTables(lake, advertising)
    snapshot = lake.snapshot()

    def run() -> int:
        return summarize(snapshot, lambda: snapshot.records.select("hash"), tables).count

    start = time.perf_counter()
    count = run()
    first = time.perf_counter() - start
    start = time.perf_counter()
    run()
    again = time.perf_counter() - start
    rows = tables.digest_frame().toArrow()
    digests = dict(zip(rows["hash"].to_pylist(), rows["digest"].to_pylist(), strict=True))
    start = time.perf_counter()
    plain = sum(summary.count for summary in Partitions.of(digests).summaries(2))
    roots = time.perf_counter() - start
    if plain != count:
        raise RuntimeError("the summaries differ")
    print(f"  {count:,} records: {first:.1f} s for digests and roots, {again:.2f} s when kept")
    print(f"  roots alone in plain Python, one core: {roots:.1f} s")


def _peaks() -> str:
    """Return the largest memory that the driver and Java have had so far."""
    return f"at most {peak_mib():,.0f} MiB in Python, {peak_mib(java()):,.0f} in Java"


PARTS: Final[dict[str, Callable[[SparkSession, Path, Amounts], None]]] = {
    "selection": selection,  # first, since its memory is told
    "recursion": recursion,
    "summaries": summaries,
    "validation": validation,
    "tables": lambda spark, folder, amounts: tables(spark, folder, amounts.digests),
    "snapshot": lambda spark, folder, amounts: snapshot(spark, folder, amounts.files),
    "command": lambda spark, folder, amounts: command(spark, folder, amounts.rows),
}

if __name__ == "__main__":
    main()
