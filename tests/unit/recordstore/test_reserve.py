"""Records can be forgotten on a full disk: a store keeps room for that while little is free."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import lace_inside as lace
from forks import fork
from wires import notes

import lace as api
from lace import blocking
from lace.errors import Code, StoreError
from lace.record import build_plex
from lace.record.model import Record
from lace.recordstore import sqlite_reserve
from lace.recordstore.sqlite import SqliteStore
from lace.recordstore.sqlite_reserve import Reserve
from lace.tai import Tai

ROOMY = 1 << 20
Disk = namedtuple("Disk", "total used free")  # noqa: PYI024 (as shutil has it)
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="limits a process of its own")


def large(count: int, size: int = 3000) -> list[Record]:
    tai = Tai("1700000000:000000000")
    return [
        build_plex(group="g", app="a", name=f"n/{i}", tai=tai, data=os.urandom(size))
        for i in range(count)
    ]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Return what the disk says of itself, to be changed."""
    said = {"total": 100 * ROOMY, "free": ROOMY}
    monkeypatch.setattr(
        sqlite_reserve.shutil,  # type: ignore[attr-defined]
        "disk_usage",
        lambda _path: Disk(said["total"], said["total"] - said["free"], said["free"]),
    )
    return said


def test_the_reserve_is_there_while_little_is_free(tmp_path: Path, disk: dict[str, int]) -> None:
    reserve = Reserve(tmp_path / "s.lace", size=50_000, below=ROOMY)
    assert reserve.keep()
    assert not reserve.path.exists()
    disk["free"] -= 1
    assert reserve.keep()
    assert reserve.path.stat().st_size == 50_000
    assert reserve.path.stat().st_blocks * 512 >= 50_000  # it does hold room
    assert reserve.keep()
    disk["free"] += 1
    assert reserve.keep()
    assert list(tmp_path.iterdir()) == []
    disk.update(total=40_000, free=100_000)
    assert reserve.keep()
    assert reserve.path.stat().st_size == 10_000  # of a small disk it takes a small part
    assert reserve.is_needed()
    assert reserve.give_up()
    assert list(tmp_path.iterdir()) == []
    assert not reserve.give_up()


def test_nothing_is_stored_in_what_is_kept_for_forgetting(
    tmp_path: Path, disk: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(tmp_path / "s.lace", size=50_000, below=ROOMY + 1)
    with SqliteStore(tmp_path / "s.lace", reserve=reserve) as store:
        given = notes(3)
        store.save(given)
        assert reserve.path.exists()
        reserve.path.unlink()

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no room")

        monkeypatch.setattr(sqlite_reserve, "_fill", full)
        with pytest.raises(StoreError, match="kept for forgetting") as caught:
            store.save(notes(1, start=900))
        assert caught.value.code is Code.STORE_FULL
        assert reserve.path.stat().st_size == 0
        assert store.forget([given[0].hash]) == 1
        disk["free"] += ROOMY
        store.save(notes(1, start=900))
        assert store.count() == 3


@pytest.mark.usefixtures("disk")
def test_a_file_that_holds_something_is_no_reserve(tmp_path: Path) -> None:
    other = tmp_path / "s.lace-reserve"
    with SqliteStore(other, reserve=Reserve(other, size=0, below=0)) as store:
        store.save(notes(3))
    content = other.read_bytes()
    size = len(content)
    for below in (ROOMY, ROOMY + 1):  # with room, and with little
        reserve = Reserve(tmp_path / "s.lace", size=2 * size, below=below)
        with SqliteStore(tmp_path / "s.lace", reserve=reserve) as store:
            given = notes(1, start=below)
            store.save(given)
            assert store.forget([given[0].hash]) == 1
        assert not reserve.give_up()
        assert other.read_bytes() == content


@POSIX
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_no_reserve(tmp_path: Path, disk: dict[str, int], kind: str) -> None:
    reserve = Reserve(tmp_path / "s.lace", size=50_000, below=ROOMY + 1)
    behind = tmp_path / "behind"
    behind.write_bytes(bytes(10))
    if kind == "link":
        reserve.path.symlink_to(behind)
    elif kind == "pipe":
        os.mkfifo(reserve.path)
        reader = os.open(reserve.path, os.O_RDONLY | os.O_NONBLOCK)
    else:
        reserve.path.mkdir()
    assert reserve.keep()  # without one, that is
    assert not reserve.give_up()
    disk["free"] += 1
    assert reserve.keep()
    assert os.path.lexists(reserve.path)
    assert behind.stat().st_size == 10
    if kind == "pipe":
        os.close(reader)


@POSIX
@pytest.mark.usefixtures("disk")
def test_who_may_write_to_a_store_sees_that_its_reserve_holds_nothing(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "s.lace", size=50_000, below=ROOMY + 1)
    before = os.umask(0o077)
    try:
        assert reserve.keep()
    finally:
        os.umask(before)
    assert reserve.path.stat().st_mode & 0o777 == 0o644


class _Limit(Reserve):
    """Room under a limit of the system, for a process of its own."""

    def __init__(self, store: Path, room: int) -> None:
        super().__init__(store)
        self.room = room

    def keep(self) -> bool:
        return True

    def is_needed(self) -> bool:
        return self.room % 2 == 0  # also where the disk does not say so

    def give_up(self) -> bool:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, self.room))
        return self.room > 0


