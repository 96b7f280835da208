"""``lace lake shell``: questions from a pipe and from a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command import lace_inside
from rooms import PREFIX, room_records

from lace.lake.peer import LakeStore
from lace.lake.tables import Lake
from lace.limits import LAKE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(20, seed=3)
COUNT = len({record.hash for record in RECORDS})
_PATIENCE = 120  # seconds


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lake = Lake.open(None, str(tmp_path / "x.lake"), create=True)
    LakeStore(lake, label="a").save(RECORDS)
    return tmp_path


def shell(home: Path, text: str | bytes, *options: str) -> tuple[int, list[str], str]:
    done = lace_inside("lake", "shell", "x.lake", *options, stdin=text, cwd=home)
    return done.returncode, done.stdout.decode().splitlines(), done.stderr.decode()


def test_a_pipe_is_answered_line_by_line(home: Path) -> None:
    code, lines, err = shell(
        home,
        "info\n# a comment\n\nSELECT count(*) AS n FROM records;\n"
        'sql SELECT count(*) AS n \\\n  FROM wide\nsql --csv "SELECT 1 AS x"\n'
        f"select {PREFIX} --count\nhistory\n\\q\nnobody reads this\n",
    )
    assert (code, err) == (0, "")
    assert json.loads(lines[0])["records"] == COUNT
    assert lines[1:3] == [f'{{"n":{COUNT}}}'] * 2
    assert lines[3:5] == ["x", "1"]
    assert 0 < int(lines[5]) < COUNT
    assert [line.split()[0] for line in lines[6:]] == ["1", "2", "3", "4", "5", "6"]
    assert lines[7] == "    2  SELECT count(*) AS n FROM records;"
    for text, form in (
        ("WITH a AS (SELECT 1 AS x) SELECT x FROM a", "--csv"),
        ("help\n", "--json"),
    ):
        code, lines, err = shell(home, text, form)
        assert (code, err, len(lines)) == (0, "", 2 if form == "--csv" else 7)
    code, lines, _ = shell(home, "help sql")
    assert (code, "--engine" in "\n".join(lines)) == (0, True)


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("SELECT nothing FROM wide", 1, "[lake.job]"),
        ("upside down", 2, "nobody knows 'upside'"),
        ("select //a//b// --sideways", 2, "No such option"),
        (f"why {PREFIX} S.{'x' * 42}0.H3", 6, ""),
        (f"why {PREFIX} S.x", 2, "'S.x' is not a record hash"),
        ("select 'open", 2, "No closing quotation"),
        (b"\xff", 2, "no UTF-8"),
        (b"x" * (LAKE.shell_line_bytes + 1), 2, "a line is longer"),
    ],
)
def test_in_a_pipe_an_error_ends_it(home: Path, text: str | bytes, code: int, what: str) -> None:
    raw = text.encode() if isinstance(text, str) else text
    found, lines, err = shell(home, b"history\n" + raw + b"\nhistory\n")
    assert (found, what in err, "Traceback" in err) == (code, True, False)
    assert lines[0] == "    1  history"
    assert not any("2  " in line[:8] for line in lines)


def test_there_must_be_a_lake(tmp_path: Path) -> None:
    code, lines, err = shell(tmp_path, "info\n")
    assert (code, lines, "[lake.absent]" in err) == (1, [], True)


def test_on_a_terminal_errors_do_not_end_it(home: Path) -> None:
    process, terminal = pty.fork()  # a terminal of its own, so that Ctrl-C reaches it
    if not process:
        os.chdir(home)
        os.environ |= {"NO_COLOR": "1", "TERM": "dumb"}
        words = ["-m", "lace", "lake", "shell", "x.lake", "--json"]
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606
    said = b""

    def has_come(sign: bytes, seconds: float) -> bool:
        nonlocal said
        end = time.monotonic() + seconds
        while sign not in said:
            left = max(0.0, end - time.monotonic())
            if not select.select([terminal], [], [], left)[0]:
                return False
            said += os.read(terminal, 4096)
        said = said.partition(sign)[2]
        return True

    def press(keys: bytes, sign: bytes) -> None:
        os.write(terminal, keys)
        assert has_come(sign, _PATIENCE), said

    try:
        assert has_come(b"lake> ", _PATIENCE), said
        press(b"SELECT nothing FROM wide\n", b"[lake.job]")
        press(b"", b"lake> ")
        press(b"upside down\n", b"nobody knows")
        press(b"", b"lake> ")
        press(b"taken back", b"taken back")
        # Python may miss a Ctrl-C that comes before it waits for the next key: one presses again.
        for _ in range(_PATIENCE // 5):
            os.write(terminal, b"\x03")
            if has_come(b"lake> ", 5):
                break
        else:
            pytest.fail(f"Ctrl-C does nothing: {said!r}")
        press(b"SELECT count(*) AS n \\\n", b"... ")
        press(b"FROM records\n", b'{"n":%d}' % COUNT)
        press(b"", b"lake> ")
        os.write(terminal, b"\\q\n")
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    finally:
        os.close(terminal)


def test_the_session_is_kept(spark: SparkSession, home: Path) -> None:
    asked = 'sql --engine spark "SELECT upper(type) AS t, count(*) AS n FROM wide GROUP BY 1"\n'
    context = spark.sparkContext
    code, lines, err = shell(home, asked * 2)
    assert (code, err) == (0, "")
    assert sorted(lines[: len(lines) // 2]) == sorted(lines[len(lines) // 2 :])
    assert spark.sparkContext is context
    assert spark.getActiveSession() is spark
