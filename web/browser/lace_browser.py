"""What a page's worker calls: JSON and bytes in, JSON and bytes out, the engine in between.

Nothing is raised into JavaScript: an answer has what was asked for, or what is wrong with a code
and what to do.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from typing import Any

import lace_page
import lace_told as told
from pyodide.ffi import to_js

import lace
from lace.api.handles import Lace, Peer, store_of
from lace.crypto.keys import SigningKey, demo_key
from lace.errors import Code, LaceError, StoreError, UsageError
from lace.policy.module import PolicyModule
from lace.record.model import Record
from lace.record.validate import reread
from lace.recordstore.mirror import Change, MirroredStore
from lace.tai import from_unix_ns
from lace.urc import Coordinate, parse_urc

Given = dict[str, Any]
Parts = list[bytes]
Answer = tuple[Any, bytes]
_NS_PER_MS = 1_000_000
_MOST_EVENTS = 10_000

_open: dict[str, Lace] = {}
_streams: dict[int, AsyncIterator[Answer]] = {}
_ends: dict[int, Callable[[], Awaitable[None]]] = {}
_waiting: dict[int, asyncio.Future[Answer]] = {}
_last_stream = 0


async def call(operation: str, text: str, parts: Any) -> Any:
    """Do one of ``_OPERATIONS``; return its JSON and its bytes."""
    try:
        given = json.loads(text)
        found, raw = await _OPERATIONS[operation](given, [part.to_bytes() for part in parts])
        answer = {"value": found}
    except LaceError as error:
        answer, raw = {"error": error.to_dict()}, b""
    except Exception as error:  # noqa: BLE001 (a fault of ours is an answer too)
        detail = f"{type(error).__name__}: {error}"
        hint = "This is a fault of Lace. Report it with what was called."
        answer, raw = {"error": {"code": None, "detail": detail, "hint": hint}}, b""
    return to_js([json.dumps(answer), raw])


# --- opening and closing ---


async def _open_lace(given: Given, _parts: Parts) -> Answer:
    """Open a lace with what the browser kept of it; ``files`` is where an older Lace kept it."""
    name, secret = given["name"], given["secret"]
    key = SigningKey.from_secret_text(secret) if secret else None
    if name not in _open:
        store = MirroredStore(lambda changes: _tell(name, changes))
        kept = lace_page.kept(name)
        store.restore((table, tuple(map(_plain, key)), _plain(value)) for table, key, value in kept)
        if given.get("files"):
            _adopt(store, given["files"])
        _open[name] = Lace(_store=store, key=key)
    verifier = _open[name].verifier
    if key is not None and key.verifier != verifier:
        raise UsageError(
            f"{name} is open already, with {verifier or 'no key'}", code=Code.INPUT_KEY,
            hint="Close it first, then open it with the other secret.",
        )  # fmt: skip
    return {"verifier": verifier}, b""


def _adopt(store: MirroredStore, path: str) -> None:
    """Take the records of a SQLite file, as an older Lace kept them: they were valid then."""
    import sqlite3  # few pages have such a file

    with closing(sqlite3.connect(path)) as old:
        store.save(reread(raw) for (raw,) in old.execute("SELECT raw FROM record ORDER BY id"))


def _tell(name: str, changes: list[Change]) -> None:
    lace_page.changed(name, to_js([[table, list(key), value] for table, key, value in changes]))


def _plain(value: Any) -> Any:
    return value.to_bytes() if hasattr(value, "to_bytes") and not isinstance(value, int) else value


async def _close(given: Given, _parts: Parts) -> Answer:
    opened = _open.pop(given["name"], None)
    if opened is not None:
        opened.close()
    return None, b""


# --- operations ---


async def _store(given: Given, parts: Parts) -> Answer:
    target = _target(given)
    key = target.key
    made = [_record(key, spec, parts) for spec in given["records"]]
    outcomes = await lace.store(target, made)
    return [told.outcome(outcome) for outcome in outcomes], b""


async def _list(given: Given, _parts: Parts) -> Answer:
    return told.records(await lace.list(_target(given), _policy(given["selector"])))


async def _get(given: Given, _parts: Parts) -> Answer:
    found = await lace.get(_target(given), given["address"])
    return told.records([] if found is None else [found])


async def _forget(given: Given, _parts: Parts) -> Answer:
    # A page has no way to let records come back that were forgotten for good.
    policy = _policy(given["selector"])
    return await lace.forget(_lace(given["lace"]), policy, may_return=True), b""


async def _sync(given: Given, _parts: Parts) -> Answer:
    result = await lace.sync(
        _lace(given["lace"]), _other(given["other"]), _policy(given["selector"])
    )
    return told.result(result), b""


async def _open_interlace(given: Given, _parts: Parts) -> Answer:
    events = _Events()
    opened = await lace.open_interlace(
        _lace(given["lace"]), _other(given["other"]), _policy(given["selector"]),
        retry=lambda seconds, why: events.add({"event": "retry", "seconds": seconds, "why": why}),
    )  # fmt: skip
    events.follow(opened)
    return _begin(events, opened.close)


class _Events:
    """The events of an exchange. Of many that nobody takes, the oldest are lost."""

    def __init__(self) -> None:
        self._events: deque[told.InterlaceEvent] = deque(maxlen=_MOST_EVENTS)
        self._changed = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def add(self, event: told.InterlaceEvent) -> None:
        self._events.append(event)
        self._changed.set()

    def follow(self, opened: lace.OpenInterlace) -> None:
        async def listen() -> None:
            async for event in opened:
                self.add(told.event(event))

        self._following = asyncio.ensure_future(listen())
        self._following.add_done_callback(lambda _done: self._changed.set())

    def __aiter__(self) -> AsyncIterator[Answer]:
        return self

    async def __anext__(self) -> Answer:
        while not self._events:
            if self._following is None or self._following.done():
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._events.popleft(), b""


async def _for_each(given: Given, _parts: Parts) -> Answer:
    found = lace.for_each(_lace(given["lace"]), _policy(given["selector"]))
    seen = set(given.get("seen", ()))

    async def records() -> AsyncIterator[Answer]:
        async for record in found:
            if record.hash not in seen:
                yield told.records([record])

    return _begin(records(), found.aclose)


def _begin(stream: AsyncIterator[Answer], end: Callable[[], Awaitable[None]]) -> Answer:
    global _last_stream  # noqa: PLW0603 (one counter for the worker)
    _last_stream += 1
    _streams[_last_stream] = stream
    _ends[_last_stream] = end
    return _last_stream, b""


async def _next(given: Given, _parts: Parts) -> Answer:
    """Wait for what comes next of a stream; nothing when it is over."""
    stream = _streams.get(given["stream"])
    if stream is None:
        return None, b""
    ended = asyncio.ensure_future(anext(stream))
    _waiting[given["stream"]] = ended
    try:
        found, raw = await ended
    except (StopAsyncIteration, asyncio.CancelledError):
        _streams.pop(given["stream"], None)
        _ends.pop(given["stream"], None)
        return None, b""
    finally:
        _waiting.pop(given["stream"], None)
    return {"next": found}, raw


async def _end(given: Given, _parts: Parts) -> Answer:
    number = given["stream"]
    end = _ends.pop(number, None)
    _streams.pop(number, None)
    if (waiting := _waiting.get(number)) is not None:
        waiting.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration):
            await waiting
    if end is not None:
        await end()
    return None, b""


async def _validate(_given: Given, parts: Parts) -> Answer:
    outcome = lace.validate_record(parts[0])
    if outcome.value is None:
        return told.outcome(outcome), b""
    (found,), raw = told.records([outcome.value])
    return told.outcome(outcome) | {"record": found}, raw


async def _address(given: Given, _parts: Parts) -> Answer:
    return str(lace.connect(given["address"], expected=given["expected"]).address), b""


async def _new_secret(_given: Given, _parts: Parts) -> Answer:
    return SigningKey.generate().reveal(), b""


async def _demo_secret(given: Given, _parts: Parts) -> Answer:
    return demo_key(given["words"]).reveal(), b""


async def _verifier(given: Given, _parts: Parts) -> Answer:
    return SigningKey.from_secret_text(given["secret"]).verifier, b""


_OPERATIONS: dict[str, Callable[[Given, Parts], Awaitable[Answer]]] = {
    "open": _open_lace, "close": _close, "store": _store, "list": _list, "get": _get,
    "forget": _forget, "sync": _sync, "open_interlace": _open_interlace, "for_each": _for_each,
    "next": _next, "end": _end, "validate": _validate, "address": _address,
    "new_secret": _new_secret, "demo_secret": _demo_secret, "verifier": _verifier,
}  # fmt: skip


# --- small things ---


def _lace(name: str) -> Lace:
    if name not in _open:
        raise StoreError(
            f"{name} is not open in the tab that does this", code=Code.STORE_CLOSED,
            hint="Open both laces in one tab to interlace them with each other.",
        )  # fmt: skip
    store_of(_open[name])
    return _open[name]


def _other(given: Given) -> Lace | Peer:
    if "lace" in given:
        return _lace(given["lace"])
    secret = given.get("secret")
    key = SigningKey.from_secret_text(secret) if secret else None
    return lace.connect(given["address"], expected=given.get("expected"), key=key)


def _target(given: Given) -> Lace | Peer:
    return _lace(given["lace"]) if "lace" in given else _other(given["peer"])


def _policy(given: Any) -> str | PolicyModule:
    return given if isinstance(given, str) else lace.room(**given["room"])


def _record(key: SigningKey | None, spec: Given, parts: Parts) -> Record | bytes:
    """Return the bytes that were given, or a new record: the same one if asked for twice."""
    if "bytes" in spec:
        return parts[spec["bytes"]]
    place = parse_urc(spec["place"])
    if not isinstance(place, Coordinate):
        message = f"{spec['place']} is not a coordinate: write //group//app//name"
        raise UsageError(message, code=Code.URC_FORM)
    plex = lace.build_plex(
        group=place.group, app=place.app, name=place.name,
        tai=spec.get("tai") or from_unix_ns(round(spec["now"]) * _NS_PER_MS),
        extras=[(name, value) for name, value in spec["fields"]], data=parts[spec["data"]],
    )  # fmt: skip
    return plex if key is None else lace.seal(plex, key, aux=bytes.fromhex(spec["aux"]))
