"""Tables fit narrow and ordinary terminals, and what a person goes on with is in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from command import lace_inside as lace
from rich.cells import cell_len

from lace.cli.render import fitted_table
from lace.cli.root import root
from lace.crypto.keys import demo_key
from lace.keyring import Contacts, Keyring

ROOM = "//a-club//expenses//"
CLAIM = "//a-club//expenses/claim//bob/train-to-the-meeting"

#: What each command is called with, and what must be in its table at any width.
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": ("list", ("Hash", "S.")),
    "log": (f"log {CLAIM}", ("Hash", "S.")),
    "get": (f"get {CLAIM}", ("12.50",)),
    "record show": ("record show one.record", ("12.50",)),
    "diff": ("diff . ../other", ("the-meeting", "S.")),
    "try": (f"try {ROOM}", ("train-to-the-meeting", "S.")),
    "peers": ("peers", ("server", "laptop", "never")),
    "status": ("status", ("server", "6 here")),
    "room members": ("room members", ("ann", "treasurer", "auditor", "removed")),
    "room roles": ("room roles", ("treasurer", "nowhere")),
    "contact list": ("contact list", ("eve", "V.")),
    "keyring list": ("keyring list", ("ann", "V.")),
    "scenario list": ("scenario list", ("notes-room", "Notes room")),
    "store forgotten": ("store forgotten ../other", ("S.",)),
    "store info": ("store info .", ("records      6",)),
}
#: One object, which a terminal gets in words.
WORDS = {"store check", "store forget", "store remember"}
#: What happened one after another, and proofs: neither fits into rows.
STORIES = {"follow", "scenario run", "scenario test", "sync", "why", "why-not"}
#: Reports for people, also in a pipe: there they are read in the log of a build or of a service.
WORDS_IN_A_PIPE = {"check", "lake run", "lake stream", "policy audit"}
#: What they print is what they make: a file, a text, facts, a picture, a server's log.
MADE = {
    "completion", "demo", "export", "fmt", "help", "lake demo", "lake quarantine show",
    "lake select", "lake serve", "lake summarize", "lake why", "policy show", "record verify",
    "serve", "workbench",
}  # fmt: skip
#: They print one hash, verifier or link, and nothing else, so that a script can take it.
ONE_WORD = {
    "add", "invite", "key new", "key rotate", "key show", "keyring new", "keyring show",
    "record make", "record seal", "room admit", "room remove",
}  # fmt: skip
#: They print nothing; what is to be said stands on standard error.
SILENT = {
    "backup", "contact add", "contact remove", "import", "init", "join", "keyring backup",
    "keyring passphrase", "keyring remove", "keyring rename", "keyring restore", "restore",
    "room new", "scenario picture",
}  # fmt: skip
#: These need Spark; their tables are words, or printed by the same function.
LAKE = {
    "lake doctor",
    "lake export",
    "lake forget",
    "lake forgotten",
    "lake index",
    "lake info",
    "lake ingest",
    "lake maintain",
    "lake quarantine list",
    "lake quarantine replay",
    "lake reconcile",
    "lake remember",
    "lake shell",
    "lake sql",
    "lake sync",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LACE_KEYRING", str(home / "keyring.toml"))
        patch.delenv("LACE", raising=False)
        for name in ("ann", "bob", "cy"):
            Keyring().add(name, demo=True)
        Contacts().add("eve", demo_key("eve").verifier)
        club = home / "club"

        def ok(words: str, *more: str) -> bytes:
            done = lace(*words.split(), *more, cwd=club if club.exists() else home)
            assert done.returncode == 0, done.stderr
            return done.stdout

        ok(f"room new club {ROOM} --key ann --places own --delegation 1 --writes treasurer=* "
           "--writes member=claim --writes auditor=")  # fmt: skip
        ok("room admit bob --role member --may-admit 1")
        ok(f"room admit {demo_key('dan').verifier} --role auditor")
        ok("room admit cy --role member --key bob")
        ok("room remove cy --key bob")
        ok(f"add {CLAIM} -f Amount=12.50 --key bob", "--text", "Train to the meeting, and back")
        (club / "one.record").write_bytes(ok(f"get {CLAIM} --raw"))
        ok(f"init ../other --key cy --select {ROOM}")
        ok(f"add {ROOM}gone --lace ../other", "--text", "x")
        ok(f"store forget ../other {ROOM}gone --yes")
        with (club / "lace.toml").open("a") as settings:
            settings.write(
                '\n[peers.server]\naddress = "tcp:notes.example.org:4790"\n'
                f'expect = "{demo_key("eve").verifier}"\n'
                '\n[peers.laptop]\naddress = "unix:/run/user/1000/lace/laptop.sock"\n'
            )
        yield club


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("name", CASES)
def test_every_table_fits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words, wanted = CASES[name]
    done = lace(*words.split(), "--table", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert len(lines) > 1
    if name != "status":  # that is sentences, and the terminal folds them
        assert max(map(cell_len, lines)) <= columns, "\n".join(lines)
    for text in wanted:
        assert text in done.stdout.decode()
    assert b"no room for" not in done.stderr


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}".strip())
    else:
        yield name, command


def forms(command: click.Command) -> frozenset[str]:
    options = {option for parameter in command.params for option in parameter.opts}
    return frozenset(options & {"--json", "--table", "--csv"})


def test_no_table_was_left_out() -> None:
    tables = {name for name, command in commands(root) if "--csv" in forms(command)}
    assert tables == set(CASES) | WORDS | LAKE


def test_every_command_has_all_forms_or_a_reason_for_fewer() -> None:
    """A new command has --json, --table and --csv, or stands where it is said why not."""
    less = STORIES | WORDS_IN_A_PIPE | MADE | ONE_WORD | SILENT
    found = {name: forms(one) for name, one in commands(root) if not name.startswith("plumb ")}
    for name, has in found.items():
        wanted = {"--json", "--table", "--csv"}
        if name in less:
            wanted -= {"--csv"}
            wanted -= {"--table"} if name not in STORIES else set()
            wanted -= {"--json"} if name not in STORIES | WORDS_IN_A_PIPE else set()
        assert has == wanted, name
    assert less <= found.keys()


def test_a_table_of_many_columns_says_what_it_has_no_room_for(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    heads = [f"Column-{number}" for number in range(9)]
    fitted_table(heads, [[f"value {number} of nine" for number in range(9)]], whole=heads[-1:])
    told = capfdbinary.readouterr()
    head, row = told.out.decode().splitlines()
    assert max(map(cell_len, (head, row))) <= 40
    assert row.endswith("value 8 of nine")
    assert "no room for Column-3, Column-4, Column-5, Column-6, Column-7" in told.err.decode()


def test_places_are_cut_in_front(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    fitted_table(("Place", "Name"), [("//g//a//文字文字文字/the-end", "some long name")])
    place, name = capfdbinary.readouterr().out.decode().splitlines()[1].split("  ")
    assert place.endswith("/the-end")
    assert place.startswith("…")
    assert name.startswith("some")
    assert name.endswith("…")
