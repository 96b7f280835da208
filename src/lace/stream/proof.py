"""Peer proof: a Seal that is good for one set-up of one connection, and is never stored (G8, L20).

It names both nonces, both modules, both hellos and the role of who made it: whoever passes it on
must pass on everything that both sides said until then, and is left with the exchange that they
meant to have. Its audience is the address that was dialled, so that a server cannot pass a client's
proof on to another server. Over TLS it names the certificate that the connecting side saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from lace import b64a
from lace.crypto.keys import SigningKey
from lace.crypto.native import digest
from lace.errors import Code, ProtocolError
from lace.ids import Verifier
from lace.record.build import build_plex, seal
from lace.record.model import Plex, Seal
from lace.record.validate import validate_record
from lace.tai import Tai

GROUP: Final = "lace"
APP: Final = "iltp/peer-proof"
AUDIENCE: Final = "Audience"
CHANNEL: Final = "Channel"
SETUP: Final = "Setup"
SIDE: Final = "Side"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """What both sides of one connection have said until hello, seen from one of them."""

    accepting: bool
    nonce: str
    peer_nonce: str
    addresses: tuple[str, ...]
    """The address that was dialled; on the accepting side, all that it calls its own."""
    module: str = ""
    """The id of the module that this side set up."""
    peer_module: str = ""
    hello: bytes = b""
    """The lines that this side offered in hello, as they were sent."""
    peer_hello: bytes = b""
    channel: str | None = ""
    """What tells the encrypted channel apart; empty if nothing does, None if nobody can see it."""

    def setup(self, *, by_peer: bool) -> str:
        """Return the digest of everything that was said, for a proof of this side or of the peer.

        Both sides compute the same: what the accepting side said stands first.
        """
        sides = [(self.nonce, self.module, self.hello)]
        sides.append((self.peer_nonce, self.peer_module, self.peer_hello))
        if not self.accepting:
            sides.reverse()
        (nonce0, module0, hello0), (nonce1, module1, hello1) = sides
        lines = (
            GROUP + "/" + APP,
            nonce0, nonce1, module0, module1, _text(digest(hello0)), _text(digest(hello1)),
            self.side(by_peer=by_peer),
        )  # fmt: skip
        return _text(digest("".join(f"{line}\n" for line in lines).encode()))

    def side(self, *, by_peer: bool) -> str:
        """Return the operand index of whoever makes a proof (A24)."""
        return "0" if self.accepting != by_peer else "1"


def make_proof(key: SigningKey, meeting: Meeting, now: Tai) -> bytes:
    """Return proof that this side of a meeting holds a key."""
    return seal(unsigned_proof(meeting, now), key).raw


def unsigned_proof(meeting: Meeting, now: Tai) -> Plex:
    """Return what this side of a meeting signs to prove that it holds a key."""
    extras = [(AUDIENCE, address) for address in meeting.addresses]
    if meeting.channel:
        extras.append((CHANNEL, meeting.channel))
    extras.append((SETUP, meeting.setup(by_peer=False)))
    extras.append((SIDE, meeting.side(by_peer=False)))
    return build_plex(
        group=GROUP,
        app=APP,
        name=f"{meeting.peer_nonce}/{meeting.nonce}",
        tai=now,
        extras=extras,
    )


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
    _check_extras(record.extras, meeting)
    return record.signed_by


def _check_extras(extras: Sequence[tuple[str, str]], meeting: Meeting) -> None:
    given: dict[str, list[str]] = {}
    for name, value in extras:
        given.setdefault(name, []).append(value)
    audience = given.pop(AUDIENCE, [])
    channel = given.pop(CHANNEL, [])
    setup = given.pop(SETUP, [])
    side = given.pop(SIDE, [])
    if given:
        _refuse("it has headers that have no place in it")
    if not setup:
        _refuse("it is of an earlier form, which does not name the set-up of a connection")
    if side != [meeting.side(by_peer=True)]:
        _refuse("made by the wrong side")
    if meeting.accepting:
        # The client dialled one address, and this must be one of ours.
        if len(audience) != 1 or audience[0] not in meeting.addresses:
            _refuse("made for another server")
    elif not set(audience) >= set(meeting.addresses):
        _refuse("the server does not call itself by the address that was dialled")
    # A side that cannot see its channel, such as a page in a browser, leaves it out, and has
    # to leave it to the browser that nobody else is at the other end of it.
    if channel and meeting.channel is not None and channel != [meeting.channel]:
        _refuse("made for another encrypted channel: something between the two sides ends TLS")
    if setup != [meeting.setup(by_peer=True)]:
        _refuse("made for another set-up: something between the two sides has changed it")


def _text(value: bytes) -> str:
    return b64a.encode(value)


def _refuse(message: str) -> NoReturn:
    raise ProtocolError(f"the proof of identity is refused: {message}", code=Code.ILTP_PROOF)
