"""Every command that a document shows exists, and takes the flags that it is shown with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command_line import find_command, flags_of, in_prose, in_shell, parse_command

ROOT = Path(__file__).parents[2]
PAGES = sorted({
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *(ROOT / "changes").glob("*.md"),
    *(ROOT / "deploy").glob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
} - {ROOT / "docs/conformance.md"})  # fmt: skip
LANGUAGES = ("sh", "text", "console", "bash", "")


def examples(text: str) -> str:
    """Return the examples of the page of commands; the rest of it is wrapped prose."""
    found = re.findall(r"^  Example:\n((?:    .*\n)+)", text, flags=re.MULTILINE)
    return "".join(f"```sh\n{example}```\n" for example in found)


def read(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return examples(text) if page.name == "cli.md" else text


def blocks(text: str) -> Iterator[str]:
    for head, content in re.findall(
        r"^ *```([^\n]*)\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL
    ):
        if head.split(" ")[0] in LANGUAGES:
            yield content


def prose(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


def spelled(named: list[str]) -> Iterator[list[str]]:
    """Yield each command that ``room new|admit`` stands for."""
    if not named:
        yield []
        return
    for first in named[0].split("|"):
        for rest in spelled(named[1:]):
            yield [first, *rest]


def wrong_in(text: str) -> list[str]:
    """Return what is wrong with the commands of a page."""
    found: list[str] = []
    for content in blocks(text):
        for words in in_shell(content):
            try:
                command, _, rest = find_command(words)
                if isinstance(command, click.Group):
                    assert not rest or rest[0] == "--help", f"{words} is no command"
                elif "…" not in "".join(words):
                    parse_command(words)
            except (AssertionError, click.ClickException) as error:
                found.append(f"lace {' '.join(words)}: {error}")
            except click.exceptions.Exit:
                pass  # --help
    for named, flags in in_prose(prose(text)):
        for one in spelled(named):
            try:
                command, _, _ = find_command(one)
                missing = [flag for flag in flags if flag not in flags_of(command)]
                assert not missing, f"takes no {', '.join(missing)}"
            except AssertionError as error:
                found.append(f"lace {' '.join(one)}: {error}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist_with_their_flags(page: Path) -> None:
    assert wrong_in(read(page)) == []


def test_there_are_many_and_wrong_ones_would_be_seen() -> None:
    shown = [
        words for page in PAGES for content in blocks(read(page))
        for words in in_shell(content)
    ]  # fmt: skip
    named = [one for page in PAGES for one in in_prose(prose(read(page)))]
    assert len(shown) > 300
    assert len(named) > 300
    for text in (
        "```sh\nlace syn alice\n```\n",
        "```sh\ncd x; lace sync alice --no-such-flag | tail -1\n```\n",
        "```sh\nfor n in a b; do lace keyring new $n --demos; done\n```\n",
        "```sh\nlace export a.jsonl b.jsonl > out\n```\n",
        "Try `lace sync --quick`.",
        "Try `lace room make`.",
        "Try `lace room new|make`.",
    ):
        assert wrong_in(text), text
    assert (
        wrong_in("```sh\nx=$(lace keyring show ann 2> /dev/null)\nlace list | head -3\n```") == []
    )
    assert wrong_in("`lace room new|admit` and `lace serve --metrics PORT`") == []
