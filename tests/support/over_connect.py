"""A program that uses a lake over Spark Connect: it prints what came of it, and ends.

A process of its own, because one process has either Spark or Spark Connect.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from meeting import client, within
from rooms import AUTHORITY, PREFIX
from small_room import room

from lace.interlace import messages as m
from lace.lake import peer
from lace.lake.export import export_bundles
from lace.lake.forget import forget
from lace.lake.ingest import ingest
from lace.lake.maintain import maintain
from lace.lake.peer import LakeStore
from lace.lake.select import select
from lace.lake.serve import LakeHost
from lace.lake.session import SparkOptions, open_session
from lace.lake.summarize import Advertising, SummaryTables, summarize
from lace.lake.tables import Lake
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.transport.address import parse_address


def main(address: str, folder: Path) -> dict[str, Any]:
    spark = open_session(SparkOptions(master=address))
    found: dict[str, Any] = {"is remote": getattr(spark, "sparkContext", None) is None}
    lake = Lake.open(spark, str(folder / "x.lake"), create=True)
    done = ingest(lake, [str(folder / "a.records")])
    found["ingest"] = [done.records, done.quarantined]
    found["again"] = ingest(lake, [str(folder / "b.records")]).duplicates
    module = room(PREFIX, authority=AUTHORITY.verifier, revocation_app="revoked")
    snapshot = lake.snapshot()
    with select(snapshot, module.program) as chosen:
        found["selected"] = sorted(row.hash for row in chosen.hashes().collect())
        found["exported"] = export_bundles(chosen.records(), str(folder / "out")).records
        tables = SummaryTables(lake, Advertising(selection="x", source="V.x"))
        made = summarize(snapshot, chosen.hashes, tables)
    found["summaries"] = [[one.prefix, one.count, one.root.hex()] for one in made.partitions]
    for mirrored in (peer.MIRRORED, 0):
        store = folder / f"{mirrored}.db"
        for name, rules in (("place", selector(PREFIX)), ("room", module)):
            found[f"{name}, {mirrored} held"] = met(lake, store, rules, mirrored)
    found["forgotten"] = forget(lake, found["selected"][:2]).removed
    maintain(lake)
    found["left"] = sorted(row.hash for row in lake.snapshot().records.select("hash").collect())
    return found


def met(lake: Lake, path: Path, module: PolicyModule, mirrored: int) -> list[str]:
    """Return what a new lace has after it met a lake, of which so many records are held."""
    exposure = Exposure(default="selected")
    before, peer.MIRRORED = peer.MIRRORED, mirrored  # type: ignore[misc]
    path.unlink(missing_ok=True)
    with SqliteStore(path) as store, ThreadPoolExecutor(2) as worker:
        host = LakeHost(LakeStore(lake), module, exposure, worker=worker)

        async def meet() -> m.Closed | m.Aborted:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
                guest = client(store, module=module, exposure=exposure, worker=worker)
                return await guest.sync(parse_address(address))

        ended = within(meet(), 240)
        peer.MIRRORED = before  # type: ignore[misc]
        assert isinstance(ended, m.Closed), ended
        return sorted(entry.hash for entry in store.read(0, 10**6))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]))) + "\n")
