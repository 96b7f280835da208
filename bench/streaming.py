"""Two processes over loopback TCP: everything, a change, nothing; beside PouchDB where npm is."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from lace.crypto.keys import SigningKey
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.record.build import build_plex, seal
from lace.record.model import Record
from lace.recordstore.sqlite import SqliteStore
from lace.runtime.client import Client
from lace.selectors import selector
from lace.transport.address import parse_address
from measure import Effort, Result, Target

_SELECT: Final = "//g//notes//"
_RECORD_BYTES: Final = 540
_POUCH: Final = Path(__file__).parent / "pouch"
_DOCUMENT_OVERHEAD: Final = 100  # of a document's other fields, so that both have about one size


@dataclass
class Times:
    """Least seconds of each step, and bytes of the last."""

    cold: float = math.inf
    change: float = math.inf
    nothing: float = math.inf
    notes: list[str] = field(default_factory=list)

    def take(self, cold: float, change: float, nothing: float) -> None:
        self.cold = min(self.cold, cold)
        self.change = min(self.change, change)
        self.nothing = min(self.nothing, nothing)


def run(effort: Effort) -> list[Result]:
    """Measure in turns; without npm there is no competitor, and that is said."""
    count = effort.stream_records
    change = max(1, count // 10)
    lace, pouch = Times(), Times()
    npm = _install_pouch()
    records = _records(count + change)
    for _ in range(effort.stream_rounds):
        with tempfile.TemporaryDirectory() as folder:
            lace.take(*_lace(Path(folder), records, count))
        if npm:
            with tempfile.TemporaryDirectory() as folder:
                pouch.take(*_pouch(Path(folder), count, change))
    size = sum(len(record.raw) for record in records) // len(records)
    notes = (
        f"{count} records of {size} bytes, signed, validated, stored durably on both sides",
        "PouchDB 9 with express-pouchdb, the same number of documents of about the same size"
        if npm
        else "npm is not here, so that there is nothing to compare with: the floor is the subject",
    )
    if not npm:
        pouch = lace
    target = Target(sign=">=", ratio=5) if npm else None
    return [
        _result("stream: everything", count, lace.cold, pouch.cold, target, notes),
        _result("stream: a tenth more", change, lace.change, pouch.change, None, ()),
        _result("stream: nothing new", 1, lace.nothing, pouch.nothing, None, ()),
    ]


def _result(
    name: str, count: int, seconds: float, floor: float, target: Target | None, notes: Sequence[str]
) -> Result:
    return Result(
        name=name, unit="records/s" if count > 1 else "syncs/s", count=count, seconds=seconds,
        floor="PouchDB", floor_seconds=floor, target=target, notes=tuple(notes),
    )  # fmt: skip


def _records(count: int) -> list[Record]:
    key = SigningKey(b"\x07" * 32)
    data = b"x"
    made: list[Record] = []
    for number in range(count):
        plex = build_plex(
            group="g", app="notes", name=f"n/{number}",
            tai=f"{1_700_000_000 + number}:000000000", data=data,
        )  # fmt: skip
        record = seal(plex, key)
        if not made:
            data = b"x" * (_RECORD_BYTES - len(record.raw))
        made.append(record)
    return made


# --- Lace ---


def _lace(folder: Path, records: list[Record], count: int) -> tuple[float, float, float]:
    with SqliteStore(folder / "there") as store:
        store.save(records[:count])
    with _serving(folder) as address, SqliteStore(folder / "here") as here:
        key = SigningKey(b"\x08" * 32)
        client = Client(
            store=here, module=selector(_SELECT), exposure=Exposure(default="selected"), key=key
        )
        cold = _sync(client, address)
        with SqliteStore(folder / "there") as store:
            store.save(records[count:])
        change = _sync(client, address)
        nothing = _sync(client, address)
        if here.count() != len(records):
            raise RuntimeError("not everything arrived")
    return cold, change, nothing


def _sync(client: Client, address: str) -> float:
    start = time.perf_counter()
    ended = asyncio.run(client.sync(parse_address(address)))
    seconds = time.perf_counter() - start
    if isinstance(ended, m.Aborted):
        raise RuntimeError(f"the exchange ended by {ended.code}: {ended.detail}")  # noqa: TRY004
    return seconds


@contextmanager
def _serving(folder: Path) -> Iterator[str]:
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_text(SigningKey(b"\x09" * 32).reveal())
    command = [
        sys.executable, "-m", "lace", "serve", str(folder / "there"), "tcp:127.0.0.1:0",
        "--select", _SELECT, "--key", str(key),
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:  # noqa: S603 (ours)
        assert process.stderr is not None
        try:
            yield json.loads(process.stderr.readline())["address"]
        finally:
            process.terminate()


# --- PouchDB ---


def _install_pouch() -> bool:
    """Return whether PouchDB can be run, after getting it if need be."""
    npm = shutil.which("npm")
    if npm is None:
        return False
    if not (_POUCH / "node_modules" / "pouchdb").exists():
        command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"]
        ran = subprocess.run(command, cwd=_POUCH, capture_output=True, check=False)  # noqa: S603
        return ran.returncode == 0
    return True


def _pouch(folder: Path, count: int, change: int) -> tuple[float, float, float]:
    size = _RECORD_BYTES - _DOCUMENT_OVERHEAD
    with _node("server.js", str(folder / "there")) as (ask, hear):
        url = f"http://127.0.0.1:{int(hear.readline())}/notes"
        _tell(ask, hear, f"fill 0 {count} {size}")
        with _node("client.js", str(folder / "here"), url) as client:
            cold = json.loads(_tell(*client, "go"))
            _tell(ask, hear, f"fill {count} {change} {size}")
            changed = json.loads(_tell(*client, "go"))
            nothing = json.loads(_tell(*client, "go"))
    if nothing["documents"] != count + change:
        raise RuntimeError("not every document arrived")
    seconds = [step["milliseconds"] / 1000 for step in (cold, changed, nothing)]
    return seconds[0], seconds[1], seconds[2]


def _tell(ask: IO[str], hear: IO[str], line: str) -> str:
    ask.write(line + "\n")
    ask.flush()
    return hear.readline()


@contextmanager
def _node(script: str, *arguments: str) -> Iterator[tuple[IO[str], IO[str]]]:
    node = shutil.which("node")
    assert node is not None
    with subprocess.Popen(  # noqa: S603 (ours)
        [node, script, *arguments],
        cwd=_POUCH,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdin, process.stdout
        process.stdin.close()
