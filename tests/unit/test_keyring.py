"""Keys by name: in one file of its owner, marked where they are no secret, never shown by chance."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from lace.crypto.keys import SigningKey, demo_key
from lace.errors import Code, UsageError
from lace.keyring import _OPENED, PASSPHRASE, VARIABLE, Keyring, default_path


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


# --- sealed ---


@pytest.fixture
def _no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSPHRASE, raising=False)
    monkeypatch.setattr(Keyring, "ask", None)
    _OPENED.clear()


def code_of(action: Callable[[], object]) -> Code:
    with pytest.raises(UsageError) as caught:
        action()
    assert caught.value.hint
    return caught.value.code


@pytest.mark.usefixtures("_no_words")
def test_a_sealed_keyring_tells_names_and_keeps_secrets(
    ring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = ring.add("alice").key.reveal()
    ring.add("bob", demo=True)
    ring.add("sealed")  # a name like any other
    before = ring.known()
    ring.seal("correct horse")
    text = ring.path.read_text()
    assert secret not in text
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    locked = Keyring(ring.path)
    assert locked.is_sealed
    assert locked.known() == before
    _OPENED.clear()
    assert code_of(lambda: locked.get("alice")) is Code.KEY_SEALED
    assert code_of(lambda: Keyring(ring.path, "wrong").get("alice")) is Code.KEY_SEALED
    assert Keyring(ring.path, "correct horse").get("alice").key.reveal() == secret
    # Changes keep it sealed; the words come from the environment, or from a person.
    _OPENED.clear()
    monkeypatch.setenv(PASSPHRASE, "correct horse")
    Keyring(ring.path).add("carol")
    assert Keyring(ring.path).is_sealed
    monkeypatch.delenv(PASSPHRASE)
    _OPENED.clear()
    asked: list[str] = []

    def ask(what: str) -> str:
        asked.append(what)
        return "correct horse"

    monkeypatch.setattr(Keyring, "ask", staticmethod(ask))
    again = Keyring(ring.path)
    assert again.get("alice").key.reveal() == secret
    assert len(asked) == 1
    # What opened it seals it again: nobody is asked twice, and no slip makes other words of it.
    Keyring(ring.path).add("dave")
    assert len(asked) == 1
    assert code_of(lambda: Keyring(ring.path, "slip").add("erin")) is Code.KEY_SEALED
    _OPENED.clear()
    assert Keyring(ring.path, "correct horse").get("dave").name == "dave"
    again.seal(None)
    assert secret in ring.path.read_text()
    assert not again.is_sealed


@pytest.mark.usefixtures("_no_words")
def test_what_is_in_the_clear_cannot_be_changed_unseen(ring: Keyring) -> None:
    ring.add("alice")
    mallory = ring.add("mine").verifier
    ring.seal("many words")
    text = ring.path.read_text()
    verifiers = {entry.name: entry.verifier for entry in ring.known()}
    for changed in (
        text.replace(f'alice = "{verifiers["alice"]}"', f'alice = "{mallory}"'),
        text.replace("passes = 3", "passes = 2"),
        text.replace("demo = []", 'demo = ["alice"]'),
        text.replace("memory_kib = 65536", "memory_kib = 999999999"),
        text.replace("lanes = 4", 'lanes = "4"'),
    ):
        assert changed != text
        ring.path.write_text(changed)
        found = code_of(lambda: Keyring(ring.path, "many words").get("alice"))
        assert found in {Code.KEY_SEALED, Code.KEY_FILE}


@pytest.mark.usefixtures("_no_words")
def test_backup_restore_and_rename(ring: Keyring, tmp_path: Path) -> None:
    alice = ring.add("alice").verifier
    ring.add("bob", demo=True)
    file = tmp_path / "backup"
    assert ring.backup(file, "many words") == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert code_of(lambda: ring.backup(file, "many words")) is Code.INPUT_FILE  # never overwritten
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert code_of(lambda: ring.backup(tmp_path / "link", "many words")) is Code.INPUT_FILE
    assert ring.rename("alice", "old").verifier == alice
    assert code_of(lambda: ring.rename("old", "bob")) is Code.KEY_NAME
    assert ring.restore(file, "many words") == ["alice"]
    assert ring.get("alice").verifier == ring.get("old").verifier == alice
    other = Keyring(tmp_path / "other.toml")
    other.add("alice")
    assert code_of(lambda: other.restore(file, "many words")) is Code.KEY_NAME
    assert [entry.name for entry in other.known()] == ["alice"]


def test_a_demo_key_keeps_its_mark_under_any_name(ring: Keyring) -> None:
    unusual = ring.add("zelda", demo=True)
    assert ring.add("prod", unusual.key, force=True).demo  # known by the key that is here
    assert ring.rename("zelda", "real").demo
    assert Keyring(ring.path.with_name("other.toml")).add("prod", demo_key("bob")).demo


def test_a_linked_keyring_is_changed_where_it_is(ring: Keyring, tmp_path: Path) -> None:
    ring.add("alice")
    link = tmp_path / "link.toml"
    link.symlink_to(ring.path)
    Keyring(link).add("bob")
    assert link.is_symlink()
    assert [entry.name for entry in ring.known()] == ["alice", "bob"]
