"""No record, peer or file speaks to the terminal: what reaches it is text that does nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unicodedata import category
from unicodedata import name as name_of

import pytest
from command import lace_inside as lace

import lace as api
from lace.cli.exitcodes import Exit
from lace.cli.root import _COMMANDS
from lace.errors import Code
from lace.keyring import Keyring
from lace.record import build_plex
from lace.text import is_safe, safe

CSI, RLO, LRI, ZWSP, TAG = "\x9b31m", "\u202e", "\u2066", "\u200b", "\U000e0041"
HIDDEN = f"a{CSI}b{RLO}c{LRI}d{ZWSP}e{TAG}f"  # what a name and a field may hold
DATA = f"hello \x1b]0;pwned\x07\x1b[2J\x1b[31m{HIDDEN}\r\b\x7f"
RECORD = build_plex(
    group="g", app="notes", name=f"evil{HIDDEN}", tai="1700000000:000000000",
    extras=[("Title", f"t{HIDDEN}"), ("Title", "[bold red]markup[/bold red]")], data=DATA.encode(),
)  # fmt: skip
PLACE = "//g//notes//"
RULES = (
    f"SelectHave(P) :- Have(P), Field(P,'Title',_,'t{HIDDEN}').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)

COMMANDS: dict[str, str] = {
    "get": f"get {RECORD.hash}",
    "get json": f"get {RECORD.hash} --json",
    "get csv": f"get {RECORD.hash} --csv",
    "get data": f"get {RECORD.hash} --data",
    "get nothing": f"get //g//notes//no{HIDDEN}",
    "list": "list",
    "list columns": "list --columns Name,Title,Place,Data",
    "list json": "list --columns Name,Title,Place,Data --json",
    "list csv": "list --csv",
    "list nothing": f"list -f Title=no{HIDDEN}",
    "log": f"log {PLACE}evil{HIDDEN}",
    "add": f"add {PLACE}more{HIDDEN} --text x",
    "record show": "record show record.lace",
    "record verify": "record verify record.lace broken.lace --all",
    "why": f"why {RECORD.hash}",
    "why-not": f"why-not {RECORD.hash} --select rules.lacegram",
    "status": "status",
    "peers": "peers",
    "sync": "sync ../other",
    "sync follow": f"follow ../no{HIDDEN}",
    "store check": "store check .",
    "store no": f"store info no{HIDDEN}",
    "policy show": "policy show rules.lacegram",
    "policy audit": f"policy audit --local {PLACE} --peer rules.lacegram --records record.lace",
    "check": "check wrong.lacegram",
    "fmt": "fmt rules.lacegram",
    "scenario": "scenario run story.toml",
    "scenario wrong": "scenario test wrong.toml",
    "help": f"help x{HIDDEN}",
    "contact": f"contact add x{HIDDEN} V.x",
    "key": f"key show no{HIDDEN}",
    "keyring": f"keyring show no{HIDDEN}",
    "init": f"init new{HIDDEN}",
    "serve": f"serve no{HIDDEN}.lace tcp:{HIDDEN}",
    "plumb facts": "plumb record facts record.lace",
    "plumb canon": "plumb lacegram canon rules.lacegram",
    "plumb plan": "plumb plan show --operand0 rules.lacegram --operand1 rules.lacegram",
    "plumb advert": "plumb advert list --records record.lace --source V.x",
    "lake": f"lake reconcile no{HIDDEN} no{HIDDEN} {PLACE}",
    "workbench": f"workbench --host {HIDDEN}",
    "backup": f"backup no{HIDDEN}/x",
    "restore": f"restore no{HIDDEN} x",
    "diff": "diff ../other",
    "export": f"export no{HIDDEN}/x",
    "import": f"import no{HIDDEN}",
    "invite": f"invite tcp:{HIDDEN}",
    "join": f"join lace:{HIDDEN}",
    "room": f"room admit {HIDDEN}",
    "try": "try rules.lacegram",
}
#: These tell nothing that comes from records or files.
SILENT = {"completion", "demo"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LACE_KEYRING", str(home / "keyring.toml"))
        patch.delenv("LACE", raising=False)
        Keyring().add("me", demo=True)
        for name in ("n", "other"):
            assert lace("init", name, "--key", "me", "--select", PLACE, cwd=home).returncode == 0
        made = home / "n"
        with api.open(made, records=[RECORD]):
            pass
    (made / "record.lace").write_bytes(RECORD.raw)
    (made / "broken.lace").write_bytes(RECORD.raw.replace(b"hello", b"HELLO") + DATA.encode())
    (made / "rules.lacegram").write_text(RULES, encoding="utf-8")
    (made / "wrong.lacegram").write_text(f"Wrong{HIDDEN}(P) :- '{HIDDEN}'", encoding="utf-8")
    story = (Path(__file__).parents[3] / "scenarios" / "notes-room.toml").read_text("utf-8")
    story = re.sub(
        "^title = .*$", lambda _: f"title = {json.dumps(HIDDEN)}", story, flags=re.MULTILINE
    )
    story = re.sub("^say = .*$", lambda _: f"say = {json.dumps(DATA)}", story, flags=re.MULTILINE)
    (made / "story.toml").write_text(story, encoding="utf-8")
    (made / "wrong.toml").write_text(f'format = "x{HIDDEN}"\n', encoding="utf-8")
    return made


def shown(words: list[str], folder: Path) -> tuple[int, str]:
    """Return the exit code, and all that a command shows on a terminal."""
    ours, theirs = pty.openpty()
    environment = os.environ | {
        "LACE_KEYRING": str(folder.parent / "keyring.toml"), "NO_COLOR": "1", "TERM": "dumb",
        "COLUMNS": "300", "PYTHONUTF8": "1",
    }  # fmt: skip
    with ThreadPoolExecutor(1) as reader:
        seen = reader.submit(_until_closed, ours)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "lace", *words], cwd=folder, stdin=subprocess.DEVNULL,
                stdout=theirs, stderr=theirs, check=False, timeout=300, env=environment,
            )  # fmt: skip
        finally:  # or whoever looks would look for ever
            os.close(theirs)
        text = seen.result().decode()
    assert "Traceback" not in text, text
    return done.returncode, text.replace("\r\n", "\n")


def _until_closed(terminal: int) -> bytes:
    seen = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            more = b""
        if not more:
            os.close(terminal)
            return seen
        seen += more


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_of_a_record_is_a_command_for_the_terminal(folder: Path, name: str) -> None:
    _, text = shown(COMMANDS[name].split(" "), folder)
    assert text.strip()
    assert [c for c in text if safe(c) != c] == []


def test_every_command_was_tried() -> None:
    tried = {words.split(" ")[0] for words in COMMANDS.values()}
    assert tried | SILENT == set(_COMMANDS)


def test_commands_print_in_one_way() -> None:
    """What is printed past ``output`` is this project's own text, or made safe where it stands."""
    past = re.compile(
        r"click\.s?echo\(|(?<!\.)\bprint\(|stdout\.(buffer\.)?write\(|stderr\.write\("
    )
    found = {
        f"{path.name}: {line.strip()}"
        for path in (Path(__file__).parents[3] / "src" / "lace" / "cli").glob("*.py")
        if path.name != "output.py"
        for line in path.read_text("utf-8").splitlines()
        if past.search(line)
    }
    assert found == {
        '__init__.py: sys.stderr.write(f"lace: {error.strerror}\\n")',
        '__init__.py: sys.stdout.write(f"lace {__version__}\\n")',
        'demo.py: click.secho(f"\\n{text}", bold=True)',
        "progress.py: click.echo(_CLEAR, nl=False, err=True)",
        'progress.py: click.echo(f"{_CLEAR}{sign} {safe(self._title + line)}", nl=False, err=True)',
        "root.py: click.echo(safe(redact(trace)), file=loudness.stderr, nl=False)",
        "root.py: click.echo(safe(message), file=loudness.stderr)",
        "scenario.py: click.secho(safe(built.scenario.title), bold=True)",
        'scenario.py: click.secho(f"\\n{step.number + 1}", bold=True, nl=False)',
        'scenario.py: click.secho("   ✓" if check.ok else "   ✗", fg="green" if check.ok else "red", nl=False)',
        'serve.py: loudness.stderr.write(redact(json_line(told)) + "\\n")',
    }


