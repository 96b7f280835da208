"""What each release wrote opens in this version, with all that is in it; newer files are refused.

``tests/data/golden`` has a folder for each release, made by ``tools/golden.py`` of that release.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as command
from earlier import environment_of
from wires import notes

import lace
from lace import blocking
from lace.driving.journal import VERSION as JOURNAL
from lace.errors import Code, LaceError
from lace.interlace.messages import InterlaceResult
from lace.keyring import Contacts, Keyring
from lace.recordstore.base import StoreRecordId
from lace.recordstore.sqlite import SqliteStore
from lace.recordstore.sqlite_file import VERSION as SCHEMA

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
SIDES = ("ann", "bob")
MOST_BYTES = 300_000
REPLIES = """
SelectHave(P) :- Have(P), Field(P,'Reply-To',_,'////{target}').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Reply-To',_,'////{target}').
"""


@pytest.fixture(params=sorted(path.name for path in GOLDEN.iterdir()))
def release(request: pytest.FixtureRequest) -> Path:
    return GOLDEN / str(request.param)


@pytest.fixture
def manifest(release: Path) -> dict[str, Any]:
    found = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def folder(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of what a release wrote."""
    with zipfile.ZipFile(release / "laces.zip") as archive:
        archive.extractall(tmp_path)
    for name in ("keyring.toml", "sealed.toml"):
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    return tmp_path


def test_each_release_has_its_files_and_they_are_small(
    release: Path, manifest: dict[str, Any]
) -> None:
    assert manifest["version"] == release.name
    assert sorted(path.name for path in release.iterdir()) == [
        "laces.zip", "lake.zip", "manifest.json",
    ]  # fmt: skip
    assert max(path.stat().st_size for path in release.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("side", SIDES)
def test_a_store_has_all_that_was_stored(
    folder: Path, manifest: dict[str, Any], side: str, read_only: bool
) -> None:
    expected = manifest["laces"][side]
    with SqliteStore(folder / side / "records.lace", read_only=read_only) as store:
        assert (
            sorted(entry.hash for entry in store.read(StoreRecordId(0), 10_000))
            == expected["records"]
        )
        assert list(store.check()) == []
        assert sorted(store.all_kept_out()) == expected["forgotten"]
        for hash, text in manifest["texts"].items():
            record = store.load(hash)
            assert (record is not None) == (hash in expected["records"])
            assert record is None or record.raw == text.encode("latin-1")
    with lace.open(folder / side) as local:
        selected = blocking.list(local, manifest["select"])
        assert sorted(record.hash for record in selected) == expected["selected"]
        replies = manifest["replies"]
        found = blocking.list(local, REPLIES.format(**replies))
        assert [record.hash for record in found] == [replies["by"]]


@pytest.mark.parametrize("side", SIDES)
def test_a_store_can_be_written_and_forgotten_from(
    folder: Path, manifest: dict[str, Any], side: str
) -> None:
    expected = manifest["laces"][side]
    with lace.open(folder / side) as local:
        assert [one.status for one in blocking.store(local, notes(3))] == ["accepted"] * 3
        back = expected["forgotten"]
        assert blocking.remember(local, back) == len(back)
        assert blocking.forget(local, f"////{expected['selected'][0]}") == 1
    assert command("store", "check", "--lace", side, cwd=folder).returncode == 0
    with SqliteStore(folder / side / "records.lace") as store:
        assert store.count() == len(expected["records"]) + 2
        assert store.schema == SCHEMA


def test_keys_and_contacts_are_those_that_were_kept(folder: Path, manifest: dict[str, Any]) -> None:
    for ring in (
        Keyring(folder / "keyring.toml"),
        Keyring(folder / "sealed.toml", manifest["passphrase"]),
    ):
        assert {one.name: one.verifier for one in ring.entries()} == manifest["verifiers"]
        ring.add("new")
        assert len(ring.entries()) == 3
    contacts = Contacts(folder / "contacts.toml")
    assert contacts.entries() == {"cy": manifest["verifiers"]["ann"]}
    contacts.add("dan", Keyring(folder / "keyring.toml").get("new").verifier, force=True)
    assert set(contacts.entries()) == {"cy", "dan"}


def test_settings_hold_as_they_did(folder: Path, manifest: dict[str, Any]) -> None:
    for side in SIDES:
        status = command("status", "--json", "--lace", side, cwd=folder)
        assert status.returncode == 0, status.stderr
    listed = command("peers", "--lace", "ann", cwd=folder)
    assert b"tcp:127.0.0.1:4790" in listed.stdout
    with lace.open(folder / "bob") as local:  # the selector is that of the settings
        assert blocking.count(local) == len(manifest["laces"]["bob"]["selected"])


@pytest.mark.parametrize("form", ["records", "jsonl"])
def test_exports_come_in_again(folder: Path, manifest: dict[str, Any], form: str) -> None:
    with lace.open(folder / "new.lace") as local:
        done = blocking.import_file(local, folder / f"export.{form}", unsigned=True)
        assert done.refused == 0
        assert done.new == len(manifest["laces"]["ann"]["selected"])


def test_a_journal_runs_again(folder: Path) -> None:
    done = command("plumb", "journal", "replay", "exchange.journal", cwd=folder)
    assert done.returncode == 0, done.stderr


class Counter:
    """Passes connections on to a port, and counts the bytes."""

    def __init__(self) -> None:
        self.port = self.bytes = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(self.pass_on(reader, back), self.pass_on(there, writer))

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await reader.read(65536):
                self.bytes += len(content)
                writer.write(content)
                await writer.drain()
        writer.close()


async def meet(folder: Path, select: str) -> tuple[int, InterlaceResult]:
    """Return how many bytes crossed when the laces met, and what came of it."""
    ann, bob = (Keyring(folder / "keyring.toml").get(name).key for name in SIDES)
    counter = Counter()
    proxy = await asyncio.start_server(counter, "127.0.0.1", 0)
    address = f"tcp:127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    async with (
        proxy,
        lace.open(folder / "ann", key=ann) as here,
        lace.open(folder / "bob", key=bob) as there,
        lace.serve(
            here, "tcp:127.0.0.1:0", policy=select, accept=["anyone"], names=[address]
        ) as server,
    ):
        counter.port = int(str(server.addresses[0]).rpartition(":")[2])
        result = await lace.sync(there, address, select)
    return counter.bytes, result


