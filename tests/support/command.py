"""Run the real command in a real process."""

from __future__ import annotations

import contextlib
import io
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


def lace_inside(
    *arguments: str | Path, stdin: bytes | str = b"", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Do the same within this process: for tests with many commands, which starts would slow."""
    from lace.cli.root import run

    data = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(data)),
        "stdout": io.TextIOWrapper(io.BytesIO(), write_through=True),
        "stderr": io.TextIOWrapper(io.BytesIO(), write_through=True),
    }
    before = {name: getattr(sys, name) for name in streams}
    with contextlib.chdir(cwd or Path.cwd()):
        for name, stream in streams.items():
            setattr(sys, name, stream)
        try:
            code = run([*map(str, arguments)])
        finally:
            for name, stream in before.items():
                setattr(sys, name, stream)
    written = []
    for name in ("stdout", "stderr"):
        buffer = streams[name].buffer
        assert isinstance(buffer, io.BytesIO)
        written.append(buffer.getvalue())
    return subprocess.CompletedProcess([*map(str, arguments)], code, *written)
