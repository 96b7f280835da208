"""Bundles become tables: validated, once each, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import forge
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from blake3 import blake3
from deltalake import DeltaTable
from rooms import TEST_SETTINGS, room_records, write_bundle

from lace.b64a import encode
from lace.clock import unix_ms
from lace.errors import Code, LakeError
from lace.lake import bundle as bundle_module
from lace.lake import ingest as ingest_module
from lace.lake import known, prints, writing
from lace.lake.bundle import INDEX_SUFFIX, Survey, joined, survey, write_index
from lace.lake.delta import DataFile, DeltaLog
from lace.lake.forget import forget
from lace.lake.ingest import IngestResult, digest_all, ingest, run_step
from lace.lake.maintain import maintain
from lace.lake.noted import Notes, digests_of
from lace.lake.parts import Input, Part, bundle_digest, read_part, write_parts
from lace.lake.peer import LakeStore
from lace.lake.places import Bytes
from lace.lake.rows import QUARANTINE_SCHEMA, RECORD_COLUMNS, RECORDS_SCHEMA, as_records
from lace.lake.source import read_segment, segment_batches
from lace.lake.stream import LakeStream
from lace.lake.tables import Lake
from lace.lake.writing import Draft, Written, as_batches, store_found
from lace.record.build import build_blob, build_plex
from lace.record.facts import facts
from lace.record.model import Record, Seal
from lace.tai import Tai, to_unix_ns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(300)


def hashes(lake: Lake) -> list[str]:
    return sorted(row.hash for row in lake.snapshot().records.select("hash").collect())


def contents(lake: Lake) -> tuple[list[Any], list[Any]]:
    """Return everything in a lake but the files that it happens to lie in, and when it came."""
    records = sorted(lake.snapshot().records.drop("arrived").collect())
    put_aside = sorted(lake.quarantine().collect(), key=lambda row: (row.bundle, row.offset))
    return records, put_aside


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    """Two bundles that overlap, one of them with a record that is none, one with a broken end."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_bundle(folder / "a.records", RECORDS[:200])
    bad = forge.seal(signature=b"0" * 86)
    raws = [record.raw for record in RECORDS[150:]]
    (folder / "b.records").write_bytes(b"".join([*raws[:20], bad, *raws[20:], b"what is this?"]))
    return folder


@pytest.mark.req("010-REC-02", "009-SIG-06")
def test_an_ingest_holds_every_valid_record_once_and_puts_the_rest_aside(
    spark: SparkSession, tmp_path: Path, bundles: Path
) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(bundles)])
    assert hashes(lake) == sorted(record.hash for record in RECORDS)
    assert (done.records, done.duplicates, done.repeated) == (len(RECORDS), 0, 50)
    assert done.quarantined == 2
    bad, tail = sorted(lake.quarantine().collect(), key=lambda row: row.offset)
    raw = (bundles / "b.records").read_bytes()
    for row in (bad, tail):
        assert bytes(row.raw) == raw[row.offset : row.offset + row.length]
        assert row.bundle.endswith("b.records")
        assert row.detail
    assert bad.code == "record.signature"
    assert tail.code == "record.markline"
    assert bytes(tail.raw) == b"what is this?"


