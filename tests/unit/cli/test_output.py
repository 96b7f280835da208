"""What commands print: one shape for a record, tables that fit, short hashes, local dates."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import forge
import pytest
from command import lace_inside as lace
from terminal import on_a_terminal

import lace as api
from lace import blocking
from lace.cli.arguments import read_time
from lace.cli.shape import short_hashes
from lace.crypto.keys import demo_key
from lace.errors import UsageError
from lace.keyring import Keyring
from lace.record import Record, build_plex, seal

PLACE = "//notes-demo//notes/message//"
KEYS = {name: demo_key(name) for name in ("alice", "bob", "carol")}


def note(name: str, author: str, day: int, text: str = "hello") -> Record:
    plex = build_plex(
        group="notes-demo", app="notes/message", name=name, tai=f"{1700000000 + 86400 * day}:000000000",
        extras=[("Title", f"A rather long title of {name}, 日本語 and more")], data=text.encode(),
    )  # fmt: skip
    return seal(plex, KEYS[author], aux=forge.AUX)  # the names of tests have hashes in them


NOTES = [
    note("a/1", "alice", 0, "one"), note("a/1", "alice", 3, "three"), note("a/1", "bob", 2, "two"),
    note("b/a-name-that-is-long-enough-to-need-room", "bob", 1), note("c", "carol", 4),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("alice", "bob"):
        Keyring().add(name, demo=True)
    assert lace("init", "n", "--select", PLACE, cwd=tmp_path).returncode == 0
    other = build_plex(group="g", app="a", name="x", tai="1700000000:000000000", data=b"\xff")
    with api.open(tmp_path / "n", records=[*NOTES, other]):
        pass
    (tmp_path / "n" / "file").write_bytes(NOTES[0].raw)
    return tmp_path / "n"


def objects(*words: str, cwd: Path) -> list[dict[str, Any]]:
    done = lace(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def hashes(*words: str, cwd: Path) -> list[str]:
    return [entry["hash"] for entry in objects(*words, cwd=cwd)]


def test_a_record_has_one_shape_in_all_commands(folder: Path) -> None:
    hash = NOTES[0].hash
    (got,) = objects("get", hash, cwd=folder)
    assert got.pop("requested") == hash
    (shown,) = objects("record", "show", "file", cwd=folder)
    listed = objects("list", cwd=folder)
    logged = objects("log", f"{PLACE}a/1", cwd=folder)
    assert got == shown == listed[0] == logged[-1]
    assert set(got) == {"author", "data", "date", "fields", "hash", "place", "tai", "type"}
    assert got["place"] == f"{PLACE}a/1"
    assert got["author"] == KEYS["alice"].verifier
    assert got["fields"]["Title"] == ["A rather long title of a/1, 日本語 and more"]
    (bytes_,) = objects("list", "//g//a//", cwd=folder)
    assert bytes_["data_b64"] == "/w=="


@pytest.mark.parametrize(
    "words", [("list",), ("log", f"{PLACE}a/1"), ("get", NOTES[0].hash), ("keyring", "list"),
              ("scenario", "list"), ("record", "show", "file")],
    ids=lambda words: " ".join(words)[:12],
)  # fmt: skip
def test_the_form_can_be_chosen(folder: Path, words: tuple[str, ...]) -> None:
    as_json = lace(*words, "--json", cwd=folder).stdout
    assert lace(*words, cwd=folder).stdout == as_json  # the default in a pipe
    assert all(json.loads(line) for line in as_json.splitlines())
    rows = list(csv.reader(io.StringIO(lace(*words, "--csv", cwd=folder).stdout.decode())))
    assert len(rows) > 1
    assert len({len(row) for row in rows}) == 1
    in_pipe = lace(*words, "--table", cwd=folder).stdout
    assert in_pipe
    assert not in_pipe.startswith(b"{")
    assert on_a_terminal(*words, "--json", cwd=folder).encode() == as_json


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize(
    "words", [("list",), ("list", "--columns", "Name,Title,Data,Hash"), ("log", f"{PLACE}a/1"),
              ("keyring", "list"), ("scenario", "list")],
    ids=" ".join,
)  # fmt: skip
def test_tables_fit(folder: Path, words: tuple[str, ...], columns: int) -> None:
    from rich.cells import cell_len

    shown = on_a_terminal(*words, cwd=folder, columns=columns, exit=0).splitlines()
    assert len(shown) > 1
    assert max(map(cell_len, shown)) <= columns
    if words[0] in {"list", "log"}:  # what a person goes on with is there at any width
        assert "Hash" in shown[0]
        for line in shown[1:]:
            (short,) = [word for word in line.split() if word.startswith("S.")]
            assert len(hashes_of(folder, short)) == 1


def hashes_of(folder: Path, short: str) -> list[str]:
    return hashes("get", short, cwd=folder)


def test_short_hashes_go_in_and_out(folder: Path) -> None:
    shown = on_a_terminal("list", cwd=folder, columns=120)
    for record in NOTES:
        assert record.hash[:10] in shown
        assert record.hash not in shown
    assert "2023-11-14 22:12" in shown  # 37 seconds before the count of TAI
    assert "alice" in shown
    hash = NOTES[3].hash
    for text in (hash, hash[:10], f"{hash[:10]}…"):
        assert hashes("get", text, cwd=folder) == [hash]
    assert lace("why", hash[:10], cwd=folder).returncode == 0
    nothing = lace("get", "S.00000000", cwd=folder)
    assert nothing.returncode == 6
    assert b"no record here begins with" in nothing.stderr


def test_an_ambiguous_hash_is_not_guessed(folder: Path) -> None:
    begins: dict[str, list[str]] = {}
    number = 0
    while not any(len(found) > 1 for found in begins.values()):
        number += 1
        made = build_plex(group="g", app="a", name=str(number), tai="1700000000:000000000")
        begins.setdefault(made.hash[:6], []).append(made.raw.decode())
    begin, raws = next((k, v) for k, v in begins.items() if len(v) > 1)
    with api.open(folder) as local:
        blocking.store(local, [raw.encode() for raw in raws])
    done = lace("get", begin, cwd=folder)
    assert done.returncode == 2
    assert b"may mean 2 records" in done.stderr
    short = short_hashes(["S.aaaaaaaaaaaab", "S.aaaaaaaaaaaac", "S.b"])
    assert sorted(short.values()) == ["S.aaaaaaaaaaaab", "S.aaaaaaaaaaaac", "S.b"]


def test_list_narrows_sorts_and_limits(folder: Path) -> None:
    everything = {record.hash for record in NOTES}
    assert set(hashes("list", cwd=folder)) == everything
    assert len(hashes("list", "--all", cwd=folder)) == 6
    assert lace("list", PLACE, "--all", cwd=folder).returncode == 2
    by_time = [NOTES[i].hash for i in (0, 3, 2, 1, 4)]
    assert hashes("list", cwd=folder) == by_time
    assert hashes("list", "--sort", "newest", cwd=folder) == by_time[::-1]
    assert hashes("list", "--sort", "place", cwd=folder) == [NOTES[i].hash for i in (0, 2, 1, 3, 4)]
    assert set(hashes("list", "--newest", cwd=folder)) == {NOTES[i].hash for i in (1, 3, 4)}
    assert hashes("list", "--author", "bob", cwd=folder) == [NOTES[i].hash for i in (3, 2)]
    assert hashes("list", "--author", KEYS["carol"].verifier, cwd=folder) == [NOTES[4].hash]
    assert lace("list", "--author", "carol", cwd=folder).returncode == 2  # no name here
    assert hashes("list", "--since", "1700172800:000000000", cwd=folder) == by_time[2:]
    assert hashes("list", "--since", "2023-11-17T00:00+00:00", cwd=folder) == by_time[3:]
    assert hashes("list", "--since", "7d", cwd=folder) == []
    few = lace("list", "--limit", "2", "--sort", "newest", cwd=folder)
    assert len(few.stdout.splitlines()) == 2
    assert b"2 records; 3 more with a higher --limit" in few.stderr


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "5y", "9999999d5", "1e9"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"--since: .* is no time"):
        read_time(text, "--since")


def test_log_shows_the_versions_of_a_place(folder: Path) -> None:
    assert hashes("log", f"{PLACE}a/1", cwd=folder) == [NOTES[i].hash for i in (1, 2, 0)]
    assert hashes("log", f"{PLACE}a/1", "--limit", "1", cwd=folder) == [NOTES[1].hash]
    assert lace("log", f"{PLACE}nothing", cwd=folder).returncode == 6
    assert lace("log", PLACE, cwd=folder).returncode == 2


def test_count_history_and_forget_in_python(folder: Path) -> None:
    with api.open(folder) as local:
        assert blocking.count(local) == 5
        assert blocking.count(local, "//g//a//") == 1
        assert [r.data for r in blocking.history(local, f"{PLACE}a/1")] == [
            b"three",
            b"two",
            b"one",
        ]
        assert blocking.history(local, f"{PLACE}a/1", 1) == [NOTES[1]]
        with pytest.raises(UsageError, match="not one place"):
            blocking.history(local, PLACE)
        assert blocking.forget(local, f"{PLACE}a/") == 3
        assert blocking.count(local) == 2
        assert blocking.forget(local, f"{PLACE}a/") == 0


def test_the_newest_are_the_same_by_the_index_and_by_rules(folder: Path) -> None:
    rules = api.selector(PLACE).text
    for words in (
        (),
        ("--since", "2023-11-16"),
        ("--author", "bob"),
        ("--limit", "2", "--sort", "newest"),
    ):
        quick = objects("list", "--newest", *words, cwd=folder)
        assert quick == objects("list", rules, "--newest", *words, cwd=folder)
        assert quick == objects("list", PLACE, "--newest", *words, cwd=folder)
    assert len(objects("list", "--newest", cwd=folder)) == 3
    assert len(objects("list", f"{PLACE}a/", "--newest", cwd=folder)) == 1
