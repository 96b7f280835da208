"""The commands of rooms: made, admitted, removed, listed, and told what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import lace_inside as lace
from terminal import on_a_terminal

from lace.crypto.keys import demo_key
from lace.keyring import Contacts, Keyring
from lace.settings import load

PREFIX = "//club//talk//"
BOB = demo_key("bob").verifier


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("ann", "bob", "cy"):
        Keyring().add(name, demo=True)
    return tmp_path


def ok(*words: str, cwd: Path) -> bytes:
    done = lace(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(*words: str, cwd: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ok(*words, cwd=cwd).splitlines()]


def test_a_room_is_made_and_kept_by_its_authority(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    club = home / "club"
    assert [row["member"] for row in rows("room", "members", cwd=club)] == [
        demo_key("ann").verifier
    ]
    ok("add", f"{PREFIX[:-2]}/note//1", "--text", "mine", cwd=club)
    ok("room", "admit", "bob", cwd=club)
    ok("room", "admit", demo_key("cy").verifier, "--role", "reader", cwd=club)
    assert (
        b"select"
        not in lace("add", "//club//talk/note//2", "--text", "x", "--key", "bob", cwd=club).stderr
    )
    reader = lace("add", "//club//talk/note//3", "--text", "x", "--key", "cy", cwd=club)
    assert b"does not select it" in reader.stderr
    assert [(row["role"], row["ended"]) for row in rows("room", "members", cwd=club)] == [
        ("writer", None), ("writer", None), ("reader", None),
    ]  # fmt: skip
    ok("room", "remove", "bob", cwd=club)
    assert [row["member"] for row in rows("room", "members", cwd=club) if row["ended"]] == [BOB]
    assert len(rows("list", "//club//talk/note//", cwd=club)) == 3
    assert len(rows("list", cwd=club)) == 5  # four statements and the note of the authority
    ok("room", "admit", "bob", cwd=club)
    assert len(rows("list", cwd=club)) == 7
    done = lace("room", "remove", "ann", cwd=club)
    assert (done.returncode, b"they are the authority" in done.stderr) == (0, True)


def test_choices_are_written_down_and_told(home: Path) -> None:
    ok(
        "room", "new", "club", PREFIX, "--key", "ann", "--removed", "stays", "--places", "own", "--reads", "anyone",
        "--delegation", "2", "--writes", "chair=*", "--writes", "guest=question, answer", "--writes", "mute=",
        "--peer", "hub=tcp:localhost:4790", cwd=home,
    )  # fmt: skip
    club = home / "club"
    room = load(club).room
    assert room is not None
    assert (room.removed, room.places, room.reads, room.delegation) == ("stays", "own", "anyone", 2)
    assert dict(room.roles) == {"chair": ("*",), "guest": ("question", "answer"), "mute": ()}
    assert list(load(club).peers) == ["hub"]
    (first,) = rows("room", "members", cwd=club)
    assert (first["role"], first["under"], first["may_admit"]) == ("chair", "ann/", 2)
    ok("room", "admit", "bob", "--under", "b", "--may-admit", "1", "--role", "guest", cwd=club)
    told = on_a_terminal("room", "members", cwd=club, columns=100)
    assert "under b/, admits 1 deep" in told
    assert [row["writes"] for row in rows("room", "roles", cwd=club)] == [
        ["*"],
        ["question", "answer"],
        [],
    ]
    roles = lace("room", "roles", "--table", cwd=club)
    assert b"guest  //club//talk/question//, //club//talk/answer//" in roles.stdout
    for sentence in (b"only under their own names", b"wrote before stays", b"Anyone", b"2 deep"):
        assert sentence in roles.stderr
    assert b"Member,Role,Since,By,Remarks" in ok("room", "members", "--csv", cwd=club)
    assert b"Role,Writes" in ok("room", "roles", "--csv", cwd=club)


def test_who_may_not_admit_is_told(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", "--delegation", "1", cwd=home)
    club = home / "club"
    ok("room", "admit", "bob", "--may-admit", "1", cwd=club)
    unheard = lace("room", "admit", "ann", "--key", "cy", cwd=club)
    assert (unheard.returncode, b"do not hear this" in unheard.stderr) == (0, True)
    ok("room", "admit", "cy", "--key", "bob", cwd=club)
    ok("room", "admit", "cy", cwd=club)  # now by the authority too
    kept = lace("room", "remove", "cy", "--key", "bob", cwd=club)
    assert b"still a member, by somebody else's word" in kept.stderr


def test_contacts_are_names_too(home: Path) -> None:
    other = demo_key("dora").verifier
    Contacts().add("dora", other)
    ok("room", "new", "club", PREFIX, "--key", "ann", "--places", "own", cwd=home)
    ok("room", "admit", "dora", cwd=home / "club")
    assert rows("room", "members", cwd=home / "club")[1]["under"] == "dora/"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("admit", "nobody"), b"nobody is called so"),
        (("admit", "bob", "--role", "king"), b"no role 'king'; it has writer, reader"),
        (("admit", "bob", "--may-admit", "1"), b"0 deep, not 1"),
        (("admit", "bob", "--under", "b"), b"write at any place"),
        (("remove", "bob"), b"bob is no member"),
        (("new", ".", PREFIX, "--key", "ann"), b"exists already"),
        (("new", "x", "//club", "--key", "ann"), b"is not a whole app"),
        (("new", "x", PREFIX, "--key", "ann", "--writes", "guest"), b"NAME=VALUE"),
        (("new", "x", PREFIX, "--key", "ann", "--writes", "a=member"), b"cannot write in 'member'"),
    ],
)
def test_what_cannot_be_is_told(home: Path, words: tuple[str, ...], reason: bytes) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    done = lace("room", *words, cwd=home / "club")
    assert done.returncode in {1, 2}
    assert reason in done.stderr
    assert not (home / "club" / "x").exists()


def test_a_lace_that_is_no_room_says_so(home: Path) -> None:
    ok("init", "plain", "--select", PREFIX, cwd=home)
    for words in (("members",), ("roles",), ("admit", "bob"), ("remove", "bob")):
        done = lace("room", *words, cwd=home / "plain")
        assert done.returncode == 2
        assert b"lace room new" in done.stderr
    ok("init", "theirs", "--select", PREFIX, "--room", "ann", cwd=home)
    done = lace("room", "admit", "bob", cwd=home / "theirs")
    assert (done.returncode, b"no key" in done.stderr) == (2, True)


def test_why_not_follows_membership_down_to_the_record_that_decides(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    club = home / "club"
    for name in ("bob", "cy"):
        ok("add", f"//club//talk/note//{name}", "--text", "x", "--key", name, cwd=club)
    ok("room", "admit", "bob", cwd=club)
    end = ok("room", "remove", "bob", cwd=club).decode().strip()
    removed = on_a_terminal("why-not", "//club//talk/note//bob", cwd=club, exit=6)
    assert "fails at not Closed(G)" in removed
    assert f"{end} //club//talk/member//bob: Ended = yes" in removed
    stranger = on_a_terminal("why-not", "//club//talk/note//cy", cwd=club, exit=6)
    assert "fails at Field(G,'Member',_,V)" in stranger
    done = lace("why-not", "//club//talk/note//cy", cwd=club)
    entry = json.loads(done.stdout)["refusals"][0]
    depth = 0
    while entry["below"]:
        entry = entry["below"][-1]
        depth += 1
    assert (depth, entry["failed_atom"]) == (4, "Field(G,'Member',_,V)")


def test_a_key_that_is_named_is_exchanged_in_the_settings_too(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    for name in ("bob", "cy"):
        ok("room", "admit", name, "--lace", "club", cwd=home)
    ok("init", "mine", "--key", "bob", "--select", PREFIX, "--room", "ann", cwd=home)
    mine = home / "mine"
    ok("sync", "../club", cwd=mine)
    ok("key", "rotate", "cy-2", "--key", "cy", cwd=mine)  # not the key of this lace
    assert 'key = "bob"' in (mine / "lace.toml").read_text()
    ok("key", "rotate", "bob-2", "--key", "bob", cwd=mine)
    assert 'key = "bob-2"' in (mine / "lace.toml").read_text()
    (told,) = rows("status", cwd=mine)
    assert told["room"]["role"] == "writer"


def test_a_key_is_exchanged_for_another_by_a_record(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    ok("room", "admit", "bob", "--lace", "club", cwd=home)
    ok("init", "mine", "--key", "bob", "--select", PREFIX, "--room", "ann", cwd=home)
    mine = home / "mine"
    ok("sync", "../club", cwd=mine)
    ok("add", "//club//talk/note//1", "--text", "before", cwd=mine)
    done = lace("key", "rotate", "bob-2", cwd=mine)
    assert done.returncode == 0, done.stderr
    assert 'key = "bob-2"' in (mine / "lace.toml").read_text()
    ok("add", "//club//talk/note//2", "--text", "after", cwd=mine)
    stolen = lace("add", "//club//talk/note//3", "--text", "stolen", "--key", "bob", cwd=mine)
    assert b"does not select it" in stolen.stderr
    assert b"lace sync --key" in done.stderr
    told, offered = told_by_sync(mine)  # nobody knows the new key yet
    assert offered == 0
    assert told.endswith("has not heard of it looks like this; lace sync --key bob\n")
    told, _ = told_by_sync(mine, "--key", "bob")
    assert told.startswith("bob has handed its place in the room on: sync with the key of bob-2")
    assert told_by_sync(mine)[0] == ""
    kept = [row["data"] for row in rows("list", cwd=home / "club") if row["data"]]
    assert kept == ["before", "after"]
    new = Keyring().get("bob-2").verifier
    assert {row["member"]: row["moved"] for row in rows("room", "members", cwd=mine)} == {
        demo_key("ann").verifier: None, BOB: new, new: None,
    }  # fmt: skip
    ok("room", "remove", "bob-2", "--key", "ann", cwd=home / "club")
    assert [row["data"] for row in rows("list", cwd=home / "club") if row["data"]] == []
    assert b"hand on" in lace("key", "rotate", "bob-3", "--key", "cy", cwd=mine).stderr
    authority = lace("key", "rotate", "ann-2", cwd=home / "club")
    assert (authority.returncode, b"cannot be exchanged" in authority.stderr) == (2, True)
    assert "ann-2" not in {entry.name for entry in Keyring().entries()}
    ok("init", "plain", "--key", "bob", cwd=home)
    assert b"no room" in lace("key", "rotate", "x", cwd=home / "plain").stderr


def told_by_sync(folder: Path, *words: str) -> tuple[str, int]:
    """Sync with the room's keeper; return what was told after the fixed point, and what came."""
    done = lace("sync", "../club", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    (end,) = [entry for line in done.stdout.splitlines()
              if (entry := json.loads(line))["event"] == "fixed-point"]  # fmt: skip
    return done.stderr.decode().partition("fixed point: ")[2].partition("\n")[2], end["offered"]


def test_a_member_who_was_removed_is_told_that_nothing_is_offered(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", cwd=home)
    ok("room", "admit", "bob", "--lace", "club", cwd=home)
    ok("init", "mine", "--key", "bob", "--select", PREFIX, "--room", "ann", cwd=home)
    mine = home / "mine"
    assert told_by_sync(mine) == ("", 2)
    assert told_by_sync(mine) == ("", 2)  # what is here already is offered all the same
    ok("room", "remove", "bob", "--lace", "club", cwd=home)
    ok("add", "//club//talk/note//1", "--text", "too late", cwd=mine)
    told, offered = told_by_sync(mine)
    assert offered == 0
    assert told.startswith("the peer offers nothing to bob, who is a member by what is here")
    assert told.endswith("ask ann\n")
    stranger, offered = told_by_sync(mine, "--key", "cy")
    assert offered == 0
    assert "nothing to cy, who is no member by what is here" in stranger
    assert f"lace room admit {demo_key('cy').verifier}" in stranger
    ok("room", "admit", "bob", "--lace", "club", cwd=home)
    told, offered = told_by_sync(mine)
    assert told == ""
    assert offered > 0


def test_a_member_who_can_read_of_the_end_is_told_when_it_was(home: Path) -> None:
    ok("room", "new", "club", PREFIX, "--key", "ann", "--reads", "anyone", cwd=home)
    ok("room", "admit", "bob", "--lace", "club", cwd=home)
    ok("room", "remove", "bob", "--lace", "club", cwd=home)
    ok("init", "mine", "--key", "bob", "--select", PREFIX, "--room", "ann", cwd=home)
    settings = home / "mine" / "lace.toml"
    settings.write_text(settings.read_text().replace("[room]", '[room]\nreads = "anyone"'))
    told, offered = told_by_sync(home / "mine")
    assert offered == 3
    assert told.startswith("bob has been no member of the room since 20")
    told, _ = told_by_sync(home / "mine", "--key", "cy")
    assert told == ""  # who only reads misses nothing


def test_a_peer_that_offers_nothing_is_told_where_there_is_no_room(home: Path) -> None:
    ok("init", "mine", "--key", "bob", "--select", PREFIX, cwd=home)
    ok("init", "club", "--key", "ann", "--select", PREFIX, cwd=home)
    assert "nothing to bob: it has nothing that both" in told_by_sync(home / "mine")[0]
    ok("add", "//club//talk/note//1", "--text", "here", cwd=home / "mine")
    assert told_by_sync(home / "mine") == ("", 1)  # what was sent comes back as an offer
