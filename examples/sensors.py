"""A fleet of sensors: they measure offline, report to a gateway, and everything ends in a lake.

The owner of the fleet admits devices with signed records. A gateway takes what admitted devices
signed, archives it day by day, and a lake answers what a dashboard asks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lace
from lace import blocking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lace.lake.tables import Lake

GROUP, APP = "fleet", "sensors"
COLDEST, HOTTEST = Decimal(-60), Decimal(85)
READING = lace.RecordKind(
    group=GROUP,
    app=f"{APP}/reading",
    fields=("Celsius", "Battery"),
    required=("Celsius", "Battery"),
    types={"Celsius": "decimal", "Battery": "int"},
)
DEVICE = lace.RecordKind(
    group=GROUP, app=f"{APP}/device", fields=("Device", "Site"), required=("Device", "Site")
)
WITHDRAWN = lace.RecordKind(
    group=GROUP, app=f"{APP}/withdrawn", fields=("Device", "From"), required=("Device", "From")
)
# A reading is taken from the device that signed it, and from nobody else: so a device may forget
# what the gateway has, and does not get it again.
FLEET = """
Word('sensors/device') :- true.
Word('sensors/withdrawn') :- true.
Device(V) :-
  Have(G), Field(G,'App',_,'sensors/device'), Field(G,'Signed-By',_,'{owner}'),
  Field(G,'Device',_,V).
Withdrawn(V,T) :-
  Have(G), Field(G,'App',_,'sensors/withdrawn'), Field(G,'Signed-By',_,'{owner}'),
  Field(G,'Device',_,V), Field(G,'From',_,T).
TooLate(P) :-
  Have(P), Field(P,'App',_,'sensors/reading'), Field(P,'Signed-By',_,V), Field(P,'TAI',_,Made),
  Withdrawn(V,T), LexCompare(Made,'>=',T).
OfferedTooLate(P) :-
  AdvertisedField(P,_,'Signed-By',_,V), AdvertisedField(P,_,'TAI',_,Made),
  Withdrawn(V,T), LexCompare(Made,'>=',T).
SelectHave(P) :- Have(P), Field(P,'App',_,A), Word(A), Field(P,'Signed-By',_,'{owner}').
SelectHave(P) :-
  Have(P), Field(P,'App',_,'sensors/reading'), Field(P,'Signed-By',_,V), Device(V), not TooLate(P).
SelectAdvertised(P,S) :-
  AdvertisedField(P,S,'App',_,A), Word(A), AdvertisedField(P,S,'Signed-By',_,'{owner}').
SelectAdvertised(P,S) :-
  AdvertisedField(P,S,'App',_,'sensors/reading'), AdvertisedField(P,S,'Signed-By',_,S), Device(S),
  not OfferedTooLate(P).
"""
# TAI is 37 seconds ahead of UTC since 2017.
DASHBOARD = """
SELECT devices.Site AS site,
       date_trunc('hour', timestamp_seconds(bigint(substring(readings.TAI, 1, 10)) - 37)) AS hour,
       count(*) AS readings, count(DISTINCT readings.`Signed-By`) AS devices,
       round(avg(double(readings.Celsius)), 2) AS mean, max(double(readings.Celsius)) AS hottest,
       min(int(readings.Battery)) AS weakest_battery
