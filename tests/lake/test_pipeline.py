"""A pipeline in one file: run again and again, it changes only what has to change."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from rooms import PREFIX, room_records, write_bundle
from servers import process

from lace.cli.root import run as run_lace
from lace.errors import Code, LakeError
from lace.lake.flow import flow
from lace.lake.forget import forget
from lace.lake.peer import LakeStore
from lace.lake.pipeline import Done, ProjectionTable, follow, load, run
from lace.lake.select import select
from lace.lake.stream import LakeStream
from lace.lake.tables import Lake
from lace.projection import Projection
from lace.record.model import Versioned
from lace.recordstore.sqlite import SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = [r for r in room_records(80, seed=95) if isinstance(r, Versioned) and r.app != "other"]
FILE = f"""
lake = "notes.lake"
[[source]]
path = ["incoming", "more/*.records"]
[[projection]]
name = "notes"
select = "{PREFIX}"
columns = ["Hash", "App", "TAI", "Tag"]
[[projection]]
name = "by-app"
select = "{PREFIX}"
columns = ["App", "Hash"]
newest = ["App"]
[[export]]
projection = "by-app"
to = "out/apps"
[[export]]
select = "{PREFIX}"
to = "out/bundles"
[maintain]
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("incoming", "more"):
        (tmp_path / name).mkdir()
    (tmp_path / "lake.toml").write_text(FILE)
    return tmp_path


