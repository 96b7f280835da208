"""Each policy of the cookbook does what its page says, and would be caught if it did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

import cookbook_page
from lace.scenario.build import build
from lace.scenario.model import Scenario
from lace.scenario.run import run_scenario

RECIPES = cookbook_page.recipes()
# What a careless author would write: everything belongs.
EVERYTHING = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"


def failures(scenario: Scenario) -> list[str]:
    done = run_scenario(build(scenario))
    assert done.checks
    return [f"{check.text}: {check.detail}" for check in done.checks if not check.ok]


def test_there_are_twenty() -> None:
    assert len(RECIPES) == 20


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_keeps_its_word(name: str) -> None:
    assert failures(RECIPES[name]) == []
    assert all(step.expect for step in RECIPES[name].steps)
    cookbook_page.story(RECIPES[name])


@pytest.mark.parametrize("name", RECIPES)
def test_rules_that_take_everything_break_it(name: str) -> None:
    scenario = RECIPES[name]
    careless = tuple((title, EVERYTHING) for title, _ in scenario.rules)
    # Some sentences ask for facts of rules that are gone; what counts is what travels too far.
    steps = tuple(
        replace(step, expect=tuple(one for one in step.expect if "derive" not in one.text))
        for step in scenario.steps
    )
    assert failures(replace(scenario, rules=careless, steps=steps)) != []


def test_a_recipe_without_its_limits_is_refused() -> None:
    with pytest.raises(ValueError, match="Guarantees"):
        cookbook_page.story(replace(RECIPES["roles"], story="Roles.\nDoes not: end.\n"))
