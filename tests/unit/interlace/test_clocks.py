"""Time that rules look at: it moves for whoever needs it, on both sides, and never back."""

from __future__ import annotations

import pytest
from effort import examples
from exchanges import NOTES, note
from hypothesis import given, settings
from hypothesis import strategies as st
from links import SELECTED, Meeting, held, later

from lace.driving.connection import Timer
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import Limits
from lace.policy.module import Facet, module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.tai import Tai

UNTIL_20 = Exposure((
    module_from_text(
        f"AllowQueryRecord(V,P) :- Have(P), Peer(V), TickTAI(T), LexCompare(T,'<','{later(20)}').",
        Facet.EXPOSE,
    ),
))  # fmt: skip
FROM_20 = Exposure((
    module_from_text(
        f"AllowQueryRecord(V,P) :- Have(P), Peer(V), TickTAI(T), LexCompare('{later(20)}','<=',T).",
        Facet.EXPOSE,
    ),
))  # fmt: skip
#: Everything may be sent until a minute has passed.
FOR_A_MINUTE = module_from_text(
    f"SelectHave(P) :- Have(P), TickTAI(Now), LexCompare(Now,'<','{later(60)}').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)

ANY_CLOCK = Limits(clock_seconds=10**9)


class Clocked:
    """An open exchange in which one side's exposure looks at time, driven by a clock for each."""

    def __init__(self, exposure: Exposure, shows: int, behind: int = 0) -> None:
        self.behind = (0, behind) if shows == 0 else (behind, 0)
        self.stores = MemoryStore(), MemoryStore()
        self.mine, self.theirs = self.stores[shows], self.stores[1 - shows]
        self.mine.save([note(1)])
        shown = (exposure, SELECTED) if shows == 0 else (SELECTED, exposure)
        self.meeting = Meeting(self.stores, exposure=shown, stays=True, runs=False)
        self._seconds = 0
        self._alarms: dict[int, tuple[Timer, float]] = {}
        for index, side in enumerate(self.meeting.pair.sides):
            side.start(self._now(index))
            self.meeting.pair._pass_on(index)
        self._run()

    def advance(self, seconds: int) -> None:
        """Let seconds pass one by one, and timers run out when they have."""
        for _ in range(seconds):
            self._seconds += 1
            for index, side in enumerate(self.meeting.pair.sides):
                timer = side.timer
                if timer is None:
                    continue
                if index not in self._alarms or self._alarms[index][0] != timer:
                    self._alarms[index] = timer, self._seconds - 1 + timer.seconds
                if self._seconds >= self._alarms[index][1]:
                    self.meeting.pair.fire(index, self._now(index))
                    self._run()

    def wake(self) -> None:
        for index in (0, 1):
            self.meeting.pair.tell(index, m.Woken(), self._now(index))
        self._run()

    def _now(self, index: int) -> Tai:
        return later(self._seconds - self.behind[index])

    def _run(self) -> None:
        pair = self.meeting.pair
        while not pair.quiet:
            for index in (0, 1):
                if pair._queues[index]:
                    pair.deliver(index, pair._queues[index].popleft(), self._now(index))


@pytest.mark.req("050-TIC-07", "050-TIC-09", "050-COR-04", "040-MOD-07")
@pytest.mark.parametrize("behind", [0, 3, 15])
@pytest.mark.parametrize("shows", [0, 1])
def test_an_exposure_that_ends_at_a_time_ends_then(shows: int, behind: int) -> None:
    """The peer's rules look at no time; it ticks all the same, because this side does."""
    clocked = Clocked(UNTIL_20, shows, behind)
    meeting = clocked.meeting
    assert clocked.theirs.has(note(1).hash)
    clocked.advance(15)
    assert meeting.believed(1 - shows) == {note(1).hash}
    clocked.advance(35)
    assert meeting.advertised(shows) == meeting.believed(1 - shows) == set()
    clocked.mine.save([note(2)])
    clocked.wake()
    assert meeting.idle
    assert not clocked.theirs.has(note(2).hash)
    plans = {result.plan for side in (0, 1) for result in meeting.results(side)}
    assert len(plans) == 1  # what is shown is no part of the plan


@pytest.mark.req("050-TIC-07", "050-TIC-09")
@pytest.mark.parametrize("behind", [0, 3, 15])
@pytest.mark.parametrize("shows", [0, 1])
def test_an_exposure_that_begins_at_a_time_begins_then(shows: int, behind: int) -> None:
    clocked = Clocked(FROM_20, shows, behind)
    clocked.advance(19)
    assert not clocked.theirs.has(note(1).hash)
    clocked.advance(31)
    assert clocked.theirs.has(note(1).hash)


@pytest.mark.parametrize("ahead", [300, 301, 4 * 10**9])
@pytest.mark.parametrize("shows", [0, 1])
def test_a_peer_does_not_make_the_time(shows: int, ahead: int) -> None:
    """What is kept back until a time is off by the limit of five minutes, and no more."""
    text = f"TickTAI(T), LexCompare('{later(300)}','<=',T)"
    embargo = Exposure((
        module_from_text(f"AllowQueryRecord(V,P) :- Have(P), Peer(V), {text}.", Facet.EXPOSE),
    ))  # fmt: skip
    clocked = Clocked(embargo, shows, behind=-ahead)
    ended = clocked.meeting.pair.sides[shows].ended
    if ahead <= 300:
        assert ended is None
        assert clocked.theirs.has(note(1).hash)
    else:
        assert isinstance(ended, m.Aborted)
        assert (ended.code, ended.blame) == (Code.INTERLACE_CLOCK, m.Blame.REMOTE)
        assert not clocked.theirs.has(note(1).hash)


def test_the_clock_may_be_off_again_after_rules_were_changed_and_no_more() -> None:
    """A second hello is held to the clock as it is, not to what the first one agreed on."""
    clocked = Clocked(FROM_20, 0, behind=-290)
    clocked.behind = 0, -310
    clocked.meeting.pair.tell(1, m.OperandChanged(FOR_A_MINUTE), clocked._now(1))
    clocked._run()
    ended = clocked.meeting.pair.sides[0].ended
    assert isinstance(ended, m.Aborted)
    assert ended.code is Code.INTERLACE_CLOCK


@pytest.mark.req("050-TIC-02", "040-DIS-01")
def test_where_nobody_looks_at_time_nothing_ticks() -> None:
    clocked = Clocked(SELECTED, 0)
    meeting = clocked.meeting
    assert [side.timer for side in meeting.pair.sides] == [None, None]
    clocked.advance(25)
    clocked.mine.save([note(2)])
    clocked.wake()
    assert clocked.theirs.has(note(2).hash)
    assert meeting.facts(0, "TickReady") == meeting.facts(1, "TickReady") == []
    assert set(meeting.ticks(0)) == set(meeting.ticks(1)) == {later(0)}


@pytest.mark.req("050-TIC-08")
@pytest.mark.parametrize("changes", [0, 1])
def test_time_does_not_go_back_with_the_clocks_when_an_operand_changes(changes: int) -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(1)])
    meeting = Meeting(stores, (FOR_A_MINUTE, FOR_A_MINUTE), stays=True)
    meeting.tick(later(30)).tick(later(100))
    assert meeting.advertised(0) == set()  # its time is over
    meeting.now = later(20)  # both clocks were set back
    meeting.change(changes, FOR_A_MINUTE)
    stores[0].save([note(2)])
    meeting.wake()
    assert meeting.idle
    for side in (0, 1):
        assert meeting.ticks(side)[-1] == later(100)
    assert meeting.advertised(0) == set()
    assert held(stores[1]) == {note(1).hash}
    meeting.end()


