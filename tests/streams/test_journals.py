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
from lace.serving.watching import read_token
from lace.workbench.live import Live
from lace.workbench.retold import retold

NOTES = "//g//notes//"
KEY = SigningKey(b"\x31" * 32)
OTHER = SigningKey(b"\x32" * 32)
STORY = (
    "What really happened, from the journal of one side. What it said is shown as arrived. "
    "Records are those that travelled."
)


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


@pytest.mark.parametrize(
    ("here", "there"), [(3, 0), (0, 3), (400, 0), (0, 400), (0, 0), (300, 400)]
)
@pytest.mark.parametrize("accepts", [False, True])
def test_an_exchange_that_ended_well_is_retold_so_whoever_gave(
    tmp_path: Path, here: int, there: int, accepts: bool
) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(notes(here))
    words = ["n.lace", "tcp:127.0.0.1:0", "--select", NOTES, "--journal", "journals"]
    words += ["--watch", "0", "--watch-token", "token"]
    words += ["--accept", "anyone"] if accepts else []
    ended = []
    with process(tmp_path, *words) as server:
        live = Live(server.wait_for("watch")[0]["address"], read_token(tmp_path / "token"))
        for number in (1, 2):  # the second one begins from what the link remembers
            with lace.open(tmp_path / "c.lace", records=notes(there, start=50), key=OTHER) as local:
                blocking.sync(local, str(server.address), NOTES, journal=tmp_path / f"{number}")
            server.wait_for("closed", number)
            ended.append(live.recording(f"exchange-{number}"))
    journals = sorted((tmp_path / "journals").iterdir())
    for path in (*journals, tmp_path / "1", tmp_path / "2"):
        replayed(path)
        ended.append(retold(path.read_text().splitlines(), "Again"))
    assert [one["scenes"][0]["stopped"]["outcome"] for one in ended] == ["fixed point"] * 6
    assert {one["scenario"]["story"] for one in ended} == {STORY}


def test_a_journal_is_whole_while_its_exchange_stays_open(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace") as store:
        store.save(notes(2))
    words = ("n.lace", "tcp:127.0.0.1:0", "--select", NOTES, "--journal", "journals")

    async def test(address: str) -> None:
        async with lace.open() as local, lace.open_interlace(local, address, NOTES):
            await asyncio.to_thread(server.wait_for, "fixed-point")
            (path,) = (tmp_path / "journals").iterdir()
            made = retold(path.read_text().splitlines(), "So far")
            assert made["scenes"][0]["stopped"]["outcome"] == "fixed point"

    with process(tmp_path, *words) as server:
        asyncio.run(asyncio.wait_for(test(str(server.address)), 30))


def test_what_is_not_over_or_not_known_is_called_so(tmp_path: Path) -> None:
    with lace.open(records=notes(3), key=KEY) as one, lace.open(key=OTHER) as other:
        blocking.sync(one, other, NOTES, journal=tmp_path / "j")
    lines = (tmp_path / "j").read_text().splitlines()

    def stopped(lines: list[str]) -> list[str]:
        found = retold(lines, "So far")["scenes"][0]["stopped"]
        return [found["outcome"], found["sides"][0]["detail"]]

    assert stopped(lines)[0] == "fixed point"
    assert stopped(lines[:4]) == ["under way", "the journal goes no further"]
    changed = json.loads(lines[4]) | {"effects": []}
    assert stopped([*lines[:4], json.dumps(changed), *lines[5:]]) == [
        "not known",
        "From line 5 on this engine does something else.",
    ]
    assert stopped([*lines[:4], lines[4][:20]])[0] == "not known"


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


def test_a_journal_is_as_long_as_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = JournalFile(path, most=25)
    for _ in range(5):
        journal.write("🖧🖧\n")  # three characters, and nine bytes
    journal.close()
    assert path.read_bytes() == "🖧🖧\n🖧🖧\n".encode()


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
