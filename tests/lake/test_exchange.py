"""Records leave a lake, meet others, and stream in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from small_room import room

from lace.errors import Code, LakeError
from lace.lake import ingest as ingest_module
from lace.lake import stream as stream_module
from lace.lake.bundle import survey
from lace.lake.export import export_bundles, export_to_store
from lace.lake.forget import forget
from lace.lake.ingest import StepResult, ingest
from lace.lake.jobs import job
from lace.lake.reconcile import Difference, Reconciliation, open_sides, write_back
from lace.lake.select import select
from lace.lake.stream import Batch, LakeStream
from lace.lake.tables import Lake
from lace.record.model import Record
from lace.record.split import Frame, split_records
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = room_records(120, seed=11)


def lake_of(spark: SparkSession, root: Path, records: list[Record]) -> Lake:
    lake = Lake.open(spark, str(root), create=True)
    if records:
        ingest(lake, [str(write_bundle(root.with_suffix(".records"), records))])
    return lake


def hashes(lake: Lake) -> set[str]:
    return {row.hash for row in lake.snapshot().records.select("hash").collect()}


# --- export ---


def test_bundles_hold_what_was_selected(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", RECORDS)
    selection = select(lake.snapshot(), selector(PREFIX).program)
    out = tmp_path / "out"
    done = export_bundles(selection.records(), str(out), bundles=3)
    expected = {row.hash for row in selection.hashes().collect()}
    assert done.records == len(expected)
    assert done.rejected == 0
    raws = b"".join(Path(name).read_bytes() for name in done.bundles)
    found = [frame for frame in split_records([raws]) if isinstance(frame, Frame)]
    assert {frame.raw for frame in found} == {r.raw for r in RECORDS if r.hash in expected}
    for name in done.bundles:
        survey(name)  # its index fits
    assert len(list(out.iterdir())) == 2 * len(done.bundles)
    with pytest.raises(LakeError) as caught:
        export_bundles(selection.records(), str(out))
    assert caught.value.code is Code.LAKE_INPUT
    copy = Lake.open(spark, str(tmp_path / "copy"), create=True)
    ingest(copy, [str(out)])
    assert hashes(copy) == expected


@pytest.mark.req("010-REC-02")
def test_what_was_changed_in_a_lake_does_not_leave_it(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    lake = lake_of(spark, tmp_path / "lake", RECORDS[:20])
    first = F.col("hash") == RECORDS[3].hash
    changed = lake.snapshot().records.withColumn(
        "raw", F.when(first, F.lit(RECORDS[3].raw[:-1] + b"!")).otherwise(F.col("raw"))
    )
    store = MemoryStore()
    done = export_to_store(changed, store)
    assert (done.records, done.rejected) == (19, 1)
    assert not store.has(RECORDS[3].hash)
    written = export_bundles(changed, str(tmp_path / "out"))
    assert (written.records, written.rejected) == (19, 1)


def test_a_sqlite_lace_takes_what_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", RECORDS)
    with SqliteStore(tmp_path / "notes.db") as store:
        store.save(RECORDS[:10])
        done = export_to_store(lake.snapshot().records, store)
        assert (done.records, done.duplicates) == (len(RECORDS) - 10, 10)
        assert list(store.check()) == []
        assert {entry.hash for entry in store.read(0, 1000)} == {r.hash for r in RECORDS}  # type: ignore[arg-type]


# --- reconcile ---


@pytest.mark.long
def test_two_lakes_end_up_with_what_either_selects(spark: SparkSession, tmp_path: Path) -> None:
    """One side has the grants, the other the messages: two looks are needed."""
    grants, messages = RECORDS[:5], RECORDS[5:]
    left = lake_of(spark, tmp_path / "left", grants)
    lake_of(spark, tmp_path / "right", messages)
    program = room(PREFIX, authority=AUTHORITY.verifier).program
    whole = lake_of(spark, tmp_path / "whole", RECORDS)
    expected = {row.hash for row in select(whole.snapshot(), program).hashes().collect()}
    with open_sides(spark, str(tmp_path / "left"), str(tmp_path / "right")) as (a, b):
        both = Reconciliation(a, b, program)
        assert both.difference() == Difference(left_lacks=0, right_lacks=4)
        moved = both.transfer()
        assert moved.right_lacks == 4
        assert both.difference() == Difference(left_lacks=0, right_lacks=0)
        forget(b.lake, [grants[0].hash])
        assert both.difference() == Difference(left_lacks=0, right_lacks=0)
    assert hashes(left) == {r.hash for r in grants} | expected


def test_a_lake_a_bundle_and_a_sqlite_lace(spark: SparkSession, tmp_path: Path) -> None:
    program = selector(PREFIX).program
    here = {r.hash for r in RECORDS}
    whole = lake_of(spark, tmp_path / "whole", RECORDS)
    wanted = {row.hash for row in select(whole.snapshot(), program).hashes().collect()}
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:60])
    bundle = write_bundle(tmp_path / "other.records", RECORDS[50:90])
    database = tmp_path / "notes.db"
    with SqliteStore(database) as store:
        store.save(RECORDS[80:])
    for name in (bundle, database):
        with open_sides(spark, lake.root, str(name)) as (a, b):
            before = b.lake.snapshot().version.number
            Reconciliation(a, b, program).transfer()
            write_back(b, before)
    assert hashes(lake) & wanted == wanted
    with SqliteStore(database) as store:
        stored = {entry.hash for entry in store.read(0, 1000)}  # type: ignore[arg-type]
        assert stored & wanted == wanted
        assert list(store.check()) == []
    assert bundle.read_bytes() == b"".join(record.raw for record in RECORDS[50:90])
    (missing,) = tmp_path.glob("missing-*/*.records")
    frames = list(split_records([missing.read_bytes()]))
    assert len(frames) == len(wanted & {r.hash for r in RECORDS[:50]})
    assert hashes(lake) <= here
    with pytest.raises(LakeError) as caught, open_sides(spark, str(tmp_path / "no such thing")):
        pass
    assert caught.value.code is Code.LAKE_INPUT


# --- streams ---


def test_a_stream_takes_each_bundle_once_and_resumes(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    folder.mkdir()
    lake = lake_of(spark, tmp_path / "lake", [])
    batches: list[Batch] = []

    def run() -> None:
        made = LakeStream(lake, str(folder), checkpoint, bundles_per_batch=2,
                          on_batch=batches.append)  # fmt: skip
        made.start()
        assert made.wait(120)

    write_bundle(folder / "b.records", RECORDS[:40])
    write_bundle(folder / "c.records", RECORDS[30:60])
    write_bundle(folder / "d.records", RECORDS[60:61])
    run()
    assert hashes(lake) == {r.hash for r in RECORDS[:61]}
    assert [batch.number for batch in batches] == [0, 1]
    write_bundle(folder / "a.records", RECORDS[61:])  # sorts before what was read, and is not lost
    (folder / "e.records").write_bytes(b"nonsense")
    run()
    assert hashes(lake) == {r.hash for r in RECORDS}
    assert lake.quarantine().count() == 1
    assert sum(batch.result.records for batch in batches) == len(RECORDS)
    before = lake.snapshot().version.number
    run()
    assert lake.snapshot().version.number == before
    other = lake_of(spark, tmp_path / "other", [])
    with pytest.raises(LakeError) as caught:
        LakeStream(other, str(folder), checkpoint).start()
    assert caught.value.code is Code.LAKE_STREAM


def read_stream(spark: SparkSession, folder: Path, checkpoint: Path, **options: str) -> list[str]:
    """Run a stream of Spark's own until everything is read; return the hashes that came."""
    came: list[str] = []

    def batch(found: DataFrame, _number: int) -> None:
        came.extend(row.hash for row in found.select("hash").collect())

    source = spark.readStream.format("lace").options(**options).load(str(folder))
    writer = source.writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
    with job("stream"):
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    return came


