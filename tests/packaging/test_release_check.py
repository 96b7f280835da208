"""The release check sees what is wrong, and tries the wheel and no other copy of Lace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import release_check
from packages import ROOT, Built

pytestmark = pytest.mark.long


def test_a_step_is_one_line_and_each_fault_another(capsys: pytest.CaptureFixture[str]) -> None:
    report = release_check.Report()
    report.step("all is well", [])
    assert report.failures == 0
    report.step("all is well too", ["one thing", "another"])
    assert report.failures == 1
    assert capsys.readouterr().out == (
        "ok  all is well\nNO  all is well too\n    one thing\n    another\n"
    )


def test_the_wheel_is_what_its_environment_imports(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    python = release_check.install(built.wheel, tmp_path / "env")
    assert release_check.imported(python, tmp_path) == []
    (fault,) = release_check.imported(Path(sys.executable), tmp_path)
    assert "the tests would import" in fault


def test_a_file_that_is_no_wheel_ends_the_check(tmp_path: Path) -> None:
    broken = tmp_path / "lace_engine-0.1.0-py3-none-any.whl"
    broken.write_bytes(b"no archive")
    with pytest.raises(release_check.Failed, match="cannot be installed"):
        release_check.install(broken, tmp_path / "env")


@pytest.mark.parametrize(
    ("holds", "said", "faults"), [("True", "1 passed", False), ("False", "1 failed", True)]
)
def test_tests_that_fail_are_told(tmp_path: Path, holds: str, said: str, faults: bool) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(f"def test_x():\n    assert {holds}\n")
    told, found = release_check.quick_tests(Path(sys.executable), tmp_path)
    assert told.startswith(said)
    assert bool(found) is faults


def test_a_tree_without_tests_is_told(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    told, found = release_check.quick_tests(Path(sys.executable), tmp_path)
    assert found
    assert "no tests ran" in told


def test_a_release_leaves_files_for_later_versions_to_open(tmp_path: Path) -> None:
    assert release_check.golden_faults(release_check.GOLDEN) == []
    (fault,) = release_check.golden_faults(tmp_path)
    assert fault.endswith("run make golden")
