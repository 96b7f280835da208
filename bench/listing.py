"""The CPU time of ``lace list --newest`` over 100,000 records, against one second."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from lace.record.build import build_plex
from lace.recordstore import SqliteStore
from lace.tai import from_ns
from measure import Effort, Result, Target

_VERSIONS = 10
_BATCH = 1000
_START_NS = 1_700_000_000_000_000_000
_MOST_SECONDS = 1.0


def run(effort: Effort) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lace.toml").write_text('select = "//g//notes//"\n', encoding="utf-8")
        places = effort.listed_records // _VERSIONS
        with SqliteStore(folder / "records.lace") as store:
            for start in range(0, effort.listed_records, _BATCH):
                store.save(
                    build_plex(
                        group="g",
                        app="notes/message",
                        name=f"n/{number % places}",
                        tai=from_ns(_START_NS + number),
                        extras=[("Title", f"note {number}")],
                        data=b"x" * 100,
                    )
                    for number in range(start, start + _BATCH)
                )
        seconds = min(_cpu(folder) for _ in range(effort.listing_rounds))
    return [
        Result(
            name=f"list --newest of {effort.listed_records:,}: CPU seconds",
            unit="s",
            count=1,
            seconds=seconds,
            floor="one second",
            floor_seconds=_MOST_SECONDS,
            is_amount=True,
            target=Target(sign="<=", ratio=1),
            notes=(f"{_VERSIONS} versions at each place; all of it is printed, as JSON",),
        )
    ]


def _cpu(folder: Path) -> float:
    """Return the CPU seconds of the command, with the start of Python."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "lace", "list", "--newest", "--lace", str(folder)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)  # noqa: S603 (our own command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
