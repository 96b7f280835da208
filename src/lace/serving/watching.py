"""Exchanges to look at while they happen: the journals of the latest ones, behind a token.

Off unless it is asked for. It answers on this machine alone, knows no request that changes
anything, and holds so much and no more. What it holds are records that travelled; whoever has the
token reads them.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lace.driving.journal import Journal
from lace.errors import Code, UsageError
from lace.limits import FIXED
from lace.serving.answering_port import Answer, answer_at

_GET: Final = re.compile(rb"GET /exchanges(?:/(\d{1,12}))? HTTP/1\.[01]\r\n")
_TOKEN: Final = re.compile(rb"\r\nauthorization: *bearer +(\S+) *\r\n", re.IGNORECASE)


@dataclass(slots=True)
class _Held:
    host: str
    lines: list[str] = field(default_factory=list)
    size: int = 0
    ended: bool = False
    cut: bool = False


@dataclass(slots=True)
class Watching:
    """What is held of the latest exchanges."""

    token: str
    _held: dict[int, _Held] = field(default_factory=dict)

    def journal(self, number: int, host: str, also: Journal | None) -> Journal:
        """Return a journal for a connection that is held here, and written elsewhere too."""
        held = self._held[number] = _Held(host)
        while len(self._held) > FIXED.watched_exchanges:
            ended = [one for one, found in self._held.items() if found.ended]
            gone = self._held.pop(next(iter(ended or self._held)))
            gone.cut = True  # it may be under way for long: nothing more of it is held
            gone.lines.clear()

        def take(line: str) -> None:
            if also is not None:
                also.write(line)
            held.size += len(line)
            held.cut = held.cut or held.size > FIXED.watched_bytes
            if not held.cut:
                held.lines.append(line)

        return Journal(take)

    def end(self, number: int) -> None:
        if number in self._held:
            self._held[number].ended = True

    def answer(self, request: bytes) -> tuple[str, str]:
        """Return the status and the text for a request; without the token that is all."""
        found = _TOKEN.search(request)
        if found is None or not hmac.compare_digest(found[1], self.token.encode()):
            return "403 Forbidden", "the token is needed\n"
        asked = _GET.match(request)
        if asked is None:
            return "404 Not Found", "see /exchanges\n"
        if asked[1] is None:
            listed = [
                {"number": number, "host": held.host, "steps": max(0, len(held.lines) - 1),
                 "ended": held.ended, "cut": held.cut}
                for number, held in list(self._held.items())
            ]  # fmt: skip
            return "200 OK", json.dumps(listed) + "\n"
        held = self._held.get(int(asked[1]))
        if held is None:
            return "404 Not Found", "that exchange is not held any more\n"
        return "200 OK", "".join(held.lines)

    async def serve(self, port: int) -> asyncio.Server:
        """Answer on a port of this machine, and of no other."""

        async def respond(request: bytes) -> Answer:
            status, text = self.answer(request)
            return Answer(status, "application/jsonl; charset=utf-8", text)

        return await answer_at(port, respond)


def read_token(path: Path, *, make: bool = False) -> str:
    """Return the token in a file; with ``make`` a new one is put there if there is none."""
    try:
        if make and not path.exists():
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(secrets.token_urlsafe(24) + "\n")
        with path.open("rb") as given:
            token = given.read(FIXED.token_characters + 1).strip().decode("ascii", "replace")
    except OSError as error:
        raise UsageError(
            f"cannot read the token in {path}: {error.strerror}", code=Code.INPUT_FILE
        ) from None
    if (
        not FIXED.least_token_characters <= len(token) < FIXED.token_characters
        or not token.isprintable()
        or " " in token
    ):
        raise UsageError(
            f"{path} holds no token", code=Code.INPUT_FILE,
            hint=f"A token is one word of {FIXED.least_token_characters} to "
            f"{FIXED.token_characters} letters. Remove the file, and lace serve makes a new one.",
        )  # fmt: skip
    return token
