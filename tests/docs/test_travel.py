"""The page on how a record travels names what is really called, in the order in which it is."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from wires import ends, notes, run

import lace
from lace.crypto import SigningKey
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector

PAGE = Path(__file__).parents[2] / "docs/contributing/how-a-record-travels.md"
SOURCE = Path(lace.__file__).parent


def stations() -> list[str]:
    text = PAGE.read_text(encoding="utf-8").partition("## Alice makes")[2]
    return re.findall(r"`(lace(?:\.\w+)+\.\w+)`", text)


def calls(folder: Path) -> list[str]:
    """Run the exchange of the page; return every function in the order of its first call."""
    found: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            module = ".".join(("lace", *path.relative_to(SOURCE).with_suffix("").parts))
            found[f"{module}.{frame.f_code.co_qualname}"] = None

    with SqliteStore(folder / "alice.lace") as alice, SqliteStore(folder / "bob.lace") as bob:
        left, right = ends(alice, bob)
        left.module = right.module = selector("//g//notes//")
        sys.setprofile(note)
        try:
            alice.save(notes(1, key=SigningKey(b"k" * 32)))
            run(left, right)
        finally:
            sys.setprofile(None)
        assert bob.count() == 1
    return list(found)


def test_every_function_of_the_page_is_there() -> None:
    assert len(stations()) > 35
    for name in stations():
        parts = name.split(".")
        depth = next(
            n
            for n in range(len(parts), 0, -1)
            if (SOURCE.parent / Path(*parts[:n])).with_suffix(".py").is_file()
        )
        found: Any = import_module(".".join(parts[:depth]))
        for part in parts[depth:]:
            found = getattr(found, part)


def test_they_are_called_in_the_order_of_the_page(tmp_path: Path) -> None:
    called = calls(tmp_path)
    assert [name for name in stations() if name not in called] == []
    assert sorted(stations(), key=called.index) == stations()
