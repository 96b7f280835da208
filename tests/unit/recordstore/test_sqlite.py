"""What can happen to a file: processes that die, disks that fill, files that are not ours."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path

import forge
import pytest
from effort import examples
from forks import fork
from hypothesis import given, settings
from hypothesis import strategies as st
from links import link_of
from small_limits import hold_to

from lace.errors import Code, Status, StoreError
from lace.record import build_blob, build_plex, seal
from lace.record.facts import facts, fields, links
from lace.record.model import Record
from lace.recordstore import MemoryStore, SqliteStore, StoreRecordId
from lace.recordstore import sqlite_file as module
from lace.recordstore.base import LinkChange, LinkMemory, StoredRecord
from lace.urc import Coordinate, parse_urc
from lace.vocabulary import FIELD, HAVE, RECORD_FACTS

RECORD_FACTS_BY_NAME = {predicate.name: predicate for predicate in RECORD_FACTS}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.lace"


def code_of(action: object) -> Code:
    with pytest.raises(StoreError) as caught:
        action()  # type: ignore[operator]
    assert caught.value.hint
    return caught.value.code


def test_a_store_lives_in_one_file_and_opens_again(path: Path) -> None:
    record = seal(build_plex(group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}"), forge.KEY)
    with SqliteStore(path) as store:
        store.save([record])
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]
    with SqliteStore(path) as store:
        assert store.load(record.hash) == record
        assert list(store.check()) == []
    assert schema_of(path) == module.VERSION


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_new_store_is_for_its_owner_alone_and_others_stay_as_they_are(path: Path) -> None:
    before = os.umask(0)
    try:
        with SqliteStore(path) as store:
            store.save([build_blob(b"1")])
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
            assert f"{path.name}-wal" in modes
            assert set(modes.values()) == {0o600}
        old = path.with_name("old.lace")
        old_store(old, 1)
        old.chmod(0o640)
        with SqliteStore(old):  # brought up to date
            assert stat.S_IMODE(old.stat().st_mode) == 0o640
    finally:
        os.umask(before)


def write_until_killed(path: Path, acknowledged: int, seed: int) -> None:
    """Save batches for ever, and say what was acknowledged through a pipe."""
    store = SqliteStore(path)
    chance = random.Random(seed)
    number = 0
    while True:
        batch = []
        for _ in range(chance.randint(1, 20)):
            number += 1
            data = b"%d-%d" % (seed, number)
            extras = [("Tag", f"{number}")]
            batch.append(
                build_plex(
                    group="g",
                    app="a",
                    name="n",
                    tai=f"{number:010d}:{0:09d}",
                    extras=extras,
                    data=data,
                )
            )
        store.save(batch)
        os.write(acknowledged, "".join(f"{r.hash}\n" for r in batch).encode())


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_process_killed_at_any_moment_loses_nothing_acknowledged(path: Path) -> None:
    chance = random.Random(11)
    SqliteStore(path).close()
    promised: set[str] = set()
    for seed in range(examples(200)):
        reader, writer = os.pipe()
        child = fork()
        if child == 0:  # pragma: no cover
            os.close(reader)
            try:
                write_until_killed(path, writer, seed)
            finally:
                os._exit(1)
        os.close(writer)
        time.sleep(chance.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as pipe:
            lines = pipe.read().split(b"\n")
        promised |= {line.decode() for line in lines[:-1]}  # a line cut short was no promise
    with SqliteStore(path) as store:
        stored = {s.hash for s in store.read(StoreRecordId(0), 10**9)}
        assert promised <= stored
        assert len(promised) > 20
        assert list(store.check()) == []  # whole records with all their facts, or nothing


def test_several_processes_and_threads_write_one_file(path: Path) -> None:
    SqliteStore(path).close()
    children = []
    for part in range(2):
        child = fork()
        if child == 0:  # pragma: no cover
            try:
                store = SqliteStore(path)
                for i in range(30):
                    store.save([build_blob(b"%d" % i), build_blob(b"%d-%d" % (part, i))])
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    with SqliteStore(path) as store:
        threads = [
            threading.Thread(
                target=lambda n=n: [store.save([build_blob(b"t%d-%d" % (n, i))]) for i in range(20)]
            )
            for n in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for child in children:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.count() == 30 + 60 + 40
        assert list(store.check()) == []


def test_a_full_disk_keeps_nothing_of_the_save_and_all_before_it(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save([build_blob(b"before")])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        batch = [build_blob(bytes(10_000) + b"%d" % i) for i in range(50)]
        assert code_of(lambda: store.save(batch)) is Code.STORE_FULL
        assert store.count() == 1
        store._connection.execute("PRAGMA max_page_count = 1000000")
        assert {o.status for o in store.save(batch)} == {Status.ACCEPTED}
        assert list(store.check()) == []


def schema_of(path: Path) -> int:
    with SqliteStore(path, read_only=True) as store:
        return store.schema


def test_what_may_only_be_read_is_read_from_a_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder in which nothing can be made; the copy is gone afterwards."""
    with SqliteStore(path) as store:
        store.save([build_blob(b"1")])
        monkeypatch.setattr(os, "access", lambda file, _: Path(file) not in {path, path.parent})
        with SqliteStore(path) as beside:  # the files that it needs are there
            assert beside.count() == 1
            assert beside._copy is None
    with SqliteStore(path) as store:
        assert store._copy is not None
        copy = Path(store._copy.name)
        assert copy.stat().st_mode & 0o777 == 0o700
        assert store.load(build_blob(b"1").hash) == build_blob(b"1")
        with store.snapshot() as snapshot:
            assert snapshot.high_water == 1
        assert list(store.check()) == []
        assert link_of(store, b"x") is None
        with pytest.raises(StoreError, match="no right to write this file"):
            store.save([build_blob(b"2")])
        assert sorted(p.name for p in path.parent.iterdir()) == [path.name]
    assert not copy.exists()


