"""Every fragment of the changelog can be gathered: its name, its kind and its bullets fit."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = ROOT / "changes"
CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "towncrier"
]
KINDS = [kind["directory"] for kind in CONFIGURATION["type"]]
OTHERS = {"README.md", Path(CONFIGURATION["template"]).name}
NAME = re.compile(r"(0|[1-9][0-9]{0,5})\.([a-z]+)\.md")


def problem(name: str, text: str) -> str | None:
    """Return what is wrong with a fragment."""
    found = NAME.fullmatch(name)
    if found is None:
        return "the name is not NUMBER.KIND.md"
    if found[2] not in KINDS:
        return f"the kind {found[2]} is none of {', '.join(KINDS)}"
    lines = text.splitlines()
    if not any(lines):
        return "it is empty"
    for number, line in enumerate(lines, 1):
        if not re.match(r"- \S" if number == 1 else r"(- |  +)\S", line):
            return f"line {number} neither begins a bullet nor goes on with one"
    if not text.endswith("\n"):
        return "the last line has no end"
    return None


def fragments() -> list[Path]:
    return sorted(path for path in CHANGES.iterdir() if path.name not in OTHERS)


def test_every_fragment_can_be_gathered() -> None:
    for path in fragments():
        assert problem(path.name, path.read_text(encoding="utf-8")) is None, path.name


def test_the_page_names_the_configured_kinds_and_no_other() -> None:
    page = (CHANGES / "README.md").read_text(encoding="utf-8")
    sentence = page[page.index("KIND is") :].partition(".")[0]
    assert re.findall(r"`(\w+)`", sentence) == KINDS
    assert KINDS == ["added", "changed", "fixed", "removed", "security"]


def test_the_changelog_has_one_place_for_releases() -> None:
    assert CONFIGURATION["directory"] == CHANGES.name
    assert (ROOT / CONFIGURATION["template"]).is_file()
    changelog = (ROOT / CONFIGURATION["filename"]).read_text(encoding="utf-8")
    assert changelog.count(CONFIGURATION["start_string"]) == 1
    assert "## Unreleased" not in changelog


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("notes.md", "- A.\n", "NUMBER.KIND.md"),
        ("x.added.md", "- A.\n", "NUMBER.KIND.md"),
        ("1.added.txt", "- A.\n", "NUMBER.KIND.md"),
        ("1.new.md", "- A.\n", "the kind new"),
        ("1.added.md", "", "empty"),
        ("1.added.md", "\n\n", "empty"),
        ("1.added.md", "A sentence.\n", "line 1"),
        ("1.added.md", "  goes on.\n", "line 1"),
        ("1.added.md", "- A.\n\n- B.\n", "line 2"),
        ("1.added.md", "- A.\n## B\n", "line 2"),
        ("1.added.md", "- A.", "no end"),
    ],
)
def test_what_cannot_be_gathered_would_be_seen(name: str, text: str, part: str) -> None:
    assert part in (problem(name, text) or "")
    assert problem("1.added.md", "- A\n  B.\n- C.\n") is None
