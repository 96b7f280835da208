"""Is everything there that a lake needs? Asked step by step, each answer in one line."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lace.codes import install_line
from lace.errors import LaceError
from lace.extras import PACKAGES
from lace.lake.java import find_java
from lace.lake.session import (
    SparkOptions,
    foreign_spark_home,
    master_of,
    open_session,
    package_version,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    fix: str = ""


def examine(options: SparkOptions) -> Iterator[Finding]:
    """Yield what was found; the later steps are left out where an earlier one failed."""
    yield Finding("Python", ok=True, detail=f"{platform.python_version()}, {sys.executable}")
    missing = False
    for name in PACKAGES["lake"]:
        version = package_version(name)
        missing = missing or version is None
        fix = "" if version else install_line("lake")
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
    if missing or not java_ok or home is not None:
        return
    yield from _try_out(options)


def _try_out(options: SparkOptions) -> Iterator[Finding]:
    try:
        spark = open_session(options)
        yield Finding("Spark", ok=True, detail=f"{spark.version}, master {master_of(options)}")
        rows = spark.sparkContext.parallelize([0], 1).map(lambda _: _worker()).collect()
        same = rows[0] == _worker()
        fix = "" if same else "Set PYSPARK_PYTHON to the same interpreter on every machine."
        yield Finding("workers", ok=same, detail=f"Python {rows[0][0]}, lace {rows[0][1]}", fix=fix)
        with tempfile.TemporaryDirectory() as folder:
            yield _tables(spark, folder)
    except LaceError as error:
        yield Finding("Spark", ok=False, detail=error.message, fix=error.hint)


def _worker() -> tuple[str, str]:
    from lace._version import __version__

    return platform.python_version(), __version__


def _tables(spark: object, folder: str) -> Finding:
    from pyspark.sql import SparkSession

    from lace.lake.ingest import ingest
    from lace.lake.tables import Lake
    from lace.record.build import build_blob

    assert isinstance(spark, SparkSession)
    bundle = Path(folder) / "a.records"
    bundle.write_bytes(build_blob(b"is anybody there?").raw)
    lake = Lake.open(spark, f"{folder}/lake", create=True)
    done = ingest(lake, [str(bundle)])
    return Finding("tables", ok=done.records == 1, detail="one record in, one commit")
