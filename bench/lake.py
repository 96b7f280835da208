"""Measure the lake beside floors in the same run: plain processes and the embedded engine.

make bench-lake
.venv/bin/python bench/lake.py --quick --only validation
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Process
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lace.datalog.evaluate import evaluate
from lace.interlace.partition import Partitions
from lace.lake.evaluate import evaluate_on_spark
from lace.lake.facts import GivenFacts
from lace.lake.ingest import ingest
from lace.lake.placing import Placement
from lace.lake.select import select
from lace.lake.session import SparkOptions, open_session
from lace.lake.summarize import Advertising, SummaryTables, summarize
from lace.lake.tables import Lake
from lace.record.split import Frame, split_records
from lace.record.validate import validate_record
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.selectors import room
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
    """Spark with two cores against one plain process, and against two that share nothing."""
    bundle = folder / f"seals-{amounts.validated}.records"
    if not bundle.exists():
        bundle.write_bytes(b"".join(seal.raw for seal in make_seals(amounts.validated)))
    frames = [f.raw for f in split_records([bundle.read_bytes()]) if isinstance(f, Frame)]
    rows = spark.read.format("lace").load(str(bundle))

    def read() -> None:
        rows.write.format("noop").mode("overwrite").save()

    read()  # compiles, and starts the workers
    # In turns, so that whatever else the machine does disturbs all of them alike.
    spent = [(timed(read), timed(lambda: _validate(frames)), timed(lambda: _apart(frames)))
             for _ in range(ROUNDS)]  # fmt: skip
    on_spark, alone, apart = map(min, zip(*spent, strict=True))
    rate = len(frames) / on_spark
    print(
        f"  Spark, {CORES} cores      {rate:,.0f} records/s ({rows.rdd.getNumPartitions()} tasks)"
    )
    print(f"  one plain process   {len(frames) / alone:,.0f} records/s")
    print(f"  {CORES} plain processes   {len(frames) / apart:,.0f} records/s")
    print(f"  Spark over {CORES} x one process   {alone / CORES / on_spark:.2f}")
    print(f"  Spark over {CORES} processes       {apart / on_spark:.2f}   (target 0.90)")
    cpu, clock = cpu_of_all(), time.perf_counter()
    read()
    read_cpu, read_clock = cpu_of_all() - cpu, time.perf_counter() - clock
    lake = Lake.open(spark, str(folder / f"ingest-{time.time_ns()}"), create=True)
    cpu, clock = cpu_of_all(), time.perf_counter()
    done = ingest(lake, [str(bundle)])
    cpu, seconds = cpu_of_all() - cpu, time.perf_counter() - clock
    if done.records != len(frames):
        raise RuntimeError("the lake has something else than it was given")
    print(f"  whole ingest        {done.records / seconds:,.0f} records/s")
    print(
        f"  ingest over Spark's validation  {read_clock / seconds:.2f} by the clock,"
        f" {read_cpu / cpu:.2f} by CPU time   (target 0.60)"
    )
    begin = time.process_time()
    _validate(frames)
    plain = time.process_time() - begin
    print(
        f"  CPU s a million: one plain process {plain * 1e6 / len(frames):.1f},"
        f" Spark {read_cpu * 1e6 / len(frames):.1f}, ingest {cpu * 1e6 / len(frames):.1f}"
    )


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
