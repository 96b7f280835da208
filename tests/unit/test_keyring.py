"""Keys by name: in one file of its owner, marked where they are no secret, never shown by chance."""

from __future__ import annotations

import stat
from pathlib import Path
from threading import Thread

import pytest

from lace.crypto.keys import SigningKey, demo_key
from lace.errors import Code, UsageError
from lace.keyring import VARIABLE, Keyring, default_path


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "deep" / "keyring.toml")


def test_keys_are_kept_by_name_for_their_owner_alone(ring: Keyring) -> None:
    assert ring.entries() == []
    made = ring.add("alice")
    kept = ring.add("bob", SigningKey(b"b" * 32))
    assert not made.demo
    assert kept.verifier == SigningKey(b"b" * 32).verifier
    assert [entry.name for entry in ring.entries()] == ["alice", "bob"]
    assert Keyring(ring.path).get("alice").key.reveal() == made.key.reveal()
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.path.parent.stat().st_mode) == 0o700


def test_a_demo_key_is_the_same_everywhere_and_is_known_by_its_secret(ring: Keyring) -> None:
    demo = ring.add("carol", demo=True)
    assert demo.demo
    assert demo.verifier == demo_key("carol").verifier != demo_key("dave").verifier
    ring.path.write_text(ring.path.read_text().replace("demo = true\n", ""))
    assert ring.get("carol").demo  # a mark that was taken away does not make it a secret
    assert ring.add("dave", demo_key("dave")).demo


def test_a_name_is_never_taken_twice_and_an_unknown_one_says_what_there_is(ring: Keyring) -> None:
    before = ring.add("alice").verifier
    for name, code in (("alice", Code.KEY_NAME), ("a.key", Code.KEY_NAME), ("", Code.KEY_NAME)):
        with pytest.raises(UsageError) as caught:
            ring.add(name)
        assert caught.value.code is code
    assert ring.get("alice").verifier == before
    with pytest.raises(UsageError, match="there are: alice") as unknown:
        ring.get("bob")
    assert "lace keyring new bob" in unknown.value.hint
    assert ring.remove("alice").verifier == before
    with pytest.raises(UsageError, match="none yet"):
        ring.remove("alice")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("not toml &.abcdefghijklmnopqrstuvwxyz", "not TOML"),
        ('alice = "x"\n', "not a key"),
        ('[alice]\nsecret = "&.abcdefghijklmnopqrstuvwxyz.H3"\n', "no signing secret"),
        ('["two words"]\nsecret = "x"\n', "not a key"),
        ("#" * ((1 << 20) + 1), "larger"),
    ],
)
def test_a_broken_file_is_refused_without_its_secrets_and_is_not_written_over(
    ring: Keyring, content: str, what: str
) -> None:
    ring.path.parent.mkdir()
    ring.path.write_text(content)
    ring.path.chmod(0o600)
    for call in (ring.entries, lambda: ring.add("new")):
        with pytest.raises(UsageError, match=what) as caught:
            call()
        assert caught.value.code is Code.KEY_FILE
        assert "abcdefghijklmnop" not in caught.value.message
    assert ring.path.read_text() == content


def test_a_file_that_others_can_read_is_refused(ring: Keyring) -> None:
    ring.add("alice")
    ring.path.chmod(0o644)
    with pytest.raises(UsageError, match="others") as caught:
        ring.get("alice")
    assert "chmod 600" in caught.value.hint
    ring.path.chmod(0o600)
    ring.path.unlink()
    ring.path.mkdir()
    with pytest.raises(UsageError, match="keyring"):
        ring.entries()


def test_changes_at_the_same_time_are_all_kept(ring: Keyring) -> None:
    threads = [Thread(target=ring.add, args=(f"k{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ring.entries()) == 12


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    assert default_path() == tmp_path / "mine"
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "lace" / "keyring.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert default_path() == Path.home() / ".config" / "lace" / "keyring.toml"
