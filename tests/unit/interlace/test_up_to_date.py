"""What is asked for and what is sent is decided by what is known then, not by what was known before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import forge
import pytest
from exchanges import AUTHORITY, BOB, NOTES, note
from links import EVERYTHING, Meeting, Stores, held, left_over, two_stores
from small_room import room

from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.limits import Limits
from lace.policy.module import module_from_text
from lace.record import Record, build_plex, seal
from lace.recordstore.base import RecordStore

ROOM = room("//g//notes//", authority=AUTHORITY.verifier, revocation_app="ended")
#: Asks for whatever a note links to, whether anyone advertises it or not.
LINKED = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    "SelectAdvertised(T,S) :- Have(P), RecordLink(P,_,_,_,T), Advertised(_,S).\n"
)


def made(app: str, name: str, signer: SigningKey, *extras: tuple[str, str]) -> Record:
    plex = build_plex(group="g", app=app, name=name, tai=f"{1:010d}:{0:09d}", extras=extras)
    return seal(plex, signer, aux=forge.AUX)


GRANT = made("notes/member", "m", AUTHORITY, ("Member", BOB.verifier))
ENDED = made("notes/ended", "m", AUTHORITY, ("Member", BOB.verifier))
MESSAGES = [made("notes/message", f"x{i}", BOB) for i in range(4)]
HASHES = {message.hash for message in MESSAGES}


@pytest.fixture(params=["memory", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    with two_stores(request.param, tmp_path) as pair:
        yield pair


def when(
    side: int, begins: bytes, deed: Callable[[], object]
) -> Callable[[int, m.Incoming], list[m.Incoming]]:
    """Do something once, after a side has said something and before it arrives."""
    done: list[object] = []

    def tamper(index: int, crossing: m.Incoming) -> list[m.Incoming]:
        said = crossing.content if isinstance(crossing, m.PeerFacts) else b""
        if index == side and not done and said.startswith(begins):
            done.append(deed())
        return [crossing]

    return tamper


def sent(meeting: Meeting, side: int) -> set[str]:
    records = [crossing for crossing in meeting.said_by(side) if isinstance(crossing, m.PeerRecord)]
    return {record.raw.split(b"\n", 1)[0].decode()[len("🖧: ") :] for record in records}


def asked(meeting: Meeting, side: int) -> set[str]:
    return {line[len("MayRequest('") : -len("')")] for line in meeting.facts(side, "MayRequest")}


@pytest.mark.req("050-COR-04", "050-XFR-02")
@pytest.mark.parametrize("at_once", [1, 2, 256])
def test_what_was_revoked_after_it_was_asked_for_does_not_leave(
    stores: Stores, at_once: int
) -> None:
    stores[0].save([GRANT, *MESSAGES])
    stores[1].save([GRANT])
    revoked = when(1, b"MayRequest", lambda: stores[0].save([ENDED]))
    parameters = Parameters(serve_at_once=at_once)
    meeting = Meeting(stores, (ROOM, ROOM), tamper=revoked, parameters=parameters).end()
    assert asked(meeting, 1) == HASHES | {ENDED.hash}
    assert sent(meeting, 0) == {ENDED.hash}
    assert held(stores[1]) == {GRANT.hash, ENDED.hash}
    said = meeting.facts(0, "NotAvailable")
    assert sorted(said) == sorted(f"NotAvailable('{hash}')" for hash in HASHES)
    assert set(meeting.results(1)[-1].not_available) == HASHES
    assert left_over(stores, (ROOM, ROOM)) == [(), ()]


@pytest.mark.req("050-COR-04", "050-XFR-02", "050-SND-01")
@pytest.mark.parametrize("phase_bytes", [1, 32 * 1024 * 1024], ids=["deferred", "at once"])
def test_what_was_forgotten_after_it_was_asked_for_does_not_leave(
    stores: Stores, phase_bytes: int
) -> None:
    notes = [note(i) for i in range(6)]
    stores[0].save(notes)
    gone = [record.hash for record in notes[:3]]
    forgotten = when(1, b"MayRequest", lambda: stores[0].forget(gone))
    limits = Limits(transfer_phase_bytes=phase_bytes)
    meeting = Meeting(stores, tamper=forgotten, limits=limits).end()
    assert sent(meeting, 0) == held(stores[0]) == held(stores[1])
    assert set(meeting.results(1)[-1].not_available) <= set(gone)
    assert meeting.believed(1) == held(stores[0])


@pytest.mark.req("050-REQ-01", "050-COR-03")
def test_what_was_revoked_after_it_was_advertised_is_not_asked_for(stores: Stores) -> None:
    stores[0].save([GRANT, *MESSAGES])
    stores[1].save([GRANT])
    revoked = when(0, b"Advertise", lambda: stores[1].save([ENDED]))
    meeting = Meeting(stores, (ROOM, ROOM), tamper=revoked).end()
    assert asked(meeting, 1) == set()
    assert sent(meeting, 0) == set()
    assert held(stores[1]) == {GRANT.hash, ENDED.hash}
    assert stores[0].has(ENDED.hash)


@pytest.mark.req("050-REQ-01")
def test_what_has_come_from_elsewhere_is_not_asked_for(stores: Stores) -> None:
    notes = [note(i) for i in range(6)]
    stores[0].save(notes)
    came = when(0, b"Advertise", lambda: stores[1].save(notes[:4]))
    meeting = Meeting(stores, tamper=came).end()
    assert asked(meeting, 1) == sent(meeting, 0) == {record.hash for record in notes[4:]}
    assert held(stores[1]) == held(stores[0])


@pytest.mark.req("050-REQ-01", "050-COR-08")
@pytest.mark.parametrize("is_there", [True, False])
def test_what_nobody_advertises_is_not_asked_for(stores: Stores, is_there: bool) -> None:
    evidence = note(5, app="evidence")
    citing = note(1, extras=[("+Link", f"evidence {evidence.hash}")])
    stores[0].save([citing, *([evidence] if is_there else [])])
    meeting = Meeting(stores, (EVERYTHING, LINKED), stays=True)
    assert asked(meeting, 1) == ({citing.hash, evidence.hash} if is_there else {citing.hash})
    stores[0].save([evidence])
    meeting.wake()
    assert stores[1].has(evidence.hash)
    meeting.end()


@pytest.mark.req("050-REQ-01", "050-CUR-03", "050-COR-08")
@pytest.mark.parametrize("remembers", [True, False])
def test_what_was_withdrawn_is_not_asked_for(stores: Stores, remembers: bool) -> None:
    """It was wanted when the link was last used, and could not be had then."""
    wanted = [note(i) for i in range(12)]
    stores[0].save(wanted)
    lost: list[RecordStore] = []

    def lose(index: int, crossing: m.Incoming) -> list[m.Incoming]:
        if index == 0 and isinstance(crossing, m.PeerRecord):
            lost.append(stores[1])
            return [m.PeerRecord(crossing.raw[:-1] + b"?")]  # it comes broken, and is rejected
        return [crossing]

    meeting = Meeting(stores, (NOTES, NOTES), remembers=remembers, tamper=lose)
    meeting.end()
    assert len(lost) == 12
    assert held(stores[1]) == set()
    stores[0].forget([record.hash for record in wanted[:6]])
    again = Meeting(stores, (NOTES, NOTES), remembers=remembers).end()
    assert asked(again, 1) == {record.hash for record in wanted[6:]} == held(stores[1])
    assert left_over(stores, (NOTES, NOTES)) == [(), ()]
