"""What ``lace.limits`` promises: every number that something is refused or cut by stands there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lace

SOURCE = Path(lace.__file__).parent

# Facts of a format, of the system or of a clock; no lace could choose another number.
GIVEN = {
    "crypto/keys.py": {"_SIZE"},
    "driving/journal.py": {"VERSION"},
    "interlace/facts.py": {"_LONGEST_DECIMAL"},
    "interlace/summary.py": {"LONGEST_PREFIX"},
    "interlace/sketch.py": {"MOST_CELLS"},
    "interlace/sketching.py": {"_NAME_BYTES"},
    "lake/dialect.py": {"_BIGINT", "_INT"},
    "record/split.py": {"_LONGEST_DIGITS"},
    "stream/items.py": {"_LONGEST_HEAD"},
    "tai.py": {"_MAX_NS"},
    "transport/address.py": {"_LONGEST_HOST", "_LONGEST_UNIX_PATH"},
    "values.py": {"MOST_DIGITS", "_INT_BITS"},
}
WORDS = ("MOST", "MAX", "LARGEST", "LONGEST", "DEEPEST", "LIMIT")
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def is_number(value: ast.expr, known: set[str]) -> bool:
    """Return whether an expression is made of numbers alone."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left, known) and is_number(value.right, known)
    if isinstance(value, ast.Name):
        return value.id in known
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def numbers(tree: ast.Module) -> set[str]:
    """Return the names of a module that stand for numbers."""
    found = {"MIB"}
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        if is_number(value, found):
            found.add(name)
    return found - {"MIB"}


def refused_by(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a condition compares with before something is raised or refused."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and any(map(ends, node.body)):
            for part in ast.walk(node.test):
                if isinstance(part, ast.Compare) and any(isinstance(op, ORDER) for op in part.ops):
                    yield from (n.id for n in ast.walk(part) if isinstance(n, ast.Name))


def ends(node: ast.stmt) -> bool:
    match node:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return "refuse" in name
    return False


def limits_in(text: str) -> set[str]:
    """Return the names of a module that look like limits of its own."""
    tree = ast.parse(text)
    own = numbers(tree)
    named = {name for name in own if any(word in name.split("_") for word in WORDS)}
    return named | (own & set(refused_by(tree)))


def test_every_limit_stands_in_one_module() -> None:
    found = {
        name: limits
        for path in sorted(SOURCE.rglob("*.py"))
        if (name := path.relative_to(SOURCE).as_posix()) != "limits.py"
        and (limits := limits_in(path.read_text(encoding="utf-8")) - GIVEN.get(name, set()))
    }
    assert not found, "put it into lace/limits.py, or name it by what it is"


def test_what_is_given_is_used() -> None:
    for name, given in GIVEN.items():
        assert given <= numbers(ast.parse((SOURCE / name).read_text(encoding="utf-8"))), name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("MOST_LINES = 5", {"MOST_LINES"}),
        ("_LARGEST: Final = 4 * MIB", {"_LARGEST"}),
        ("SIZE = 5\ndef f(a):\n    if len(a) > SIZE:\n        raise ValueError", {"SIZE"}),
        ("SIZE = 5\ndef f(a):\n    if len(a) > SIZE:\n        _refuse('x')", {"SIZE"}),
        ("SIZE = 5\ndef f(a):\n    if a == SIZE:\n        raise ValueError", set()),
        ("SIZE = 5\ndef f(a):\n    if len(a) > SIZE:\n        return", set()),
        ("MOST = FIXED.links", set()),
    ],
)
def test_a_limit_of_its_own_is_noticed(text: str, found: set[str]) -> None:
    assert limits_in(text) == found