def test_records_have_their_time_and_that_of_their_arrival(
    spark: SparkSession, tmp_path: Path
) -> None:
    taken = [
        Tai("0000000000:000000000"),
        Tai("0078796811:500000000"),
        Tai("1483228837:000001999"),
        Tai("9999999999:999999999"),
    ]
    made = [build_plex(group="g", app="a", name="n", tai=tai, extras=[], data=b"") for tai in taken]
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    begun = unix_ms()
    ingest(lake, [str(write_bundle(tmp_path / "a.records", [*made, build_blob(b"x")]))])
    LakeStore(lake).save(
        [build_plex(group="g", app="a", name="m", tai=taken[1], extras=[], data=b"")]
    )
    table = DeltaTable(str(tmp_path / "lake/records")).to_pyarrow_table(
        columns=["tai", "time", "arrived"]
    )
    micros = [table.column(name).cast(pa.int64()).to_pylist() for name in ("time", "arrived")]
    for tai, time_, arrived in zip(table.column("tai").to_pylist(), *micros, strict=True):
        assert time_ == (None if tai is None else to_unix_ns(tai) // 1000)
        assert begun <= arrived // 1000 <= unix_ms()
    old = lake.table("records").where("time < timestamp'1973-01-01'").select("tai").collect()
    assert sorted({row.tai for row in old}) == sorted(taken[:2])
    bounds = pa.table(DeltaTable(str(tmp_path / "lake/records")).get_add_actions(flatten=True))
    assert all(bounds.column("min.time").is_valid().to_pylist())


def test_a_lake_without_these_columns_gets_them(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    older = pa.schema([field for field in RECORDS_SCHEMA if field.name not in {"time", "arrived"}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lace.lake.tables.RECORDS_SCHEMA", older)
        lake = Lake.open(spark, str(root), create=True)
    table = as_records(pa.table({name: pa.nulls(0, kind) for name, kind in RECORD_COLUMNS}), "i")
    assert table.num_rows == 0
    one = as_records(
        pa.Table.from_batches(
            list(
                read_segment(
                    survey(str(write_bundle(tmp_path / "o.records", RECORDS[:9]))).segments()[0]
                )
            )
        ),
        "i",
    )
    (root / "records/data").mkdir()
    pq.write_table(one.select(older.names), root / "records/data/old.parquet")
    size = (root / "records/data/old.parquet").stat().st_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lace.lake.tables.RECORDS_SCHEMA", older)
        lake.records_log.commit(
            [DataFile("data/old.parquet", size, 9, 0)], work="w", step=1, expected=0, note={}
        )
    assert lake.snapshot().records.where("time is null").count() == 9
    ingest(lake, [str(write_bundle(tmp_path / "a.records", RECORDS[:20]))])
    assert lake.snapshot().records.count() == 20
    assert lake.snapshot().records.where("arrived is null").count() == 9
    maintain(lake)
    found = lake.snapshot().records
    assert found.where("time is null and tai is not null").count() == 0
    assert hashes(lake) == sorted(record.hash for record in RECORDS[:20])


@pytest.mark.req("020-FAC-01", "020-FAC-02")
def test_tables_hold_the_facts_of_their_records(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    ingest(lake, [str(write_bundle(tmp_path / "a.records", RECORDS))])
    expected = {fact for record in RECORDS for fact in facts(record)}
    found: set[tuple[str, ...]] = {
        ("Have", row.hash) for row in lake.table("records").select("hash").collect()
    }
    for row in lake.table("fields").collect():
        found.add(("Field", row.hash, row.name, str(row["index"]), row.value))
    for row in lake.table("links").collect():
        found.add(("RecordLink", row.hash, row.name, str(row["index"]), row.data, row.target))
    for row in lake.table("embedded").collect():
        name = {"S": "PlexHash", "P": "BlobHash"}[row.type]
        found.add((name, row.hash, row.embedded))
    assert found == expected
    loaded = list(lake.snapshot().load({RECORDS[3].hash, RECORDS[7].hash, "S.nothing.H3"}))
    assert sorted(loaded, key=lambda r: r.hash) == sorted(RECORDS[3:8:4], key=lambda r: r.hash)


def test_running_it_again_changes_nothing_and_new_names_add_nothing(
    spark: SparkSession, tmp_path: Path, bundles: Path
) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    first = ingest(lake, [str(bundles)])
    before = contents(lake)
    again = ingest(lake, [str(bundles)])
    assert again == IngestResult(ingest=first.ingest, version=first.version, skipped_steps=1)
    (bundles / "b.records").rename(bundles / "c.records")
    moved = ingest(lake, [str(bundles / "c.records")])
    assert (moved.records, moved.duplicates, moved.quarantined) == (0, 155, 2)
    records, put_aside = contents(lake)
    assert records == before[0]
    # What is no record is known by its place: the same bytes elsewhere are told again.
    assert [Path(row.bundle).stem for row in put_aside] == ["b", "b", "c", "c"]
    more = ingest(lake, [str(bundles)])  # both were read to the end, if in other company
    assert (more.steps, more.version) == (0, moved.version)
    assert contents(lake) == (records, put_aside)


def test_a_folder_that_grows_is_read_as_far_as_it_is_new(
    spark: SparkSession, tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # a run that did not come to the end counts for nothing
        patch.setattr(DeltaLog, "commit", before(DeltaLog.commit, 1))
        with pytest.raises(Crash):
            ingest(lake, [str(bundles)])
    seen: list[str] = []
    write = write_parts

    def counted(session: SparkSession, parts: list[Part], *given: Any) -> Any:
        seen.extend(Path(part.bundle).name for part in parts)
        return write(session, parts, *given)

    monkeypatch.setattr(ingest_module, "write_parts", counted)
    ingest(lake, [str(bundles / "a.records")])
    assert seen == ["a.records"]
    ingest(lake, [str(bundles)])
    assert seen == ["a.records", "b.records"]
    write_bundle(bundles / "c.records", RECORDS[:3])
    ingest(lake, [str(bundles)])
    assert seen == ["a.records", "b.records", "c.records"]
    write_bundle(bundles / "a.records", RECORDS[:1])  # another content is another bundle
    ingest(lake, [str(bundles)])
    assert seen == ["a.records", "b.records", "c.records", "a.records"]
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


def test_steps_are_committed_one_by_one(spark: SparkSession, tmp_path: Path, bundles: Path) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(bundles)], step_bytes=1)
    assert done.steps == 2
    assert hashes(lake) == sorted(record.hash for record in RECORDS)
    notes = lake.records_log.notes(10)
    assert [note["step"] for note in notes] == [2, 1]
    assert sum(note["records"] for note in notes) == len(RECORDS)
    older = lake.snapshot(notes[1]["version"])
    assert older.records.count() == 200
    assert lake.snapshot().added_since(older).records.count() == len(RECORDS) - 200


# --- crashes ---


class Crash(BaseException):
    """The process dies here."""


def before(function: Callable[..., Any], nth: int) -> Callable[..., Any]:
    calls = iter(range(1000))

    def dying(*given: Any, **named: Any) -> Any:
        if next(calls) == nth:
            raise Crash
        return function(*given, **named)

    return dying


def after(function: Callable[..., Any], nth: int) -> Callable[..., Any]:
    calls = iter(range(1000))

    def dying(*given: Any, **named: Any) -> Any:
        result = function(*given, **named)
        if next(calls) == nth:
            raise Crash
        return result

    return dying


POINTS = [
    (Notes, "begin", after, 0),
    (ingest_module, "write_parts", after, 0),
    (Notes, "step", after, 0),
    (ingest_module, "finish", after, 0),
    (DeltaLog, "commit", before, 0),  # of the quarantine
    (DeltaLog, "commit", after, 0),
    (ingest_module, "without_known", after, 0),
    (DeltaLog, "commit", before, 1),  # of the records
    (DeltaLog, "commit", after, 1),
    (Draft, "publish", after, 1),
    (ingest_module, "remove", after, 0),
    (Notes, "end", before, 0),
    (Notes, "_write", after, 2),
]


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("undisturbed")
    made = folder / "b.records"
    bad = forge.seal(signature=b"0" * 86)
    made.write_bytes(b"".join([RECORDS[0].raw, bad, *(record.raw for record in RECORDS[:60])]))
    lake = Lake.open(spark, str(folder / "lake"), create=True)
    ingest(lake, [str(made)])
    return made, contents(lake)


@pytest.mark.parametrize(("owner", "name", "when", "nth"), POINTS, ids=lambda x: getattr(x, "__name__", x))  # fmt: skip
def test_a_crash_at_any_point_leaves_a_readable_lake_that_the_next_run_completes(
    spark: SparkSession, tmp_path: Path, undisturbed: Any, owner: Any, name: str, when: Any, nth: int
) -> None:  # fmt: skip
    bundle, expected = undisturbed
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, when(getattr(owner, name), nth))
        with pytest.raises(Crash):
            ingest(lake, [str(bundle)])
    assert lake.snapshot().records.count() in {0, 60}
    lake = Lake.open(spark, str(tmp_path / "lake"))
    ingest(lake, [str(bundle)])
    assert contents(lake) == expected
    assert ingest(lake, [str(bundle)]).steps == 0
    known = {file.path for file in lake.records_log.version().files}
    assert {f"data/{path.name}" for path in (tmp_path / "lake/records/data").iterdir()} == known
    assert list((tmp_path / "lake/staged").iterdir()) == []


def test_what_was_put_aside_is_told_also_by_the_run_that_completes_an_ingest(
    spark: SparkSession, tmp_path: Path, bundles: Path
) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", before(DeltaLog.commit, 1))  # between the two commits
        with pytest.raises(Crash):
            ingest(lake, [str(bundles)])
    assert lake.quarantine().count() == 2
    assert ingest(lake, [str(bundles)]).quarantined == 2
    assert lake.quarantine().count() == 2


SCRIPT = f"""
SETTINGS = {TEST_SETTINGS!r}
import sys
from lace.lake.session import SparkOptions, open_session
from lace.lake.tables import Lake
from lace.lake.ingest import ingest
spark = open_session(SparkOptions(master="local[2]", memory="1g", quick_start=True, settings=SETTINGS))
lake = Lake.open(spark, sys.argv[1], create=True)
print("ready", flush=True)
ingest(lake, [sys.argv[2]], step_bytes=1)
print("done", flush=True)
"""


@pytest.mark.long
def test_an_ingest_that_is_killed_again_and_again_ends_like_an_undisturbed_one(
    spark: SparkSession, tmp_path: Path, bundles: Path
) -> None:
    lake = Lake.open(spark, str(tmp_path / "calm"), create=True)
    ingest(lake, [str(bundles)], step_bytes=1)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "killed"), str(bundles)]
    chance = random.Random(5)
    for delay in (chance.uniform(1, 5), None):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline() == "ready\n"
            if delay is None:
                assert process.stdout.readline() == "done\n"
            else:
                time.sleep(delay)
                os.kill(process.pid, signal.SIGKILL)
        process.wait()
    killed = Lake.open(spark, str(tmp_path / "killed"))
    assert contents(killed) == contents(lake)


ELSEWHERE = f"""
SETTINGS = {TEST_SETTINGS!r}
import os, sys
from lace.lake import ingest
from lace.lake.session import SparkOptions, open_session
from lace.lake.tables import Lake
run_step, steps = ingest.run_step, []
def dying(*given):
    steps.append(run_step(*given))
    if len(steps) == 1:
        os._exit(9)
    return steps[-1]
ingest.run_step = dying
spark = open_session(SparkOptions(master="local[4]", memory="1g", quick_start=True, settings=SETTINGS))
ingest.ingest(Lake.open(spark, sys.argv[1], create=True), [sys.argv[2]], step_bytes=45_000, cut_bytes=1000)
"""


@pytest.mark.long
def test_an_ingest_can_be_completed_with_another_number_of_cores(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Cores decide how a step is shared out, never what is in it."""
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "lake"), str(bundle)]
    assert subprocess.run(command, check=False).returncode == 9
    lake = Lake.open(spark, str(tmp_path / "lake"))
    assert 0 < len(hashes(lake)) < len(RECORDS)
    done = ingest(lake, [str(bundle)], step_bytes=45_000, cut_bytes=1000)
    assert done.skipped_steps == 1
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


def test_an_ingest_can_be_completed_in_other_steps_and_without_its_notes(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Other steps make another ingest: numbers of committed ones then say nothing."""
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    for step_bytes in (50_000, 70_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DeltaLog, "commit", before(DeltaLog.commit, 1))
            with pytest.raises(Crash):
                ingest(lake, [str(bundle)], step_bytes=step_bytes, cut_bytes=1000)
    for note in (tmp_path / "lake/ingests").iterdir():
        note.unlink()
    done = ingest(lake, [str(bundle)], step_bytes=70_000, cut_bytes=1000)
    assert done.skipped_steps == 1
    assert hashes(lake) == sorted(record.hash for record in RECORDS)
    assert ingest(lake, [str(bundle)], step_bytes=70_000, cut_bytes=1000).steps == 0


def test_writers_at_the_same_time_do_not_double_anything(
    spark: SparkSession, tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another ingest commits between the look at the lake and the commit."""
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    commit = DeltaLog.commit
    waiting = [str(bundles / "a.records")]

    def late(self: DeltaLog, *given: Any, **named: Any) -> int:
        if waiting and self.root.endswith("records"):
            ingest(lake, [waiting.pop()])
        return commit(self, *given, **named)

    monkeypatch.setattr(DeltaLog, "commit", late)
    ingest(lake, [str(bundles / "b.records")])
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


# --- hostile bundles ---


def hostile() -> dict[str, bytes]:
    whole: list[Record] = RECORDS[:10]
    good = b"".join(record.raw for record in whole)
    inner = forge.plex(embedded=forge.blob(RECORDS[20].raw + RECORDS[21].raw))
    return {
        "empty": b"",
        "text": b"Dear lake, there is no record in here.\n" * 100,
        "cut off": good[:-7],
        "zeros": good + bytes(10_000),
        "a length without end": good + forge.mark(b"B", b"Data-Length: 99999999999999\n\nx"),
        "headers without end": good + RECORDS[0].raw[:50] + b"X: y\n" * 300_000,
        "records within data": inner + good,
        "the same again": good * 30,
        "lies": b"".join([forge.seal(signed_by=b"V." + b"0" * 43 + b".H3"), good]),
    }


@pytest.mark.req("010-REC-11")
def test_hostile_bundles_lose_nothing_and_stop_nothing(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    made = hostile()
    for name, raw in made.items():
        (folder / f"{name}.records").write_bytes(raw)
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    ingest(lake, [str(folder)])
    found = set(hashes(lake))
    assert found >= {record.hash for record in RECORDS[:10]}
    assert RECORDS[20].hash not in found  # it is data of another record, and no record here
    rows = [row for row in lake.quarantine().collect() if row.code != "lake.unreadable"]
    codes = {Path(row.bundle).stem: row.code for row in rows}
    assert codes == {
        "text": "record.markline",
        "cut off": "record.truncated",
        "zeros": "record.markline",
        "a length without end": "record.data-too-large",
        "headers without end": "record.header-too-long",
        "lies": "record.signature",
    }


def test_bytes_without_a_boundary_are_kept_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lace.lake import source

    monkeypatch.setattr(source, "PIECE", 1000)
    raw = RECORDS[0].raw + random.Random(1).randbytes(4500)
    (tmp_path / "a.records").write_bytes(raw)
    segment = survey(str(tmp_path / "a.records")).segments()[0]
    rows = [row for batch in source.read_segment(segment) for row in batch.to_pylist()]
    assert b"".join(row["raw"] for row in rows) == raw
    assert [row["code"] for row in rows][1:] == ["record.markline", *["lake.unreadable"] * 4]


def rows_of(bundle: Path, **options: Any) -> list[dict[str, Any]]:
    found = survey(str(bundle), **options)
    parts = [read_segment(segment) for segment in found.segments()]
    return [row for part in parts for batch in part for row in batch.to_pylist()]


def damaged() -> dict[str, tuple[list[bytes], set[int]]]:
    """Return parts of bundles, and which of RECORDS are lost in them."""
    raws = [record.raw for record in RECORDS]
    long = raws[40].replace(b"Data-Length: ", b"Data-Length: 9")
    short = raws[41].replace(b"Data-Length: ", b"Data-Length: 0")
    some = next(n for n, record in enumerate(RECORDS) if n > 50 and isinstance(record, Seal))
    return {
        "bytes between": ([*raws[:90], b"something else", *raws[90:]], set()),
        "a first byte": ([b"!", *raws], set()),
        "a length too long": ([*raws[:40], long, *raws[41:]], {40}),
        "no length": ([*raws[:41], short, *raws[42:]], {41}),
        "a markline": ([*raws[:some], b"X" + raws[some][1:], *raws[some + 1 :]], {some}),
        "a record cut off": ([*raws[:60], raws[60][:-9], *raws[61:]], {60}),
        "twice": ([*raws[:40], b"?", *raws[40:80], b"?" * 5000, *raws[80:]], set()),
        "heads that claim much": ([*raws[:40], (raws[0][:55] + b"Data-Length: 30000000\n\n") * 20_000, *raws[40:]], set()),
    }  # fmt: skip


@pytest.mark.parametrize("name", damaged())
@pytest.mark.parametrize("cut_bytes", [1_000, 10**9], ids=["in parts", "whole"])
def test_records_behind_damage_are_found_again(tmp_path: Path, name: str, cut_bytes: int) -> None:
    parts, lost = damaged()[name]
    bundle = tmp_path / "a.records"
    bundle.write_bytes(b"".join(parts))
    rows = rows_of(bundle, cut_bytes=cut_bytes)
    assert b"".join(row["raw"] for row in rows) == b"".join(parts)
    expected = [record.hash for n, record in enumerate(RECORDS) if n not in lost]
    assert [row["hash"] for row in rows if row["code"] is None] == expected
    assert rows == rows_of(bundle, cut_bytes=10**9)


def test_the_inside_of_a_damaged_record_is_no_record(tmp_path: Path) -> None:
    """A Seal holds a Plex, a Plex a Blob: each of them would be valid alone."""
    seal = next(record for record in RECORDS if isinstance(record, Seal))
    bundle = tmp_path / "a.records"
    for bad in (b"X" + seal.raw[1:], seal.raw.replace(b"Signed-By", b"Singed-By")):
        bundle.write_bytes(bad + RECORDS[7].raw)
        assert [row["hash"] for row in rows_of(bundle)] == [None, RECORDS[7].hash]


def test_an_index_cannot_bring_in_what_is_only_quoted(tmp_path: Path) -> None:
    """Cuts within a record lead to records in its data; they are refused, also behind damage."""
    quoted = [record.raw for record in RECORDS[20:24]]
    for outer in (
        forge.blob(b"".join(quoted)),
        forge.blob(b"".join(quoted)).replace(b"B.", b"B.0", 1),
    ):
        raw = b"?" + RECORDS[0].raw + outer + RECORDS[1].raw
        bundle = tmp_path / "a.records"
        bundle.write_bytes(raw)
        cuts = tuple(raw.index(quoted[n]) for n in (2, 3))
        for some in (cuts, cuts[:1], cuts[1:]):
            write_index(Survey(str(bundle), len(raw), survey_digest(raw), some))
            with pytest.raises(LakeError) as caught:
                rows_of(bundle)
            assert caught.value.code is Code.LAKE_INDEX


def survey_digest(raw: bytes) -> str:
    return encode(blake3(raw).digest())


def test_a_large_bundle_of_something_else_stops_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It goes to quarantine in small pieces, without any of them passing through one process."""
    folder = tmp_path / "in"
    folder.mkdir()
    noise = b"garbage\n" + b"what is this? " * 5_000_000
    (folder / "a.records").write_bytes(noise)
    write_bundle(folder / "b.records", RECORDS)
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(folder)])
    assert (done.records, done.quarantined) == (len(RECORDS), 1)
    rows = lake.quarantine().select("offset", "length", "code").orderBy("offset").collect()
    assert sum(row.length for row in rows) == len(noise)
    assert max(row.length for row in rows) <= 1 << 20
    assert [row.code for row in rows] == ["record.markline", *["lake.unreadable"] * (len(rows) - 1)]


# --- compressed bundles ---


def compressed(path: Path, raw: bytes) -> Path:
    kind = {".gz": "gzip", ".zst": "zstd"}[path.suffix]
    with pa.CompressedOutputStream(str(path), kind) as file:
        file.write(raw)
    return path


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_compressed_bundles_are_read_like_others(tmp_path: Path, ending: str) -> None:
    raw = b"".join([*(record.raw for record in RECORDS[:50]), b"?", *(r.raw for r in RECORDS[50:])])
    bundle = compressed(tmp_path / f"a.records.{ending}", raw)
    plain = tmp_path / "a.records"
    plain.write_bytes(raw)

    def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(row["offset"], row["raw"], row["code"]) for row in rows]

    rows = rows_of(bundle)
    assert told(rows) == told(rows_of(plain))
    assert {row["bundle"] for row in rows} == {str(bundle)}
    with pytest.raises(LakeError) as caught:
        write_index(survey(str(bundle)))
    assert caught.value.code is Code.LAKE_INPUT


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_bundle_that_is_damaged_gives_what_it_can(
    spark: SparkSession, tmp_path: Path, ending: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    bundle = compressed(folder / f"a.records.{ending}", b"".join(record.raw for record in RECORDS))
    bundle.write_bytes(bundle.read_bytes()[:-2000])
    compressed(folder / "b.records.gz", RECORDS[299].raw)
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(folder)])
    assert done.records > 0
    assert RECORDS[299].hash in hashes(lake)
    codes = {row.code for row in lake.quarantine().collect()}
    assert "lake.compressed" in codes


