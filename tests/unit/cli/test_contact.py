"""Names for other people: kept, shown and taken in the place of verifiers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import lace_inside as lace
from terminal import on_a_terminal

from lace.crypto.keys import demo_key
from lace.errors import Code, UsageError
from lace.keyring import Contacts, Keyring

BOB, CAROL = demo_key("bob").verifier, demo_key("carol").verifier


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    Keyring().add("alice", demo=True)
    return tmp_path


def test_a_name_means_one_verifier(home: Path) -> None:
    assert lace("contact", "add", "bob", BOB, cwd=home).returncode == 0
    assert lace("contact", "add", "bob", BOB, cwd=home).returncode == 0  # as it was
    for name, verifier in (("bob", CAROL), ("alice", CAROL), ("b/b", BOB), ("x", "V.x")):
        done = lace("contact", "add", name, verifier, cwd=home)
        assert done.returncode in {1, 2}, name
    assert b"a contact is called bob" in lace("keyring", "new", "bob", cwd=home).stderr
    (entry,) = map(json.loads, lace("contact", "list", cwd=home).stdout.splitlines())
    assert entry == {"name": "bob", "verifier": BOB}
    assert "bob" in on_a_terminal("contact", "list", cwd=home, columns=40)
    assert lace("contact", "remove", "bob", cwd=home).returncode == 0
    assert lace("contact", "remove", "bob", cwd=home).returncode == 2
    assert Contacts().entries() == {}


def test_contacts_are_shown_and_taken(home: Path) -> None:
    assert lace("contact", "add", "bob", BOB, cwd=home).returncode == 0
    assert lace("init", "n", "--select", "//g//a//", "--room", "bob", cwd=home).returncode == 0
    assert BOB in (home / "n" / "lace.toml").read_text()
    words = (
        "add",
        "//g//a/member//alice",
        "-f",
        "Member=bob",
        "-f",
        "Role=writer",
        "--key",
        "alice",
    )
    assert lace(*words, cwd=home / "n").returncode == 0
    listed = lace("list", "--all", "--columns", "Member", cwd=home / "n").stdout
    assert json.loads(listed)["Member"] == BOB
    shown = on_a_terminal("list", "--all", "--columns", "Member,Signed-By", cwd=home / "n")
    assert "bob" in shown
    assert lace("list", "--all", "--author", "bob", cwd=home / "n").stdout == b""
    assert "alice" in on_a_terminal("get", "//g//a/member//alice", cwd=home / "n")


@pytest.mark.parametrize("text", ["x = 1", "x = ", "'a b' = 'V.x'", "#" * ((1 << 20) + 1), "\xff"])
def test_a_file_that_cannot_be_used_says_why(home: Path, text: str) -> None:
    (home / "contacts.toml").write_text(text, encoding="latin-1")
    with pytest.raises(UsageError, match=r"contacts\.toml") as caught:
        Contacts().entries()
    assert caught.value.code is Code.KEY_FILE


def test_a_verifier_has_one_name_unless_another_is_forced(home: Path) -> None:
    assert lace("contact", "add", "robert", BOB, cwd=home).returncode == 0
    second = lace("contact", "add", "bob", BOB, cwd=home)
    assert (second.returncode, f"{BOB} is called robert already".encode() in second.stderr) == (
        2,
        True,
    )
    own = lace("contact", "add", "me", demo_key("alice").verifier, cwd=home)
    assert (own.returncode, b"is called alice already" in own.stderr) == (2, True)
    secret = lace("keyring", "show", "alice", "--secret", cwd=home).stdout
    words = ("keyring", "new", "me2", "--from", "-")
    twice = lace(*words, cwd=home, stdin=secret)
    assert (twice.returncode, b"is called alice already" in twice.stderr) == (2, True)
    bobs = demo_key("bob").reveal()
    of_contact = lace("keyring", "new", "mine", "--from", "-", cwd=home, stdin=bobs)
    assert b"is called robert already" in of_contact.stderr
    assert lace(*words, "--force", cwd=home, stdin=secret).returncode == 0
    assert lace("contact", "add", "bob", BOB, "--force", cwd=home).returncode == 0
    assert lace("room", "new", "r", "//g//a//", "--key", "alice", cwd=home).returncode == 0
    for name in ("robert", "bob"):
        assert lace("room", "admit", name, cwd=home / "r").returncode == 0
        shown = lace("room", "members", "--table", cwd=home / "r").stdout.decode()
        assert ("bob" in shown, "robert" in shown, "alice" in shown) == (True, False, True)
