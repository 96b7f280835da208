"""What is written for browsers has lines of at most a hundred columns."""

from __future__ import annotations

from pathlib import Path

from check_web import MOST_COLUMNS, ROOT, long_lines


def test_no_line_of_ours_is_too_long() -> None:
    assert long_lines(ROOT) == []


def test_a_long_line_is_found_and_that_of_others_is_not(tmp_path: Path) -> None:
    for place in ("src/page.js", "web/style.css", "src/vendor/their.js", "web/node_modules/a.mjs"):
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("short\n" + "ü" * MOST_COLUMNS + "\n" + "x" * (MOST_COLUMNS + 1) + "\n")
    said = f"3: {MOST_COLUMNS + 1} columns, and {MOST_COLUMNS} is the most"
    assert long_lines(tmp_path) == [f"src/page.js:{said}", f"web/style.css:{said}"]
