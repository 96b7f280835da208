"""What the engine tells a page: this is the one place where it is written down.

Interfaces of ``lace.d.mts`` are made from the types below by ``make docs``, and what is returned is
of these types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from lace.tai import to_unix_ns

if TYPE_CHECKING:  # a page that meets nobody is ready without it
    from lace import errors
    from lace.interlace import messages as m
    from lace.record.model import Record

_NS_PER_MS = 1_000_000


Status = Literal["accepted", "duplicate", "rejected", "refused", "not-available", "deferred"]


class Outcome(TypedDict):
    """What became of one record."""

    status: Status
    hash: str | None
    code: str | None
    detail: str


class InterlaceResult(TypedDict):
    """What one round of an exchange did; records by their hashes."""

    received: list[str]
    sent: list[str]
    rejected: list[str]
    offered: Annotated[int, "How many records the other side offers, here already or not."]
    peer: Annotated[str | None, "Whom the other side proved to be."]
    loops: Annotated[int, "How many turns of offer, request and transfer it took."]
    fixed_point: Annotated[bool, "Whether nothing was left to exchange at the end."]


class Kept(TypedDict):
    """A record was stored, or was there already."""

    event: Literal["saved", "duplicate"]
    hash: str


class Rejected(TypedDict):
    """A record that came is not valid."""

    event: Literal["rejected"]
    hash: str
    code: str
    detail: str


class FixedPoint(TypedDict):
    """Nothing is left to say, for now."""

    event: Literal["fixed-point"]
    result: InterlaceResult


class Closed(TypedDict):
    """The exchange has ended."""

    event: Literal["closed"]
    reason: str
    result: InterlaceResult


class Aborted(TypedDict):
    """The exchange was broken off."""

    event: Literal["aborted"]
    code: str
    detail: str
    blame: str
    result: InterlaceResult


class Retry(TypedDict):
    """The other side is not there; it is called again after some seconds."""

    event: Literal["retry"]
    seconds: float
    why: str


InterlaceEvent = Kept | Rejected | FixedPoint | Closed | Aborted | Retry
TOLD = (Outcome, InterlaceResult, Kept, Rejected, FixedPoint, Closed, Aborted, Retry)


class Entry(TypedDict):
    """What a record of JavaScript is made of, beside its bytes."""

    hash: str
    type: str
    place: str | None
    tai: str | None
    date: int | None
    author: str | None
    fields: dict[str, str]
    size: int
    data: int


def outcome(found: errors.Outcome[Record]) -> Outcome:
    return {
        "status": found.status.value,
        "hash": found.value.hash if found.value else None,
        "code": str(found.code) if found.code else None,
        "detail": found.detail,
    }


def records(found: Iterable[Record]) -> tuple[list[Entry], bytes]:
    """Return what JavaScript makes records of: what is known of each, and the bytes of all."""
    known = list(found)
    return [_entry(record) for record in known], b"".join(record.raw for record in known)


def _entry(record: Record) -> Entry:
    return {
        "hash": record.hash,
        "type": record.type,
        "place": None if record.place is None else str(record.place),
        "tai": record.time,
        "date": None if record.time is None else to_unix_ns(record.time) // _NS_PER_MS,
        "author": record.author,
        "fields": dict(record.fields),
        "size": len(record.raw),
        "data": len(record.data),
    }


def result(found: m.InterlaceResult) -> InterlaceResult:
    return {
        "received": list(found.received),
        "sent": list(found.sent),
        "rejected": list(found.rejected),
        "offered": found.offered,
        "peer": found.peer,
        "loops": found.loops,
        "fixed_point": found.fixed_point,
    }


def event(happened: m.Event) -> InterlaceEvent:
    """Return an event as the commands write it."""
    from lace.interlace import messages as m  # known by now: an exchange is under way

    match happened:
        case m.RecordSaved():
            return {"event": "saved", "hash": happened.hash}
        case m.RecordDuplicate():
            return {"event": "duplicate", "hash": happened.hash}
        case m.RecordRejected():
            code = str(happened.code)
            return {
                "event": "rejected", "hash": happened.hash, "code": code, "detail": happened.detail,
            }  # fmt: skip
        case m.FixedPoint():
            return {"event": "fixed-point", "result": result(happened.result)}
        case m.Closed():
            told = result(happened.result)
            return {"event": "closed", "reason": happened.reason, "result": told}
        case m.Aborted():
            return {
                "event": "aborted", "code": str(happened.code), "detail": happened.detail,
                "blame": str(happened.blame), "result": result(happened.result),
            }  # fmt: skip
