"""``lace lake maintain``: what keeps a lake quick and small."""

from __future__ import annotations

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, open_lake, progress, spark_options
from lace.cli.output import echo

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
@spark_options
def maintain_command(name: str, dry_run: bool, hours: int, megabytes: int, spark: Spark) -> int:
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
    for chore in done:
        would = "would " if dry_run else ""
        into = f" into {chore.result:,}" if chore.result else ""
        verb = f"{would}{_VERBS[chore.what]}"
        echo(f"{verb} {chore.table}: {chore.files:,}{into}, {chore.bytes:,} bytes")
    if not done:
        echo("nothing to do")
    return Exit.OK
