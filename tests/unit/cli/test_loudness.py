"""How much is told: quiet, verbose, suggestions, completion, and a line that moves."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from command import lace_inside as lace
from terminal import on_a_terminal
from wires import notes

import lace as api
from lace.cli.loudness import loudness, shows_progress
from lace.cli.progress import ProgressLine
from lace.cli.root import root
from lace.keyring import Contacts, Keyring

PREFIX = "//g//notes//"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("ann", "anton", "bob"):
        Keyring().add(name, demo=True)
    Contacts().add("andy", api.SigningKey.generate().verifier)
    words = (
        "init",
        "n",
        "--key",
        "ann",
        "--select",
        PREFIX,
        "--peer",
        "hub=tcp:h:1",
        "--peer",
        "home=tcp:h:2",
    )
    assert lace(*words, cwd=tmp_path).returncode == 0
    monkeypatch.chdir(tmp_path / "n")
    return tmp_path / "n"


def test_quiet_leaves_results_and_errors(home: Path) -> None:
    place = f"{PREFIX}x"
    loud = lace("add", place, "--text", "a", cwd=home)
    assert b"demo key" in loud.stderr
    for words in (
        ("-q", "add", place, "--text", "b"),
        ("add", place, "--text", "c", "--quiet"),
        ("add", "-q", place, "--text", "d"),
    ):
        quiet = lace(*words, cwd=home)
        assert (quiet.returncode, quiet.stderr) == (0, b"")
        assert quiet.stdout.startswith(b"S.")
    wrong = lace("room", "members", "-q", cwd=home)
    assert (wrong.returncode, b"this lace is no room" in wrong.stderr) == (2, True)
    assert not loudness.quiet or loudness.stderr is not None
    assert b"demo key" in lace("add", place, "--text", "e", cwd=home).stderr  # it is forgotten


def test_commands_that_work_long_take_a_level_too(home: Path) -> None:
    words = ("import", "-", "--to", PREFIX, "--name", "id")
    table = "id\n{}\n"
    assert b"1 new" in lace(*words, "--log-level", "info", stdin=table.format(1), cwd=home).stderr
    silent = lace(*words, "--log-level", "error", stdin=table.format(2), cwd=home)
    assert (silent.returncode, silent.stderr) == (0, b"")
    wrong = lace("sync", "nobody", "--log-level", "debug", cwd=home)
    assert b"Traceback" in wrong.stderr
    assert lace("follow", "--log-level", "loud", cwd=home).returncode == 2
    for command in ("sync", "follow", "import", "export", "backup", "restore"):
        told = lace(command, "--help", cwd=home).stdout
        assert all(option in told for option in (b"--quiet", b"--verbose", b"--log-level"))


def test_verbose_tells_everything_and_where_an_error_arose(home: Path) -> None:
    assert lace("init", "../other", "--select", PREFIX, cwd=home).returncode == 0
    with api.open(home.parent / "other", records=notes(30)):
        pass
    told = on_a_terminal("sync", "../other", "-v", cwd=home)
    assert told.count("←") == 30
    wrong = lace("-v", "get", "//nowhere", cwd=home)
    assert b"Traceback" in wrong.stderr
    assert wrong.stderr.splitlines()[-2].startswith(b"lace: ")
    assert b"Traceback" not in lace("get", "//nowhere", cwd=home).stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("synk",), b"Did you mean sync"),
        (("romo",), b"Did you mean room"),
        (("room", "admitt"), b"Did you mean admit?"),
        (("xyzzy",), b""),
    ],
)
def test_a_mistyped_command_gets_a_suggestion(words: tuple[str, ...], meant: bytes) -> None:
    done = lace(*words)
    assert done.returncode == 2
    assert meant in done.stderr
    assert (b"Did you mean" in done.stderr) == bool(meant)


@pytest.mark.parametrize(
    ("words", "begin", "found"),
    [
        (["add", "--key"], "an", ["ann", "anton"]),
        (["room", "admit"], "an", ["andy", "ann", "anton"]),
        (["list", "--author"], "and", ["andy"]),
        (["sync"], "h", ["home", "hub"]),
        (["why", "x", "--peer"], "hu", ["hub"]),
        (["scenario", "run"], "notes", ["notes-room"]),
        (["keyring", "show"], "b", ["bob"]),
        (["synch"], "", []),
    ],
)
@pytest.mark.usefixtures("home")
def test_names_are_completed(words: list[str], begin: str, found: list[str]) -> None:
    made = ShellComplete(root, {}, "lace", "_LACE_COMPLETE").get_completions(words, begin)
    names = [item.value for item in made]
    assert names == found or (words == ["synch"] and "sync" in names)


def test_paths_are_completed_by_the_shell() -> None:
    (item,) = ShellComplete(root, {}, "lace", "X").get_completions(["list", "--lace"], "../")
    assert item.type == "file"


def test_completion_never_complains(home: Path) -> None:
    (home / "lace.toml").write_text("= nonsense")
    assert ShellComplete(root, {}, "lace", "X").get_completions(["sync"], "h") == []


def test_every_command_takes_both() -> None:
    def look(command: click.Command) -> int:
        names = {name for option in command.params for name in option.opts}
        assert {"-q", "-v"} <= names, command.name
        if not isinstance(command, click.Group):
            return 1
        context = click.Context(command)
        inner = (command.get_command(context, name) for name in command.list_commands(context))
        return sum(look(one) for one in inner if one is not None)

    assert look(root) > 60


class Terminal:
    """A standard error that says it is a terminal, and keeps what is shown."""

    def __init__(self) -> None:
        self.shown = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.shown += text

    def flush(self) -> None:
        pass


def test_a_line_of_progress_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    now = [0.0]
    monkeypatch.setattr("lace.cli.progress.time.monotonic", lambda: now[0])
    with ProgressLine("records read") as line:
        line.tell(1, 0.1)
        assert terminal.shown == ""  # short work shows nothing
        now[0] = 2.0
        line.tell(1000, 0.5)
        assert "1,000 records read, 500/s, 50%, 2 s left" in terminal.shown
        before = terminal.shown
        line.tell(1001, 0.5)
        assert terminal.shown == before  # not more often than eyes can follow
    assert terminal.shown.endswith("\r\x1b[K")
    monkeypatch.setenv("TERM", "dumb")
    assert not shows_progress()
