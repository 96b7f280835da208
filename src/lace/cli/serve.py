"""``lace serve``: let others interlace with a store."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from lace.api.serving import journal_folder
from lace.cli.arguments import (
    expose_option,
    is_address,
    key_option,
    lace_option,
    read_signing_key,
    read_verifier,
    select_option,
)
from lace.cli.exitcodes import Exit
from lace.cli.loudness import loudness
from lace.cli.place import Place, find
from lace.cli.render import json_line
from lace.dates import iso_date
from lace.errors import Code, UsageError
from lace.policy.admission import takes_from_anyone
from lace.policy.module import PolicyModule
from lace.recordstore.sqlite import SqliteStore
from lace.recordstore.sqlite_file import check_rights
from lace.selectors import any_of
from lace.serving.grants import (
    ANYONE,
    ServePolicy,
    load_policy,
    selector_policy,
)
from lace.serving.metrics import serve_metrics
from lace.serving.server import Server
from lace.serving.watching import Watching, read_token
from lace.settings import read_exposure, read_selector
from lace.text import redact, shown
from lace.threads import take_short_turns
from lace.transport.address import Address, Scheme, parse_address
from lace.transport.tls import Certificate, certificate_channel, development_certificate

LEVELS: Final = ("debug", "info", "warning", "error")
_LEVEL_OF: Final = {
    "connected": "debug",
    "closed": "debug",
    "warning": "warning",
    "rejected": "warning",
    "refused": "warning",
    "aborted": "warning",
    "quarantined": "warning",
    "quota": "warning",
    "watch-failed": "warning",
    "watch-restarted": "warning",
    "journal-failed": "warning",
    "failed": "error",
}


def _after_the_lace(
    context: click.Context, _argument: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the addresses; what stands before them names the lace."""
    named = not is_address(words[0])
    context.params["store"] = words[0] if named else None
    if named and len(words) == 1:
        raise click.UsageError(f"say where {shown(words[0])} is served: give an ADDRESS after it")
    return words[1:] if named else words


