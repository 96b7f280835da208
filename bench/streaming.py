"""Two processes over loopback TCP: everything, a change, nothing; beside PouchDB where npm is."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from lace.crypto.keys import SigningKey
from lace.driving.client import Client
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.record.build import build_plex, seal
from lace.record.model import Record
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.transport.address import parse_address
from measure import Effort, Result, Target
from records import SIGNERS

_SELECT: Final = "//g//notes//"
_RECORD_BYTES: Final = 540
_POUCH: Final = Path(__file__).parent / "pouch"
_LARGE_BATCH: Final = "1000"
_MANY: Final = 10
_COLD: Final = Target(sign=">=", ratio=2.5)
_TENTH: Final = Target(sign="<=", ratio=0.7)
_TENTH_CPU: Final = Target(sign="<=", ratio=0.8)
_DOCUMENT_OVERHEAD: Final = 100  # of a document's other fields, so that both have about one size


@dataclass(frozen=True, slots=True)
class Step:
    """One replication: by the wall clock, and by the CPU time of both processes."""

    seconds: float
    cpu: float


Steps = tuple[Step, Step, Step]
"""Everything, a tenth more, nothing new."""


def least(rounds: Sequence[Steps]) -> Steps:
    """Return the least of each step: noise only ever adds."""
    cold, change, nothing = (
        Step(min(step.seconds for step in steps), min(step.cpu for step in steps))
        for steps in zip(*rounds, strict=True)
    )
    return cold, change, nothing


def run(effort: Effort) -> list[Result]:
    """Measure in turns; without npm there is no competitor, and that is said."""
    count = effort.stream_records
    change = max(1, count // 10)
    records = _records(count + change)
    npm = _install_pouch()
    rounds: dict[str, list[Steps]] = {"lace": [], "pouch": [], "tuned": []}
    for _ in range(effort.stream_rounds):
        with tempfile.TemporaryDirectory() as folder:
            rounds["lace"].append(_lace(Path(folder), records, count))
        for name, batch in (("pouch", ()), ("tuned", (_LARGE_BATCH,))) if npm else ():
            with tempfile.TemporaryDirectory() as folder:
                rounds[name].append(_pouch(Path(folder), count, change, batch))
    lace = least(rounds["lace"])
    size = sum(len(record.raw) for record in records) // len(records)
    notes = [
        f"{count} records of {size} bytes, signed by {SIGNERS} keys in turn",
        "each is validated and stored durably, on both sides",
        f"CPU seconds of both sides: {_cpu_note(lace)}",
    ]
    if npm:
        pouch = least(rounds["pouch"])
        tuned = least(rounds["tuned"])
        notes += [
            "PouchDB 9 with express-pouchdb as it comes; as many documents of about the same size",
            f"CPU seconds of both sides of PouchDB: {_cpu_note(pouch)}",
            f"PouchDB with batches of {_LARGE_BATCH}: {count / tuned[0].seconds:,.0f} documents/s",
        ]
    else:
        pouch = lace
        notes.append("npm is not here: there is nothing to compare with, the floor is the subject")
    by_cpu = _by_cpu(lace[1]), _by_cpu(pouch[1])
    cold, tenth, cpu = (_COLD, _TENTH, _TENTH_CPU) if npm else (None, None, None)
    return [
        _result("stream: everything", count, lace[0], pouch[0], cold, notes),
        _result("stream: a tenth more", change, lace[1], pouch[1], tenth, ()),
        _result("stream: a tenth more, CPU", change, by_cpu[0], by_cpu[1], cpu, ()),
        _result("stream: nothing new", 1, lace[2], pouch[2], None, ()),
        _large(count, lace[0], effort.stream_rounds),
    ]


def _by_cpu(step: Step) -> Step:
    """Return a step as if CPU time were the clock."""
    return Step(step.cpu, step.cpu)


def _large(count: int, small: Step, rounds: int) -> Result:
    """Measure whether a record costs more where there are many times as many."""
    many = _MANY * count
    records = _records(many)
    found: list[Steps] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(_lace(Path(folder), records, many))
    cold, _, _ = least(found)
    return Result(
        name=f"stream: everything, {_MANY} times as many",
        unit="records/s",
        count=many,
        seconds=cold.cpu,
        floor=f"CPU of {count:,}, a record",
        floor_seconds=_MANY * small.cpu,
        target=Target(sign="<=", ratio=1.2),
        notes=(f"CPU seconds of both sides: {cold.cpu:.2f}; {cold.seconds:.1f} s by the clock",),
    )


def _result(
    name: str, count: int, step: Step, floor: Step, target: Target | None, notes: Sequence[str]
) -> Result:
    return Result(
        name=name, unit="records/s" if count > 1 else "syncs/s", count=count,
        seconds=step.seconds, floor="PouchDB", floor_seconds=floor.seconds, target=target,
        notes=tuple(notes),
    )  # fmt: skip


def _cpu_note(steps: Steps) -> str:
    return ", ".join(f"{step.cpu:.2f}" for step in steps)


def _cpu_seconds(*processes: int) -> float:
    """Return the CPU time that processes have used, as far as the system tells."""
    total = 0.0
    for process in processes:
        path = Path(f"/proc/{process}/stat")
        if path.exists():
            numbers = path.read_text("utf-8").rpartition(")")[2].split()
            total += (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _records(count: int) -> list[Record]:
    keys = [SigningKey(bytes([0x70 + number]) * 32) for number in range(SIGNERS)]
    data = b"x"
    made: list[Record] = []
    for number in range(count):
        plex = build_plex(
            group="g", app="notes", name=f"n/{number}",
            tai=f"{1_700_000_000 + number}:000000000", data=data,
        )  # fmt: skip
        record = seal(plex, keys[number % SIGNERS])
        if not made:
            data = b"x" * (_RECORD_BYTES - len(record.raw))
        made.append(record)
    return made


# --- Lace ---


def _lace(folder: Path, records: list[Record], count: int) -> Steps:
    with SqliteStore(folder / "there") as store:
        store.save(records[:count])
    with (
        _serving(folder) as (address, server),
        SqliteStore(folder / "here") as here,
        ThreadPoolExecutor(2) as worker,  # as a lace in a folder has it
    ):
        client = Client(
            store=here,
            module=selector(_SELECT),
            exposure=Exposure(default="selected"),
            key=SigningKey(b"\x08" * 32),
            worker=worker,
        )

        def sync() -> Step:
            cpu, start = _cpu_seconds(server, os.getpid()), time.perf_counter()
            ended = asyncio.run(client.sync(parse_address(address)))
            seconds = time.perf_counter() - start
            if not isinstance(ended, m.Closed):
                raise RuntimeError(f"the exchange ended: {ended.code}")  # noqa: TRY004
            return Step(seconds, _cpu_seconds(server, os.getpid()) - cpu)

        cold = sync()
        with SqliteStore(folder / "there") as store:
            store.save(records[count:])
        change, nothing = sync(), sync()
        if here.count() != len(records):
            raise RuntimeError("not everything arrived")
    return cold, change, nothing


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, int]]:
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_text(SigningKey(b"\x09" * 32).reveal())
    command = [
        sys.executable, "-m", "lace", "serve", str(folder / "there"), "tcp:127.0.0.1:0",
        "--select", _SELECT, "--key", str(key), "--accept", "anyone",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:  # noqa: S603 (ours)
        assert process.stderr is not None
        try:
            told = map(json.loads, process.stderr)
            place = next(entry["address"] for entry in told if entry["event"] == "listening")
            yield place, process.pid
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


def _pouch(folder: Path, count: int, change: int, batch: tuple[str, ...]) -> Steps:
    size = _RECORD_BYTES - _DOCUMENT_OVERHEAD
    with _node("server.js", str(folder / "there")) as (ask, hear, server):
        url = f"http://127.0.0.1:{int(hear.readline())}/notes"
        _tell(ask, hear, f"fill 0 {count} {size}")
        with _node("client.js", str(folder / "here"), url, *batch) as (say, answer, client):

            def replicate(expected: int) -> Step:
                cpu = _cpu_seconds(server, client)
                found = json.loads(_tell(say, answer, "go"))
                if found["documents"] != expected:
                    raise RuntimeError("not every document arrived")
                return Step(found["milliseconds"] / 1000, _cpu_seconds(server, client) - cpu)

            cold = replicate(count)
            _tell(ask, hear, f"fill {count} {change} {size}")
            return cold, replicate(count + change), replicate(count + change)


def _tell(ask: IO[str], hear: IO[str], line: str) -> str:
    ask.write(line + "\n")
    ask.flush()
    return hear.readline()


@contextmanager
def _node(script: str, *arguments: str) -> Iterator[tuple[IO[str], IO[str], int]]:
    node = shutil.which("node")
    assert node is not None
    with subprocess.Popen(  # noqa: S603 (ours)
        [node, script, *arguments],
        cwd=_POUCH, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdin, process.stdout, process.pid
        process.stdin.close()
