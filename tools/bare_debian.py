"""A minimal Debian in a folder, with Python and make and nothing else, and an ordinary user in it.

debootstrap makes it from Debian's packages, so it needs root and the package registry. Each command
runs in namespaces of its own: mounts and processes end with it, and nothing of this machine is
visible but the network and the certificates that its administrator trusts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

USER: Final = "newcomer"
_ID: Final = "1000"
_TRUSTED: Final = Path("usr/local/share/ca-certificates")
_SETTINGS: Final = "etc/apt/apt.conf.d"
_NEEDED: Final = ("debootstrap", "unshare", "chroot")
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_SEPARATE: Final = (
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation=private",
)  # fmt: skip
"""Mounts and processes end with the command; nothing is left to be removed by mistake."""


class NotMadeError(Exception):
    """The system cannot be made or does not work by itself; no fault of the project."""


class BareDebian:
    """One such system in a folder, which the caller makes and removes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home" / USER

    def make(self, suite: str, python: str) -> None:
        """Install ``suite`` with ``python`` and make, and try both, or raise ``NotMadeError``."""
        _check_means()
        self.root.mkdir(parents=True, exist_ok=True)
        _run([
            *_SEPARATE, "debootstrap", "--variant=minbase", "--include=ca-certificates,make",
            suite, str(self.root),
        ])  # fmt: skip
        for file in Path("/", _SETTINGS).glob("*"):
            if "Check-Valid-Until" in file.read_text(errors="replace"):
                shutil.copy(file, self.root / _SETTINGS)
        for file in Path("/", _TRUSTED).glob("*.crt"):
            shutil.copy(file, self.root / _TRUSTED)
        self._prepare("update-ca-certificates")
        self._prepare("apt-get", "update")
        packages = [python, f"{python}-venv"]
        self._prepare("apt-get", "install", "--yes", "--no-install-recommends", *packages)
        self._prepare("useradd", "--create-home", "--uid", _ID, "--shell", "/bin/sh", USER)
        self._try(python)

    def _try(self, python: str) -> None:
        """Raise ``NotMadeError`` unless this Python and its pip work."""
        script = (
            f"{python} -m venv /tmp/tried && /tmp/tried/bin/pip install --no-cache-dir six "
            "&& rm -r /tmp/tried && make --version"
        )
        tried = self.run(["sh", "-c", script], {}, quiet=True)
        if tried.returncode:
            raise NotMadeError(f"its Python or pip does not work:\n{tried.stdout.strip()}")

    def _prepare(self, *command: str) -> None:
        surroundings = {"DEBIAN_FRONTEND": "noninteractive", "PATH": _PATH}
        _run([*_inside(self.root), *command], surroundings)

    def run(
        self, command: Sequence[str], variables: Mapping[str, str], *,
        folder: str = f"/home/{USER}", quiet: bool = False,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command as the ordinary user, who sees ``variables`` and little else."""
        script = 'cd "$0" && exec "$@"'
        whole = [*_inside(self.root, _ID), "sh", "-c", script, folder, *command]
        seen = {"HOME": f"/home/{USER}", "USER": USER, "LANG": "C.UTF-8", "PATH": _PATH}
        return subprocess.run(
            whole, env={**variables, **seen}, check=False, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE if quiet else None, stderr=subprocess.STDOUT if quiet else None,
        )  # fmt: skip


def _inside(root: Path, user: str = "0") -> list[str]:
    """Return the command that runs what follows in the system, in namespaces of its own."""
    mounts = (
        'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && '
        'mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts" && '
        'ln -sf pts/ptmx "$0/dev/ptmx"'
    )
    change = f'exec chroot --userspec={user}:{user} "$0" "$@"'
    return [*_SEPARATE, "sh", "-c", f"{mounts} && {change}", str(root)]


def _check_means() -> None:
    if os.geteuid():
        raise NotMadeError("only root can make one. Try: sudo make check-debian")
    if shutil.which("debootstrap") is None and shutil.which("apt-get"):
        print("debootstrap: not here; installing Debian's package", flush=True)
        _run(["apt-get", "update", "--quiet"])
        _run(["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", "debootstrap"])
    if missing := [name for name in _NEEDED if shutil.which(name) is None]:
        raise NotMadeError(f"this machine has no {', '.join(missing)}")


def _run(command: Sequence[str], surroundings: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command, env=surroundings, check=False, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        printed = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise NotMadeError(f"{' '.join(command[:8])} … failed:\n{printed}")