@pytest.mark.parametrize("cut", [0, 700], ids=["whole", "damaged"])
@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_bundle_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, cut: int
) -> None:
    """What is damaged too: its digest is that of all its bytes."""
    raw = b"".join(record.raw for record in RECORDS)
    bundle = compressed(tmp_path / f"a.records.{ending}", raw)
    data = bundle.read_bytes()
    bundle.write_bytes(data[:2000] + bytes(cut) + data[2000 + cut :])
    read: list[tuple[int, int]] = []
    real = Bytes._direct

    def direct(self: Bytes, at: int, length: int) -> bytes:
        found = real(self, at, length)
        if self.uri == str(bundle):
            read.append((at, len(found)))
        return found

    monkeypatch.setattr(Bytes, "_direct", direct)
    (tmp_path / "staged").mkdir()
    part = Part(str(bundle), 0, len(data))
    told = read_part(part, None, 4096, str(tmp_path / "staged"), "x")
    blocks = [(at, min(4096, len(data) - at)) for at in range(0, len(data), 4096)]
    assert sorted(read) == blocks
    digests = bytes.fromhex(told.digests)
    known = bundle_digest(digests[at : at + 32] for at in range(0, len(digests), 32))
    assert known == digests_of(str(bundle), 4096)[0]
    assert told.files


