"""A scenario as something to pass on: shell commands, and a test for somebody's own suite."""

from __future__ import annotations

from lace.scenario.model import Scenario


def as_commands(scenario: Scenario, text: str) -> str:
    """Return shell commands that write the scenario to a file and run it."""
    file = f"{scenario.name}.toml"
    end = "LACE_SCENARIO_END"
    while end in text:
        end += "_"
    written = f"cat > {file} <<'{end}'\n{text}{end}\n"
    return f"{written}lace scenario run {file}\nlace scenario test {file}\n"


def as_test(scenario: Scenario, text: str) -> str:
    """Return a pytest module that holds the scenario to its word."""
    name = scenario.name.replace("-", "_")
    return f'''"""{scenario.title}: exported from the Lace workbench."""

from lace.scenario import load_scenario, run_scenario

SCENARIO = {text!r}


def test_{name}() -> None:
    run = run_scenario(load_scenario(SCENARIO))
    assert [check for check in run.checks if not check.ok] == []
'''
