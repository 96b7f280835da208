"""``lace lake demo``: a small lake from beginning to end, with nothing left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lace.cli.lake import Spark, open_lake, spark_options
from lace.cli.output import echo
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.record.build import build_plex, seal
from lace.rooms import Room

_GROUP, _APP = "notes-demo", "notes"
_NOTES = 300


@click.command("demo")
@spark_options
def demo_command(spark: Spark) -> None:
    """Make a room of notes, ingest it, select it, sum it up and compare it with a SQLite lace.

    \b
    Example:
      lace lake demo
    """
    lake_demo(spark.open(small=True), echo)


def lake_demo(session: Any, say: Callable[[str], None]) -> None:
    """Show what a lake does, on a Spark session, in a few lines; leaves nothing behind."""
    from lace.datalog.explain import Proof
    from lace.lake.export import export_to_store
    from lace.lake.ingest import ingest
    from lace.lake.reconcile import Reconciliation, open_sides
    from lace.lake.select import explain, select
    from lace.lake.summarize import Advertising, SummaryTables, summarize
    from lace.recordstore.sqlite import SqliteStore

    authority, member, stranger = (SigningKey.generate() for _ in range(3))
    program = Room(prefix=f"//{_GROUP}//{_APP}//", authority=authority.verifier).module

    def note(app: str, name: str, key: SigningKey, extras: list[tuple[str, str]]) -> bytes:
        plex = build_plex(
            group=_GROUP, app=app, name=name, tai=tai_now(), extras=extras, data=name.encode()
        )
        return seal(plex, key).raw

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        grant = [("Member", member.verifier), ("Role", "writer")]
        raws = [note(f"{_APP}/member", "m", authority, grant)]
        for number in range(_NOTES):
            signer = stranger if number % 3 == 0 else member
            raws.append(note(f"{_APP}/message", f"n/{number}", signer, []))
        broken = bytearray(raws[-1])
        broken[-1] ^= 1
        (folder / "archive.records").write_bytes(b"".join([*raws, broken]))
        lake = open_lake(str(folder / "notes.lake"), session, create=True)
        done = ingest(lake, [str(folder / "archive.records")])
        say(f"a lake of {done.records} signed records; {done.quarantined} broken one put aside")
        again = ingest(lake, [str(folder / "archive.records")])
        say(f"the same archive again: {again.records} new")
        snapshot = lake.snapshot()
        selection = select(snapshot, program.program)
        hashes = sorted(row.hash for row in selection.hashes().collect())
        say(f"the room's rules select {len(hashes)}: the grant, and what its member wrote")
        proof = explain(snapshot, program.program, (hashes[0],))
        assert isinstance(proof, Proof)
        say(f"  {proof.fact} has a proof of {proof.size} facts")
        advertising = Advertising(selection=program.id, source="demo", prefix_length=1)
        tables = SummaryTables(lake, advertising)
        made = summarize(snapshot, selection.hashes, tables)
        say(f"for an exchange, {len(made.partitions)} partition summaries of {made.count} records")
        with SqliteStore(folder / "phone.db") as store:
            export_to_store(selection.records().limit(len(hashes) // 2), store)
        with open_sides(session, lake.root, str(folder / "phone.db")) as (left, right):
            found = Reconciliation(left, right, program.program).difference()
        say(f"a phone with half of them lacks {found.right_lacks}, the lake {found.left_lacks}")
