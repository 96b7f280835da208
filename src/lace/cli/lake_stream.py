"""``lace lake stream``: records flow into a lake from a folder, or from a peer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lace.cli.arguments import is_address, read_signing_key, read_verifier
from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, open_lake, spark_options
from lace.cli.lake_peer import exchange_options, how_it_ended
from lace.cli.lake_run import set_by_signals
from lace.cli.output import echo
from lace.cli.render import print_json
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.serving.metrics import metrics_at
from lace.settings import read_exposure, read_selector

if TYPE_CHECKING:
    from lace.lake.peersource import LiveSource
    from lace.lake.stream import Batch, LakeStream


@click.command("stream")
@click.argument("name", metavar="LAKE")
@click.argument("source", metavar="FOLDER|ADDRESS")
@click.option("--checkpoint", required=True, metavar="FOLDER", help="Where it notes how far it is.")
@click.option("--once", is_flag=True, help="Take what is there now, then end.")
@click.option("--interval", default="10 seconds", show_default=True, help="How often to look.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for each batch.")
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer Prometheus at http://127.0.0.1:PORT/metrics.",
)
@exchange_options(required=False, calls=True)
@spark_options
def stream_command(
    name: str,
    source: str,
    checkpoint: str,
    once: bool,
    interval: str,
    as_json: bool,
    metrics_port: int | None,
    spark: Spark,
    **peer: Any,
) -> int:
    """Take records into LAKE as they come, each once, until Ctrl-C.

    From a FOLDER come bundles. One must appear under its *.records name in one step: write it under
    another name, then rename it. From a peer at an ADDRESS comes what SELECTOR selects, over an
    exchange that stays open, and is made again when the connection breaks. The same checkpoint goes
    on where it ended.

    \b
    Example:
      lace lake stream notes.lake incoming/ --checkpoint notes.checkpoint
      lace lake stream notes.lake tcp:example.com:4790 --select //notes-demo//notes// \\
          --checkpoint notes.checkpoint
    """
    live = is_address(source)
    if live != (peer["select_text"] is not None):
        raise click.UsageError(
            "a peer needs --select" if live else "--select is for a peer at an address"
        )
    with ExitStack() as stack:
        made = _live_source(source, checkpoint, **peer) if live else None
        session = spark.open()
        opened = open_lake(name, session, create=True)
        from lace.lake.stream import LakeStream
        from lace.lake.tally import StreamTally

        tally = StreamTally(opened)
        if metrics_port is not None:
            port = stack.enter_context(metrics_at(tally.metrics, metrics_port))
            echo(f"metrics at http://127.0.0.1:{port}/metrics", err=True)

        def tell(batch: Batch) -> None:
            entry = tally.take(batch)
            print_json(entry) if as_json else echo(_line(batch))

        if made is None:
            Path(source).mkdir(parents=True, exist_ok=True) if "://" not in source else None
            stream = LakeStream(opened, source, checkpoint, on_batch=tell)
            stream.check()
            return _run(stream, once, interval)
        stream = LakeStream(
            opened, made.folder, checkpoint, on_batch=tell, origin=str(made.address)
        )
        stream.check()
        return _run_live(stack.enter_context(made), stream, once, interval)


def _live_source(
    address: str, checkpoint: str, *, select_text: str, exposed: tuple[str, ...],
    key_text: str | None, expect: str | None, trust: str | None, phase_timeout: int,
) -> LiveSource:  # fmt: skip
    from lace.lake.session import check_packages
    from lace.transport.address import parse_address

    module, exposure = read_selector(select_text), read_exposure(exposed)
    check_packages()
    from lace.lake.peersource import LiveSource

    return LiveSource(
        address=parse_address(address),
        checkpoint=checkpoint,
        module=module,
        exposure=exposure,
        key=None if key_text is None else read_signing_key(key_text),
        expected=None if expect is None else read_verifier(expect, "--expect"),
        trust=None if trust is None else Path(trust),
        limits=replace(DEFAULT_LIMITS, phase_timeout=phase_timeout),
        retry=lambda seconds, why: echo(f"{why}; trying again in {seconds:.1f} s", err=True),
    )


def _run(stream: LakeStream, once: bool, interval: str) -> int:
    with set_by_signals() as stop:
        stream.start(interval=None if once else interval)
        while not stop.is_set() and not stream.wait(1):
            pass
        if stop.is_set():
            echo("ending", err=True)
            stream.stop()
    return Exit.OK


def _run_live(live: LiveSource, stream: LakeStream, once: bool, interval: str) -> int:
    if once:
        ended = live.sync()
        live.drain()
        _run(stream, True, interval)
        return _how_it_ended(ended)
    with set_by_signals() as stop:
        stream.start(interval=interval)
        live.start()
        try:
            while live.ended() is None and not stop.is_set():
                live.drain()
                if stream.wait(1):
                    return Exit.OK
            if stop.is_set():
                echo("ending", err=True)
        finally:
            live.stop()
            stream.stop()
    live.drain()
    _run(stream, True, interval)  # what has come meanwhile
    return _how_it_ended(live.ended())


def _how_it_ended(ended: m.Closed | m.Aborted | None) -> int:
    if isinstance(ended, m.Aborted):
        echo(f"lace: {ended.detail} [{ended.code}]\n  {ended.code.fix}", err=True)
    return how_it_ended(ended)


def _line(batch: Batch) -> str:
    result = batch.result
    return (
        f"batch {batch.number}: {result.records:,} new, {result.duplicates:,} duplicates, "
        f"{result.quarantined:,} put aside, {batch.rate:,} a second"
    )
