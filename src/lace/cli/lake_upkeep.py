"""``lace lake maintain``, ``forget`` and ``remember``: what keeps a lake small, what leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from lace.cli.arguments import select_option
from lace.cli.exitcodes import Exit
from lace.cli.files import read_at_most
from lace.cli.lake import Spark, open_lake, progress, read_program, spark_options
from lace.cli.output import echo
from lace.cli.render import chosen_form, form_option, print_entries, print_summary
from lace.ids import RecordHash, parse_record_hash
from lace.limits import LAKE

if TYPE_CHECKING:
    from lace.lake.forget import Forgotten

_SHOWN = 10
_VERBS = {"merge": "merge", "tidy": "tidy", "remove": "remove", "checkpoint": "sum up"}


@click.command("maintain")
@click.argument("name", metavar="LAKE")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option(
    "--retain",
    "hours",
    type=click.IntRange(0, 24 * 3650),
    default=168,
    show_default=True,
    metavar="HOURS",
    help="Keep what versions of this time need. With 0, nothing else may be at work.",
)
@click.option(
    "--target",
    "megabytes",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    metavar="MIB",
    help="How large files should become.",
)
@form_option
@spark_options
def maintain_command(
    name: str, dry_run: bool, hours: int, megabytes: int, form: str | None, spark: Spark
) -> int:
    """Merge small files of LAKE, remove what no version needs any more, tidy up after crashes.

    Rows of merged files are sorted by group, app and time. Readers and writers may go on meanwhile,
    and a run that was broken off is completed by the next one. Spark is started only where there is
    much to rewrite.

    \b
    Example:
      lace lake maintain notes.lake --dry-run
      lace lake maintain notes.lake --retain 24
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.maintain import maintain, needs_spark
    from lace.lake.tables import Lake

    target = megabytes << 20
    opened = Lake.open(None, name)
    if not dry_run and needs_spark(opened, target):
        session = spark.open()
        with progress(session) as report:
            done = maintain(
                open_lake(name, session), retain_hours=hours, target_bytes=target, report=report
            )
    else:
        done = maintain(opened, dry_run=dry_run, retain_hours=hours, target_bytes=target)
    if chosen_form(form) != "table":
        entries = ({**asdict(chore), "done": not dry_run} for chore in done)
        print_entries(form, ("what", "table", "files", "result", "bytes", "done"), entries)
        return Exit.OK
    for chore in done:
        would = "would " if dry_run else ""
        into = f" into {chore.result:,}" if chore.result else ""
        verb = f"{would}{_VERBS[chore.what]}"
        echo(f"{verb} {chore.table}: {chore.files:,}{into}, {chore.bytes:,} bytes")
    if not done:
        echo("nothing to do")
    return Exit.OK


@click.command("forget")
@click.argument("name", metavar="LAKE")
@click.argument("hashes", nargs=-1, metavar="[HASH...]")
@select_option("Forget what this selects.")
@click.option("--file", "hash_file", metavar="FILE", help="A file of hashes, one a line.")
@click.option(
    "--purge", is_flag=True, help="Remove older versions at once; nothing else may be at work."
)
@form_option
@spark_options
def forget_command(
    name: str, hashes: tuple[str, ...], select_text: str | None, hash_file: str | None,
    purge: bool, form: str | None, spark: Spark,
) -> int:  # fmt: skip
    """Take records out of LAKE for good: by HASH, by rules, or by a file of hashes.

    Their hashes are kept, so that neither an ingest nor an exchange brings them back, until
    lace lake remember lets them. Older versions of the lake hold them until lace lake maintain
    removes those, a week later or with --purge. The bundles that they came from are not touched.

    \b
    Example:
      lace lake forget notes.lake S.hash
      lace lake forget notes.lake --select //notes-demo//notes//t/1 --purge
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.forget import forget
    from lace.lake.maintain import maintain
    from lace.lake.tables import Lake

    if not hashes and select_text is None and hash_file is None:
        raise click.UsageError("give hashes, --select or --file")
    wanted = _read_hashes(hashes, hash_file)
    if select_text is None:
        opened = Lake.open(None, name)
    else:
        program, predicate, _ = read_program(select_text, None)
        session = spark.open()
        opened = open_lake(name, session)
        from lace.lake.select import select

        with progress(session) as report:
            report("selecting")
            with select(opened.snapshot(), program, predicate=predicate) as chosen:
                wanted |= {RecordHash(row[0]) for row in chosen.evaluation.rows(predicate)}
    done = forget(opened, wanted)
    if purge:
        maintain(opened, retain_hours=0)
    print_summary(form, asdict(done) | {"purged": purge}, _forgotten(done, purge=purge))
    return Exit.OK


def _forgotten(done: Forgotten, *, purge: bool) -> Iterator[str]:
    yield f"{done.removed:,} records forgotten, {done.asked:,} hashes kept out"
    if done.removed and not purge:
        yield "older versions hold them until lace lake maintain removes those, after a week"
    for bundle in done.bundles[:_SHOWN]:
        yield f"untouched: {bundle}"
    if len(done.bundles) > _SHOWN:
        yield f"untouched: {len(done.bundles) - _SHOWN:,} more"


def _read_hashes(hashes: tuple[str, ...], file: str | None) -> set[RecordHash]:
    """Return the hashes that are given, and those of a file."""
    lines: list[str] = []
    if file is not None:
        lines = read_at_most(file, LAKE.hashes_file_bytes).decode("utf-8", "replace").split()
    return {parse_record_hash(text) for text in (*hashes, *lines)}


@click.command("forgotten")
@click.argument("name", metavar="LAKE")
@form_option
def forgotten_command(name: str, form: str | None) -> int:
    """Print the hashes of what LAKE has forgotten, sorted.

    \b
    Example:
      lace lake forgotten notes.lake
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.forget import all_forgotten
    from lace.lake.tables import Lake

    opened = Lake.open(None, name)
    hashes = ({"hash": hash} for hash in sorted(all_forgotten(opened)))
    print_entries(form, ("hash",), hashes, whole=("hash",))
    return Exit.OK


@click.command("remember")
@click.argument("name", metavar="LAKE")
@click.argument("hashes", nargs=-1, metavar="[HASH...]")
@click.option("--file", "hash_file", metavar="FILE", help="A file of hashes, one a line.")
@click.option("--all", "everything", is_flag=True, help="All that was forgotten.")
@form_option
def remember_command(
    name: str, hashes: tuple[str, ...], hash_file: str | None, everything: bool, form: str | None
) -> int:
    """Let records come back to LAKE that it has forgotten; nothing is fetched.

    The next ingest reads bundles again that were read before. A peer that has the records sends
    them with the next exchange, if the selector asks for them. Exit code 6 if one of the hashes was
    not forgotten.

    \b
    Example:
      lace lake remember notes.lake S.hash
      lace lake remember notes.lake --all
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.forget import all_forgotten, remember
    from lace.lake.tables import Lake

    if everything == bool(hashes or hash_file):
        raise click.UsageError("give hashes, --file or --all")
    wanted = None if everything else _read_hashes(hashes, hash_file)
    opened = Lake.open(None, name)
    back = remember(opened, wanted)
    left = sum(1 for _ in all_forgotten(opened))
    said = [f"{back:,} may come back, {left:,} are still forgotten"]
    print_summary(form, {"forgotten": left, "remembered": back}, said)
    return Exit.OK if wanted is None or back == len(wanted) else Exit.NOT_FOUND
