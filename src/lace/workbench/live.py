"""A server's exchanges while they happen, read from where ``lace serve --watch`` answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from lace.errors import Code, UsageError
from lace.limits import WORKBENCH
from lace.serving.watch_proof import address_of, authorization, new_nonce
from lace.workbench.real import RealLace
from lace.workbench.retold import retold

_LENGTH: Final = re.compile(rb"\ncontent-length: *(\d{1,6})\r\n", re.IGNORECASE)
_NAME: Final = re.compile(r"exchange-(\d{1,12})")
_SECONDS: Final = 10
_QUIET_SECONDS: Final = 40.0
"""Longest that a server that is there says nothing at all, with some to spare."""
_RETRY_SECONDS: Final = (0.5, 1.0, 2.0, 5.0)
_UNPROVEN: Final = "does not prove that it knows the token"

Json = dict[str, Any]


@dataclass(slots=True)
class Live:
    """The exchanges of one server, which first has to prove that it knows the token."""

    address: str
    token: str
    lace: RealLace | None = None
    people: Mapping[str, str] = field(default_factory=dict)

    def listed(self) -> list[Json]:
        """Return the exchanges that are held there, the newest first."""
        try:
            return _listing(json.loads(self._get("exchanges")))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._problem("does not answer as lace serve --watch does") from None

    async def followed(self) -> AsyncGenerator[Json, None]:
        """Yield the exchanges whenever something changes there, and what is wrong when it ends.

        A server that is gone is looked for until it is back. One that was started anew counts its
        exchanges from 1 again: ``run`` is another one then.
        """
        failures = 0
        while True:
            try:
                async with aclosing(self._events()) as events:
                    async for told in events:
                        failures = 0
                        yield {"type": "live", **told, "problem": None}
                raise self._problem("does not answer any more")
            except UsageError as error:
                if failures == 0:
                    problem = {"message": error.message, "hint": error.hint}
                    yield {"type": "live", "run": None, "scenarios": [], "problem": problem}
            await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
            failures += 1

    async def _events(self) -> AsyncGenerator[Json, None]:
        """Yield what one stream of events comes to, each time that it is whole."""
        from urllib.parse import urlsplit  # not needed just to start

        place = urlsplit(self.address)
        held: dict[int, Json] = {}
        run = ""
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_connection(
                    place.hostname, place.port, limit=WORKBENCH.watched_line_bytes
                )
        except (OSError, ValueError):
            raise self._problem("does not answer") from None
        try:
            nonce, address = new_nonce(), address_of(writer.get_extra_info("peername"))
            writer.write(_request(f"proof/{nonce}", place.netloc))
            offered = await _read_offer(reader)
            proven = authorization(self.token, nonce, offered, address)
            if proven is None:
                raise self._problem(_UNPROVEN)
            writer.write(_request("events", place.netloc, f"Authorization: {proven}\r\n"))
            async for name, content in _read_events(reader, self._judge):
                if name == "server":
                    run = str(content["run"])
                elif name == "exchange" and len(held) < WORKBENCH.watched_exchanges:
                    held[int(content["number"])] = content
                elif name == "gone":
                    held.pop(int(content["number"]), None)
                elif name == "now":
                    ordered = [one for _, one in sorted(held.items())]
                    yield {"run": run, "scenarios": _listing(ordered)}
        except OSError:  # a server that says nothing for too long is one that is gone
            return
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._problem("does not answer as lace serve --watch does") from None
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _judge(self, status: bytes) -> None:
        """Say what is wrong with the first line of an answer, if something is."""
        word = status.split(b" ")[1:2]
        if word == [b"403"]:
            raise self._problem(_UNPROVEN)
        if word == [b"503"]:
            raise self._problem("is looked at by too many already")
        if word != [b"200"]:
            raise self._problem("has no stream of events")

    def has(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    def recording(self, name: str) -> Json:
        """Return an exchange as far as it has come."""
        found = _NAME.fullmatch(name)
        if found is None:
            raise self._problem(f"has no {name}")
        text = self._get(f"exchanges/{found[1]}").decode("utf-8", "replace")
        made = retold(text.splitlines(), f"Exchange {found[1]}", self.lace, self.people)
        made["scenario"]["name"] = name
        return made

    def _get(self, what: str) -> bytes:
        from http.client import HTTPConnection, HTTPException  # not needed just to start
        from urllib.parse import urlsplit

        place = urlsplit(self.address)
        line = HTTPConnection(place.hostname or "", place.port, timeout=_SECONDS)
        try:
            line.connect()
            line.auto_open = 0  # a second connection may lead to another program
            nonce, address = new_nonce(), address_of(line.sock.getpeername())
            line.request("GET", f"/proof/{nonce}")
            offered = line.getresponse().read(WORKBENCH.watched_proof_bytes)
            proven = authorization(self.token, nonce, offered, address)
            if proven is None:
                raise self._problem(_UNPROVEN)
            line.request("GET", f"/{what}", headers={"Authorization": proven})
            answer = line.getresponse()
            content = answer.read(WORKBENCH.watched_bytes + 1)
        except (OSError, HTTPException, ValueError):
            raise self._problem("does not answer") from None
        finally:
            line.close()
        if answer.status == 403:
            raise self._problem(_UNPROVEN)
        if answer.status != 200 or len(content) > WORKBENCH.watched_bytes:
            raise self._problem("does not hold that any more")
        return content

    def _problem(self, what: str) -> UsageError:
        return UsageError(
            f"{self.address} {what}", code=Code.TRANSPORT_CONNECT,
            hint="Start lace serve with --watch PORT --watch-token FILE, and give both here.",
        )  # fmt: skip


def _listing(found: Iterable[Json]) -> list[Json]:
    """Return exchanges as a page lists them, the newest first."""
    return [
        {"name": f"exchange-{int(one['number'])}", "title": _title(one)}
        for one in reversed(list(found))
    ]


async def _read_events(
    reader: asyncio.StreamReader, judge: Callable[[bytes], None]
) -> AsyncIterator[tuple[str, Json]]:
    """Yield the name and the content of each event, after the head of the answer was judged."""
    judge(await _line(reader))
    while (await _line(reader)).strip():
        pass  # the rest of the head says nothing of interest
    name = ""
    while line := await _line(reader):
        key, _, value = line.decode().rstrip("\n").partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            yield name, json.loads(value)


def _request(what: str, host: str, more: str = "") -> bytes:
    return f"GET /{what} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


async def _read_offer(reader: asyncio.StreamReader) -> bytes:
    """Return what a server answers to a nonce, and leave what follows it unread."""
    head = b""
    while (line := await _line(reader)).strip():
        head += line
        if len(head) > WORKBENCH.watched_proof_bytes:
            return b""
    found = _LENGTH.search(head)
    if found is None or int(found[1]) > WORKBENCH.watched_proof_bytes:
        return b""
    async with asyncio.timeout(_SECONDS):
        try:
            return await reader.readexactly(int(found[1]))
        except asyncio.IncompleteReadError:
            return b""


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line; nothing where there is none, or only a part of one."""
    async with asyncio.timeout(_QUIET_SECONDS):
        line = await reader.readline()
    return line if line.endswith(b"\n") else b""


def _title(one: Json) -> str:
    steps = "1 step" if one["steps"] == 1 else f"{one['steps']} steps"
    state = "ended" if one["ended"] else "under way"
    return f"Exchange {one['number']} with {one['host']}: {steps}, {state}"
