"""Check the types of the workbench's page, where npm is there to fetch the checker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent.parent / "web"
TSC = WEB / "node_modules" / ".bin" / "tsc"


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print("npm is not here: the types of the page were NOT checked")
        return 0
    if not TSC.exists():
        fetch = [npm, "install", "--no-audit", "--no-fund", "--silent"]
        if subprocess.run(fetch, cwd=WEB, check=False).returncode:
            print("npm cannot fetch the checker: the types of the page were NOT checked")
            return 0
    done = subprocess.run([TSC, "-p", "."], cwd=WEB, check=False)
    if done.returncode == 0:
        print("The page's types hold")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
