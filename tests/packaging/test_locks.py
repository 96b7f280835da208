"""The pins agree with each other and with what the project asks for, and can be installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import lock

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEELS = Path(sys.prefix) / "wheels"
LOCKS = sorted(lock.LOCKS)
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(path: Path) -> Iterator[tuple[Requirement, int]]:
    """Yield each pin of a file with the number of its digests."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield Requirement(line.partition(" --hash")[0].strip()), len(_HASH.findall(line))


def pins(path: Path) -> dict[str, set[str]]:
    """Return the versions of each package; more than one where markers tell them apart."""
    found: dict[str, set[str]] = {}
    for requirement, _ in entries(path):
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not exact"
        assert "*" not in specifier.version
        found.setdefault(canonicalize_name(requirement.name), set()).add(specifier.version)
    return found


def unmet(requirements: Iterable[str], pinned: dict[str, set[str]]) -> list[str]:
    """Return the requirements that no pin satisfies; those on the project itself say nothing."""
    wanted = [Requirement(text) for text in requirements]
    return [
        str(requirement)
        for requirement in wanted
        if canonicalize_name(requirement.name) != PROJECT["project"]["name"]
        and not any(
            requirement.specifier.contains(version, prereleases=True)
            for version in pinned.get(canonicalize_name(requirement.name), ())
        )
    ]


def base_requirements() -> list[str]:
    return list(PROJECT["project"]["dependencies"])


def all_requirements() -> list[str]:
    extras: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
    return base_requirements() + [text for extra in extras.values() for text in extra]


def development_requirements() -> list[str]:
    groups: dict[str, list[Any]] = PROJECT["dependency-groups"]
    grouped = [text for group in groups.values() for text in group if isinstance(text, str)]
    return [*grouped, *PROJECT["build-system"]["requires"], *lock.SET_UP]


def test_every_requirement_of_the_project_has_a_pin_that_satisfies_it() -> None:
    constraints = pins(lock.CONSTRAINTS)
    assert unmet(all_requirements() + development_requirements(), constraints) == [], (
        "run make lock"
    )
    assert unmet(base_requirements(), pins(ROOT / "locks" / "base.txt")) == [], "run make lock"
    assert unmet(all_requirements(), pins(ROOT / "locks" / "all.txt")) == [], "run make lock"


def test_a_requirement_without_a_pin_would_be_seen() -> None:
    assert unmet(["a>=2", "b", "C_d<3"], {"a": {"1.9"}, "c-d": {"2.9"}}) == ["a>=2", "b"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_locks_have_the_versions_of_the_constraints(path: Path) -> None:
    constraints = pins(lock.CONSTRAINTS)
    for name, versions in pins(path).items():
        assert versions <= constraints[name], f"{name}: run make lock"


def test_what_the_base_needs_is_part_of_what_all_needs() -> None:
    base, everything = (pins(ROOT / "locks" / name) for name in ("base.txt", "all.txt"))
    assert base.keys() <= everything.keys()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_of_a_lock_has_digests(path: Path) -> None:
    found = list(entries(path))
    assert len(found) > 5
    for requirement, digests in found:
        assert digests >= 1, requirement.name


@pytest.mark.parametrize("path", [lock.CONSTRAINTS, *LOCKS], ids=lambda path: path.name)
def test_no_file_names_a_place_on_the_network_or_on_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert not re.search(r"(?m)^\s*(-i|-f|--(extra-)?index|--find-links)", text)
    assert not re.search(r"(^|\s)/\w", text)
    assert "make lock" in text.splitlines()[0] + text.splitlines()[2], "it says how to renew it"


def test_a_marker_is_kept_only_where_versions_differ() -> None:
    lines = ["a==1 ; python_version < '3.12'", "b==1 ; os == 'x'", "b==2 ; os != 'x'", "c==3"]
    assert lock.without_needless_markers(lines) == "\n".join(["a==1", *lines[1:]]) + "\n"


@pytest.mark.slow
def test_the_base_lock_installs_without_a_network_and_is_all_that_lace_needs(
    tmp_path: Path,
) -> None:
    assert WHEELS.is_dir(), f"{WHEELS} is not there: make test makes it, with the wheels to install"
    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clean], check=True)
    python = clean / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "--python"]
    done = subprocess.run(
        [
            *pip, python, "install", "--quiet", "--no-index", "--find-links", WHEELS,
            "--only-binary", ":all:", "--require-hashes", "-r", ROOT / "locks" / "base.txt",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        [*pip, python, "list", "--format=json"], capture_output=True, text=True, check=True
    )
    installed = {(canonicalize_name(a["name"]), a["version"]) for a in json.loads(listed.stdout)}
    wanted = {
        (canonicalize_name(requirement.name), next(iter(requirement.specifier)).version)
        for requirement, _ in entries(ROOT / "locks" / "base.txt")
        if requirement.marker is None or requirement.marker.evaluate()
    }
    assert installed == wanted

    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "LACE_KEYRING": str(tmp_path / "keyring.toml"),
    }

    def lace(*words: str) -> str:
        ran = subprocess.run(
            [str(python), "-m", "lace", *words],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (words, ran.stderr)
        return ran.stdout

    lace("keyring", "new", "alice")
    for name in ("one", "two"):
        lace("init", name, "--key", "alice", "--select", "//notes-demo//notes//")
    lace("add", "//notes-demo//notes/message//1", "--text", "Hi", "--lace", "one")
    lace("sync", "one", "--lace", "two")
    (record,) = lace("list", "--lace", "two").splitlines()
    assert json.loads(record)["place"] == "//notes-demo//notes/message//1"
