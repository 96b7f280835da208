"""Invitations and differences: one line is enough to meet, and what differs is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace
from hosting import hosting
from hypothesis import given
from hypothesis import strategies as st
from meeting import Host
from servers import process
from wires import notes, store_of

import lace as api
from lace import blocking
from lace.crypto.keys import demo_key
from lace.errors import UsageError
from lace.invitations import Invitation
from lace.keyring import Keyring
from lace.settings import load

PREFIX = "//g//notes//"
ANN = demo_key("ann").verifier
ADDRESS = "tcp:notes.example.org:4790"
RULES = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
ROOM = api.Room(
    prefix=PREFIX, authority=ANN, removed="stays", places="own", reads="anyone", delegation=2,
    roles={"chair": ("*",), "guest": ("question", "answer"), "mute": ()},
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("ann", "bob"):
        Keyring().add(name, demo=True)
    return tmp_path


def ok(*words: str, cwd: Path, stdin: str = "") -> str:
    done = lace(*words, cwd=cwd, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize(
    "made",
    [
        Invitation(address=ADDRESS, select=PREFIX), Invitation(address=ADDRESS, select=PREFIX, expect=ANN),
        Invitation(address="unix:/tmp/s", select=RULES), Invitation(address=ADDRESS, select=PREFIX, room=ROOM),
        Invitation(address="wss:example.org", select=PREFIX, room=api.Room(prefix=PREFIX, authority=ANN)),
    ],
    ids=["bare", "proven", "rules", "room", "plain-room"],
)  # fmt: skip
def test_what_is_written_is_read(made: Invitation) -> None:
    assert Invitation.read(made.text) == made
    folded = "\n".join(made.text[at : at + 60] for at in range(0, len(made.text), 60))
    assert Invitation.read(f"  {folded}\n") == made
    assert made.text.isascii()


@given(st.data())
def test_a_line_that_was_changed_is_refused(data: st.DataObject) -> None:
    text = Invitation(address=ADDRESS, select=PREFIX, room=ROOM).text
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(exclude_categories=["Cs"]))
    changed = text[:at] + other + text[at + 1 :]
    cut = text[: data.draw(st.integers(0, len(text) - 2))]
    for line in (changed, cut):
        if "".join(line.split()) == text:
            continue
        try:
            assert Invitation.read(line) == Invitation.read(
                text
            )  # the last character has spare bits
        except UsageError as error:
            assert "invitation" in error.message


@pytest.mark.parametrize(
    "said",
    [
        [], {}, {"address": ADDRESS}, {"address": 1, "select": PREFIX}, {"address": "ftp:x", "select": PREFIX},
        {"address": ADDRESS, "select": "/etc/passwd"}, {"address": ADDRESS, "select": "file:x"},
        {"address": ADDRESS, "select": PREFIX, "expect": "ann"}, {"address": ADDRESS, "select": PREFIX, "expect": 1},
        {"address": ADDRESS, "select": PREFIX, "more": 1}, {"address": ADDRESS, "select": PREFIX, "room": 1},
        {"address": ADDRESS, "select": PREFIX, "room": {}}, {"address": ADDRESS, "select": PREFIX, "room": {"authority": "x"}},
        {"address": ADDRESS, "select": PREFIX, "room": {"authority": ANN, "colour": 1}},
        {"address": ADDRESS, "select": PREFIX, "room": {"authority": ANN, "removed": []}},
        {"address": ADDRESS, "select": PREFIX, "room": {"authority": ANN, "roles": {"a": "b"}}},
        {"address": ADDRESS, "select": "//g//notes//x", "room": {"authority": ANN}},
    ],
)  # fmt: skip
def test_what_an_invitation_must_not_say(said: Any) -> None:
    from base64 import urlsafe_b64encode

    from lace.invitations import _BEGIN, _sum

    body = json.dumps(said).encode()
    with pytest.raises(UsageError, match="this invitation cannot be used"):
        Invitation.read(_BEGIN + urlsafe_b64encode(_sum(body) + body).decode())


def test_one_line_is_enough_to_join_and_meet(home: Path) -> None:
    ok(
        "room",
        "new",
        "ann",
        PREFIX,
        "--key",
        "ann",
        "--removed",
        "stays",
        "--writes",
        "writer=*",
        cwd=home,
    )
    ok("room", "admit", "bob", "--lace", "ann", cwd=home)
    where = lace("serve", "ann", cwd=home)
    assert (where.returncode, b"give an ADDRESS" in where.stderr) == (2, True)
    missing = lace("serve", "anne", "tcp:127.0.0.1:0", cwd=home)
    assert (missing.returncode, b"anne does not exist" in missing.stderr) == (2, True)
    with process(home / "ann", "tcp:127.0.0.1:0") as server:  # the lace one is in
        reads, writes = (entry["detail"] for entry in server.wait_for("strangers", 2))
        assert reads == f"anyone may read: nothing; members read the room {PREFIX}"
        assert writes.startswith(f"anyone may write: what the rules of the room {PREFIX} allow")
        line = ok("invite", str(server.address), "--lace", "ann", cwd=home)
        joined = lace("join", "bob", "-", "--key", "bob", "--as", "ann", stdin=line, cwd=home)
        assert joined.returncode == 0, joined.stderr
        for told in (b"ann is ann at", b"a room of ann", b"wrote before stays"):
            assert told in joined.stderr
        settings = load(home / "bob")
        assert settings.room == load(home / "ann").room
        assert settings.peers["ann"].expect == ANN
        assert settings.default_peer == "ann"
        assert len(json.loads(ok("sync", "--lace", "bob", cwd=home).splitlines()[0])["hash"]) > 40
    assert lace("join", "bob", line.strip(), cwd=home).returncode == 2  # it is there already
    assert lace("join", "x", line[:-9], cwd=home).returncode == 2
    for words, said in (
        ((line.strip(),), b"PATH, a new folder, is"),
        (("x",), b"the invitation is"),
    ):
        alone = lace("join", *words, cwd=home)
        assert (alone.returncode, said + b" missing: lace join PATH" in alone.stderr) == (2, True)
    assert lace("join", "x", line, "--as", "a b", cwd=home).returncode == 2
    assert not (home / "x").exists()
    assert lace("join", line.strip(), "other", cwd=home).returncode == 0  # in either order
    assert (home / "other").is_dir()


def test_rules_travel_with_an_invitation(home: Path) -> None:
    (home / "all.lacegram").write_text(RULES)
    ok("init", "ann", "--select", "all.lacegram", cwd=home)
    done = lace("invite", ADDRESS, "--lace", "ann", cwd=home)
    assert b"nobody can tell you" in done.stderr
    ok("join", "bob", done.stdout.decode(), cwd=home)
    assert load(home / "bob").module() == load(home / "ann").module()
    assert load(home / "bob").peers["host"].expect is None
    ok("init", "bare", cwd=home)
    assert lace("invite", ADDRESS, "--lace", "bare", cwd=home).returncode == 2
    assert lace("invite", "nowhere", "--lace", "ann", cwd=home).returncode in {1, 2}


def test_what_differs_is_shown_and_nothing_is_exchanged(home: Path) -> None:
    for name, first in (("a", 0), ("b", 3)):
        ok("init", name, "--select", PREFIX, "--key", "ann", cwd=home)
        with api.open(home / name, records=notes(5, start=first)):
            pass
    done = lace("diff", "a", "b", cwd=home)
    assert done.stderr == b"3 only in a, 3 only in b, 2 in both\n"
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert [entry["only_in"] for entry in entries] == ["A"] * 3 + ["B"] * 3
    assert {entry["hash"] for entry in entries[:3]} == {record.hash for record in notes(3)}
    here = lace("diff", "../b", cwd=home / "a")
    assert here.stderr == b"3 only here, 3 only in ../b, 2 in both\n"
    assert here.stdout == done.stdout
    nowhere = lace("diff", "a", cwd=home)
    assert (nowhere.returncode, b"there is no lace here" in nowhere.stderr) == (2, True)
    assert lace("diff", "a", "b", "a", cwd=home).returncode == 2
    table = ok("diff", "a", "b", "--table", cwd=home).splitlines()
    assert [line[0] for line in table[1:]] == ["<"] * 3 + [">"] * 3
    assert ok("diff", "a", "b", "--csv", cwd=home).count("\n") == 7
    for name in ("a", "b"):
        with api.open(home / name) as local:
            assert blocking.count(local) == 5
    with hosting(Host(store_of(notes(6)))) as address:
        found = lace("diff", ".", address, cwd=home / "a")
        assert found.stderr.endswith(f"0 only in ., 1 only in {address}, 5 in both\n".encode())
        alone = lace("diff", address, address, cwd=home)
        assert (alone.returncode, b"--select" in alone.stderr) == (2, True)
        assert lace("diff", address, address, "--select", PREFIX, cwd=home).returncode == 0
    assert lace("diff", "a", "nowhere", cwd=home).returncode == 2


def test_a_difference_in_python() -> None:
    with api.open(records=notes(3)) as left, api.open(records=notes(3)) as right:
        assert not blocking.diff(left, right, PREFIX)
        blocking.store(right, notes(1, start=9))
        found = blocking.diff(left, right, PREFIX)
        assert (len(found.left), len(found.right), found.both) == (0, 1, 3)
        assert found


def test_an_invitation_keeps_the_order_of_roles(home: Path) -> None:
    writes = ("--writes", "member=claim", "--writes", "boss=*")
    for name, roles, first in (("a", writes, "member"), ("b", _SWAPPED, "reader")):
        words = ("room", "new", name, PREFIX, "--key", "ann", *roles)
        assert lace(*words, cwd=home).returncode == 0
        line = lace("invite", ADDRESS, "--lace", name, cwd=home).stdout.decode().strip()
        assert lace("join", f"{name}2", line, "--key", "ann", cwd=home).returncode == 0
        told = [lace("room", "roles", "--lace", one, cwd=home).stdout for one in (name, f"{name}2")]
        assert told[0] == told[1]
        assert lace("room", "admit", "bob", "--lace", f"{name}2", cwd=home).returncode == 0
        (bob,) = map(json.loads, lace("room", "members", "--lace", f"{name}2", cwd=home)
                     .stdout.splitlines())  # fmt: skip
        assert bob["role"] == first


_SWAPPED = ("--writes", "reader=", "--writes", "writer=*")


def test_a_role_is_given_once(home: Path) -> None:
    words = ("room", "new", "r", PREFIX, "--key", "ann", "--writes", "a=b", "--writes", "a=c")
    done = lace(*words, cwd=home)
    assert (done.returncode, b"the role 'a' is given twice" in done.stderr) == (2, True)
    assert not (home / "r").exists()


def test_who_joins_has_the_key_that_they_name(home: Path) -> None:
    line = Invitation(address=ADDRESS, select=PREFIX).text
    done = lace("join", "j", line, "--key", "nobody", cwd=home)
    assert (done.returncode, b"no key is called 'nobody'" in done.stderr) == (2, True)
    assert not (home / "j").exists()
    assert lace("join", "j", line, "--key", "bob", cwd=home).returncode == 0


@pytest.mark.parametrize("address", ["tcp:0.0.0.0:4790", "tcp:127.0.0.1:0", "ws:[::]", "stdio"])
def test_an_invitation_names_an_address_that_can_be_dialled(home: Path, address: str) -> None:
    assert lace("room", "new", "r", PREFIX, "--key", "ann", cwd=home).returncode == 0
    done = lace("invite", address, "--lace", "r", cwd=home)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"is no address that others can dial [address.malformed]" in done.stderr
