"""Settings for every test, and one Spark session for those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from rooms import TEST_SETTINGS

from lace.extras import left_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# No test depends on how fast the machine is.
settings.register_profile("lace", deadline=None)
settings.load_profile("lace")


pytest_plugins = ["open_stores"]
NO_LAKE = left_out("lake")
"""Why this Python cannot have what the lake needs; its tests are then reported as not run."""
collect_ignore_glob = ["lake/*", "unit/lake/*", "contract/test_lake_sql.py"] if NO_LAKE else []


def pytest_report_header() -> list[str]:
    return [f"NOT RUN: the tests of the lake. {NO_LAKE}"] if NO_LAKE else []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in pytest_report_header():
        terminalreporter.write_line(line, yellow=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs Spark or a browser, and keep together what shares something costly.

    With several workers, all tests of a group run in one of them: there is one Spark session, and
    while Playwright is at work nothing else in its process can run an event loop.
    """
    if "browser" in item.path.parts:
        item.add_marker(pytest.mark.browser)
        shared = "bundle" in getattr(item, "fixturenames", ())  # made with npm, in a folder of ours
        item.add_marker(pytest.mark.xdist_group("bundle" if shared else item.path.stem))
    elif "packaging" in item.path.parts:
        item.add_marker(pytest.mark.xdist_group("packaging"))
    elif "spark" in getattr(item, "fixturenames", ()) or "[spark" in item.name:
        item.add_marker(pytest.mark.spark)
        item.add_marker(pytest.mark.xdist_group("spark"))
    if NO_LAKE and ("spark" in item.keywords or "lake" in item.keywords):
        item.add_marker(pytest.mark.skip(reason=NO_LAKE))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last what keeps something large running: Spark, then a browser with its event loop."""
    last = ("spark", "browser")
    items.sort(key=lambda item: [name in item.keywords for name in reversed(last)])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from lace.lake.session import SparkOptions, open_session

    options = SparkOptions(
        master="local[2]",
        quick_start=True,
        settings=TEST_SETTINGS,
    )
    session = open_session(options)
    yield session
    session.stop()
