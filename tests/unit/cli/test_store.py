"""Commands about record stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import lace
from exchanges import note
from links import EVERYTHING, Meeting

from lace.record import build_plex
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import StoreRecordId


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "notes.lace"
    with SqliteStore(path) as store:
        store.save(
            build_plex(group="g", app=app, name=f"{i}", tai=f"{i:010d}:{0:09d}")
            for app in ("notes", "drafts")
            for i in range(3)
        )
    return path


def test_info_and_check(path: Path) -> None:
    assert b"records      6" in lace("store", "info", path, "--table").stdout
    assert json.loads(lace("store", "info", path).stdout)["records"] == 6
    assert b"records,6\n" in lace("store", "info", path, "--csv").stdout
    done = lace("store", "check", path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"checked": 6, "links_let_go": 0, "problems": 0}
    with SqliteStore(path) as store:
        store._connection.execute("UPDATE place SET app = 'x' WHERE app = 'drafts'")
    done = lace("store", "check", path)
    assert done.returncode == 3
    assert done.stdout.count(b"its facts are not those of its bytes") == 3
    *told, last = map(json.loads, done.stdout.splitlines())
    assert all("problem" in one for one in told)
    assert last == {"checked": 6, "links_let_go": 0, "problems": len(told)}
    words = lace("store", "check", path, "--table").stdout.splitlines()
    assert all(line.startswith(b"record ") for line in words)


@pytest.mark.parametrize("form", [[], ["--table"], ["--csv"]])
def test_check_lets_go_of_what_is_kept_of_links_if_anything_is_wrong(
    path: Path, form: list[str]
) -> None:
    """Then the next exchange brings back what the other side still has."""
    there = MemoryStore()
    with SqliteStore(path) as store:
        store.save([note(i) for i in range(54)])
        Meeting((store, there), (EVERYTHING, EVERYTHING)).end()
        assert len(store.links()) == 1
    done = lace("store", "check", path, *form)
    assert (done.returncode, b"let go" in done.stderr) == (0, False)
    with SqliteStore(path) as store:
        assert len(store.links()) == 1
        lost = store.read(StoreRecordId(48), 1)[0].hash
        for table in ("place", "record"):
            store._connection.execute(f"DELETE FROM {table} WHERE hash = ?", (lost,))
        Meeting((store, there), (EVERYTHING, EVERYTHING)).end()
        assert store.count() == 59  # nobody knows that it is gone
    done = lace("store", "check", path, *form)
    assert done.returncode == 3
    assert b"1 of its records are gone" in done.stdout
    assert b"what was kept of 1 links is let go" in done.stderr
    if not form:
        last = json.loads(done.stdout.splitlines()[-1])
        assert last == {"checked": 59, "links_let_go": 1, "problems": 1}
    assert lace("store", "check", path, *form).returncode == 0
    with SqliteStore(path) as store:
        assert store.links() == []
        Meeting((store, there), (EVERYTHING, EVERYTHING)).end()
        assert store.count() == 60


def test_forget_asks_before_it_does(path: Path) -> None:
    done = lace("store", "forget", path, "//g//drafts//")
    assert json.loads(done.stdout) == {"forgotten": False, "left": 3, "records": 3}
    done = lace("store", "forget", path, "//g//drafts//", "--table")
    assert b"3 of 6 records would be forgotten" in done.stdout
    with SqliteStore(path) as store:
        assert store.count() == 6
    done = lace("store", "forget", path, "//g//drafts//", "--yes", "--table")
    assert b"3 records forgotten, 3 left" in done.stdout
    with SqliteStore(path) as store:
        assert store.count() == 3


def test_what_is_forgotten_comes_back_only_if_it_may(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path) as store:
        everything = b"".join(store.load(s.hash).raw for s in store.read(StoreRecordId(0), 9))  # type: ignore[union-attr]
    (tmp_path / "all.records").write_bytes(everything)
    lace("store", "forget", path, "//g//drafts//", "--yes")
    listed = [
        json.loads(line)["hash"] for line in lace("store", "forgotten", path).stdout.splitlines()
    ]
    assert len(listed) == 3
    assert json.loads(lace("store", "info", path).stdout)["forgotten"] == 3
    done = lace("import", tmp_path / "all.records", "--lace", path)
    assert (done.returncode, done.stderr) == (
        0,
        b"0 new, 3 here already, 3 forgotten here for good\n",
    )
    here = json.loads(lace("list", "--lace", path, "--all").stdout.splitlines()[0])["hash"]
    for words, code in (
        (("S.x",), 2), (("P.zzzzz",), 6), ((here,), 6), ((), 2), ((listed[0], "--all"), 2),
        ((listed[0], "none"), 2),
    ):  # fmt: skip
        assert lace("store", "remember", path, *words).returncode == code
    monkeypatch.setenv("COLUMNS", "40")
    head, short, *_ = lace("store", "forgotten", path, "--table").stdout.decode().splitlines()
    assert (head, len(short), listed[0].startswith(short)) == ("Hash", 10, True)
    done = lace("store", "remember", path, short, "--table")
    assert done.stdout == b"1 may come back, 2 are still forgotten\n"
    done = lace("import", tmp_path / "all.records", "--lace", path)
    assert done.stderr == b"1 new, 3 here already, 2 forgotten here for good\n"
    assert json.loads(lace("store", "remember", path, "--all").stdout) == {
        "forgotten": 0,
        "remembered": 2,
    }
    lace("store", "forget", path, "//g//drafts//", "--yes", "--may-return")
    assert lace("store", "forgotten", path).stdout == b""
    done = lace("import", tmp_path / "all.records", "--lace", path)
    assert done.stderr == b"3 new, 3 here already\n"


def test_a_lace_is_named_by_its_folder_too(tmp_path: Path) -> None:
    assert lace("init", "notes", "--select", "//g//a//", cwd=tmp_path).returncode == 0
    place = ("//g//a//n", "--unsigned", "--text", "x", "--lace", "notes")
    assert lace("add", *place, cwd=tmp_path).returncode == 0
    for words in (("info", "notes"), ("check", "notes"), ("info", "notes/lace.toml")):
        done = lace("store", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert b"1" in done.stdout + done.stderr
    done = lace("store", "forget", "notes", "//g//a//", "--yes", cwd=tmp_path)
    assert json.loads(done.stdout) == {"forgotten": True, "left": 0, "records": 1}
    (tmp_path / "empty").mkdir()
    done = lace("store", "info", "empty", cwd=tmp_path)
    assert done.returncode == 2
    assert b"empty is no lace: it has no lace.toml" in done.stderr


def test_the_lace_is_named_as_everywhere_or_is_the_one_you_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LACE", raising=False)
    assert lace("init", "notes", "--select", "//g//a//", cwd=tmp_path).returncode == 0
    place = ("//g//a//n", "--unsigned", "--text", "x", "--lace", "notes")
    assert lace("add", *place, cwd=tmp_path).returncode == 0
    would = {"forgotten": False, "left": 0, "records": 1}
    for words in (
        ("--lace", "notes", "//g//a//"),
        ("//g//a//", "--lace", "notes"),
        ("notes", "//g//a//"),
    ):
        assert json.loads(lace("store", "forget", *words, cwd=tmp_path).stdout) == would
    here = tmp_path / "notes"
    assert json.loads(lace("store", "forget", "//g//a//", cwd=here).stdout) == would
    assert json.loads(lace("store", "info", cwd=here).stdout)["records"] == 1
    assert json.loads(lace("store", "info", "--lace", "notes", cwd=tmp_path).stdout)["records"] == 1
    assert b"1 records checked" in lace("store", "check", cwd=here).stderr
    nowhere = lace("store", "info", cwd=tmp_path)
    assert (nowhere.returncode, b"there is no lace here" in nowhere.stderr) == (2, True)
    twice = lace("store", "info", "notes", "--lace", "notes", cwd=tmp_path)
    assert (twice.returncode, b"named twice" in twice.stderr) == (2, True)
    monkeypatch.setenv("LACE", str(tmp_path / "elsewhere"))
    assert lace("store", "info", "notes", cwd=tmp_path).returncode == 0  # what is said goes first
    many = lace("store", "forget", "a", "b", "//g//a//", cwd=tmp_path)
    assert (many.returncode, b"one SELECTOR" in many.stderr) == (2, True)


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    for command in ("info", "check"):
        done = lace("store", command, tmp_path / "nothing")
        assert done.returncode == 2
        assert b"nothing does not exist [settings.missing]" in done.stderr
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "other").write_bytes(b"hello" * 1000)
    assert b"store.corrupt" in lace("store", "check", tmp_path / "other").stderr
    assert lace("store", "forget", tmp_path / "other", "nonsense").returncode == 2
