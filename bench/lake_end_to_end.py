"""From bundles to an exchange, at a size of your choice, compared with two embedded laces.

    .venv/bin/python bench/lake_end_to_end.py --records 200000

Generates records, ingests them, selects, sums up, and lets the lake interlace over TCP with a
SQLite lace that has half of them and some of its own. Two embedded laces do the same in one
process. Every result must be equal; the times are printed, and mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from small_room import room

from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.datalog.evaluate import evaluate
from lace.driving.client import Client
from lace.driving.pair import interlace
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.interlace.machine import Side
from lace.interlace.partition import Partitions
from lace.lake.ingest import ingest
from lace.lake.peer import LakeStore
from lace.lake.select import select
from lace.lake.serve import LakeHost
from lace.lake.session import SparkOptions, open_session
from lace.lake.summarize import Advertising, SummaryTables, summarize
from lace.lake.tables import Lake
from lace.limits import DEFAULT_LIMITS
from lace.policy.origin import SourceLabel
from lace.policy.view import Exposure
from lace.record.build import build_plex, seal
from lace.record.facts import facts, fields
from lace.record.model import Record
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.rules import MemorySource
from lace.scenario.link import Watched
from lace.tai import from_ns
from lace.transport.address import parse_address
from lace.vocabulary import SELECT_HAVE

AUTHORITY = SigningKey(b"a" * 32)
SIGNERS = [SigningKey(bytes([number]) * 32) for number in range(1, 9)]
MODULE = room("//notes-demo//notes//", authority=AUTHORITY.verifier)
EXPOSURE = Exposure(default="selected")
LIMITS = replace(DEFAULT_LIMITS, phase_timeout=3600, max_advertisement_records_listed=1 << 22)


def main() -> int:
    parser = argparse.ArgumentParser(description="The lake from end to end.")
    parser.add_argument("--records", type=int, default=200_000)
    count = parser.parse_args().records
    with tempfile.TemporaryDirectory(prefix="lace-end-to-end-") as name:
        return run(Path(name), count)


@contextmanager
def timed(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    print(f"  {what:34} {time.perf_counter() - start:8.1f} s", flush=True)


def run(folder: Path, count: int) -> int:
    with timed(f"making {count:,} signed records"):
        records = list(make(count))
    mine, theirs = records[: count * 3 // 4], records[count // 2 :]
    with (folder / "mine.records").open("wb") as file:
        file.writelines(record.raw for record in mine)
    spark = open_session(SparkOptions(master="local[2]"))
    lake = Lake.open(spark, str(folder / "lake"), create=True)
    with timed("ingest"):
        ingest(lake, [str(folder / "mine.records")])
    with timed("embedded: rules"):
        source = MemorySource(fact for record in mine for fact in facts(record))
        expected = {row[0] for row in evaluate(MODULE.program, source).rows(SELECT_HAVE)}
        del source
    snapshot = lake.snapshot()
    with timed("lake: rules"):
        found = select(snapshot, MODULE.program).hashes().toArrow().column("hash").to_pylist()
    check("selection", set(found) == expected and len(found) == len(expected))
    with timed("embedded: summaries"):
        label = SourceLabel("V.x")
        digests: dict[str, bytes] = {
            r.hash: advertise(r.hash, label, fields(r), None).digest()
            for r in mine
            if r.hash in expected
        }
        summaries = tuple(Partitions.of(digests).summaries(2))
    with timed("lake: summaries"):
        tables = SummaryTables(lake, Advertising(selection=MODULE.id, source=label))
        hashes = select(snapshot, MODULE.program).hashes
        made = summarize(snapshot, hashes, tables)
    check("summaries", made.partitions == summaries)
    left, right = (
        Watched(MemoryStore(), Side(index=n, module=MODULE, limits=LIMITS), EXPOSURE, LIMITS)
        for n in (0, 1)
    )
    with timed("embedded: exchange"):
        left.store.save(mine)
        right.store.save(theirs)
        interlace(left, right, tai_now())
    with SqliteStore(folder / "phone.db") as store, ThreadPoolExecutor(4) as worker:
        store.save(theirs)
        with timed("lake and SQLite lace over TCP"):
            ended = asyncio.run(meet(LakeStore(lake), store, worker))
        if isinstance(ended, m.Aborted):
            print(f"  aborted: {ended.code}, {ended.detail}")
        check("exchange", isinstance(ended, m.Closed))
        stored = {entry.hash for entry in store.read(0, 1 << 40)}  # type: ignore[arg-type]
        check("the lace", stored == all_of(right))
    column = lake.snapshot().records.select("hash").toArrow().column("hash").to_pylist()
    check("the lake", set(column) == all_of(left) and len(column) == len(set(column)))
    return 0


async def meet(
    records: LakeStore, store: SqliteStore, worker: ThreadPoolExecutor
) -> m.Closed | m.Aborted:
    host = LakeHost(records, MODULE, EXPOSURE, limits=LIMITS, worker=worker)
    async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
        guest = Client(store=store, module=MODULE, exposure=EXPOSURE, limits=LIMITS, worker=worker)
        return await guest.sync(parse_address(address))


def make(count: int) -> Iterator[Record]:
    chance = random.Random(1)
    for number, signer in enumerate(SIGNERS[:6]):  # the last two are strangers
        grant = build_plex(
            group="notes-demo", app="notes/member", name=f"m/{number}", tai=from_ns(number),
            extras=[("Member", signer.verifier)],
        )  # fmt: skip
        yield seal(grant, AUTHORITY)
    for number in range(count):
        plex = build_plex(
            group="notes-demo", app="notes/message", name=f"n/{number}",
            tai=from_ns(10**18 + number), data=chance.randbytes(100),
        )  # fmt: skip
        yield seal(plex, SIGNERS[number % len(SIGNERS)])


def all_of(side: Watched) -> set[str]:
    return {entry.hash for entry in side.store.read(0, 1 << 40)}  # type: ignore[arg-type]


def check(what: str, holds: bool) -> None:
    print(f"  {what}: {'equal' if holds else 'DIFFERENT'}", flush=True)
    if not holds:
        sys.exit(1)


if __name__ == "__main__":
    sys.exit(main())
