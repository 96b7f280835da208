"""The workbench on this machine: one page, one socket, nothing from outside.

It listens on the loopback interface unless told otherwise. It prints a link with a token behind its
``#``, which no browser sends. The page keeps the token, and shows it where it asks for recordings
and opens its session; the files of the page are the same for everybody. Requests that name another
host are refused, so that a page elsewhere cannot reach in by a name of its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from anyio import create_task_group, to_thread
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from lace.errors import LaceError
from lace.limits import WORKBENCH
from lace.scenario.model import ScenarioError
from lace.text import shown
from lace.workbench.session import Live, Real, Session, name_of, opened, text_of

STATIC: Final = Path(__file__).parent / "static"
PROTOCOL: Final = "lace-workbench"
RECORDINGS: Final = "recordings/"
_BEARER: Final = "Bearer "
SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(slots=True)
class Gate:
    """Decides who may come in."""

    token: str
    hosts: frozenset[str]
    """The values of Host that are answered."""

    def is_here(self, connection: HTTPConnection) -> bool:
        """Whether the connection is meant for here."""
        return connection.headers.get("host", "") in self.hosts

    def may_read(self, request: Request) -> bool:
        """Whether a request shows the token."""
        given = request.headers.get("authorization", "")
        return given.startswith(_BEARER) and self._is_token(given.removeprefix(_BEARER))

    def may_talk(self, socket: WebSocket) -> bool:
        """Whether a socket shows the token: browsers let pages set no header but protocols."""
        match socket.scope.get("subprotocols"):
            case [protocol, token]:
                return bool(protocol == PROTOCOL and self._is_token(token))
        return False

    def is_own_page(self, socket: WebSocket) -> bool:
        """Whether the page that opened the socket is ours."""
        origin = socket.headers.get("origin", "")
        return origin.removeprefix("http://") in self.hosts and origin.startswith("http://")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


@dataclass(slots=True)
class Workbench:
    """The application with its gate."""

    first: str = "notes-room"
    port: int = 0
    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    fragment: str = ""
    """What the link carries behind its #, from a link that somebody sent."""
    links: str = ""
    """Where links lead that others are to open."""
    real: Real | None = None
    """What to begin with, if it is no scenario."""
    live: Live | None = None
    """A server whose exchanges are shown while they happen."""
    _sessions: int = 0

    @property
    def url(self) -> str:
        """The link to open; whoever has it may use the workbench."""
        name = name_of(self.first) if self.real is None else self.real.name
        # Another scenario than the one the page begins with by itself is named from the start.
        begun = "" if name == Session().first else f"s={quote(name, safe='')}"
        fragment = f"&{self.fragment or begun}".rstrip("&")
        return f"http://{self._authority}/#token={self.token}{fragment}"

    @property
    def _authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def gate(self) -> Gate:
        names = {self._authority, f"localhost:{self.port}"}
        return Gate(self.token, frozenset(names))

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._file),
                WebSocketRoute("/session", self._session),
                Route("/{path:path}", self._file),
            ]
        )

    # --- what is answered ---

    async def _file(self, request: Request) -> Response:
        gate = self.gate
        name = str(request.path_params.get("path", "")) or "index.html"
        if not gate.is_here(request) or (
            name.startswith(RECORDINGS) and not gate.may_read(request)
        ):
            message = (
                "Open the link that lace workbench printed: it carries the key to this page.\n"
            )
            return PlainTextResponse(message, status_code=403, headers=SECURITY)
        if not name.isprintable() or len(name) > WORKBENCH.name_characters:  # no file is called so
            return PlainTextResponse("not here\n", status_code=404, headers=SECURITY)
        file = (STATIC / name).resolve()
        if not file.is_relative_to(STATIC) or not file.is_file():
            recorded = name.removeprefix(RECORDINGS).removesuffix(".json")
            if name == f"{RECORDINGS}{recorded}.json":
                content = await to_thread.run_sync(_recording, recorded, self.first, self.real)
                if content is not None:
                    return Response(content, headers=SECURITY, media_type="application/json")
            return PlainTextResponse("not here\n", status_code=404, headers=SECURITY)
        media = _TYPES.get(file.suffix, "application/octet-stream")
        return FileResponse(file, headers=SECURITY, media_type=media)

    async def _session(self, socket: WebSocket) -> None:
        gate = self.gate
        if not (gate.is_here(socket) and gate.may_talk(socket) and gate.is_own_page(socket)):
            await socket.close(code=1008)
            return
        await socket.accept(PROTOCOL)
        if self._sessions >= WORKBENCH.sessions:
            await socket.close(code=1013)
            return
        self._sessions += 1
        try:
            async with create_task_group() as tasks:
                if self.live is not None:
                    tasks.start_soon(_tell, socket, self.live)
                await _converse(socket, Session(self.first, self.links, self.real, self.live))
                tasks.cancel_scope.cancel()
        finally:
            self._sessions -= 1


def _recording(name: str, first: str, real: Real | None) -> str | None:
    """Return what a page shows of a scenario before it has a session; None if there is none."""
    try:
        if real is not None and name == real.name:
            recording = real.recording
        else:
            recording = opened(*text_of(name, first))[1]
    except ScenarioError:  # it is there and cannot be run; the session says what is wrong
        return "null"
    except LaceError:
        return None
    return json.dumps(recording, ensure_ascii=False, separators=(",", ":"))


async def _converse(socket: WebSocket, session: Session) -> None:
    """Hand commands to a session one by one; evaluation happens beside the event loop."""
    try:
        while True:
            text = await socket.receive_text()
            answers = await to_thread.run_sync(_answers, session, text)
            for answer in answers:
                await _send(socket, answer)
    except WebSocketDisconnect:
        pass
    except KeyError:  # bytes where text was due
        await socket.close(code=1003)


async def _send(socket: WebSocket, text: str) -> None:
    """Send a text; raise ``WebSocketDisconnect`` also where another task found that first."""
    if socket.application_state is not WebSocketState.CONNECTED:
        raise WebSocketDisconnect
    await socket.send_text(text)


async def _tell(socket: WebSocket, live: Live) -> None:
    """Tell a page what happens at a server, for as long as it listens."""
    with suppress(WebSocketDisconnect):
        async with aclosing(live.followed()) as following:
            async for told in following:
                await _send(socket, json.dumps(told, ensure_ascii=False, separators=(",", ":")))


def _answers(session: Session, text: str) -> list[str]:
    command: Any = None
    if len(text) <= WORKBENCH.command_bytes:
        try:
            command = json.loads(text)
        except (ValueError, RecursionError):
            command = None
    return [
        json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        for message in session.handle(command)
    ]


def serve(workbench: Workbench, ready: Callable[[Workbench], None]) -> None:
    """Serve until interrupted; ``ready`` hears of it when the port is open."""
    import socket as sockets

    import uvicorn

    family = sockets.AF_INET6 if ":" in workbench.host else sockets.AF_INET
    listener = sockets.socket(family, sockets.SOCK_STREAM)
    listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    try:
        try:
            listener.bind((workbench.host, workbench.port))
        except TypeError:  # what a name that no network has amounts to
            raise OSError(f"{shown(workbench.host)} is no name of a host") from None
        workbench.port = listener.getsockname()[1]
        config = uvicorn.Config(
            workbench.app(), log_level="warning", ws="websockets-sansio",
            ws_max_size=WORKBENCH.command_bytes, access_log=False, lifespan="off",
            timeout_graceful_shutdown=1, server_header=False,
        )  # fmt: skip
        listener.listen()
        ready(workbench)
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
