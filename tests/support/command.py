"""Run the real command in a real process."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

_HELD_TO_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def lace(
    *arguments: str | Path,
    stdin: bytes | str = b"",
    cwd: Path | None = None,
    held_to_rights: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``lace`` and return its exit code and what it wrote.

    ``held_to_rights`` lets the rights of files hold for root too, who otherwise may write anything.
    """
    data = stdin.encode() if isinstance(stdin, str) else stdin
    before = _HELD_TO_RIGHTS if held_to_rights and os.geteuid() == 0 else ()
    environment = os.environ | {"PYTHONWARNINGS": "error", "NO_COLOR": "1"}
    return subprocess.run(
        [*before, sys.executable, "-m", "lace", *map(str, arguments)],
        input=data,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=environment,
        timeout=300,
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
