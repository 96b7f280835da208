"""What a page needs is there without what its bundle leaves out: files, servers, tables, commands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

BUNDLE = Path(__file__).parents[3] / "web" / "bundle.py"
SCRIPT = """
import importlib, sys
from importlib.abc import MetaPathFinder

class LeftOut(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] == "lace" and {left_out}.intersection(parts[1:]):
            raise ImportError(f"the bundle has no {{name}}")

sys.meta_path.insert(0, LeftOut())
import lace
for name in ("explain", "for_each", "get", "list", "open", "open_interlace", "store", "sync"):
    assert callable(getattr(lace, name))
for name in ("RecordKind", "SigningKey"):
    assert isinstance(getattr(lace, name), type)
"""


def left_out() -> set[str]:
    for node in ast.parse(BUNDLE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "LEFT_OUT":
            assert isinstance(node.value, ast.Call)
            names = ast.literal_eval(node.value.args[0])
            return {name.removesuffix(".py") for name in names}
    raise AssertionError("web/bundle.py does not say what it leaves out")


def test_what_a_page_needs_is_in_its_bundle() -> None:
    # Only what dials needs extras, and a page dials in its own way; only the store of files needs
    # the others, and the bundle has another module in its place.
    files = {name for name in left_out() if name.startswith("sqlite_") or name == "drafts"}
    absent = left_out() - files - {"extras"}
    assert "projection" in absent
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(left_out=absent)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_what_stands_in_for_a_module_has_all_that_is_taken_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BUNDLE.parent))
    bundle = run_path(str(BUNDLE))
    engine = bundle["sources"]()["engine"]
    stand_ins = {
        inner.removesuffix(".py").replace("/", "."): engine[inner]
        for inner in bundle["OURS"]
        if inner.startswith("lace/")
    }
    assert len(stand_ins) == 3
    taken: set[tuple[str | None, str]] = set()
    for path in engine.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in stand_ins:
                taken |= {(node.module, alias.name) for alias in node.names}
    assert ("lace.crypto.native", "digest") in taken
    there = {
        (module, node.name)
        for module, path in stand_ins.items()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    assert taken <= there, sorted(taken - there)
