"""Files of other projects in the repository are the ones that their manifests describe."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "src" / "lace" / "workbench" / "static" / "vendor"
TESTS_ONLY = ROOT / "tests" / "browser" / "vendor"
FOLDERS = [SHIPPED, TESTS_ONLY]
PERMISSIVE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
# What only tests use never reaches a user, so that a licence that binds the file will do.
ALLOWED = {SHIPPED: PERMISSIVE, TESTS_ONLY: PERMISSIVE | {"MPL-2.0"}}


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def problems(folder: Path, wanted: dict[str, str], allowed: set[str]) -> list[str]:
    """Return how a folder differs from its manifest, and the manifest from what is wanted."""
    told = manifest(folder)
    files = {path.name: path for path in folder.iterdir() if path.name != "manifest.json"}
    found = [f"{name}: in the folder, not listed" for name in files.keys() - told["files"].keys()]
    found += [f"{name}: listed, not in the folder" for name in told["files"].keys() - files.keys()]
    for name in files.keys() & told["files"].keys():
        about = told["files"][name]
        if hashlib.sha256(files[name].read_bytes()).hexdigest() != about["sha256"]:
            found.append(f"{name}: other bytes")
        missing = set(about["packages"]) - told["packages"].keys()
        found += [f"{name}: made from {package}, of which nothing is said" for package in missing]
    for name, about in told["packages"].items():
        if wanted.get(name) != about["version"]:
            found.append(
                f"{name}: {about['version']}, but web/package.json says {wanted.get(name)}"
            )
        if about["licence"] not in allowed:
            found.append(f"{name}: licence {about['licence']} is not allowed here")
    return sorted(found)


def pinned() -> dict[str, str]:
    package = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    versions: dict[str, str] = package["dependencies"] | package["devDependencies"]
    return versions


@pytest.mark.parametrize("folder", FOLDERS, ids=["shipped", "tests"])
def test_a_folder_is_what_its_manifest_says(folder: Path) -> None:
    assert problems(folder, pinned(), ALLOWED[folder]) == [], "run python web/vendor.py"


@pytest.mark.parametrize("folder", FOLDERS, ids=["shipped", "tests"])
def test_every_script_names_its_packages_and_every_package_its_licence(folder: Path) -> None:
    told = manifest(folder)
    (licences,) = (path.read_text(encoding="utf-8") for path in folder.glob("LICENSE*.txt"))
    for name, about in told["files"].items():
        assert about["packages"] or name.endswith(".d.ts"), name
    for name, about in told["packages"].items():
        assert f"{name} {about['version']} ({about['licence']})\n" in licences


def test_all_libraries_of_the_page_are_listed_with_their_bundler() -> None:
    package = json.loads((ROOT / "web" / "package.json").read_text(encoding="utf-8"))
    told = manifest(SHIPPED)
    assert told["packages"].keys() == package["dependencies"].keys()
    assert told["bundled_with"] == {"esbuild": package["devDependencies"]["esbuild"]}


def test_each_difference_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("changed")
    (tmp_path / "extra.js").write_text("")
    told = {
        "files": {
            "a.js": {"packages": ["x", "unknown"], "sha256": "0" * 64},
            "gone.js": {"packages": ["x"], "sha256": "0" * 64},
        },
        "packages": {"x": {"version": "1.0.0", "licence": "Proprietary"}},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(told))
    assert problems(tmp_path, {"x": "1.0.1"}, PERMISSIVE) == [
        "a.js: made from unknown, of which nothing is said",
        "a.js: other bytes",
        "extra.js: in the folder, not listed",
        "gone.js: listed, not in the folder",
        "x: 1.0.0, but web/package.json says 1.0.1",
        "x: licence Proprietary is not allowed here",
    ]
