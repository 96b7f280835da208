"""What is kept of links is checked: against itself, and against the records that are here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from exchanges import note
from links import EVERYTHING, Meeting

from lace.answering.checking import link_faults
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import LinkChange

ALL = EVERYTHING, EVERYTHING


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that has exchanged, over two links."""
    path = tmp_path / "s"
    with SqliteStore(path) as store:
        store.save([note(i) for i in range(100)])
        for key in (1, 2):
            Meeting((store, MemoryStore()), ALL, keys=(0, key)).end()
    return path


def faults(path: Path) -> list[str]:
    with SqliteStore(path, read_only=True) as store:
        return [fault.split(": ")[1] for fault in link_faults(store)]


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as file:
        for statement in statements:
            assert file.execute(statement).rowcount
        file.commit()


def test_what_is_sound_has_no_faults_whatever_was_stored_and_forgotten_since(path: Path) -> None:
    assert faults(path) == []
    with SqliteStore(path) as store:
        store.forget([note(i).hash for i in (3, 98, 99)])
        store.save([note(200), note(3)])
        store.forget([note(200).hash])
    assert faults(path) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE link_part SET data = CAST(data || x'00' AS BLOB) WHERE link = 1",
        "DELETE FROM link_part WHERE link = 1 AND name = (SELECT max(name) FROM link_part)",
        "UPDATE link_part SET data = x'' WHERE link = 1 AND name = (SELECT min(name) FROM link_part)",
    ],
)
def test_each_part_is_checked(path: Path, damage: str) -> None:
    change(path, damage)
    assert faults(path) == ["what is kept of it is damaged"]


def test_records_that_are_gone_are_missed(path: Path) -> None:
    """Their rows are lost, all of them, as after a bad page."""
    lost = "SELECT hash FROM record WHERE id BETWEEN 20 AND 24"
    change(
        path,
        f"DELETE FROM place WHERE hash IN ({lost})",
        "DELETE FROM record WHERE id BETWEEN 20 AND 24",
    )
    found = faults(path)
    assert len(found) == 2
    assert all(" are gone" in fault or "other records" in fault for fault in found)


def test_what_was_kept_beside_other_records_is_found(path: Path) -> None:
    change(path, "UPDATE sqlite_sequence SET seq = 90 WHERE name = 'record'")
    assert set(faults(path)) == {
        "what is kept of it belongs to other records than those that are here"
    }


def test_what_another_version_kept_is_passed_over(path: Path) -> None:
    with SqliteStore(path) as store:
        for key in store.links():
            store.keep_link(key, LinkChange(b"{}", {b"x": b"y"}))
    assert faults(path) == []
