"""The page on installing names the commands that exist and the gaps that the checks know."""

from __future__ import annotations

import re
import tomllib

from pages import DOCS

from check_wheels import KNOWN_GAPS, supported_pythons
from lace.extras import NOT_YET

PAGE = (DOCS / "howto" / "install.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (DOCS.parent / "Makefile").read_text(encoding="utf-8")


def test_each_make_target_exists() -> None:
    named = re.findall(r"\bmake (?:[A-Z]+=\S+ )*([a-z-]+)", PAGE)
    assert set(named) >= {"demo", "check-wheels", "check-debian"}
    for target in named:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_the_gaps_are_those_that_the_check_knows() -> None:
    rows = re.findall(r"^\| `([a-z0-9]+)`(?: 2, [^|]*)? \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert {package for package, where in rows if "Python" not in where} == {
        package for package, _ in KNOWN_GAPS
    }
    assert [where for _, where in rows if "Python" in where] == [
        "Python {}.{}".format(*since) for since, _ in NOT_YET.values()
    ]


def test_the_pythons_are_those_of_the_package() -> None:
    pythons = supported_pythons(PROJECT["classifiers"])
    assert f"CPython {pythons[0]} to {pythons[-1]}" in PAGE
    assert PAGE.count(f"| {pythons[0]} to {pythons[-1]} |") == 4