def test_what_expands_without_end_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_module, "EXPANDED_BYTES", 20_000)
    monkeypatch.setattr(bundle_module, "CHUNK", 1_000)
    bundle = compressed(tmp_path / "a.records.zst", RECORDS[0].raw + bytes(50_000_000))
    assert bundle.stat().st_size < 50_000
    rows = rows_of(bundle)
    assert [row["code"] for row in rows] == [None, "record.markline", "lake.compressed"]
    assert sum(len(row["raw"]) for row in rows) == 20_000


# --- what others find ---


def test_tables_lie_where_others_find_them(spark: SparkSession, tmp_path: Path) -> None:
    """Plain names, the documented columns, bounds in the log; a compaction by others works."""
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    made = 0
    for number in range(100):
        bundle = write_bundle(tmp_path / f"{number}.records", RECORDS[3 * number : 3 * number + 3])
        if "~" in ingest_module.ingest_id([Input.of(str(bundle))], []):  # what stores escape
            ingest(lake, [str(bundle)])
            made += 1
            if made == 3:
                break
    (tmp_path / "bad.records").write_bytes(b"nothing")
    ingest(lake, [str(tmp_path / "bad.records")])
    root = tmp_path / "lake"
    names = [
        str(path.relative_to(root)) for path in root.rglob("*") if "_delta_log" not in str(path)
    ]
    assert [name for name in names if not re.fullmatch("[a-z0-9./-]+", name)] == []
    for table, schema in (("records", RECORDS_SCHEMA), ("quarantine", QUARANTINE_SCHEMA)):
        log = DeltaTable(str(root / table))
        known = {Path(path).name for path in log.file_uris()}
        files = list((root / table).glob("**/*.parquet"))
        assert {file.name for file in files if "_delta_log" not in file.parts} == known
        for file in files:
            assert pq.read_schema(file).names == schema.names
    actions = pa.table(DeltaTable(str(root / "records")).get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        column = pq.read_table(root / "records" / action["path"], columns=["hash", "tai"])
        values = column.column("hash").to_pylist()
        assert (action["min.hash"], action["max.hash"]) == (min(values), max(values))
        assert action["null_count.tai"] == column.column("tai").null_count
    expected = hashes(lake)
    assert DeltaTable(str(root / "records")).optimize.compact()["numFilesAdded"] == 1
    assert hashes(lake) == expected
    assert len(lake.records_log.version().files) == 1


# --- cuts ---


def test_a_bundle_is_cut_at_records_and_the_cuts_can_be_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    found = survey(str(bundle), cut_bytes=5_000)
    assert len(found.cuts) > 20
    write_index(found)
    assert survey(str(bundle)) == found
    for most in (1, 20_000, 50_000, 10**9):
        segments = joined(found.segments(), most)
        assert all(s.size <= max(most, 6_000) + 6_000 for s in segments)
        assert len(segments) <= -(-found.size // most)
        assert [s.end for s in segments] == [*(s.start for s in segments[1:]), found.size]
        assert {s.start for s in segments} <= {0, *found.cuts}
        assert [s.final for s in segments] == [False] * (len(segments) - 1) + [True]
    parts = joined(found.segments(), 20_000)
    rows = [row for s in parts for b in read_segment(s) for row in b.to_pylist()]
    assert [row["raw"] for row in rows] == [record.raw for record in RECORDS]
    frame = spark.read.format("lace").load(str(bundle))
    rows = frame.select("hash", "code").collect()
    assert sorted(row.hash for row in rows) == sorted(record.hash for record in RECORDS)
    moved = bundle.rename(tmp_path / "b.records")
    Path(f"{bundle}{INDEX_SUFFIX}").rename(f"{moved}{INDEX_SUFFIX}")
    assert survey(str(moved)).cuts == found.cuts


def test_an_index_of_the_first_format_is_read(tmp_path: Path) -> None:
    """Such indexes lie beside archives: few cuts, a segment or more apart."""
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    whole = survey(str(bundle), cut_bytes=40_000)
    Path(f"{bundle}{INDEX_SUFFIX}").write_text(
        f'{{"cuts": [{", ".join(map(str, whole.cuts))}], "digest": "{whole.digest}", "format": 1, '
        f'"size": {whole.size}}}'
    )
    assert survey(str(bundle)) == whole
    assert len(whole.segments()) == len(whole.cuts) + 1 > 2
    assert len(bundle_module.cut(str(bundle))) == 1


def test_an_index_that_lies_is_found_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = forge.plex(embedded=forge.blob(RECORDS[20].raw))
    bundle = tmp_path / "a.records"
    bundle.write_bytes(inner + RECORDS[0].raw)
    within = inner.index(RECORDS[20].raw)
    honest = survey(str(bundle))
    monkeypatch.setattr(bundle_module, "SEGMENT_BYTES", 1)
    for cuts in ((within,), (within, len(inner)), (len(inner) + 1,)):
        write_index(type(honest)(honest.bundle, honest.size, honest.digest, cuts))
        parts = bundle_module.cut(str(bundle), most=1)
        with pytest.raises(LakeError) as caught:
            [row for part in parts for batch in read_segment(part) for row in batch.to_pylist()]
        assert caught.value.code is Code.LAKE_INDEX
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    assert ingest(lake, [str(bundle)], cut_bytes=50).records == 2  # which asks no index
    assert len(lake.snapshot().hashes()) == 2
    for text in ("{", "[]", '{"format":1}', '{"format":1,"size":1,"digest":"","cuts":[]}'):
        Path(f"{bundle}{INDEX_SUFFIX}").write_text(text)
        with pytest.raises(LakeError) as caught:
            survey(str(bundle))
        assert caught.value.code is Code.LAKE_INDEX


# --- what is no lake ---


def test_what_is_no_lake_is_said_to_be_none(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError) as caught:
        Lake.open(spark, str(tmp_path / "nothing"))
    assert caught.value.code is Code.LAKE_ABSENT
    (tmp_path / "file").write_text("x")
    with pytest.raises(LakeError) as caught:
        Lake.open(spark, str(tmp_path), create=True)
    assert caught.value.code is Code.LAKE_FORMAT
    made = tmp_path / "newer"
    made.mkdir()
    (made / "lake.json").write_text('{"format": 99}')
    with pytest.raises(LakeError) as caught:
        Lake.open(spark, str(made))
    assert caught.value.code is Code.LAKE_FORMAT
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    with pytest.raises(LakeError) as caught:
        lake.table("nonsense")
    assert caught.value.code is Code.LAKE_TABLE
    with pytest.raises(LakeError) as caught:
        ingest(lake, [str(tmp_path / "newer")])
    assert caught.value.code is Code.LAKE_INPUT


# --- records that kill their worker ---

FINDER = """
import importlib.abc, importlib.util, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "lace.lake.source":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def patched(module):
            import os
            from lace.b64a import decode_trusted
            from lace.crypto import curve
            run(module)
            real, fatal = curve._read, decode_trusted(os.environ["FATAL"].encode())
            def read(x, digest, signature):
                if signature == fatal:
                    os.abort()
                return real(x, digest, signature)
            curve._read = read

        spec.loader.exec_module = patched
        return spec

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.long
def test_a_record_that_kills_its_worker_is_put_aside_and_the_rest_comes_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A native library that aborts on one signature, in every process that validates."""
    fatal = next(record for record in RECORDS[50:] if isinstance(record, Seal))
    (tmp_path / "sitecustomize.py").write_text(FINDER)
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "lake"), str(bundle)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "FATAL": fatal.signature},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.stdout == "ready\ndone\n", process.stderr
    lake = Lake.open(spark, str(tmp_path / "lake"))
    assert set(hashes(lake)) == {record.hash for record in RECORDS} - {fatal.hash}
    (put_aside,) = lake.quarantine().collect()
    assert put_aside.code == "record.worker-crash"
    assert bytes(put_aside.raw) == fatal.raw


