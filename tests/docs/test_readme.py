"""Every code block of the README runs."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from command import lace

from lace.extras import PACKAGES

ROOT = Path(__file__).parents[2]
README = "".join(
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/policy.md", "docs/records.md")
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_blocks(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102


def test_command_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The make targets are run by CI itself; every lace command is run here, in order."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    ran = 0
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", makefile, flags=re.MULTILINE)
        elif words[:2] == ["pip", "install"]:
            assert words[2:] == ["lace-engine"]  # tests/packaging installs what was built
        elif words:
            assert words[0] == "lace", line
            done = lace(*words[1:], cwd=tmp_path)
            assert done.returncode == 0, (line, done.stderr)
            ran += 1
    assert ran >= 3


def test_the_extras_of_the_pages_are_those_that_exist() -> None:
    extras = {*PACKAGES, "all"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`.*?`) \|", readme, flags=re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(table))) == extras
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for line in re.findall(r"pip install .?lace-engine\[.*?\].?", page.read_text("utf-8")):
            named = re.fullmatch(r'pip install "lace-engine\[(\w+)\]"', line)
            assert named is not None, f"{page.name}: {line}"
            assert named[1] in extras, f"{page.name}: {line}"


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_interpreter_is_one_that_is_promised() -> None:
    assert sys.version_info >= (3, 11)
