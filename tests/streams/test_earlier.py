"""Peers of earlier versions: whole programs of them are kept, and speak over real TCP.

They lie in ``tests/data``, without their workbench and their lake; Python runs them from the
archive. ``earlier-lace.zip`` told no tables and no sketches, and made proofs of identity in a form
that is refused since. ``earlier-tables.zip`` told tables by other digests, and sketches of other
names, under the names of other limits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from earlier import environment_of

DATA = Path(__file__).parents[1] / "data"
WITHOUT_TABLES, OTHER_TABLES = DATA / "earlier-lace.zip", DATA / "earlier-tables.zip"
SELECT = "//g//notes//"
FILL = """
import sys
from lace.record import build_plex
from lace.recordstore import SqliteStore

with SqliteStore(sys.argv[1]) as store:
    store.save([
        build_plex(group="g", app="notes", name=f"n/{n}", tai=f"{n:010d}:{0:09d}", data=b"x")
        for n in range(int(sys.argv[2]), int(sys.argv[3]))
    ])
"""
READ = """
import sys
from lace.recordstore import SqliteStore

with SqliteStore(sys.argv[1]) as store:
    print(*(stored.hash for stored in store.read(0, store.count())))
"""


def command(*arguments: str, program: Path | None) -> tuple[list[str], dict[str, str]]:
    environment = os.environ if program is None else environment_of(program)
    return [sys.executable, "-m", "lace", *arguments], environment | {"NO_COLOR": "1"}


def run(*arguments: str, by: Path | None) -> subprocess.CompletedProcess[str]:
    words, environment = command(*arguments, program=by)
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def serving(folder: Path, *more: str, by: Path | None) -> Iterator[str]:
    """Serve a lace; yield its address."""
    words, environment = command("serve", str(folder), "tcp:127.0.0.1:0", *more, program=by)
    with subprocess.Popen(
        words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said = json.loads(line) if line.startswith("{") else {}
                if said.get("event") == "listening":
                    yield said["address"]
                    break
            else:
                pytest.fail("it does not listen")
        finally:
            process.terminate()


def run_code(code: str, *arguments: str, by: Path | None) -> str:
    words, environment = command(program=by)
    words = [words[0], "-c", code, *arguments]
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return done.stdout


def make(folder: Path, numbers: range, *, by: Path | None) -> None:
    """Make a lace with some notes, by the program that is to keep it."""
    done = run("init", str(folder), "--select", SELECT, by=by)
    assert done.returncode == 0, done.stderr
    add(folder, numbers, by=by)


def add(folder: Path, numbers: range, *, by: Path | None) -> None:
    span = str(numbers.start), str(numbers.stop)
    run_code(FILL, str(folder / "records.lace"), *span, by=by)


def hashes(folder: Path, *, by: Path | None) -> set[str]:
    """Return the hashes of what a lace has, as its own program reads them."""
    return set(run_code(READ, str(folder / "records.lace"), by=by).split())


@pytest.mark.parametrize("numbers", [3, 400])
@pytest.mark.parametrize("serves", ["earlier", "now"])
@pytest.mark.parametrize("earlier", [WITHOUT_TABLES, OTHER_TABLES], ids=["no tables", "others"])
def test_a_peer_of_an_earlier_version_converges(
    tmp_path: Path, earlier: Path, serves: str, numbers: int
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    make(old, range(numbers), by=earlier)
    make(new, range(numbers // 3, numbers + numbers // 3), by=None)
    served, calling = (old, new) if serves == "earlier" else (new, old)
    by, peers = (earlier, None) if serves == "earlier" else (None, earlier)
    more = () if by == WITHOUT_TABLES else ("--accept", "anyone")
    with serving(served, *more, by=by) as address:
        for expected in (numbers // 3, 0):  # everything, and nothing new
            done = run("sync", address, "--lace", str(calling), by=peers)
            assert done.returncode == 0, done.stderr
            assert f"{expected} received" in done.stderr
    found = hashes(old, by=earlier)
    assert len(found) == numbers + numbers // 3
    assert found == hashes(new, by=None)


@pytest.mark.parametrize("serves", ["earlier", "now"])
def test_a_peer_that_told_other_tables_is_met_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: str
) -> None:
    """Both prove keys, so that both remember the link; each with its own digests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "keys"))
    old, new, count = tmp_path / "old", tmp_path / "new", 300
    for folder, name, by in ((old, "ada", OTHER_TABLES), (new, "bob", None)):
        make(folder, range(count), by=by)
        assert run("keyring", "new", name, by=by).returncode == 0
    served, calling = (old, new) if serves == "earlier" else (new, old)
    by, peers = (OTHER_TABLES, None) if serves == "earlier" else (None, OTHER_TABLES)
    key, peers_key = ("ada", "bob") if serves == "earlier" else ("bob", "ada")
    with serving(served, "--accept", "anyone", "--key", key, by=by) as address:
        for more in (0, 1, 40, 0):
            add(old, range(count, count + more), by=OTHER_TABLES)
            add(new, range(count + more, count + 2 * more), by=None)
            count += 2 * more
            words = ("sync", address, "--lace", str(calling), "--key", peers_key)
            done = run(*words, by=peers)
            assert done.returncode == 0, done.stderr
            assert f"{more} received" in done.stderr
            assert f"with {key}" in done.stderr  # it has proven its key
    assert hashes(old, by=OTHER_TABLES) == hashes(new, by=None)
    assert len(hashes(new, by=None)) == count


@pytest.mark.parametrize("serves", ["earlier", "now"])
def test_proofs_of_the_last_release_are_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "keys"))
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, by in ((old, WITHOUT_TABLES), (new, None)):
        make(folder, range(2), by=by)
    assert run("keyring", "new", "ada", by=WITHOUT_TABLES).returncode == 0
    served, calling = (old, new) if serves == "earlier" else (new, old)
    by, peers = (WITHOUT_TABLES, None) if serves == "earlier" else (None, WITHOUT_TABLES)
    with serving(served, by=by) as address:
        done = run("sync", address, "--lace", str(calling), "--key", "ada", by=peers)
    assert done.returncode == 4
    assert "iltp.proof" in done.stderr
