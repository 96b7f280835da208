"""Runs the blocks of a page as a reader would: one shell on one terminal, from top to bottom."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PORT = "4790"
_BLOCK = re.compile(r"^```(\w+)(?: exit=(\d+))?\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
# Commands and files for another machine: test_deploy.py and test_install.py read them instead.
_ELSEWHERE = frozenset(("console", "ini", "nginx", "yaml"))
_FOR_OTHERS = frozenset(("deploy.md", "install.md"))
_SECONDS = 120
_MARK = "<<block {} ended with {}>>"


@dataclass(frozen=True)
class Block:
    language: str
    exit: int
    text: str
    line: int


def blocks(page: Path, port: str) -> list[Block]:
    """Return the blocks of a page, with a free port in the place of the one it names."""
    content = page.read_text(encoding="utf-8")
    return [
        Block(m[1], int(m[2] or 0), m[3].replace(PORT, port), content.count("\n", 0, m.start()) + 1)
        for m in _BLOCK.finditer(content)
    ]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Shell:
    """A bash whose output is a terminal."""

    def __init__(self, folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        scripts = str(Path(sys.executable).parent)
        environment = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "140",
            "TERM": "dumb",
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "error",
        }
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],  # noqa: S607 (whichever there is)
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self._number = 0

    def run(self, text: str) -> tuple[int, str]:
        """Run lines, and return the exit code of the last one and everything that was shown."""
        assert self._process.stdin is not None
        self._number += 1
        script = f"{text}\nprintf '{_MARK.format(self._number, '%d')}' $?\n"
        self._process.stdin.write(script.encode())
        self._process.stdin.flush()
        pattern = re.compile(re.escape(_MARK.format(self._number, "@")).replace("@", r"(\d+)"))
        shown = ""
        deadline = time.monotonic() + _SECONDS
        while (ended := pattern.search(shown)) is None:
            if not select.select([self._ours], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no end after {_SECONDS} s:\n{text}\n{shown}")
            shown += os.read(self._ours, 65536).decode(errors="replace")
        return int(ended[1]), shown[: ended.start()].replace("\r\n", "\n")

    def close(self) -> None:
        """End the shell and everything that it started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)


def matches(expected: str, shown: str) -> bool:
    """Whether an output is as printed; … stands for anything, alone on a line for any lines."""
    parts = []
    for line in expected.rstrip("\n").split("\n"):
        if line == "…":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append(re.escape(line.rstrip()).replace("…", r"[^\n]*") + r"[ ]*\n")
    return re.fullmatch("".join(parts), shown.rstrip("\n") + "\n") is not None


def run_page(page: Path, folder: Path) -> int:
    """Run every block of a page; return how many there were."""
    port = free_port()
    shell = Shell(folder)
    shown = ""
    ran = 0
    try:
        for block in blocks(page, port):
            place = f"{page.name}, line {block.line}"
            if block.language in _ELSEWHERE:
                assert page.name in _FOR_OTHERS, f"{place}: {block.language} is not run"
                continue
            if block.language == "text":
                assert matches(block.text, shown), f"{place}: shown was\n{shown}"
                continue
            if block.language == "python":
                script = folder / ".block.py"
                script.write_text(block.text, encoding="utf-8")
                code, shown = shell.run(f"(cd {folder} && python {script})")
            else:
                assert block.language == "sh", f"{place}: {block.language} is not run"
                code, shown = shell.run(block.text)
            ran += 1
            assert code == block.exit, f"{place}: ended with {code}\n{shown}"
            if block.text.rstrip().endswith("&"):
                _wait_for(port)
    finally:
        shell.close()
    return ran


def _wait_for(port: str) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", int(port)), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("nothing listens")
