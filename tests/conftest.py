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
    def needs_spark(item: pytest.Item) -> bool:
        return "spark" in getattr(item, "fixturenames", ()) or "[spark" in item.name

    items.sort(key=needs_spark)


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