THRESHOLDS = {
    "here": {},
    "joins": {"FEW": 0},
    "all": {"SCANNED": 0, "PART_ROWS": 1, "FEW": 0, "_HERE_BYTES": 0},
}


@pytest.mark.long
def test_what_is_known_is_found_to_the_same_end_in_every_way(
    spark: SparkSession, tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By prints and hashes here, by joins, by the workers, in parts; each with rows to drop."""
    more = str(write_bundle(bundles / "c.records", RECORDS[240:260] * 2))
    found = []
    for name, thresholds in THRESHOLDS.items():
        for threshold in ("FEW", "SCANNED", "PART_ROWS", "_HERE_BYTES"):
            usual = {"FEW": 20_000, "SCANNED": 10**7, "PART_ROWS": 10**6, "_HERE_BYTES": 10**8}
            monkeypatch.setattr(known, threshold, thresholds.get(threshold, usual[threshold]))
        lake = Lake.open(spark, str(tmp_path / name), create=True)
        ingest(lake, [str(bundles / "a.records")])
        forget(lake, [RECORDS[0].hash, RECORDS[250].hash])
        done = ingest(lake, [str(bundles / "b.records"), more])
        assert (done.duplicates, done.repeated, done.forgotten) == (50, 19 * 2, 3)
        assert done.records == len(RECORDS) - 201
        again = ingest(lake, [str(write_bundle(tmp_path / f"{name}.records", RECORDS[:9]))])
        assert (again.records, again.duplicates, again.forgotten) == (0, 8, 1)
        found.append(contents(lake))
    assert all(one == found[0] for one in found)


def test_equal_prints_lose_no_record(
    spark: SparkSession, tmp_path: Path, bundles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all prints are equal, all is doubtful, and the hashes decide."""
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    read = prints.read

    def alike(root: str, uri: str) -> pa.Array:
        return pa.array([7] * len(read(root, uri)), pa.int64())

    monkeypatch.setattr(prints, "read", alike)
    monkeypatch.setattr(prints, "prints_of", lambda some: pa.array([7] * len(some), pa.int64()))
    ingest(lake, [str(bundles / "a.records")])
    done = ingest(lake, [str(bundles / "b.records")])
    assert (done.records, done.duplicates) == (len(RECORDS) - 200, 50)
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


def test_a_bundle_is_known_by_its_time_or_else_by_its_bytes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_bundle(tmp_path / "a.records", RECORDS[:100])
    os.utime(bundle, (1_700_000_000, 1_700_000_000))
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    ingest(lake, [str(bundle)], cut_bytes=5_000)
    digested: list[str] = []
    real = digests_of

    def counted(name: str, block: int) -> tuple[str, str]:
        digested.append(name)
        return real(name, block)

    monkeypatch.setattr(ingest_module, "digests_of", counted)
    assert ingest(lake, [str(bundle)], cut_bytes=5_000).steps == 0
    assert digested == []  # an old time leaves no doubt
    os.utime(bundle, (1_700_000_001, 1_700_000_001))
    assert ingest(lake, [str(bundle)], cut_bytes=5_000).steps == 0
    assert digested == [str(bundle)]
    raw = bundle.read_bytes()
    bundle.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))  # the same size, other bytes
    done = ingest(lake, [str(bundle)], cut_bytes=5_000)
    assert (done.steps, done.duplicates, done.quarantined) == (1, 99, 1)


