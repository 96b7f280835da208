"""One connection, sans-IO: bytes become inputs of a machine, and what it sends becomes bytes.

The binding knows of phases only what it must: that the preface comes first, that a proof belongs
into hello and goes no further, that packed lines come after hello, and where a stream may end.
Everything else that comes in a wrong place is the machine's to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from lace.crypto.keys import SigningKey
from lace.errors import Code, ProtocolError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.policy.module import PolicyModule
from lace.stream import items as i
from lace.stream import packing
from lace.stream.proof import Meeting, check_proof, make_proof
from lace.tai import Tai

WORKING: Final = b"# working\n"
"""Says that this side is busy and not gone; may stand between any two items after the preface."""

OFFERED: Final = b"# offered\n"
"""Ends what a side offers in hello, so that the other one's proof can name it; proof follows."""

_SETUP: Final = 0  # set-up is the first phase of a direction, hello the second
_HELLO: Final = 1
_OFFERED: Final = re.compile(rb"^" + re.escape(OFFERED), re.MULTILINE)
_FAREWELL: Final = re.compile(rb"^# closing: ([a-z0-9.-]{1,60})$", re.MULTILINE)
_NOT_STORED: Final = re.compile(rb"^# not stored: ([a-z0-9.-]{1,60})$", re.MULTILINE)
_OFFER: Final = re.compile(rb"^" + re.escape(packing.OFFER), re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What this process knows of a connection before its first byte."""

    accepting: bool
    nonce: str
    """32 fresh random bytes, in B64A."""
    addresses: tuple[str, ...]
    """The address that was dialled; on the accepting side, all that it calls its own."""
    transport: str = ""
    """The address of this connection, as rules see it."""
    encrypted: bool = False
    """Whether this process itself ended the encryption, or trusts the path."""
    key: SigningKey | None = None
    """Proven to the peer if it is given."""
    expected: Verifier | None = None
    """Whom the peer must prove to be."""
    packs: bool = False
    """Whether to offer packed fact lines."""
    channel: str | None = ""
    """What tells the encrypted channel apart; empty if nothing does, None if nobody can see it."""


def farewell(code: Code) -> bytes:
    """Return a last word that tells why; what ends after it did not end in order."""
    return f"# closing: {code}\n".encode()


def not_stored(code: Code) -> bytes:
    """Return a word on why this side stores nothing more of the peer; the exchange goes on."""
    return f"# not stored: {code}\n".encode()


class Binding:
    """Turns what comes into inputs and what goes into bytes; remembers both directions' phases."""

    def __init__(self, endpoint: Endpoint, limits: Limits = DEFAULT_LIMITS) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._reader = i.ItemReader(limits, unpacks=endpoint.packs)
        self._meeting: Meeting | None = None
        self._failed = False
        self._between_phases = False
        self._farewell = ""  # why the peer says it ends
        self._peer_packs = False
        self._hello = bytearray()  # what this side offers
        self._has_offered = False
        self._module = ""
        self._peer_hello = bytearray()
        self._peer_has_offered = False
        self._held_back: list[bytes] | None = None  # what follows the peer's offer
        self.peer_verifier: Verifier | None = None
        self.refusal: str | None = None
        """The code by which the peer said that it stores nothing more of this side."""
        self.phases_sent = 0
        """How many phases this side has ended."""
        self.phases_received = 0
        """How many phases the peer has ended."""

    # --- the beginning ---

    def greeting(self) -> bytes:
        """Return the first bytes to send."""
        return i.preface(self._endpoint.nonce)

    @property
    def has_met(self) -> bool:
        """Whether the peer's preface has come, so that an exchange can begin."""
        return self._meeting is not None

    @property
    def nonces(self) -> tuple[str, str]:
        """The nonces of both prefaces, that of the side that was connected to first."""
        assert self._meeting is not None
        mine, theirs = self._meeting.nonce, self._meeting.peer_nonce
        return (mine, theirs) if self._meeting.accepting else (theirs, mine)

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of their item."""
        return self._reader.held

    @property
    def is_between_phases(self) -> bool:
        """Whether the peer has ended a phase, and said nothing of the next one."""
        return self._between_phases and not self._reader.held

    @property
    def has_remarks(self) -> bool:
        """Whether the peer has said, beside the exchange, what counts for the rest of it."""
        return self.refusal is not None or bool(self._farewell)

    @property
    def packs(self) -> bool:
        """Whether both sides have offered packed lines."""
        return self._endpoint.packs and self._peer_packs

    @property
    def offset(self) -> int:
        """How many bytes of the peer were read as items."""
        return self._reader.offset

    def pass_over(self, heard: bytes, ends: tuple[int, int]) -> None:
        """Take note of whole phases that were heard and said without passing through here."""
        self._reader.pass_over(len(heard))
        self.phases_sent += ends[0]
        self.phases_received += ends[1]

    def side(self, module: PolicyModule, base: Side | None = None) -> Side:
        """Return what this side brings to the machine, with what the connection adds to it.

        The nonces stay out of the labels: the index tells the operands apart, and a plan that has
        the same id on every connection is what cursors are found by (L24).
        """
        endpoint = self._endpoint
        index = 0 if endpoint.accepting else 1
        return replace(
            base or Side(index=index, module=module, limits=self._limits),
            index=index,
            module=module,
            verifier=endpoint.key.verifier if endpoint.key else None,
            expected_peer=endpoint.expected,
            transport=endpoint.transport,
            encrypted=endpoint.encrypted,
        )

    # --- what comes ---

    def receive(self, chunk: bytes) -> list[m.FromPeer]:
        """Return the inputs that a chunk completes; after a failure there are no more."""
        return list(self.inputs(chunk))

    def inputs(self, chunk: bytes) -> Iterator[m.FromPeer]:
        """Yield the inputs that a chunk completes; after a failure there are no more.

        Nothing is read that nobody takes. Whoever goes on with the next chunk has taken all of it.
        """
        if self._failed:
            return
        for item in self._reader.read(chunk):
            given = self._take(item)
            if not isinstance(item, i.Comments):
                self._between_phases = isinstance(item, i.PhaseEnd)
            self._failed = isinstance(given, m.StreamFailed)
            if given is not None:
                yield given
            if self._failed:
                return

    def end(self) -> m.FromPeer:
        """Return what the end of the peer's bytes amounts to (060-TRN-09)."""
        if self._farewell:
            return m.StreamFailed(Code.INTERLACE_GONE, f"the peer gave up: {self._farewell}")
        return m.PeerGone(orderly=self.is_between_phases)

    def _take(self, item: i.Item) -> m.FromPeer | None:
        if isinstance(item, i.Malformed):
            return m.StreamFailed(item.code, f"{item.detail}, at byte {item.offset}")
        if self._meeting is None or isinstance(item, i.Preface):
            return self._meet(item)
        match item:
            case i.RecordBytes():
                if self.phases_received == _HELLO:
                    return self._take_proof(item.raw)
                return m.PeerRecord(item.raw)
            case i.FactLines():
                return self._take_facts(item)
            case i.PhaseEnd():
                self._peer_has_offered |= self.phases_received == _HELLO
                self.phases_received += 1
                return m.PeerPhaseEnd()
            case i.Resource():
                return self._take_resource(item)
            case i.Comments():
                if farewells := _FAREWELL.findall(item.content):
                    self._farewell = farewells[-1].decode()
                if refusals := _NOT_STORED.findall(item.content):
                    self.refusal = refusals[-1].decode()
                return self._take_offered(item.content)

    def _meet(self, item: i.Item) -> m.FromPeer | None:
        nonce = self._endpoint.nonce
        if not isinstance(item, i.Preface) or self._meeting is not None:
            return m.StreamFailed(Code.ILTP_PREFACE, "a stream begins with one preface")
        if item.nonce == nonce:
            # Or else our own proof, sent back, would be proof for the peer.
            return m.StreamFailed(Code.ILTP_PREFACE, "our own nonce came back")
        self._meeting = Meeting(
            accepting=self._endpoint.accepting,
            nonce=nonce,
            peer_nonce=item.nonce,
            addresses=self._endpoint.addresses,
            channel=self._endpoint.channel,
        )
        return None

    def _take_facts(self, item: i.FactLines) -> m.FromPeer:
        content = item.content
        if item.packed and (self.phases_received <= _HELLO or not self._peer_packs):
            detail = "packed lines without an offer in hello before them"
            return m.StreamFailed(Code.ILTP_COMPRESSION, detail)
        if self.phases_received == _HELLO:
            if self._peer_has_offered:  # no proof would speak of it
                return m.StreamFailed(Code.ILTP_ORDER, "a fact after what was offered in hello")
            if len(self._peer_hello) + len(content) > FIXED.hello_bytes:
                return m.StreamFailed(
                    Code.LIMIT_EXCEEDED, f"hello has over {FIXED.hello_bytes} bytes"
                )
            self._peer_hello += content
            self._peer_packs |= bool(_OFFER.search(content))
        return m.PeerFacts(content)

    def _take_offered(self, comments: bytes) -> m.PeerAlive | None:
        """Say that something came if it ends the peer's offer: a proof may have waited for it."""
        if self.phases_received != _HELLO or self._peer_has_offered:
            return None
        self._peer_has_offered = bool(_OFFERED.search(comments))
        return m.PeerAlive() if self._peer_has_offered else None

    def _take_proof(self, raw: bytes) -> m.FromPeer:
        if self.peer_verifier is not None:
            return m.StreamFailed(Code.ILTP_ORDER, "a second proof of identity")
        self._peer_has_offered = True
        if not self._has_offered:
            return m.StreamFailed(Code.ILTP_PROOF, "a proof of identity before this side's hello")
        try:
            self.peer_verifier = check_proof(raw, self._set_up)
        except ProtocolError as error:
            return m.StreamFailed(error.code, error.message)
        return m.PeerProven(self.peer_verifier)

    def _take_resource(self, item: i.Resource) -> m.FromPeer | None:
        if item.id.startswith("R."):
            if self.phases_received == _SETUP:
                self._meeting = replace(self._met, peer_module=item.id)
            return m.PeerModule(item.id, item.content)
        if self.phases_received > _HELLO:
            return m.StreamFailed(Code.ILTP_ORDER, "an exchange plan after hello")
        return None  # both sides compute the plan; being told it changes nothing

    # --- what goes ---

    def send(self, sent: Iterable[m.Outgoing], now: Tai) -> list[bytes]:
        """Return the bytes of what this side says, in pieces that are to be sent in this order."""
        pieces: list[bytes] = []
        for said in sent:
            # What waits for the peer's offer goes before everything that comes after it.
            out = pieces if self._held_back is None else self._held_back
            match said:
                case m.SendRecord():
                    out.append(said.record.raw)
                case m.SendFacts():
                    if self.phases_sent > _HELLO and self.packs:
                        out += packing.pack(said.content)
                    else:
                        out.append(said.content)
                        if self.phases_sent == _HELLO:
                            self._hello += said.content
                case m.SendModule():
                    out.append(i.resource(said.id, said.content))
                    if self.phases_sent == _SETUP:
                        self._module = said.id
                case m.EndPhase():
                    if self.phases_sent == _HELLO:
                        out += self._offer()
                    if self._held_back is not None:
                        out = self._held_back
                    out.append(i.PHASE_END)
                    self.phases_sent += 1
        if self._held_back is not None and self._peer_has_offered:
            assert self._endpoint.key is not None
            proof = make_proof(self._endpoint.key, self._set_up, now)
            pieces += [proof, *self._held_back]
            self._held_back = None
        return pieces

    def _offer(self) -> list[bytes]:
        """Return the end of this side's offer; with a key, its proof waits for the peer's offer."""
        offer = [packing.OFFER] if self._endpoint.packs else []
        self._hello += b"".join(offer)
        self._has_offered = True
        if self._endpoint.key is not None:
            self._held_back = []
            offer.append(OFFERED)
        return offer

    @property
    def _set_up(self) -> Meeting:
        """What both sides have said until now, for a proof to name."""
        return replace(
            self._met,
            module=self._module,
            hello=bytes(self._hello),
            peer_hello=bytes(self._peer_hello),
        )

    @property
    def _met(self) -> Meeting:
        assert self._meeting is not None, "the peer's preface has not come yet"
        return self._meeting
