"""Upkeep of a lake: less on disk, the same in it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from rooms import room_records, write_bundle

from lace.lake import maintain as maintain_module
from lace.lake.delta import DataFile, DeltaLog
from lace.lake.ingest import ingest
from lace.lake.maintain import Chore, maintain
from lace.lake.tables import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(60, seed=71)


def lake_of(spark: SparkSession, root: Path, parts: int) -> Lake:
    """Return a lake with as many commits as parts."""
    lake = Lake.open(spark, str(root), create=True)
    each = -(-len(RECORDS) // parts)
    for number in range(parts):
        some = RECORDS[number * each : (number + 1) * each]
        bundle = write_bundle(root.with_name(f"{root.name}-{number}.records"), some)
        if number % 2:
            bundle.write_bytes(b"no record" + bundle.read_bytes())
        ingest(lake, [str(bundle)])
    return lake


def hashes(lake: Lake, version: int | None = None) -> list[str]:
    return sorted(row.hash for row in lake.snapshot(version).records.select("hash").collect())


EVERYTHING = sorted(record.hash for record in RECORDS)


def files(lake: Lake, table: str = "records") -> set[str]:
    return {path.name for path in Path(lake.root, table, "data").rglob("*.parquet")}


def by_what(done: list[Chore]) -> dict[tuple[str, str], Chore]:
    return {(chore.what, chore.table): chore for chore in done}


def test_small_files_become_one_and_old_ones_go(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", 4)
    before = lake.snapshot()
    assert len(files(lake)) == 4
    would = maintain(lake, dry_run=True)
    assert len(files(lake)) == 4
    done = maintain(lake)
    assert done == would
    assert by_what(done)["merge", "records"].files == 4
    assert by_what(done)["merge", "quarantine"].files == 2
    now = lake.records_log.version()
    assert len(now.files) == 1
    assert hashes(lake) == EVERYTHING
    assert lake.quarantine().count() == 2
    # Whoever reads an older version can go on with it.
    assert len(files(lake)) == 5
    assert before.records.count() == len(RECORDS)
    assert hashes(lake, before.version.number) == EVERYTHING
    assert maintain(lake) == []
    maintain(lake, retain_hours=0)
    assert files(lake) == {Path(file.path).name for file in now.files}
    assert hashes(lake) == EVERYTHING
    rows = pq.read_table(Path(lake.root, "records", now.files[0].path)).to_pylist()
    keys = [(row["group"], row["app"], row["tai"]) for row in rows if row["group"] is not None]
    assert keys == sorted(keys)
    # What is there already is still known.
    assert ingest(lake, [str(tmp_path / "lake-0.records")]).steps == 0
    again = write_bundle(tmp_path / "again.records", RECORDS[:9])
    assert ingest(lake, [str(again)]).duplicates == 9


def test_a_writer_and_another_upkeep_at_the_same_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(spark, tmp_path / "lake", 3)
    late = room_records(5, seed=72)
    bundle = write_bundle(tmp_path / "late.records", late)
    replace = DeltaLog.replace
    others: list[Callable[[], object]] = [
        lambda: maintain(lake), lambda: ingest(lake, [str(bundle)]),
    ]  # fmt: skip

    def disturbed(self: DeltaLog, *given: Any, **named: Any) -> int:
        if self.name == "records" and others:
            others.pop()()
        return replace(self, *given, **named)

    monkeypatch.setattr(DeltaLog, "replace", disturbed)
    maintain(lake)
    monkeypatch.undo()
    expected = sorted({*EVERYTHING, *(record.hash for record in late)})
    assert hashes(lake) == expected
    maintain(lake)
    maintain(lake, retain_hours=0)
    assert hashes(lake) == expected
    assert len(files(lake)) == 1


def test_much_is_rewritten_by_the_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain_module, "_HERE_BYTES", 0)
    lake = lake_of(spark, tmp_path / "lake", 5)
    sizes = [file.size for file in lake.records_log.version().files]
    done = by_what(maintain(lake, target_bytes=2 * max(sizes)))["merge", "records"]
    assert 1 < done.result < done.files
    assert len(lake.records_log.version().files) == done.result + len(sizes) - done.files
    assert hashes(lake) == EVERYTHING


def age(path: Path, hours: int) -> None:
    when = time.time() - hours * 3600
    for one in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(one, (when, when))


def test_what_crashes_left_is_tidied_once_it_is_old(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", 1)
    root = Path(lake.root)
    (orphan,) = (root / "records/data").iterdir()
    orphans = [orphan.with_name(f"{letter * 32}.parquet") for letter in "ab"]
    for copy in orphans:
        copy.write_bytes(orphan.read_bytes())
    drafts = [root / "staged" / name for name in ("old-1-x", "new-1-x")]
    for draft in drafts:
        draft.mkdir()
        (draft / "part.parquet").write_bytes(b"x")
    (drafts[1] / "moved-1.json").write_text(f'["{orphans[1].name}"]')
    assert maintain(lake) == []
    age(drafts[0], 30)
    age(orphans[0], 30)
    age(orphans[1], 30)  # but a writer has it under way
    done = by_what(maintain(lake))
    assert done["tidy", "drafts"].files == done["remove", "records"].files == 1
    assert [path.exists() for path in (*drafts, *orphans)] == [False, True, False, True]
    assert hashes(lake) == EVERYTHING


def test_names_that_stores_escape_are_mended(spark: SparkSession, tmp_path: Path) -> None:
    """Lakes of the first layout: an id in the path, and columns that nobody asked for."""
    lake = lake_of(spark, tmp_path / "lake", 1)
    log = lake.records_log
    (file,) = log.version().files
    table = pq.read_table(Path(log.root, file.path))
    table = table.append_column("code", [[None] * len(table)])
    old = Path(log.root, "data", "a~b_C-1-x", "staged", "valid=true", "part-0.zstd.parquet")
    old.parent.mkdir(parents=True)
    pq.write_table(table, old)
    entry = DataFile(str(old.relative_to(log.root)), old.stat().st_size, len(table), 0)
    log.commit([entry], work="w", step=1, expected=log.version().number, note={}, replace=True)
    assert hashes(lake) == EVERYTHING
    maintain(lake)
    maintain(lake, retain_hours=0)
    (mended,) = log.version().files
    assert files(lake) == {Path(mended.path).name}
    assert not old.parents[1].exists()
    assert hashes(lake) == EVERYTHING


def test_a_long_log_is_summed_up(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    for number in range(12):
        lake.records_log.commit([], work="w", step=number + 1, expected=number, note={})
    assert by_what(maintain(lake, dry_run=True))["checkpoint", "records"].files == 12
    maintain(lake)
    assert maintain(lake) == []
    assert (Path(lake.root) / "records/_delta_log/_last_checkpoint").exists()
    assert lake.snapshot(3).version.number == 3
