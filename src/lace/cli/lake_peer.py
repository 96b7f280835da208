"""``lace lake serve`` and ``lace lake sync``: the lake as a peer of any lace."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from lace.cli.render import form_option, print_summary
from lace.cli.serve import one_policy, strangers_may
from lace.errors import Code, UsageError
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.serving.grants import ServePolicy, ServerLimits, load_policy
from lace.serving.metrics import serve_metrics
from lace.settings import read_exposure, read_selector
from lace.threads import take_short_turns
from lace.transport.address import parse_address
from lace.transport.tls import Certificate

if TYPE_CHECKING:
    from lace.lake.serve import LakeHost

_WORKERS = 4
_UNUSED: Final = frozenset({
    "connections", "connections_per_host", "memory_mib", "idle_seconds", "workers", "grace_seconds",
})  # fmt: skip
"""Limits of a policy file that a lake has no use for."""
_LIMITS: Final = ServerLimits()


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
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    help="Who may see what and who may store how much (lace help streams).",
)
@click.option(
    "--accept",
    "accepted_texts",
    metavar="anyone|NAME|VERIFIER",
    multiple=True,
    help="Who may also write, where the selector takes records from anyone; repeatable.",
)
@exchange_options(required=False)
@spark_options
def serve_command(
    name: str, address: str, cert: str | None, cert_key: str | None, metrics_port: int | None,
    policy_file: str | None, accepted_texts: tuple[str, ...], select_text: str | None,
    **options: Any,
) -> int:  # fmt: skip
    """Let peers interlace with LAKE at ADDRESS, until Ctrl-C or SIGTERM.

    Without an ADDRESS it is tcp:127.0.0.1:4790.

    What anyone may read and write is said at the start, as lace serve does: a plain place is served
    for reading, and --accept says who may write too. How much is taken from whom is counted for as
    long as this runs.

    \b
    Example:
      lace lake serve notes.lake --select //notes-demo//notes//
      lace lake serve notes.lake tcp:0.0.0.0:4790 --select //notes-demo//notes// --accept anyone
      lace lake serve notes.lake tcp:0.0.0.0:4790 --policy notes.toml --key server.key
    """
    policy = _policy(select_text, policy_file, accepted_texts)
    if (cert is None) != (cert_key is None):
        raise click.UsageError("--cert and --cert-key go together")
    chain = None
    if cert is not None and cert_key is not None:
        chain = Certificate(chain=Path(cert), key=Path(cert_key))
    with ThreadPoolExecutor(_WORKERS) as worker:
        host = _host(name, worker, tell=_tell, policy=policy, **options)

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
                for line in strangers_may(policy):
                    echo(line)
                await ended.wait()

        take_short_turns()
        with suppress(KeyboardInterrupt):
            asyncio.run(run())
    return Exit.OK


@click.command("sync")
@click.argument("name", metavar="LAKE")
@click.argument("address")
@exchange_options(calls=True)
@form_option
@spark_options
def sync_command(
    name: str, address: str, expect: str | None, trust: str | None, form: str | None, **options: Any
) -> int:
    """Interlace LAKE once with the peer at ADDRESS.

    \b
    Example:
      lace lake sync notes.lake tcp:example.com:4790 --select //notes-demo//notes//
    """
    expected = None if expect is None else read_verifier(expect, "--expect")
    with ThreadPoolExecutor(_WORKERS) as worker:
        host = _host(name, worker, tell=partial(_tell_once, form), **options)
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
    is_short = by_limit and ended is not None and ended.result.ending is None
    return Exit.LIMIT if is_short else Exit.OK


def _policy(select_text: str | None, file: str | None, accepted: tuple[str, ...]) -> ServePolicy:
    """Return who may read and write what; a setting that a lake cannot honour stops it."""
    if (select_text is None) == (file is None):
        raise click.UsageError("say what is served: give --select or --policy, one of them")
    if select_text is not None:
        return one_policy(read_selector(select_text), (select_text,), accepted)
    if accepted:
        raise click.UsageError("a policy file says itself who may write: leave --accept out")
    policy = load_policy(Path(str(file)))
    unused = [n for n in sorted(_UNUSED) if getattr(policy.limits, n) != getattr(_LIMITS, n)]
    unused += [] if policy.engine == DEFAULT_LIMITS else ["[engine]"]
    if unused:
        raise UsageError(
            f"lace lake serve cannot go by {', '.join(unused)} of {file}",
            code=Code.SETTINGS_UNUSABLE,
            hint="Leave it out; --phase-timeout is a flag, and 16 peers are served at once.",
        )
    return policy


def _host(
    name: str,
    worker: ThreadPoolExecutor,
    *,
    tell: Callable[[str, m.Event], None],
    select_text: str | None = None,
    policy: ServePolicy | None = None,
    exposed: tuple[str, ...],
    key_text: str | None,
    phase_timeout: int,
    spark: Spark,
) -> LakeHost:
    exposure = read_exposure(exposed)
    key = None if key_text is None else read_signing_key(key_text)
    if policy is None:
        module = read_selector(str(select_text))
    else:
        module = policy.module_for(None, None if key is None else key.verifier)
    session = spark.open()
    opened = open_lake(name, session, create=True)
    from lace.lake.peer import LakeStore
    from lace.lake.serve import LakeHost

    limits = replace(DEFAULT_LIMITS, phase_timeout=phase_timeout)
    return LakeHost(
        LakeStore(opened), module, exposure, key=key, limits=limits, worker=worker, tell=tell,
        policy=policy,
    )  # fmt: skip


def _tell(peer: str, event: m.Event) -> None:
    """Tell how an exchange ended, one line each."""
    _tell_once("table", peer, event)


def _tell_once(form: str | None, peer: str, event: m.Event) -> None:
    """Tell how an exchange ended, in the form that was chosen."""
    match event:
        case m.Closed():
            received, rejected = len(event.result.received), len(event.result.rejected)
            made = {
                "peer": peer, "ended": event.reason, "received": received, "rejected": rejected,
                "sent": len(event.result.sent),
            }  # fmt: skip
            words = f"{peer}: {event.reason}; {received:,} records received, {rejected:,} refused"
            print_summary(form, made, (words,))
        case m.Aborted():
            echo(f"{peer}: {event.detail} [{event.code}]", err=True)
