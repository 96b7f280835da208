"""How things stand: peers, the default one, when they were met, what waits, what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace
from hosting import hosting
from meeting import Host
from servers import process
from terminal import on_a_terminal
from wires import notes, store_of

from lace.crypto.keys import SigningKey, demo_key
from lace.errors import UsageError
from lace.keyring import Keyring
from lace.settings import load

PLACE = "//g//notes//"
BOB = demo_key("bob")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("alice", "bob"):
        Keyring().add(name, demo=True)
    done = lace("init", "a", "--key", "alice", "--select", PLACE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "a"


def add_peer(
    folder: Path, name: str, address: str, top: str = "", expect: SigningKey = BOB
) -> None:
    settings = folder / "lace.toml"
    peer = f'\n[peers.{name}]\naddress = "{address}"\nexpect = "{expect.verifier}"\n'
    settings.write_text(top + settings.read_text() + peer)


def told(*words: str, cwd: Path, exit: int = 0) -> list[dict[str, Any]]:
    done = lace(*words, cwd=cwd)
    assert done.returncode == exit, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_bare_sync_meets_the_default_peer_and_notes_it(home: Path) -> None:
    nobody = lace("sync", cwd=home)
    assert nobody.returncode == 2
    assert b"say which peer" in nobody.stderr
    host = Host(store_of(notes(2)), key=BOB, stays=False)
    with hosting(host) as address:
        add_peer(home, "server", address)
        assert told("peers", cwd=home)[0]["last_met"] is None
        (before,) = told("status", cwd=home)
        assert (before["records"], before["peers"][0]["waiting"]) == (0, 0)
        done = lace("sync", cwd=home)  # the only one
        assert done.returncode == 0, done.stderr
        assert b"with bob" in done.stderr
        (peer,) = told("peers", cwd=home)
        assert (peer["name"], peer["default"], peer["expect"]) == ("server", True, BOB.verifier)
        assert peer["last_met"] is not None
        assert lace("add", f"{PLACE}mine", "--text", "x", cwd=home).returncode == 0
        assert lace("add", "//g//other//mine", "--text", "x", cwd=home).returncode == 0
        (after,) = told("status", cwd=home)
        assert (after["records"], after["selected"]) == (4, 3)
        assert after["peers"][0]["waiting"] == 1
        assert after["problems"] == []
        add_peer(home, "other", "tcp:127.0.0.1:1")
        assert lace("sync", cwd=home).returncode == 2  # two, and none is named
        settings = home / "lace.toml"
        settings.write_text('peer = "server"\n' + settings.read_text())
        assert lace("sync", cwd=home).returncode == 0
        (last,) = told("status", cwd=home)
        assert {p["name"]: p["waiting"] for p in last["peers"]} == {"server": 0, "other": 3}


def test_words_and_objects_can_be_chosen(home: Path) -> None:
    with hosting(Host(store_of(notes(1)), key=BOB, stays=False)) as address:
        words = lace("sync", address, "--table", cwd=home)
        assert words.stdout.startswith("← P.".encode())
        objects = on_a_terminal("sync", address, "--json", cwd=home, exit=0).splitlines()
        assert [json.loads(line)["event"] for line in objects] == ["fixed-point", "closed"]
    hash = notes(1)[0].hash
    assert lace("why", hash, "--table", cwd=home).stdout.decode().startswith(hash)
    assert json.loads(on_a_terminal("why", hash, "--json", cwd=home))["allowed"] is True


def test_what_nobody_took_waits_on(home: Path) -> None:
    """A peer that shows nothing and takes nothing has not heard of what is here."""
    hub = home.parent / "hub"
    for folder in (hub, home.parent / "mine"):
        words = ("--key", "bob", "--select", PLACE, "--room", "alice")
        assert lace("init", folder.name, *words, cwd=home.parent).returncode == 0
    mine = home.parent / "mine"
    admit, remove = (("room", verb, "bob", "--key", "alice") for verb in ("admit", "remove"))
    assert lace(*admit, cwd=hub).returncode == 0
    with process(hub, "tcp:127.0.0.1:0", "--key", "alice") as server:
        add_peer(mine, "hub", str(server.address), expect=demo_key("alice"))
        standing = {"authority": demo_key("alice").verifier, "role": None}
        assert told("status", cwd=mine)[0]["room"] == standing
        told("sync", cwd=mine)
        assert told("status", cwd=mine)[0]["room"] == standing | {"role": "writer"}
        said = lace("status", "--table", cwd=mine).stdout
        assert b"room      of alice, where you are writer\n" in said
        assert lace(*remove, cwd=hub).returncode == 0
        assert lace("add", f"{PLACE}1", "--text", "x", cwd=mine).returncode == 0
        for _ in range(2):
            assert told("sync", cwd=mine)[0]["offered"] == 0
            assert told("status", cwd=mine)[0]["peers"][0]["waiting"] == 1
        assert lace(*admit, cwd=hub).returncode == 0
        told("sync", cwd=mine)
        assert told("status", cwd=mine)[0]["peers"][0]["waiting"] == 0


def test_people_see_it_in_words(home: Path) -> None:
    add_peer(home, "server", "tcp:notes.example.org:4790")
    shown = on_a_terminal("status", cwd=home, exit=0)
    assert "records   0 here, 0 belong" in shown
    assert "key       alice" in shown
    assert "peer      server: never met, 0 waiting, default" in shown
    for columns in (40, 80):
        table = on_a_terminal("peers", cwd=home, columns=columns, exit=0).splitlines()
        assert "server" in table[1]
        assert "never" in table[1]
        assert max(map(len, table)) <= columns
    for words in (("status", "--csv"), ("peers", "--csv")):
        assert b"," in lace(*words, cwd=home).stdout


def test_problems_are_named(home: Path) -> None:
    late = ("add", f"{PLACE}late", "--text", "x", "--tai", "9000000000:000000000")
    hash = lace(*late, cwd=home).stdout.decode()
    Keyring().remove("alice")
    (made,) = told("status", cwd=home, exit=3)
    said = "1 record that belongs has a time in the future: "
    (named,) = [problem for problem in made["problems"] if problem.startswith(said)]
    assert hash.startswith(named.removeprefix(said))
    for number in range(6):
        assert lace("add", f"{PLACE}{number}", *late[2:], "--key", "bob", cwd=home).returncode == 0
    (made,) = told("status", cwd=home, exit=3)
    assert any(
        problem.startswith("7 records that belong have") and problem.endswith(" and 2 more")
        for problem in made["problems"]
    )
    assert any("no key is called" in problem for problem in made["problems"])


def test_a_default_that_is_no_peer_is_refused(home: Path) -> None:
    settings = home / "lace.toml"
    settings.write_text('peer = "nobody"\n' + settings.read_text())
    with pytest.raises(UsageError, match="no \\[peers\\.nobody\\]"):
        load(home)


def test_a_note_that_cannot_be_read_is_no_meeting(home: Path) -> None:
    add_peer(home, "server", "tcp:notes.example.org:4790")
    made = {"tai": "1700000000:000000000", "peer": None, "received": 0, "sent": 0, "mark": 0}
    (home / "met.json").write_text(json.dumps({"server": made}))
    assert told("peers", cwd=home)[0]["last_met"] == made["tai"]
    wrong = [made | {"tai": "noon"}, made | {"tai": 5}, made | {"mark": "x"}, {"x": 1}, 1]
    for text in ("", "[]", *(json.dumps({"server": entry}) for entry in wrong)):
        (home / "met.json").write_text(text)
        assert told("peers", cwd=home)[0]["last_met"] is None
