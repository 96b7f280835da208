"""``lace lake run``: a pipeline that one file describes, for cron or any scheduler."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, progress, spark_options
from lace.cli.output import echo
from lace.cli.render import print_json
from lace.serving.metrics import metrics_at

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
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="With --stream: answer Prometheus at http://127.0.0.1:PORT/metrics.",
)
@click.option(
    "--stream", "streams", is_flag=True, help="Go on, batch by batch, until SIGTERM or Ctrl-C."
)
@click.option("--interval", default="10 seconds", show_default=True, help="How often it looks.")
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    help="Where it notes how far it is.  [default: FILE.checkpoint]",
)
@spark_options
def run_command(
    file: str, as_json: bool, check: bool, metrics_file: str | None, metrics_port: int | None,
    streams: bool, interval: str, checkpoint: str | None, spark: Spark,
) -> int:  # fmt: skip
    """Run the pipeline that FILE describes: sources, projections, exports, upkeep.

    Each step changes only what has to change, so that a run can be repeated at any time, and says
    which versions it read and wrote. Exit code 3 if something was put aside, another one than 0 if
    a step failed; the steps before it stay done.

    With --stream sources are folders alone, whose new bundles are taken in small batches. What
    follows from the lake follows after each of them; upkeep is done once an hour. It tells what
    changed; its numbers are those after the last step. The same checkpoint goes on where it ended.

    \b
    Example:
      lace lake run lake.toml --json
      lace lake run lake.toml --stream --interval "30 seconds"
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.flow import flow, folders_of
    from lace.lake.pipeline import load, run, timed
    from lace.lake.tally import RunTally, write_metrics

    if checkpoint is not None and not streams:
        raise click.UsageError("--checkpoint is that of --stream")
    if metrics_port is not None and not streams:
        raise click.UsageError(
            "--metrics is for --stream; a run that ends has --metrics-file instead"
        )
    pipeline = load(Path(file))
    folders = folders_of(pipeline) if streams else []
    if check:
        return Exit.OK
    tally = RunTally()
    put_aside = 0
    failed = True

    def tell(done: Done, seconds: float) -> None:
        tally.take(done, seconds)
        if as_json:
            print_json(done.to_json() | {"seconds": round(seconds, 3)})
        else:
            echo(f"{'done ' if done.changed else 'as is'} {done.step}, {seconds:.1f} s")
        if streams:
            sys.stdout.flush()
            if metrics_file is not None:
                write_metrics(tally.metrics.text(), Path(metrics_file))

    try:
        session = spark.open()
        with ExitStack() as stack:
            if streams:
                stop = stack.enter_context(set_by_signals())
                if metrics_port is not None:
                    port = stack.enter_context(metrics_at(tally.metrics, metrics_port))
                    echo(f"metrics at http://127.0.0.1:{port}/metrics", err=True)
                echo(f"taking bundles from {', '.join(folders)}", err=True)
                notes = checkpoint or f"{file}.checkpoint"
                made = flow(pipeline, session, checkpoint=notes, interval=interval, stop=stop)
            else:
                made = timed(run(pipeline, session, stack.enter_context(progress(session))))
            for done, seconds in made:
                put_aside += done.put_aside
                tell(done, seconds)
        failed = False
    finally:
        if metrics_file is not None:
            tally.tell(failed=failed)
            write_metrics(tally.metrics.text(), Path(metrics_file))
    return Exit.SOME_REJECTED if put_aside else Exit.OK


@contextmanager
def set_by_signals() -> Iterator[Event]:
    """Give what SIGTERM and Ctrl-C set while the block runs."""
    stop = Event()

    def ends(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, ends) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
