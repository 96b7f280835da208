"""The fleet of sensors, from a reading in the field to a line of the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lace
import sensors
from lace import blocking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWNER = lace.SigningKey.generate()
HOUR = 1_700_002_800  # a whole hour of UTC, in which TAI is 37 s ahead


def at(seconds: int) -> str:
    return f"{HOUR + seconds + 37}:000000000"


class Fleet:
    """A gateway and two devices, one of them admitted."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.gateway = stack.enter_context(lace.open(folder / "gateway.lace", key=OWNER))
        self.garden, self.roof = (
            stack.enter_context(lace.open(folder / name, key=lace.SigningKey.generate()))
            for name in ("garden.lace", "roof.lace")
        )
        self.admit(self.garden, "north")

    def admit(self, device: lace.Lace, site: str) -> None:
        assert device.key is not None
        sensors.admit(self.gateway, OWNER, device.key.verifier, site)

    def report(self, device: lace.Lace) -> int:
        return sensors.report(device, self.gateway, OWNER.verifier)

    def readings(self, device: lace.Lace) -> list[str]:
        rules = lace.selector(f"//{sensors.GROUP}//{sensors.READING.app}//")
        return [record.fields["Celsius"] for record in blocking.list(device, rules)]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def test_a_device_hands_over_and_forgets(fleet: Fleet) -> None:
    for number in range(3):
        sensors.measure(fleet.garden, f"2{number}.5", 90, at(number))
    assert fleet.report(fleet.garden) == 3
    assert fleet.readings(fleet.gateway) == ["20.5", "21.5", "22.5"]
    assert fleet.readings(fleet.garden) == []
    assert fleet.report(fleet.garden) == 0  # nothing comes back, nothing goes twice


def test_a_device_that_nobody_admitted_keeps_its_readings(fleet: Fleet) -> None:
    sensors.measure(fleet.roof, "30", 50, at(0))
    assert fleet.report(fleet.roof) == 0
    assert fleet.readings(fleet.gateway) == []
    assert fleet.readings(fleet.roof) == ["30"]
    fleet.admit(fleet.roof, "south")
    assert fleet.report(fleet.roof) == 1


def test_what_a_withdrawn_device_says_later_does_not_belong(fleet: Fleet) -> None:
    sensors.measure(fleet.garden, "20", 90, at(0))
    sensors.measure(fleet.garden, "99e-1", 90, at(10))
    assert fleet.garden.key is not None
    sensors.withdraw(fleet.gateway, OWNER, fleet.garden.key.verifier, at(10))
    assert fleet.report(fleet.garden) == 1
    assert fleet.readings(fleet.gateway) == ["20"]


@pytest.mark.parametrize(
    ("celsius", "battery", "part"),
    [
        ("warm", 50, "no temperature"), ("NaN", 50, "outside"), ("85.1", 50, "outside"),
        ("-61", 50, "outside"), ("20", 101, "battery"), ("20", -1, "battery"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_not_noted(fleet: Fleet, celsius: str, battery: int, part: str) -> None:
    with pytest.raises(sensors.Refused, match=part):
        sensors.measure(fleet.garden, celsius, battery)
    assert fleet.readings(fleet.garden) == []


def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    ring = lace.Keyring()
    for name in ("owner", "garden"):
        ring.add(name)
    store, device = str(tmp_path / "gateway.lace"), str(tmp_path / "garden.lace")
    words = ["--owner", "owner"]
    assert sensors.main([*words, "admit", store, "garden", "north"]) == 0
    assert sensors.main([*words, "measure", device, "garden", "21", "80"]) == 0
    assert sensors.main([*words, "measure", device, "garden", "hot", "80"]) == 1
    assert "no temperature" in capsys.readouterr().err
    assert sensors.main([*words, "report", device, "garden", "unix:/nowhere"]) == 1
    assert sensors.main([*words, "archive", store, str(tmp_path / "archive")]) == 0
    assert "1 in the archive" in capsys.readouterr().out  # the grant


def test_readings_end_on_the_dashboard(fleet: Fleet, spark: SparkSession, tmp_path: Path) -> None:
    from lace.lake.tables import Lake

    fleet.admit(fleet.roof, "north")
    for celsius, seconds in (("20", 0), ("22", 60), ("30", 3600)):
        sensors.measure(fleet.garden, celsius, 90, at(seconds))
    sensors.measure(fleet.roof, "24", 15, at(120))
    # Somebody who writes into the gateway's file is not in the fleet for that.
    stranger = lace.SigningKey.generate()
    fields = {"Celsius": "80", "Battery": "1"}
    blocking.store(fleet.gateway, [sensors.READING.build("x", "", fields, key=stranger)])
    assert (fleet.report(fleet.garden), fleet.report(fleet.roof)) == (3, 1)
    assert sensors.archive(fleet.gateway, tmp_path / "archive", OWNER.verifier) == 6
    lake = Lake.open(spark, str(tmp_path / "fleet.lake"), create=True)
    assert sensors.load(lake, tmp_path / "archive") == 6
    assert sensors.load(lake, tmp_path / "archive") == 0
    first, second = sensors.dashboard(spark, lake, OWNER.verifier)
    assert (first.site, first.readings, first.devices) == ("north", 3, 2)
    assert (first.mean, first.hottest, first.weakest_battery) == (22.0, 24.0, 15)
    assert isinstance(first.hour, datetime)
    assert (second.readings, second.mean) == (1, 30.0)
    assert (second.hour - first.hour).total_seconds() == 3600
