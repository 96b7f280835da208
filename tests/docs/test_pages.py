"""The tutorial, the how-tos and the pages of examples do what they say: every block is run, every output compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import DOCS, matches, run_page

# Pages on the lake speak of clusters and of lakes that are there already; tests/lake runs the like.
HOWTOS = [page for page in (DOCS / "howto").glob("*.md") if not page.name.startswith("lake-")]
EXAMPLES = sorted(f"examples/{page.name}" for page in (DOCS / "examples").glob("*.md"))
PAGES = ["tutorial.md", *sorted(f"howto/{page.name}" for page in HOWTOS), *EXAMPLES]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_a_page_runs(name: str, tmp_path: Path) -> None:
    # Pages of examples are read in a clone, where they lie in this folder.
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    assert run_page(DOCS / name, tmp_path) >= 1


def test_a_wrong_output_would_be_seen() -> None:
    assert matches("one … three\n…\nend\n", "one two three\nmany\nlines\nend\n")
    assert not matches("one\n", "two\n")
    assert not matches("one\n", "one\ntwo\n")