def test_a_store_that_is_written_while_it_is_copied_is_not_read_half(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path) as store:
        store.save([build_blob(b"1")])
    real = shutil.copyfile
    states = iter(range(100))

    def copied(source: Path, target: Path) -> None:
        real(source, target)
        os.utime(source, ns=(0, next(states)))

    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(shutil, "copyfile", copied)
    assert module.copy_to_read(path) is None
    monkeypatch.setattr(shutil, "copyfile", real)
    made = module.copy_to_read(path)
    assert made is not None
    made.cleanup()


def test_a_store_opened_for_reading(path: Path) -> None:
    assert code_of(lambda: SqliteStore(path, read_only=True)) is Code.STORE_OPEN
    with SqliteStore(path) as store:
        store.save([build_blob(b"1")])
    with SqliteStore(path, read_only=True) as store:
        assert store.count() == 1
        assert code_of(lambda: store.save([build_blob(b"2")])) is Code.STORE_READ_ONLY


def test_a_folder_that_is_not_there(path: Path) -> None:
    assert code_of(lambda: SqliteStore(path / "no" / "folder")) is Code.STORE_OPEN


def test_a_locked_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteStore(path) as other:
        other._connection.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
        with SqliteStore(path) as store:
            assert code_of(lambda: store.save([build_blob(b"1")])) is Code.STORE_LOCKED
            assert store.count() == 0  # reading goes on
            other._connection.execute("ROLLBACK")
            assert store.save([build_blob(b"1")])[0].status is Status.ACCEPTED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits a process of its own")
