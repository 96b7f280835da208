"""Is everything there that a lake needs? Asked step by step, each answer in one line."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from lace.clock import unix_ms
from lace.codes import install_line
from lace.errors import Code, LaceError
from lace.extras import PACKAGES, left_out
from lace.lake.java import find_java
from lace.lake.session import (
    WORKER_BYTES,
    SparkOptions,
    foreign_spark_home,
    heap_bytes,
    local_cores,
    master_of,
    open_session,
    package_version,
)
from lace.limits import MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEAST_SPACE: Final = 2 << 30
_SKEW_MILLISECONDS: Final = 60_000
_SMALL_FILE: Final = 64 * MIB
_MANY_SMALL: Final = 100
_ELSEWHERE: Final = "Give Spark another folder with --conf spark.local.dir=FOLDER."


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    fix: str = ""


def examine(options: SparkOptions, lake: str | None = None) -> Iterator[Finding]:
    """Yield what was found; the later steps are left out where an earlier one failed.

    With the place of a lake, or of one to be made, what is stored there is tried too.
    """
    yield Finding("Python", ok=True, detail=f"{platform.python_version()}, {sys.executable}")
    yield _worker_python()
    missing = False
    for name in PACKAGES["lake"]:
        version = package_version(name)
        missing = missing or version is None
        fix = "" if version else left_out("lake") or install_line("lake")
        yield Finding(name, ok=version is not None, detail=version or "not installed", fix=fix)
    java_ok = True
    try:
        java = find_java()
        yield Finding("Java", ok=True, detail=f"version {java.version}, {java.origin}")
    except LaceError as error:
        java_ok = False
        yield Finding("Java", ok=False, detail=error.message, fix=error.hint)
    home = None if missing else foreign_spark_home()
    if home is not None:
        yield Finding("SPARK_HOME", ok=False, detail=home, fix="Unset SPARK_HOME.")
    yield _memory(options)
    yield _temporary_space(options)
    if missing or not java_ok or home is not None:
        return
    if lake is not None:
        yield from _place(lake)
    yield from _try_out(options, lake)


def _worker_python() -> Finding:
    """Say whether workers run a Python that has lace."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if chosen is None:
        return Finding("workers' Python", ok=True, detail="the same; PYSPARK_PYTHON is not set")
    found = shutil.which(chosen)
    ok = found is not None and Path(found).resolve() == Path(sys.executable).resolve()
    fix = "" if ok else "Unset PYSPARK_PYTHON, or set it to a Python that has lace-engine[lake]."
    return Finding("workers' Python", ok=ok, detail=f"PYSPARK_PYTHON is {chosen}", fix=fix)


def _memory(options: SparkOptions) -> Finding:
    """Say whether the heap, and Python beside it, fit into what is free."""
    heap = heap_bytes(options.memory)
    if heap is None:
        return Finding("memory", ok=False, detail=f"no amount of memory: {options.memory}",
                       fix="Write --memory like 2g.")  # fmt: skip
    cores = local_cores(options)
    wanted = heap + cores * WORKER_BYTES
    free = _free_memory()
    if free is None:
        return Finding("memory", ok=True, detail=f"{_size(wanted)} wanted, what is free is unknown")
    detail = f"{_size(wanted)} wanted (heap {_size(heap)}, {cores} workers), {_size(free)} free"
    fix = (
        "" if wanted <= free else "Use less: --memory 1g, or fewer workers with --master local[1]."
    )
    return Finding("memory", ok=wanted <= free, detail=detail, fix=fix)


def _free_memory() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _temporary_space(options: SparkOptions) -> Finding:
    """Say whether there is room for what Spark writes aside."""
    folder = options.settings.get("spark.local.dir") or tempfile.gettempdir()
    try:
        free = shutil.disk_usage(folder.split(",")[0]).free
    except OSError as error:
        return Finding("temporary", ok=False, detail=f"{folder}: {error.strerror}", fix=_ELSEWHERE)
    ok = free >= _LEAST_SPACE
    return Finding("temporary", ok=ok, detail=f"{_size(free)} free in {folder}",
                   fix="" if ok else _ELSEWHERE)  # fmt: skip


