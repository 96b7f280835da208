"""Every Python block of the documents passes mypy in its strict mode, as a reader's own code would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def test_every_block_is_typed(tmp_path: Path) -> None:
    found = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            found += 1
            line = text.count("\n", 0, block.start()) + 2
            name = f"{page.stem.replace('-', '_').lower()}_line_{line}.py"
            (tmp_path / name).write_text(block[1], encoding="utf-8")
    assert found >= 8
    done = run_mypy(tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_wrong_type_would_be_seen(tmp_path: Path) -> None:
    lines = ["import lace", "mine: lace.Verifier", "lace.open(key=5)", "lace.lst"]
    (tmp_path / "wrong.py").write_text("\n".join(lines))
    done = run_mypy(tmp_path)
    assert done.returncode == 1
    assert "wrong.py:2" not in done.stdout
    assert "arg-type" in done.stdout
    assert "wrong.py:4" in done.stdout  # a name that is not there


def run_mypy(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file", "",
            "--cache-dir", str(folder / "cache"), "--follow-imports", "silent", str(folder),
        ],
        capture_output=True, text=True, check=False, cwd=folder,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
