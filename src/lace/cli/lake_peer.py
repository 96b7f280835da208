"""``lace lake serve`` and ``lace lake sync``: the lake as a peer of any lace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lace.cli.arguments import (
    Decorator,
    expect_option,
    expose_option,
    key_option,
    read_signing_key,
    read_verifier,
    select_option,
    trust_option,
)
from lace.cli.exitcodes import Exit
from lace.cli.lake import Spark, open_lake, spark_options
from lace.cli.output import echo
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.serving.metrics import serve_metrics
from lace.settings import read_exposure, read_selector
from lace.transport.address import parse_address
from lace.transport.tls import Certificate

if TYPE_CHECKING:
    from lace.lake.serve import LakeHost

_WORKERS = 4


def exchange_options(
    *, required: bool = True, calls: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what exchanges of a lake have in common; ``calls`` adds whom a caller believes."""
    options: list[Decorator] = [
        select_option("What is exchanged: a place, rules, or a file of them.", required=required),
        expose_option,
        key_option("Prove this key to peers."),
        click.option("--phase-timeout", type=click.IntRange(1), default=300, show_default=True,
                     help="Seconds that a peer may take for one phase."),
    ]  # fmt: skip
    if calls:
        options += [expect_option, trust_option]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return add


@click.command("serve")
@click.argument("name", metavar="LAKE")
@click.argument("address", default="tcp:127.0.0.1:4790", metavar="[ADDRESS]")
@click.option("--cert", metavar="FILE", help="The certificate for wss, with its chain.")
@click.option("--cert-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer Prometheus at http://127.0.0.1:PORT/metrics.",
)
@exchange_options()
@spark_options
def serve_command(
    name: str, address: str, cert: str | None, cert_key: str | None, metrics_port: int | None,
    **options: Any,
) -> int:  # fmt: skip
    """Let peers interlace with LAKE at ADDRESS, until Ctrl-C or SIGTERM.

    Without an ADDRESS it is tcp:127.0.0.1:4790.

    \b
    Example:
      lace lake serve notes.lake --select //notes-demo//notes//
      lace lake serve notes.lake tcp:0.0.0.0:4790 --select //notes-demo//notes//
    """
    if (cert is None) != (cert_key is None):
        raise click.UsageError("--cert and --cert-key go together")
    chain = None
    if cert is not None and cert_key is not None:
        chain = Certificate(chain=Path(cert), key=Path(cert_key))
    with ThreadPoolExecutor(_WORKERS) as worker:
        host = _host(name, worker, **options)

        async def run() -> None:
            ended = asyncio.Event()
            with suppress(NotImplementedError):  # on Windows there is Ctrl-C alone
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            if metrics_port is not None:
                answering = await serve_metrics(host.metrics, metrics_port)
                port = answering.sockets[0].getsockname()[1]
                echo(f"metrics at http://127.0.0.1:{port}/metrics")
            async with host.at(parse_address(address), chain) as real:
                echo(f"at {real}")
                await ended.wait()

        with suppress(KeyboardInterrupt):
            asyncio.run(run())
    return Exit.OK


@click.command("sync")
@click.argument("name", metavar="LAKE")
@click.argument("address")
@exchange_options(calls=True)
@spark_options
def sync_command(
    name: str, address: str, expect: str | None, trust: str | None, **options: Any
) -> int:
    """Interlace LAKE once with the peer at ADDRESS.

    \b
    Example:
      lace lake sync notes.lake tcp:example.com:4790 --select //notes-demo//notes//
    """
    expected = None if expect is None else read_verifier(expect, "--expect")
    with ThreadPoolExecutor(_WORKERS) as worker:
        host = _host(name, worker, **options)
        ended = asyncio.run(
            host.sync(
                parse_address(address),
                expected=expected,
                trust=None if trust is None else Path(trust),
            )
        )
    return how_it_ended(ended)


def how_it_ended(ended: m.Closed | m.Aborted | None) -> Exit:
    """Return the exit code of an exchange."""
    if isinstance(ended, m.Aborted):
        return Exit.LIMIT if ended.code is Code.LIMIT_EXCEEDED else Exit.ABORTED
    by_limit = ended is not None and ended.ending is m.Ending.LOOPS
    return Exit.LIMIT if by_limit else Exit.OK


def _host(
    name: str,
    worker: ThreadPoolExecutor,
    *,
    select_text: str,
    exposed: tuple[str, ...],
    key_text: str | None,
    phase_timeout: int,
    spark: Spark,
) -> LakeHost:
    module = read_selector(select_text)
    exposure = read_exposure(exposed)
    key = None if key_text is None else read_signing_key(key_text)
    session = spark.open()
    opened = open_lake(name, session, create=True)
    from lace.lake.peer import LakeStore
    from lace.lake.serve import LakeHost

    limits = replace(DEFAULT_LIMITS, phase_timeout=phase_timeout)
    return LakeHost(
        LakeStore(opened), module, exposure, key=key, limits=limits, worker=worker, tell=_tell
    )


def _tell(peer: str, event: m.Event) -> None:
    match event:
        case m.Closed():
            result = event.result
            echo(
                f"{peer}: {event.reason}; {len(result.received):,} records received, "
                f"{len(result.rejected):,} refused"
            )
        case m.Aborted():
            echo(f"{peer}: {event.detail} [{event.code}]", err=True)
