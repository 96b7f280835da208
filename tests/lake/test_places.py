"""One address, spelt for each library that looks at it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rooms import room_records, write_bundle

from lace.errors import Code, LakeError
from lace.lake import reading
from lace.lake.delta import Listed
from lace.lake.ingest import ingest
from lace.lake.places import delta_place, filesystem, spark_place, spark_url
from lace.lake.reading import read_files, spark_reads
from lace.lake.rows import RECORDS_SCHEMA
from lace.lake.tables import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(60, seed=97)


def test_one_address_is_spelt_for_each_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert spark_place("s3://b/x") == "s3a://b/x"
    assert spark_place("/x") == "/x"
    assert spark_url("s3://b/a b") == "s3a://b/a%20b"
    assert spark_url("abfss://c@d.example/x") == "abfss://c@d.example/x"
    assert spark_url("/a b/%41/é") == "file:///a%20b/%2541/%C3%A9"
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
        monkeypatch.setattr(reading, "spark_reads", lambda *_, reads=reads: reads)
        lake = Lake.open(spark, str(tmp_path / f"lake-{reads}"), create=True)
        done = ingest(lake, [str(folder)], step_bytes=1)
        again = ingest(lake, [str(write_bundle(tmp_path / f"{reads}.records", RECORDS[:9]))])
        records = sorted(lake.snapshot().records.drop("arrived", "ingest").collect())
        counts = (done.records, done.duplicates, done.quarantined, again.duplicates)
        lakes.append((counts, records[9:], lake.quarantine().count()))
    assert lakes[0] == lakes[1]
    assert lakes[0][0] == (60, 20, 2, 9)


ODD = 'a b "c" %41 é {x,y} [z] \\ #?;'
"""What has a meaning in a URL, in JSON or in a pattern."""


def listed(folder: Path, count: int) -> list[Listed]:
    """Return files of one row each, the same in all, as a log lists them."""
    folder.mkdir()
    row = pa.table({"hash": ["B.x.H3"], "offset": pa.array([1], pa.int64())})
    pq.write_table(row, folder / "0.parquet")
    size = (folder / "0.parquet").stat().st_size
    for number in range(1, count):
        (folder / f"{number}.parquet").hardlink_to(folder / "0.parquet")
    return [Listed(str(folder / f"{number}.parquet"), size, 1) for number in range(count)]


def test_a_list_of_files_has_the_rows_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """However Spark gets the list, and whatever the files are called."""
    files = listed(tmp_path / ODD, 40)[:-1]  # one lies there that is not listed
    rows = {}
    for ignored in ("false", "true"):
        spark.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", ignored)
        try:
            found = read_files(spark, files, RECORDS_SCHEMA, with_file=True)
            assert found.columns == [*RECORDS_SCHEMA.names, "file"]
            rows[ignored] = sorted(found.select("file", "hash", "offset", "tai").collect())
        finally:
            spark.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")
    assert rows["false"] == rows["true"]
    names = sorted(f"{number}.parquet" for number in range(39))
    assert rows["false"] == [(name, "B.x.H3", 1, None) for name in names]


def test_many_files_are_handed_over_without_a_look_at_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A look at each costs as long as the store takes to answer, times the number of files."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    files = listed(tmp_path / "many", 60)
    shutil.move(tmp_path / "many", tmp_path / "away")
    frame = read_files(spark, files, RECORDS_SCHEMA)
    assert frame.columns == RECORDS_SCHEMA.names
    assert set(tracker.getJobIdsForGroup(None)) == before
    shutil.move(tmp_path / "away", tmp_path / "many")
    assert frame.count() == 60
