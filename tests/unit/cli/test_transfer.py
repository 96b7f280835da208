"""Records from files and into files: nothing is lost, nothing comes twice, faults have a place."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import random
import sqlite3
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq
import pytest
from command import lace_inside as lace
from small_limits import hold_to

import lace as api
from lace import blocking
from lace.api.handles import store_of
from lace.api.importing import Importer
from lace.api.repeats import Repeats
from lace.api.rows import RowMap, RowReader, csv_rows
from lace.cli.progress import progress_text
from lace.clock import tai_now
from lace.errors import Code, UsageError
from lace.keyring import Keyring
from lace.record import build_plex, seal
from lace.recordstore import MemoryStore
from lace.urc import Coordinate

PLACE = "//club//people//"
KEY = api.SigningKey(b"k" * 32)
TABLE = "id,City,Notes,Joined\nann,Oslo,likes tea,2024-05-01T10:00:00+00:00\nbo,Rome,,2024-06-01\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    Keyring().add("ann", demo=True)
    for name in ("one", "two"):
        done = lace("init", name, "--key", "ann", "--select", PLACE, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    return tmp_path / "one"


def people(count: int) -> list[api.Record]:
    return [
        seal(
            build_plex(
                group="club", app="people", name=f"p/{number}", tai=f"{number:010d}:000000000",
                extras=[("City", f"city {number % 7}")], data=f"person {number}".encode(),
            ),
            KEY,
        )
        for number in range(count)
    ]  # fmt: skip


def rows_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in lace("list", cwd=folder).stdout.splitlines()]


def test_what_is_exported_can_be_imported_whole(folder: Path) -> None:
    records = people(2500)
    with api.open(folder, records=records):
        pass
    done = lace("export", "-o", "all.records", cwd=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, b"2,500 records")
    assert (folder / "all.records").read_bytes() == b"".join(r.raw for r in records)
    there = folder.parent / "two"
    done = lace("import", folder / "all.records", cwd=there)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, b"2,500 new, 0 here already")
    again = lace("import", "-", stdin=(folder / "all.records").read_bytes(), cwd=there)
    assert (again.returncode, again.stderr.splitlines()[-1]) == (0, b"0 new, 2,500 here already")
    with api.open(there) as local:
        assert {r.hash for r in blocking.list(local)} == {r.hash for r in records}


def test_what_is_refused_is_put_aside_and_the_rest_is_stored(folder: Path) -> None:
    records = people(4)
    broken = records[1].raw.replace(b"person 1", b"person !")
    content = records[0].raw + broken + records[2].raw + records[3].raw[:-3]
    (folder / "mixed.records").write_bytes(content)
    done = lace("import", "mixed.records", cwd=folder)
    assert done.returncode == 3
    lines = done.stderr.decode().splitlines()
    assert lines[-1] == "2 new, 0 here already, 2 refused"
    assert f"mixed.records, byte {len(records[0].raw)}:" in done.stderr.decode()
    aside = (folder / "mixed.records.refused.jsonl").read_text().splitlines()
    assert [json.loads(line)["code"] for line in aside] == [
        "record.hash-mismatch",
        "record.truncated",
    ]
    assert (
        api.Refused("", Code.RECORD_TYPE, "", broken).to_dict()["content_b64"]
        == json.loads(aside[0])["content_b64"]
    )


def test_what_was_put_aside_is_never_replaced_unasked(folder: Path) -> None:
    rows = ("--to", PLACE, "--name", "id")
    for part, lines in (("a", ",1\n,2\n,3\n"), ("b", ",4\n")):
        (folder / part).mkdir()
        (folder / part / "x.csv").write_text(f"id,Nr\n{lines}")
    (folder / "x.csv.refused.jsonl").write_text("mine")
    done = lace("import", "a/x.csv", "b/x.csv", *rows, cwd=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        3,
        b"0 new, 0 here already, 4 refused",
    )
    assert (folder / "x.csv.refused.jsonl").read_text() == "mine"
    names = ("x.csv.refused-2.jsonl", "x.csv.refused-3.jsonl")
    aside = [(folder / name).read_text().splitlines() for name in names]
    assert [len(lines) for lines in aside] == [3, 1]
    assert all(name.encode() in done.stderr for name in names)
    one = (*rows, "--refused", "all.jsonl")
    assert lace("import", "a/x.csv", "b/x.csv", *one, cwd=folder).returncode == 3
    found = map(json.loads, (folder / "all.jsonl").read_text().splitlines())
    assert [line["file"] for line in found] == ["a/x.csv"] * 3 + ["b/x.csv"]
    done = lace("import", "b/x.csv", *one, cwd=folder)
    assert (done.returncode, b"all.jsonl exists already" in done.stderr) == (2, True)
    assert lace("import", "b/x.csv", *one, "--force", cwd=folder).returncode == 3
    assert len((folder / "all.jsonl").read_text().splitlines()) == 1


def test_bytes_that_borrow_the_name_of_a_stored_record_are_refused(folder: Path) -> None:
    record = people(1)[0]
    with api.open(folder, records=[record]):
        pass
    (folder / "false.records").write_bytes(record.raw.replace(b"person", b"PERSON"))
    done = lace("import", "false.records", cwd=folder)
    assert done.returncode == 3
    assert done.stderr.endswith(b"0 new, 0 here already, 1 refused\n")


def test_a_table_becomes_signed_records_once(folder: Path) -> None:
    (folder / "people.csv").write_text(TABLE)
    words = ("import", "people.csv", "--to", f"{PLACE}p/", "--name", "id", "--data", "Notes")
    done = lace(*words, "--time", "Joined", cwd=folder)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, b"2 new, 0 here already")
    first, second = rows_of(folder)
    assert first["place"] == "//club//people//p/ann"
    assert first["author"] == Keyring().get("ann").verifier
    assert (first["fields"], first["data"], first["tai"]) == (
        {"City": ["Oslo"]}, "likes tea", "1714557637:000000000",
    )  # fmt: skip
    assert (second["fields"], second["data"]) == ({"City": ["Rome"]}, "")
    again = lace(*words, "--time", "Joined", cwd=folder)
    assert again.stderr.splitlines()[-1] == b"0 new, 2 here already"


def test_a_table_that_changed_adds_only_what_changed(folder: Path) -> None:
    words = ("import", "-", "--to", PLACE, "--name", "id", "--column", "Town=City")
    assert lace(*words, stdin=TABLE, cwd=folder).returncode == 0
    changed = TABLE.replace("Rome", "Bonn") + "cy,Bern,,\nbo,Kiel,,\nbo,Kiel,,\n"
    done = lace(*words, stdin=changed, cwd=folder)
    assert done.stderr.splitlines()[-1] == b"3 new, 2 here already"
    found = lace("list", "--newest", "--columns", "Name,Town", cwd=folder).stdout.splitlines()
    assert sorted(map(json.loads, found), key=lambda row: row["Name"]) == [
        {"Name": "ann", "Town": "Oslo"}, {"Name": "bo", "Town": "Kiel"}, {"Name": "cy", "Town": "Bern"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("id,City\n,Oslo\n", b"line 2: column id has no name"),
        ("id,City\na\n", b"line 2: 1 cells under 2 columns"),
        ('{"nr": 1}\n', b"line 1: there is no column 'id'; there are 'nr'"),
        ('{"id": 1, "Signed-By": "me"}\n', b"line 1: header name Signed-By is reserved"),
        ("id,City\nu\udce9,Oslo\n", b"line 2: the line is not UTF-8: convert the file"),
        ("id,City\na//b,Oslo\n", b"line 2: Name"),
        ("id,City\na,O\u0001\n", b"line 2: header 'City'"),
        ('id,City\na,"Os\n', b"nothing after this can be read"),
        ('{"id": 1}\n[2]\n', b"line 2: A line is not one JSON object"),
        ('{"id": 1}\n{"id": 2, "City"\n', b"line 2: A line is not one JSON object"),
        ('{"id": 1}\n{"id": 2, "data": "\udc80"}\n', b"line 2"),
        ("id,City\n" + "a,x\n" + "b,y\n" * 8 + "c," + "x" * 200_000 + "\n", b"line 11"),
    ],
)
def test_a_row_that_is_wrong_has_its_line_and_reason(
    folder: Path, table: str, reason: bytes
) -> None:
    stdin = table.encode("utf-8", "surrogateescape")
    done = lace("import", "-", "--to", PLACE, "--name", "id", stdin=stdin, cwd=folder)
    assert done.returncode == 3
    assert reason in done.stderr
    assert (folder / "import.refused.jsonl").is_file()


@pytest.mark.parametrize(
    ("named", "more", "reason"),
    [
        ("nope", "", "there is no column 'nope'; there are 'c0, c1, "),
        ("c0", ",c7", "two columns have one name, 'c7'"),
        ("c0", ",Group", "the column Group cannot become a field"),
    ],
)
def test_a_table_of_very_many_columns_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, named: str, more: str, reason: str
) -> None:
    """With each name compared to each other one, this takes minutes."""
    hold_to(monkeypatch, table_columns=300_000)
    check = RowReader(RowMap(to=PLACE, name=named)).check_columns
    first = ",".join(f"c{number}" for number in range(250_000)) + more
    with pytest.raises(UsageError) as caught:
        list(csv_rows([f"{first}\n"], check))
    assert reason in caught.value.message
    assert len(caught.value.message) < 300


def test_a_table_has_so_many_columns_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, table_columns=3)
    check = RowReader(RowMap(to=PLACE, name="a")).check_columns
    assert len(list(csv_rows(["a,b,c\n", "1,2,3\n"], check))) == 1
    with pytest.raises(
        UsageError, match="line 1: there are 4 columns, and 3 are the most"
    ) as caught:
        list(csv_rows(["a,b,c,d\n", "1,2,3,4\n"], check))
    assert caught.value.code is Code.INPUT_FILE


@pytest.mark.parametrize(
    ("words", "content", "reason"),
    [
        ((), "id\n1\n", b"say what the columns of the table become"),
        (("--to", PLACE, "--name", "id"), "nr,City\n1,Oslo\n", b"there is no column 'id'; there are 'nr, City'"),
        (("--to", PLACE, "--name", "id", "--data", "Note"), "id,City\n1,Oslo\n", b"there is no column 'Note'"),
        (("--to", PLACE, "--name", "id", "--column", "Town=Place"), "id,City\n1,Oslo\n", b"there is no column 'Place'"),
        (("--to", PLACE), "id\n1\n", b"--to and --name belong together"),
        (("--data", "x"), "id\n1\n", b"--to and --name belong together"),
        (("--to", "//a//b//c", "--name", "id"), "id\n1\n", b"is one place"),
        (("--to", "nowhere", "--name", "id"), "id\n1\n", b"does not begin with //"),
        (("--to", PLACE, "--name", "id"), "id,id\n1,2\n", b"two columns have one name, 'id' [input.file]\n  Give one of them"),
        (("--to", PLACE, "--name", "id"), "id,Group\n1,g\n", b"the column Group cannot become a field"),
        (("--to", PLACE, "--name", "id"), "id,TAI\n1,g\n", b"--column FIELD=COLUMN"),
        (("--to", PLACE, "--name", "id"), b"id,St\xe9\n1,g\n", b"the names of the columns are not UTF-8"),
        (("--to", PLACE, "--name", "id"), '[{"id": "a"}]', b"this is one JSON array"),
        (("--format", "jsonl"), '[\n {"id": "a"}]', b"this is one JSON array"),
        (("--key", "ann", "--unsigned"), "", b"not both"),
        ((), "SQLite format 3\0", b"this is a store"),
        (("--refused", "/no/where", "--to", PLACE, "--name", "id"), 'id\n""\n', b"cannot write"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_before_anything_is_stored(
    folder: Path, words: tuple[str, ...], content: str | bytes, reason: bytes
) -> None:
    done = lace("import", "-", *words, stdin=content, cwd=folder)
    assert done.returncode in {1, 2}
    assert reason in done.stderr
    assert rows_of(folder) == []


def test_rows_need_a_key_or_the_word_unsigned(folder: Path) -> None:
    (folder / "lace.toml").write_text(f'select = "{PLACE}"\n')
    words = ("import", "-", "--to", PLACE, "--name", "id")
    refused = lace(*words, stdin=TABLE, cwd=folder)
    assert refused.returncode == 2
    assert b"there is no key to sign with" in refused.stderr
    assert lace(*words, "--unsigned", stdin=TABLE, cwd=folder).returncode == 0
    assert [row["author"] for row in rows_of(folder)] == [None, None]
    again = lace(*words, "--unsigned", stdin=TABLE, cwd=folder)
    assert again.stderr.splitlines()[-1] == b"0 new, 2 here already"


def test_a_batch_makes_many_records_at_once(folder: Path) -> None:
    lines = [
        {"place": "//club//people//a", "data": "A", "fields": {"City": "Oslo", "Tag": ["x", "y"]}},
        {"place": "//club//people//b", "data_b64": "/w==", "tai": "1700000000:000000000"},
        {"place": "//club//people//c", "size": 1},
        {"place": "//club//people//"},
        {"place": "//club//people//d", "data": "x", "data_b64": "eA=="},
        {"place": "//club//people//d", "data_b64": "?"},
        {"place": 5},
        {"place": "//club//people//e", "tai": "yesterday"},
    ]
    text = "\n".join(map(json.dumps, lines))
    done = lace("add", "--batch", "-", stdin=text, cwd=folder)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == b"2 new, 0 here already, 6 refused"
    by_place = {row["place"]: row for row in rows_of(folder)}
    assert by_place["//club//people//a"]["fields"] == {"City": ["Oslo"], "Tag": ["x", "y"]}
    assert by_place["//club//people//b"]["data_b64"] == "/w=="
    assert all(row["author"] == Keyring().get("ann").verifier for row in by_place.values())
    # What list prints can be added again: here already, and under another key anew.
    listed = lace("list", cwd=folder).stdout
    again = lace("add", "--batch", "-", stdin=listed, cwd=folder)
    assert again.stderr.splitlines()[-1] == b"0 new, 2 here already"
    wrong = lace("add", "//club//people//a", "--batch", "-", cwd=folder)
    assert (wrong.returncode, b"give no COORDINATE" in wrong.stderr) == (2, True)


def test_a_batch_names_members_of_a_room_as_add_does(folder: Path) -> None:
    done = lace("init", "room", "--key", "ann", "--select", PLACE, "--room", "ann", cwd=folder)
    assert done.returncode == 0, done.stderr
    grant = {"place": "//club//people/member//ann", "fields": {"Member": "ann", "Role": "writer"}}
    wrong = {"place": "//club//people/member//x", "fields": {"Member": "nobody", "Role": "writer"}}
    text = f"{json.dumps(grant)}\n{json.dumps(wrong)}\n"
    done = lace("add", "--batch", "-", "--lace", "room", stdin=text, cwd=folder)
    assert (done.returncode, b"nobody is called so" in done.stderr) == (3, True)
    (row,) = rows_of(folder / "room")
    assert row["fields"] == {"Member": [Keyring().get("ann").verifier], "Role": ["writer"]}


def test_tables_for_other_programs(folder: Path) -> None:
    with api.open(folder, records=people(5)) as local:
        binary = build_plex(
            group="club", app="people", name="raw", tai="0000000009:000000000", data=b"\xff"
        )
        blocking.store(local, [binary])
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        assert lace("export", "-o", name, cwd=folder).returncode == 0
    rows = list(csv.DictReader(io.StringIO((folder / "out.csv").read_text())))
    assert [row["Name"] for row in rows] == [*(f"p/{n}" for n in range(5)), "raw"]
    assert (rows[3]["City"], rows[3]["Data"], rows[5]["Data"]) == ("city 3", "person 3", "/w==")
    entries = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert entries == rows_of(folder)
    table = pq.read_table(folder / "out.parquet")
    assert table.column("City").to_pylist() == [*(f"city {n}" for n in range(5)), None]
    assert table.column("Data").to_pylist()[5] == b"\xff"
    narrowed = lace("export", "//club//people//p/", "--format", "csv", cwd=folder).stdout
    assert len(narrowed.splitlines()) == 6


@pytest.mark.parametrize("form", ["records", "csv"])
def test_an_export_says_what_could_not_be_read(folder: Path, form: str) -> None:
    records = people(3)
    with api.open(folder, records=records):
        pass
    with contextlib.closing(sqlite3.connect(folder / "records.lace")) as database, database:
        broken = records[1].raw.replace(b"person", b"PERSON")
        database.execute("UPDATE record SET raw = ? WHERE hash = ?", (broken, records[1].hash))
    done = lace("export", "-o", f"out.{form}", cwd=folder)
    assert done.returncode == 3
    assert b"2 records\n1 more could not be read" in done.stderr
    assert (folder / f"out.{form}").is_file()


def test_data_that_is_no_text_is_told_of(folder: Path) -> None:
    for name, data in (("a", b"\xff\xfe"), ("b", b"//4=")):
        lace("add", f"{PLACE}{name}", "--file", "-", stdin=data, cwd=folder)
    done = lace("export", "-o", "out.csv", cwd=folder)
    assert (done.returncode, b"the data of 1 of them is no text" in done.stderr) == (0, True)
    done = lace("export", "-o", "out.jsonl", cwd=folder)
    assert (done.returncode, b"no text" in done.stderr) == (0, False)


def test_a_table_that_has_not_all_values_is_told_of(folder: Path) -> None:
    line = {"place": f"{PLACE}a", "fields": {"Tag": ["x", "y"], "City": "Oslo"}}
    lace("add", "--batch", "-", stdin=json.dumps(line), cwd=folder)
    done = lace("export", "-o", "out.csv", cwd=folder)
    assert (done.returncode, b"records have several of Tag:" in done.stderr) == (0, True)
    for name in ("out.jsonl", "out.records"):
        assert b"several" not in lace("export", "-o", name, cwd=folder).stderr


def test_rows_of_another_author_are_told_of(folder: Path) -> None:
    with api.open(folder, records=people(3)):
        pass
    lace("export", "-o", "out.jsonl", cwd=folder)
    there = folder.parent / "two"
    done = lace("import", folder / "out.jsonl", cwd=there)
    assert done.returncode == 0
    assert b"3 new, 0 here already\n3 of them name another author" in done.stderr
    assert b"lace import FILE.records" in done.stderr
    own = lace("list", cwd=there).stdout
    assert b"another author" not in lace("import", "-", stdin=own, cwd=there).stderr
    again = lace("import", folder / "out.jsonl", cwd=there)
    assert b"another author" not in again.stderr


def test_what_the_selector_does_not_select_is_told_of(folder: Path) -> None:
    other = seal(build_plex(group="x", app="y", name="z", tai="1700000000:000000000"), KEY)
    content = other.raw + people(1)[0].raw
    done = lace("import", "-", stdin=content, cwd=folder)
    told = f"your selector does not select 1 of the new ones; lace why-not {other.hash}\n"
    assert (done.returncode, done.stderr.decode().endswith(told)) == (0, True)
    assert b"your selector" not in lace("import", "-", stdin=content, cwd=folder).stderr


def test_an_interrupted_import_or_export_says_what_there_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, listen: Callable[..., None], **__: object) -> None:
        listen(api.Imported(new=7) if kind == "import" else api.Exported())
        raise KeyboardInterrupt

    monkeypatch.setattr(blocking, "import_file", interrupted)
    monkeypatch.setattr(blocking, "export_file", interrupted)
    kind = "import"
    done = lace("import", "-", cwd=folder)
    assert (done.returncode, b"interrupted: 7 new, 0 here already;" in done.stderr) == (130, True)
    kind = "export"
    done = lace("export", "-o", "x.csv", cwd=folder)
    assert (done.returncode, b"x.csv was not written" in done.stderr) == (130, True)


def test_lists_for_programs_have_fields_whole_dates_and_verifiers(folder: Path) -> None:
    with api.open(folder, records=people(2)):
        pass
    (first, _) = csv.DictReader(io.StringIO(lace("list", "--csv", cwd=folder).stdout.decode()))
    assert (first["City"], first["Data"]) == ("city 0", "person 0")
    assert first["Date"] == rows_of(folder)[0]["date"]
    found = lace("diff", "one", "two", "--csv", cwd=folder.parent).stdout.decode()
    (first, _) = csv.DictReader(io.StringIO(found))
    assert (first["Signed-By"], first["Date"]) == (KEY.verifier, rows_of(folder)[0]["date"])
    assert lace("add", f"{PLACE}own", "--text", "x", cwd=folder).returncode == 0
    found = lace("diff", "one", "two", "--csv", cwd=folder.parent).stdout.decode()
    authors = {row["Signed-By"] for row in csv.DictReader(io.StringIO(found))}
    assert authors == {KEY.verifier, Keyring().get("ann").verifier}
    done = lace("list", "--columns", "Name,city,City", cwd=folder)
    assert (done.returncode, b"no record here has city;" in done.stderr) == (0, True)


def test_an_export_replaces_nothing_and_leaves_nothing_half(folder: Path) -> None:
    with api.open(folder, records=people(1)):
        pass
    (folder / "out.csv").write_text("mine")
    done = lace("export", "-o", "out.csv", cwd=folder)
    assert (done.returncode, b"exists already" in done.stderr) == (2, True)
    assert (folder / "out.csv").read_text() == "mine"
    assert lace("export", "-o", "out.csv", "--force", cwd=folder).returncode == 0
    assert (folder / "out.csv").read_text() != "mine"
    for words in (
        ("-o", "out.xlsx"),
        ("--format", "parquet"),
        ("--all", PLACE),
        ("-o", "/no/x.csv"),
    ):
        assert lace("export", *words, cwd=folder).returncode == 2
    assert not [path for path in folder.iterdir() if path.name.endswith(".part")]


@pytest.mark.skipif(os.name != "posix", reason="links are those of POSIX")
def test_an_export_replaces_a_link_and_not_what_is_behind_it(folder: Path) -> None:
    behind = folder / "behind.jsonl"
    behind.write_text("of somebody else")
    (folder / "out.jsonl").symlink_to(behind)
    (folder / ".out.jsonl.part").symlink_to(behind)  # where drafts were once written
    done = lace("export", "-o", "out.jsonl", "--force", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert behind.read_text() == "of somebody else"
    assert not (folder / "out.jsonl").is_symlink()


def test_in_python_a_kind_says_what_rows_become(tmp_path: Path) -> None:
    kind = api.RecordKind(group="club", app="people", fields=("City",), required=("Title",))
    rows = api.RowMap(to=kind, name="id", fields={"City": "city", "Title": "title"})
    (tmp_path / "rows.jsonl").write_text(
        '{"id": 7, "city": "Oslo", "title": "Dr"}\n{"id": 8, "city": "Rome"}\n'
    )
    told: list[int] = []
    with api.open(tmp_path / "store.lace", key=KEY) as local:
        count = blocking.import_file(
            local,
            tmp_path / "rows.jsonl",
            rows=rows,
            listen=lambda so_far: told.append(so_far.read),
        )
        assert (count.new, count.refused, told[-1]) == (1, 1, 2)
        assert "needs the field Title" in count.reasons[0].detail
        found = blocking.get(local, "//club//people//7")
        assert found is not None
        assert (found.author, dict(found.fields)) == (KEY.verifier, {"City": "Oslo", "Title": "Dr"})
        exported = blocking.export_file(local, tmp_path / "all.records", PLACE)
        assert exported == api.Exported(records=1, of=1)
        for name in ("nothing.here", "all.records"):
            with pytest.raises(UsageError):
                blocking.export_file(local, tmp_path / name, PLACE)
        with pytest.raises(UsageError, match="cannot read"):
            blocking.import_file(local, tmp_path / "absent")


def test_an_import_that_is_cut_off_goes_on() -> None:
    records = people(2500)
    store = MemoryStore()
    content = b"".join(record.raw for record in records)
    steps = Importer(store).steps(io.BytesIO(content))
    next(steps)  # one batch is stored; then the process is gone
    first = store.count()
    assert 0 < first < 2500
    *_, count = Importer(store).steps(io.BytesIO(content))
    assert (count.new, count.present) == (2500 - first, first)


def imported(store: MemoryStore, values: str, rows: api.RowMap | None = None) -> tuple[int, int]:
    """Import a table whose rows have one name and these values; return how many were new, and here."""
    table = "id,Nr,When\n" + "".join(f"same,{value},2024-05-01\n" for value in values)
    rows = rows or api.RowMap(to=PLACE, name="id", fields={"Nr": "Nr"})
    *_, count = Importer(store, rows, None, KEY).steps(io.BytesIO(table.encode()))
    return count.new, count.present


def versions(store: MemoryStore) -> str:
    place = Coordinate(group="club", app="people", name="same")
    found = map(store.load, store.versions(place, 100))
    return "".join(record.fields["Nr"] for record in found if record is not None)[::-1]


@pytest.mark.parametrize("values", ["121", "12", "1212", "11211", "12131", "1231212", "1" * 5])
def test_a_file_with_several_rows_of_one_place_adds_nothing_when_it_comes_again(
    values: str,
) -> None:
    store = MemoryStore()
    made = len([one for one, _ in groupby(values)])
    assert imported(store, values) == (made, len(values) - made)
    for _ in range(3):
        assert imported(store, values) == (0, len(values))
    assert versions(store) == "".join(one for one, _ in groupby(values))


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("12", "1", "121"),  # what was changed back holds again
        ("121", "12", "1212"),
        ("121", "2", "1212"),
        ("12", "123", "123"),  # an import that was cut off
        ("1231", "21", "123121"),
        ("3", "121", "3121"),
    ],
)
def test_the_last_row_of_a_place_is_what_holds_there(before: str, values: str, after: str) -> None:
    store = MemoryStore()
    imported(store, before)
    imported(store, values)
    assert versions(store) == after
    assert imported(store, values) == (0, len(values))


def test_rows_of_one_place_and_time_come_once() -> None:
    rows = api.RowMap(to=PLACE, name="id", time="When", fields={"Nr": "Nr"})
    store = MemoryStore()
    assert imported(store, "1213", rows) == (3, 1)
    assert imported(store, "1213", rows) == (0, 4)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_lines_do_not_depend_on_how_a_file_is_read(cut: int) -> None:
    class Slow(io.BytesIO):
        def read(self, _size: int | None = -1) -> bytes:
            return super().read(cut)

    made: Callable[[], Importer] = lambda: Importer(  # noqa: E731
        MemoryStore(), api.RowMap(to=PLACE, name="id"), "csv", KEY
    )
    *_, count = made().steps(Slow(b"\xef\xbb\xbf" + TABLE.encode()))
    assert (count.new, count.refused) == (2, 0)


def test_the_line_of_progress_has_rate_and_rest() -> None:
    assert (
        progress_text(5000, "records read", 2.0, 0.25)
        == "5,000 records read, 2,500/s, 25%, 6 s left"
    )
    assert progress_text(5000, "records read", 100.0, 0.25).endswith("5 min 0 s left")
    assert progress_text(5000, "records read", 2.0, None) == "5,000 records read, 2,500/s"
    assert progress_text(1, "records read", 1.0, None) == "1 record read, 1/s"


def test_what_was_refused_is_held_as_long_as_it_is_little() -> None:
    """A hundred records of 32 MiB each, all refused, would be more than a machine has."""
    good = [
        build_plex(
            group="g", app="a", name=f"n{number}", tai="0000000001:000000000", data=b"x" * 400_000
        )
        for number in range(6)
    ]
    bad = [record.raw[:-1] + b"y" for record in good]  # of the right length, with other bytes
    aside: list[api.Refused] = []
    with api.open() as local:
        count = blocking.import_file(local, io.BytesIO(b"".join(bad)), put_aside=aside.append)
    assert (count.new, count.refused, len(count.reasons)) == (0, 6, 6)
    assert [reason.content for reason in count.reasons] == [bad[0], bad[1], *[b""] * 4]
    assert [reason.detail for reason in count.reasons] == [reason.detail for reason in aside]
    assert [reason.content for reason in aside] == bad


def lines(*rows: tuple[str, str]) -> io.BytesIO:
    made = (json.dumps({"place": f"//g//a//{place}", "data": data}) + "\n" for place, data in rows)
    return io.BytesIO("".join(made).encode())


def said(local: api.Lace, place: str) -> list[str]:
    """Return what the versions at a place say, the oldest first."""
    return [record.data.decode() for record in blocking.history(local, f"//g//a//{place}")][::-1]


@pytest.mark.parametrize("others", [0, 998, 999, 1000])
def test_where_batches_end_makes_no_difference(others: int) -> None:
    """The three rows end before, at and after the end of a batch."""
    rows = [*[(f"x{number}", "x") for number in range(others)], ("p", "A"), ("p", "C"), ("p", "A")]
    with api.open(key=KEY) as local:
        blocking.import_file(local, lines(("p", "A"), ("p", "B")))
        for new in (others + 3, 0):
            assert blocking.import_file(local, lines(*rows)).new == new
            assert said(local, "p") == ["A", "B", "A", "C", "A"]


@pytest.mark.parametrize("seed", range(60))
def test_wherever_an_import_is_cut_off_the_next_one_completes_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome is that of an import that was not cut off, and a further one adds nothing."""
    monkeypatch.setattr("lace.api.importing._BATCH_RECORDS", 3)
    chance = random.Random(seed)

    def some(most: int) -> list[tuple[str, str]]:
        count = chance.randint(0, most)
        return [(chance.choice("pq"), chance.choice("ABC")) for _ in range(count)]

    before, rows = some(8), some(16)
    with api.open(key=KEY) as whole, api.open(key=KEY) as cut:
        for local in (whole, cut):
            blocking.import_file(local, lines(*before))
        for _ in range(chance.randint(0, 3)):
            steps = Importer(store_of(cut), key=KEY).steps(lines(*rows))
            for _ in range(chance.randint(0, 4)):
                next(steps, None)
        count = blocking.import_file(cut, lines(*rows))
        blocking.import_file(whole, lines(*rows))
        assert count.read == len(rows)
        for place in "pq":
            assert said(cut, place) == said(whole, place)
        assert blocking.import_file(cut, lines(*rows)).new == 0


