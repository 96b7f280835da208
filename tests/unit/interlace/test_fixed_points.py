"""A fixed point leaves nothing to do; what a peer says twice counts once, what it asks twice ends."""

from __future__ import annotations

import pytest
from exchanges import note
from links import EVERYTHING, Meeting, held

from lace.codes import Code
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.limits import Limits
from lace.policy.module import module_from_text
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.recordstore import MemoryStore

BY_PARTITIONS = Limits(max_advertisements_in_delta=0)
OPEN = Exposure(default="everything")
#: Offers an "x" before anything was heard, and again as soon as a "t" is here.
WAVERING = module_from_text(
    "Heard('1') :- Advertised(P,S).\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'x'), not Heard('1').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'x'), Have(Q), Field(Q,'App',_,'t').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'t').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)


@pytest.mark.req("050-COR-08", "050-XFR-04")
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("more", [0, 30])
def test_what_was_not_available_is_asked_for_when_it_is_again(stays: bool, more: int) -> None:
    """In between the sender's table is what it was when it was told: nothing else would say it."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(1, app="t")])
    stores[1].save([note(2, app="x"), *map(note, range(100, 100 + more))])
    meeting = Meeting(stores, (EVERYTHING, WAVERING), exposure=OPEN, stays=stays)
    assert meeting.results(0)[-1].not_available == (note(2, app="x").hash,)
    assert held(stores[0]) >= held(stores[1])


@pytest.mark.req("050-XFR-04", "050-LIM-07")
def test_what_is_never_available_ends_in_a_fixed_point_all_the_same() -> None:
    """It is spoken of once more, not in every loop."""

    class Loses(MemoryStore):
        def load(self, hash: RecordHash) -> Record | None:
            return None if hash == note(3).hash else super().load(hash)

    stores = Loses(), MemoryStore()
    stores[0].save([note(i) for i in range(30)])
    meeting = Meeting(stores, remembers=False)
    for side in meeting.pair.sides:
        assert isinstance(side.ended, m.Closed)
        assert side.ended.ending is m.Ending.FIXED_POINT
    assert meeting.results(1)[-1].not_available == (note(3).hash, note(3).hash)
    assert stores[1].count() == 29


@pytest.mark.req("050-BLK-06")
@pytest.mark.parametrize("lines", ["same", "other"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_a_summary_said_twice_is_one_however_it_is_cut(blocks: int, lines: str) -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(30)])

    def twice(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side or not isinstance(crossing, m.PeerFacts):
            return [crossing]
        if not crossing.content.startswith(b"AdvertisementPartition("):
            return [crossing]
        again = crossing.content
        if lines == "other":
            again = again.replace(b",'30',", b",'31',")
        if blocks == 2:
            return [crossing, m.PeerFacts(again)]
        return [m.PeerFacts(crossing.content + again)]

    meeting = Meeting(stores, tamper=twice, remembers=False, limits=BY_PARTITIONS)
    last = meeting.pair.sides[1].told[-1]
    if lines == "same":
        assert isinstance(last, m.Closed), last
        assert stores[1].count() == 30
    else:
        assert isinstance(last, m.Aborted)
        assert last.code is Code.INTERLACE_SUMMARY


@pytest.mark.req("050-BLK-06", "050-LIM-03")
@pytest.mark.parametrize("asked", [("", "A"), ("A", ""), ("AB", "A"), ("A", "ABC")])
def test_nothing_is_listed_twice_in_a_loop(asked: tuple[str, str]) -> None:
    """Else one short question after the other could make a side hold everything many times over."""
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(30)])
    text = "".join(f"ListAdvertisementPartition('{prefix}')\n" for prefix in asked).encode()
    done: list[m.Incoming] = []

    def greedy(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        asks = isinstance(crossing, m.PeerFacts) and b"AdvertisementPartition('" in crossing.content
        if side == 1 and asks and not done:
            done.append(crossing)
            return [m.PeerFacts(text)]
        return [crossing]

    meeting = Meeting(stores, tamper=greedy, remembers=False, limits=BY_PARTITIONS)
    assert done
    last = meeting.pair.sides[0].told[-1]
    assert isinstance(last, m.Aborted)
    assert last.code is Code.INTERLACE_PHASE
