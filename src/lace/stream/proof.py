"""Peer proof: a Seal that is good for one connection to one address, and is never stored (G8, L20).

The name of the Seal joins both nonces, so that it is worth nothing on another connection. Its
audience is the address that was dialled, so that a server cannot pass a client's proof on to
another server. The accepting side says that it is the accepting side, so that its own proof cannot
be turned against it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NoReturn

from lace.crypto.keys import SigningKey
from lace.errors import Code, ProtocolError
from lace.ids import Verifier
from lace.record.build import build_plex, seal
from lace.record.model import Seal
from lace.record.validate import validate_record
from lace.tai import Tai

GROUP: Final = "lace"
APP: Final = "iltp/peer-proof"
AUDIENCE: Final = "Audience"
ACCEPTING: Final = ("Side", "0")  # the operand index of the accepting side (A24)
MOST_ADDRESSES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What both sides of one connection know, seen from one of them."""

    accepting: bool
    nonce: str
    peer_nonce: str
    addresses: tuple[str, ...]
    """The address that was dialled; on the accepting side, all that it calls its own."""


def make_proof(key: SigningKey, meeting: Meeting, now: Tai) -> bytes:
    """Return proof that this side of a meeting holds a key."""
    extras = [(AUDIENCE, address) for address in meeting.addresses]
    if meeting.accepting:
        extras.append(ACCEPTING)
    plex = build_plex(
        group=GROUP,
        app=APP,
        name=f"{meeting.peer_nonce}/{meeting.nonce}",
        tai=now,
        extras=extras,
    )
    return seal(plex, key).raw


def check_proof(raw: bytes, meeting: Meeting) -> Verifier:
    """Return whom the peer of a meeting has proven to be; raise ``ProtocolError`` if nobody."""
    outcome = validate_record(raw)
    record = outcome.value
    if not isinstance(record, Seal):
        _refuse(outcome.detail or "not a Seal")
    if (record.group, record.app) != (GROUP, APP) or record.data_length:
        _refuse("a Seal for another purpose")
    if record.name != f"{meeting.nonce}/{meeting.peer_nonce}":
        _refuse("the nonces are those of another connection")
    _check_audience(record.extras, meeting)
    return record.signed_by


def _check_audience(extras: Collection[tuple[str, str]], meeting: Meeting) -> None:
    audience = {value for name, value in extras if name == AUDIENCE}
    others = [extra for extra in extras if extra[0] != AUDIENCE]
    if others != ([] if meeting.accepting else [ACCEPTING]):
        _refuse("made by the wrong side, or with headers that have no place in it")
    if meeting.accepting:
        # The client dialled one address, and this must be one of ours.
        if len(extras) != 1 or not audience <= set(meeting.addresses):
            _refuse("made for another server")
    elif not audience >= set(meeting.addresses):
        _refuse("the server does not call itself by the address that was dialled")


def _refuse(message: str) -> NoReturn:
    raise ProtocolError(f"the proof of identity is refused: {message}", code=Code.ILTP_PROOF)
