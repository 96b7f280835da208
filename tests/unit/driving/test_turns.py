"""A connection that has much to say is looked at in turns, so that others are not kept waiting."""

from __future__ import annotations

from wires import EVERYTHING, End, ends, hashes, notes, run, store_of

from lace.answering.store import StoreAnswers
from lace.driving.pace import Pace
from lace.interlace import messages as m
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.recordstore import MemoryStore
from lace.stream import items as i
from lace.tai import Tai

PLAN = ExchangePlan(
    label_operands(Party(index=0, module=EVERYTHING), Party(index=1, module=EVERYTHING))
)
NOW = Tai("1700000000:000000000")


def met() -> End:
    """Return a server's end that has taken a preface."""
    here, _ = ends(MemoryStore(), MemoryStore())
    here.take(i.preface("0" * 43))
    return here


def test_what_follows_the_end_is_never_parsed() -> None:
    """A flood behind the first thing that is out of place costs one step."""
    here = met()
    here.take(b"\n" * 200_000)
    assert here.closed
    assert here.inputs == [m.PeerPhaseEnd()]


def test_comments_are_no_steps() -> None:
    here = met()
    here.take(b"#\n" * 200_000)
    assert not here.closed
    assert here.inputs == []


def talk(most: int | None) -> tuple[bytes, int]:
    """Run an exchange with one end that takes turns; return what it says, and how many."""
    left, right = ends(store_of(notes(40)), store_of(notes(40, start=20)))
    turns = 0

    def take(chunk: bytes) -> None:
        nonlocal turns
        turns += 1
        left.connection.receive_data(chunk, NOW, most)
        left.sent += b"".join(left.connection.data_to_send())
        while left.connection.has_work:
            turns += 1
            left.connection.work(NOW, most)
            left.sent += b"".join(left.connection.data_to_send())

    left.take = take  # type: ignore[method-assign]
    run(left, right, size=1 << 16)
    assert hashes(left.store) == hashes(right.store)
    assert len(hashes(left.store)) == 60
    return bytes(left.sent).partition(b"\n\n")[2], turns


def test_turns_change_nothing_in_what_is_said() -> None:
    whole, turns = talk(None)
    assert all(talk(most)[0] == whole for most in (1, 700, 1 << 20))
    assert talk(1)[1] > 2 * turns


def test_an_order_waits_for_the_bytes_before_it() -> None:
    here, there = ends(MemoryStore(), MemoryStore())
    there.take(i.preface("0" * 43))
    here.connection.receive_data(bytes(there.sent), NOW, most=1)
    assert here.connection.has_work
    here.connection.receive_eof(NOW)
    here.take(b"")
    assert isinstance(here.last, m.Aborted)
    assert here.last.result.plan, "the module that came before the end was taken"


def test_who_may_not_wait_leaves_the_end_of_the_answers_to_others() -> None:
    """Closing them may write to the store, and that may wait for somebody else who does."""
    closed: list[bool] = []

    class Noting(StoreAnswers):
        def close(self) -> None:
            closed.append(True)

    here = met().connection
    here._make_answers = lambda side: Noting(MemoryStore(), side.index)
    here.answers.recall(m.Recall(None, PLAN, None))
    here.receive_data(b"\n", NOW, waits=False)
    assert isinstance(here.ended, m.Aborted)
    assert here.needs_records
    assert not closed
    here.data_to_send()
    here.work(NOW)
    assert closed == [True]
    assert not here.has_work


def test_the_pace_follows_what_a_turn_takes() -> None:
    pace = Pace()
    first = pace.bytes
    pace.note(0.0001)
    assert pace.bytes == 2 * first
    for _ in range(50):
        pace.note(0.0)
    most = pace.bytes
    pace.note(0.5)
    assert pace.bytes == most // 2
    for _ in range(50):
        pace.note(0.5)
    assert 0 < pace.bytes < first
    pace.note(0.002)
    kept = pace.bytes
    pace.note(0.003)
    assert pace.bytes == kept