def _place(name: str) -> Iterator[Finding]:
    """Try what a lake does where it is, or is to be: write, rename, read the time, open."""
    from lace.lake.places import filesystem
    from lace.lake.tables import Lake

    root = name.rstrip("/") if "://" in name else str(Path(name).absolute())
    probe = f"{root}.doctor-{uuid4().hex}"
    try:
        system, path = filesystem(probe)
        with system.open_output_stream(path) as file:
            file.write(b"x")
        system.move(path, f"{path}.moved")
        written = int((system.get_file_info(f"{path}.moved").mtime_ns or 0) // 1_000_000)
        system.delete_file(f"{path}.moved")
    except (OSError, LaceError) as error:
        yield Finding("store", ok=False, detail=f"cannot write beside {root}: {error}",
                      fix="Check the address, the credentials and the permissions.")  # fmt: skip
        return
    yield Finding("store", ok=True, detail=f"files can be written and renamed beside {root}")
    skew = abs(unix_ms() - written)
    fix = (
        ""
        if skew < _SKEW_MILLISECONDS
        else "Set the clocks: what is old enough to be removed hangs on them."
    )
    yield Finding(
        "clock", ok=not fix, detail=f"{skew / 1000:.1f} s beside that of the store", fix=fix
    )
    try:
        opened = Lake.open(None, name)
    except LaceError as error:
        absent = error.code is Code.LAKE_ABSENT
        yield Finding("lake", ok=absent, detail=error.message, fix="" if absent else error.hint)
        return
    version = opened.records_log.version()
    detail = f"{version.rows:,} records in {len(version.files):,} files, version {version.number}"
    small = sum(file.size < _SMALL_FILE for file in version.files)
    fix = "Merge them with lace lake maintain." if small > _MANY_SMALL else ""
    yield Finding("lake", ok=True, detail=f"{detail}; {small:,} small files", fix=fix)


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _try_out(options: SparkOptions, lake: str | None = None) -> Iterator[Finding]:
    try:
        spark = open_session(options)
        yield Finding("Spark", ok=True, detail=f"{spark.version}, master {master_of(options)}")
        rows = _from_a_worker(spark)
        same = rows[0] == _worker()
        fix = "" if same else "Set PYSPARK_PYTHON to the same interpreter on every machine."
        yield Finding("workers", ok=same, detail=f"Python {rows[0][0]}, lace {rows[0][1]}", fix=fix)
        with tempfile.TemporaryDirectory() as folder:
            yield _tables(spark, folder)
        if lake is not None and "://" in lake:
            yield _jars(spark, lake)
    except LaceError as error:
        yield Finding("Spark", ok=False, detail=error.message, fix=error.hint)


def _jars(spark: SparkSession, lake: str) -> Finding:
    """Say whether Spark itself reaches the store of a lake."""
    from lace.lake.reading import spark_reads

    if spark_reads(spark, lake):
        return Finding("jars", ok=True, detail="Spark reads the store itself")
    return Finding(
        "jars",
        ok=True,
        detail="Spark has no jars for this store; workers read by pyarrow",
        fix="For S3: --conf spark.jars.packages=org.apache.hadoop:hadoop-aws:VERSION, with the "
        "version of Hadoop in Spark. summarize, stream and run need it.",
    )


def _from_a_worker(spark: SparkSession) -> list[tuple[str, str]]:
    """Return what Python and which Lace a worker has."""
    import pyarrow as pa

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            python, lace = _worker()
            made = [{"python": python, "lace": lace}] * batch.num_rows
            yield pa.RecordBatch.from_pylist(made)

    rows = spark.range(0, 1, 1, 1).mapInArrow(tell, "python string, lace string").collect()
    return [(row.python, row.lace) for row in rows]


def _worker() -> tuple[str, str]:
    from lace._version import __version__

    return platform.python_version(), __version__


def _tables(spark: SparkSession, folder: str) -> Finding:
    from lace.lake.ingest import ingest
    from lace.lake.tables import Lake
    from lace.record.build import build_blob

    bundle = Path(folder) / "a.records"
    bundle.write_bytes(build_blob(b"is anybody there?").raw)
    lake = Lake.open(spark, f"{folder}/lake", create=True)
    done = ingest(lake, [str(bundle)])
    return Finding("tables", ok=done.records == 1, detail="one record in, one commit")
