"""The golden files of a release are made from the same records, keys and times each time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import golden
from lace._version import __version__


def test_what_is_made_now_is_what_the_newest_release_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LACE_KEYRING", str(tmp_path / "keyring.toml"))
    made = asyncio.run(golden.fill(tmp_path))
    newest = max(golden.TARGET.iterdir(), key=lambda one: [int(n) for n in one.name.split(".")])
    kept = json.loads((newest / "manifest.json").read_text(encoding="utf-8"))
    for name in ("laces", "verifiers", "texts", "replies"):
        assert made[name] == kept[name]


def test_what_a_release_wrote_is_not_made_again(tmp_path: Path) -> None:
    (tmp_path / __version__).mkdir()
    with pytest.raises(SystemExit, match="is not made again"):
        golden.main(tmp_path)