def test_an_ingest_of_an_older_engine_is_known_again(spark: SparkSession, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "a.records", RECORDS[:10])
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(bundle)])
    (note,) = (tmp_path / "lake/ingests").iterdir()
    inputs = [[str(bundle), bundle.stat().st_size, survey_digest(bundle.read_bytes())]]
    note.write_text(json.dumps({"ingest": done.ingest, "steps": 1, "inputs": inputs}))
    assert ingest(lake, [str(bundle)]).steps == 0


def test_a_bundle_that_changes_meanwhile_ends_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = write_bundle(tmp_path / "a.records", RECORDS[:100])
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    write = write_parts

    def changing(*given: Any) -> Any:
        staged = write(*given)
        write_bundle(bundle, RECORDS[:101])
        return staged

    monkeypatch.setattr(ingest_module, "write_parts", changing)
    with pytest.raises(LakeError) as caught:
        ingest(lake, [str(bundle)])
    assert caught.value.code is Code.LAKE_CHANGED
    assert hashes(lake) == []
    monkeypatch.setattr(ingest_module, "write_parts", write)
    assert ingest(lake, [str(bundle)]).records == 101


def test_workers_that_begin_wrongly_are_set_right(spark: SparkSession, tmp_path: Path) -> None:
    """Parts of a few hundred bytes, with records in the data of others."""
    raws = [record.raw for record in RECORDS[:40]]
    quoting = forge.blob(b"".join(record.raw for record in RECORDS[50:80]))
    bundle = tmp_path / "a.records"
    bundle.write_bytes(b"".join([*raws[:20], quoting, b"?", *raws[20:]]))
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(bundle)], cut_bytes=1_000)
    assert (done.records, done.quarantined) == (41, 1)
    assert RECORDS[60].hash not in hashes(lake)


