"""lace help, and what is said to a command that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lace.cli.exitcodes import Exit
from lace.cli.help import pages
from lace.cli.root import _MEANT, run
from lace.codes import Code

SOURCE = Path(__file__).parents[3] / "src" / "lace"
NAMED = re.compile(r"lace help (?:--page )?([a-z][a-z-]*)")


def test_help_lists_commands_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help"]) == Exit.OK
    told = capsys.readouterr().out
    assert "  sync " in told
    assert re.search(r"^  keep-a-room +Keep a room$", told, flags=re.MULTILINE)


def test_help_of_a_command_is_what_it_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["room", "admit", "--help"]) == Exit.OK
    itself = capsys.readouterr().out
    assert run(["help", "room", "admit"]) == Exit.OK
    assert capsys.readouterr().out == itself


def test_help_prints_a_page_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "streams"]) == Exit.OK
    assert capsys.readouterr().out == pages()["streams"].read_text(encoding="utf-8")


def test_a_page_with_the_name_of_a_command_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "policy"]) == Exit.OK
    told = capsys.readouterr()
    assert told.out.startswith("Usage: lace policy")
    assert "lace help --page policy" in told.err
    assert run(["help", "--page", "policy"]) == Exit.OK
    assert capsys.readouterr().out == pages()["policy"].read_text(encoding="utf-8")


def test_help_with_nothing_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "tutoral"]) == Exit.USAGE
    assert "Did you mean tutorial?" in capsys.readouterr().err


def test_every_page_that_a_message_names_is_there() -> None:
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    named = {name for text in texts for name in NAMED.findall(text)}
    assert {"streams", "settings", "keep-a-room", "codes"} <= named
    commands = {"lists", "room"}  # words behind "lace help" that are no pages
    assert named - commands <= set(pages())


def test_no_message_names_a_file_that_is_not_installed() -> None:
    assert not [code for code in Code if "docs/" in code.fix + code.meaning]


@pytest.mark.parametrize("arguments", [[], ["room"]])
def test_a_group_alone_shows_its_help_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == Exit.USAGE
    told = capsys.readouterr().err
    assert told.count("Usage: ") == 1
    assert "\nlace: " not in told


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (["lst"], "No such command 'lst'. Did you mean list?"),
        (["room", "memebrs"], "No such command 'memebrs'. Did you mean members?"),
        (["forget"], "No such command 'forget'. Did you mean store forget?"),
        (["xyzzy"], "No such command 'xyzzy'. lace --help lists all."),
    ],
)
def test_a_command_that_there_is_not_is_answered_once(
    typed: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == Exit.USAGE
    assert capsys.readouterr().err.endswith(f"\nlace: {told}\n")


@pytest.mark.parametrize("meant", sorted(set(_MEANT.values()) - {"--version"}))
def test_what_is_said_to_be_meant_is_there(meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*meant.split(), "--help"]) == Exit.OK
    assert capsys.readouterr().out.startswith(f"Usage: lace {meant} ")