def test_a_link_goes_on_with_what_it_remembers(folder: Path, manifest: dict[str, Any]) -> None:
    """What is remembered saves most of what two sides say that differ in one record."""
    new = lace.build_plex(
        group="golden", app="notes", name="new", tai="1800000000:000000000", data=b"new"
    )
    with lace.open(folder / "ann") as local:
        blocking.store(local, [new])
    copy = folder / "forgetful"
    for name in SIDES:
        shutil.copytree(folder / name, copy / name)
        with closing(sqlite3.connect(copy / name / "records.lace")) as store:
            assert store.execute("DELETE FROM link_memory").rowcount == 1
            store.commit()
    shutil.copy(folder / "keyring.toml", copy / "keyring.toml")
    few, result = asyncio.run(meet(folder, manifest["select"]))
    many, again = asyncio.run(meet(copy, manifest["select"]))
    assert list(result.received) == list(again.received) == [new.hash]
    assert not result.rejected
    assert few * 3 < many * 2


# --- what is newer ---


def refusal(words: tuple[str, ...], folder: Path) -> str:
    done = command(*words, cwd=folder)
    assert done.returncode in {1, 2}, done.stdout
    return done.stderr.decode()


def test_a_newer_store_is_refused_and_stays_as_it_is(folder: Path) -> None:
    path = folder / "ann" / "records.lace"
    with closing(sqlite3.connect(path)) as store:
        store.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    before = path.read_bytes()
    for words in (("list", "--lace", "ann"), ("store", "check", "--lace", "ann")):
        said = refusal(words, folder)
        assert f"has schema {SCHEMA + 1}, this engine knows {SCHEMA} [store.newer]" in said
        assert "Update the engine" in said
    assert path.read_bytes() == before


def test_a_newer_journal_is_refused(folder: Path) -> None:
    path = folder / "exchange.journal"
    text = path.read_text(encoding="utf-8")
    now = f'"journal": {JOURNAL}'
    assert text.count(now) == 1
    path.write_text(text.replace(now, f'"journal": {JOURNAL + 1}'), encoding="utf-8")
    said = refusal(("plumb", "journal", "replay", path.name), folder)
    assert f"journal version {JOURNAL + 1}, this engine knows {JOURNAL} [journal.newer]" in said


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "says"),
    [
        (
            "keyring.toml",
            "[ann]\n",
            '[ann]\ndevice = "x"\n',
            Code.KEY_FILE,
            "'device', which Lace ",
        ),
        ("sealed.toml", "argon2id", "argon3", Code.KEY_FILE, "'argon3.*', which Lace "),
        ("ann/lace.toml", "select =", 'newer = "x"\nselect =', Code.SETTINGS_MALFORMED, "newer"),
    ],
)
def test_what_a_newer_version_wrote_beside_the_store_is_refused(
    folder: Path, name: str, old: str, new: str, code: Code, says: str
) -> None:
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    ring = Keyring(path, "golden passphrase")
    with pytest.raises(LaceError, match=says) as caught:
        lace.open(path.parent) if name.endswith("lace.toml") else ring.entries()
    assert caught.value.code is code


def test_a_program_of_an_earlier_version_refuses_a_store_with_a_sentence(folder: Path) -> None:
    path = folder / "ann" / "records.lace"
    before = path.read_bytes()
    earlier = environment_of(GOLDEN.parent / "earlier-lace.zip")
    done = subprocess.run(
        [sys.executable, "-m", "lace", "store", "info", str(path)],
        env=earlier, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "this engine knows 3 [store.newer]" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
