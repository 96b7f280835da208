"""Fetch the packages that web/package.json pins, by npm, into web/node_modules.

    python web/fetching.py

npm has been seen to say that all went well when a package was not whole. So what it installed is
looked at, and installed once more if a package is missing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

WEB = Path(__file__).parent
TIMES = 3


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
    modules, pinned = folder / "node_modules", pins(folder)
    options = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
    for _ in range(TIMES):
        run([npm, "install", *options], cwd=folder, check=True)
        if not (left := missing(modules, pinned)):
            return modules
        print(f"npm did not install {', '.join(left)}; all is fetched again", file=sys.stderr)
        shutil.rmtree(modules)
    sys.exit(f"npm did not install {', '.join(left)} in {TIMES} tries; its logs may say why")


if __name__ == "__main__":
    fetch(WEB)
