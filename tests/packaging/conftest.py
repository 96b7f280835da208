"""The packages, built once, and an environment that holds the wheel and its dependencies alone."""

from __future__ import annotations

import pytest
from environments import WHEELS, Environment

import packages
from packages import Built


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return packages.build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="session")
def clean(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    if not WHEELS.is_dir():
        pytest.fail(f"there are no wheels in {WHEELS}: make test puts them there")
    environment = Environment(tmp_path_factory.mktemp("clean") / "env")
    environment.pip("install", built.wheel)
    return environment
