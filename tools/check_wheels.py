"""Ask the package registry which dependencies lack a wheel for a supported Python or system.

pip builds a package that has no wheel, and that takes a compiler. The pinned versions of the base
package and of each extra are looked up. Supported Pythons are the classifiers in pyproject.toml;
environment markers there leave out packages that a Python or a system cannot have. KNOWN_GAPS holds
the gaps that are known. A gap that is not in it fails the check, and so does an entry whose gap has
closed.

    python3 tools/check_wheels.py
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from packaging.pylock import Package, Pylock
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

import lock

ROOT: Final = Path(__file__).parent.parent
_CLASSIFIER: Final = "Programming Language :: Python :: 3."
# These come as source alone and hold nothing but Python: pip builds them without a compiler.
_PURE: Final = frozenset({"pyspark"})


@dataclass(frozen=True, slots=True)
class System:
    """An operating system on a processor: what markers see, and tags of wheels that run there."""

    name: str
    sys_platform: str
    os_name: str
    platform_system: str
    machine: str
    tags: tuple[str, ...]


def _linux(machine: str, c_library: str, tags: Iterable[str]) -> System:
    name = f"Linux {machine}, {c_library}"
    return System(name, "linux", "posix", "Linux", machine, tuple(f"{t}_{machine}" for t in tags))


def _mac(machine: str) -> System:
    tags = tuple(mac_platforms((14, 0), machine))
    return System(f"macOS {machine}", "darwin", "posix", "Darwin", machine, tags)


_GLIBC: Final = (*(f"manylinux_2_{n}" for n in range(36, 4, -1)), "manylinux2014", "manylinux1")
_MUSL: Final = ("musllinux_1_2", "musllinux_1_1")
SYSTEMS: Final = (
    _linux("x86_64", "glibc", _GLIBC),
    _linux("aarch64", "glibc", _GLIBC),
    _linux("x86_64", "musl", _MUSL),
    _linux("aarch64", "musl", _MUSL),
    _mac("arm64"),
    _mac("x86_64"),
    System("Windows x86_64", "win32", "nt", "Windows", "AMD64", ("win_amd64",)),
)

KNOWN_GAPS: Final = frozenset({
    ("cryptography", "macOS x86_64"),  # extras devcert and passphrase; its makers stopped
    ("duckdb", "Linux aarch64, musl"),
    ("duckdb", "Linux x86_64, musl"),
})  # fmt: skip
"""Packages without a wheel for a system; docs/howto/install.md says what follows."""


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A package without a wheel for one Python on one system."""

    package: str
    system: str
    python: str


def supported_pythons(classifiers: Iterable[str]) -> list[str]:
    """Return the minor versions of Python that the classifiers name, such as 3.11."""
    return [
        f"3.{name.removeprefix(_CLASSIFIER)}" for name in classifiers
        if name.startswith(_CLASSIFIER)
    ]  # fmt: skip


@cache
def accepted_tags(python: str, system: System) -> frozenset[Tag]:
    """Return the tags of all wheels that pip installs on this Python and system."""
    version = [int(part) for part in python.split(".")]
    interpreter = "cp{}{}".format(*version)
    found = {*cpython_tags(version, platforms=system.tags)}
    return frozenset(found | {*compatible_tags(version, interpreter, system.tags)})


def environment(python: str, system: System) -> dict[str, str]:
    """Return what environment markers see there."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": system.os_name,
        "platform_machine": system.machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system.platform_system,
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": system.sys_platform,
    }


def lacks_wheel(package: Package, python: str, system: System) -> bool:
    """Whether a package is needed there and no wheel of it fits."""
    if package.name in _PURE:
        return False
    if package.marker is not None and not package.marker.evaluate(environment(python, system)):
        return False
    accepted = accepted_tags(python, system)
    wheels = package.wheels or []
    return not any(accepted & parse_wheel_filename(wheel.filename)[3] for wheel in wheels)


def find_gaps(packages: Sequence[Package], pythons: Iterable[str]) -> Iterator[Gap]:
    """Yield each package that lacks a wheel for a supported Python and system."""
    for python in pythons:
        for system in SYSTEMS:
            for package in packages:
                if lacks_wheel(package, python, system):
                    yield Gap(package.name, system.name, python)


def resolve(folder: Path, extra: str | None) -> list[Package]:
    """Return the packages of an extra, or of the base, with the files that the registry has."""
    output = folder / "pylock.toml"
    output.unlink(missing_ok=True)
    options = [f"--extra={extra}"] if extra else []
    text = lock.compile_pins(
        folder, output, "--format=pylock.toml", "--constraints", lock.CONSTRAINTS, *options
    )
    return list(Pylock.from_dict(tomllib.loads(text)).packages)


def verdict(found: Iterable[Gap], known: frozenset[tuple[str, str]] = KNOWN_GAPS) -> list[str]:
    """Return a line for each gap that is not known, and for each known gap that has closed."""
    pythons: dict[tuple[str, str], list[str]] = {}
    for gap in sorted(set(found)):
        pythons.setdefault((gap.package, gap.system), []).append(gap.python)
    new = [
        f"new gap: {package} has no wheel for {system} and Python {', '.join(versions)}. Pin "
        "another version, leave it out by a marker in pyproject.toml, or add it to KNOWN_GAPS"
        for (package, system), versions in pythons.items() if (package, system) not in known
    ]  # fmt: skip
    closed = [
        f"closed gap: {package} has wheels for {system} again. Take it out of KNOWN_GAPS"
        for package, system in sorted(known - pythons.keys())
    ]
    return new + closed


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Ask the package registry which dependencies lack a wheel.",
        epilog="example: python3 tools/check_wheels.py",
    )
    parser.parse_args()
    project: Mapping[str, Any] = tomllib.loads(lock.PROJECT.read_text(encoding="utf-8"))["project"]
    pythons = supported_pythons(project["classifiers"])
    print(f"Python {', '.join(pythons)} on {'; '.join(system.name for system in SYSTEMS)}")
    found: set[Gap] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "uv.toml").write_text(lock.configuration(), encoding="utf-8")
        for extra in (None, *project["optional-dependencies"]):
            packages = resolve(folder, extra)
            gaps = set(find_gaps(packages, pythons))
            found |= gaps
            lacking = ", ".join(sorted({f"{gap.package} ({gap.system})" for gap in gaps}))
            print(f"  {extra or 'lace-engine'}: {len(packages)} packages, {lacking or 'no gap'}")
    faults = verdict(found)
    print("\n".join(faults) or "Every gap is known.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
