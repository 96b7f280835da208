"""The notebooks run from top to bottom, and show what they show now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import run_notebook

NOTEBOOKS = sorted(run_notebook.FOLDER.glob("*.ipynb"))


def test_there_is_one() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_it_gives_now(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert run_notebook.run_notebook(path) == text, "run python tools/run_notebook.py"
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    assert any(cell.get("outputs") for cell in notebook["cells"])


def test_a_cell_that_fails_or_says_something_else_would_be_seen(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["1 + 1"], "outputs": []}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    (made,) = json.loads(run_notebook.run_notebook(path))["cells"]
    assert made["outputs"][0]["data"] == {"text/plain": ["2"]}
    path.write_text(json.dumps({"cells": [cell | {"source": ["1 / 0"]}]}), encoding="utf-8")
    with pytest.raises(ZeroDivisionError):
        run_notebook.run_notebook(path)
