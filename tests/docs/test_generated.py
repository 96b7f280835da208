"""Generated pages are fresh, and tests name only requirements that exist."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import drawing
import generate_docs
import module_map
import pictures
import requirements
from lace.interlace.phases import TRANSITIONS, Occasion, Phase, Phases

_MOST_IDS = 7


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


def test_a_test_of_many_cases_leaves_many_ids_to_its_cases() -> None:
    """One mark with thirty ids says nothing of which case shows what."""
    for path in requirements.TESTS.rglob("test_*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef) and "parametrize" in "".join(
                map(ast.unparse, function.decorator_list)
            ):
                assert len(requirements._ids(function)) <= _MOST_IDS, (path.name, function.name)


def test_cases_name_requirements_too() -> None:
    named = requirements.named_by_tests()
    assert named["030-CARD-04"] == [
        "contract/test_evaluator.py::test_cases[a repeated local variable]"
    ]


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


def test_the_picture_of_phases_has_every_move_and_no_other() -> None:
    drawn = re.findall(r'data-move="(\w+), (.+), (\w+)"', pictures.phases())
    found = {(Phase(before), Occasion(what)): Phase(after) for before, what, after in drawn}
    ends = {(before, Occasion.OVER): Phase.CLOSED for before in Phase if before != Phase.CLOSED}
    assert found | ends == TRANSITIONS
    page = generate_docs.phases()
    for field in fields(Phases):
        assert (f"| `{field.name}` | " in page) is (field.name != "phase")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ink", [drawing.INK, drawing.SOFT])
def test_text_in_pictures_stands_out(ink: str) -> None:
    """Pictures bring their own sheet, so that it does not matter whether the page is dark."""
    for fill in drawing.FILLS:
        dark, light = sorted((luminance(ink), luminance(fill)))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, fill


def test_pictures_use_no_other_colours_and_load_nothing() -> None:
    known = {*drawing.FILLS, drawing.INK, drawing.SOFT, drawing.LINE}
    for name, draw in pictures.PICTURES.items():
        text = draw()
        assert set(re.findall(r"#[0-9a-f]{6}", text)) <= known, name
        assert not re.search(r"href|url\((?!#)|<script|<image", text), name
        ET.fromstring(text)  # noqa: S314 (our own text)


def test_the_map_has_every_module_once() -> None:
    listed = re.findall(r"^\| `(lace\.[\w.]+)` \|", module_map.module_page(), flags=re.MULTILINE)
    there = {
        ".".join(path.relative_to(module_map.SOURCE.parent).with_suffix("").parts)
        for path in module_map.SOURCE.rglob("*.py")
    }
    packages = {name.removesuffix(".__init__") for name in there} - {"lace"}
    assert sorted(listed) == sorted(packages)
    rows = [name for row in module_map.rows() for name in row]
    table = re.findall(r"^\| `(\w+)` \|", module_map.contributing(), flags=re.MULTILINE)
    assert table == rows
