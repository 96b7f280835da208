"""What goes wrong in Spark is said with its cause, and with what helps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError

from lace.errors import Code, LakeError
from lace.lake.jobs import described, explained, job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def trace_of(error: LakeError) -> str:
    """Return what the file holds that the hint names, and remove it."""
    file = Path(error.hint.rpartition("The whole trace is in ")[2].rstrip("."))
    text = file.read_text("utf-8")
    assert file.stat().st_mode & 0o077 == 0
    file.unlink()
    return text


def test_the_cause_is_shown_and_not_who_waited_for_it(spark: SparkSession) -> None:
    """A side of a join that is sent around is made in a thread of its own."""
    from pyspark.sql import functions as F  # noqa: N812

    failing = spark.range(3).select(F.raise_error(F.lit("no more room")).cast("long").alias("id"))
    with pytest.raises(LakeError) as caught, job("joining"):
        spark.range(9).join(F.broadcast(failing), "id").count()
    assert caught.value.code is Code.LAKE_JOB
    assert caught.value.message.startswith("joining: ")
    assert "no more room" in caught.value.message
    assert "awaitResult" not in caught.value.message
    assert "no more room" in trace_of(caught.value)


def test_jobs_say_what_they_are_for(spark: SparkSession) -> None:
    def shown() -> str | None:
        return spark.sparkContext.getLocalProperty("spark.job.description")

    before = shown()
    with job("summing up"):
        assert shown() == "lace lake: summing up"
        with described("one part of it"):
            assert shown() == "lace lake: one part of it"
        assert shown() == "lace lake: summing up"
    assert shown() == before


def test_what_python_throws_in_a_worker_is_shown(spark: SparkSession) -> None:
    def fails(_rows: object) -> object:
        raise ValueError("a bad day")

    with pytest.raises(LakeError) as caught, job("mapping"):
        spark.range(1).mapInArrow(fails, "id long").collect()  # type: ignore[arg-type]
    assert caught.value.message == "mapping: ValueError: a bad day"
    assert "Traceback (most recent call last)" in trace_of(caught.value)


def test_a_wrong_query_is_told_in_its_own_words(spark: SparkSession) -> None:
    with pytest.raises(LakeError) as caught, job("query"):
        spark.sql("SELECT nothing FROM nowhere")
    assert "TABLE_OR_VIEW_NOT_FOUND" in caught.value.message
    trace_of(caught.value)


@pytest.mark.parametrize(
    ("last", "message", "setting"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemoryError: Java heap space", "--memory 4g"),
        ("java.lang.OutOfMemoryError", "OutOfMemoryError", "--memory 4g"),
        ("java.io.IOException: No space left on device", "IOException: No space left on device", "spark.local.dir"),
        ("org.apache.spark.SparkException: Total size is bigger than spark.driver.maxResultSize (1024.0 MiB)", "SparkException: Total size is bigger than spark.driver.maxResultSize (1024.0 MiB)", "spark.driver.maxResultSize=4g"),
        ("java.util.NoSuchElementException: key", "NoSuchElementException: key", "--spark-log"),
    ],
)  # fmt: skip
def test_the_setting_that_helps_is_named(last: str, message: str, setting: str) -> None:
    text = (
        "An error occurred while calling o1.count.\n"
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
        f"\tat org.apache.spark.util.SparkThreadUtils$.awaitResult\nCaused by: {last}\n\tat x.y.Z\n"
    )
    error = explained("ingest", Py4JError(text))
    assert error.message == f"ingest: {message}"
    assert setting in error.hint
    assert trace_of(error) == text
