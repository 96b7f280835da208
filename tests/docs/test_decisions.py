"""Every decision that is named anywhere has a page, and every page is in the list."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs/decisions"
_ID = re.compile(r"\b[AGL][1-9][0-9]?\b")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def pages() -> dict[str, Path]:
    found = {}
    for page in DECISIONS.glob("[AGL][0-9]*.md"):
        id = page.name.partition("-")[0]
        assert id not in found, f"two pages for {id}"
        found[id] = page
    return found


def prose_of(source: str) -> Iterator[str]:
    """Yield comments and docstrings: ids stand there, and data of tests does not."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@cache
def named() -> dict[str, str]:
    """Return each id that is named, with one place where it is."""
    found: dict[str, str] = {}
    for folder in ("src", "tests", "tools", "bench", "fuzz", "web"):
        for path in (ROOT / folder).rglob("*.py"):
            source = read(path)
            for text in prose_of(source) if _ID.search(source) else ():
                found |= dict.fromkeys(_ID.findall(text), str(path.relative_to(ROOT)))
    for path in [
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        *(ROOT / "changes").glob("*.md"),
    ]:
        text = _CODE.sub("", path.read_text(encoding="utf-8"))
        found |= dict.fromkeys(_ID.findall(text), str(path.relative_to(ROOT)))
    return found


def test_every_decision_that_is_named_has_a_page() -> None:
    missing = {id: where for id, where in named().items() if id not in pages()}
    assert missing == {}
    assert len(named()) > 80


def test_every_page_is_in_the_list_once_and_begins_with_its_id() -> None:
    listed = re.findall(
        r"^\| ([AGL][0-9]+) \| \[(.+)\]\((.+)\) \|$", read(DECISIONS / "README.md"), re.MULTILINE
    )
    assert {id: target for id, _, target in listed} == {
        id: page.name for id, page in pages().items()
    }
    assert len(listed) == len(pages())
    for id, title, target in listed:
        assert read(DECISIONS / target).splitlines()[0] == f"# {id}: {title}"


def test_every_file_that_a_page_names_as_its_home_is_there() -> None:
    for page in pages().values():
        where = read(page).rpartition("**Where.**")[2]
        files = re.findall(r"`((?:lace|tools|web|src|tests|deploy)/[\w./-]+)`", where)
        assert files or re.search(r"`\w+(?:\.\w+)*`", where), page.name
        for file in files:
            assert (ROOT / "src" / file).exists() or (ROOT / file).exists(), (page.name, file)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
