"""A server in an application: others interlace with its lace while it goes on with its own work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from lace.api.events import EventQueue, EventsMissed
from lace.api.handles import Lace, as_lace, store_of
from lace.api.policies import Exposes, Policy, exposure_of, policy_of
from lace.errors import Code, UsageError
from lace.policy.view import Exposure
from lace.recordstore.sqlite import SqliteStore
from lace.serving.grants import Grant, ServePolicy, ServerLimits, selector_policy
from lace.serving.server import Server
from lace.tai import Tai
from lace.transport.address import Scheme, parse_address
from lace.transport.tls import Certificate

__all__ = ["ServerEvent", "Serving", "serve"]


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """Something that happened at a server."""

    event: str
    """What: ``listening``, ``connected``, ``fixed-point``, ``closed`` and others."""
    tai: Tai
    """When it happened."""
    connection: int | None
    """The number of the connection that it is about, if it is about one."""
    told: Mapping[str, Any]
    """What else there is to tell of it, such as ``peer`` and ``received``."""


class Serving:
    """A server that runs for as long as its ``async with`` does; iterate over its events."""

    addresses: tuple[str, ...]
    """Where it can be reached, with the ports that it really has; nowhere before it runs."""

    def __init__(self, server: Server, places: Sequence[_Place], events: _Events) -> None:
        self._server = server
        self._places = places
        self._events = events
        self.addresses = ()

    def __repr__(self) -> str:
        return f"<Serving {', '.join(self.addresses) or 'nowhere yet'}>"

    def __await__(self) -> NoReturn:
        """Say how it is used: a server that nobody ends would go on."""
        raise UsageError(
            "a server is not awaited", code=Code.INPUT_TYPE,
            hint="Write: async with lace.serve(…) as server.",
        )  # fmt: skip

    @property
    def connections(self) -> int:
        """How many peers are connected now."""
        return self._server.connections

    async def next_event(self) -> ServerEvent | EventsMissed | None:
        """Wait for the next event; None when the server has stopped and everything was told."""
        return await self._events.get()

    def __aiter__(self) -> AsyncIterator[ServerEvent | EventsMissed]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[ServerEvent | EventsMissed]:
        while (event := await self.next_event()) is not None:
            yield event

    async def __aenter__(self) -> Self:
        await self._server.start()
        try:
            self.addresses = tuple(
                [
                    await self._server.listen(place.address, place.certificate, place.origins)
                    for place in self._places
                ]
            )
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await self._server.shut_down()
        self._events.end()


def serve(
    local: Lace,
    *addresses: str,
    policy: Policy | None = None,
    expose: Exposes | None = None,
    accept: Sequence[str] = (),
    grants: Sequence[Grant] | None = None,
    limits: ServerLimits | None = None,
    names: Sequence[str] = (),
    certificate: Certificate | None = None,
    origins: Sequence[str] = (),
    trusts_local: bool = False,
    journals: str | Path | None = None,
) -> Serving:
    """Return a server to be used with ``async with``: others interlace with the lace meanwhile.

    An address is ``tcp:host:port``, ``unix:/path``, ``ws:host:port`` or ``wss:host:port``, which
    needs a certificate; port 0 is any that is free. Anyone gets what ``policy`` selects, by default
    the selector of the settings. Rules that name signers or peers, as a room's do, say from whom
    they take. A plain place takes records from anyone: it is served for reading, and ``accept``
    says who may write too, verifiers or ``"anyone"``; a peer with the lace's own key always may.
    Instead of all that, ``grants`` say who may see and store what.
    ``names`` are other addresses that it is dialled by. ``journals`` is a folder in which each
    connection gets a journal of its own. What it stores, and what the application
    stores through the same lace, reaches all who are connected and may have it.
    """
    if not addresses:
        raise UsageError("say where to serve, such as tcp:127.0.0.1:0", code=Code.ADDRESS_MALFORMED)
    if grants is not None and (policy is not None or expose is not None or accept):
        raise UsageError(
            "give grants, or policy, expose and accept, not both", code=Code.SERVE_POLICY
        )
    if isinstance(accept, str):
        raise UsageError(
            "accept is a list of those who may write", code=Code.SERVE_POLICY,
            hint='Write accept=["anyone"], or verifiers.',
        )  # fmt: skip
    if grants is not None and not all(isinstance(one, Grant) for one in _listed(grants)):
        raise UsageError(
            "grants is a list of lace.Grant", code=Code.SERVE_POLICY,
            hint='Write grants=[lace.Grant(who="anyone", see="//group//app//")].',
        )  # fmt: skip
    store = store_of(as_lace(local))
    bounds = limits or ServerLimits()
    if grants is None:
        module, exposure = policy_of(local, policy), exposure_of(local, expose, policy)
        rules = selector_policy(module, exposure, accepted=accept)
    else:
        rules = ServePolicy(grants=tuple(grants), exposure=Exposure(default="selected"))
    rules.limits, rules.engine = bounds, local.limits
    places = [_place(text, certificate, tuple(origins)) for text in addresses]
    events = _Events()
    server = Server(
        store,
        rules,
        key=local.key,
        names=tuple(str(parse_address(name)) for name in names),
        trusts_local=trusts_local,
        log=events.note,
        journals=None if journals is None else journal_folder(Path(journals)),
        # What is in memory belongs to the thread of the application.
        threaded=isinstance(store, SqliteStore),
    )
    return Serving(server, places, events)


def _listed(grants: object) -> list[object]:
    return list(grants) if isinstance(grants, Iterable) else [None]


def journal_folder(path: Path) -> Path:
    """Return a folder for journals, made if it is not there; only its owner reads it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot keep journals in {path}: {error.strerror}", code=Code.INPUT_FILE
        ) from None
    return path


@dataclass(frozen=True, slots=True)
class _Place:
    address: Any
    certificate: Certificate | None
    origins: tuple[str, ...]


def _place(text: str, certificate: Certificate | None, origins: tuple[str, ...]) -> _Place:
    address = parse_address(text)
    if address.scheme is Scheme.STDIO:
        raise UsageError("stdio is for lace serve", code=Code.ADDRESS_MALFORMED)
    is_wss = address.scheme is Scheme.WSS
    if is_wss and certificate is None:
        raise UsageError(
            "wss needs a certificate",
            code=Code.TRANSPORT_TLS,
            hint="Give certificate=lace.Certificate(chain=…, key=…).",
        )
    return _Place(address, certificate if is_wss else None, origins)


class _Events(EventQueue[ServerEvent]):
    """Takes what a server notes."""

    def note(self, entry: dict[str, Any]) -> None:
        told = dict(entry)
        made = ServerEvent(
            told.pop("event"), Tai(told.pop("tai")), told.pop("connection", None), told
        )
        if made.event == "stopped":
            self.put_last(made)
        else:
            self.put(made)
