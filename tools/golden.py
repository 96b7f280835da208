"""Make the golden files of this version: what later versions have to be able to open.

``make golden`` writes tests/data/golden/VERSION with a keyring, two laces that have met
(their stores, their settings, what they remember of the link), exports, a journal and a lake, and
``manifest.json``, which says what must be found in them. Records, keys and times are always the
same; files are not, byte for byte, because some note when they were written.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lace
from lace._version import __version__
from lace.api.handles import store_of
from lace.keyring import Contacts, Keyring
from lace.record import Record, build_blob, build_plex, seal
from lace.recordstore.base import StoreRecordId
from lace.recordstore.sqlite_file import VERSION as SCHEMA

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "tests" / "data" / "golden"
SELECT = "//golden//notes//"
PASSPHRASE = "golden passphrase"  # noqa: S105 (of files that everybody has)
SIDES = ("ann", "bob")
COUNT = 60
DATE = (2026, 1, 1, 0, 0, 0)


def tai(number: int) -> str:
    return f"{1_700_000_000 + number:010d}:{number:09d}"


def plex(number: int, extras: Iterable[tuple[str, str]] = (), data: bytes = b"") -> Any:
    return build_plex(
        group="golden",
        app="notes",
        name=f"n/{number}",
        tai=tai(number),
        extras=extras,
        data=data or b"note %d \xc3\xa4" % number,
    )


def records(keyring: Keyring) -> dict[str, list[Record]]:
    """Return records of all kinds by who has them first."""
    keys = [keyring.get(name).key for name in SIDES]
    made: dict[str, list[Record]] = {name: [] for name in SIDES}
    blob = build_blob(b"a blob of its own")
    made["ann"].append(blob)
    for number in range(COUNT):
        one = plex(number, [("Tag", f"t{number % 3}")])
        which = number % 2
        made[SIDES[which]].append(
            one if number % 5 == 0 else seal(one, keys[which], aux=bytes([number]) * 32)
        )
    linked = made["ann"][1].hash
    made["ann"].append(plex(COUNT, [("Reply-To", f"////{linked}"), ("Tag", "t0"), ("Tag", "t1")]))
    made["bob"].append(plex(COUNT + 1, data=bytes(range(256)) * 40))
    # A second version at one place, and one outside what the laces exchange.
    made["bob"].append(build_plex(group="golden", app="notes", name="n/1", tai=tai(900), data=b"2"))
    made["ann"].append(build_plex(group="golden", app="private", name="p", tai=tai(901)))
    return made


async def fill(folder: Path) -> dict[str, Any]:
    """Make the laces, and have them meet."""
    keyring = Keyring(folder / "keyring.toml")
    for name in SIDES:
        keyring.add(name, demo=True)
    shutil.copy(folder / "keyring.toml", folder / "sealed.toml")
    Keyring(folder / "sealed.toml").seal(PASSPHRASE)
    verifiers = {name: str(keyring.get(name).verifier) for name in SIDES}
    Contacts(folder / "contacts.toml").add("cy", verifiers["ann"], force=True)
    given = records(keyring)
    for name in SIDES:
        (folder / name).mkdir()
        text = f'store = "records.lace"\nselect = "{SELECT}"\n'
        text += '\n[peers.other]\naddress = "tcp:127.0.0.1:4790"\n'
        (folder / name / "lace.toml").write_text(text, encoding="utf-8")
        lace.open(folder / name / "records.lace").close()
        async with lace.open(folder / name) as local:
            await lace.store(local, given[name])
    for_good, may_return = given["ann"][5].hash, given["bob"][5].hash
    async with lace.open(folder / "ann") as local:
        await lace.forget(local, f"////{for_good}")
    async with lace.open(folder / "bob") as local:
        await lace.forget(local, f"////{may_return}", may_return=True)
    ann, bob = (keyring.get(name).key for name in SIDES)
    async with (
        lace.open(folder / "ann", key=ann) as here,
        lace.open(folder / "bob", key=bob) as there,
    ):
        async with lace.serve(here, "tcp:127.0.0.1:0", policy=SELECT, accept=["anyone"]) as server:
            for number in range(2):
                journal = folder / "exchange.journal" if number else None
                await lace.sync(there, server.addresses[0], SELECT, journal=journal)
        for form in ("records", "jsonl", "csv"):
            await lace.export_file(here, folder / f"export.{form}", SELECT)
    found: dict[str, Any] = {}
    for name in SIDES:
        async with lace.open(folder / name) as local:
            store = store_of(local)
            found[name] = {
                "records": sorted(
                    str(entry.hash) for entry in store.read(StoreRecordId(0), 10_000)
                ),
                "selected": sorted(str(r.hash) for r in await lace.list(local, SELECT)),
                "forgotten": sorted(await lace.forgotten(local)),
            }
    return {
        "version": __version__,
        "schema": SCHEMA,
        "select": SELECT,
        "passphrase": PASSPHRASE,
        "verifiers": verifiers,
        "laces": found,
        "replies": {"target": str(given["ann"][1].hash), "by": str(given["ann"][-2].hash)},
        "texts": {str(r.hash): r.raw.decode("latin-1") for r in given["ann"][:4]},
    }


def fill_lake(folder: Path, archive: Path) -> dict[str, Any]:
    """Make a lake of an archive: with something put aside, something forgotten, two versions."""
    from lace.lake.forget import forget
    from lace.lake.ingest import ingest
    from lace.lake.session import SparkOptions, open_session
    from lace.lake.tables import Lake

    content = archive.read_bytes()
    half = folder / "first.records"
    half.write_bytes(content[: len(content) // 2] + b"this is no record")
    shutil.copy(archive, folder / "second.records")
    session = open_session(SparkOptions(master="local[1]", quick_start=True))
    try:
        lake = Lake.open(session, str(folder / "lake"), create=True)
        for bundle in (half, folder / "second.records"):
            ingest(lake, [str(bundle)])
        hashes = sorted(row.hash for row in lake.snapshot().records.select("hash").collect())
        gone = hashes[7]
        forget(lake, [gone])
        version = lake.records_log.version()
        return {
            "records": [hash for hash in hashes if hash != gone],
            "forgotten": [gone],
            "version": version.number,
            "put_aside": lake.quarantine().count(),
        }
    finally:
        session.stop()


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def pack(folder: Path, target: Path) -> None:
    """Write a folder into an archive whose bytes depend on its files alone."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in files(folder):
            if path.suffix == ".crc":  # notes of Java about its own files
                continue
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())


def main(target: Path = TARGET) -> None:
    place = target / __version__
    if place.exists():
        sys.exit(f"{place} is there: what a release wrote is not made again by a later one")
    place.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lace-golden-") as name:
        work = Path(name)
        os.environ["LACE_KEYRING"] = str(work / "laces" / "keyring.toml")
        (work / "laces").mkdir()
        (work / "lake").mkdir()
        manifest = asyncio.run(fill(work / "laces"))
        for path in files(work / "laces"):
            if path.name.startswith(".") or path.name == "met.json":
                path.unlink()
        manifest["lake"] = fill_lake(work / "lake", work / "laces" / "export.records")
        pack(work / "laces", place / "laces.zip")
        pack(work / "lake" / "lake", place / "lake.zip")
    text = json.dumps(manifest, indent=1, sort_keys=True)
    (place / "manifest.json").write_text(f"{text}\n", encoding="utf-8")
    for path in files(place):
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