def table(home: Path, name: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(str(home / "notes.lake/projections" / name)).to_pyarrow_table()
    return sorted(tuple(row.values()) for row in found.to_pylist())


def expected(records: list[Versioned]) -> list[tuple[Any, ...]]:
    return sorted(Projection.of(records, ["Hash", "App", "TAI", "Tag"]).rows)


def newest(records: list[Versioned]) -> list[tuple[str, str]]:
    found: dict[str, Versioned] = {}
    for record in sorted(records, key=lambda r: (r.tai, r.hash)):
        found[record.app] = record
    return sorted((app, record.hash) for app, record in found.items())


@pytest.mark.long
def test_a_run_follows_and_a_second_one_changes_nothing(spark: SparkSession, home: Path) -> None:
    pipeline = load(home / "lake.toml")

    write_bundle(home / "incoming/a.records", RECORDS[:30])
    write_bundle(home / "more/b.records", RECORDS[30:40])
    list(run(pipeline, spark))
    assert table(home, "notes") == expected(RECORDS[:40])
    assert table(home, "by-app") == newest(RECORDS[:40])
    assert not any(done.changed for done in run(pipeline, spark))
    write_bundle(home / "incoming/c.records", RECORDS[40:])
    done = {d.step: d for d in run(pipeline, spark)}
    notes = done["projection notes"]
    assert notes.changed
    assert notes.read["whole"] is False  # only what had come was looked at
    assert notes.wrote["rows"] == len(RECORDS) - 40
    assert done["projection by-app"].read["whole"] is True
    assert table(home, "notes") == expected(RECORDS)
    assert table(home, "by-app") == newest(RECORDS)
    latest = json.loads((home / "out/apps/latest.json").read_text())["folder"]
    rows = pq.read_table(home / "out/apps" / latest).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == newest(RECORDS)
    forget(Lake.open(spark, str(home / "notes.lake")), [RECORDS[0].hash])
    list(run(pipeline, spark))
    assert table(home, "notes") == expected(RECORDS[1:])


def test_what_comes_while_a_projection_is_made_is_not_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(spark, str(tmp_path / "notes.lake"), create=True)
    LakeStore(lake).save(RECORDS[:10])
    projection = ProjectionTable(name="notes", select=PREFIX, columns=("Hash", "App", "TAI", "Tag"))

    def late(*arguments: Any, **options: Any) -> Any:
        LakeStore(lake).save(RECORDS[10:20])
        return select(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr("lace.lake.pipeline.select", late)
        assert follow(lake, projection).wrote["rows"] == 10
    done = follow(lake, projection)
    assert (done.changed, done.wrote["rows"]) == (True, 10)
    assert table(tmp_path, "notes") == expected(RECORDS[:20])
    assert not follow(lake, projection).changed


def test_a_peer_as_a_source(spark: SparkSession, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(RECORDS[:20])
        with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", "--select", PREFIX) as server:
            (tmp_path / "lake.toml").write_text(
                f'lake = "x.lake"\n[[source]]\npeer = "{server.address}"\nselect = "{PREFIX}"\n'
                'checkpoint = "c"\n'
            )
            pipeline = load(tmp_path / "lake.toml")
            (done,) = run(pipeline, spark)
            assert (done.changed, done.wrote["records"]) == (True, 20)
            (again,) = run(pipeline, spark)
            assert (again.changed, again.wrote["records"]) == (False, 0)


@pytest.mark.long
def test_the_command_reports_and_says_what_was_put_aside(
    spark: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert spark is not None
    monkeypatch.chdir(home)
    bundle = write_bundle(home / "incoming/a.records", RECORDS[:9])
    bundle.write_bytes(bundle.read_bytes() + b"?")
    write_bundle(home / "more/b.records", RECORDS[9:10])
    assert run_lace(["lake", "run", "--json"]) == 3
    entries = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [entry["step"].split()[0] for entry in entries] == [
        "source", "projection", "projection", "export", "export", "maintain",
    ]  # fmt: skip
    assert entries[0]["wrote"]["records"] == 10
    assert entries[0]["put_aside"] == 1
    assert entries[1]["read"]["lake"] == [None, entries[0]["wrote"]["lake"][1]]
    assert all(entry["seconds"] >= 0 for entry in entries)
    assert run_lace(["lake", "run", "--metrics-file", "run.prom"]) == 0
    assert {line.split()[0] for line in capfd.readouterr().out.splitlines()} == {"as"}
    told = (home / "run.prom").read_text()
    assert 'lace_lake_step_changed{step="maintain"} 0\n' in told
    assert "lace_lake_run_failed 0\n" in told
    (home / "incoming/a.records").unlink()
    (home / "incoming").rmdir()
    (home / "more/b.records").unlink()
    assert run_lace(["lake", "run", "--metrics-file", "run.prom"]) != 0
    assert "lace_lake_run_failed 1\n" in (home / "run.prom").read_text()
    assert not (home / "run.prom.new").exists()
    assert run_lace(["lake", "run", "none.toml"]) == 1


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("lake = ?", "line 1"),
        ("", "needs lake"),
        ('lake = "x"\nspeed = 1', "nobody knows speed"),
        ('lake = "x"\n[source]\npath = "a"', "write [[source]]"),
        ('lake = "x"\n[[source]]', "source 1 needs path or peer"),
        ('lake = "x"\n[[source]]\npath = 3', "path is a text or a list"),
        ('lake = "x"\n[[source]]\npath = "a"\nselect = "b"', "nobody knows select"),
        ('lake = "x"\n[[source]]\npeer = "tcp:h:1"', "needs select"),
        ('lake = "x"\n[[projection]]\nname = "N!"\nselect = "//a//b//"', "a name is made of"),
        ('lake = "x"\n[[projection]]\nname = "n"\nselect = "//a//b//"\n[[projection]]\nname = "n"\nselect = "//a//b//"', "two projections"),
        ('lake = "x"\n[[export]]\nprojection = "n"\nto = "y"', "names no projection"),
        ('lake = "x"\n[[export]]\nto = "y"', "needs projection or select"),
        ('lake = "x"\nmaintain = 3', "maintain is no table"),
        ('lake = "x"\n[maintain]\nretain = -1', "a number of hours"),
        ('lake = "x"\n' + "[[source]]\npath = 'a'\n" * 101, "more than 100"),
        ("#" * (1 << 20) + "\n", "larger than"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "lake.toml").write_text(text)
    with pytest.raises(LakeError) as caught:
        load(tmp_path / "lake.toml")
    assert caught.value.code is Code.LAKE_PIPELINE
    assert what in caught.value.message


# --- a pipeline that goes on ----------------------------------------------------------------------


def test_a_stream_goes_on_that_died_while_it_noted_its_first_batch(
    spark: SparkSession, home: Path
) -> None:
    write_bundle(home / "incoming/a.records", RECORDS[:5])
    offsets = home / "c/spark/offsets"
    offsets.mkdir(parents=True)
    for name in (".0.83219b9e.tmp", "..0.83219b9e.tmp.crc"):
        (offsets / name).write_bytes(b"half")
    lake = Lake.open(spark, str(home / "x.lake"), create=True)
    stream = LakeStream(lake, str(home / "incoming"), str(home / "c"))
    stream.start()
    stream.wait()
    assert lake.snapshot().version.rows == 5


STREAMED = f"""
lake = "notes.lake"
[[source]]
path = ["incoming", "more/"]
[[projection]]
name = "notes"
select = "{PREFIX}"
columns = ["Hash", "App", "TAI", "Tag"]
"""


@pytest.mark.long
def test_what_is_behind_the_lake_follows_each_batch(spark: SparkSession, home: Path) -> None:
    (home / "lake.toml").write_text(STREAMED)
    pipeline = load(home / "lake.toml")
    write_bundle(home / "incoming/a.records", RECORDS[:30])
    second = write_bundle(home / "b.part", RECORDS[20:40])
    second.write_bytes(second.read_bytes() + b"?")

    def flows(until: int) -> list[Done]:
        """Go on until so many records are in the projection, then end; return what was done."""
        stop, seen = Event(), []
        options = {"checkpoint": str(home / "c"), "interval": "1 second", "stop": stop}
        for done, seconds in flow(pipeline, spark, **options):  # type: ignore[arg-type]
            assert seconds >= 0
            seen.append(done)
            if done.step == "projection notes":
                if len(table(home, "notes")) >= until:
                    stop.set()
                elif len(table(home, "notes")) == 30:
                    second.rename(home / "more/b.records")
        return seen

    seen = flows(40)
    assert table(home, "notes") == expected(RECORDS[:40])
    one, two = (done for done in seen if done.step.startswith("source"))
    assert (one.wrote["records"], one.read["batch"], one.put_aside) == (30, 0, 0)
    assert (two.wrote["records"], two.wrote["duplicates"], two.put_aside) == (10, 10, 1)
    assert seen[-1].read["whole"] is False  # only what had come was looked at
    assert seen[-1].read["lake"][0] < two.wrote["lake"][1] == seen[-1].read["lake"][1]
    write_bundle(home / "incoming/c.records", RECORDS[40:])
    seen = flows(len(RECORDS))  # goes on where it ended
    assert [done.step.split()[0] for done in seen] == ["source", "projection"]
    assert (seen[0].wrote["records"], seen[0].read["batch"]) == (len(RECORDS) - 40, 1)
    assert table(home, "notes") == expected(RECORDS)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("", "there is no source"),
        (
            '[[source]]\npeer = "tcp:h:1"\nselect = "//a//b//"\ncheckpoint = "c"',
            "tcp:h:1 is no folder",
        ),
        ('[[source]]\npath = "*.records"', "is no folder: --stream reads folders alone"),
        ('[[source]]\npath = "nowhere/"', "nowhere is no folder"),
        ('[[source]]\npath = ["here", "here/"]', "one folder is a source twice"),
    ],
)
def test_only_folders_are_streamed(
    tmp_path: Path, source: str, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    file = tmp_path / "lake.toml"
    file.write_text(f'lake = "x.lake"\n{source}')
    assert run_lace(["lake", "run", str(file), "--stream"]) == 1
    err = capfd.readouterr().err
    assert what in err.replace("'", "")
    assert "[lake.pipeline]" in err
    assert not (tmp_path / "x.lake").exists()
    assert run_lace(["lake", "run", str(file), "--checkpoint", "c"]) == 2
    assert run_lace(["lake", "run", str(file), "--metrics", "0"]) == 2


@pytest.mark.long
def test_the_command_goes_on_until_it_is_told_to_end(spark: SparkSession, home: Path) -> None:
    (home / "lake.toml").write_text(
        f'lake = "x.lake"\n[[source]]\npath = "incoming"\n[[projection]]\nname = "notes"\n'
        f'select = "{PREFIX}"\n'
    )
    write_bundle(home / "incoming/a.records", RECORDS[:30])
    command = [
        sys.executable, "-m", "lace", "lake", "run", "--stream", "--interval", "1 second", "--json",
        "--metrics-file", "run.prom", "--metrics", "0",
    ]  # fmt: skip
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(
            command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as ran,
    ):
        assert ran.stdout is not None
        assert ran.stderr is not None
        port = re.findall(r":(\d+)/metrics", pool.submit(ran.stderr.readline).result(120))[0]
        told = [json.loads(pool.submit(ran.stdout.readline).result(120)) for _ in range(2)]
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            numbers = answer.read().decode()
        ran.send_signal(signal.SIGTERM)
        assert ran.wait(120) == 0
    assert {entry["step"].split()[0] for entry in told} == {"source", "projection"}
    assert Lake.open(spark, str(home / "x.lake")).snapshot().version.rows == 30
    assert "lace_lake_run_failed 0\n" in (home / "run.prom").read_text()
    assert 'lace_lake_step_changed{step="projection notes"} 1\n' in numbers
