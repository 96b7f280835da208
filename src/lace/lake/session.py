"""A Spark session that starts quietly, or says plainly why it cannot.

Settings that matter have their reason beside them. What is already running is used as it is: under
``spark-submit`` or in a notebook the session belongs to whoever started it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lace.errors import Code, LakeError
from lace.extras import require
from lace.lake.java import Java, find_java
from lace.limits import LAKE, MIB
from lace.text import shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE: Final = "LACE_LAKE_MASTER"
_TAIL_LINES: Final = 20
WORKER_BYTES: Final = 300 * MIB
"""Of the Python beside each core."""
_HEAP: Final = re.compile(r"([1-9][0-9]{0,15})([kmgt]?)b?")
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MASTER: Final = re.compile(
    r"local|local\[(?:\*|[1-9]\d{0,4})(?:,\s*[1-9]\d*)?\]|local-cluster\[[\d,\s]+\]"
    r"|yarn|(?:spark|k8s|sc)://.+"
)
_CAUSE: Final = re.compile(r"^(?:Caused by: |: )?[\w.$]*(?:Exception|Error): (.+)$", re.MULTILINE)
_READY: Final = "spark.lace.ready"
_LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
_TASK_FAILURES: Final = 4
_CONNECT: Final = ("grpc", "grpc_status", "google", "zstandard")

SETTINGS: Final[Mapping[str, str]] = {
    # Text is compared and times are read the same way everywhere.
    "spark.sql.session.timeZone": "UTC",
    # Rows travel between Python and Java as Arrow; a batch is bounded by bytes, because records
    # may be of any size.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "33554432",
    # A Python worker that dies leaves its stack in the log.
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # Rows that are sent along are part of the plan up to this size; larger plans are slow to make.
    "spark.sql.execution.arrow.localRelationThreshold": "1048576",
    # Smaller files, and the codec that everything else can read too.
    "spark.sql.parquet.compression.codec": "zstd",
    # Records and bytes that are none go to two places at once, without a sort.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
    # Files come from the Delta log, so that no folder is ever listed for partitions.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Files are known from the log; Spark looks each of them up, by default in a task for each.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    # A limited collect looks at all partitions at once: most selections are sparse.
    "spark.sql.limit.initialNumPartitions": "64",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How Spark is to be started; everything has a default that works on one machine."""

    master: str | None = None
    """None: the environment's LACE_LAKE_MASTER, else all cores of this machine."""
    memory: str = "2g"
    """Heap of the driver; in local mode that is all there is. Bulk work needs little of it."""
    log: Path | None = None
    """Where everything that Java says goes; None: a temporary file."""
    quick_start: bool = False
    """Compile less: starts sooner, runs long jobs slower. For tests and small work."""
    settings: Mapping[str, str] = field(default_factory=dict)


def open_session(options: SparkOptions | None = None) -> SparkSession:
    """Return the running session, or a new one; raise ``LakeError`` if there can be none.

    Raises ``MissingExtra`` where the packages of the lake are not installed.
    """
    check_packages()
    from pyspark.sql import SparkSession

    # What it says goes to people as an error of ours; the same as a Java trace helps nobody.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    running = SparkSession.getActiveSession()
    if running is not None:
        return _made_ready(running)
    options = options or SparkOptions()
    if master_of(options).startswith("sc://"):
        check_options(options)
        return _remote(master_of(options), options)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us: its settings stand
        return _made_ready(SparkSession.builder.getOrCreate(), options)
    return _start(options)


def _made_ready(session: SparkSession, options: SparkOptions | None = None) -> SparkSession:
    """Give a session that somebody else started what the lake needs, and that it does not set."""
    from lace.lake.source import LaceDataSource

    if session.conf.get(_READY, None) is not None:
        return session
    given = dict(options.settings) if options is not None else {}
    context = getattr(session, "sparkContext", None)
    own = set() if context is None else {name for name, _ in context.getConf().getAll()}
    for name, value in SETTINGS.items():
        if name not in own and session.conf.isModifiable(name):
            session.conf.set(name, value)
    for name, value in given.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
        elif session.conf.get(name, None) != value:
            raise LakeError(
                f"{name} cannot be changed in a session that runs",
                code=Code.LAKE_SETTING,
                hint=f"Give it to spark-submit: --conf {name}={value}",
            )
    if context is not None and is_local(session) and "PYSPARK_PYTHON" not in os.environ:
        # Else workers run whatever is called python3, which may have no lace.
        context.pythonExec = sys.executable
    session.dataSource.register(LaceDataSource)
    session.conf.set(_READY, "true")
    return session


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks Spark likes to have at the same time, as far as it tells."""
    context = getattr(spark, "sparkContext", None)  # over Spark Connect there is none
    if context is not None:
        return int(context.defaultParallelism)
    return int(str(spark.conf.get("spark.sql.shuffle.partitions", "2")))


def _remote(address: str, options: SparkOptions) -> SparkSession:
    """Return a session of a Spark Connect server; what it cannot be told is refused."""
    from pyspark.sql import SparkSession

    missing = [name for name in _CONNECT if find_spec(name) is None]
    if missing:
        raise LakeError(
            f"Spark Connect needs packages that are not here: {', '.join(missing)}",
            code=Code.LAKE_START,
            hint="Install them with: pip install 'pyspark[connect]'",
        )
    try:
        session = SparkSession.builder.remote(address).getOrCreate()
        return _made_ready(session, options)
    except LakeError:
        raise
    except Exception as error:
        raise LakeError(f"{address}: {_cause(error)}", code=Code.LAKE_START) from error


def check_packages() -> None:
    """Raise ``MissingExtra`` naming every package that is missing."""
    require("lake", "the lake")


def package_version(name: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def foreign_spark_home() -> str | None:
    """Return what is wrong with SPARK_HOME, or None."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return None
    jars = sorted((Path(home) / "jars").glob("spark-core_*.jar"))
    found = re.search(r"-(\d[\w.]*)\.jar$", jars[0].name) if jars else None
    expected = package_version("pyspark")
    if found is not None and found.group(1) == expected:
        return None
    what = found.group(1) if found else "no Spark"
    return f"SPARK_HOME={home} holds {what}, pyspark is {expected}"


