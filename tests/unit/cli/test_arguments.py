"""The same words mean the same in every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command import lace_inside as lace
from hosting import hosting
from meeting import Host
from wires import notes, store_of

from lace import blocking
from lace.cli.arguments import read_verifier
from lace.cli.root import root
from lace.crypto.keys import demo_key
from lace.errors import LaceError
from lace.keyring import Keyring
from lace.settings import read_exposure, read_selector

PLACE = "//g//notes//"
RULES = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
# The plumbing is a contract of its own: it takes files and ids, and nothing by name.
_CONTRACT = "plumb"


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            if name != _CONTRACT:
                yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def options(name: str) -> list[tuple[str, click.Option]]:
    return [
        (words, option)
        for words, command in commands(root)
        for option in command.params
        if isinstance(option, click.Option) and name in option.opts
    ]


@pytest.mark.parametrize(
    ("option", "metavar", "commands_at_least"),
    [
        ("--select", "SELECTOR", 8),
        ("--expose", "none|selected|everything|FILE", 7),
        ("--key", "NAME|FILE", 10),
        ("--expect", "NAME|VERIFIER", 4),
        ("--room", "NAME|VERIFIER", 2),
        ("--viewer", "NAME|VERIFIER", 1),
        ("--lace", "PATH", 7),
        ("--field", "NAME=VALUE", 4),
    ],
)
def test_an_option_takes_the_same_everywhere(
    option: str, metavar: str, commands_at_least: int
) -> None:
    found = options(option)
    assert len(found) >= commands_at_least
    assert {(words, made.metavar) for words, made in found} == {
        (words, metavar) for words, _ in found
    }


def test_no_option_has_a_second_name() -> None:
    assert options("--selector") == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("alice", "bob"):
        Keyring().add(name, demo=True)
    assert lace("init", "a", "--key", "alice", "--select", PLACE, cwd=tmp_path).returncode == 0
    with blocking.open(tmp_path / "a" / "records.lace", records=notes(2)):
        pass
    (tmp_path / "a" / "all.lacegram").write_text(RULES)
    (tmp_path / "a" / "records").write_bytes(notes(1)[0].raw)
    return tmp_path


# Each command that exposes, with what it needs beside; those of the lake read this before Spark.
EXPOSING = [
    ("sync", "tcp:127.0.0.1:1"),
    ("follow", "tcp:127.0.0.1:1"),
    ("serve", ".", "tcp:256.0.0.1:1"),
    ("why", notes(1)[0].hash),
    ("why-not", notes(1)[0].hash),
    ("try", PLACE),
    ("policy", "audit", "--local", PLACE, "--peer", PLACE, "--records", "records"),
    ("lake", "serve", "x.lake", "--select", PLACE),
    ("lake", "sync", "x.lake", "tcp:127.0.0.1:1", "--select", PLACE),
    ("lake", "stream", "x.lake", "tcp:127.0.0.1:1", "--checkpoint", "c", "--select", PLACE),
]


def test_every_command_that_exposes_is_tried_here() -> None:
    tried = {" ".join(words[: 2 if words[0] in {"policy", "lake"} else 1]) for words in EXPOSING}
    assert {words for words, _ in options("--expose")} == tried


@pytest.mark.parametrize("words", EXPOSING, ids=lambda words: "-".join(words[:2]))
def test_two_words_cannot_both_be_exposed(home: Path, words: tuple[str, ...]) -> None:
    both = ("--expose", "none", "--expose", "everything")
    done = lace(*words, *both, cwd=home / "a")
    assert done.returncode == 2, done.stderr
    assert b"none and everything cannot both be exposed" in done.stderr
    missing = lace(*words, "--expose", "missing.lacegram", cwd=home / "a")
    assert missing.returncode in {1, 2}
    assert b"missing.lacegram" in missing.stderr


@pytest.mark.parametrize("text", [PLACE, RULES, "all.lacegram", "file:all.lacegram"])
def test_a_selector_is_a_place_rules_or_a_file_everywhere(home: Path, text: str) -> None:
    where = home / "a"
    for words in (
        ("list", text),
        ("policy", "show", text),
        ("try", text),
        ("store", "forget", "records.lace", text),
        ("why", notes(1)[0].hash, "--select", text),
        ("policy", "audit", "--local", text, "--peer", text, "--records", "records"),
    ):
        done = lace(*words, cwd=where)
        assert done.returncode == 0, (words, done.stderr)
    with hosting(Host(store_of(notes(1)), stays=False)) as address:
        for words in (("sync", address, "--select", text), ("list", text, "--from", address)):
            done = lace(*words, cwd=where)
            assert done.returncode == 0, (words, done.stderr)
    for serving in (
        ("serve", "records.lace", "tcp:256.0.0.1:1", "--select", text),  # nobody can listen there
        ("serve", ".", "tcp:256.0.0.1:1", "--select", text),
    ):
        assert b"transport.listen" in lace(*serving, cwd=where).stderr


def test_what_is_exposed_is_one_word_and_any_files(tmp_path: Path) -> None:
    assert read_exposure(()).default == "selected"
    assert read_exposure(("everything",)).default == "everything"
    assert read_exposure(("none", "none")).default == "none"
    (tmp_path / "view").write_text("AllowQueryRecord(V,P) :- Have(P), Peer(V).\n")
    made = read_exposure(("file:view",), tmp_path)
    assert (len(made.modules), made.default) == (1, "none")
    assert read_exposure(("view", "selected"), tmp_path).default == "selected"


def test_verifiers_go_by_the_names_they_have_here(home: Path) -> None:
    bob = demo_key("bob").verifier
    assert read_verifier(bob, "--expect") == bob
    assert read_verifier("bob", "--expect") == bob
    with pytest.raises(LaceError, match=r"--expect: 'carol' is no verifier.*alice, bob"):
        read_verifier("carol", "--expect")
    with hosting(Host(store_of(notes(1)), key=demo_key("bob"), stays=False)) as address:
        assert lace("sync", address, "--expect", "bob", cwd=home / "a").returncode == 0
        assert lace("sync", address, "--expect", "alice", cwd=home / "a").returncode == 4
        assert lace("sync", address, "--expect", "carol", cwd=home / "a").returncode == 2
    with pytest.raises(LaceError):
        read_selector("file:missing")
