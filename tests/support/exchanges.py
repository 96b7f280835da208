"""Small exchanges for tests: notes, sides with a store, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import forge
from sides import Participant

from lace.answering.memory import read_known
from lace.codes import Code
from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.negotiate import CAPABILITIES
from lace.interlace.partition import STANDARD_PREFIX
from lace.limits import Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record, build_plex
from lace.recordstore import MemoryStore
from lace.recordstore.base import RecordStore
from lace.selectors import selector
from lace.tai import Tai

NOW = Tai("1700000000:000000000")
NOTES = selector("//notes-demo//notes//")
MEMBERS = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').\n"
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'),"
    " Field(P,'Signed-By',_,V), ActiveMember(V).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'),"
    " AdvertisedField(P,S,'App',_,'member').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'),"
    " AdvertisedField(P,S,'App',_,'ding'), AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).\n"
    "ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).\n"
)
AUTHORITY, BOB, EVE = forge.KEY, SigningKey(b"b" * 32), SigningKey(b"e" * 32)


def note(
    number: int,
    app: str = "notes",
    group: str = "notes-demo",
    extras: Sequence[tuple[str, str]] = (),
) -> Record:
    tai = f"{number:010d}:{0:09d}"
    return build_plex(group=group, app=app, name=f"n/{number}", tai=tai, extras=list(extras))


def by_partitions(limits: Limits) -> Limits:
    """Return limits of a side that offers nothing but what every version knows."""
    return replace(limits, **dict.fromkeys(CAPABILITIES, 0))


def participant(
    index: int, records: list[Record], module: PolicyModule = NOTES, **options: object
) -> Participant:
    store = MemoryStore()
    store.save(records)
    limits = by_partitions(options.pop("limits", Limits()))  # type: ignore[arg-type]
    side = Side(index=index, module=module, limits=limits, **options)  # type: ignore[arg-type]
    return Participant(store, side, Exposure(default="selected"), limits)


def stored(side: Participant) -> set[str]:
    return {s.hash for s in side.store.read(0, 10**6)}  # type: ignore[arg-type]


def remembered(store: RecordStore, link: bytes) -> set[str]:
    """Return what a store remembers that the peer of a link advertised."""
    kept = store.link(link)
    if kept is None:
        return set()
    known = read_known(kept, STANDARD_PREFIX)
    found = set() if known is None else set(known.state.peers.records(""))
    kept.close()
    return found


def result(side: Participant) -> m.InterlaceResult:
    (found,) = [event.result for event in side.told if isinstance(event, m.FixedPoint)]
    return found


def aborted(side: Participant) -> Code:
    (found,) = [event for event in side.told if isinstance(event, m.Aborted)]
    assert not any(isinstance(event, m.FixedPoint) for event in side.told)
    return found.code