def test_rows_that_wait_are_held_on_disk_if_they_are_many() -> None:
    place = Coordinate(group="g", app="a", name="p")
    made = [
        build_plex(group="g", app="a", name="p", tai=f"{n:010d}:000000000", data=b"%d" % n)
        for n in range(200)
    ]
    repeats = Repeats(lambda _: [row.data for row in made], in_memory=1000)
    for row in made[:-1]:
        assert repeats.take(place, row.data, row) == (0, ())
    here, new = repeats.take(place, b"other", made[-1])
    assert (here, list(new)) == (0, made)
    repeats.close()


def test_many_versions_of_a_place_come_once() -> None:
    rows = [("log", f"event {number}") for number in range(10_001)]
    with api.open(key=KEY) as local:
        assert blocking.import_file(local, lines(*rows)).new == len(rows)
        assert blocking.import_file(local, lines(*rows)).present == len(rows)


def test_a_row_holds_also_where_a_version_is_ahead_of_the_clock() -> None:
    ahead = io.BytesIO(b'{"place": "//g//a//p", "data": "ahead", "tai": "2100-01-01"}\n')
    with api.open(key=KEY) as local:
        blocking.import_file(local, ahead)
        assert blocking.import_file(local, lines(("p", "A"), ("p", "B"))).new == 2
        assert blocking.import_file(local, lines(("p", "A"), ("p", "B"))).present == 2
        assert said(local, "p") == ["ahead", "A", "B"]


