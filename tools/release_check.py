"""Build the packages of a release and try them, one line a step; nothing leaves this machine.

The tests run from the unpacked sdist, on the installed wheel: neither can lean on the working copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path

import packages
from lace._version import __version__
from packages import ROOT, Built

DIST = ROOT / "dist"
# As make test-quick runs them.
QUICK_TESTS = (
    "--numprocesses", "auto", "--dist", "loadgroup", "--ignore", "tests/lake",
    "--ignore", "tests/browser", "-m", "not spark and not browser and not slow and not long",
)  # fmt: skip
_TAIL_LINES = 40
FRAGMENTS = ROOT / "changes"
GOLDEN = ROOT / "tests" / "data" / "golden"
NOT_YET = """
Left to do by hand, because changes/ still has fragments: this commit is no release.
  1. Set the version X.Y.Z in src/lace/_version.py.
  2. Gather the fragments: python -m towncrier build --version X.Y.Z
  3. Make the golden files: make golden
  4. Commit all of it, and run this again.
"""
BY_HAND = f"""
Left to do by hand for version {__version__}:
  1. Tag this commit: git tag v{__version__}
  2. Upload: python -m twine upload dist/lace_engine-{__version__}*
"""


class Failed(Exception):
    """A step that the others need did not succeed."""


class Report:
    """Says how each step went, and remembers whether one did not succeed."""

    def __init__(self) -> None:
        self.failures = 0

    def step(self, what: str, faults: Iterable[str]) -> None:
        """Print one line for a step, and one for each fault."""
        found = list(faults)
        print(f"{'NO ' if found else 'ok '} {what}", flush=True)
        for fault in found:
            print(f"    {fault}", flush=True)
        self.failures += bool(found)


def main() -> int:
    report = Report()
    report.step("everything is committed", uncommitted())
    report.step("later versions have files of this one to open", golden_faults(GOLDEN))
    try:
        with tempfile.TemporaryDirectory(prefix="lace-release-") as name:
            check(report, Path(name))
    except (Failed, RuntimeError) as error:
        report.step("the check ended early", [str(error)])
    if report.failures:
        print(f"\n{report.failures} steps did not succeed: this is no release yet.")
        return 1
    print(NOT_YET if any(FRAGMENTS.glob("[0-9]*.md")) else BY_HAND)
    return 0


def check(report: Report, folder: Path) -> None:
    """Build, look, install, test; raise ``Failed`` where nothing further can be tried."""
    built = build()
    sizes = ", ".join(f"{x.name} ({x.stat().st_size / 1e6:.1f} MB)" for x in vars(built).values())
    report.step(f"built into dist: {sizes}", [])
    tracked = packages.tracked_files()
    if tracked is None:
        raise Failed("git cannot say which files belong into the sdist")
    report.step("the wheel holds what users need and nothing else", packages.wheel_faults(built))
    faults = packages.sdist_faults(built.sdist, tracked, exactly=True)
    report.step("the sdist holds what git tracks", faults)
    report.step("the metadata is as promised", packages.metadata_faults(built.wheel))
    tree = packages.unpack(built.sdist, folder / "sdist")
    again = packages.build_wheel(folder / "again", tree)
    report.step("the sdist makes the same wheel", packages.wheel_differences(built.wheel, again))
    report.step("twine finds nothing wrong", twine(built))
    python = install(built.wheel, folder / "env")
    report.step("the wheel is installed, and is what the tests import", imported(python, folder))
    print("    the quick tests run: this takes some minutes", flush=True)
    said, faults = quick_tests(python, tree)
    report.step(f"the quick tests pass from the sdist, on the wheel: {said}", faults)


def uncommitted() -> list[str]:
    """Name what git would lose; a release is made of a commit."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return ["this is no checkout of git: a release is made of a commit"]
    status = _run([git, "status", "--porcelain"], ROOT)
    if status.returncode:
        return [f"git says: {status.stderr.strip()}"]
    return [f"commit or remove: {line[3:]}" for line in status.stdout.splitlines()]


def golden_faults(folder: Path) -> list[str]:
    """Say if the golden files of this version are missing."""
    missing = not (folder / __version__ / "manifest.json").is_file()
    return [f"there is no {folder / __version__}: run make golden"] if missing else []


def build() -> Built:
    """Build both packages into dist, in the place of older ones."""
    for old in DIST.glob(f"{packages.NAME}-*"):
        old.unlink()
    try:
        return packages.build(DIST)
    except RuntimeError as error:
        raise Failed(str(error)) from None


def twine(built: Built) -> list[str]:
    """Let twine judge what a registry would judge."""
    done = _run(
        [sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist], ROOT
    )
    if "No module named twine" in done.stderr:
        return ["twine is not installed: make release-check installs the group release first"]
    return [] if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel into a new environment that borrows all other packages from this one.

    Nothing is fetched. Only folders are borrowed: what leads this environment to the working copy
    does not count there.
    """
    done = _run([sys.executable, "-m", "venv", folder], ROOT)
    python = folder / "bin" / "python"
    if done.returncode == 0:
        offline = ("--quiet", "--no-index", "--no-deps")
        done = _run([python, "-m", "pip", "install", *offline, wheel], folder)
    if done.returncode:
        raise Failed(f"the wheel cannot be installed:\n{done.stdout}{done.stderr}")
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    where = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (where / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(paths)))
    wheels = Path(sys.prefix) / "wheels"
    if wheels.is_dir():  # the tests of the packages install from there
        (folder / "wheels").symlink_to(wheels)
    return python


def imported(python: Path, folder: Path) -> list[str]:
    """Make sure that no other copy of Lace gets in the way."""
    done = _run([python, "-c", "import lace; print(lace.__file__)"], folder)
    place = done.stdout.strip()
    if done.returncode == 0 and Path(place).is_relative_to(folder):
        return []
    return [f"the tests would import {place or done.stderr.strip()}"]


def quick_tests(python: Path, tree: Path) -> tuple[str, list[str]]:
    """Run the quick tests of a tree; return how many there were, and what failed."""
    done = _run([python, "-m", "pytest", "-q", *QUICK_TESTS], tree)
    told = done.stdout.splitlines()
    said = told[-1].strip("= ") if told else "nothing was run"
    return said, [] if done.returncode == 0 else told[-_TAIL_LINES:] + done.stderr.splitlines()


def _run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    # Where PYTHONPATH leads to a copy of Lace, that copy would be tried instead.
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
