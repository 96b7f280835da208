"""Backups: the store of one moment while others write, and back again only where nothing is."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from command import lace_inside as lace
from wires import notes

import lace as api
from lace import blocking
from lace.errors import StoreError, UsageError
from lace.recordstore.sqlite import SqliteStore

PREFIX = "//g//notes//"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert lace("init", "n", "--select", PREFIX, cwd=tmp_path).returncode == 0
    with api.open(tmp_path / "n", records=notes(50)):
        pass
    return tmp_path / "n"


def test_a_backup_is_a_store_and_is_restored_whole(folder: Path) -> None:
    done = lace("backup", "../b.lace", cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"50 records in ../b.lace\n")
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith((".b", "b"))] == [
        "b.lace"
    ]
    assert lace("store", "check", "b.lace", cwd=folder.parent).returncode == 0
    again = lace("backup", "../b.lace", cwd=folder)
    assert (again.returncode, b"exists already" in again.stderr) == (2, True)
    assert lace("backup", "../b.lace", "--force", cwd=folder).returncode == 0
    new = lace("restore", "b.lace", "new", cwd=folder.parent)
    assert new.returncode == 0, new.stderr
    with api.open(folder.parent / "new") as local:
        assert blocking.count(local, PREFIX) == 50
    (folder / "records.lace").unlink()
    assert lace("restore", "b.lace", "n", cwd=folder.parent).returncode == 0
    with api.open(folder) as local:
        assert blocking.count(local) == 50  # the settings stayed
        blocking.store(local, notes(1, start=900))  # and it can be written


def test_a_lace_that_is_in_use_can_be_restored_from(folder: Path) -> None:
    """What was stored last stands in a file beside its store, and must not be left behind."""
    with api.open(folder) as local:
        blocking.store(local, notes(5, start=900))
        assert lace("restore", "n", "copy", cwd=folder.parent).returncode == 0
    with api.open(folder.parent / "copy") as local:
        assert blocking.count(local, PREFIX) == 55


def test_a_backup_is_for_its_owner_alone(folder: Path) -> None:
    for words in (("backup", "b.lace", "--lace", "n"), ("restore", "b.lace", "new")):
        assert lace(*words, cwd=folder.parent).returncode == 0
    for name in ("b.lace", "new/records.lace"):
        assert (folder.parent / name).stat().st_mode & 0o777 == 0o600


def test_nothing_is_replaced_and_nothing_broken_is_restored(folder: Path) -> None:
    assert lace("backup", "../b.lace", cwd=folder).returncode == 0
    there = lace("restore", "../b.lace", ".", cwd=folder)
    assert (there.returncode, b"has 50 records already" in there.stderr) == (2, True)
    assert b"lace sync ../b.lace --lace ." in there.stderr
    gone = lace("store", "forget", str(notes(1)[0].place), "--yes", "--may-return", cwd=folder)
    assert json.loads(gone.stdout)["records"] == 1
    assert lace("sync", "../b.lace", "--lace", ".", cwd=folder).returncode == 0
    assert json.loads(lace("store", "info", cwd=folder).stdout)["records"] == 50
    content = bytearray((folder.parent / "b.lace").read_bytes())
    at = content.index(b"Data-Length")
    content[at : at + 4] = b"XXXX"
    (folder.parent / "bad.lace").write_bytes(content)
    bad = lace("restore", "bad.lace", "other", cwd=folder.parent)
    assert bad.returncode == 1
    assert b"was not restored" in bad.stderr
    assert not (folder.parent / "other").exists()
    (folder.parent / "text").write_text("no store")
    (folder.parent / "empty").mkdir()
    nowhere = lace("backup", "no/b.lace", "--lace", "n", cwd=folder.parent)
    assert (nowhere.returncode, b"[store.open]" in nowhere.stderr) == (1, True)
    no_lace = lace("restore", "empty", "other", cwd=folder.parent)
    assert (no_lace.returncode, b"empty is no lace" in no_lace.stderr) == (2, True)
    for broken in ("text", "bad.lace"):
        told = lace("restore", broken, "other", cwd=folder.parent)
        assert (told.returncode, b"Take an older backup" in told.stderr) == (1, True)
    missing = lace("restore", "missing", "other", cwd=folder.parent)
    assert (missing.returncode, b"there is no missing" in missing.stderr) == (2, True)
    assert not (folder.parent / "other").exists()


def test_a_backup_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    """Each batch is whole in it or not there, however many come while it is made."""
    with SqliteStore(tmp_path / "s.lace") as store:
        store.save(notes(500))
        stop = threading.Event()

        def write() -> None:
            number = 1000
            with SqliteStore(tmp_path / "s.lace") as writer:
                while not stop.is_set():
                    writer.save(notes(7, start=number))
                    number += 7

        writing = threading.Thread(target=write)
        writing.start()
        try:
            for number in range(5):
                count = store.back_up(tmp_path / f"{number}.lace")
                with SqliteStore(tmp_path / f"{number}.lace", read_only=True) as copy:
                    assert copy.count() == count
                    assert (count - 500) % 7 == 0
                    assert list(copy.check()) == []
        finally:
            stop.set()
            writing.join()


def test_in_python_progress_is_told_and_memory_has_no_backup(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with api.open(tmp_path / "s.lace", records=notes(20)) as local:
        assert (
            blocking.backup(local, tmp_path / "b.lace", listen=lambda *far: told.append(far)) == 20
        )
        assert told[-1][0] == told[-1][1] > 0
        with pytest.raises(StoreError):
            blocking.backup(local, tmp_path / "no" / "where.lace")
    with api.open() as local, pytest.raises(UsageError, match="in memory"):
        blocking.backup(local, tmp_path / "m.lace")
