"""What JavaScript calls: plain values in, plain values out, the same engine in between."""

from __future__ import annotations

import json
from typing import Any

import lace
from lace.api.handles import Lace
from lace.crypto.keys import SigningKey
from lace.errors import Code, LaceError, UsageError
from lace.record.facts import fields
from lace.record.model import Record, Versioned
from lace.recordstore.sqlite import SqliteStore
from lace.scenario.build import demo_key
from lace.urc import Coordinate, parse_urc

_open: dict[str, Lace] = {}


def open_lace(name: str, path: str, secret: str) -> str:
    """Open a lace in a file of the page's own storage, with a key if a secret is given.

    A lace that is open keeps its key: another one is refused, not passed over.
    """
    key = SigningKey.from_secret_text(secret) if secret else None
    if name not in _open:
        # Evaluations run where they are called: a page has no threads to give them to.
        _open[name] = Lace(_store=SqliteStore(path), key=key)
    verifier = _open[name].verifier
    if key is not None and key.verifier != verifier:
        raise UsageError(
            f"{name} is open already, with {verifier or 'no key'}", code=Code.INPUT_KEY,
            hint="Close it first, then open it with the other secret.",
        )  # fmt: skip
    return json.dumps({"verifier": verifier})


def demo_secret(words: str) -> str:
    """Return the secret of a demo key: everybody who knows the words has it."""
    return demo_key(words).reveal()


async def store(name: str, given: str) -> str:
    """Make records at coordinates, sign them if the lace has a key, and store them."""
    local = _open[name]
    outcomes = await lace.store(local, [_record(local, spec) for spec in json.loads(given)])
    return json.dumps(
        [
            {
                "status": str(outcome.status),
                "hash": outcome.value.hash if outcome.value else None,
                "code": str(outcome.code) if outcome.code else None,
                "detail": outcome.detail,
            }
            for outcome in outcomes
        ]
    )


async def list_records(name: str, selector: str) -> str:
    """Return the records that a selector selects."""
    return json.dumps([_plain(record) for record in await lace.list(_open[name], selector)])


async def sync(left: str, right: str, selector: str) -> str:
    """Interlace two laces of this page to their fixed point."""
    result = await lace.sync(_open[left], _open[right], selector)
    return json.dumps({"received": list(result.received), "loops": result.loops})


def validate(raw: bytes) -> str:
    """Say what became of some bytes."""
    outcome = lace.validate_record(bytes(raw))
    code = None if outcome.code is None else str(outcome.code)
    return json.dumps({"status": str(outcome.status), "code": code, "detail": outcome.detail})


def close(name: str) -> None:
    _open.pop(name).close()


def explain(error: BaseException) -> str:
    """Return an error as JavaScript should see it."""
    if isinstance(error, LaceError):
        return json.dumps(error.to_dict())
    return json.dumps({"code": None, "detail": str(error), "hint": ""})


def _record(local: Lace, spec: dict[str, Any]) -> Record:
    place = parse_urc(spec["at"])
    if not isinstance(place, Coordinate):
        message = f"{spec['at']} is not a coordinate: write //group//app//name"
        raise UsageError(message, code=Code.URC_FORM)
    plex = lace.build_plex(
        group=place.group, app=place.app, name=place.name, tai=spec.get("tai") or lace.tai_now(),
        extras=list((spec.get("fields") or {}).items()), data=(spec.get("data") or "").encode(),
    )  # fmt: skip
    return plex if local.key is None else lace.seal(plex, local.key)


def _plain(record: Record) -> dict[str, Any]:
    return {
        "hash": record.hash,
        "type": record.type,
        "at": str(record.coordinate) if isinstance(record, Versioned) else None,
        "fields": {name: value for name, _, value in fields(record)},
        "data": record.data.decode("utf-8", "replace"),
    }
