from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lace.lake import java


def fake_java(folder: Path, version: str) -> Path:
    """Make a command that answers -version as a Java of that version does."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "java"
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("1.8.0_402", 8), ("21", 21), ("25-ea", 25)]
)
def test_versions(tmp_path: Path, version: str, major: int) -> None:
    assert java.java_version(str(fake_java(tmp_path, version))) == major


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.java_version(str(tmp_path / "java")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.system_java() is None


def test_java_home_goes_first_and_old_ones_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "home" / "bin", "21.0.1")
    path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.system_java() == str(home)
    fake_java(home.parent, "11.0.2")
    assert java.system_java() == str(path)
