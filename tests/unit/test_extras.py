"""An extra that a Python cannot have is left out by the package, and its commands say why."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from lace import extras
from lace.errors import MissingExtra

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = PROJECT["project"]["optional-dependencies"]
PYTHONS = [(3, minor) for minor in range(11, 16)]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", sorted(extras.PACKAGES))
def test_the_package_leaves_out_what_the_code_says_is_left_out(
    extra: str, python: tuple[int, int]
) -> None:
    version = "{}.{}".format(*python)
    seen = {"python_version": version, "python_full_version": f"{version}.0"}
    needed = [Requirement(line) for line in DECLARED[extra]]
    installed = [one.name for one in needed if one.marker is None or one.marker.evaluate(seen)]
    assert bool(installed) == (extras.left_out(extra, python) is None)
    assert len(installed) in {0, len(needed)}, "an extra is whole or not there"


def test_every_supported_python_is_declared() -> None:
    declared = PROJECT["project"]["classifiers"]
    for major, minor in PYTHONS:
        assert f"Programming Language :: Python :: {major}.{minor}" in declared


def test_the_reason_is_one_sentence_that_names_the_pythons_that_can() -> None:
    why = extras.left_out("lake", (3, 15))
    assert why == (
        "PySpark needs pandas 2, which has no wheel for Python 3.15; Python 3.11 to 3.14 can have it."
    )


def test_a_command_says_why_instead_of_a_line_that_would_install_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    since = sys.version_info[:2]
    monkeypatch.setattr(extras, "NOT_YET", {"devcert": (since, "It needs a wheel")})
    monkeypatch.setattr(extras, "PACKAGES", {"devcert": ("no_such_package",)})
    with pytest.raises(MissingExtra) as caught:
        extras.require("devcert", "this command")
    assert caught.value.message == "this command cannot run on Python {}.{} yet".format(*since)
    assert caught.value.hint == extras.left_out("devcert")
    assert "pip install" not in str(caught.value)
