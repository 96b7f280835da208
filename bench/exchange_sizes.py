"""Two SQLite laces of a real size that differ here and there, over TCP: what does it cost?

    .venv/bin/python bench/exchange_sizes.py                   # 20,000 to 1,000,000; 100,000 cold
    .venv/bin/python bench/exchange_sizes.py 300000 --differences 1000

A server and a client, each in a process of its own, have all but some records in common. They
interlace until both have everything, which is checked; then when nothing is new, and then when a
little is. In the same run there are two floors: a plain copy of the missing rows from one SQLite
file to the other, and validating and storing as many records without any exchange.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from lace.crypto.keys import SigningKey
from lace.driving.client import Client
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.record.build import build_plex
from lace.record.model import Record
from lace.record.validate import validate_record
from lace.recordstore.base import StoreRecordId
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.serving.grants import ServerLimits, symmetric_policy
from lace.serving.server import Server
from lace.transport.address import parse_address
from measure import judged
from told import Json, answer, hear, peak_mib, process, tell

_DIFFERENCES: Final = 1000
_CASES: Final = (
    (20_000, _DIFFERENCES),
    (100_000, _DIFFERENCES),
    (1_000_000, _DIFFERENCES),
    (0, 100_000),
)
"""Records in common, and how many more each side has, if nothing is said."""
_LITTLE: Final = 10
_MODULE: Final = selector("//g//notes//")
_BATCH: Final = 5000
_DATA: Final = b"x" * 200
_TAKES_ALL: Final = ServerLimits(peer_mib_per_day=4096, peer_records_per_day=10_000_000)
"""What one peer brings in a day is not what is measured here."""

_MOST_MB: Final = 250
_MOST_MS: Final = 20  # of CPU time on each side, if nothing is new

_RUNS: Final = ("everything", "nothing new", "10 new each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sizes", type=int, nargs="*", help="records in common")
    parser.add_argument(
        "--differences", type=int, default=_DIFFERENCES, help="records on each side"
    )
    parser.add_argument("--part", choices=("serve", "sync"), help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "serve":
        asyncio.run(_serve(options.store))
    elif options.part == "sync":
        asyncio.run(_sync(options.store, options.address))
    else:
        chosen = [(size, options.differences) for size in options.sizes]
        for size, differences in chosen or _CASES:
            with tempfile.TemporaryDirectory() as folder:
                print(_measure(Path(folder), size, differences), flush=True)


def _measure(folder: Path, size: int, differences: int) -> str:
    """Make two laces, let them interlace twice, and say what it took."""
    one, other = folder / "one.lace", folder / "other.lace"
    begin = time.process_time()
    expected = _make(one, other, size, differences)
    made = time.process_time() - begin
    copy = _copy_seconds(folder, one, other)
    alone = _alone_seconds(folder, one, other)
    with process(__file__, "serve", "--store", str(one)) as server:
        where = ("--store", str(other), "--address", hear(server)["address"])
        with process(__file__, "sync", *where) as client:
            runs = []
            for more in (0, 0, _LITTLE):
                expected |= _add(one, other, size + 2 * differences, more)
                before = tell(server, "usage")
                met = tell(client, "sync")
                runs.append((_since(tell(server, "usage"), before), met))
    for path in (one, other):
        if _hashes(path) != expected:
            raise RuntimeError(f"{path.name} does not have everything")
    return "\n".join(_lines(size, differences, made, copy, alone, runs))


def _lines(
    size: int,
    differences: int,
    made: float,
    copy: float,
    alone: float,
    runs: Sequence[tuple[Json, Json]],
) -> Iterator[str]:
    yield f"{size:,} records in common, {differences:,} more on each side, 0.3 KB each"
    for number, (name, (server, client)) in enumerate(zip(_RUNS, runs, strict=True)):
        cpu = server["cpu"] + client["cpu"]
        yield (
            f"  {name:12} CPU s: server {server['cpu']:.2f}, client {client['cpu']:.2f};"
            f" {client['seconds']:.2f} s by the clock"
        )
        yield (
            f"               {client['out']:,} bytes to the server, {client['in']:,} back;"
            f" {client['loops']} loops; {client['received']:,} records received"
        )
        if number == 1:
            most = 1000 * max(server["cpu"], client["cpu"])
            yield f"               {judged(round(most), _MOST_MS, 'ms')} of CPU on each side"
        if number == 0:
            yield (
                f"               {cpu / copy:.0f} times the copy of the rows,"
                f" {cpu / alone:.1f} times validating and storing alone"
            )
    memory = (
        f"{side} at most {judged(round(runs[-1][place]['peak'] * 2**20 / 1e6), _MOST_MB, 'MB')},"
        f" {runs[0][place]['rest'] * 2**20 / 1e6:.0f} before"
        for place, side in enumerate(("server", "client"))
    )
    yield f"  memory       {'; '.join(memory)}"
    yield f"  floors       CPU s: copy of the rows {copy:.3f}, validating and storing {alone:.3f}"
    yield f"  making the records took {made:.1f} CPU s"


# --- records ---


def _make(one: Path, other: Path, size: int, differences: int) -> set[str]:
    """Make both laces; return the hashes that both are to have in the end."""
    records = _records(0, size)
    with SqliteStore(one) as store:
        _save(store, records)
    shutil.copy(one, other)  # the last to close it has left everything in the one file
    return {str(record.hash) for record in records} | _add(one, other, size, differences)


def _add(one: Path, other: Path, start: int, count: int) -> set[str]:
    """Add so many records to each of both laces; return their hashes."""
    added: set[str] = set()
    for number, path in enumerate((one, other)):
        fresh = _records(start + number * count, count)
        with SqliteStore(path) as store:
            _save(store, fresh)
        added |= {record.hash for record in fresh}
    return added


def _records(start: int, count: int) -> list[Record]:
    """Return unsigned records; their hashes are scattered, so what differs is everywhere."""
    return [
        build_plex(
            group="g", app="notes", name=f"n/{number}", tai=f"{1_700_000_000 + number}:000000000",
            data=_DATA,
        )
        for number in range(start, start + count)
    ]  # fmt: skip


def _save(store: SqliteStore, records: Sequence[Record]) -> None:
    for start in range(0, len(records), _BATCH):
        store.save(records[start : start + _BATCH])


def _hashes(path: Path) -> set[str]:
    with SqliteStore(path, read_only=True) as store:
        return {stored.hash for stored in store.read(StoreRecordId(0), store.count())}


# --- floors ---


def _copy_seconds(folder: Path, one: Path, other: Path) -> float:
    """Copy the rows that each file lacks from the other one, as SQLite does it."""
    with _copies(folder, one, other) as paths, closing(sqlite3.connect(paths[0])) as connection:
        begin = time.process_time()
        connection.execute("ATTACH ? AS other", (str(paths[1]),))
        for here, there in (("main", "other"), ("other", "main")):
            connection.execute(
                f"INSERT INTO {here}.record (hash, raw, inner) SELECT hash, raw, inner"  # noqa: S608
                f" FROM {there}.record WHERE hash NOT IN (SELECT hash FROM {here}.record)"
            )
        connection.commit()
        return time.process_time() - begin


def _alone_seconds(folder: Path, one: Path, other: Path) -> float:
    """Validate and store what each side lacks, with no exchange around it."""
    lacking = _hashes(other) - _hashes(one), _hashes(one) - _hashes(other)
    with (
        _copies(folder, one, other) as paths,
        SqliteStore(one) as left,
        SqliteStore(other) as right,
    ):
        raws = [
            [record.raw for record in map(store.load, sorted(hashes)) if record is not None]  # type: ignore[arg-type]
            for store, hashes in zip((right, left), lacking, strict=True)
        ]
        begin = time.process_time()
        for path, missing in zip(paths, raws, strict=True):
            with SqliteStore(path) as store:
                _save(store, [validate_record(raw).unwrap() for raw in missing])
        return time.process_time() - begin


@contextmanager
def _copies(folder: Path, *paths: Path) -> Iterator[list[Path]]:
    made = [folder / f"copy-of-{path.name}" for path in paths]
    for path, copy in zip(paths, made, strict=True):
        shutil.copy(path, copy)
    yield made
    for copy in made:
        for file in folder.glob(f"{copy.name}*"):
            file.unlink()


# --- both sides, each in a process of its own ---


def _since(after: Json, before: Json) -> Json:
    return after | {"cpu": after["cpu"] - before["cpu"], "rest": before["peak"]}


async def _serve(path: Path) -> None:
    with SqliteStore(path) as store:
        policy = replace(symmetric_policy(_MODULE), limits=_TAKES_ALL)
        server = Server(store, policy, key=SigningKey(b"\x09" * 32))
        await server.start()
        address = await server.listen(parse_address("tcp:127.0.0.1:0"))
        print(json.dumps({"address": address}), flush=True)

        async def usage() -> Json:
            while server.metrics.gauges["lace_connections"]():  # noqa: ASYNC110 (it soon ends)
                await asyncio.sleep(0.05)
            return {"cpu": time.process_time(), "peak": peak_mib()}

        await answer({"usage": usage})
        await server.shut_down()


async def _sync(path: Path, address: str) -> None:
    with SqliteStore(path) as store, ThreadPoolExecutor(1) as worker:
        client = Client(
            store=store,
            module=_MODULE,
            exposure=Exposure(default="selected"),
            key=SigningKey(b"\x08" * 32),
            worker=worker,
        )

        async def sync() -> Json:
            rest, cpu, clock = peak_mib(), time.process_time(), time.perf_counter()
            exchange = await client.dial(parse_address(address))
            ended = await exchange.run()
            if not isinstance(ended, m.Closed) or ended.ending is not m.Ending.FIXED_POINT:
                raise RuntimeError(f"the exchange ended: {ended}")
            return {
                "cpu": time.process_time() - cpu,
                "seconds": time.perf_counter() - clock,
                "peak": peak_mib(),
                "rest": rest,
                "in": exchange.traffic.bytes_in,
                "out": exchange.traffic.bytes_out,
                "loops": ended.result.loops,
                "received": len(ended.result.received),
            }

        await answer({"sync": sync})


if __name__ == "__main__":
    main()
