"""Run the README's two commands as a newcomer would: a fresh clone, an empty home, nothing cached.

    python3 tools/check_bare.py                      the two commands
    python3 tools/check_bare.py --then "make lint"   and another one after them
    python3 tools/check_bare.py --hide npm --hide apt-get --hide chromium
    python3 tools/check_bare.py --debian sid --python python3.14   in a minimal Debian made for it
    python3 tools/check_bare.py --debian sid --run "make demo" --run "make test-quick"

The clone holds what is committed. Its path has a space and a letter that is not ASCII. On this
machine, Java is not on the PATH, nor are programs that --hide names. Of the environment variables
only those stay that lead to the network. A minimal Debian has neither compiler, git nor Java, and
the commands run there as an ordinary user. If the Debian cannot be made, or its own Python does not
work, the check says so and ends well: it has found nothing out about the project.
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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bare_debian import USER, BareDebian, NotMadeError

ROOT: Final = Path(__file__).resolve().parent.parent
ALWAYS_HIDDEN: Final = ("java", "javac")
# What the commands may install with Debian's packages; until then the link leads nowhere.
INSTALLED_LATER: Final = ("chromium",)
CLONE: Final = "a clöne"
# Without these some networks cannot be reached; none of them leads to something cached.
NETWORK: Final = re.compile(
    r"(https?|all|no)_proxy|pip_(index_url|extra_index_url|trusted_host|cert)"
    r"|ssl_cert_(file|dir)|requests_ca_bundle|node_extra_ca_certs|npm_config_(registry|cafile)",
    re.IGNORECASE,
)
Run = Callable[[Sequence[str]], int]
"""Runs a command in the clone and returns its exit code."""


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


def network_variables() -> dict[str, str]:
    """Return the environment variables that lead to the network."""
    return {name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)}


def surroundings(folder: Path, hidden: Sequence[str]) -> dict[str, str]:
    """Return the environment variables of a process on a bare machine."""
    home, binaries = folder / "home", folder / "bin"
    home.mkdir()
    binaries.mkdir()
    programs(binaries, hidden)
    return {
        **network_variables(),
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
    target = folder / CLONE
    subprocess.run([*git, "clone", "--quiet", str(ROOT), str(target)], check=True)
    return target


def runner_here(folder: Path, hidden: Sequence[str]) -> Run:
    """Return what runs commands in a fresh clone on this machine."""
    environment = surroundings(folder, [*ALWAYS_HIDDEN, *hidden])
    checkout = clone(folder)
    return lambda command: (
        subprocess.run(command, cwd=checkout, env=environment, check=False).returncode
    )


def runner_in_debian(folder: Path, suite: str, python: str) -> Run:
    """Return what runs commands in a fresh clone in a minimal Debian, or raise ``NotMadeError``."""
    system = BareDebian(folder / suite)
    print(f"Making a minimal Debian {suite} with {python} in {system.root}", flush=True)
    system.make(suite, python)
    checkout = clone(system.home)
    user = system.home.stat()
    for path in [checkout, *checkout.rglob("*")]:
        os.chown(path, user.st_uid, user.st_gid, follow_symlinks=False)
    variables: Mapping[str, str] = {**network_variables(), "PYTHON": python}
    inside = f"/home/{USER}/{CLONE}"
    return lambda command: system.run(command, variables, folder=inside).returncode


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run the README's two commands with an empty home and nothing cached.",
        epilog="example: python3 tools/check_bare.py --debian sid --python python3.14",
    )
    parser.add_argument("--hide", action="append", default=[], metavar="PROGRAM",
                        help="keep this program off the PATH, beside Java")  # fmt: skip
    parser.add_argument("--debian", metavar="SUITE",
                        help="run in a minimal Debian, such as sid; needs root")  # fmt: skip
    parser.add_argument("--python", default="python3", metavar="PACKAGE",
                        help="the Python to install there (default: python3)")  # fmt: skip
    parser.add_argument("--run", action="append", default=[], metavar="COMMAND",
                        help="run this instead of the README's commands")  # fmt: skip
    parser.add_argument("--then", action="append", default=[], metavar="COMMAND",
                        help="run this after the other commands")  # fmt: skip
    parser.add_argument("--keep", action="store_true", help="leave the clone to look at")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lace-bare-"))
    try:
        if chosen.debian:
            folder.chmod(0o755)  # the ordinary user has to pass through it
            run = runner_in_debian(folder, chosen.debian, chosen.python)
        else:
            run = runner_here(folder, chosen.hide)
        for command in [*(chosen.run or readme_commands()), *chosen.then]:
            print(f"\n$ {command}", flush=True)
            begin = time.monotonic()
            failed = run(shlex.split(command))
            minutes = (time.monotonic() - begin) / 60
            if failed:
                print(f"\n{command} failed on a bare machine, after {minutes:.1f} minutes")
                return 1
            print(f"\n{command}: {minutes:.1f} minutes", flush=True)
    except NotMadeError as error:
        print(f"\n!! NOT CHECKED in a minimal Debian {chosen.debian}: {error}\n", flush=True)
    finally:
        if chosen.keep:
            print(f"left in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
