"""Databases that a test opens and leaves open: found on every Python, and always in that test.

Newer Pythons warn of such a database when the collector finds it, which is in any later test.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Generator

import pytest

_opened: list[sqlite3.Connection] = []
_watching = False


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _watching and event == "sqlite3.connect/handle":
        (connection,) = arguments
        assert isinstance(connection, sqlite3.Connection)
        _opened.append(connection)


sys.addaudithook(_note)


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018
    except sqlite3.ProgrammingError as error:
        return "closed" not in str(error)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    global _watching  # noqa: PLW0603
    _opened.clear()
    _watching = True
    try:
        return (yield)
    finally:
        _watching = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    result = yield
    left = sum(map(_is_open, _opened))
    _opened.clear()
    if left:
        pytest.fail(f"the test leaves {left} databases open: close each store", pytrace=False)
    return result