def test_bytes_go_into_pipes_and_not_to_terminals(folder: Path) -> None:
    words = ["get", str(RECORD.hash), "--raw"]
    code, text = shown(words, folder)
    assert code == Exit.USAGE
    assert Code.OUTPUT_TERMINAL in text
    assert "-o FILE" in text
    assert lace(*words, cwd=folder).stdout == RECORD.raw
    assert lace("get", RECORD.hash, "--data", cwd=folder).stdout == DATA.encode()
    code, text = shown(["record", "make", "//g//notes//x", "--text", "x"], folder)
    assert code == Exit.USAGE


def test_a_pipe_gets_json_that_means_what_the_record_says(folder: Path) -> None:
    done = lace("get", RECORD.hash, cwd=folder)
    entry = json.loads(done.stdout)
    assert entry["data"] == DATA
    assert entry["fields"]["Title"][0] == f"t{HIDDEN}"
    text = done.stdout.decode().removesuffix("\n")
    assert safe(text) == text  # also for whoever looks at it later


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"), ("日本語\u3000é", "日本語\u3000é"), ("a\tb\nc", "a\tb\nc"), ("\x1b[2J", "·[2J"),
        ("\x9b", "·"), ("\u202e\u2069\u200f\u061c", "····"), ("\u200b\u2060\ufeff\u00ad", "····"),
        ("\ud800", "·"), ("\u2028", "·"), ("\r", "·"),
        ("a\u3164b\uffa0c\u115f\u1160", "a·b·c··"), ("\u034f\u17b4\u17b5\u180b\u180f", "·····"),
        ("\ue000\U000f0000\U0010fffd", "···"), ("\U000e0041\U000e0100\U000e01ef", "···"),
        # An emoji shows a dot for each part that only says how others are drawn.
        ("\u2764\ufe0f", "\u2764·"), ("\U0001f468\u200d\U0001f469", "\U0001f468·\U0001f469"), ("\U0001f642", "\U0001f642"),
        # Marks are seen, and so is the width of an empty cell.
        ("e\u0323\u0302 \u0e01\u0e34", "e\u0323\u0302 \u0e01\u0e34"), ("\u2800\u00a0", "\u2800\u00a0"),
    ],
)  # fmt: skip
def test_what_is_safe(text: str, seen: str) -> None:
    assert safe(text) == seen


def test_nothing_that_a_program_may_ignore_is_safe() -> None:
    """By the names that Unicode gives them, and by their kinds, whatever Python calls printable."""
    for number in range(0x110000):
        character = chr(number)
        kind, name = category(character), name_of(character, "")
        ignorable = kind in {"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"}
        ignorable |= "VARIATION SELECTOR" in name or "VOWEL INHERENT" in name
        ignorable |= name == "COMBINING GRAPHEME JOINER"
        ignorable |= "HANGUL" in name and name.endswith("FILLER")
        if ignorable:
            assert not is_safe(character), f"U+{number:04X} {name}"
        elif character.isprintable() or kind == "Zs":
            assert is_safe(character), f"U+{number:04X} {name}"


def test_cells_of_tables_are_one_line() -> None:
    check: Callable[[str, str], str] = safe
    assert check("a\tb\nc", "") == "a·b·c"
