"""A scenario as something to pass on: shell commands, and a test for somebody's own suite.

A scenario may come from a link that a stranger made. So its name becomes an identifier and its
words become quoted text before either stands in anything that somebody will run.
"""

from __future__ import annotations

import re
from typing import Final

from lace.scenario.model import Scenario

_NAME_SHOWN: Final = 60
_UNFIT: Final = re.compile(r"[^A-Za-z0-9]+")


def identifier(name: str, between: str = "-") -> str:
    """Return a name of ASCII letters and digits that means nothing to a shell or to Python."""
    fit = _UNFIT.sub(between, name)[:_NAME_SHOWN].strip(between)
    return fit or "scenario"


def as_commands(scenario: Scenario, text: str) -> str:
    """Return shell commands that write the scenario to a file and run it."""
    file = f"{identifier(scenario.name)}.toml"
    end = "LACE_SCENARIO_END"
    while end in text:
        end += "_"
    written = f"cat > {file} <<'{end}'\n{text}{end}\n"
    return f"{written}lace scenario run {file}\nlace scenario test {file}\n"


def as_test(scenario: Scenario, text: str) -> str:
    """Return a pytest module that holds the scenario to its word."""
    return f'''"""A scenario, exported from the Lace workbench."""

from lace.scenario import load_scenario, run_scenario

TITLE = {scenario.title!r}
SCENARIO = {text!r}


def test_{identifier(scenario.name, "_")}() -> None:
    run = run_scenario(load_scenario(SCENARIO))
    assert [check for check in run.checks if not check.ok] == []
'''
