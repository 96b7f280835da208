"""The check of wheels reports each gap that is new, and each known one that has closed."""

from __future__ import annotations

import pytest
from packaging.pylock import Package, Pylock

import check_wheels
from check_wheels import SYSTEMS, Gap

HERE = SYSTEMS[0]
MAC = next(system for system in SYSTEMS if system.name == "macOS x86_64")


def package(*wheels: str, name: str = "thing", marker: str | None = None) -> Package:
    source = {"url": f"file:///{name}-1.0.tar.gz", "hashes": {"sha256": "0" * 64}}
    entry = {
        "name": name,
        "version": "1.0",
        "sdist": source,
        "wheels": [
            {"name": wheel, "url": f"file:///{wheel}", "hashes": {"sha256": "0" * 64}}
            for wheel in wheels
        ],
    } | ({"marker": marker} if marker else {})
    lock = {"lock-version": "1.0", "created-by": "test", "packages": [entry]}
    return Pylock.from_dict(lock).packages[0]


@pytest.mark.parametrize(
    ("wheel", "python", "fits"),
    [
        ("thing-1.0-py3-none-any.whl", "3.15", True),
        ("thing-1.0-cp314-cp314-manylinux_2_28_x86_64.whl", "3.14", True),
        ("thing-1.0-cp314-cp314-manylinux_2_28_x86_64.whl", "3.15", False),
        ("thing-1.0-cp311-abi3-manylinux2014_x86_64.whl", "3.15", True),
        ("thing-1.0-cp315-abi3-manylinux2014_x86_64.whl", "3.14", False),
        ("thing-1.0-cp314-cp314-manylinux_2_99_x86_64.whl", "3.14", False),
        ("thing-1.0-cp314-cp314-musllinux_1_2_x86_64.whl", "3.14", False),
        ("thing-1.0-cp314-cp314t-manylinux_2_28_x86_64.whl", "3.14", False),
    ],
)
def test_a_gap_is_a_python_and_a_system_that_no_wheel_fits(
    wheel: str, python: str, fits: bool
) -> None:
    gaps = list(check_wheels.find_gaps([package(wheel)], [python]))
    assert (Gap("thing", HERE.name, python) not in gaps) == fits


def test_each_system_is_asked_for_its_own_wheels() -> None:
    wheel = "thing-1.0-cp314-cp314-macosx_10_13_x86_64.whl"
    lacking = {gap.system for gap in check_wheels.find_gaps([package(wheel)], ["3.14"])}
    assert lacking == {system.name for system in SYSTEMS} - {MAC.name}


def test_a_package_that_a_marker_leaves_out_is_no_gap() -> None:
    old = package(marker="python_version < '3.14'")
    assert not list(check_wheels.find_gaps([old], ["3.14", "3.15"]))
    assert len(list(check_wheels.find_gaps([old], ["3.13"]))) == len(SYSTEMS)
    windows = package(marker="sys_platform == 'win32' and platform_machine == 'AMD64'")
    assert {gap.system for gap in check_wheels.find_gaps([windows], ["3.13"])} == {"Windows x86_64"}


def test_source_alone_is_a_gap_unless_it_is_known_to_be_pure() -> None:
    assert list(check_wheels.find_gaps([package()], ["3.11"]))
    assert not list(check_wheels.find_gaps([package(name="pyspark")], ["3.11"]))


def test_new_gaps_and_closed_ones_are_faults() -> None:
    known = frozenset({("old", HERE.name), ("closed", MAC.name)})
    found = [
        Gap("old", HERE.name, "3.11"),
        Gap("new", MAC.name, "3.15"),
        Gap("new", MAC.name, "3.14"),
    ]
    new, closed = check_wheels.verdict(found, known)
    assert new.startswith(f"new gap: new has no wheel for {MAC.name} and Python 3.14, 3.15. Pin")
    assert closed.startswith(f"closed gap: closed has wheels for {MAC.name} again. Take it out")
    assert (
        check_wheels.verdict([Gap("old", HERE.name, "3.11")], frozenset({("old", HERE.name)})) == []
    )


def test_the_supported_pythons_are_those_of_the_classifiers() -> None:
    found = check_wheels.supported_pythons(["Typing :: Typed", "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.9", "Programming Language :: Python :: 3.15"])  # fmt: skip
    assert found == ["3.9", "3.15"]
