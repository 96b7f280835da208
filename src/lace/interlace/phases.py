"""The phases of an exchange: one table, and nothing about phases anywhere else.

Rules of this file: both sides go through the same phases in lockstep; each side says what it has to
say in a phase, ends it, and waits for the peer's end. What moves a machine on is one of the few
occasions below; everything that is not in the table is out of place and aborts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


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
    """What both sides' ends of a phase amount to."""

    DONE = "done"
    ASKED = "something was asked"
    NOTHING = "nothing was asked or requested"
    AGAIN = "nothing was requested, but something changed"
    WAKE = "there is something new"
    OPERAND = "an operand changed"
    OVER = "over"


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
    **{(phase, Occasion.OVER): Phase.CLOSED for phase in Phase},
}

#: The facts that have a place in each phase. A tick may ride on any block after hello.
FACTS: Final[dict[Phase, frozenset[str]]] = {
    Phase.SETUP: frozenset(("ExchangeOperand",)),
    Phase.HELLO: frozenset((
        "HelloExchangePlan", "HelloSigner", "HelloTAI", "HelloTickInterval", "HelloRecordFormat",
        "HelloAdvertisedField", "HelloAllAdvertisedFields", "HelloLimit",
    )),
    Phase.ADVERTISE: frozenset((
        "Advertised", "AdvertisedField", "AdvertisementPartition", "TickReady",
    )),
    Phase.ASK: frozenset((
        "ListAdvertisementPartition", "NarrowAdvertisementPartition", "TickReady",
    )),
    Phase.ANSWER: frozenset((
        "Advertised", "AdvertisedField", "AdvertisementPartition", "TickReady",
    )),
    Phase.REQUEST: frozenset(("MayRequest", "TickReady")),
    Phase.TRANSFER: frozenset(("NotAvailable", "TickReady")),
    Phase.IDLE: frozenset(),
    Phase.CLOSED: frozenset(),
}  # fmt: skip


def next_phase(phase: Phase, occasion: Occasion) -> Phase | None:
    """Return the phase that follows, or None if this occasion has no place in the phase."""
    return TRANSITIONS.get((phase, occasion))
