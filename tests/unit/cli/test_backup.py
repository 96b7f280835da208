"""Backups: the store of one moment while others write, and back again only where nothing is."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen

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


def sound(path: Path) -> int:
    """Return how many records a store has that has no fault."""
    with SqliteStore(path, read_only=True) as copy:
        assert list(copy.check()) == []
        return copy.count()


KILLED = """
import os, sys
from pathlib import Path
from lace.recordstore.sqlite import SqliteStore

def listen(written, of):
    print("written", flush=True)
    sys.stdin.readline()

with SqliteStore(Path(sys.argv[1])) as store:
    store.back_up(Path(sys.argv[2]), listen)
"""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Popen[bytes]]:
    """Return another process that has written a part of its backup into b.lace."""
    with SqliteStore(tmp_path / "s.lace") as store:
        store.save(notes(5000))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "s.lace"), str(tmp_path / "b.lace")]
    with Popen(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.name != "posix", reason="locks are those of POSIX")
@pytest.mark.parametrize("killed", [False, True])
def test_two_backups_at_once_make_one_whole_store(
    tmp_path: Path, slow: Popen[bytes], killed: bool
) -> None:
    target = tmp_path / "b.lace"
    with SqliteStore(tmp_path / "s.lace") as store:
        assert store.back_up(target) == 5000
        assert sound(target) == 5000
        if killed:
            slow.kill()
        else:
            slow.communicate(b"\n" * 100, timeout=60)
            assert slow.returncode == 0
        slow.wait(10)
        assert sound(target) == 5000
        assert store.back_up(target) == 5000  # takes away what the killed one left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.lace", "s.lace"]


def test_what_another_store_left_beside_its_file_is_no_part_of_a_backup(tmp_path: Path) -> None:
    target = tmp_path / "b.lace"
    with SqliteStore(tmp_path / "other.lace") as other, SqliteStore(tmp_path / "s.lace") as store:
        other.save(notes(200))
        for name in ("", "-wal"):  # as a process leaves it that is killed
            shutil.copy(tmp_path / f"other.lace{name}", tmp_path / f"b.lace{name}")
        store.save(notes(50, start=900))
        target.unlink()
        with pytest.raises(UsageError, match=r"b\.lace-wal exists already"):
            store.back_up(target, overwrite=False)
        assert store.back_up(target) == 50
        assert sound(target) == 50


def test_the_journal_of_another_database_is_not_rolled_back_into_a_backup(tmp_path: Path) -> None:
    target = tmp_path / "b.lace"
    with closing(sqlite3.connect(tmp_path / "other", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("PRAGMA cache_size = 1")
        other.execute("CREATE TABLE t (a)")
        other.executemany("INSERT INTO t VALUES (?)", [(bytes(900),)] * 50)
        other.execute("BEGIN")
        other.execute("UPDATE t SET a = zeroblob(800)")
        for name in ("", "-journal"):  # as a process leaves it that is killed
            shutil.copy(tmp_path / f"other{name}", tmp_path / f"b.lace{name}")
    with SqliteStore(tmp_path / "s.lace") as store:
        store.save(notes(50))
        assert store.back_up(target) == 50
    assert sound(target) == 50


def test_a_store_is_no_backup_of_itself(folder: Path) -> None:
    done = lace("backup", "records.lace", "--force", cwd=folder)
    assert (done.returncode, b"[store.open]" in done.stderr) == (1, True)
    assert sound(folder / "records.lace") == 50


@pytest.mark.skipif(os.name != "posix", reason="links are those of POSIX")
def test_a_backup_replaces_a_link_and_not_what_is_behind_it(folder: Path) -> None:
    behind, link = folder.parent / "monday.lace", folder.parent / "b.lace"
    behind.write_bytes(b"of monday")
    link.symlink_to(behind)
    assert lace("backup", "../b.lace", cwd=folder).returncode == 2
    assert lace("backup", "../b.lace", "--force", cwd=folder).returncode == 0
    assert (behind.read_bytes(), link.is_symlink(), sound(link)) == (b"of monday", False, 50)


@pytest.mark.skipif(os.name != "posix", reason="pipes with names are those of POSIX")
def test_a_backup_goes_into_files_alone_and_where_one_may_write(folder: Path) -> None:
    os.mkfifo(folder.parent / "pipe")
    for name in ("pipe", "n", "n/lace.toml/b.lace"):
        done = lace("backup", name, "--force", "--lace", "n", cwd=folder.parent)
        assert (done.returncode, b"[store.open]" in done.stderr) == (1, True), name
    assert (folder.parent / "pipe").is_fifo()
