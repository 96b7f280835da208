"""Make sure that a Java runtime is there for the lake: use Java 17 or later, else install a wheel.

The wheel goes into the environment that runs this script; nothing outside it is touched.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lace.lake.java import OLDEST, WHEEL, java_version, system_java

CONSTRAINTS = Path(__file__).parent.parent / "constraints.txt"


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
