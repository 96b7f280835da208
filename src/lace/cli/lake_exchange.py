"""``lace lake export`` and ``reconcile``: records out of a lake, and from one set to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any

import click

from lace.cli.arguments import select_option
from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, open_lake, progress, read_program, record_set, spark_options
from lace.cli.output import echo
from lace.cli.render import chosen_form, form_option, print_entries, print_summary

_Lacking = tuple[str, str, str]
"""A side, the sign of what only the other one has, and the hash of such a record."""
_DATABASES = (".db", ".sqlite", ".sqlite3")


@click.command("export")
@click.argument("name", metavar="LAKE")
@click.argument("target", metavar="FOLDER|STORE")
@select_option("Only what this selects.")
@click.option("--bundles", type=click.IntRange(1), help="How many bundles.  [default: by size]")
@click.option("--store", "into_store", is_flag=True, help="The target is a SQLite lace.")
@form_option
@spark_options
def export_command(
    name: str, target: str, select_text: str | None, bundles: int | None, into_store: bool,
    form: str | None, spark: Spark,
) -> int:  # fmt: skip
    """Write the records of LAKE into bundles in a new FOLDER, or with --store into a SQLite lace.

    \b
    Example:
      lace lake export notes.lake out/
      lace lake export notes.lake phone.db --store --select //notes-demo//notes//
    """
    if target.endswith(_DATABASES) and not into_store:
        raise click.UsageError(f"{target} looks like a database: add --store, or name a folder")
    session = spark.open()
    snapshot = open_lake(name, session).snapshot()
    from lace.lake.export import export_bundles, export_to_store
    from lace.lake.select import select
    from lace.recordstore.sqlite import SqliteStore

    records = snapshot.records
    with progress(session) as report:
        if select_text is not None:
            report("selecting")
            records = select(snapshot, read_program(select_text, None)[0]).records()
        report("writing")
        if into_store:
            with SqliteStore(record_set(target)) as store:
                done = export_to_store(records, store)
        else:
            done = export_bundles(records, target, bundles=bundles)
    words = f"{done.records:,} records written, {done.duplicates:,} were there already"
    print_summary(form, asdict(done), (words, *done.bundles))
    if done.rejected:
        echo(f"{done.rejected:,} records are not valid any more: left out", err=True)
    return Exit.SOME_REJECTED if done.rejected else Exit.OK


@click.command("reconcile")
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@click.argument("selector_text", metavar="SELECTOR")
@click.option("--apply", "is_applied", is_flag=True, help="Bring each side what it lacks.")
@click.option("--list", "is_listed", is_flag=True, help="Print the hashes that are lacking.")
@form_option
@spark_options
def reconcile_command(
    left: str, right: str, selector_text: str, is_applied: bool, is_listed: bool,
    form: str | None, spark: Spark
) -> int:  # fmt: skip
    """Compare A and B: lakes, laces (folders or stores), bundles, or folders of bundles.

    Says how many of the records that SELECTOR selects each side lacks. With --apply they are
    transferred, each validated again. Bundles are never changed: what they lack becomes a new
    bundle beside them.

    \b
    Example:
      lace lake reconcile notes.lake phone.db //notes-demo//notes//
      lace lake reconcile notes.lake other.lake //notes-demo//notes// --apply
    """
    names = (record_set(left, gives=True), record_set(right, gives=True))
    program = read_program(selector_text, None)[0]
    session = spark.open()
    from lace.lake.reconcile import Reconciliation, open_sides, write_back

    with progress(session) as report, open_sides(session, *names) as (a, b):
        both = Reconciliation(a, b, program)
        for side in (a, b):
            if side.put_aside:
                echo(f"{side.name}: {side.put_aside:,} parts are no records", err=True)
        broken = Exit.SOME_REJECTED if a.put_aside or b.put_aside else Exit.OK
        if not is_applied:
            report("comparing")
            found = both.difference()
            lacks = ((left, "lacks", found.left_lacks), (right, "lacks", found.right_lacks))
            hashes: Iterator[_Lacking] = iter(())
            if is_listed:
                hashes = (
                    (name, sign, str(row.hash))
                    for name, sign, here, there in ((left, "<", a, b), (right, ">", b, a))
                    for row in both.lacking(here, there)
                    .select("hash").orderBy("hash").toLocalIterator()
                )  # fmt: skip
            _show(lacks, hashes, form)
            return broken
        report("transferring")
        before = [side.lake.snapshot().version.number for side in (a, b)]
        moved = both.transfer()
        for side, version in zip((a, b), before, strict=True):
            write_back(side, version)
    got = ((left, "got", moved.left_lacks), (right, "got", moved.right_lacks))
    _show(got, iter(()), form)
    return broken


def _show(
    numbers: Iterable[tuple[str, str, int]], hashes: Iterator[_Lacking], form: str | None
) -> None:
    """Print how many records each side lacks or got, and which they are if that is wanted."""
    if chosen_form(form) == "table":
        for name, verb, number in numbers:
            echo(f"{name} {verb} {number:,}")
        for _, sign, hash in hashes:
            echo(f"{sign} {hash}")
        return
    entries: Iterable[dict[str, Any]] = chain(
        ({"side": name, "what": verb, "records": number} for name, verb, number in numbers),
        ({"side": name, "what": "lacks", "hash": hash} for name, _, hash in hashes),
    )
    print_entries(form, ("side", "what", "records", "hash"), entries)
