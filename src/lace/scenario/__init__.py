"""Scenarios: one file that says who meets whom with what, and what must come of it."""

from lace.crypto.keys import demo_key
from lace.scenario.build import Built, build, load_scenario
from lace.scenario.model import Scenario, ScenarioError
from lace.scenario.parse import parse_scenario
from lace.scenario.run import Run, run_scenario

__all__ = [
    "Built",
    "Run",
    "Scenario",
    "ScenarioError",
    "build",
    "demo_key",
    "load_scenario",
    "parse_scenario",
    "run_scenario",
]
