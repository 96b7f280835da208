"""npm's word that all is installed is not taken: what is not whole is fetched again."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fetching import TIMES, fetch

PINNED = {"dependencies": {"one": "1.0.0"}, "devDependencies": {"@a/two": "2.0.0"}}


class Npm:
    """Installs what is pinned, but for one package in the first so many runs."""

    def __init__(self, bad_runs: int, bad: str) -> None:
        self.runs = 0
        self.at_once = self.most_at_once = 0
        self._bad_runs = bad_runs
        self._bad = bad

    def __call__(self, _command: list[str], *, cwd: Path, check: bool) -> None:
        assert check
        self.runs += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.05)  # others have the time to come
        for name, version in (PINNED["dependencies"] | PINNED["devDependencies"]).items():
            folder = cwd / "node_modules" / name
            folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"version": version})
            if name == "@a/two" and self.runs <= self._bad_runs:
                text = self._bad
            if text:
                (folder / "package.json").write_text(text)
        self.at_once -= 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "package.json").write_text(json.dumps(PINNED))
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    return tmp_path


@pytest.mark.parametrize("bad", ["", "{", '{"version": "1.9.9"}'])
def test_what_is_not_whole_is_fetched_again(
    folder: Path, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    npm = Npm(TIMES - 1, bad)
    modules = fetch(folder, npm)
    assert npm.runs == TIMES
    assert json.loads((modules / "@a/two/package.json").read_text()) == {"version": "2.0.0"}
    assert "did not install @a/two" in capsys.readouterr().err


def test_what_stays_away_ends_with_its_name(folder: Path) -> None:
    npm = Npm(TIMES, "")
    with pytest.raises(SystemExit, match="did not install @a/two in"):
        fetch(folder, npm)
    assert npm.runs == TIMES


def test_without_npm_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="npm is not here"):
        fetch(folder)


def test_several_at_once_wait_for_each_other_and_fetch_once(folder: Path) -> None:
    npm = Npm(0, "")
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: fetch(folder, npm), range(4)))
    assert (found, npm.runs, npm.most_at_once) == ({folder / "node_modules"}, 1, 1)


def test_what_was_whole_and_is_not_any_more_is_fetched_again(folder: Path) -> None:
    npm = Npm(0, "")
    shutil.rmtree(fetch(folder, npm) / "one")
    fetch(folder, npm)
    (folder / "package.json").write_text(json.dumps(PINNED | {"dependencies": {}}))
    fetch(folder, npm)
    assert npm.runs == 3
