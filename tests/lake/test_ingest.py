"""Bundles become tables: validated, once each, whatever happens on the way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import forge
import pytest
from rooms import TEST_SETTINGS, room_records, write_bundle

from lace.errors import Code, LakeError
from lace.lake import bundle as bundle_module
from lace.lake import ingest as ingest_module
from lace.lake.bundle import INDEX_SUFFIX, joined, survey, write_index
from lace.lake.delta import DeltaLog
from lace.lake.ingest import IngestResult, ingest
from lace.lake.source import read_segment
from lace.lake.tables import Lake
from lace.record.facts import facts
from lace.record.model import Record, Seal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(300)


def hashes(lake: Lake) -> list[str]:
    return sorted(row.hash for row in lake.snapshot().records.select("hash").collect())


def contents(lake: Lake) -> tuple[list[Any], list[Any]]:
    """Return everything in a lake but the files that it happens to lie in."""
    records = sorted(lake.snapshot().records.collect())
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
    assert (done.records, done.duplicates, done.quarantined) == (len(RECORDS), 50, 2)
    bad, tail = sorted(lake.quarantine().collect(), key=lambda row: row.offset)
    raw = (bundles / "b.records").read_bytes()
    for row in (bad, tail):
        assert bytes(row.raw) == raw[row.offset : row.offset + row.length]
        assert row.bundle.endswith("b.records")
        assert row.detail
    assert bad.code == "record.signature"
    assert tail.code == "record.markline"
    assert bytes(tail.raw) == b"what is this?"


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
    assert (moved.records, moved.quarantined) == (0, 0)
    assert contents(lake) == before


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
    (ingest_module, "_write_plan", after, 0),
    (ingest_module, "_stage", after, 0),
    (DeltaLog, "commit", before, 0),  # of the quarantine
    (DeltaLog, "commit", after, 0),
    (ingest_module, "_without_known", after, 0),
    (DeltaLog, "commit", before, 1),  # of the records
    (DeltaLog, "commit", after, 1),
    (ingest_module, "_tidy", after, 0),
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
from lace.lake import bundle, ingest
from lace.lake.session import SparkOptions, open_session
from lace.lake.tables import Lake
bundle.CUT_BYTES = 1000
run_step, steps = ingest.run_step, []
def dying(*given):
    steps.append(run_step(*given))
    if len(steps) == 1:
        os._exit(9)
    return steps[-1]
ingest.run_step = dying
spark = open_session(SparkOptions(master="local[4]", memory="1g", quick_start=True, settings=SETTINGS))
ingest.ingest(Lake.open(spark, sys.argv[1], create=True), [sys.argv[2]], step_bytes=45_000)
"""


def test_an_ingest_can_be_completed_with_another_number_of_cores(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cores decide how a step is shared out, never what is in it."""
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    write_index(survey(str(bundle), cut_bytes=3_000))
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "lake"), str(bundle)]
    assert subprocess.run(command, check=False).returncode == 9
    lake = Lake.open(spark, str(tmp_path / "lake"))
    assert 0 < len(hashes(lake)) < len(RECORDS)
    monkeypatch.setattr(bundle_module, "CUT_BYTES", 1000)
    done = ingest(lake, [str(bundle)], step_bytes=45_000)
    assert done.skipped_steps == 1
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


def test_an_ingest_can_be_completed_where_an_index_came_or_went(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Other cuts make other steps: numbers of committed ones then say nothing."""
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    write_index(survey(str(bundle), cut_bytes=3_000))
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaLog, "commit", before(DeltaLog.commit, 1))
        with pytest.raises(Crash):
            ingest(lake, [str(bundle)], step_bytes=50_000)
    Path(f"{bundle}{INDEX_SUFFIX}").unlink()
    write_index(survey(str(bundle), cut_bytes=45_000))
    ingest(lake, [str(bundle)], step_bytes=50_000)
    assert hashes(lake) == sorted(record.hash for record in RECORDS)


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
    codes = {Path(row.bundle).stem: row.code for row in lake.quarantine().collect()}
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

    monkeypatch.setattr(source, "_PIECE", 1000)
    raw = RECORDS[0].raw + random.Random(1).randbytes(4500)
    (tmp_path / "a.records").write_bytes(raw)
    segment = survey(str(tmp_path / "a.records")).segments()[0]
    rows = [row for batch in source.read_segment(segment) for row in batch.to_pylist()]
    assert b"".join(row["raw"] for row in rows) == raw
    assert [row["code"] for row in rows][1:] == ["record.markline", *["lake.unreadable"] * 4]


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
    for cuts in ((within,), (within, len(inner)), (len(inner) + 1,)):
        write_index(type(honest)(honest.bundle, honest.size, honest.digest, cuts))
        lake = Lake.open(spark, str(tmp_path / f"lake{cuts[0]}{len(cuts)}"), create=True)
        monkeypatch.setattr(ingest_module, "segment_bytes", lambda _total, _cores: 1)
        with pytest.raises(LakeError) as caught:
            ingest(lake, [str(bundle)])
        assert caught.value.code is Code.LAKE_INDEX
        assert lake.snapshot().records.count() == 0
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
            from lace.record import validate
            run(module)
            real, fatal = validate.verify, decode_trusted(os.environ["FATAL"].encode())
            def verify(x, digest, signature):
                if signature == fatal:
                    os.abort()
                return real(x, digest, signature)
            validate.verify = verify

        spec.loader.exec_module = patched
        return spec

sys.meta_path.insert(0, Finder())
"""


def test_a_record_that_kills_its_worker_is_put_aside_and_the_rest_comes_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A native library that aborts on one signature, in every process that validates."""
    fatal = next(record for record in RECORDS[50:] if isinstance(record, Seal))
    (tmp_path / "sitecustomize.py").write_text(FINDER)
    bundle = write_bundle(tmp_path / "a.records", RECORDS)
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "lake"), str(bundle)],
        env=os.environ | {"PYTHONPATH": str(tmp_path), "FATAL": fatal.signature},
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