@click.command()
@click.argument(
    "addresses", metavar="[LACE] ADDRESS...", nargs=-1, required=True, callback=_after_the_lace
)
@lace_option
@select_option(
    "What anyone may read here; who may write, its rules and --accept say.", multiple=True
)
@click.option(
    "--policy",
    "policy_file",
    metavar="FILE",
    help="Who may see what and who may store what (lace help streams).",
)
@click.option(
    "--accept",
    "accepted_texts",
    metavar="anyone|NAME|VERIFIER",
    multiple=True,
    help="Who may also write, where the selector takes records from anyone; repeatable.",
)
@expose_option
@key_option("Prove this key to whoever connects.  [default: the one in lace.toml]")
@click.option(
    "--name",
    "names",
    metavar="ADDRESS",
    multiple=True,
    help="An address that this server is dialled by; peers prove themselves to it.",
)
@click.option("--cert", "chain", metavar="FILE", help="The certificate for wss, with its chain.")
@click.option("--cert-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--dev-cert",
    metavar="FOLDER",
    help="Use a certificate for localhost in FOLDER; make it if there is none.",
)
@click.option(
    "--proxy-cert",
    metavar="FILE",
    help="The certificate of a proxy that ends TLS before this server; clients' proofs name it.",
)
@click.option(
    "--allow-origin",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="A web page that may connect by ws or wss, such as https://example.org.",
)
@click.option(
    "--metrics",
    "metrics_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer Prometheus at http://127.0.0.1:PORT/metrics.",
)
@click.option(
    "--journal",
    "journals",
    metavar="FOLDER",
    help="Write every step of each exchange into a file of its own in FOLDER.",
)
@click.option(
    "--watch",
    "watch_port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Let a workbench on this machine look at exchanges as they happen; needs --watch-token.",
)
@click.option(
    "--watch-token",
    metavar="FILE",
    help="The token that opens --watch; made if there is none.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="debug",
    show_default=True,
    help="Tell only what is at least this important.",
)
@click.option(
    "--local-is-encrypted", is_flag=True, help="Let rules take unix and stdio for encrypted."
)
def serve(
    store: str | None,
    addresses: tuple[str, ...],
    where: str | None,
    select_texts: tuple[str, ...],
    policy_file: str | None,
    accepted_texts: tuple[str, ...],
    exposed: tuple[str, ...],
    key_text: str | None,
    names: tuple[str, ...],
    chain: str | None,
    cert_key: str | None,
    dev_cert: str | None,
    proxy_cert: str | None,
    origins: tuple[str, ...],
    metrics_port: int | None,
    journals: str | None,
    watch_port: int | None,
    watch_token: str | None,
    log_level: str,
    local_is_encrypted: bool,
) -> int:
    """Let others interlace with LACE at each ADDRESS, until it is told to stop.

    LACE is the folder of a lace, whose settings say what is served, what rules of peers may see,
    and with which key, where no flag does; or it is a store file. Without it, it is that of --lace,
    else the one you are in.

    What anyone may read and write is reported at the start. Rules that name signers or peers, as a
    room's do, say themselves from whom they take. A plain place takes records from anyone: it is
    served for reading, and --accept says who may write too. A peer with the server's own key may.

    An ADDRESS is tcp:host:port, unix:/path, ws:host:port, wss:host:port, or stdio for one peer on
    standard input and output. What happens is told on standard error, one JSON object a line.
    Each has its time as TAI and as a date, and a level. SIGTERM and Ctrl-C stop it in order:
    exchanges come to rest first. Journals hold the records that came; lace plumb journal replay
    runs them again.

    \b
    Example:
      lace serve tcp:127.0.0.1:4790
      lace serve notes tcp:127.0.0.1:4790 --accept anyone
      lace serve notes.lace tcp:127.0.0.1:4790 --select //notes-demo//notes//
      lace serve notes.lace wss:0.0.0.0 --name wss:notes.example.org --policy notes.toml \\
          --key server.key --cert chain.pem --cert-key cert.key --metrics 9100
    """
    log = _Log(log_level)
    if (watch_port is None) is not (watch_token is None):
        raise click.UsageError("--watch and --watch-token go together")
    watching = None if watch_token is None else Watching(read_token(Path(watch_token), make=True))
    places = [parse_address(text) for text in addresses]
    if store is not None and not (select_texts or policy_file) and not Path(store).exists():
        raise UsageError(
            f"{store} does not exist",
            code=Code.SETTINGS_MISSING,
            hint="Name a lace, or say what a new store serves: --select or --policy.",
        )
    # A file alone is made if it is not there; a lace has to be there.
    settings = find(store or where) if store is None or Path(store).is_dir() else None
    policy = _policy(select_texts, policy_file, accepted_texts, settings)
    # One place says what is exposed, whether rules come from a flag, a policy file or settings.
    policy.exposure = read_exposure(exposed) if settings is None else settings.exposure(exposed)
    room = None if settings is None else settings.settings.room
    members_only = room is not None and policy.exposure == room.exposure and room.reads == "members"
    if settings is not None:
        key = settings.signing_key(key_text)
    else:
        key = read_signing_key(key_text) if key_text is not None else None
    certificate = _certificate(places, chain, cert_key, dev_cert)
    own = tuple(str(parse_address(name)) for name in names)
    if any(place.scheme is Scheme.STDIO for place in places):
        if len(places) > 1:
            raise click.UsageError("stdio is one connection: give it alone")
        own += ("stdio",)
    if not own and any(place.is_wild for place in places):
        detail = "peers cannot prove themselves until --name says how this server is dialled"
        log({"event": "warning", "detail": detail})
    with SqliteStore(str(store) if settings is None else settings.settings.store) as opened:
        check_rights(opened.path)  # that it may not store is said before anybody comes
        server = Server(
            opened,
            policy,
            key=key,
            names=own,
            trusts_local=local_is_encrypted,
            journals=None if journals is None else journal_folder(Path(journals)),
            watching=watching,
            proxy_channel="" if proxy_cert is None else certificate_channel(Path(proxy_cert)),
            log=log,
        )
        _tell_strangers(policy, places, log, members_only)
        _allow_many_files()
        take_short_turns()
        watch = None if watching is None else (watching, watch_port or 0)
        asyncio.run(_serve(server, places, certificate, origins, metrics_port, watch, log))
    return Exit.OK


