"""Which tests show which requirements: read from the tests' own marks, without running them."""

from __future__ import annotations

import ast
import csv
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = ROOT / "docs" / "requirements.csv"
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True)
class Requirement:
    id: str
    level: str
    title: str


def requirements() -> list[Requirement]:
    """Return all requirements in the order of the list."""
    with LIST.open(encoding="utf-8", newline="") as file:
        return [Requirement(row["id"], row["level"], row["title"]) for row in csv.DictReader(file)]


def named_by_tests() -> dict[str, list[str]]:
    """Return, for each id that a test names, the tests that do so."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, ids in _named_in(path.read_text(encoding="utf-8")):
            for id in ids:
                found[id].append(f"{path.relative_to(TESTS).as_posix()}::{name}")
    return found


@cache
def _named_in(text: str) -> list[tuple[str, list[str]]]:
    """Return the tests and cases of a file, with the ids that each names."""
    tree = ast.parse(text)
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((function.name, _ids(function)))
            found += [(f"{function.name}[{case}]", ids) for case, ids in _cases(function, tree)]
    return found


def unknown_ids() -> list[str]:
    """Return what tests name that is not in the list."""
    known = {requirement.id for requirement in requirements()}
    return sorted(set(named_by_tests()) - known)


def _ids(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    ids: list[str] = []
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.req":
            ids += [ast.literal_eval(argument) for argument in decorator.args]
    return ids


def _cases(
    function: ast.FunctionDef | ast.AsyncFunctionDef, tree: ast.Module
) -> Iterator[tuple[str, list[str]]]:
    """Yield the cases of a test that name requirements: ``showing(cases, TABLE)``, with the ids."""
    tables = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for decorator in function.decorator_list:
        for call in ast.walk(decorator):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "showing":
                shows = call.args[1]
                assert isinstance(shows, ast.Name), "showing needs the name of a table"
                for case, ids in ast.literal_eval(tables[shows.id]).items():
                    yield case, ids.split()