def test_rows_hold_in_their_order_though_the_clock_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = tai_now()
    monkeypatch.setattr("lace.api.importing.tai_now", lambda: now)
    values = [str(number) for number in range(20)]
    with api.open(key=KEY) as local:
        blocking.import_file(local, lines(*[("p", value) for value in values]))
        assert said(local, "p") == values


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (b'{"place": "//g//a//n", "data": "\\ud800"}', Code.TEXT_UTF8),
        (b'{"place": "//g//a//n", "data": "\\udc80"}', Code.TEXT_UTF8),
        ('{"place": "//g//a//n", "data_b64": "é"}'.encode(), Code.INPUT_BASE64),
        *(
            (b'{"place": "//g//a//n", "fields": {"A": %b}}' % (b"[" * n + b"]" * n), None)
            for n in range(900, 1000)
        ),
    ],
)
def test_no_row_holds_up_the_others(row: bytes, code: Code | None) -> None:
    good = [b'{"place": "//g//a//%d"}' % number for number in range(2)]
    with api.open(key=KEY) as local:
        count = blocking.import_file(local, io.BytesIO(b"\n".join([good[0], row, good[1]])))
    assert (count.new, count.refused) == (2, 1)
    assert count.reasons[0].where == "line 2"
    assert code is None or count.reasons[0].code == code