def master_of(options: SparkOptions) -> str:
    """Return the master to use; a local one retries a failed task as a cluster would."""
    master = options.master or os.environ.get(MASTER_VARIABLE) or "local[*]"
    local = _LOCAL.fullmatch(master)
    return f"local[{local.group(1) or 1},{_TASK_FAILURES}]" if local else master


def is_chosen(options: SparkOptions) -> bool:
    """Whether somebody said where Spark runs."""
    return options.master is not None or MASTER_VARIABLE in os.environ


def is_local(spark: SparkSession) -> bool:
    """Whether all work is done on this machine, by one Java."""
    master = str(spark.conf.get("spark.master", ""))  # a server of Spark Connect may not say it
    return _LOCAL.match(master) is not None and not master.startswith("local-cluster")


def heap_bytes(memory: str) -> int | None:
    """Return how many bytes an amount of memory is; None if it is none."""
    heap = _HEAP.fullmatch(memory.lower())
    return None if heap is None else int(heap[1]) * _UNITS[heap[2]]


def local_cores(options: SparkOptions) -> int:
    """Return how many workers run on this machine."""
    local = _LOCAL.match(master_of(options))
    if local is None:
        return 0
    return os.cpu_count() or 1 if local.group(1) == "*" else int(local.group(1) or 1)


def check_options(options: SparkOptions) -> None:
    """Raise ``LakeError`` for what Spark could not start with, before it takes seconds to find."""
    master = options.master or os.environ.get(MASTER_VARIABLE) or "local[*]"
    if not _MASTER.fullmatch(master):
        raise LakeError(f"no master of Spark: {shown(master)}", code=Code.LAKE_SETTING)
    heap = heap_bytes(options.memory)
    if heap is None:
        raise LakeError(f"no amount of memory: {shown(options.memory)}", code=Code.LAKE_SETTING)
    if heap < LAKE.least_heap_bytes:
        raise LakeError(
            f"{shown(options.memory)} of memory is too little: Spark needs 512m",
            code=Code.LAKE_SETTING,
        )


def _start(options: SparkOptions) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from lace.lake.source import LaceDataSource

    check_options(options)
    problem = foreign_spark_home()
    if problem is not None:
        raise LakeError(problem, code=Code.LAKE_SPARK_HOME)
    java = find_java()
    conf = SparkConf()
    for name, value in (_settings(options, java) | dict(options.settings)).items():
        conf.set(name, value)
    conf.setMaster(master_of(options)).setAppName("lace lake")
    os.environ["JAVA_HOME"] = str(java.home)
    if _LOCAL.match(master_of(options)):
        # Otherwise Java looks up the name of this machine, which not every network knows.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must run the very interpreter that runs this.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    log = options.log or Path(tempfile.mkstemp(prefix="lace-spark-", suffix=".log")[1])
    with log.open("ab") as stream:
        try:
            gateway = launch_gateway(conf, {"stdout": stream, "stderr": stream})  # type: ignore[no-untyped-call]
            SparkContext(conf=conf, gateway=gateway)
            session = SparkSession.builder.getOrCreate()
            session.range(0)  # settings are looked at when they are first needed
            # Spark finds pyspark_lace by itself, but not where the path of Python has a space.
            session.dataSource.register(LaceDataSource)
            session.conf.set(_READY, "true")
        except Exception as error:
            raise LakeError(
                f"Spark did not start with {java.origin}: {_cause(error)}\n{_tail(log)}",
                code=Code.LAKE_START,
            ) from error
    if options.log is None:
        with suppress(OSError):
            log.unlink()  # nobody will look for it; Java goes on writing to what has no name
    return session


def _settings(options: SparkOptions, java: Java) -> dict[str, str]:
    settings = dict(SETTINGS)
    settings["spark.driver.memory"] = options.memory
    flags = ["-XX:+UseParallelGC"]  # throughput matters here, pauses do not
    if options.quick_start:
        flags.append("-XX:TieredStopAtLevel=1")
    if java.version >= 24:
        flags.append("--enable-native-access=ALL-UNNAMED")  # else it warns with every start
    settings["spark.driver.extraJavaOptions"] = " ".join(flags)
    local = _LOCAL.match(master_of(options))
    if local:
        cores = local_cores(options)
        # Two partitions a core keep all cores busy; the default of 200 makes small work slow.
        settings["spark.sql.shuffle.partitions"] = str(2 * cores)
        settings["spark.driver.host"] = "localhost"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _cause(error: Exception) -> str:
    """Return what Java gave as the first cause, without where it was noticed."""
    text = str(error)
    found = _CAUSE.findall(text)
    return str(found[-1] if found else text.partition("\n")[0])


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()
    told = [line for line in lines if not line.startswith("\t")]  # where in Java helps nobody
    return "\n".join([f"The last lines of {log}:", *told[-_TAIL_LINES:]])
