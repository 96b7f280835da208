"""A lake and a SQLite lace of a real size that differ here and there, over TCP: what does it cost?

    .venv/bin/python bench/lake_peer.py                          # 200,000 records in common
    .venv/bin/python bench/lake_peer.py 1000000 --differences 1000
    .venv/bin/python bench/lake_peer.py 1000000 --folder FOLDER  # keep what was made for next time
    .venv/bin/python bench/lake_peer.py --relating --differences 100000

The lake, whose driver has 2 GiB, and the lace run in processes of their own and have all but some
records in common. They interlace until both have everything, which is checked; then when nothing is
new, and then when a little is. ``--cut N`` breaks the first exchange off when the lace has received
so many records, and takes it up again. ``--relating`` has rules that compare advertisements: each
record is wanted if another one that it names is offered as well. The floor is the same exchange
between two SQLite laces (``exchange_sizes.py``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from lace.crypto.keys import SigningKey
from lace.driving.client import Client
from lace.interlace import messages as m
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record.build import build_plex
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.transport.address import parse_address
from told import Json, Side, answer, cpu_seconds, hear, java, peak_mib, process, tell

_SIZE: Final = 200_000
_DIFFERENCES: Final = 1000
_LITTLE: Final = 10
_APART: Final = selector("//g//notes//")
_RELATING: Final = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'g').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'App',_,'notes'), "
    "AdvertisedField(P,S,'Next',_,N), AdvertisedField(Q,S,'Name',_,N).\n"
)
_EXPOSURE: Final = Exposure(default="selected")
_BATCH: Final = 5000
_DATA: Final = b"x" * 200
_EVERYTHING: Final = 1 << 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("size", type=int, nargs="?", default=_SIZE, help="records in common")
    parser.add_argument("--differences", type=int, default=_DIFFERENCES, help="on each side")
    parser.add_argument("--memory", default="2g", help="heap of Spark's driver")
    parser.add_argument("--cut", type=int, default=0, help="break off after so many records")
    parser.add_argument("--relating", action="store_true", help="rules compare advertisements")
    parser.add_argument("--folder", type=Path, help="keep the lake and the lace here")
    parser.add_argument("--part", choices=("lake", "lace"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "lake":
        asyncio.run(_serve(options.folder, options.memory, _module(options)))
    elif options.part == "lace":
        asyncio.run(_sync(options.folder, options.address, _module(options)))
    elif options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        _measure(options.folder, options)
    else:
        with tempfile.TemporaryDirectory(prefix="lace-lake-peer-") as folder:
            _measure(Path(folder), options)


def _module(options: argparse.Namespace) -> PolicyModule:
    return _RELATING if options.relating else _APART


def _measure(folder: Path, options: argparse.Namespace) -> None:
    size, differences = options.size, options.differences
    print(f"{size:,} records in common, {differences:,} more on each side, 0.3 KB each")
    _make(folder, size)
    # What is new has numbers that no earlier run over the same folder has used.
    start = max(size, int(time.time()) * 100_000)
    expected = size + 2 * differences + 2 * _LITTLE
    expected += _count(folder / "lace.db") - size
    place = ("--folder", str(folder), *(["--relating"] if options.relating else []))
    with process(__file__, "lake", *place, "--memory", options.memory) as lake:
        address = hear(lake)["address"]
        with process(__file__, "lace", *place, "--address", address) as lace:
            tell(lake, "add", start, 0)  # Spark has started
            _add(folder / "lace.db", start, differences)
            added = tell(lake, "add", start + differences, differences)
            print(f"  ingest of {differences:,} records: {added['seconds']:.1f} s")
            if options.cut:
                _report("broken off", lake, lace, options.cut)
            _report("everything", lake, lace)
            _report("nothing new", lake, lace)
            start += 2 * differences
            _add(folder / "lace.db", start, _LITTLE)
            tell(lake, "add", start + _LITTLE, _LITTLE)
            _report(f"{_LITTLE} new each", lake, lace)
            ends = tell(lake, "hashes")["hashes"], tell(lace, "hashes")["hashes"]
    if ends[0] != ends[1] or ends[0][0] != expected:
        sys.exit(f"the lake and the lace differ, or are not whole: {ends}, expected {expected}")
    print(f"  both have the same {expected:,} records")


def _report(name: str, lake: Side, lace: Side, cut: int = 0) -> None:
    before = tell(lake, "usage")
    met = tell(lace, "sync", cut)
    after = tell(lake, "usage")
    cpu, java = (after[name] - before[name] for name in ("cpu", "java_cpu"))
    print(
        f"  {name:12} {met['seconds']:6.1f} s by the clock; CPU s:"
        f" lake {cpu:.1f}, Spark {java:.1f},"
        f" lace {met['cpu']:.1f}; {met['loops']} loops; {met['received']:,} received;"
        f" {met['out']:,} bytes to the lake, {met['in']:,} back\n"
        f"               at most {after['peak']:,.0f} MiB in the lake's Python"
        f" ({before['peak']:,.0f} before), {after['java_peak']:,.0f} in Java,"
        f" {met['peak']:,.0f} in the lace",
        flush=True,
    )


# --- records ---


def _make(folder: Path, size: int) -> None:
    """Make the bundle of what both have, and the lace; the lake takes the bundle in itself."""
    bundle, database = folder / "common.records", folder / "lace.db"
    if database.exists():
        return
    begin = time.perf_counter()
    with bundle.open("wb") as file, SqliteStore(folder / "making.db") as store:
        for start in range(0, size, _BATCH):
            records = _records(start, min(_BATCH, size - start))
            file.writelines(record.raw for record in records)
            store.save(records)
    (folder / "making.db").rename(database)
    print(f"  making the records took {time.perf_counter() - begin:.0f} s", flush=True)


def _add(database: Path, start: int, count: int) -> None:
    with SqliteStore(database) as store:
        store.save(_records(start, count))


def _count(database: Path) -> int:
    with SqliteStore(database, read_only=True) as store:
        return store.count()


def _records(start: int, count: int) -> list[Record]:
    """Return unsigned records; their hashes are scattered, so what differs is everywhere.

    Each names another one: they come in pairs.
    """
    return [
        build_plex(
            group="g", app="notes", name=f"n/{number}",
            tai=f"{1_700_000_000 + number % 1_000_000_000}:000000000", data=_DATA,
            extras=[("Next", f"n/{number ^ 1}")],
        )
        for number in range(start, start + count)
    ]  # fmt: skip


# --- both sides, each in a process of its own ---


async def _serve(folder: Path, memory: str, module: PolicyModule) -> None:
    # Spark is loaded by the lake's process alone: it would count as the lace's memory.
    from lace.lake.ingest import ingest
    from lace.lake.peer import LakeStore
    from lace.lake.serve import LakeHost
    from lace.lake.session import SparkOptions, open_session
    from lace.lake.tables import Lake

    spark = open_session(SparkOptions(master="local[2]", memory=memory))
    lake = Lake.open(spark, str(folder / "lake"), create=True)
    begin = time.perf_counter()
    rows = lake.snapshot().version.rows
    if not rows:
        ingest(lake, [str(folder / "common.records")])
        rows = lake.snapshot().version.rows
        print(f"  ingest of {rows:,}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    key = SigningKey(b"\x09" * 32)
    with ThreadPoolExecutor(2) as worker:
        host = LakeHost(LakeStore(lake), module, _EXPOSURE, key=key, worker=worker)

        async def add(start: int, count: int) -> Json:
            begin = time.perf_counter()
            if count:
                path = folder / f"{start}.records"
                path.write_bytes(b"".join(record.raw for record in _records(start, count)))
                ingest(lake, [str(path)])
                path.unlink()
            return {"seconds": time.perf_counter() - begin}

        async def usage() -> Json:
            while host.metrics.gauges["lace_connections"]():  # noqa: ASYNC110 (it soon ends)
                await asyncio.sleep(0.05)
            of = java()
            return {
                "cpu": time.process_time(),
                "peak": peak_mib(),
                "java_cpu": cpu_seconds(of),
                "java_peak": peak_mib(of),
            }

        async def hashes() -> Json:
            column = lake.snapshot().columns("hash").toArrow().column("hash").to_pylist()
            return {"hashes": _sum_up(column)}

        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            print(json.dumps({"address": address}), flush=True)
            await answer({"add": add, "usage": usage, "hashes": hashes})
    spark.stop()


async def _sync(folder: Path, address: str, module: PolicyModule) -> None:
    with SqliteStore(folder / "lace.db") as store, ThreadPoolExecutor(1) as worker:
        client = Client(
            store=store,
            module=module,
            exposure=_EXPOSURE,
            key=SigningKey(b"\x08" * 32),
            worker=worker,
        )

        async def sync(cut: int = 0) -> Json:
            cpu, clock, got = time.process_time(), time.perf_counter(), 0

            def hear(event: m.Event) -> None:
                nonlocal got
                got += isinstance(event, m.RecordSaved)
                if cut and got == cut:
                    exchange.give(m.CloseRequested())

            exchange = await client.dial(parse_address(address), listen=hear)
            ended = await exchange.run()
            if not cut and (not isinstance(ended, m.Closed) or ended.reason != "fixed point"):
                raise RuntimeError(f"the exchange ended: {ended}")
            return {
                "cpu": time.process_time() - cpu,
                "seconds": time.perf_counter() - clock,
                "peak": peak_mib(),
                "in": exchange.traffic.bytes_in,
                "out": exchange.traffic.bytes_out,
                "loops": ended.result.loops,
                "received": len(ended.result.received),
            }

        async def hashes() -> Json:
            found = store.read(StoreRecordId(0), _EVERYTHING)
            return {"hashes": _sum_up([stored.hash for stored in found])}

        await answer({"sync": sync, "hashes": hashes})


def _sum_up(hashes: list[Any]) -> list[int]:
    """Return how many there are, and a number that hardly any other set has."""
    total = sum(int.from_bytes(hash[2:18].encode(), "big") for hash in hashes)
    return [len(hashes), total % (1 << 128)]


if __name__ == "__main__":
    main()