@POSIX
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("room", [0, 200_000, 200_001])
def test_forgetting_takes_the_reserve_where_there_is_no_room(
    tmp_path: Path, is_open: bool, room: int
) -> None:
    import resource

    path, given = tmp_path / "s.lace", large(20)
    with SqliteStore(path) as store:
        store.save(given)
        pages = path.stat().st_size + store.log_bytes
    assert pages < 200_000
    reserved = room > 0
    child = fork()
    if child == 0:
        try:
            reserve = _Limit(path, room)
            opened = SqliteStore(path, reserve=reserve) if is_open else None
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
            store = SqliteStore(path, reserve=reserve) if opened is None else opened
            gone = store.forget([record.hash for record in given[:12]], for_good=True)
            os._exit(0 if reserved and gone == 12 else 1)
        except StoreError as error:
            os._exit(0 if not reserved and error.code is Code.STORE_FULL else 2)
        except BaseException:  # noqa: BLE001 (a child never goes on with the tests)
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with SqliteStore(path) as store:
        assert list(store.check()) == []
        assert store.count() == (8 if reserved else 20)
        assert len(store.all_kept_out()) == (12 if reserved else 0)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 8 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
        pytest.skip("NOT TESTED on a disk that is really full: mounting one takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S607


def fill(path: Path) -> None:
    """Take all that is free on a disk."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


def store_all_that_fits(local: api.Lace, size: int) -> list[Record]:
    """Store records until that is refused; return those that were accepted."""
    accepted: list[Record] = []
    while True:
        given = large(1_000_000 // size, size)
        try:
            blocking.store(local, given)
        except StoreError as error:
            assert error.code is Code.STORE_FULL
            return accepted
        accepted += given


@pytest.mark.parametrize("size", [300, 30_000])
def test_a_full_disk_gets_room_by_forgetting(small: Path, size: int) -> None:
    with api.open(small / "n.lace") as local:
        accepted = store_all_that_fits(local, size)
        fill(small / "of others")
        for record in accepted[:5]:
            assert blocking.forget(local, f"////{record.hash}") == 1
    fill(small / "of others again")
    assert (small / "n.lace-reserve").exists()
    for record in accepted[5:8]:
        done = lace("store", "forget", f"////{record.hash}", "--yes", "--lace", "n.lace", cwd=small)
        assert done.returncode == 0, done.stderr
    with SqliteStore(small / "n.lace", read_only=True) as store:
        assert list(store.check()) == []
        assert store.count() == len(accepted) - 8
