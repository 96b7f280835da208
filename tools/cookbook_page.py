"""The page of rules by example: each policy is a scenario in docs/cookbook, which a test runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lace.scenario.build import load_scenario
from lace.scenario.model import Scenario

FOLDER: Final = Path(__file__).parent.parent / "docs" / "cookbook"
ORDER: Final = {
    "Who may write": ("roles", "delegation", "return", "devices", "two-person", "one-vote"),
    "Who gets to see": ("guests", "private-drafts", "topics", "mute", "moderation"),
    "When": ("embargo", "expiry", "retention"),
    "How many": ("quota", "newest-three", "agreement"),
    "What comes along": ("evidence", "replies", "manifest"),
}
PROMISE, LIMIT = "Guarantees: ", "Does not: "


def recipes() -> dict[str, Scenario]:
    """Return the scenarios of the cookbook by name, in the order of the page."""
    names = [name for group in ORDER.values() for name in group]
    there = {path.stem for path in FOLDER.glob("*.toml")}
    if there != set(names) or len(names) != len(there):
        raise ValueError(f"the page and docs/cookbook differ in {sorted(there ^ set(names))}")
    return {
        name: load_scenario((FOLDER / f"{name}.toml").read_text(encoding="utf-8"), name).scenario
        for name in names
    }


def story(scenario: Scenario) -> tuple[str, str, str]:
    """Return what a recipe is about, what it guarantees, and what it does not."""
    lines = scenario.story.strip().splitlines()
    about, promise, limit = " ".join(lines[:-2]), lines[-2], lines[-1]
    if not (about and promise.startswith(PROMISE) and limit.startswith(LIMIT)):
        raise ValueError(f"{scenario.title}: its story has no {PROMISE}… and {LIMIT}… at its end")
    return about, promise.removeprefix(PROMISE), limit.removeprefix(LIMIT)


def cookbook() -> str:
    found = recipes()
    lines = [
        "# Rules by example",
        "",
        f"There are {len(found)} small policies to start from. Each is a",
        "[scenario](reference/scenario.md): its file has records, laces that meet, and sentences",
        "that must be true afterwards. A test holds it to them. Run one with",
        "`lace scenario run FILE`, or watch it with `lace workbench FILE`. A name in braces stands",
        "for the verifier of a key; in a file of your own, `lace.module_from_file` fills it in.",
        "",
        "Both heads are needed. `SelectHave` says what belongs of what is here, and so what may be",
        "sent. `SelectAdvertised` says what to ask for, by the fields that the other side offers.",
        "Most recipes look at the app alone; where several applications share a lace, add a test",
        "of the group.",
    ]
    for group, names in ORDER.items():
        lines += ["", f"## {group}"]
        for name in names:
            lines += _recipe(name, found[name])
    return "\n".join(lines) + "\n"


def _recipe(name: str, scenario: Scenario) -> list[str]:
    about, promise, limit = story(scenario)
    lines = ["", f"### {scenario.title}", "", about, ""]
    for title, text in scenario.rules:
        if len(scenario.rules) > 1:
            users = [peer.id for peer in scenario.peers if peer.rules == title]
            lines += [f"The rules of {' and '.join(users)}:", ""]
        lines += ["```lacegram", *text.strip().splitlines(), "```", ""]
    lines += [f"**It guarantees**: {promise}", "", f"**It does not** {limit}", ""]
    lines += [f"The test, [{name}.toml](cookbook/{name}.toml):", ""]
    for step in scenario.steps:
        wanted = "; ".join(f"`{one.text}`" for one in step.expect)
        lines.append(f"- {step.say} {wanted}")
    return lines
