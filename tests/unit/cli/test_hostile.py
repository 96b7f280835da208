"""Shells, pipes and disks at their worst: no traceback, no secret, the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forge
import pytest
from command import lace

from lace.recordstore import SqliteStore

SECRET = forge.KEY.reveal()


def shell(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which ``lace`` is this project's command."""
    line = f'lace() {{ "{sys.executable}" -m lace "$@"; }}; {script}'
    return subprocess.run(
        ["bash", "-c", line],  # noqa: S607
        cwd=folder, env=os.environ | environment, capture_output=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("lace check - <&-", {0}),
        ("lace key show - <&-", {2}),
        ("lace plumb key derive <&-", {0}),
        ("lace plumb key new >&-", {0, 1}),
        ("lace --version >&-", {0, 1}),
        ("lace demo > /dev/full", {1}),
        ("lace --help > /dev/full", {1}),
        ("lace --version > /dev/full", {1}),
        ("lace --version | true; exit ${PIPESTATUS[0]}", {0}),
        ("lace record make //a//b//c --text $'\\xff' -o /dev/null --force", {0}),
        ("lace policy show //a//b// -f $'A=\\xff'", {2}),
        ("lace plumb advert list --records /dev/null --source $'a\\nb' --all-fields", {2}),
        ("lace check .", {2}),
        ("lace record show .", {2}),
        ("lace store info .", {2}),
        ("lace store info /dev/null", {1}),
        ("lace key show /dev/null", {2}),
        ("(ulimit -f 0; lace key new full.key); test ! -e full.key", {0}),
    ],
)
def test_no_tracebacks(tmp_path: Path, script: str, codes: set[int]) -> None:
    done = shell(script, tmp_path)
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode in codes, (done.returncode, done.stderr)


def test_any_encoding_of_the_terminal_will_do(tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(forge.seal())
    done = shell("lace record verify --all note", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


@pytest.mark.req("009-SIG-07")
@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "make", "//a//b//c", "--key", SECRET),
        ("key", "show", SECRET),
        ("record", "make", "//a//b//c", "-f", SECRET),
        ("record", "make", SECRET),
        ("check", "secret"),
        ("policy", "show", SECRET),
        ("plumb", "urc", "parse"),
        (SECRET,),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    done = lace(*arguments, cwd=tmp_path, stdin=SECRET)
    assert done.returncode != 0
    assert SECRET[2:-3].encode() not in done.stdout + done.stderr


def test_a_text_that_is_too_long_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("# x\n" * 300_000)
    done = lace("check", "rules", cwd=tmp_path)
    assert done.returncode == 1
    assert b"lacegram.too-long" in done.stderr


def test_forgetting_creates_no_store(tmp_path: Path) -> None:
    done = lace("store", "forget", tmp_path / "typo", "//a//b//", "--yes")
    assert done.returncode == 2
    assert not (tmp_path / "typo").exists()


def test_a_check_is_not_confused_by_those_who_write_meanwhile(tmp_path: Path) -> None:
    from lace.record import build_blob

    path = tmp_path / "s"
    with SqliteStore(path) as store, SqliteStore(path) as other:
        store.save([build_blob(b"%d" % i) for i in range(5)])
        checking = store.check()
        problems = []
        other.save([build_blob(b"new")])
        problems += list(checking)
        assert problems == []