def test_a_plain_stream_passes_nothing_over(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    assert read_stream(spark, folder, tmp_path / "c") == []  # nothing there yet is no error
    write_bundle(folder / "b.records", RECORDS[:3])
    assert read_stream(spark, folder, tmp_path / "c") == [r.hash for r in RECORDS[:3]]
    write_bundle(folder / "a.records", RECORDS[3:5])  # sorts before what was read
    assert read_stream(spark, folder, tmp_path / "c") == [r.hash for r in RECORDS[3:5]]
    (folder / ".lace-seen.json").unlink()
    with pytest.raises(LakeError) as caught:  # the order is lost, and nothing is guessed
        read_stream(spark, folder, tmp_path / "c")
    assert caught.value.code is Code.LAKE_STREAM


def test_what_cannot_be_listed_ends_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError) as caught:
        read_stream(spark, tmp_path / "nowhere", tmp_path / "c", log=str(tmp_path / "log"))
    assert caught.value.code is Code.LAKE_INPUT
    assert "nowhere" in caught.value.message


def test_bundles_are_read_by_pattern_and_by_list(spark: SparkSession, tmp_path: Path) -> None:
    for name, some in {
        "2024/a": RECORDS[:2],
        "2024/b": RECORDS[2:3],
        "2025/a": RECORDS[3:6],
    }.items():
        path = tmp_path / f"{name}.records"
        path.parent.mkdir(exist_ok=True)
        write_bundle(path, some)
    read = spark.read.format("lace")

    def found(*paths: str) -> set[str]:
        given = [str(tmp_path / path) for path in paths]
        frame = read.load(given[0] if len(given) == 1 else given)
        return {row.hash for row in frame.select("hash").collect()}

    def of(*some: Record) -> set[str]:
        return {record.hash for record in some}

    assert found("*/a.records") == of(*RECORDS[:2], *RECORDS[3:6])
    assert found("2024/[ab].records") == of(*RECORDS[:3])
    assert found("202?") == of(*RECORDS[:6])
    assert found("2024/a.records", "2025") == of(*RECORDS[:2], *RECORDS[3:6])
    with pytest.raises(LakeError, match=r"nothing fits .*\*\.nothing"), job("read"):
        found("*.nothing")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_batch_that_fails_around_its_commit_is_done_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    folder.mkdir()
    write_bundle(folder / "a.records", RECORDS[:20])
    lake = lake_of(spark, tmp_path / "lake", [])
    run_step = ingest_module.run_step

    def failing(*given: Any) -> StepResult:
        if moment == "after":
            run_step(*given)
        raise ValueError("the process dies here")

    monkeypatch.setattr(stream_module, "run_step", failing)
    made = LakeStream(lake, str(folder), checkpoint)
    made.start()
    with pytest.raises(LakeError) as caught:
        made.wait(120)
    assert caught.value.code is Code.LAKE_JOB
    monkeypatch.undo()
    again = LakeStream(lake, str(folder), checkpoint)
    again.start(interval="1 second")
    write_bundle(tmp_path / "later", RECORDS[20:30]).rename(folder / "later.records")
    while len(hashes(lake)) < 30:
        assert not again.wait(1)
    again.stop()
    assert lake.snapshot().records.count() == 30
    write_bundle(folder / "last.records", RECORDS[30:40])  # between two runs of one stream
    again.start()
    assert again.wait(120)
    assert lake.snapshot().records.count() == 40
    shutil.rmtree(folder)
