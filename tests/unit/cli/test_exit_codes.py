"""Exit codes: every command means the same by them, as lace --help says."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import lace_inside as lace

from lace.cli.exitcodes import Exit
from lace.keyring import Keyring

PLACE = "//g//notes//a"
ABSENT = f"S.{'0' * 43}.H3"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    Keyring().add("ann", demo=True)
    made = lace("init", "n", "--key", "ann", "--select", "//g//notes//", cwd=tmp_path)
    assert made.returncode == 0
    (tmp_path / "n" / "bad.lacegram").write_text("SelectHave(P :- Have(P).\n")
    (tmp_path / "n" / "text").write_text("no store, no record\n")
    assert lace("add", PLACE, "--text", "x", cwd=tmp_path / "n").returncode == 0
    return tmp_path / "n"


_USAGE = (
    # Files, laces and keys that are not there.
    "add //g//notes//b --file nope", "add //g//notes//b --text x --key nope",
    "add //g//notes//b --text x --key ./nope", "add --batch nope", "backup x --lace nope",
    "check nope", "diff . nope", "export --lace nope", "fmt nope", "get //g//notes//a --lace nope",
    "import nope.jsonl", "init m --key nope", "init m --select nope.lacegram", "join m nope",
    "key show nope", "keyring new old --from nope", "keyring restore nope", "keyring show nope",
    "list --lace nope", "list nope.lacegram", "log //g//notes//a --lace nope", "peers --lace nope",
    "record show nope", "record verify nope", "restore nope m", "room new m //g//n// --key nope",
    "scenario run nope", "serve nope tcp:127.0.0.1:0", "status --lace nope", "store check nope",
    "store forget nope //g//a//", "store forgotten nope", "store info nope",
    "store remember nope --all", "sync nope", "try nope.lacegram", "why nope",
    f"why {PLACE} --lace nope", "policy audit --local //g//a// --peer //g//a// --records nope",
    # Values that cannot be.
    "add nonsense --text x", "add //g//notes --text x", "add //g//notes//b --text x --tai soon",
    "add //g//notes//b --text x -f Na.me", "add //g//notes//b --text x -f Name=x",
    "contact add bob V.x", "get nonsense", "get //g//notes", "get ////S.x", "invite nonsense",
    "list --since soon", "list //g", "list --author nobody", "log nonsense",
    "record make nonsense --text x", "record make //g//notes//b --text x --tai soon",
    "room new m //g//talk --key ann", "room new m //g//talk// --key ann --writes a/b=x",
    "serve nonsense tcp:127.0.0.1:0", "serve tcp:nonsense:x:y", "store forget //g", "try //g",
    "why nonsense", f"get {PLACE} --json --csv", "list --table --json", "status --csv --table",
    # Words that are missing or unknown.
    "add", "get", "init --nope", "nope", "room", "sync", "why",
)  # fmt: skip
_BAD_INPUT = (
    "check bad.lacegram", "fmt bad.lacegram", "list bad.lacegram", "init m --select bad.lacegram",
    "list --lace text", "restore text m", "store check text", "store info text",
    "sync text", "try bad.lacegram",
)  # fmt: skip
_NOT_FOUND = (
    "get //g//notes//nope", f"get {ABSENT}", "get S.00000", "log //g//notes//nope", "log S.00000",
    f"log {ABSENT}", "store remember S.00000", f"store remember {ABSENT}", "why //g//notes//nope",
    f"why {ABSENT}", "why S.00000", "why-not //g//notes//nope", f"why-not {ABSENT}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("commands", "expected"),
    [(_USAGE, Exit.USAGE), (_BAD_INPUT, Exit.BAD_INPUT), (_NOT_FOUND, Exit.NOT_FOUND)],
    ids=["usage", "bad input", "not found"],
)
def test_every_command_ends_as_the_help_says(
    folder: Path, commands: tuple[str, ...], expected: Exit
) -> None:
    before = sorted(folder.iterdir())
    wrong = []
    for words in commands:
        done = lace(*words.split(), cwd=folder)
        assert done.stderr or done.stdout, words  # whoever fails says why
        if done.returncode != expected:
            wrong.append((words, int(done.returncode), done.stderr.decode().splitlines()[-2:]))
    assert wrong == []
    assert sorted(folder.iterdir()) == before