async def _serve(
    server: Server,
    places: list[Address],
    certificate: Certificate | None,
    origins: tuple[str, ...],
    metrics: int | None,
    watch: tuple[Watching, int] | None,
    log: _Log,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await server.start()
    try:
        if metrics is not None:
            answering = await serve_metrics(server.metrics, metrics)
            port = answering.sockets[0].getsockname()[1]
            log({"event": "metrics", "address": f"http://127.0.0.1:{port}/metrics"})
        if watch is not None:
            looking = await watch[0].serve(watch[1])
            port = looking.sockets[0].getsockname()[1]
            log({"event": "watch", "address": f"http://127.0.0.1:{port}"})
        if places[0].scheme is Scheme.STDIO:
            from lace.transport.stdio import open_stdio

            only = asyncio.create_task(server.accept(await open_stdio()))
            only.add_done_callback(lambda _task: stop.set())
            await stop.wait()
            return
        for place in places:
            tls = certificate if place.scheme is Scheme.WSS else None
            await server.listen(place, tls, origins)
        await stop.wait()
    finally:
        await server.shut_down()


def _policy(
    selectors: tuple[str, ...],
    file: str | None,
    accepted: tuple[str, ...],
    settings: Place | None,
) -> ServePolicy:
    if settings is not None and settings.settings.select is not None and not (selectors or file):
        in_room = "the room " if settings.settings.room is not None else ""
        said = (f"{in_room}{settings.settings.select}",)
        return one_policy(settings.module(None), said, accepted)
    if bool(selectors) == bool(file):
        raise click.UsageError("say what is served: give --select or --policy, one of them")
    if file:
        if accepted:
            raise click.UsageError("a policy file says itself who may write: leave --accept out")
        return load_policy(Path(file))
    modules = [read_selector(text) for text in selectors]
    return one_policy(any_of(*modules), selectors, accepted)


def one_policy(
    module: PolicyModule, said: tuple[str, ...], accepted: tuple[str, ...]
) -> ServePolicy:
    """Return the policy of one selector, with those whom --accept names."""
    if accepted and not takes_from_anyone(module):
        raise click.UsageError("the selector says itself from whom it takes: no --accept")
    who = [text if text == ANYONE else read_verifier(text, "--accept") for text in accepted]
    return selector_policy(module, said=said, accepted=who)


def strangers_may(policy: ServePolicy, *, members_only: bool = False) -> list[str]:
    """Return two lines on what anybody who connects may do.

    ``members_only``: what is served is a room that only its members read.
    """
    reads, writes = policy.for_strangers()
    limits = policy.limits
    most = f"; {limits.peer_mib_per_day} MiB and {limits.peer_records_per_day:,} records a day"
    may_write = f"{', '.join(writes)}{most}" if writes else "nothing"
    may_read = ", ".join(reads) or "nothing"
    if reads and members_only:
        may_read = f"nothing; members read {may_read}"
    elif reads and policy.exposure.modules:
        may_read = f"what the rules that expose {may_read} show them"
    elif policy.exposure.default == "none":
        may_read = "nothing"
    return [f"anyone may read: {may_read}", f"anyone may write: {may_write}"]


def _tell_strangers(
    policy: ServePolicy, places: list[Address], log: _Log, members_only: bool
) -> None:
    """Say in two lines what anybody who connects may do, and what identity is worth here."""
    for line in strangers_may(policy, members_only=members_only):
        log({"event": "strangers", "detail": line})
    if any(place.scheme in {Scheme.TCP, Scheme.WS} for place in places):
        detail = "over tcp and ws, identity holds against strangers, not against who alters traffic"
        log({"event": "identity", "detail": detail})


def _certificate(
    places: list[Address], chain: str | None, key: str | None, dev: str | None
) -> Certificate | None:
    if not any(place.scheme is Scheme.WSS for place in places):
        if chain or key or dev:
            raise click.UsageError("a certificate is for wss, and no address is wss")
        return None
    if dev:
        if chain or key:
            raise click.UsageError("give --dev-cert, or --cert with --cert-key")
        return development_certificate(Path(dev))
    if not (chain and key):
        raise UsageError(
            "wss needs a certificate",
            code=Code.TRANSPORT_TLS,
            hint="Give --cert and --cert-key, or --dev-cert FOLDER while developing.",
        )
    return Certificate(chain=Path(chain), key=Path(key))


def _allow_many_files() -> None:
    """Let the process have as many connections as the system lets it."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class _Log:
    """Writes what happens as one JSON object a line, from a level on."""

    def __init__(self, level: str) -> None:
        self._least = max(LEVELS.index(level), LEVELS.index("warning") if loudness.quiet else 0)

    def __call__(self, entry: dict[str, Any]) -> None:
        level = _LEVEL_OF.get(entry["event"], "info")
        if LEVELS.index(level) < self._least:
            return
        told = entry | {"level": level}
        if "tai" in entry:
            told["date"] = iso_date(entry["tai"])
        loudness.stderr.write(redact(json_line(told)) + "\n")
        loudness.stderr.flush()
