"""What is passed on runs nothing but the scenario, whoever wrote the scenario."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lace.scenario.build import load_scenario
from lace.scenario.library import find_scenario
from lace.scenario.write import write_scenario
from lace.workbench.sharing import as_commands, as_test, identifier

SCENARIO = find_scenario("cache-fill").scenario
HOSTILE = (
    "x; touch owned #",
    "$(touch owned)",
    "`touch owned`",
    "x\ntouch owned\n",
    "../../owned",
    '"""\nopen("owned", "w")\n"""',
    "\\",
    "--help",
    "",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_runs_nothing_in_a_shell(name: str, tmp_path: Path) -> None:
    scenario = replace(SCENARIO, name=name, title=name.replace("\n", " ") or "x")
    text = write_scenario(scenario)
    commands = as_commands(scenario, text)
    (tmp_path / "lace").write_text('#!/bin/sh\necho "$@" >> said\n', encoding="utf-8")
    (tmp_path / "lace").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", "-c", commands], cwd=tmp_path, env=environment, check=True)
    file = f"{identifier(name)}.toml"
    said = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert said == [f"scenario run {file}", f"scenario test {file}"]
    assert {path.name for path in tmp_path.iterdir()} == {"lace", "said", file}
    assert (tmp_path / file).read_text(encoding="utf-8") == text
    assert write_scenario(load_scenario(text, name).scenario) == text


@given(name=st.text(max_size=80), title=st.text(min_size=1, max_size=80))
@example(name="x", title='"""\nopen("owned", "w")\n"""')
@example(name="def", title="\\")
def test_a_copied_test_is_one_docstring_two_texts_and_one_function(name: str, title: str) -> None:
    scenario = replace(SCENARIO, name=name, title=title)
    text = write_scenario(scenario)
    docstring, imported, named, written, function = ast.parse(as_test(scenario, text)).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(imported, ast.ImportFrom)
    assert isinstance(named, ast.Assign)
    assert ast.literal_eval(named.value) == title
    assert isinstance(written, ast.Assign)
    assert ast.literal_eval(written.value) == text
    assert isinstance(function, ast.FunctionDef)
    assert function.name == f"test_{identifier(name, '_')}"


UNSEEN = ["\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\xad", "\U000e0041"]


@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_cannot_be_seen_or_moves_other_text_is_written_out(unseen: str) -> None:
    scenario = replace(SCENARIO, title=f"a{unseen}b", story=f"One line,\n{unseen}another.")
    text = write_scenario(scenario)
    assert unseen not in text
    read = tomllib.loads(text)
    assert (read["title"], read["story"]) == (scenario.title, f"{scenario.story}\n")


@pytest.mark.parametrize("control", ["\x1b[201~", "\x9b201~", "\x7f", "\r", "\x00"])
def test_no_control_character_reaches_a_terminal(control: str) -> None:
    story = f"One line,\n{control}touch owned\nanother."
    text = write_scenario(replace(SCENARIO, story=story))
    assert all(one in "\n\t" or one >= " " for one in text)
    assert not any("\x7f" <= one <= "\x9f" for one in text)
    assert tomllib.loads(text)["story"] == f"{story}\n"
