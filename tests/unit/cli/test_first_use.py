"""What somebody meets who uses the command for the first time: names, short hashes, full disks."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command import lace_inside as lace
from wires import notes

import lace as api
from lace.keyring import Keyring

PLACE = "//club//talk//"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    monkeypatch.delenv("LACE", raising=False)
    for name in ("ann", "bob"):
        Keyring().add(name, demo=True)
    assert lace("room", "new", "ann", PLACE, "--key", "ann", cwd=tmp_path).returncode == 0
    assert lace("room", "admit", "bob", cwd=tmp_path / "ann").returncode == 0
    words = ("init", "bob", "--key", "bob", "--select", PLACE, "--room", "ann")
    assert lace(*words, cwd=tmp_path).returncode == 0
    return tmp_path / "ann"


def test_places_of_members_have_their_names(folder: Path) -> None:
    apart = lace("diff", "ann", "bob", "--table", cwd=folder.parent).stdout.decode()
    assert "//club//talk/member//bob " in apart
    tried = lace("try", PLACE, "--table", cwd=folder).stdout.decode()
    assert "//club//talk/member//bob " in tried
    met = lace("sync", "../ann", "--table", cwd=folder.parent / "bob").stdout.decode()
    assert re.search(r"^← S\.\S+ //club//talk/member//bob$", met, flags=re.MULTILINE)
    for words in (("diff", "ann", "bob", "--csv"), ("list", "--csv", "--lace", "ann")):
        assert b"member//bob" not in lace(*words, cwd=folder.parent).stdout  # programs get all


def test_a_log_is_found_by_hash_and_a_hash_can_be_too_short(folder: Path) -> None:
    for text in ("one", "two"):
        done = lace("add", "//club//talk//a", "--text", text, cwd=folder)
    hash = done.stdout.decode().strip()
    by_place = lace("log", "//club//talk//a", cwd=folder)
    by_hash = lace("log", hash[:10], cwd=folder)
    assert by_hash.stdout == by_place.stdout
    assert by_place.stdout.count(b"\n") == 2
    for words in (("log", "S.ab"), ("get", "S.")):
        done = lace(*words, cwd=folder)
        assert done.returncode == 2
        assert b"is too short for a hash" in done.stderr
    many = lace("log", PLACE, cwd=folder)
    assert b"Write //group//app//name." in many.stderr


def test_what_is_said_next_can_be_typed(folder: Path) -> None:
    bob = folder.parent / "bob"
    assert lace("sync", "../ann", cwd=bob).returncode == 0
    assert b"lace sync --key bob brings" in lace("key", "rotate", "bob-2", cwd=bob).stderr
    gone = lace("contact", "remove", "nobody", cwd=folder)
    assert b"lace contact list" in gone.stderr


def test_what_the_system_says_of_a_file_has_its_name_and_no_number(folder: Path) -> None:
    done = lace("init", "lace.toml/new", cwd=folder)
    assert done.stderr.startswith(b"lace: lace.toml/new: Not a directory [input.file]\n")


@pytest.mark.parametrize(
    ("words", "file"),
    [(("export", "--all", "-o", "out.csv"), "out.csv"), (("backup", "out.lace"), "out.lace")],
)
def test_a_full_disk_is_told_with_the_file_that_did_not_fit(
    folder: Path, words: tuple[str, ...], file: str
) -> None:
    with api.open(folder, records=notes(1500)):
        pass
    before = {path.name for path in folder.iterdir() if not path.name.startswith("records")}
    limit = 100_000
    script = (
        "import resource, sys; from lace.cli.root import run; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY})); "
        f"sys.exit(run({list(words)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode in {1, 2}
    assert file in done.stderr.splitlines()[0], done.stderr
    assert "records.lace" not in done.stderr
    left = {path.name for path in folder.iterdir() if not path.name.startswith("records")}
    assert left == before


@pytest.mark.parametrize("name", ["exchange.jsonl", "./notes", "notes.lace"])
def test_a_file_that_is_not_there_is_taken_for_no_scenario(tmp_path: Path, name: str) -> None:
    done = lace("workbench", name, cwd=tmp_path)
    assert done.returncode == 2
    assert f"there is no file '{name}' [input.file]\n  Check its name".encode() in done.stderr