MOVES = st.one_of(
    st.tuples(st.just("tick"), st.integers(0, 1), st.integers(-50, 300)),
    st.tuples(st.just("change"), st.integers(0, 1), st.integers(-50, 300)),
    st.tuples(st.just("other"), st.integers(0, 1), st.integers(-50, 300)),
    st.tuples(st.just("save"), st.integers(0, 1), st.integers(0, 300)),
)


@pytest.mark.req("050-TIC-08", "050-EPO-01")
@settings(max_examples=examples(60))
@given(moves=st.lists(MOVES, max_size=12))
def test_no_order_of_clocks_ticks_and_changes_makes_time_go_back(
    moves: list[tuple[str, int, int]],
) -> None:
    stores = MemoryStore(), MemoryStore()
    meeting = Meeting(stores, (FOR_A_MINUTE, FOR_A_MINUTE), stays=True, limits=ANY_CLOCK)
    for move, side, number in moves:
        now = later(number)
        match move:
            case "tick":
                meeting.pair.fire(side, now)
            case "change":
                meeting.pair.give(side, m.OperandChanged(FOR_A_MINUTE), now)
            case "other":
                meeting.pair.give(side, m.OperandChanged(NOTES), now)
            case _:
                stores[side].save([note(number)])
                meeting.pair.give(side, m.Woken(), now)
        meeting.pair.run(now)
        assert meeting.idle, [connection.told[-1] for connection in meeting.pair.sides]
    for side in (0, 1):
        assert meeting.ticks(side) == sorted(meeting.ticks(side))