FROM readings JOIN devices ON readings.`Signed-By` = devices.Device
GROUP BY 1, 2 ORDER BY 1, 2
"""


class Refused(Exception):
    """What was asked for makes no sense; says why."""


def fleet_rules(owner: str) -> lace.PolicyModule:
    """What belongs: on a device, in the gateway, in the archive and in the lake."""
    return lace.module_from_text(FLEET, owner=owner)


# --- the owner ------------------------------------------------------------------------------------


def admit(gateway: lace.Lace, owner: lace.SigningKey, device: str, site: str) -> None:
    """Let a device into the fleet, at a site."""
    fields = {"Device": device, "Site": site}
    blocking.store(gateway, [DEVICE.build(device, "", fields, key=owner)])


def withdraw(gateway: lace.Lace, owner: lace.SigningKey, device: str, since: str) -> None:
    """Take a device out of the fleet: what it says of this instant or later no longer belongs."""
    fields = {"Device": device, "From": since}
    blocking.store(gateway, [WITHDRAWN.build(device, "", fields, key=owner)])


# --- a device -------------------------------------------------------------------------------------


def measure(device: lace.Lace, celsius: str, battery: int, tai: str | None = None) -> str:
    """Note a reading on the device; return its hash. No network is needed."""
    try:
        value = Decimal(celsius)
    except InvalidOperation:
        raise Refused(f"{celsius} is no temperature") from None
    if not value.is_finite() or not COLDEST <= value <= HOTTEST:
        raise Refused(f"{celsius} is outside of what the sensor can measure")
    if not 0 <= battery <= 100:
        raise Refused(f"a battery is between 0 and 100, not {battery}")
    if device.key is None:
        raise Refused("a device needs a key")
    made = tai or lace.tai_now()
    name = f"{device.key.verifier}/{made.replace(':', '.')}"
    fields = {"Celsius": str(value), "Battery": str(battery)}
    record = READING.build(name, "", fields, key=device.key, tai=made)
    blocking.store(device, [record])
    return record.hash


def report(device: lace.Lace, gateway: lace.Lace | str, owner: str) -> int:
    """Hand over all readings, and forget what the gateway has; return how many it got.

    What it asks for a second time it did not keep, for lack of room say: that stays on the device.
    """
    first, second = (blocking.sync(device, gateway, fleet_rules(owner)) for _ in range(2))
    kept = set(first.sent) - set(second.sent)
    if kept:
        # Nothing of it is kept: a device has little room, and nobody offers it its own readings.
        blocking.forget(device, lace.hashes(sorted(kept)), may_return=True)
    return len(kept)


# --- the gateway ----------------------------------------------------------------------------------


async def serve(gateway: lace.Lace, address: str, owner: str) -> None:
    """Take reports until the task is cancelled."""
    async with lace.serve(gateway, address, policy=fleet_rules(owner)) as server:
        print(json.dumps({"listening": server.addresses}), flush=True)
        await asyncio.Event().wait()


def archive(gateway: lace.Lace, folder: Path, owner: str) -> int:
    """Write what belongs into a file of records for the lake; return how many it has.

    The file has the name of today. A lake takes each record once, in however many files it is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(UTC):%Y-%m-%d}.records"
    return blocking.export_file(gateway, path, fleet_rules(owner), overwrite=True).records


# --- the lake -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """What a dashboard shows of one site in one hour."""

    site: str
    hour: datetime
    readings: int
    devices: int
    mean: float
    hottest: float
    weakest_battery: int


def load(lake: Lake, folder: Path) -> int:
    """Bring an archive into a lake; return how many records are new there."""
    from lace.lake.ingest import ingest  # Spark is needed here alone

    return ingest(lake, [str(folder)]).records


def dashboard(spark: SparkSession, lake: Lake, owner: str) -> list[Line]:
    """Return a line for each site and hour, by the rules of the fleet."""
    from lace.lake.select import select

    with select(lake.snapshot(), fleet_rules(owner).program) as chosen:
        everything = chosen.project(
            ["App", "TAI", "Signed-By", "Celsius", "Battery", "Device", "Site"]
        )
        everything.where(f"App = '{READING.app}'").createOrReplaceTempView("readings")
        everything.where(f"App = '{DEVICE.app}'").createOrReplaceTempView("devices")
        return [Line(**row.asDict()) for row in spark.sql(DASHBOARD).collect()]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--owner", required=True, help="the owner of the fleet: a name of the keyring"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in {
        "admit": ("store", "device", "site"), "withdraw": ("store", "device"),
        "measure": ("store", "device", "celsius", "battery"),
        "report": ("store", "device", "gateway"),
        "gateway": ("store", "address"), "archive": ("store", "folder"),
        "load": ("lake", "folder"), "dashboard": ("lake",),
    }.items():  # fmt: skip
        command = commands.add_parser(name)
        for word in words:
            command.add_argument(word, type=int if word == "battery" else str)
    chosen = parser.parse_args(arguments)
    try:
        run(chosen, lace.Keyring())
    except (Refused, lace.LaceError) as error:
        print(f"sensors: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run(chosen: Any, ring: lace.Keyring) -> None:
    """Do what a command says."""
    owner = ring.get(chosen.owner)
    if chosen.command in {"load", "dashboard"}:
        from lace.lake.session import open_session
        from lace.lake.tables import Lake

        spark = open_session()
        lake = Lake.open(spark, chosen.lake, create=chosen.command == "load")
        if chosen.command == "load":
            print(load(lake, Path(chosen.folder)), "new in the lake")
            return
        for line in dashboard(spark, lake, owner.verifier):
            print(json.dumps(asdict(line), default=str))
        return
    device = ring.get(chosen.device) if "device" in chosen else None
    key = device.key if device and chosen.command in {"measure", "report"} else owner.key
    with lace.open(chosen.store, key=key) as local:
        match chosen.command:
            case "admit" if device:
                admit(local, owner.key, device.verifier, chosen.site)
            case "withdraw" if device:
                withdraw(local, owner.key, device.verifier, lace.tai_now())
            case "measure":
                print(measure(local, chosen.celsius, chosen.battery))
            case "report":
                print(report(local, chosen.gateway, owner.verifier), "handed over")
            case "archive":
                print(archive(local, Path(chosen.folder), owner.verifier), "in the archive")
            case _:
                with suppress(asyncio.CancelledError):
                    asyncio.run(serve(local, chosen.address, owner.verifier))


if __name__ == "__main__":
    sys.exit(main())