def test_tasks_that_run_twice_write_once(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the first try has written before it was lost, the lake has none of it."""
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    bundle = str(write_bundle(tmp_path / "a.records", RECORDS))
    parts = list(survey(bundle).segments())

    def stage(folder: str, name: str) -> list[Written]:
        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from as_batches(store_found(segment_batches(parts[number]), folder, name))
            context = TaskContext.get()
            if context is not None and context.attemptNumber() < 2:
                raise RuntimeError("this machine is lost")

        return writing._run(spark.range(0, len(parts), 1, len(parts)), work, folder)

    done = run_step(lake, stage, "work", 1, "name", lambda _message: None)
    assert done.records == len(RECORDS)
    assert sorted(r.hash for r in lake.snapshot().read_all()) == sorted(r.hash for r in RECORDS)
    listed = {Path(uri).name for uri in lake.snapshot().version.uris()}
    assert {path.name for path in (tmp_path / "lake").rglob("*.parquet")} == listed


class Elsewhere:
    """A session as Spark Connect has it: all but the context, of which it says that there is none."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name in {"sparkContext", "_jvm", "_jsparkSession"}:
            raise AttributeError(name)
        return getattr(self._session, name)


def test_a_session_that_runs_elsewhere_is_enough(
    spark: SparkSession, tmp_path: Path, bundles: Path
) -> None:
    lake = Lake.open(cast("SparkSession", Elsewhere(spark)), str(tmp_path / "lake"), create=True)
    done = ingest(lake, [str(bundles)])
    assert (done.records, done.repeated, done.quarantined) == (len(RECORDS), 50, 2)
    assert lake.snapshot().records.count() == len(RECORDS)
    (tmp_path / "gone.records").symlink_to(tmp_path / "nothing")
    with pytest.raises(LakeError) as caught:
        digest_all(lake.spark, [*map(str, bundles.iterdir()), str(tmp_path / "gone.records")])
    assert caught.value.code is Code.LAKE_INPUT
    with pytest.raises(LakeError) as caught:
        LakeStream(lake, str(bundles), str(tmp_path / "c")).start()
    assert "Spark Connect" in caught.value.message
