"""The attacks themselves: each reaches the server, and what ends it is what should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from servers import Process, process
from wires import notes

import attack
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore

ENDS = {
    "rules: all pairs": "limit.exceeded",
    "rules: all triples": "limit.exceeded",
    "rules: pairs of adverts": "limit.exceeded",
    "rules: too dear": "lacegram.cost",
    "marks out of order": "text.nfc",
    "ends of phases": "interlace.phase",
    "tiny facts": "interlace.block",
}
"""What ends each of them at the default limits."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("attacked")
    with SqliteStore(folder / "notes.lace") as store:
        store.save(notes(1000))
    with process(folder, "notes.lace", "tcp:127.0.0.1:0", "--select", "//g//notes//") as made:
        yield made


@pytest.mark.parametrize("name", ENDS)
def test_an_attack_ends_with_its_code_and_honest_peers_are_served(
    name: str, server: Process
) -> None:
    made = attack.ATTACKS[name]
    assert made is not None
    before = len(server.events("aborted"))
    with suppress(OSError):
        made(server.address, Event())
    assert server.wait_for("aborted", before + 1)[before]["code"] == ENDS[name]
    assert asyncio.run(attack.ask(MemoryStore(), server.address)) == ""


def test_the_table_has_a_row_for_each_attack(tmp_path: Path) -> None:
    outcomes = [attack.run(name, 1, 0.5, tmp_path) for name in ("nothing", "comments")]
    rows = [list(attack._COLUMNS), *(outcome.row(1.0) for outcome in outcomes)]
    lines = list(attack.table(rows))
    assert len(lines) == 3
    assert lines[2].startswith("comments ")
