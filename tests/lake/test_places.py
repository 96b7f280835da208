"""One address, spelt for each library that looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rooms import room_records, write_bundle

from lace.errors import Code, LakeError
from lace.lake import tables as tables_module
from lace.lake.ingest import ingest
from lace.lake.places import delta_place, filesystem, spark_place
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