def test_half_characters_of_json_are_no_bytes() -> None:
    rows = api.RowMap(to="//g//a//", name="id", data="d")
    with api.open(key=KEY) as local:
        count = blocking.import_file(local, io.BytesIO(b'{"id": "n", "d": "\\udc80"}'), rows=rows)
    assert count.reasons[0].code == Code.TEXT_UTF8


def test_a_table_with_long_cells_comes_back(tmp_path: Path) -> None:
    data = "x" * 200_000
    with api.open(key=KEY) as local:
        blocking.import_file(local, lines(("p", data)))
        blocking.export_file(local, tmp_path / "x.csv", "//g//a//")
    rows = api.RowMap(to="//g//a//", name="Name", data="Data", fields={})
    with api.open(key=KEY) as other:
        assert blocking.import_file(other, tmp_path / "x.csv", rows=rows).new == 1
        assert said(other, "p") == [data]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_stands_before_a_line_that_is_too_long_is_stored(
    form: Literal["jsonl", "csv"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lace.api.rows.DEFAULT_LIMITS", api.Limits(input_line_bytes=1000))
    begin = b'{"id": "n"}\n' if form == "jsonl" else b"id\nn\n"
    rows = api.RowMap(to="//g//a//", name="id")
    with api.open(key=KEY) as local:
        count = blocking.import_file(local, io.BytesIO(begin + b"x" * 2000), rows=rows, form=form)
    assert (count.new, count.refused) == (1, 1)
    assert count.reasons[0].code == Code.INPUT_LINE_TOO_LONG
    assert count.reasons[0].where == f"line {2 if form == 'jsonl' else 3}"


@pytest.mark.parametrize("milliseconds", [5, 20, 50, 100, 200])
def test_an_import_that_is_cancelled_has_told_what_it_stored(
    tmp_path: Path, milliseconds: int
) -> None:
    rows = [(f"r/{number}", "x") for number in range(3000)]
    told: list[api.Imported] = []

    async def work() -> api.Imported:
        with api.open(tmp_path / "one.lace", key=KEY) as local:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(milliseconds / 1000):
                    await api.import_file(local, lines(*rows), listen=told.append)
            assert await api.count(local, "//g//a//") == (told[-1].new if told else 0)
            await api.import_file(local, lines(*rows))
            assert await api.count(local, "//g//a//") == len(rows)
        return told[-1]

    asyncio.run(work())


def test_no_file_takes_the_place_of_a_store_or_of_its_source(folder: Path) -> None:
    source = folder / "source.jsonl"
    source.write_text('{"place": "//club//people//a"}\n[]\n')
    assert lace("import", source, cwd=folder).returncode == 3
    for words in (
        ("import", source, "--refused", "records.lace", "--force"),
        ("import", source, "--refused", source, "--force"),
        ("export", "--all", "--format", "records", "-o", "records.lace", "--force"),
        ("get", "//club//people//a", "--raw", "-o", "records.lace", "--force"),
    ):
        done = lace(*words, cwd=folder)
        assert (done.returncode, b"[input.file]" in done.stderr) == (2, True), done.stderr
    assert source.read_text().endswith("[]\n")
    assert len(rows_of(folder)) == 1
