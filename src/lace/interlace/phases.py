"""The phases of an exchange: one table, one owner of all state about them.

Both sides go through the same phases in lockstep. Each says what it has to say in a phase, ends it,
and waits for the peer's end. What moves a side on is one of the few occasions below. Every move
goes through the table, also the last one, and also the one that begins another epoch.

The table alone cannot say everything. ``Phases`` holds the rest, each with the reason.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lace.codes import Code
from lace.errors import LocalProtocolError, ProtocolError


class Phase(StrEnum):
    SETUP = "setup"
    HELLO = "hello"
    ADVERTISE = "advertise"
    ASK = "ask"
    ANSWER = "answer"
    REQUEST = "request"
    TRANSFER = "transfer"
    IDLE = "idle"
    CLOSED = "closed"


class Occasion(StrEnum):
    """What moves a side from one phase to another."""

    DONE = "both sides have said all"
    ASKED = "something was asked or requested"
    NOTHING = "nothing was asked or requested"
    AGAIN = "nothing was requested, but there is more to advertise"
    WAKE = "there is something new"
    OPERAND = "an operand changed"
    OVER = "over"


class Said(StrEnum):
    """What a peer can say, as far as phases are concerned."""

    MODULE = "a module"
    PROOF = "a proof of identity"
    FACTS = "facts"
    RECORD = "a record"
    END = "the end of a phase"


TRANSITIONS: Final[dict[tuple[Phase, Occasion], Phase]] = {
    (Phase.SETUP, Occasion.DONE): Phase.HELLO,
    (Phase.HELLO, Occasion.DONE): Phase.ADVERTISE,
    (Phase.ADVERTISE, Occasion.DONE): Phase.ASK,
    (Phase.ASK, Occasion.ASKED): Phase.ANSWER,
    (Phase.ASK, Occasion.NOTHING): Phase.REQUEST,
    (Phase.ANSWER, Occasion.DONE): Phase.ASK,
    (Phase.REQUEST, Occasion.ASKED): Phase.TRANSFER,
    (Phase.REQUEST, Occasion.AGAIN): Phase.ADVERTISE,
    (Phase.REQUEST, Occasion.NOTHING): Phase.IDLE,
    (Phase.TRANSFER, Occasion.DONE): Phase.ADVERTISE,
    (Phase.IDLE, Occasion.WAKE): Phase.ADVERTISE,
    (Phase.IDLE, Occasion.OPERAND): Phase.SETUP,
    (Phase.ADVERTISE, Occasion.OPERAND): Phase.SETUP,
    **{(phase, Occasion.OVER): Phase.CLOSED for phase in Phase if phase is not Phase.CLOSED},
}

_ANSWERING: Final = frozenset(
    (
        "Advertised",
        "AdvertisedField",
        "AdvertisementPartition",
        "AdvertisementsDeferred",
        "TickReady",
    )
)

#: What has a place only if both sides offered it.
OFFERED: Final[dict[str, str]] = {
    "AdvertisementTable": "max_advertisements_in_delta",
    "AdvertisementDelta": "max_advertisements_in_delta",
    "SketchAdvertisements": "max_cells_in_sketch",
    "AdvertisementSketch": "max_cells_in_sketch",
    "ListAdvertisementItems": "max_cells_in_sketch",
    "RequestListed": "max_places_listed",
    "AdvertisementsDeferred": "max_deferred_advertisements",
    "ListDeferredAdvertisements": "max_deferred_advertisements",
}
_ADVERTISING: Final = _ANSWERING | {"AdvertisementTable", "AdvertisementDelta"}

#: What has its place in one phase only.
PLACES: Final[dict[Said, Phase]] = {
    Said.MODULE: Phase.SETUP,
    Said.PROOF: Phase.HELLO,
    Said.RECORD: Phase.TRANSFER,
}

#: The facts that have a place in each phase. A tick may ride on any block after hello.
FACTS: Final[dict[Phase, frozenset[str]]] = {
    Phase.SETUP: frozenset(("ExchangeOperand",)),
    Phase.HELLO: frozenset((
        "HelloExchangePlan", "HelloSigner", "HelloTAI", "HelloTickInterval", "HelloRecordFormat",
        "HelloAdvertisedField", "HelloAllAdvertisedFields", "HelloLimit",
    )),
    Phase.ADVERTISE: _ADVERTISING,
    Phase.ASK: frozenset((
        "ListAdvertisementPartition", "NarrowAdvertisementPartition", "TickReady",
        "SketchAdvertisements", "ListAdvertisementItems", "ListDeferredAdvertisements",
    )),
    Phase.ANSWER: _ANSWERING | {"AdvertisementSketch"},
    Phase.REQUEST: frozenset(("MayRequest", "RequestListed", "TickReady")),
    Phase.TRANSFER: frozenset(("NotAvailable", "TickReady")),
}  # fmt: skip


@dataclass(slots=True)
class Phases:
    """Where one side stands in an exchange."""

    phase: Phase = Phase.SETUP
    ended: bool = False
    """This side has said all; the table moves on only when both have."""
    peer_ended: bool = False
    """The peer has said all; whatever it says before this side has, too, is out of place."""
    joined: bool = False
    """The peer has said something in this phase. A peer that begins another epoch does so before it
    says anything in an advertise phase."""
    again: bool = False
    """This side has more to advertise, whatever is requested (L11)."""
    peer_again: bool = False
    """The same of the peer: it says so by a tick with its requests."""
    passing_over: bool = False
    """This side began an epoch, and the peer, which could not know, may have said an advertise
    phase for the loop that it expected; no more, because it waits for ours (L12)."""
    crossing: bool = False
    """This side woke the peer and has heard nothing since: the peer may close at that very moment,
    and that is no broken exchange."""

    @property
    def is_idle(self) -> bool:
        return self.phase is Phase.IDLE

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.CLOSED

    @property
    def is_complete(self) -> bool:
        """Whether both sides have said all."""
        return self.ended and self.peer_ended

    @property
    def may_end_here(self) -> bool:
        """Whether a peer that goes now goes in order."""
        return self.is_idle or self.crossing

    @property
    def needs_peer(self) -> bool:
        """Whether nothing comes of the exchange if the peer says no more than it has said by now.

        It is so while this side has not ended its phase: the peer cannot have gone beyond it. In
        idle nothing is left to come, and what comes in transfer is stored all the same.
        """
        return not self.ended and self.phase not in {Phase.IDLE, Phase.TRANSFER, Phase.CLOSED}

    # --- moves ---

    def move(self, occasion: Occasion, *, own: bool = False) -> Phase:
        """Go to the phase that follows by the table; ``own`` if the peer cannot know of it yet."""
        following = TRANSITIONS.get((self.phase, occasion))
        if following is None:
            raise LocalProtocolError(f"{occasion}, in {self.phase}", code=Code.INTERLACE_DRIVER)
        self.crossing = own and self.may_end_here
        self.passing_over = own and occasion is Occasion.OPERAND
        self.phase = following
        self.ended = self.peer_ended = self.joined = False
        self.again = self.peer_again = False
        return following

    def end(self) -> Phase:
        """Take note that this side has said all; return the phase that it ends."""
        self.ended = True
        return self.phase

    def announce_more(self) -> None:
        """Take note that this side says, with its requests, that it has more to advertise."""
        self.again = True

    @property
    def has_more(self) -> bool:
        """Whether either side has more to advertise."""
        return self.again or self.peer_again

    # --- what the peer says ---

    def occasion_of(self, said: Said) -> Occasion | None:
        """Return the move that something makes by being said, before it has a place."""
        if said is Said.MODULE:
            begins = self.is_idle or (self.phase is Phase.ADVERTISE and not self.joined)
            return Occasion.OPERAND if begins else None
        return Occasion.WAKE if self.is_idle else None

    def take(self, said: Said) -> None:
        """Hold what the peer says to its place; raise if it has none."""
        if self.is_complete:  # the peer may go on, and this side waits for its own driver
            detail = f"{said} of the next phase, and an answer is still due"
            raise LocalProtocolError(detail, code=Code.INTERLACE_DRIVER)
        if self.peer_ended:
            raise _misplaced("more after the end of a phase")
        if PLACES.get(said, self.phase) is not self.phase:
            raise _misplaced(f"{said} out of place")
        self.joined, self.crossing = True, False
        if said is Said.MODULE:
            self.passing_over = False

    def take_end(self) -> bool:
        """Take the peer's end of a phase; return False if it is of one that is passed over."""
        if self.passing_over:
            self.passing_over = False
            return False
        self.peer_ended = True
        return True

    def take_tick(self) -> None:
        """Take note of a tick: beside requests it says that the peer has more to advertise."""
        self.peer_again = True

    def facts_now(self, names: AbstractSet[str]) -> tuple[frozenset[str], bool]:
        """Return the facts that have a place now, and whether they count or are passed over."""
        if self.passing_over and "ExchangeOperand" not in names:
            return _ADVERTISING, False
        self.passing_over = False
        return FACTS.get(self.phase, frozenset()), True

    @property
    def takes_listings(self) -> bool:
        """Whether advertisements have a place now."""
        return self.phase in {Phase.ADVERTISE, Phase.ANSWER}


def _misplaced(detail: str) -> ProtocolError:
    return ProtocolError(detail, code=Code.INTERLACE_PHASE)
