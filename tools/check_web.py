"""Check what is written for browsers: no line is too long, and the page's types hold.

The types are checked where npm is there to fetch the checker.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
WEB = ROOT / "web"
TSC = WEB / "node_modules" / ".bin" / "tsc"
MOST_COLUMNS = 100
OURS = ("bench", "examples", "src", "web")
KINDS = frozenset((".css", ".html", ".js", ".mjs", ".mts"))
THEIRS = frozenset(("node_modules", "vendor"))


def long_lines(root: Path) -> list[str]:
    """Return where a line of ours has too many columns."""
    found = []
    for path in sorted(one for folder in OURS for one in (root / folder).rglob("*")):
        inner = path.relative_to(root)
        if path.suffix not in KINDS or THEIRS & set(inner.parts):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > MOST_COLUMNS:
                columns = f"{len(line)} columns, and {MOST_COLUMNS} is the most"
                found.append(f"{inner.as_posix()}:{number}: {columns}")
    return found


def main() -> int:
    if too_long := long_lines(ROOT):
        print("\n".join(too_long))
        return 1
    if shutil.which("npm") is None:
        print("npm is not here: the types of the page were NOT checked")
        return 0
    if not TSC.exists():
        fetch = [sys.executable, str(WEB / "fetching.py")]
        if subprocess.run(fetch, check=False).returncode:
            print("npm cannot fetch the checker: the types of the page were NOT checked")
            return 0
    done = subprocess.run([TSC, "-p", "."], cwd=WEB, check=False)
    if done.returncode == 0:
        print("The page's types hold")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
