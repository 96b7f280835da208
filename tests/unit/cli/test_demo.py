"""The demo: two processes, one killed on the way, and the same records on both sides."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from command import lace

SECONDS = 300  # it takes a few; a machine that does many other things may need more


@pytest.mark.req("000-API-15", "000-API-14", "000-SYN-03", "000-SYN-05", "000-SYN-07", "000-NOT-05")
def test_it_converges_after_a_kill_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lace", "demo"],
        env=os.environ | {"TMPDIR": str(tmp_path), "NO_COLOR": "1"},
        capture_output=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    kept = re.search(r"kill -9: .* ([\d,]+) whole", text)
    came = re.search(r"received ([\d,]+) records .* sent 1 ", text)
    assert kept is not None
    assert came is not None
    had, fetched = (int(found[1].replace(",", "")) for found in (kept, came))
    assert 0 < had < 2502
    assert had + fetched == 2502  # nothing twice, nothing lost
    assert "once more: 0 received, 0 sent" in text
    assert "each select the same 2,503 records" in text
    assert "never left: my rules, no Member(V,'writer')" in text
    assert "&." not in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("000-NOT-08", "100-DX-01")
def test_it_has_no_protocol_of_its_own() -> None:
    """Rules, records and the same commands and calls that everyone has; nothing below them."""
    path = source()
    imported = {
        node.module
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    below = ("lace.interlace", "lace.stream", "lace.transport", "lace.recordstore", "lace.policy")
    assert not [name for name in imported if name.startswith(below)]
    assert "socket" not in path.read_text(encoding="utf-8")


def source() -> Path:
    file = import_module("lace.cli.demo").__file__
    assert file is not None
    return Path(file)


def test_a_folder_that_is_there_is_not_touched(tmp_path: Path) -> None:
    done = lace("demo", "--keep", tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []
