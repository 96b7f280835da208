"""The packages hold what they must, say what is so, and come out the same from the sdist."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Environment
from packaging.requirements import Requirement

import packages
from hatch_metadata import without_relative_links
from packages import ROOT, Built


def test_the_wheel_holds_what_users_need_and_nothing_else(built: Built) -> None:
    assert packages.wheel_faults(built) == []
    names = packages.wheel_digests(built.wheel)
    assert not [name for name in names if "test" in name.partition("/")[0]]
    scenarios = {f"lace/scenario/files/{path.name}" for path in (ROOT / "scenarios").iterdir()}
    assert len(scenarios) > 5
    assert scenarios <= names.keys()


def test_the_sdist_holds_everything_that_git_knows(built: Built) -> None:
    """From an unpacked sdist there is no git to ask: then its own files stand for the list."""
    tracked = packages.tracked_files()
    if tracked is None:
        tracked = packages.sdist_files(built.sdist) | {
            path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")
        }
    assert len(tracked) > 300
    assert packages.sdist_faults(built.sdist, tracked) == []


def test_the_metadata_is_as_promised(built: Built) -> None:
    assert packages.metadata_faults(built.wheel) == []
    metadata = packages.read_metadata(built.wheel)
    versions = [f"Programming Language :: Python :: 3.{minor}" for minor in range(11, 16)]
    assert set(versions) <= set(metadata.get_all("Classifier", ()))
    assert metadata["Requires-Python"] == ">=3.11"
    # What is private in a dependency is used of the versions that have it.
    required = metadata.get_all("Requires-Dist", ())
    (library,) = (line for line in required if line.startswith("btclib-libsecp256k1"))
    assert "<0.8" in library


@pytest.mark.parametrize(
    ("python", "system", "machine", "compiled"),
    [
        ("3.11", "linux", "x86_64", {"blake3", "btclib-libsecp256k1", "unicodedata2"}),
        ("3.13", "win32", "ARM64", {"blake3", "btclib-libsecp256k1", "unicodedata2"}),
        ("3.14", "darwin", "arm64", {"blake3", "btclib-libsecp256k1"}),
        ("3.15", "linux", "aarch64", {"blake3", "btclib-libsecp256k1"}),
        ("3.15", "linux", "riscv64", {"blake3"}),
        ("3.15", "freebsd14", "amd64", set()),
        ("3.16", "linux", "x86_64", set()),
    ],
)
def test_nothing_is_required_that_has_to_be_compiled_first(
    built: Built, python: str, system: str, machine: str, compiled: set[str]
) -> None:
    """What has no wheels there is done without; extras do not count."""
    environment = {
        "python_version": python, "python_full_version": f"{python}.0", "sys_platform": system,
        "platform_machine": machine, "platform_python_implementation": "CPython", "extra": "",
    }  # fmt: skip
    lines = packages.read_metadata(built.wheel).get_all("Requires-Dist", ())
    required = {
        found.name
        for found in map(Requirement, lines)
        if found.marker is None or found.marker.evaluate(environment)
    }
    assert required == {"click", "rich", "websockets"} | compiled


def test_the_description_is_the_readme_without_links_to_files_beside_it(built: Built) -> None:
    described = str(packages.read_metadata(built.wheel).get_payload())
    assert "The tutorial builds the same room by hand" in " ".join(described.split())
    assert "docs/images" not in described


def test_links_stay_that_work_anywhere() -> None:
    text = "[a](docs/a.md#b) ![c](c.png) [d](https://d.example/e) [f](#f) [g](mailto:g@h.example)"
    assert without_relative_links(text) == (
        "a  [d](https://d.example/e) [f](#f) [g](mailto:g@h.example)"
    )


def test_pip_makes_the_same_wheel_from_the_sdist(
    built: Built, clean: Environment, tmp_path: Path
) -> None:
    """As whoever installs the sdist does: in an environment of its own, with the pinned builder."""
    clean.pip("wheel", "--no-deps", "--wheel-dir", tmp_path, built.sdist)
    (wheel,) = tmp_path.iterdir()
    assert wheel.name == built.wheel.name
    assert packages.wheel_differences(built.wheel, wheel) == []


# --- what is wrong would be seen ---


def changed(wheel: Path, folder: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """Return a copy of a wheel with other files in it."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    made = folder / wheel.name
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda files: files.pop("lace/py.typed"), "lacks lace/py.typed"),
        (lambda files: files.pop("lace/scenario/files/embargo.toml"), "lacks lace/scenario/files"),
        (lambda files: files.update({"tests/test_x.py": b""}), "holds tests/test_x.py"),
        (lambda files: files.update({"lace/x.orig": b""}), "holds lace/x.orig"),
        (lambda files: files.update({"lace/cli/big.py": bytes(2_000_001)}), "at most 2,000,000"),
    ],
)
def test_a_wrong_wheel_is_seen(
    built: Built, tmp_path: Path, change: Callable[[dict[str, bytes]], object], fault: str
) -> None:
    wheel = changed(built.wheel, tmp_path, change)
    assert any(fault in line for line in packages.wheel_faults(Built(wheel, built.sdist)))
    assert packages.wheel_differences(built.wheel, wheel) != []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "The tutorial builds",
            "[The tutorial](docs/tutorial.md) builds",
            "leads to docs/tutorial",
        ),
        (
            "Requires-Dist: click",
            "Requires-Dist: clack",
            "requires blake3, btclib-libsecp256k1, clack",
        ),
        ("Provides-Extra: polars", "Provides-Extra: bears", "the extras are all, arrow, bears"),
        ("extra == 'devcert'", "extra == 'lake'", "extra devcert requires nothing"),
        ("Homepage, https", "Homepage, http", "must begin with https"),
        ("Project-URL: Homepage", "X-URL: Homepage", "no address for Homepage"),
        ("text/markdown", "text/plain", "not Markdown"),
    ],
)
def test_wrong_metadata_is_seen(
    built: Built, tmp_path: Path, old: str, new: str, fault: str
) -> None:
    def change(files: dict[str, bytes]) -> None:
        (name,) = (name for name in files if name.endswith("METADATA"))
        text = files[name].decode()
        assert old in text
        files[name] = text.replace(old, new).encode()

    faults = packages.metadata_faults(changed(built.wheel, tmp_path, change))
    assert any(fault in line for line in faults), faults


def test_a_wrong_sdist_is_seen(built: Built, tmp_path: Path) -> None:
    tree = packages.unpack(built.sdist, tmp_path / "tree")
    (tree / "vectors" / "urc.json").unlink()
    (tree / "notes.key").touch()
    made = tmp_path / built.sdist.name
    with tarfile.open(made, "w:gz") as archive:
        archive.add(tree, arcname=tree.name)
    files = packages.sdist_files(built.sdist)
    faults = packages.sdist_faults(made, files, exactly=True)
    assert len(faults) == 2
    assert "lacks vectors/urc.json" in faults[0]
    assert "holds notes.key" in faults[1]
