"""Generated pages are fresh, and tests name only requirements that exist."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import generate_docs
import requirements
from lace.interlace.phases import TRANSITIONS, Occasion, Phase, Phases


def test_no_page_is_stale() -> None:
    assert generate_docs.stale_pages() == [], "run make docs"


def test_tests_name_known_requirements_only() -> None:
    assert requirements.unknown_ids() == []


def test_an_unknown_id_or_a_stale_page_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_x.py").write_text("@pytest.mark.req('999-NO-01')\ndef test_y(): ...\n")
    monkeypatch.setattr(requirements, "TESTS", tmp_path)
    assert requirements.unknown_ids() == ["999-NO-01"]
    assert "conformance.md" in generate_docs.stale_pages()


def test_the_list_is_whole_and_ids_are_unique() -> None:
    ids = [requirement.id for requirement in requirements.requirements()]
    assert len(ids) == len(set(ids)) == 625


def test_the_lower_specs_are_covered() -> None:
    """What the foundations promise: nothing of 006, 009, 010, 020 and 110-URC is 'not yet'."""
    named = requirements.named_by_tests()
    missing = [
        requirement.id
        for requirement in requirements.requirements()
        if requirement.id.startswith(("006-", "009-", "010-", "020-", "110-URC", "110-COO"))
        and requirement.id not in named
    ]
    assert missing == []


def test_the_diagram_of_phases_has_every_move_and_no_other() -> None:
    page = generate_docs.phases()
    drawn = re.findall(r"^ +(\w+) --> (\w+): (.+)$", page, flags=re.MULTILINE)
    found = {
        (before, Occasion(occasion)): Phase(after)
        for phase, after, occasion in drawn
        for before in ([p for p in Phase if p != after] if phase == "exchange" else [Phase(phase)])
    }
    assert found == TRANSITIONS
    for field in fields(Phases):
        assert (f"| `{field.name}` | " in page) is (field.name != "phase")
