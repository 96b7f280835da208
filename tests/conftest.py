"""Settings for every test, and one Spark session for those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from rooms import TEST_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# No test depends on how fast the machine is.
settings.register_profile("lace", deadline=None)
settings.load_profile("lace")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put last what keeps something large running: Spark, then a browser with its event loop."""

    def place(item: pytest.Item) -> int:
        if "browser" in item.path.parts:
            return 2
        return int("spark" in getattr(item, "fixturenames", ()) or "[spark" in item.name)

    items.sort(key=place)


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
