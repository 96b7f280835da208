"""Fetch the packages that web/package.json pins, by npm, into web/node_modules.

    python web/fetching.py

Two npm in one folder spoil each other's work, and may say all the same that all went well. So one
waits for the other, and what was installed is looked at: it is installed once more if a package is
missing, and not again if it is whole.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

WEB = Path(__file__).parent
TIMES = 3
WHOLE = ".whole"
"""A file beside the packages that says for which pins they are whole."""


def pins(folder: Path) -> dict[str, str]:
    """Return the exact versions that the package of a folder names."""
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    return {**wanted["dependencies"], **wanted["devDependencies"]}


def missing(modules: Path, pinned: Mapping[str, str]) -> list[str]:
    """Return the packages that are not there in their version."""
    return [name for name, version in pinned.items() if _version(modules / name) != version]


def _version(package: Path) -> object:
    try:
        return json.loads((package / "package.json").read_text(encoding="utf-8")).get("version")
    except (OSError, ValueError):
        return None


def fetch(folder: Path, run: Callable[..., object] = subprocess.run) -> Path:
    """Fetch the packages of a folder and return where they are."""
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is not here; it makes what a browser loads, users and most tests need none")
    with _alone(folder):
        return _fetch(folder, npm, run)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process fetches into a folder."""
    with (folder / "package.json").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, npm: str, run: Callable[..., object]) -> Path:
    modules, pinned = folder / "node_modules", pins(folder)
    whole, told = modules / WHOLE, json.dumps(pinned)
    if whole.is_file() and whole.read_text(encoding="utf-8") == told:
        if not missing(modules, pinned):
            return modules
        whole.unlink()
    options = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    for _ in range(TIMES):
        run([npm, "install", *options], cwd=folder, check=True)
        if not (left := missing(modules, pinned)):
            whole.write_text(told, encoding="utf-8")
            return modules
        print(f"npm did not install {', '.join(left)}; all is fetched again", file=sys.stderr)
        shutil.rmtree(modules, ignore_errors=True)
    sys.exit(f"npm did not install {', '.join(left)} in {TIMES} tries; its logs may say why")


if __name__ == "__main__":
    fetch(WEB)
