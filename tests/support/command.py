"""Run the real command in a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def lace(
    *arguments: str | Path, stdin: bytes | str = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run ``lace`` and return its exit code and what it wrote."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    environment = os.environ | {"PYTHONWARNINGS": "error", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "lace", *map(str, arguments)],
        input=data,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=environment,
        timeout=60,
    )
