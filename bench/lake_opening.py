"""What a lake costs before it works: a table for exchanges, a version of many files, a command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.lake.answers import LakeAnswers
from lace.lake.delta import DataFile
from lace.lake.ingest import ingest
from lace.lake.peer import LakeStore
from lace.lake.rows import RECORDS_SCHEMA
from lace.lake.tables import Lake
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.selectors import selector
from lake_ingest import bundle_of
from told import cpu_of_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEW: Final = 1000
_FLOOR: Final = 20_000
_PLACE: Final = "//g//notes//"


def warm(spark: SparkSession, folder: Path) -> None:
    """Have Spark start its workers and compile what is measured later."""
    for number in range(3):
        _tables(spark, folder, 2000, f"warm-{number}")


def tables(spark: SparkSession, folder: Path, records: int) -> None:
    """The table of what may be sent: made for the first peer, and followed for later ones."""
    spent, floor = _tables(spark, folder, records, f"tables-{records}")
    first, again, _, following = spent
    _tell(f"digests and table of {records:,}", first, "6 s by the clock at 1,000,000")
    print(f"    floor: {floor:.1f} CPU s for as many digests in one plain process")
    _tell("the same, nothing new", again, "")
    _tell(f"following {_NEW:,} new ones", following, "1 s by the clock")


def _tables(
    spark: SparkSession, folder: Path, records: int, name: str
) -> tuple[list[tuple[float, float]], float]:
    lake = Lake.open(spark, str(folder / f"{name}-{time.time_ns()}"), create=True)
    ingest(lake, [str(bundle_of(folder, 0, records))])
    module = selector(_PLACE)
    operands = label_operands(Party(index=0, module=module), Party(index=1, module=module))
    plan = ExchangePlan(operands)
    answers = LakeAnswers(LakeStore(lake), 0, Exposure(default="selected"))
    asked = m.Recall(None, plan, plan.required_fields)
    spent: list[tuple[float, float]] = []
    for number in range(4):
        if number > 1:
            ingest(lake, [str(bundle_of(folder, number * 10**9, _NEW))])
        cpu, clock = cpu_of_all(), time.perf_counter()
        answers.recall(asked)
        spent.append((cpu_of_all() - cpu, time.perf_counter() - clock))
    answers.close()
    some = list(islice(lake.snapshot().read_all(), _FLOOR))
    label = operands[0].source_label
    begin = time.process_time()
    for record in some:
        advertise(record.hash, label, fields(record), plan.required_fields).digest()
    return spent, (time.process_time() - begin) / len(some) * records


def snapshot(spark: SparkSession, folder: Path, files: int) -> None:
    """A version of many files, opened and handed to Spark; the floor is a look at each file."""
    lake = Lake.open(spark, str(folder / f"files-{files}-{time.time_ns()}"), create=True)
    ingest(lake, [str(bundle_of(folder, 0, 100))])
    log = lake.records_log
    (one,) = log.version().files
    data = Path(log.root, one.path)
    made = []
    for number in range(files):
        name = f"data/{number:08x}.parquet"
        os.link(data, Path(log.root, name))
        made.append(DataFile(name, one.size, one.rows, one.modified))
    log.commit(made, work="bench", step=1, expected=log.version().number, note={})
    log.checkpoint()
    begin = time.perf_counter()
    for entry in made:
        Path(log.root, entry.path).stat()
    floor = time.perf_counter() - begin
    cpu, clock = cpu_of_all(), time.perf_counter()
    found = lake.snapshot()
    opened = cpu_of_all() - cpu, time.perf_counter() - clock
    columns = found.records.columns
    handed = cpu_of_all() - cpu, time.perf_counter() - clock
    if columns != RECORDS_SCHEMA.names or len(found.version.files) != files + 1:
        raise RuntimeError("the version holds something else")
    _tell(f"a version of {files:,} files, opened", opened, "")
    _tell("the same, and handed to Spark", handed, "2 s by the clock at 30,000")
    print(f"    floor: {floor:.2f} s for a look at each file")


def command(spark: SparkSession, folder: Path, records: int) -> None:
    """``lace lake select`` from the command line; the floor is a command that does nothing."""
    lake = Lake.open(spark, str(folder / f"command-{records}-{time.time_ns()}"), create=True)
    ingest(lake, [str(bundle_of(folder, 0, records))])
    idle = min(_ran("--version") for _ in range(3))
    spent = min(_ran("lake", "select", lake.root, _PLACE, "--count") for _ in range(3))
    _tell(f"lace lake select on {records:,} rows", spent, "2 s by the clock at 100,000")
    print(f"    floor: {idle[1]:.2f} s for a command that does nothing")


def _ran(*words: str) -> tuple[float, float]:
    """Return the CPU seconds of a command, and how long it took."""
    cpu, clock = os.times(), time.perf_counter()
    subprocess.run(  # noqa: S603 (ours)
        [sys.executable, "-m", "lace", *words], check=True, stdout=subprocess.DEVNULL
    )
    now = os.times()
    used = now.children_user + now.children_system - cpu.children_user - cpu.children_system
    return used, time.perf_counter() - clock


def _tell(what: str, spent: tuple[float, float], target: str) -> None:
    told = f"   (target {target})" if target else ""
    print(f"  {what:40} {spent[0]:6.2f} CPU s, {spent[1]:6.2f} s by the clock{told}", flush=True)
