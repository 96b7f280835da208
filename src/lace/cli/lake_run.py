"""``lace lake run``: a pipeline that one file describes, for cron or any scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, progress, spark_options
from lace.cli.output import echo
from lace.cli.render import print_json
from lace.clock import seconds_now

if TYPE_CHECKING:
    from lace.lake.pipeline import Done


@click.command("run")
@click.argument("file", metavar="FILE", default="lake.toml")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each step.")
@click.option(
    "--check", is_flag=True, help="Read FILE, say what is wrong with it, and run nothing."
)
@click.option(
    "--metrics-file",
    metavar="FILE",
    help="Write numbers for Prometheus at the end, for a collector that reads files.",
)
@spark_options
def run_command(
    file: str, as_json: bool, check: bool, metrics_file: str | None, spark: Spark
) -> int:
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
    from lace.lake.tally import run_metrics, write_metrics

    pipeline = load(Path(file))
    if check:
        return Exit.OK
    steps: dict[str, tuple[Done, float]] = {}
    failed = True
    try:
        session = spark.open()
        with progress(session) as report:
            begun = seconds_now()
            for done in run(pipeline, session, report):
                seconds, begun = seconds_now() - begun, seconds_now()
                steps[done.step] = done, seconds
                if as_json:
                    print_json(done.to_json() | {"seconds": round(seconds, 3)})
                else:
                    echo(f"{'done ' if done.changed else 'as is'} {done.step}, {seconds:.1f} s")
        failed = False
    finally:
        if metrics_file is not None:
            write_metrics(run_metrics(steps, failed=failed), Path(metrics_file))
    put_aside = sum(done.put_aside for done, _ in steps.values())
    return Exit.SOME_REJECTED if put_aside else Exit.OK
