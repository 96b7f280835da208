"""Open exchanges: they stay, wake when there is something new, move in time, change their rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from exchanges import AUTHORITY, BOB, NOTES, NOW, note, remembered, stored
from sides import Pair, Participant

from lace.codes import Code
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.phases import Phase
from lace.limits import Limits
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record import Record
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import RecordStore
from lace.selectors import selector
from lace.tai import NS_PER_SECOND, Tai, add_ns

DUE = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)


SELECTED = Exposure(default="selected")


def later(seconds: float) -> Tai:
    return add_ns(NOW, int(seconds * NS_PER_SECOND))


def joined(
    left: list[Record],
    right: list[Record],
    module: PolicyModule = NOTES,
    *,
    stores: tuple[RecordStore, RecordStore] | None = None,
    exposure: Exposure = SELECTED,
    **options: object,
) -> tuple[Pair, list[tuple[int, m.Incoming]]]:
    """Return an open pair at its first fixed point, and what crosses from now on."""
    crossed: list[tuple[int, m.Incoming]] = []

    def listen(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        crossed.append((side, crossing))
        return [crossing]

    made = []
    for index, records in enumerate((left, right)):
        store = stores[index] if stores else MemoryStore()
        store.save(records)
        side = Side(index=index, module=module, **{"open": True, **options})  # type: ignore[arg-type]
        made.append(Participant(store, side, exposure))
    pair = Pair(made[0], made[1], listen)
    pair.start(NOW)
    pair.run(NOW)
    crossed.clear()
    return pair, crossed


def fixed_points(side: Participant) -> list[m.InterlaceResult]:
    return [event.result for event in side.told if isinstance(event, m.FixedPoint)]


@pytest.mark.req("050-OPN-01", "050-OPN-02", "050-OPN-03", "050-RES-01")
def test_it_stays_and_goes_on_when_something_is_stored() -> None:
    pair, crossed = joined([note(1)], [note(2)])
    assert pair.left.idle
    assert pair.right.idle
    assert stored(pair.left) == stored(pair.right) == {note(1).hash, note(2).hash}
    pair.left.store.save([note(3)])
    pair.wake(NOW)
    assert note(3).hash in stored(pair.right)
    assert pair.right.idle
    assert fixed_points(pair.right)[-1].received == (note(3).hash,)
    pair.right.store.save([note(4)])
    pair.wake(NOW)
    assert note(4).hash in stored(pair.left)
    records = [crossing for _, crossing in crossed if isinstance(crossing, m.PeerRecord)]
    assert len(records) == 2


@pytest.mark.req("050-OPN-02", "040-DIS-01")
def test_what_the_peer_may_not_know_wakes_nobody() -> None:
    pair, crossed = joined([note(1)], [])
    pair.left.store.save([note(2, group="private")])
    pair.wake(NOW)
    assert crossed == []
    assert pair.left.idle


@pytest.mark.req("050-OPN-02")
def test_a_record_stored_while_a_loop_runs_is_not_forgotten() -> None:
    pair, _ = joined([note(1)], [])
    pair.left.store.save([note(2)])
    pair.give(0, m.Woken(), NOW)
    pair.step(NOW)
    pair.left.store.save([note(3)])
    pair.give(0, m.Woken(), NOW)  # in the middle of the loop
    pair.run(NOW)
    assert note(3).hash in stored(pair.right)


@pytest.mark.req("050-OPN-04", "050-BND-01", "050-BND-04")
def test_either_side_may_close() -> None:
    pair, _ = joined([note(1)], [])
    pair.give(0, m.CloseRequested(), NOW)
    pair.give(1, m.PeerGone(orderly=True), NOW)
    for side in pair.sides:
        assert side.closed
        assert isinstance(side.told[-1], m.Closed)
    pair, _ = joined([note(1)], [])
    pair.right.store.save([note(2)])
    pair.give(1, m.Woken(), NOW)  # its loop crosses with the close
    pair.give(1, m.PeerGone(orderly=True), NOW)
    assert isinstance(pair.right.told[-1], m.Closed)
    assert len(fixed_points(pair.right)) == 1


@pytest.mark.req("050-OPN-04", "050-ERR-17")
def test_a_connection_that_breaks_in_a_loop_is_no_fixed_point() -> None:
    pair, _ = joined([note(1)], [])
    pair.left.store.save([note(2)])
    pair.give(0, m.Woken(), NOW)
    pair.step(NOW)
    pair.give(1, m.PeerGone(), NOW)
    event = pair.right.told[-1]
    assert isinstance(event, m.Aborted)
    assert (event.code, event.blame) == (Code.INTERLACE_GONE, m.Blame.LINK)


@pytest.mark.req("050-TIC-01", "050-TIC-02", "050-TIC-03", "050-TIC-07", "050-TIC-09", "050-RTF-06")
def test_time_moves_when_both_sides_have_reached_it() -> None:
    soon = note(1_700_000_015)
    pair, crossed = joined([soon], [], DUE)
    assert soon.hash not in stored(pair.right)
    assert pair.left.timer is not None
    assert pair.left.timer.seconds == 10.0
    pair.give(0, m.TimerFired(), later(20))  # the left clock is at tick 2, the right one is behind
    pair.run(later(5))
    assert soon.hash not in stored(pair.right)
    ticks = [c.content for _, c in crossed if isinstance(c, m.PeerFacts) and b"Tick" in c.content]
    assert ticks == [b"TickReady('1700000020:000000000')\n"]
    pair.give(1, m.TimerFired(), later(21))
    pair.run(later(21))
    assert soon.hash in stored(pair.right)
    assert pair.left.idle


@pytest.mark.req("050-TIC-11", "050-HEL-11")
def test_a_bounded_exchange_stays_at_its_start() -> None:
    pair, crossed = joined([note(1_700_000_015)], [], DUE, open=False)
    assert stored(pair.right) == set()
    assert pair.left.closed
    assert crossed == []


@pytest.mark.req("050-TIC-12", "050-TIC-05", "050-TIC-06")
@pytest.mark.parametrize("tick", ["1699999990:000000000", "1700000011:000000000", "soon"])
def test_a_tick_that_is_no_tick_ends_it(tick: str) -> None:
    pair, _ = joined([], [], DUE)
    pair.give(0, m.PeerFacts(f"TickReady('{tick}')\n".encode()), NOW)
    event = pair.left.told[-1]
    assert isinstance(event, m.Aborted)
    assert event.code is Code.INTERLACE_TICK


@pytest.mark.req("050-EPO-01", "050-EPO-02", "050-EPO-03", "050-SET-04")
def test_a_changed_operand_begins_a_new_epoch() -> None:
    mine = [note(1), note(2, app="tasks"), note(3, group="other")]
    pair, _ = joined(mine, [], selector("//notes-demo//notes//"))
    assert stored(pair.right) == {note(1).hash}
    plans = [fixed_points(side)[-1].plan for side in pair.sides]
    wider = module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).")
    pair.give(1, m.OperandChanged(wider), NOW)
    pair.run(NOW)
    assert stored(pair.right) == {note(1).hash}  # the left side still selects only notes
    assert fixed_points(pair.left)[-1].plan == fixed_points(pair.right)[-1].plan
    assert fixed_points(pair.left)[-1].plan not in plans
    pair.give(0, m.OperandChanged(wider), NOW)
    pair.run(NOW)
    assert stored(pair.right) == {record.hash for record in mine}


@pytest.mark.req("050-EPO-04")
def test_the_same_operand_again_keeps_the_epoch() -> None:
    mine = [note(i) for i in range(40)]
    pair, crossed = joined(mine, [note(50)])
    plan = fixed_points(pair.left)[-1].plan
    pair.give(0, m.OperandChanged(NOTES), NOW)
    pair.run(NOW)
    assert pair.left.idle
    assert pair.right.idle
    last = fixed_points(pair.left)[-1]
    assert (last.plan, last.loops, last.cursor_updated) == (plan, 1, False)
    said = b"".join(c.content for _, c in crossed if isinstance(c, m.PeerFacts))
    assert b"Advertised(" not in said  # everything was known already


@pytest.mark.req("050-EPO-01", "050-SET-01")
@pytest.mark.parametrize("first", [0, 1])
def test_a_changed_operand_may_cross_with_a_loop(first: int) -> None:
    pair, _ = joined([note(1), note(9, app="tasks")], [])
    wider = module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).")
    sides = (0, 1) if first == 0 else (1, 0)
    for index in sides:
        if index == 0:
            pair.give(0, m.OperandChanged(wider), NOW)
        else:
            pair.right.store.save([note(2)])
            pair.give(1, m.Woken(), NOW)
    pair.run(NOW)
    assert pair.left.idle, pair.left.told[-1]
    assert pair.right.idle, pair.right.told[-1]
    assert note(2).hash in stored(pair.left)


@pytest.mark.req("050-EPO-01")
def test_both_operands_may_change_at_once() -> None:
    pair, _ = joined([note(1), note(9, app="tasks")], [])
    wider = module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).")
    pair.give(0, m.OperandChanged(wider), NOW)
    pair.give(1, m.OperandChanged(wider), NOW)
    pair.run(NOW)
    assert pair.left.idle
    assert note(9, app="tasks").hash in stored(pair.right)


@pytest.mark.req("050-DRV-02", "050-COR-08")
@pytest.mark.parametrize("is_open", [True, False])
def test_what_becomes_sendable_by_an_advertisement_is_advertised(is_open: bool) -> None:
    """The left side offers its tasks only to a peer that advertises a note."""
    shy = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
        "SelectHave(P) :- Have(P), Field(P,'App',_,'tasks'), Advertised(Q,S),"
        " AdvertisedField(Q,S,'App',_,'notes').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    task = note(9, app="tasks")
    shown = Exposure(default="everything")
    pair, _ = joined([note(1), task], [note(1)], shy, exposure=shown, open=is_open)
    assert task.hash in stored(pair.right)
    assert fixed_points(pair.right)[-1].loops == 3


@pytest.mark.req("050-CUR-01", "050-CUR-03", "050-SND-02", "050-LNK-01", "050-LNK-03", "050-RES-03")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_cursor_starts_from_what_was_known(kind: str, tmp_path: Path) -> None:
    stores: tuple[RecordStore, RecordStore]
    if kind == "memory":
        stores = MemoryStore(), MemoryStore()
    else:
        stores = SqliteStore(tmp_path / "a"), SqliteStore(tmp_path / "b")
    refused = [note(i, app="notes/draft") for i in range(30)]
    narrow = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    )
    mine = [note(i) for i in range(20)]

    def meet() -> tuple[m.InterlaceResult, int]:
        sizes = [0]

        def count(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
            if isinstance(crossing, m.PeerFacts) and crossing.content.startswith(b"Advertise"):
                sizes[0] += len(crossing.content)
            return [crossing]

        parts = []
        for index, (key, other) in enumerate(((AUTHORITY, BOB), (BOB, AUTHORITY))):
            side = Side(
                index=index, module=narrow, verifier=key.verifier, peer_verifier=other.verifier
            )
            parts.append(Participant(stores[index], side, Exposure(default="everything")))
        pair = Pair(parts[0], parts[1], count)
        pair.start(NOW)
        pair.run(NOW)
        return fixed_points(parts[1])[-1], sizes[0]

    stores[0].save([*mine, *refused])
    first, cost = meet()
    assert first.cursor_updated
    assert first.link is not None
    assert len(first.received) == 20
    again, cheap = meet()
    assert not again.cursor_updated
    assert again.received == ()
    assert cheap < 200 < cost
    assert again.loops == 1
    stores[0].forget([refused[0].hash])
    less, _ = meet()
    assert less.cursor_updated
    assert less.link is not None
    assert refused[0].hash not in remembered(stores[1], less.link)
    for store in stores:
        store.close()


def test_without_two_proofs_there_is_no_link(tmp_path: Path) -> None:
    del tmp_path
    pair, _ = joined([note(1)], [])
    assert fixed_points(pair.left)[-1].link is None
    assert fixed_points(pair.left)[-1].peer is None


@pytest.mark.req("050-HEL-03", "050-HEL-04", "050-ERR-01", "050-RTF-02")
def test_a_peer_may_be_proven_in_hello_and_must_be_the_expected_one() -> None:
    def meet(expected: object) -> tuple[Participant, Participant]:
        parts = [
            Participant(MemoryStore(), Side(index=0, module=NOTES, expected_peer=expected)),  # type: ignore[arg-type]
            Participant(MemoryStore(), Side(index=1, module=NOTES, verifier=BOB.verifier)),
        ]
        pair = Pair(parts[0], parts[1])
        pair.start(NOW)
        while parts[0].machine.phase is not Phase.HELLO:
            pair.step(NOW)
        pair.give(0, m.PeerProven(BOB.verifier), NOW)
        pair.run(NOW)
        return parts[0], parts[1]

    left, _ = meet(BOB.verifier)
    assert fixed_points(left)[-1].peer == BOB.verifier
    left, _ = meet(AUTHORITY.verifier)
    event = left.told[-1]
    assert isinstance(event, m.Aborted)
    assert event.code is Code.INTERLACE_SIGNER


@pytest.mark.req("050-LIM-07", "050-BND-05")
def test_limits_are_those_of_a_round() -> None:
    pair, _ = joined([note(0)], [], limits=Limits(max_loop_iterations=3))
    for number in range(1, 10):
        pair.left.store.save([note(number)])
        pair.wake(NOW)
    assert pair.left.idle
    assert len(stored(pair.right)) == 10


@pytest.mark.req("050-SND-01", "050-STA-06")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_is_forgotten_is_no_longer_advertised(kind: str, tmp_path: Path) -> None:
    stores: tuple[RecordStore, RecordStore]
    if kind == "memory":
        stores = MemoryStore(), MemoryStore()
    else:
        stores = SqliteStore(tmp_path / "a"), SqliteStore(tmp_path / "b")
    pair, _ = joined([note(i) for i in range(12)], [], stores=stores)
    assert pair.right.machine.peer_advertises(note(3).hash)
    stores[0].forget([note(3).hash])
    pair.wake(NOW)
    assert pair.left.idle
    assert pair.right.idle
    assert not pair.right.machine.peer_advertises(note(3).hash)
    assert pair.right.machine.peer_advertises(note(4).hash)
    assert not stores[0].has(note(3).hash)  # nobody brings it back behind one's back
    assert stores[1].has(note(3).hash)
    stores[0].save([note(3)])
    pair.wake(NOW)
    assert pair.right.machine.peer_advertises(note(3).hash)
    for store in stores:
        store.close()
