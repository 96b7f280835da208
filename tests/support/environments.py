"""Virtual environments that hold an installed package and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Set-up leaves the wheels of all that the package and its build need here.
WHEELS = Path(sys.prefix) / "wheels"


class Environment:
    """A virtual environment with nothing in it but what pip put there."""

    def __init__(self, folder: Path) -> None:
        self.scripts = folder / "bin"
        self._pip = [str(self.scripts / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)

    def pip(self, action: str, *arguments: str | Path) -> None:
        """Run pip without any network: everything comes from the folder of wheels."""
        offline = ("--no-index", "--find-links", str(WHEELS))
        command = [*self._pip, action, "--quiet", *offline, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=_outside())
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its scripts in a folder."""
        script, *arguments = map(str, command)
        return subprocess.run(
            [str(self.scripts / script), *arguments],
            cwd=cwd, env=_outside() | {"LACE_KEYRING": str(cwd / "keyring.toml"), "NO_COLOR": "1"},
            capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def _outside() -> dict[str, str]:
    """The environment's variables without those that would lead to other copies of Lace."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
