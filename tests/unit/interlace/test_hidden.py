"""A record that a peer may not know of changes no byte that it hears, and no moment at which it does."""

from __future__ import annotations

import pytest
from exchanges import NOTES, note
from links import EVERYTHING, Meeting, later
from small_limits import hold_to

from lace.answering.warm import WarmLinks
from lace.interlace import messages as m
from lace.policy.module import PolicyModule, module_from_text
from lace.recordstore import MemoryStore

SECRET = note(1, app="diary", group="secret")
#: Of this the peer gets to know only what it may look at, whatever it asks.
CURIOUS = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    "SelectHave(P) :- Have(P), Diary().\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), not Diary().\n"
    "Diary() :- Have(P), Field(P,'Group',_,'secret').\n"
)
#: Everything of one group is offered, only notes are taken.
OFFER = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
)
Heard = list[m.Incoming]
WARM = pytest.mark.parametrize("is_warm", [False, True], ids=["from the store", "at hand"])
PEERS = pytest.mark.parametrize("peer", [NOTES, CURIOUS], ids=["notes", "curious"])


def kept(is_warm: bool) -> tuple[WarmLinks, WarmLinks] | None:
    return (WarmLinks(), WarmLinks()) if is_warm else None


@pytest.mark.req("040-DIS-01", "050-STA-06", "050-CUR-01")
@pytest.mark.parametrize("deed", ["save", "forget"])
@pytest.mark.parametrize("public", [0, 3, 8, 9, 20])
@WARM
@PEERS
def test_what_happened_in_secret_between_two_exchanges_is_not_heard_in_the_second(
    deed: str, public: int, is_warm: bool, peer: object
) -> None:
    def heard(*, in_secret: bool) -> Heard:
        stores, warm = (MemoryStore(), MemoryStore()), kept(is_warm)
        stores[1].save([note(i) for i in range(public)])
        if deed == "forget":
            stores[1].save([SECRET])
        modules = peer, NOTES
        Meeting(stores, modules, warm=warm).end()  # type: ignore[arg-type]
        if in_secret and deed == "save":
            stores[1].save([SECRET])
        elif in_secret:
            stores[1].forget([SECRET.hash])
        return Meeting(stores, modules, warm=warm).end().said_by(1)  # type: ignore[arg-type]

    assert heard(in_secret=True) == heard(in_secret=False)


@pytest.mark.req("040-DIS-01", "050-OPN-02")
@pytest.mark.parametrize("seconds", [0, 1, 11, 100])
@WARM
@PEERS
def test_what_happens_in_secret_during_an_exchange_is_heard_neither_then_nor_later(
    seconds: int, is_warm: bool, peer: object
) -> None:
    def heard(*, in_secret: bool) -> tuple[Heard, Heard]:
        stores, warm = (MemoryStore(), MemoryStore()), kept(is_warm)
        stores[1].save([note(i) for i in range(20)])
        modules = peer, NOTES
        Meeting(stores, modules, warm=warm).end()  # type: ignore[arg-type]
        meeting = Meeting(stores, modules, stays=True, warm=warm)  # type: ignore[arg-type]
        before = len(meeting.crossed)
        if in_secret:
            stores[1].save([SECRET])
            meeting.wake([1], later(seconds))
            stores[1].forget([SECRET.hash])
            meeting.wake([1])
        assert len(meeting.crossed) == before
        assert [side.timer for side in meeting.pair.sides] == [None, None]
        stores[1].save([note(99)])
        meeting.wake([1], later(seconds))
        assert stores[0].has(note(99).hash)
        stores[1].forget([note(2).hash])
        meeting.wake([1])
        return meeting.said_by(1), meeting.said_by(0)

    assert heard(in_secret=True) == heard(in_secret=False)


@pytest.mark.req("040-DIS-01", "050-TIC-02")
@pytest.mark.parametrize("seconds", [1, 11])
def test_what_happens_in_secret_makes_no_clock_tick(seconds: int) -> None:
    """A tick is said when its time has come, not when something was stored after that."""
    due = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes'), Field(P,'TAI',_,T), TickTAI(N),"
        " LexCompare(T,'<=',N).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    stores = MemoryStore(), MemoryStore()
    stores[1].save([note(1)])
    meeting = Meeting(stores, (due, due), stays=True)
    before = len(meeting.crossed)
    stores[1].save([SECRET])
    meeting.wake([1], later(seconds))
    assert len(meeting.crossed) == before
    timer = meeting.pair.right.timer
    assert timer is not None
    assert timer.seconds == max(0, 10 - seconds)  # the tick comes when it would have come
    meeting.tick(later(11))
    assert meeting.facts(1, "TickReady") != []


@pytest.mark.req("040-DIS-01", "050-CUR-01")
@WARM
def test_it_is_not_heard_how_much_was_forgotten_in_secret(
    is_warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store knows only so much of what it forgot; what it knows of a link it knows all the same."""
    hold_to(monkeypatch, forgotten=3)
    secrets = [note(i, app="diary", group="secret") for i in range(5)]
    gone = note(7)

    def heard(*, in_secret: bool) -> Heard:
        stores, warm = (MemoryStore(), MemoryStore()), kept(is_warm)
        stores[0].save([*(note(i, app="tasks") for i in range(12)), *(note(i) for i in range(12))])
        stores[1].save(secrets)
        modules = EVERYTHING, OFFER
        Meeting(stores, modules, warm=warm).end()
        stores[1].forget([gone.hash])
        for secret in secrets if in_secret else ():
            stores[1].forget([secret.hash])
        said = Meeting(stores, modules, warm=warm).end().said_by(1)
        assert stores[1].has(gone.hash)  # it had to be listed again
        return said

    assert heard(in_secret=True) == heard(in_secret=False)


@pytest.mark.req("040-DIS-01", "050-EPO-02")
@pytest.mark.parametrize(("first", "then"), [(NOTES, OFFER), (OFFER, NOTES)])
def test_it_is_not_heard_how_much_was_forgotten_in_secret_before_rules_changed(
    first: PolicyModule, then: PolicyModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was forgotten in an exchange is not asked for again, whatever came between."""
    hold_to(monkeypatch, forgotten=3)
    secrets = [note(i, app="diary", group="secret") for i in range(5)]
    gone = note(7)

    def heard(*, in_secret: bool) -> Heard:
        stores = MemoryStore(), MemoryStore()
        stores[0].save([note(i) for i in range(12)])
        stores[1].save(secrets)
        meeting = Meeting(stores, (EVERYTHING, first), stays=True)
        assert stores[1].has(gone.hash)
        stores[1].forget([gone.hash])
        for secret in secrets if in_secret else ():
            stores[1].forget([secret.hash])
        meeting.change(1, then)
        assert not stores[1].has(gone.hash)
        return meeting.said_by(1)

    assert heard(in_secret=True) == heard(in_secret=False)
