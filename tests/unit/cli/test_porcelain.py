"""The commands for people: what they make is right, what they refuse they explain."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import forge
import pytest
from command import lace

from lace._version import __version__
from lace.cli.root import root
from lace.record import Plex, Seal, validate_record


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "me.key"
    assert lace("key", "new", path).returncode == 0
    return path


def test_version_and_help() -> None:
    assert lace("--version").stdout == f"lace {__version__}\n".encode()
    done = lace("--help")
    assert b"Example:" in done.stdout
    for name in (b"demo", b"key", b"record", b"plumb"):
        assert name in done.stdout


def commands(group: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(group, click.Group):
        return [path]
    context = click.Context(group)
    found = [path]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, (*path, name))
    return found


@pytest.mark.parametrize("path", commands(root), ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    text = command.get_help(click.Context(command, info_name="lace"))
    assert "Example:\n" in text
    assert f"lace {' '.join(path)}".strip() in text


@pytest.mark.req("009-SIG-07")
def test_a_key_file_is_private_and_never_replaced(key_file: Path) -> None:
    assert key_file.stat().st_mode & 0o777 == 0o600
    secret = key_file.read_text()
    assert secret.startswith("&.")
    again = lace("key", "new", key_file)
    assert again.returncode == 2
    assert b"exists already" in again.stderr
    assert key_file.read_text() == secret
    shown = lace("key", "show", key_file)
    assert shown.stdout.startswith(b"V.")
    assert secret.strip().encode() not in shown.stdout + shown.stderr + again.stdout + again.stderr
    assert lace("key", "show", "-", stdin=secret).stdout == shown.stdout


@pytest.mark.req("009-SIG-07")
def test_a_key_that_others_can_read_is_refused(key_file: Path) -> None:
    key_file.chmod(0o644)
    done = lace("key", "show", key_file)
    assert done.returncode == 2
    assert b"chmod 600" in done.stderr


def test_a_file_without_a_key_is_named_but_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("&.something-like-a-secret")
    path.chmod(0o600)
    done = lace("key", "show", path)
    assert done.returncode == 2
    assert b"something" not in done.stderr


@pytest.mark.req("010-REC-05", "010-REC-09", "110-COO-05")
def test_make_seal_and_verify(tmp_path: Path, key_file: Path) -> None:
    draft, note = tmp_path / "draft", tmp_path / "note"
    made = lace(
        "record", "make", "//notes-demo//notes/message//msg/1", "--field", "Title=a=b",
        "--data", "-", "-o", draft, stdin=b"\x00\xff",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    plex = validate_record(draft.read_bytes()).unwrap()
    assert isinstance(plex, Plex)
    assert (plex.app, plex.extras, plex.data) == ("notes/message", (("Title", "a=b"),), b"\x00\xff")
    assert made.stdout.decode().strip() == plex.hash
    assert lace("record", "seal", draft, "--key", key_file, "-o", note).returncode == 0
    sealed = validate_record(note.read_bytes()).unwrap()
    assert isinstance(sealed, Seal)
    assert sealed.plex == plex
    done = lace("record", "verify", note, draft)
    assert done.returncode == 0
    assert b"2 valid, 0 not" in done.stdout
    everything = lace("record", "verify", "--all", note).stdout
    for rule in (b"Group", b"Seal digest", b"signature"):
        assert rule in everything


def test_make_writes_to_standard_output_and_signs(key_file: Path) -> None:
    done = lace("record", "make", "//a//b//c", "--text", "hi", "--key", key_file)
    sealed = validate_record(done.stdout).unwrap()
    assert isinstance(sealed, Seal)
    assert sealed.data == b"hi"
    assert done.stderr.decode().strip() == sealed.hash


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_bytes(b"precious")
    done = lace("record", "make", "//a//b//c", "-o", path)
    assert done.returncode == 2
    assert b"--force" in done.stderr
    assert path.read_bytes() == b"precious"
    assert lace("record", "make", "//a//b//c", "-o", path, "--force").returncode == 0
    assert validate_record(path.read_bytes()).ok


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("//a//b",), 2, b"urc.field"),
        (("//a//b//",), 2, b"//group//app//name"),
        (("//a//b//c", "--field", "Title"), 2, b"NAME=VALUE"),
        (("//a//b//c", "--field", "Type=x"), 2, b"record.header-reserved"),
        (("//a//b//c", "--text", "a", "--data", "-"), 2, b"not both"),
        (("//a//b//c", "--tai", "now"), 2, b"tai.malformed"),
        (("//a//b//c", "--data", "/nothing/here"), 2, b"/nothing/here"),
        (("//a//b//c", "--key", "/nothing/here"), 2, b"/nothing/here"),
        (("//a//b//c", "-o", "/nothing/here"), 2, b"/nothing/here"),
    ],
)
def test_make_explains_what_it_refuses(arguments: tuple[str, ...], code: int, hint: bytes) -> None:
    done = lace("record", "make", *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert hint in done.stderr
    assert b"Traceback" not in done.stderr


def test_seal_takes_one_plex(tmp_path: Path, key_file: Path) -> None:
    for content in (b"", forge.blob(), forge.plex() * 2, forge.seal(), forge.plex()[:-1]):
        path = tmp_path / "x"
        path.write_bytes(content)
        done = lace("record", "seal", path, "--key", key_file)
        assert done.returncode in {1, 2}
        assert done.stdout == b""
        assert b"Traceback" not in done.stderr


@pytest.mark.req("010-REC-02")
def test_verify_says_expected_and_got(tmp_path: Path) -> None:
    path = tmp_path / "x"
    good = forge.seal()
    path.write_bytes(good[:-1] + b"X" + good + b"rest")
    done = lace("record", "verify", path)
    text = done.stdout.decode()
    assert done.returncode == 3
    assert text.count("expected B.") == text.count("got      B.") == 1
    assert "record.hash-mismatch" in text
    assert "record.markline" in text
    assert "1 valid, 2 not" in text


def test_show_prints_json_in_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.plex_with(b"Tag: [b]a[/b]") + forge.blob()[:-1] + b"X")
    done = lace("record", "show", path)
    assert b'"fields":{"Tag":["[b]a[/b]"]}' in done.stdout
    assert b"record.hash-mismatch" in done.stderr
    assert done.returncode == 3


def test_show_prints_a_table_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.plex_with(b"Tag: [b]a[/b]", b"Tag: c") + forge.blob(bytes(999)))
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.Popen(
        [sys.executable, "-m", "lace", "record", "show", str(path)],
        stdout=follower,
        env=environment,
    )
    os.close(follower)
    output = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    assert done.wait(timeout=30) == 0
    text = output.decode()
    assert "[b]a[/b]" in text  # cells are not markup
    assert "Tag (1)" in text
    assert "hello" in text


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(forge.blob() * 20_000)
    command = (
        f'"{sys.executable}" -m lace plumb record check "{path}" | head -1; exit ${{PIPESTATUS[0]}}'
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)  # noqa: S607
    assert done.stderr == b""
    assert done.returncode == 0


def test_a_sealed_keyring_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE_PASSPHRASE", raising=False)
    verifier = lace("keyring", "new", "alice", cwd=tmp_path).stdout
    monkeypatch.setenv("LACE_NEW_PASSPHRASE", "many words")
    assert lace("keyring", "passphrase", cwd=tmp_path).returncode == 0
    assert lace("keyring", "backup", "kept", cwd=tmp_path).returncode == 2  # it is sealed
    assert lace("keyring", "show", "alice", cwd=tmp_path).stdout == verifier
    assert b'"alice"' in lace("keyring", "list", cwd=tmp_path).stdout
    refused = lace("keyring", "show", "alice", "--secret", cwd=tmp_path)
    assert refused.returncode == 2
    assert b"LACE_PASSPHRASE" in refused.stderr
    monkeypatch.setenv("LACE_PASSPHRASE", "many words")
    assert lace("keyring", "show", "alice", "--secret", cwd=tmp_path).stdout.startswith(b"&.")
    assert lace("keyring", "backup", "kept", cwd=tmp_path).returncode == 0
    assert lace("keyring", "rename", "alice", "old", cwd=tmp_path).returncode == 0
    assert b"taken over: alice" in lace("keyring", "restore", "kept", cwd=tmp_path).stderr
    assert lace("keyring", "passphrase", "--remove", cwd=tmp_path).returncode == 0
    assert "&." in (tmp_path / "keyring.toml").read_text()


def test_a_script_restores_a_backup_that_has_another_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    for name in ("LACE_PASSPHRASE", "LACE_BACKUP_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    assert lace("keyring", "new", "alice", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("LACE_NEW_PASSPHRASE", "of the backup")
    assert lace("keyring", "backup", "kept", cwd=tmp_path).returncode == 0
    (tmp_path / "keyring.toml").unlink()
    assert lace("keyring", "new", "bob", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("LACE_NEW_PASSPHRASE", "of the keyring")
    assert lace("keyring", "passphrase", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("LACE_PASSPHRASE", "of the keyring")
    assert lace("keyring", "restore", "kept", cwd=tmp_path).returncode == 2
    monkeypatch.setenv("LACE_BACKUP_PASSPHRASE", "of the backup")
    assert b"taken over: alice" in lace("keyring", "restore", "kept", cwd=tmp_path).stderr
    assert lace("keyring", "show", "alice", "--secret", cwd=tmp_path).stdout.startswith(b"&.")


def test_a_short_passphrase_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    assert lace("keyring", "new", "alice", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("LACE_NEW_PASSPHRASE", "1234567")
    for words in (("keyring", "passphrase"), ("keyring", "backup", "kept")):
        done = lace(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert b"at least 8 characters, and this one has 7 [key.sealed]" in done.stderr
    assert not (tmp_path / "kept").exists()
    assert "&." in (tmp_path / "keyring.toml").read_text()


def test_what_needs_a_verifier_only_wants_no_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE_PASSPHRASE", raising=False)
    verifier = lace("keyring", "new", "alice", cwd=tmp_path).stdout.decode().strip()
    assert lace("room", "new", "r", "//c//t//", "--key", "alice", cwd=tmp_path).returncode == 0
    assert lace("add", "//c//t//a", "--text", "x", "--lace", "r", cwd=tmp_path).returncode == 0
    monkeypatch.setenv("LACE_NEW_PASSPHRASE", "many words")
    assert lace("keyring", "passphrase", cwd=tmp_path).returncode == 0
    for words in (
        "init n --key alice --select //c//t// --room alice", "why //c//t//a --lace r",
        "try //c//t// --lace r --peer ./n", "invite tcp:example.org:4790 --lace r",
        "why //c//t//a --peer ./n --lace r",
    ):  # fmt: skip
        done = lace(*words.split(), cwd=tmp_path)
        assert b"passphrase" not in done.stderr.lower(), (words, done.stderr)
        assert done.returncode in {0, 6}, (words, done.stderr)
    status = lace("status", "--lace", "r", cwd=tmp_path)
    assert status.returncode == 0
    told = json.loads(status.stdout)
    assert (told["key"], told["problems"]) == (verifier, [])
    assert told["room"]["role"] == "writer"
    unknown = lace("keyring", "show", "nobody", cwd=tmp_path)
    assert b"no key is called 'nobody'; there are: alice" in unknown.stderr
    signs = lace("add", "//c//t//b", "--text", "x", "--lace", "r", cwd=tmp_path)
    assert (signs.returncode, b"LACE_PASSPHRASE" in signs.stderr) == (2, True)
