"""The check on a bare machine tells a fault of the project from one of the system it is tried on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import check_bare
from bare_debian import BareDebian, NotMadeError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that ran in the system; the one that contains ``bad`` fails."""
    ran: list[str] = []

    def runner(_folder: Path, suite: str, python: str) -> check_bare.Run:
        if suite == "broken":
            raise NotMadeError("its Python or pip does not work")
        ran.append(f"{suite} {python}")

        def run(command: Sequence[str]) -> int:
            ran.append(" ".join(command))
            return int("bad" in command)

        return run

    monkeypatch.setattr(check_bare, "runner_in_debian", runner)
    return ran


def check(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["check_bare.py", *arguments])
    return check_bare.main()


def test_commands_run_in_turn_until_one_fails(
    monkeypatch: pytest.MonkeyPatch, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code = check(
        monkeypatch, "--debian", "sid", "--python", "python3.14", "--run", "make demo",
        "--run", "make bad", "--then", "make lint",
    )  # fmt: skip
    assert code == 1
    assert asked == ["sid python3.14", "make demo", "make bad"]
    assert "make bad failed on a bare machine" in capsys.readouterr().out


def test_the_commands_of_the_readme_are_the_default(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    assert check(monkeypatch, "--debian", "trixie", "--then", "make lint") == 0
    assert asked == ["trixie python3", "make demo", "make test", "make lint"]


def test_a_broken_system_is_reported_loudly_and_is_no_fault_of_the_project(
    monkeypatch: pytest.MonkeyPatch, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(monkeypatch, "--debian", "broken") == 0
    assert asked == []
    printed = capsys.readouterr().out
    assert "!! NOT CHECKED in a minimal Debian broken: its Python or pip does not work" in printed


def test_a_user_who_is_not_root_learns_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotMadeError, match="only root can make one"):
        BareDebian(tmp_path / "sid").make("sid", "python3")
    assert not (tmp_path / "sid").exists()


def test_a_step_that_fails_says_what_it_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "I: Retrieving\nE: No such suite\n")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/sbin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(
        NotMadeError, match=r"debootstrap .* failed:\nI: Retrieving\nE: No such suite"
    ):
        BareDebian(tmp_path / "sid").make("sid", "python3")
