"""``lace lake run``: a pipeline that one file describes, for cron or any scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, progress, spark_options
from lace.cli.output import echo
from lace.cli.render import print_json


@click.command("run")
@click.argument("file", metavar="FILE", default="lake.toml")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each step.")
@click.option(
    "--check", is_flag=True, help="Read FILE, say what is wrong with it, and run nothing."
)
@spark_options
def run_command(file: str, as_json: bool, check: bool, spark: Spark) -> int:
    """Run the pipeline that FILE describes: sources, projections, exports, upkeep.

    Each step changes only what has to change, so that a run can be repeated at any time, and says
    which versions it read and wrote. Exit code 3 if something was put aside, another one than 0 if
    a step failed; the steps before it stay done.

    \b
    Example:
      lace lake run lake.toml --json
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.pipeline import load, run

    pipeline = load(Path(file))
    if check:
        return Exit.OK
    put_aside = 0
    session = spark.open()
    with progress(session) as report:
        for done in run(pipeline, session, report):
            put_aside += done.put_aside
            if as_json:
                print_json(done.to_json())
            else:
                echo(f"{'done ' if done.changed else 'as is'} {done.step}")
    return Exit.SOME_REJECTED if put_aside else Exit.OK