def test_a_disk_that_has_no_room_at_all_is_full(path: Path) -> None:
    """Not even the file that readers share can grow then; SQLite calls that a fault of it."""
    import resource

    with SqliteStore(path) as store:
        store.save([build_blob(b"before")])
    child = fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            SqliteStore(path).save([build_blob(b"more")])
        except StoreError as error:
            os._exit(0 if error.code is Code.STORE_FULL else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with SqliteStore(path) as store:
        assert store.count() == 1


def test_a_newer_engine_that_is_quicker_keeps_its_schema(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may bring the file along between the first look at it and the right to write it."""
    newer = module.VERSION + 1
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 1")
        writing = SqliteStore._writing

        def late(store: SqliteStore) -> AbstractContextManager[sqlite3.Connection]:
            other.execute(f"PRAGMA user_version = {newer}")
            return writing(store)

        monkeypatch.setattr(SqliteStore, "_writing", late)
        assert code_of(lambda: SqliteStore(path)) is Code.STORE_NEWER
        assert other.execute("PRAGMA user_version").fetchone()[0] == newer


def test_a_newer_schema_is_left_alone(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save([build_blob(b"1")])
        store._connection.execute(f"PRAGMA user_version = {module.VERSION + 1}")
    before = path.read_bytes()
    assert code_of(lambda: SqliteStore(path)) is Code.STORE_NEWER
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + bytes(5000)]
)
def test_a_file_that_is_no_store(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert code_of(lambda: SqliteStore(path)) is Code.STORE_CORRUPT
    assert path.read_bytes() == content


def test_another_programs_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    assert code_of(lambda: SqliteStore(path)) is Code.STORE_CORRUPT


def test_a_corrupt_page_is_found_and_reported(path: Path) -> None:
    with SqliteStore(path) as store:
        store.save([build_blob(bytes(3000) + b"%d" % i) for i in range(200)])
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8192] = b"\xff" * 8192
    path.write_bytes(content)
    with SqliteStore(path) as store:
        try:
            problems = list(store.check())
        except StoreError as error:
            assert error.code is Code.STORE_CORRUPT
        else:
            assert problems


def test_the_check_finds_what_was_tampered_with(path: Path) -> None:
    one, two = build_blob(b"1"), build_plex(group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}")
    with SqliteStore(path) as store:
        store.save([one, two])
        store._connection.execute(
            "UPDATE record SET raw = ? WHERE hash = ?", (forge.blob(b"2"), one.hash)
        )
        store._connection.execute("UPDATE place SET app = 'v'")
        problems = list(store.check())
    assert len(problems) == 2
    assert any(one.hash in problem for problem in problems)
    assert any("facts" in problem for problem in problems)


def test_a_record_whose_bytes_have_changed_is_put_aside_and_given_to_nobody(path: Path) -> None:
    tai = f"{1:010d}:{0:09d}"
    sealed = seal(
        build_plex(group="g", app="a", name="pay", tai=tai, data=b"pay bob 100"), forge.KEY
    )
    other = build_plex(group="g", app="a", name="other", tai=tai, extras=[("Tag", "t")])
    with SqliteStore(path) as store:
        store.save([sealed, other])
        forged = sealed.raw.replace(b"pay bob 100", b"pay eve 900")
        renamed = other.raw.replace(b"Name: other", b"Name: OTHER")
        store._connection.executemany(
            "UPDATE record SET raw = ? WHERE hash = ?",
            [(forged, sealed.hash), (renamed, other.hash)],
        )
    with SqliteStore(path, read_only=True) as store:
        assert store.load(sealed.hash) is None
        assert store.quarantined() == []  # it cannot be written
    with SqliteStore(path) as store:
        told: list[str] = []
        store.on_quarantine = told.append
        assert store.load(sealed.hash) is None
        with store.snapshot() as snapshot:
            assert snapshot.record(sealed.hash) is None
            assert list(snapshot.records([sealed.hash, other.hash])) == []
            assert list(snapshot.select(FIELD, {1: "Data-Length"})) == []
        assert told == [sealed.hash, other.hash]
        assert sorted(store.quarantined()) == sorted(told)
        assert not store.has(sealed.hash)
        assert sorted(store.forgotten(0) or ()) == sorted(told)  # exchanges follow
        assert len(list(store.check())) == 2  # and nothing else is wrong
        assert [outcome.status for outcome in store.save([sealed])] == [Status.ACCEPTED]
        assert store.load(sealed.hash) == sealed
        assert store.quarantined() == [other.hash]


def spoil(path: Path, hash: str) -> None:
    """Change the bytes of a record, as a bad disk does."""
    with closing(sqlite3.connect(path)) as file:
        raw = file.execute("SELECT raw FROM record WHERE hash = ?", (hash,)).fetchone()[0]
        bad = raw[:-1] + bytes([raw[-1] ^ 1])
        file.execute("UPDATE record SET raw = ? WHERE hash = ?", (bad, hash))
        file.commit()


def test_a_store_that_is_only_read_goes_on_without_a_record_that_has_changed(path: Path) -> None:
    """As if it were forgotten; whoever can write the file puts it aside, and it may come back."""
    records: list[Record] = [
        build_plex(group="g", app="a", name="n", tai=f"{i:010d}:{0:09d}", extras=[("K", "v")])
        for i in range(1, 4)
    ]
    records.append(build_blob(b"data"))
    hashes = [record.hash for record in records]
    place = parse_urc("//g//a//n")
    assert isinstance(place, Coordinate)
    with SqliteStore(path) as writes, SqliteStore(path, read_only=True) as store:
        writes.save(records)
        spoil(path, hashes[2])
        spoil(path, hashes[3])
        before = store.standing()
        quarantined: list[str] = []
        store.on_quarantine = quarantined.append
        assert store.load_all(hashes, 10**6) == [*records[:2], None, None]
        assert store.load(hashes[2]) is None
        assert quarantined == hashes[2:]
        left = set(hashes[:2])
        assert [store.has(hash) for hash in hashes] == [True, True, False, False]
        assert (store.count(), {one.hash for one in store.read(StoreRecordId(0), 9)}) == (2, left)
        assert store.versions(place, 9) == [hashes[1], hashes[0]]
        assert [hash for _, hash in store.tips(None)] == [hashes[1]]
        with store.snapshot() as snapshot:
            assert (snapshot.high_water, snapshot.forgets) == store.standing()
            assert snapshot.present(hashes) == left
            for names in (None, frozenset(("App",)), frozenset(("K",)), frozenset(("Type",))):
                assert {hash for batch in snapshot.fields(names, 9) for hash, _ in batch} == left
            assert {row[0] for row in snapshot.iterate(HAVE)} == left
            for bound in ({}, {1: "App"}, {1: "K"}, {1: "Type"}):
                assert {row[0] for row in snapshot.select(FIELD, bound)} == left
            assert {record.hash for record in snapshot.after(StoreRecordId(0), {})} == left
        assert store.standing() == (before[0], before[1] + 2)
        assert store.forgotten(before[1]) is None  # look at everything
        assert store.forgotten(before[1] + 2) == []
        assert store.kept_out(hashes) == set(hashes[2:])  # it could not be stored
        assert writes.load(hashes[2]) is None  # so that it is put aside
        writes.save([records[2]])
        assert store.load(hashes[2]) == records[2]
        assert store.has(hashes[2])
        assert store.versions(place, 9) == [hashes[2], hashes[1], hashes[0]]


def test_a_record_that_could_not_be_put_aside_is_replaced_when_it_comes_back(path: Path) -> None:
    record = build_blob(b"data")
    with SqliteStore(path) as store:
        store.save([record])
        spoil(path, record.hash)
        store._read_only = True  # as on a disk that is full
        assert store.load(record.hash) is None
        assert not store.has(record.hash)
        store._read_only = False
        assert store.kept_out([record.hash]) == set()
        assert store.save([record])[0].status is Status.ACCEPTED
        assert store.load(record.hash) == record


def test_what_stands_beside_bytes_that_have_changed_is_said_of_a_record(path: Path) -> None:
    signed = seal(
        build_plex(
            group="g",
            app="a",
            name="n",
            tai=f"{1:010d}:{0:09d}",
            extras=[("K", "v")] * 2,
            data=b"d",
        ),
        forge.KEY,
    )
    blob, sound = build_blob(b"data"), build_blob(b"sound")
    hashes = [signed.hash, blob.hash, sound.hash, build_blob(b"not here").hash]
    with SqliteStore(path) as store:
        store.save([signed, blob, sound])
        spoil(path, signed.hash)
        spoil(path, blob.hash)
        for names in (
            (), ("Type",), ("App", "Name", "Signed-By", "TAI"), ("K", "Type", "None"),
            ("App", "Signature"), ("Data-Length", "K"), None,
        ):  # fmt: skip
            with store.snapshot() as snapshot:
                found = dict(snapshot.beside(hashes, None if names is None else frozenset(names)))
            assert found == {r.hash: tuple(sorted(fields(r, names))) for r in (signed, blob)}
        store._connection.execute("UPDATE record SET raw = x'00' WHERE hash = ?", (signed.hash,))
        with store.snapshot() as snapshot:
            assert list(snapshot.beside([signed.hash], frozenset(("App",))))
            assert list(snapshot.beside([signed.hash], frozenset(("App", "Signature")))) == []


def test_a_record_whose_bytes_have_changed_can_be_forgotten(path: Path) -> None:
    record = build_plex(group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}")
    with SqliteStore(path) as store:
        store.save([record])
        store._connection.execute("UPDATE record SET raw = x'00'")
        assert store.forget([record.hash]) == 1
        assert list(store.check()) == []


def test_readers_do_not_wait_for_a_writer_who_waits(path: Path) -> None:
    record = build_blob(b"1")
    with SqliteStore(path) as store, closing(sqlite3.connect(path)) as other:
        store.save([record])
        other.execute("BEGIN IMMEDIATE")  # another process that takes its time
        writer = threading.Thread(target=store.save, args=([build_blob(b"2")],))
        writer.start()
        while not _is_taken(store._lock):
            time.sleep(0.001)
        assert store.load(record.hash) == record
        assert store.count() == store.high_water() == 1
        assert link_of(store, b"x") is None
        assert writer.is_alive()  # it still waits
        other.rollback()
        writer.join()
        assert store.count() == 2


def _is_taken(lock: object) -> bool:
    return repr(lock).startswith("<locked")


def test_the_log_is_brought_into_the_file_when_nobody_reads_what_was_before(path: Path) -> None:
    with SqliteStore(path) as store:
        with store.snapshot() as snapshot:
            store.save([build_blob(bytes(3_000_000))])
            assert snapshot.high_water == 0
            assert not store.checkpoint()
            assert store.log_bytes > 3_000_000
        assert store.checkpoint()
        assert store.log_bytes == 0
        assert store.count() == 1


def test_forgetting_frees_space(path: Path) -> None:
    blobs = [build_blob(bytes(50_000) + b"%d" % i) for i in range(40)]
    with SqliteStore(path) as store:
        store.save(blobs)
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.stat().st_size
        assert store.forget(b.hash for b in blobs[1:]) == 39
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < before / 5
        assert store.load(blobs[0].hash) == blobs[0]
        assert list(store.check()) == []


def test_a_snapshot_survives_forgetting_in_another_process(path: Path) -> None:
    blob = build_blob(b"1")
    with SqliteStore(path) as store:
        store.save([blob])
        with store.snapshot() as snapshot:
            child = fork()
            if child == 0:  # pragma: no cover
                try:
                    SqliteStore(path).forget([blob.hash])
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            assert not store.has(blob.hash)
            assert snapshot.count(HAVE) == 1


def old_store(path: Path, version: int) -> Record:
    """Make a file as an earlier version left it; first each field had a row, then extra ones."""
    extras = [("Reply+Link", f"x {build_blob(b'1').hash}"), ("Tag", "t"), ("Tag", "u")]
    record = build_plex(group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}", extras=extras)
    extra = {name for name, _ in extras}
    with closing(sqlite3.connect(path)) as connection:
        for script in module.MIGRATIONS[:version]:
            connection.executescript(script)
        connection.execute("PRAGMA application_id = 0x4C616365")
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(
            "INSERT INTO record (hash, raw, inner) VALUES (?, ?, ?)",
            (record.hash, record.raw, record.blob_hash),
        )
        connection.execute(
            "INSERT INTO place VALUES ('g', 'a', 'n', ?, ?, NULL)", (record.tai, record.hash)
        )
        names = {name: number for number, (name, _, _) in enumerate(fields(record))}
        connection.executemany("INSERT INTO name (text, id) VALUES (?, ?)", names.items())
        connection.executemany(
            "INSERT INTO field (record, name, position, value) VALUES (1, ?, ?, ?)",
            [
                (names[name], index, value)
                for name, index, value in fields(record)
                if version < 3 or name in extra
            ],
        )
        connection.executemany(
            "INSERT INTO link (record, name, position, data, target) VALUES (1, ?, ?, ?, ?)",
            [(names[x.name], x.index, x.data, x.target) for x in links(record)],
        )
        if version >= 4:
            connection.execute("INSERT INTO link_memory VALUES (1, x'01', x'02', 1, 3)")
            connection.execute("INSERT INTO link_part VALUES (1, x'03', x'04')")
        connection.commit()
    return record


def facts_of(store: SqliteStore) -> list[tuple[str, ...]]:
    """Return all that a store says, however it is asked."""
    with store.snapshot() as snapshot:
        found = [(p.name, *row) for p in snapshot.predicates() for row in snapshot.iterate(p)]
        for fact in found:
            predicate, row = RECORD_FACTS_BY_NAME[fact[0]], fact[1:]
            assert snapshot.count(predicate) == sum(f[0] == fact[0] for f in found)
            for bound in (range(len(row)), *((column,) for column in range(len(row)))):
                asked = {column: row[column] for column in bound}
                expected = [
                    f[1:] for f in found
                    if f[0] == fact[0] and all(f[1:][c] == v for c, v in asked.items())
                ]  # fmt: skip
                assert sorted(snapshot.select(predicate, asked)) == sorted(expected)
    return sorted(found)


@pytest.mark.parametrize("version", range(1, module.VERSION))
def test_a_store_of_an_earlier_version_is_brought_up_to_date(path: Path, version: int) -> None:
    record = old_store(path, version)
    with SqliteStore(path) as store:
        assert store.load(record.hash) == record
        assert link_of(store, b"x") is None
        assert link_of(store, b"\1") is None  # it only saved work
        store.keep_link(b"x", LinkChange(b"head", {b"part": b"data"}))
        assert list(store.check()) == []
        assert facts_of(store) == sorted(facts(record))
        assert store.forget([record.hash]) == 1
        assert facts_of(store) == []
        assert list(store.check()) == []
    assert schema_of(path) == module.VERSION


def until(last: str, script: str) -> Iterator[str]:
    """Yield the statements of a script; die after one of them."""
    for statement in module.statements(script):
        yield statement
        if statement == last:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("version", [1, module.VERSION - 1])
def test_a_store_is_brought_up_to_date_also_after_a_process_died_of_it(
    path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = old_store(path, version)
    scripts = module.MIGRATIONS[version:]
    for last in [statement for script in scripts for statement in module.statements(script)]:
        child = fork()
        if child == 0:  # pragma: no cover
            monkeypatch.setattr("lace.recordstore.sqlite.statements", partial(until, last))
            try:
                SqliteStore(path)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert schema_of(path) == version
    with SqliteStore(path, read_only=True) as store:
        assert facts_of(store) == sorted(facts(record))
    with SqliteStore(path) as store:
        assert facts_of(store) == sorted(facts(record))
        assert list(store.check()) == []


def test_looking_for_extra_fields_costs_in_proportion_to_the_records(path: Path) -> None:
    steps: list[int] = []
    with SqliteStore(path) as store:
        for begin, end in ((0, 500), (500, 2000)):
            store.save(
                build_plex(
                    group="g", app="a", name=f"{n}", tai=f"{1:010d}:{0:09d}",
                    extras=[("Tag", f"{n}")],
                )
                for n in range(begin, end)
            )  # fmt: skip
            steps.append(0)

            def count() -> None:
                steps[-1] += 1

            with store.snapshot() as snapshot:
                snapshot._connection.set_progress_handler(count, 100)
                batches = list(snapshot.fields(frozenset(("App", "Tag")), 100))
            assert sum(map(len, batches)) == end
    assert steps[1] < 5 * steps[0]  # of four times as many


@pytest.mark.parametrize("rows", [2, 3, 64])
@settings(deadline=None, max_examples=examples(40))
@given(data=st.data())
def test_how_many_rows_a_statement_inserts_does_not_show(rows: int, data: st.DataObject) -> None:
    known = [
        *(build_blob(b"%d" % n) for n in range(3)),
        *(
            build_plex(
                group="g", app="a", name=f"{n}", tai=f"{1:010d}:{0:09d}", data=bytes(n * 10),
                extras=[("A+Link", f"x {build_blob(b'1').hash}"), ("Tag", "t"), ("Tag", f"{n}")],
            )
            for n in range(6)
        ),
    ]  # fmt: skip
    batches = data.draw(st.lists(st.lists(st.sampled_from(known), max_size=9), max_size=4))
    out = data.draw(st.sets(st.sampled_from(known), max_size=2))
    patch = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder, patch.context() as changed:
        changed.setattr("lace.recordstore.sqlite_rows._ROWS", rows)
        changed.setattr(
            "lace.recordstore.sqlite_rows._LARGE", data.draw(st.sampled_from([300, 9999]))
        )
        with SqliteStore(Path(folder, "s")) as store, MemoryStore() as plain:
            told: list[StoredRecord] = []
            store.subscribe(told.extend)
            for one in (store, plain):
                one.forget([record.hash for record in out], for_good=True)
            for batch in batches:
                before = store.high_water()
                found, expected = store.save(batch), plain.save(batch)
                assert [(o.status, o.value) for o in found] == [
                    (o.status, o.value) for o in expected
                ]
                assert all(stored.id > before for stored in store.read(before, 99))
                newest = store.read(StoreRecordId(0), 99)
                assert store.high_water() == max((s.id for s in newest), default=0)
            assert store.read(StoreRecordId(0), 99) == told
            order = [stored.hash for stored in plain.read(StoreRecordId(0), 99)]
            assert [stored.hash for stored in told] == order
            assert list(store.check()) == []
            facts_of(store)
            assert store.forget(order) == len(order)
            assert facts_of(store) == []
            assert list(store.check()) == []
            left = "SELECT (SELECT count(*) FROM field) + (SELECT count(*) FROM link)"
            assert store._one(left, ()) == (0,)


@pytest.mark.parametrize("version", range(1, module.VERSION))
def test_a_store_of_an_earlier_version_can_be_read_without_changing_it(
    path: Path, version: int
) -> None:
    record = old_store(path, version)
    with SqliteStore(path, read_only=True) as store:
        assert list(store.check()) == []
        assert (store.high_water(), store.forgets(), store.forgotten(0)) == (1, 0, [])
        assert link_of(store, b"x") is None
        kept = store.link(b"\1")
        assert (kept is not None) == (version >= 4)
        if kept is not None:
            assert (kept.head, dict(kept.parts)) == (b"\2", {b"\3": b"\4"})
            kept.close()
        assert facts_of(store) == sorted(facts(record))
    assert schema_of(path) == version


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE place SET tai = 'x'", "UPDATE place SET signed_by = 'V.x'", "DELETE FROM place",
        "INSERT INTO place SELECT 'h', app, name, tai, hash, NULL FROM place",
        "UPDATE field SET value = 'x'", "DELETE FROM field", "UPDATE field SET record = 9",
        "INSERT INTO field SELECT name, 'y', record, position FROM field",
        "INSERT INTO link SELECT 'y', record, name, position, data FROM link",
        "UPDATE link SET data = 'y'", "UPDATE link SET record = 9", "UPDATE link SET position = 1",
        "UPDATE record SET inner = 'x'", "UPDATE link SET target = 'x'", "DELETE FROM link",
    ],
)  # fmt: skip
def test_what_stands_beside_a_record_is_checked_against_its_bytes(path: Path, damage: str) -> None:
    blob = build_blob(b"1")
    record = build_plex(
        group="g", app="a", name="n", tai=f"{1:010d}:{0:09d}",
        extras=[("Reply+Link", f"x {blob.hash}")],
    )  # fmt: skip
    with SqliteStore(path) as store:
        store.save([blob, record])
        assert list(store.check()) == []
        store._connection.execute("PRAGMA foreign_keys = OFF")
        store._connection.execute(damage)
        assert list(store.check()) != []


@pytest.mark.parametrize("copied", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_not_the_one_that_was_opened_takes_nothing(path: Path, copied: bool) -> None:
    """What is written to a file without a name is gone with the process."""
    first, second = (
        build_plex(group="g", app="a", name=name, tai="1700000000:000000000") for name in "ab"
    )
    with SqliteStore(path) as store:
        store.save([first])
        kept = path.with_suffix(".copy")
        store.back_up(kept)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        if copied:
            kept.rename(path)
        for attempt in (lambda: store.save([second]), store.snapshot, store.check_identity):
            with pytest.raises(StoreError) as caught:
                attempt()
            assert caught.value.code is Code.STORE_REPLACED
    if copied:
        with SqliteStore(path) as store:
            assert store.has(first.hash)


@settings(deadline=None, max_examples=examples(30))
@given(
    changes=st.lists(
        st.tuples(
            st.dictionaries(st.binary(min_size=1, max_size=2), st.binary(max_size=9), max_size=9),
            st.frozensets(st.binary(min_size=1, max_size=2), max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    together=st.sampled_from([1, 3, 64]),
    large=st.sampled_from([3, 99]),
)
def test_how_parts_of_a_link_are_read_and_written_does_not_show(
    changes: list[tuple[dict[bytes, bytes], frozenset[bytes]]],
    together: int,
    large: int,
) -> None:
    expected: dict[bytes, bytes] = {}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("lace.recordstore.sqlite_snapshot._NAMES_AT_ONCE", together)
        patch.setattr("lace.recordstore.sqlite_rows._ROWS", 2)
        patch.setattr("lace.recordstore.sqlite_rows._LARGE", large)
        with SqliteStore(Path(folder, "s")) as store:
            base = None
            for number, (put, named) in enumerate(changes):
                gone = named - put.keys()
                head = b"%d" % number
                store.keep_link(b"x", LinkChange(head, put, gone, base))
                base = head
                expected = {n: d for n, d in (expected | put).items() if n not in gone}
                found = store.link(b"x")
                assert found is not None
                names = sorted({*expected, *named, b"none"})
                assert found.some(names) == expected
                for name in names:
                    assert found.parts.get(name) == expected.get(name)
                    assert found.parts.get(name, b"?") == expected.get(name, b"?")
                    assert (name in found.parts) == (name in expected)
                assert dict(found.parts) == dict(found.parts.items()) == expected
                assert len(found.parts) == len(expected)
                found.close()
            assert list(store.check()) == []
            store.drop_link(b"x", base or b"")
            assert link_of(store, b"x") is None
            assert store._one("SELECT count(*) FROM link_part", ()) == (0,)


def test_parts_that_were_left_behind_come_to_no_other_link(path: Path) -> None:
    """An earlier version that still has the file open deletes a link and not its parts."""
    with SqliteStore(path) as store:
        store.keep_link(b"first", LinkChange(b"head", {b"a": b"1", b"b": b"2"}))
        with closing(sqlite3.connect(path)) as earlier, earlier:
            earlier.execute("DELETE FROM link_memory")
        store.keep_link(b"second", LinkChange(b"head", {b"c": b"3"}))
        kept = store.link(b"second")
        assert kept is not None
        assert dict(kept.parts) == {b"c": b"3"}
        kept.close()
        assert list(store.check()) == []


def test_a_link_that_an_earlier_version_keeps_anew_has_no_parts_of_before(path: Path) -> None:
    """It has the file open, deletes a link alone, and gives its number to the next one."""
    with SqliteStore(path) as store:
        store.keep_link(b"x", LinkChange(b"head", {b"a": b"1"}))
        with closing(sqlite3.connect(path)) as earlier, earlier:
            earlier.execute("DELETE FROM link_memory WHERE key = ?", (b"x",))
            made = "INSERT INTO link_memory (key, head, used, bytes) VALUES (?, ?, 0, 0)"
            number = earlier.execute(made, (b"x", b"next")).lastrowid
            earlier.execute("INSERT INTO link_part VALUES (?, ?, ?)", (number, b"b", b"2"))
        kept = store.link(b"x")
        assert kept is not None
        assert (kept.head, dict(kept.parts)) == (b"next", {b"b": b"2"})
        kept.close()
        assert list(store.check()) == []


def test_a_part_of_no_link_is_found(path: Path) -> None:
    with SqliteStore(path) as store:
        store.keep_link(b"x", LinkChange(b"head", {b"part": b"data"}))
        assert list(store.check()) == []
        store._connection.execute("INSERT INTO link_part VALUES (99, x'03', x'04')")
        assert list(store.check()) == ["file: a row of link_part belongs to nothing"]


def used_of(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as file:
        return [used for (used,) in file.execute("SELECT used FROM link_memory ORDER BY key")]


def test_that_a_link_is_used_is_noted_rarely_and_waits_for_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(path) as store:
        for key in (b"a", b"b"):
            store.keep_link(key, LinkChange(b"head", {}))
        first = used_of(path)
        assert first[0] < first[1]
        assert link_of(store, b"a") == LinkMemory(b"head", {})
        assert used_of(path) == first
        later = first[1] + 2 * 3600 * 10**9
        monkeypatch.setattr("lace.recordstore.sqlite_links.unix_ns", lambda: later)
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert link_of(store, b"a") == LinkMemory(b"head", {})
            other.execute("ROLLBACK")
        assert used_of(path) == first
        assert link_of(store, b"a") == LinkMemory(b"head", {})
        assert used_of(path) == [later, first[1]]
        store.save([build_blob(b"1")])  # it can wait as before


@pytest.mark.parametrize("column", ["used", "bytes"])
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_a_link_with_a_number_that_is_none_stands_in_nobodys_way(
    path: Path, column: str, value: int
) -> None:
    with SqliteStore(path) as store:
        for key in (b"a", b"b"):
            store.keep_link(key, LinkChange(b"head", {b"x": b"text"}))
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"UPDATE link_memory SET {column} = ? WHERE key = x'61'", (value,))
            other.commit()
        assert store.keep_link(b"b", LinkChange(b"new", {b"x": b"texts"}, base=b"head"))
        store.drop_link(b"b", b"new")
        assert link_of(store, b"b") is None
        assert store.keep_link(b"c", LinkChange(b"head", {}))
        assert store.keep_link(b"a", LinkChange(b"new", {}))
        assert link_of(store, b"a") == LinkMemory(b"new", {})


def test_a_time_of_use_that_is_to_come_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a link whose row is damaged would be kept for ever."""
    hold_to(monkeypatch, links=2)
    with SqliteStore(path) as store:
        for key in (b"a", b"b"):
            store.keep_link(key, LinkChange(b"head", {}))
        with closing(sqlite3.connect(path)) as other:
            other.execute("UPDATE link_memory SET used = ? WHERE key = x'62'", (2**62,))
            other.commit()
        store.keep_link(b"c", LinkChange(b"head", {}))
        assert [key for key in (b"a", b"b", b"c") if link_of(store, key)] == [b"a", b"c"]


def test_what_is_dropped_where_it_cannot_be_removed_is_not_returned_again(path: Path) -> None:
    with SqliteStore(path) as store:
        store.keep_link(b"a", LinkChange(b"head", {}))
        with SqliteStore(path, read_only=True) as reads:
            kept = reads.link(b"a")
            assert kept is not None
            assert kept.lasts
            kept.close()
            assert code_of(lambda: reads.drop_link(b"a", b"head")) == Code.STORE_READ_ONLY
            assert link_of(reads, b"a") is None
            store.keep_link(b"a", LinkChange(b"another", {}))
            assert link_of(reads, b"a") == LinkMemory(b"another", {})
