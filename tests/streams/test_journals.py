"""Journals of real exchanges: they can be run again, hold no secret, and never replace anything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from command import lace as command
from servers import process
from wires import notes

import lace
from lace import blocking
from lace.crypto import SigningKey
from lace.driving.journal import JournalFile, replay
from lace.errors import UsageError
from lace.recordstore.sqlite import SqliteStore

NOTES = "//g//notes//"
KEY = SigningKey(b"\x31" * 32)
OTHER = SigningKey(b"\x32" * 32)


def replayed(path: Path) -> int:
    steps, difference = replay(path.read_text().splitlines())
    assert difference is None, difference
    return steps


def test_both_sides_of_an_exchange_over_a_stream_can_be_run_again(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(notes(30))
    (tmp_path / "server.key").touch(mode=0o600)
    (tmp_path / "server.key").write_text(KEY.reveal())
    words = (
        "n.lace",
        "tcp:127.0.0.1:0",
        "--select",
        NOTES,
        "--journal",
        "journals",
        "--key",
        "server.key",
    )
    with process(tmp_path, *words) as server:
        with lace.open(records=notes(20, start=20), key=OTHER) as local:
            peer = lace.connect(str(server.address), expected=KEY.verifier)
            result = blocking.sync(local, peer, NOTES, journal=tmp_path / "mine.jsonl")
            assert len(result.received) == 20
            with pytest.raises(UsageError, match="exists already"):
                blocking.sync(local, peer, NOTES, journal=tmp_path / "mine.jsonl")
        server.wait_for("closed")
        (line, *_) = server.wait_for("connected")
        assert line["level"] == "debug"
        assert line["date"].startswith("20")
    assert replayed(tmp_path / "mine.jsonl") > 5
    (theirs,) = (tmp_path / "journals").iterdir()
    assert replayed(theirs) > 5
    assert (tmp_path / "journals").stat().st_mode & 0o777 == 0o700
    for text in ((tmp_path / "mine.jsonl").read_text(), theirs.read_text()):
        assert KEY.reveal() not in text
        assert OTHER.reveal() not in text
    told = command("plumb", "journal", "replay", "mine.jsonl", cwd=tmp_path)
    assert json.loads(told.stdout)["ok"] is True


def test_two_laces_of_one_machine_keep_one_too(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 5)):
        assert command("init", name, "--select", NOTES, cwd=tmp_path).returncode == 0
        with lace.open(tmp_path / name, records=notes(10, start=first)):
            pass
    done = command("sync", "../b", "--journal", "j.jsonl", cwd=tmp_path / "a")
    assert done.returncode == 0, done.stderr
    assert replayed(tmp_path / "a" / "j.jsonl") > 3


def test_a_server_of_an_application_keeps_journals(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            lace.open(records=notes(3), key=KEY) as local,
            lace.serve(local, "tcp:127.0.0.1:0", policy=NOTES, journals=tmp_path / "j") as server,
            lace.open(key=OTHER) as other,
        ):
            await lace.sync(other, server.addresses[0], NOTES)

    asyncio.run(asyncio.wait_for(test(), 30))
    (path,) = (tmp_path / "j").iterdir()
    assert replayed(path) > 3
    (tmp_path / "file").touch()
    with lace.open() as local, pytest.raises(UsageError, match="cannot keep journals"):
        lace.serve(local, "tcp:127.0.0.1:0", policy=NOTES, journals=tmp_path / "file" / "j")


def test_a_journal_that_is_too_long_ends_at_a_whole_step(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = JournalFile(path, most=25)
    for number in range(5):
        journal.write(f"line {number:03d}\n")  # nine characters
    journal.close()
    journal.close()
    assert path.read_text() == "line 000\nline 001\n"
    journal.write("late\n")
    with pytest.raises(UsageError, match="cannot write"):
        JournalFile(tmp_path / "no" / "where")


def test_the_log_tells_only_what_is_important_enough(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(notes(1))
    words = ("n.lace", "tcp:127.0.0.1:0", "--select", NOTES, "--log-level", "info")
    with process(tmp_path, *words) as server, lace.open() as local:
        blocking.sync(local, str(server.address), NOTES)
        server.wait_for("fixed-point")
        assert server.stop() == 0
        assert not server.events("connected")
        assert server.events("stopped")[0]["level"] == "info"
