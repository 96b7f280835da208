"""Exchanges to look at while they happen: the journals of the latest ones, behind a token.

Off unless it is asked for. It answers on this machine alone, knows no request that changes
anything, and holds so much and no more. It holds records that travelled, and a reader who proves
the token reads them.

``GET /proof/NONCE`` is how both sides prove the token, without sending it. With a proof,
``GET /exchanges`` lists them, ``GET /exchanges/3`` is the journal of one, and ``GET /events`` is a
stream of server-sent events: first all that are held, then each that changes. Nothing is queued for
a slow reader: it hears less often of an exchange, and of its latest state.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lace.drafts import write_file
from lace.driving.journal import Journal
from lace.errors import Code, UsageError
from lace.limits import FIXED
from lace.serving.answering_port import Answer, Flow, answer_at
from lace.serving.watch_proof import NONCE, is_authorized, offer

_QUIET_SECONDS: Final = 15.0  # after so long a reader is told that there is nothing to tell
_PAUSE_SECONDS: Final = 0.1  # what changes within it is told as one change
_LINES: Final = "application/jsonl; charset=utf-8"
_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream; charset=utf-8"
_STREAM: Final = re.compile(rb"GET /events HTTP/1\.[01]\r\n")
_GET: Final = re.compile(rb"GET /exchanges(?:/(\d{1,12}))? HTTP/1\.[01]\r\n")
_PROOF: Final = re.compile(rb"GET /proof/(%s) HTTP/1\.[01]\r\n" % NONCE.encode())


@dataclass(slots=True)
class _Held:
    host: str
    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: bool = False
    cut: bool = False
    version: int = 0

    def summary(self, number: int) -> dict[str, Any]:
        """Return all but the journal itself."""
        steps = max(0, len(self.lines) - 1)
        told = {"number": number, "host": self.host, "steps": steps}
        return told | {"ended": self.ended, "cut": self.cut}


@dataclass(frozen=True, slots=True, eq=False)
class _Watcher:
    loop: asyncio.AbstractEventLoop
    changed: asyncio.Event

    def wake(self) -> None:
        if not self.changed.is_set():
            self.loop.call_soon_threadsafe(self.changed.set)


@dataclass(slots=True)
class Watching:
    """What is held of the latest exchanges."""

    token: str
    run: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    """Another one each time that a server is started: exchanges are counted from 1 again."""
    _held: dict[int, _Held] = field(default_factory=dict)
    _watchers: tuple[_Watcher, ...] = ()
    """Replaced as a whole: journals are written by other threads too."""

    def journal(self, number: int, host: str, also: Journal | None) -> Journal:
        """Return a journal for a connection that is held here, and written elsewhere too."""
        held = self._held[number] = _Held(host)
        while len(self._held) > FIXED.watched_exchanges:
            ended = [one for one, found in self._held.items() if found.ended]
            gone = self._held.pop(next(iter(ended or self._held)))
            gone.cut = True  # it may be under way for long: nothing more of it is held
            gone.lines.clear()
        self._changed(held)

        def take(line: str) -> None:
            if also is not None:
                also.write(line)
            if held.cut:
                return
            content = line.encode()
            held.size += len(content)
            held.cut = held.size > FIXED.watched_bytes
            if not held.cut:
                held.lines.append(content)
            self._changed(held)

        return Journal(take)

    def end(self, number: int) -> None:
        if number in self._held:
            self._held[number].ended = True
            self._changed(self._held[number])

    def _changed(self, held: _Held) -> None:
        held.version += 1
        for watcher in self._watchers:
            watcher.wake()

    def answer(self, request: bytes, address: str) -> tuple[str, str]:
        """Return the status and the text for a request that came to an address."""
        if not is_authorized(self.token, request, self.run, address):
            return "403 Forbidden", "a proof of the token is needed: see /proof\n"
        asked = _GET.match(request)
        if asked is None:
            return "404 Not Found", "see /exchanges and /events\n"
        if asked[1] is None:
            listed = [held.summary(number) for number, held in self._held.items()]
            return "200 OK", json.dumps(listed) + "\n"
        held = self._held.get(int(asked[1]))
        if held is None:
            return "404 Not Found", "that exchange is not held any more\n"
        return "200 OK", b"".join(held.lines).decode()

    async def events(self) -> AsyncGenerator[str, None]:
        """Yield all exchanges that are held, then each that changes or goes, as events."""
        changed = asyncio.Event()
        me = _Watcher(asyncio.get_running_loop(), changed)
        self._watchers = (*self._watchers, me)
        told: dict[int, int] = {}
        try:
            yield _event("server", {"run": self.run})
            while True:
                changed.clear()
                for number, held in list(self._held.items()):
                    if told.get(number) != held.version:
                        told[number] = held.version
                        yield _event("exchange", held.summary(number))
                for number in sorted(told.keys() - self._held.keys()):
                    del told[number]
                    yield _event("gone", {"number": number})
                yield _event("now", {"held": len(told)})
                await asyncio.sleep(_PAUSE_SECONDS)
                while not changed.is_set():
                    try:
                        async with asyncio.timeout(_QUIET_SECONDS):
                            await changed.wait()
                    except TimeoutError:
                        yield ": nothing new\n\n"
        finally:
            self._watchers = tuple(one for one in self._watchers if one is not me)

    async def serve(self, port: int) -> asyncio.Server:
        """Answer on a port of this machine, and of no other."""

        async def respond(request: bytes, address: str) -> Answer | Flow:
            asked = _PROOF.match(request)
            if asked is not None:
                offered = offer(self.token, asked[1].decode(), self.run, address)
                return Answer("200 OK", _JSON, offered, stays=True)
            if _STREAM.match(request) and is_authorized(self.token, request, self.run, address):
                if len(self._watchers) < FIXED.watchers:
                    return Flow(_EVENTS, self.events())
                return Answer("503 Service Unavailable", _LINES, "too many look already\n")
            status, text = self.answer(request, address)
            return Answer(status, _LINES, text)

        return await answer_at(port, respond)


def _event(name: str, content: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


def read_token(path: Path, *, make: bool = False) -> str:
    """Return the token in a file; with ``make`` a new one is put there if there is none."""
    try:
        if make and not path.exists():
            made = secrets.token_urlsafe(24) + "\n"
            with suppress(FileExistsError):  # another server has just made one
                write_file(path, made, overwrite=False, mode=0o600)
        with path.open("rb") as given:
            token = given.read(FIXED.token_characters + 1).strip().decode("ascii", "replace")
    except OSError as error:
        raise UsageError(
            f"cannot read the token in {path}: {error.strerror}", code=Code.INPUT_FILE
        ) from None
    if (
        not FIXED.least_token_characters <= len(token) <= FIXED.token_characters
        or not token.isprintable()
        or " " in token
    ):
        raise UsageError(
            f"{path} holds no token", code=Code.INPUT_FILE,
            hint=f"A token is one word of {FIXED.least_token_characters} to "
            f"{FIXED.token_characters} letters. Remove the file, and lace serve makes a new one.",
        )  # fmt: skip
    return token
