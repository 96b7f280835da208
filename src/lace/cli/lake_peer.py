"""``lace lake serve`` and ``lace lake sync``: the lake as a peer of any lace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import read_at_most, read_key
from lace.cli.lake import Spark, open_lake, spark_options
from lace.errors import Code
from lace.ids import Verifier, is_verifier
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.selectors import selector
from lace.transport.address import parse_address
from lace.transport.tls import Certificate

if TYPE_CHECKING:
    from lace.lake.serve import LakeHost

_WORKERS = 4


def exchange_options(
    *, required: bool = True, calls: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what exchanges of a lake have in common; ``calls`` adds whom a caller believes."""
    options = [
        click.option("--selector", "selector_text", required=required, metavar="SELECTOR",
                     help="What is exchanged: an address, rules, or a file of rules."),
        click.option("--expose", "exposed", multiple=True, default=("selected",),
                     show_default=True, metavar="none|selected|everything|FILE",
                     help="What a peer's rules may see; files are expose modules."),
        click.option("--key", "key_file", metavar="FILE", help="Prove this key to peers."),
        click.option("--phase-timeout", type=click.IntRange(1), default=300, show_default=True,
                     help="Seconds that a peer may take for one phase."),
    ]  # fmt: skip
    if calls:
        options += [
            click.option("--expect", metavar="VERIFIER", help="Whom the peer must prove to be."),
            click.option("--trust", metavar="FILE", help="One more certificate that wss believes."),
        ]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return add


@click.command("serve")
@click.argument("name", metavar="LAKE")
@click.option("--listen", "address", default="tcp:127.0.0.1:4790", show_default=True,
              metavar="ADDRESS", help="Where to take connections.")  # fmt: skip
@click.option("--certificate", metavar="FILE", help="For wss: the certificate chain.")
@click.option("--certificate-key", metavar="FILE", help="For wss: its private key.")
@exchange_options()
@spark_options
def serve_command(
    name: str, address: str, certificate: str | None, certificate_key: str | None,
    **options: Any,
) -> int:  # fmt: skip
    """Let peers interlace with LAKE at an address, until Ctrl-C.

    \b
    Example:
      lace lake serve notes.lake --selector //notes-demo//notes//
    """
    if (certificate is None) != (certificate_key is None):
        raise click.UsageError("--certificate and --certificate-key go together")
    chain = None
    if certificate is not None and certificate_key is not None:
        chain = Certificate(chain=Path(certificate), key=Path(certificate_key))
    with ThreadPoolExecutor(_WORKERS) as worker:
        host = _host(name, worker, **options)

        async def run() -> None:
            async with host.at(parse_address(address), chain) as real:
                click.echo(f"at {real}")
                await asyncio.Event().wait()

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
      lace lake sync notes.lake tcp:example.com:4790 --selector //notes-demo//notes//
    """
    expected = read_verifier(expect)
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
    selector_text: str,
    exposed: tuple[str, ...],
    key_file: str | None,
    phase_timeout: int,
    spark: Spark,
) -> LakeHost:
    module = read_module(selector_text)
    exposure = read_exposure(exposed)
    key = None if key_file is None else read_key(key_file)
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
            click.echo(
                f"{peer}: {event.reason}; {len(result.received):,} records received, "
                f"{len(result.rejected):,} refused"
            )
        case m.Aborted():
            click.echo(f"{peer}: {event.detail} [{event.code}]", err=True)


def read_verifier(text: str | None) -> Verifier | None:
    """Return whom --expect names."""
    if text is not None and not is_verifier(text):
        raise click.UsageError("--expect takes a verifier, V.….H3")
    return None if text is None else Verifier(text)


def read_module(text: str) -> PolicyModule:
    """Return the selector that a text names: an address, rules, or a file of rules."""
    if text.startswith("//") or ":-" in text:
        return selector(text)
    return module_from_text(read_at_most(text, DEFAULT_LIMITS.lacegram_bytes + 1))


def read_exposure(choices: tuple[str, ...]) -> Exposure:
    """Return what --expose names."""
    words = {"none", "selected", "everything"}
    modules = tuple(
        module_from_text(read_at_most(file, DEFAULT_LIMITS.lacegram_bytes + 1), Facet.EXPOSE)
        for file in choices
        if file not in words
    )
    if "everything" in choices:
        return Exposure(modules, "everything")
    return Exposure(modules, "selected" if "selected" in choices else "none")
