"""Peers of the last release: a whole program of it is kept, and speaks over real TCP.

``tests/data/earlier-lace.zip`` is that program without its workbench and its lake. It told no
tables and no sketches, and made proofs of identity in a form that is refused since. Python runs it
from the archive.
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

EARLIER = Path(__file__).parents[1] / "data" / "earlier-lace.zip"
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


def command(*arguments: str, earlier: bool) -> tuple[list[str], dict[str, str]]:
    environment = os.environ | {"NO_COLOR": "1"}
    if earlier:
        environment["PYTHONPATH"] = str(EARLIER)
    return [sys.executable, "-m", "lace", *arguments], environment


def run(*arguments: str, earlier: bool) -> subprocess.CompletedProcess[str]:
    words, environment = command(*arguments, earlier=earlier)
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def serving(folder: Path, *more: str, earlier: bool) -> Iterator[str]:
    """Serve a lace; yield its address."""
    words, environment = command("serve", str(folder), "tcp:127.0.0.1:0", *more, earlier=earlier)
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


def run_code(code: str, *arguments: str, earlier: bool) -> str:
    words, environment = command(earlier=earlier)
    words = [words[0], "-c", code, *arguments]
    done = subprocess.run(
        words, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return done.stdout


def make(folder: Path, numbers: range, *, earlier: bool) -> None:
    """Make a lace with some notes, by the program that is to keep it."""
    done = run("init", str(folder), "--select", SELECT, earlier=earlier)
    assert done.returncode == 0, done.stderr
    span = str(numbers.start), str(numbers.stop)
    run_code(FILL, str(folder / "records.lace"), *span, earlier=earlier)


def hashes(folder: Path, *, earlier: bool) -> set[str]:
    """Return the hashes of what a lace has, as its own program reads them."""
    return set(run_code(READ, str(folder / "records.lace"), earlier=earlier).split())


@pytest.mark.parametrize("numbers", [3, 400])
@pytest.mark.parametrize("serves", ["earlier", "now"])
def test_a_peer_of_the_last_release_converges(tmp_path: Path, serves: str, numbers: int) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    make(old, range(numbers), earlier=True)
    make(new, range(numbers // 3, numbers + numbers // 3), earlier=False)
    served, calling = (old, new) if serves == "earlier" else (new, old)
    more = () if serves == "earlier" else ("--accept", "anyone")
    with serving(served, *more, earlier=serves == "earlier") as address:
        for expected in (numbers // 3, 0):  # everything, and nothing new
            done = run("sync", address, "--lace", str(calling), earlier=serves == "now")
            assert done.returncode == 0, done.stderr
            assert f"{expected} received" in done.stderr
    found = hashes(old, earlier=True)
    assert len(found) == numbers + numbers // 3
    assert found == hashes(new, earlier=False)


@pytest.mark.parametrize("serves", ["earlier", "now"])
def test_proofs_of_the_last_release_are_refused_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serves: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "keys"))
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, earlier in ((old, True), (new, False)):
        make(folder, range(2), earlier=earlier)
    assert run("keyring", "new", "ada", earlier=True).returncode == 0
    served, calling = (old, new) if serves == "earlier" else (new, old)
    with serving(served, earlier=serves == "earlier") as address:
        words = ("sync", address, "--lace", str(calling), "--key", "ada")
        done = run(*words, earlier=serves == "now")
    assert done.returncode == 4
    assert "iltp.proof" in done.stderr
