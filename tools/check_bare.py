"""Run the README's two commands as a stranger would: a fresh clone, an empty home, nothing cached.

    python3 tools/check_bare.py                      the two commands
    python3 tools/check_bare.py --then "make lint"   and another one after them
    python3 tools/check_bare.py --hide npm --hide apt-get --hide chromium

The clone holds what is committed. Its path has a space and a letter that is not ASCII. Java is not
on the PATH, nor is what --hide names. Of the surroundings only what leads to the network is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
ALWAYS_HIDDEN: Final = ("java", "javac")
# What the commands may install with Debian's packages; until then the link leads nowhere.
INSTALLED_LATER: Final = ("chromium",)
# Without these some networks cannot be reached; none of them leads to something cached.
NETWORK: Final = re.compile(
    r"(https?|all|no)_proxy|pip_(index_url|extra_index_url|trusted_host|cert)"
    r"|ssl_cert_(file|dir)|requests_ca_bundle|node_extra_ca_certs|npm_config_(registry|cafile)",
    re.IGNORECASE,
)


def readme_commands() -> list[str]:
    """Return the commands that the README promises, in its order."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^## Two commands\n.*?^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    commands = re.findall(r"^make [a-z-]+", block[1] if block else "", re.MULTILINE)
    if len(commands) != 2:
        sys.exit("README.md has no section 'Two commands' with two lines that begin with make")
    return commands


def programs(folder: Path, hidden: Sequence[str]) -> None:
    """Fill ``folder`` with a link to each program on the PATH but those that are hidden."""
    for place in os.get_exec_path():
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name not in hidden and not link.is_symlink():
                link.symlink_to(program)
    for name in INSTALLED_LATER:
        if name not in hidden and not (folder / name).is_symlink():
            (folder / name).symlink_to(f"/usr/bin/{name}")


def surroundings(folder: Path, hidden: Sequence[str]) -> dict[str, str]:
    """Return what a process sees on a bare machine."""
    home, binaries = folder / "home", folder / "bin"
    home.mkdir()
    binaries.mkdir()
    programs(binaries, hidden)
    return {
        **{name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)},
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": str(binaries),
        "PIP_NO_CACHE_DIR": "1",
        # The Python that runs this, and no launcher that looks into the home for one.
        "PYTHON": str(Path(sys.base_prefix) / "bin" / "python3"),
    }


def clone(folder: Path) -> Path:
    """Return a new clone of what is committed here."""
    git = ["git", "-C", str(ROOT)]
    changed = subprocess.run(
        [*git, "status", "--porcelain"], capture_output=True, text=True, check=False
    )
    if changed.returncode:
        sys.exit(f"{ROOT} is no git checkout, or git is not here: {changed.stderr.strip()}")
    if changed.stdout:
        print("What is not committed is not part of this check.", flush=True)
    target = folder / "a clöne"
    subprocess.run([*git, "clone", "--quiet", str(ROOT), str(target)], check=True)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run the README's two commands with an empty home and nothing cached.",
        epilog="example: python3 tools/check_bare.py --hide npm --then 'make lint'",
    )
    parser.add_argument("--hide", action="append", default=[], metavar="PROGRAM",
                        help="keep this program off the PATH, beside Java")  # fmt: skip
    parser.add_argument("--then", action="append", default=[], metavar="COMMAND",
                        help="run this after the README's commands")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="leave the clone to look at")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lace-bare-"))
    try:
        environment = surroundings(folder, [*ALWAYS_HIDDEN, *chosen.hide])
        checkout = clone(folder)
        for command in [*readme_commands(), *chosen.then]:
            print(f"\n$ {command}", flush=True)
            begin = time.monotonic()
            done = subprocess.run(shlex.split(command), cwd=checkout, env=environment, check=False)
            minutes = (time.monotonic() - begin) / 60
            if done.returncode:
                print(f"\n{command} failed on a bare machine, after {minutes:.1f} minutes")
                return 1
            print(f"\n{command}: {minutes:.1f} minutes", flush=True)
    finally:
        if chosen.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
