"""Every block of rules in the documents passes the checks that rules pass before they run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lace
from lace.vocabulary import ROLES

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```lacegram\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
FOUND = [
    (f"{page.relative_to(ROOT)}, line {text.count(chr(10), 0, block.start()) + 1}", block[1])
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for text in [page.read_text(encoding="utf-8")]
    for block in BLOCK.finditer(text)
]


def faults(text: str) -> list[str]:
    """Return what the most fitting role says against rules."""
    role = "expose" if "AllowQueryRecord" in text else "selector"
    return [str(one) for one in lace.check_lacegram(text, role=ROLES[role]).errors]


def test_there_are_blocks() -> None:
    assert len(FOUND) >= 4


@pytest.mark.parametrize(("place", "text"), FOUND, ids=[place for place, _ in FOUND])
def test_rules_of_a_page_can_be_used(place: str, text: str) -> None:
    assert faults(text) == [], place


def test_a_fault_would_be_seen() -> None:
    assert faults("A(X) :- Have(P).\n")
    assert faults("MaySend(P) :- Have(P).\n")
