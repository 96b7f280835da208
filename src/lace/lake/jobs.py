"""Spark jobs with errors that people can read: what is wrong, not where in Java it was noticed."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException

from lace.errors import Code, LaceError, LakeError

_CARRIED: Final = re.compile(r"lace-error (\w+) (.*)")
# What was thrown, by Java or by Python in a worker; the last one is where it began.
_THROWN: Final = re.compile(
    r"^(?:Caused by: |: )?(?:[A-Za-z_]\w*\.)*(?:[\w$]+\$)?"
    r"([A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit))(?::[ ]?(.*))?$",
    re.MULTILINE,
)
_CAUSE_SHOWN: Final = 400
_DESCRIPTION: Final = "spark.job.description"

#: What a trace says, and what helps. The first that is found counts: the closer cause goes first.
_ADVICE: Final = {
    "spark.driver.maxResultSize": (
        "A result is too large to be brought to the driver: count it or export it instead, or "
        "allow more with --conf spark.driver.maxResultSize=4g."
    ),
    "No space left on device": (
        "A disk is full: give Spark another folder with --conf spark.local.dir=FOLDER."
    ),
    "Could not execute broadcast in": (
        "A small side of a join took too long to make: give it more time with "
        "--conf spark.sql.broadcastTimeout=1200."
    ),
    "PYTHON_VERSION_MISMATCH": (
        "Workers run another Python: install the same one on all machines, and set "
        "PYSPARK_PYTHON to it."
    ),
    "Python worker exited unexpectedly": (
        "A Python worker died, most often for want of memory: leave more beside the heap with "
        "--conf spark.executor.memoryOverhead=1g, or use fewer cores with --master local[1]."
    ),
    "ExecutorLostFailure": (
        "A machine of the cluster was lost: give executors more memory with "
        "--conf spark.executor.memory=4g, and look at the log of the worker."
    ),
    "OutOfMemory": (
        "Give the driver more memory with --memory 4g; on a cluster also the executors, with "
        "--conf spark.executor.memory=4g."
    ),
    "Not enough memory to build and broadcast": ("Give the driver more memory with --memory 4g."),
    "Answer from Java side is empty": (
        "Java ended in the middle of the work, most often for want of memory: try --memory 4g."
    ),
    "FileNotFoundException": (
        "A file of the lake is gone: maintenance of the lake may have removed old versions in "
        "the meantime. Run the command again."
    ),
}


@contextmanager
def carried() -> Iterator[None]:
    """In a worker: give an error a form that survives the way through Java."""
    try:
        yield
    except LaceError as error:
        raise RuntimeError(f"lace-error {error.code.name} {error.message}") from error


@contextmanager
def job(what: str) -> Iterator[None]:
    """On the driver: turn what Spark throws into a ``LakeError``, with the worker's code if any.

    The message names where the trouble began, the hint what helps and where the whole trace is.
    Spark's own pages show what the jobs are for.
    """
    try:
        with described(what):
            yield
    except (PySparkException, Py4JError) as error:
        raise explained(what, error) from error


@contextmanager
def described(what: str) -> Iterator[None]:
    """Have Spark's pages and logs say what the jobs of the block are for."""
    context = SparkContext._active_spark_context  # noqa: SLF001 (None is an answer here)
    if context is None:  # not started, or elsewhere: Spark Connect has no such names
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"lace lake: {what}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def explained(what: str, error: Exception) -> LakeError:
    """Return what Spark threw as an error that names its cause."""
    trace = _trace(error)
    found = _CARRIED.search(trace)
    if found is not None and found.group(1) in Code.__members__:
        return LakeError(found.group(2).strip(), code=Code[found.group(1)])
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    thrown = [] if isinstance(error, AnalysisException) else _THROWN.findall(trace)
    short = ": ".join(filter(None, thrown[-1])) if thrown else " ".join(lines[:2])
    hint = next((advice for sign, advice in _ADVICE.items() if sign in trace), Code.LAKE_JOB.fix)
    kept = _keep(trace)
    if kept is not None:
        hint = f"{hint}\n  The whole trace is in {kept}."
    return LakeError(f"{what}: {short[:_CAUSE_SHOWN]}", code=Code.LAKE_JOB, hint=hint)


def _trace(error: Exception) -> str:
    """Return all that is known of an error: Java's stack too, where pyspark leaves it out."""
    parts = [str(error)]
    inner: object = error
    while inner is not None:
        stack = getattr(inner, "_stackTrace", None)
        if isinstance(stack, str) and stack not in parts[-1]:
            parts.append(stack)
        inner = getattr(inner, "_cause", None)
    return "\n".join(parts)


def _keep(trace: str) -> str | None:
    """Write a trace into a file that only this user can read; return its name."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(prefix="lace-job-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(trace)
        return name
    return None
