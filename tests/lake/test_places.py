"""One address, spelt for each library that looks at it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from rooms import room_records, write_bundle

from lace.errors import Code, LakeError
from lace.lake import tables as tables_module
from lace.lake.ingest import ingest
from lace.lake.places import delta_place, filesystem, spark_place
from lace.lake.rows import RECORDS_SCHEMA
from lace.lake.tables import Lake, spark_reads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(60, seed=97)


def test_one_address_is_spelt_for_each_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert spark_place("s3://b/x") == "s3a://b/x"
    assert spark_place("/x") == "/x"
    place, options = delta_place("s3a://b/x")
    assert place == "s3://b/x"
    assert options == {
        "aws_conditional_put": "etag", "aws_endpoint_url": "http://127.0.0.1:9",
        "aws_allow_http": "true", "aws_region": "eu-north-1",
    }  # fmt: skip
    assert delta_place("/x") == ("/x", None)
    assert filesystem("s3a://b/x")[1] == "b/x"
    with pytest.raises(LakeError) as caught:
        filesystem("ftp://b/x")
    assert caught.value.code is Code.LAKE_INPUT
    assert "s3://" in caught.value.hint


def test_what_spark_cannot_reach_is_read_by_the_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark_reads(spark, "/x")
    assert not spark_reads(spark, "s3://b/x")  # there are no jars for it here
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        bundle = write_bundle(folder / f"{number}.records", RECORDS[number * 20 : number * 20 + 40])
        bundle.write_bytes(bundle.read_bytes() + b"?")
    lakes = []
    for reads in (True, False):
        monkeypatch.setattr(tables_module, "spark_reads", lambda *_, reads=reads: reads)
        lake = Lake.open(spark, str(tmp_path / f"lake-{reads}"), create=True)
        done = ingest(lake, [str(folder)], step_bytes=1)
        again = ingest(lake, [str(write_bundle(tmp_path / f"{reads}.records", RECORDS[:9]))])
        records = sorted(lake.snapshot().records.drop("arrived", "ingest").collect())
        counts = (done.records, done.duplicates, done.quarantined, again.duplicates)
        lakes.append((counts, records[9:], lake.quarantine().count()))
    assert lakes[0] == lakes[1]
    assert lakes[0][0] == (60, 20, 2, 9)


def test_many_files_are_looked_up_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """A task for each file costs milliseconds a file, and minutes for many."""
    pq.write_table(RECORDS_SCHEMA.empty_table(), tmp_path / "0.parquet")
    for number in range(1, 60):
        shutil.copy(tmp_path / "0.parquet", tmp_path / f"{number}.parquet")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    uris = [str(tmp_path / f"{number}.parquet") for number in range(60)]
    frame = tables_module.read_files(spark, uris, RECORDS_SCHEMA)
    jobs = [tracker.getJobInfo(id) for id in set(tracker.getJobIdsForGroup(None)) - before]
    stages = [tracker.getStageInfo(id) for info in jobs if info is not None for id in info.stageIds]
    tasks = [stage.numTasks for stage in stages if stage is not None]
    assert tasks
    assert max(tasks) <= 32
    assert frame.count() == 0
