"""Spark jobs with errors that people can read: what is wrong, not where in Java it was noticed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lace.errors import Code, LaceError, LakeError

_CARRIED: Final = re.compile(r"lace-error (\w+) (.*)")
_THROWN: Final = re.compile(r"^\w[\w.]*(?:Error|Exception): .+$", re.MULTILINE)
_LONGEST: Final = 400


@contextmanager
def carried() -> Iterator[None]:
    """In a worker: give an error a form that survives the way through Java."""
    try:
        yield
    except LaceError as error:
        raise RuntimeError(f"lace-error {error.code.name} {error.message}") from error


@contextmanager
def job(what: str) -> Iterator[None]:
    """On the driver: turn what Spark throws into a ``LakeError``, with the worker's code if any."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        found = _CARRIED.search(text)
        if found is not None and found.group(1) in Code.__members__:
            raise LakeError(found.group(2), code=Code[found.group(1)]) from error
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        thrown = _THROWN.findall(text)  # by Python in a worker, if any
        short = (thrown[-1] if thrown else " ".join(lines[:2]))[:_LONGEST]
        raise LakeError(f"{what}: {short}", code=Code.LAKE_JOB) from error
