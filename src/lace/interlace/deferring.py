"""Advertisements that do not fit a block: put off by whoever lists them, asked for again (L67).

What a side lists in a phase may come in parts. The first stands in that phase, with the number of
advertisements that are put off; each other one answers the question for them. The hearer looks at
all parts together, as if they had been said in one phase: nothing else of an exchange knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace.advertise import Advertisement
from lace.interlace.facts import block, decimal
from lace.interlace.listing import Listing
from lace.interlace.phases import Phase

DEFERRED: Final = "AdvertisementsDeferred"
GO_ON: Final[Fact] = ("ListDeferredAdvertisements",)


# --- saying ---


def deferred(count: int) -> Fact:
    """Return the fact that so many advertisements are put off."""
    return DEFERRED, str(count)


def texts_within(adverts: Iterable[Advertisement], room: int) -> list[bytes]:
    """Return the texts of advertisements up to the first one that goes beyond so many bytes."""
    texts: list[bytes] = []
    for advert in adverts:
        texts.append(advert.canonical())
        room -= len(texts[-1])
        if room < 0:
            break
    return texts


def fitting(sizes: Sequence[int], behind: int, room: int) -> int:
    """Return how many advertisements, of these sizes and in this order, fit so many bytes.

    So many more are ``behind`` them. Where anything is left, it also fits to say so. An
    advertisement takes more bytes than that: whatever fits as a whole is never put off.
    """
    if sum(sizes) + _to_say(behind) <= room:
        return len(sizes)
    for number, size in enumerate(sizes):
        if size + _to_say(behind + len(sizes) - number - 1) > room:
            return number
        room -= size
    return len(sizes)


def _to_say(left: int) -> int:
    """Return how many bytes it takes to say that so many are left."""
    return len(block([deferred(left)])) if left else 0


# --- hearing ---


@dataclass(slots=True)
class Deferral:
    """What the peer has said of a phase whose rest it has put off."""

    most: int
    """So many advertisements may be put off at a time, as both sides agreed; 0 for none."""
    began: Phase | None = None
    """The phase that all parts belong to; None if nothing is put off."""
    _left: int = 0
    """So many were put off, as the peer said last."""
    _facts: list[Fact] = field(default_factory=list)
    _listing: Listing = field(default_factory=dict)

    def take(
        self, phase: Phase, facts: list[Fact], listing: Listing
    ) -> tuple[list[Fact], Listing] | None:
        """Take a phase; return it with the parts before, or None if more is due.

        Whatever is put off has to become less: each part but the first lists some, and no part says
        that more is left than follows from that. So parts come to an end, are no more than were
        announced, and cost what they list.
        """
        counts = {fact for fact in facts if fact[0] == DEFERRED}
        told = [fact for fact in facts if fact[0] != DEFERRED]
        came = len(listing) + sum(1 for fact in told if fact[0] == "Advertised")
        if self.began is None:
            self._facts, self._listing = told, listing
        else:
            if came > self._left:
                raise ProtocolError("more than was put off", code=Code.INTERLACE_LISTING)
            if not self._listing.keys().isdisjoint(listing):
                raise ProtocolError("a record listed twice", code=Code.INTERLACE_LISTING)
            self._facts += told
            self._listing |= listing
        if not counts:
            return self._facts, self._listing
        number = decimal(counts.pop()[1])
        if counts or not number:
            raise ProtocolError("a malformed deferral", code=Code.INTERLACE_LISTING)
        if number > self.most:
            limit = "max_deferred_advertisements"
            raise LimitExceeded(limit, configured=self.most, observed=number)
        if self.began is not None and (not came or number > self._left - came):
            raise ProtocolError("as much is put off as before", code=Code.INTERLACE_LISTING)
        self.began, self._left = self.began or phase, number
        return None


def fact_count(listing: Listing) -> int:
    """Return about how many facts a listing has."""
    return sum(2 + len(advert.fields) for advert, _ in listing.values())
