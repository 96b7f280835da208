"""The lake that each release wrote opens in this version; a newer one is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lace.errors import Code, LakeError
from lace.lake.forget import all_forgotten
from lace.lake.ingest import ingest
from lace.lake.tables import FORMAT, Lake
from lace.record import build_blob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


@pytest.fixture(params=sorted(path.name for path in GOLDEN.iterdir()))
def release(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / str(request.param)


@pytest.fixture
def expected(release: Path) -> dict[str, Any]:
    found = json.loads((release / "manifest.json").read_text(encoding="utf-8"))["lake"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def folder(release: Path, tmp_path: Path) -> str:
    with zipfile.ZipFile(release / "lake.zip") as archive:
        archive.extractall(tmp_path / "lake")
    return str(tmp_path / "lake")


def hashes(lake: Lake, version: int | None = None) -> list[str]:
    found = lake.snapshot(version).records.select("hash").collect()
    return sorted(row.hash for row in found)


def test_a_lake_has_all_that_was_stored(
    spark: SparkSession, folder: str, expected: dict[str, Any]
) -> None:
    lake = Lake.open(spark, folder)
    assert lake.records_log.version().number == expected["version"]
    assert hashes(lake) == expected["records"]
    assert sorted(all_forgotten(lake)) == expected["forgotten"]
    assert lake.quarantine().count() == expected["put_aside"]
    assert 0 < len(hashes(lake, 1)) < len(expected["records"])


def test_a_lake_can_be_written_and_does_not_take_back_what_it_forgot(
    spark: SparkSession, folder: str, release: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    new = build_blob(b"new")
    bundle = tmp_path / "new.records"
    with zipfile.ZipFile(release / "laces.zip") as archive:
        bundle.write_bytes(archive.read("export.records") + new.raw)
    lake = Lake.open(spark, folder)
    done = ingest(lake, [str(bundle)])
    assert (done.records, done.quarantined) == (1, 0)
    assert hashes(lake) == sorted([*expected["records"], new.hash])


def test_a_newer_lake_is_refused(folder: str) -> None:
    marker = Path(folder, "lake.json")
    marker.write_text(json.dumps({"format": FORMAT + 1}), encoding="utf-8")
    says = f"has format {FORMAT + 1}, this engine knows {FORMAT}"
    with pytest.raises(LakeError, match=says) as caught:
        Lake.open(None, folder)
    assert caught.value.code is Code.LAKE_FORMAT
