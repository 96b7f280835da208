"""A machine at rest, as one value: everything that its future depends on, but for what is said.

Machines that stand alike say the same to peers that say the same, if they are told the same of the
records here. So one of them can take over how another one stands. What is of one connection alone,
such as the key of its sketches and its time, has no part in it: what follows from that is never
taken over (L72).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lace.interlace import messages as m
from lace.interlace.partition import Partitions

if TYPE_CHECKING:
    from lace.interlace.transfer import Tally

_OF_ONE_CONNECTION: Final = frozenset(
    ("AdvertisementSketch", "ListAdvertisementItems", "SketchAdvertisements", "TickReady")
)
_THE_SAME_AS_BYTES: Final = tuple(name.encode() for name in sorted(_OF_ONE_CONNECTION))


@dataclass(frozen=True, slots=True)
class Standing:
    """All that tells machines at rest apart."""

    agreed: bytes
    """A digest of what both sides hold to, and of what this side brought."""
    own: bytes
    """The digest of what this side advertises."""
    peers: bytes
    base: bytes | None
    starts: tuple[int, int]
    advert_bytes: int
    wanted: frozenset[str]
    forgotten: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rest:
    """How one side stands at a fixed point at which nothing is left open."""

    standing: Standing
    own: Partitions
    peers: Partitions
    tally: Tally
    """What the last round has done: for whoever closes now."""


def is_of_one_connection(crossed: m.Input | m.Effect) -> bool:
    """Whether something that was said or heard is a matter of this connection alone."""
    match crossed:
        case m.SendFacts():
            return any(fact[0] in _OF_ONE_CONNECTION for fact in crossed.facts)
        case m.PeerFacts():
            return any(name in crossed.content for name in _THE_SAME_AS_BYTES)
        case m.PeerTuples():
            return any(fact[0] in _OF_ONE_CONNECTION for fact in crossed.facts)
    return False
