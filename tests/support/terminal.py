"""Run the real command on a terminal of a given width, and return what a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

_END: Final = b"<end>"


def on_a_terminal(
    *arguments: str | Path, cwd: Path, columns: int = 80, exit: int | None = None
) -> str:
    """Return what a command shows on standard output; it must not fail with a traceback."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    with ThreadPoolExecutor(1) as reader:  # a terminal holds little: somebody has to look
        shown = reader.submit(_read_to_the_end, ours)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "lace", *map(str, arguments)],
                cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
                check=False, timeout=300,
                env=environment | {"NO_COLOR": "1", "TERM": "xterm", "TZ": "UTC"},
            )  # fmt: skip
        finally:  # or whoever looks would look for ever
            os.write(theirs, _END)
            os.close(theirs)
        text = shown.result().decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    if exit is not None:
        assert done.returncode == exit, done.stderr.decode()
    return text.replace("\r\n", "\n")


def _read_to_the_end(terminal: int) -> bytes:
    shown = b""
    while not shown.endswith(_END):
        shown += os.read(terminal, 65536)
    os.close(terminal)
    return shown.removesuffix(_END)
