"""Blame by entrance: what a peer does wrong is never ours, and what we do wrong is never the peer's.

``test_phases.py`` holds each single input to its outcome; here whole exchanges run on afterwards.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from effort import examples
from exchanges import AUTHORITY, BOB, NOTES, NOW, note, stored
from sides import Pair, Participant
from situations import (
    FEW,
    FEW_MORE,
    MANY,
    MANY_MORE,
    SMALL,
    WIDER,
    Half,
    frozen,
    meeting,
    stories,
)

from lace.answering.store import StoreAnswers
from lace.codes import Code
from lace.errors import LaceError, LimitExceeded, LocalProtocolError, Outcome, Status, StoreError
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement
from lace.interlace.machine import InterlaceMachine, Side
from lace.policy.foreign import Job
from lace.policy.origin import SourceLabel
from lace.policy.view import Exposure
from lace.record import Record
from lace.recordstore import MemoryStore
from lace.recordstore.base import StoreRecordId
from lace.recordstore.sqlite import SqliteStore

# --- the peer's entrance ---

Lie = Callable[[m.Incoming, random.Random], list[m.Incoming]]


def garbled(said: m.Incoming, chance: random.Random) -> list[m.Incoming]:
    """Turn one byte into another."""

    def change(content: bytes) -> bytes:
        made = bytearray(content)
        if made:
            made[chance.randrange(len(made))] = chance.randrange(256)
        return bytes(made)

    match said:
        case m.PeerModule():
            return [m.PeerModule(said.id, change(said.content))]
        case m.PeerFacts():
            return [m.PeerFacts(change(said.content))]
        case m.PeerRecord():
            return [m.PeerRecord(change(said.raw))]
        case _:
            return []


def less(said: m.Incoming, chance: random.Random) -> list[m.Incoming]:
    """Leave out a line, or all of it."""
    if isinstance(said, m.PeerFacts) and b"\n" in said.content[:-1]:
        lines = said.content.splitlines(keepends=True)
        del lines[chance.randrange(len(lines))]
        return [m.PeerFacts(b"".join(lines))]
    return []


def more(said: m.Incoming, chance: random.Random) -> list[m.Incoming]:
    """Say something else besides."""
    hash = chance.choice([*MANY, *MANY_MORE, note(99)]).hash
    root = "0" * 43
    added: list[m.Incoming] = [
        said,
        m.PeerPhaseEnd(),
        m.PeerModule(WIDER.id, WIDER.text.encode()),
        m.PeerModule("R.other", WIDER.text.encode()),
        m.PeerRecord(note(99).raw),
        m.PeerRecord(chance.choice(MANY_MORE).raw),
        m.PeerFacts(b""),
        m.PeerFacts(b"nonsense"),
        m.PeerFacts(f"Advertised('{hash}','x')\n".encode()),
        m.PeerFacts(f"MayRequest('{hash}')\n".encode()),
        m.PeerFacts(f"NotAvailable('{hash}')\n".encode()),
        m.PeerFacts(f"AdvertisementPartition('','{chance.randrange(9)}','{root}')\n".encode()),
        m.PeerFacts(b"NarrowAdvertisementPartition('')\n"),
        m.PeerFacts(b"ListAdvertisementPartition('!')\n"),
        m.PeerFacts(b"TickReady('1800000000:000000000')\n"),
        m.PeerFacts(b"HelloLimit('max_loop_iterations','0')\n"),
        m.PeerFacts(b"HelloLimit('max_partition_summaries','0')\n"),
        m.PeerTuples((("Advertised",),)),
        m.PeerTuples((("MayRequest", "\ud800"),)),
    ]
    return [said, chance.choice(added)]


def twice(said: m.Incoming, _chance: random.Random) -> list[m.Incoming]:
    return [said, said]


@pytest.mark.req("050-ERR-05", "050-ERR-14", "050-ERR-17")
@pytest.mark.parametrize("lie", [garbled, less, more, twice])
@pytest.mark.parametrize("seed", range(examples(40)))
def test_whatever_a_peer_says_is_its_own_fault(lie: Lie, seed: int) -> None:
    """One lie at any moment of an exchange; nothing is raised, and nothing is blamed on this side."""
    chance = random.Random(seed)
    records = chance.choice([(MANY, MANY_MORE), (FEW, FEW_MORE)])
    met = meeting(seed % 2, is_open=False, mine=records[0], theirs=records[1])
    met.start()
    lies_at = chance.randrange(60)
    for number in range(200):
        met.serve_other()
        if met.mine.due:
            met.mine.answer()
        elif met.other.said:
            said = met.other.said.popleft()
            for given in lie(said, chance) if number >= lies_at else [said]:
                met.mine.give(given)
                while met.mine.due:
                    met.mine.answer()
            lies_at = 1000 if number >= lies_at else lies_at
        else:
            break
    if not met.mine.machine._phases.is_over:
        met.mine.give(m.PeerGone())
    (*_, ended) = met.mine.events
    assert isinstance(ended, m.Closed | m.Aborted)
    if isinstance(ended, m.Aborted):
        assert ended.blame is not m.Blame.LOCAL, ended
        assert ended.code is not Code.INTERLACE_DRIVER
    kept = {each.hash for each in met.mine.store.read(StoreRecordId(0), 100)}
    assert {record.hash for record in records[0]} <= kept
    assert kept <= {record.hash for record in [*MANY, *MANY_MORE, *FEW, *FEW_MORE]}


# --- the driver's entrance ---

WRONG: list[m.Input] = [
    m.Started(),
    m.Evaluated(),
    m.Recalled(),
    m.Described((Advertisement(note(99).hash, SourceLabel("x")),)),
    m.Served(()),
    m.Served((note(99),)),
    m.Saved(((note(99).hash, Outcome(Status.ACCEPTED)),)),
    m.EvaluationFailed(Code.LIMIT_EXCEEDED, "too much"),
    m.StoreFailed(Code.STORE_FAILED, "no disk"),
]


@pytest.mark.parametrize(("index", "is_open"), [(0, False), (1, True)])
def test_what_a_driver_does_wrong_changes_nothing(index: int, is_open: bool) -> None:
    """At every moment everything wrong is tried; the exchange says what it would have said."""
    tried = 0
    for half in stories(index, is_open=is_open):
        machine = InterlaceMachine(half.side)
        for given, effects in zip(half.given, half.effects, strict=True):
            for wrong in WRONG if machine._ending is None else ():
                if is_wrong(machine, wrong):
                    before = frozen(machine)
                    with pytest.raises(LocalProtocolError):
                        machine.receive(wrong, NOW)
                    assert frozen(machine) == before
                    tried += 1
            assert frozen(machine.receive(given, NOW)) == frozen(effects)
        assert any(isinstance(event, m.FixedPoint) for event in half.events) or has_closed(half)
    assert tried > 1000


def is_wrong(machine: InterlaceMachine, given: m.Input) -> bool:
    if isinstance(given, m.Started):
        return machine._started
    return not machine._awaiting or not m.fits(machine._awaiting[0], given)


def has_closed(half: Half) -> bool:
    return any(isinstance(e, m.Closed) and e.ending is m.Ending.ASKED for e in half.events)


def test_what_the_peer_says_next_waits_for_the_answer() -> None:
    """A driver that hands it over too early is told so; it answers, hands it over, and goes on."""
    met = meeting(0, is_open=False, mine=MANY, theirs=MANY_MORE)
    met.start()
    assert met.run(lambda now: (now.where, now.due) == ("transfer ended ended", "Save"))
    met.serve_other()
    following = met.other.said[0]  # it has heard our end, and has gone on
    with pytest.raises(LocalProtocolError):
        met.mine.give(following)
    met.run()
    assert isinstance(met.mine.events[-1], m.Closed)
    assert met.mine.store.count() == met.other.store.count() == 9


# --- a store or a policy that fails ---


class Failing(StoreAnswers):
    """Answers of which one kind fails from some time on."""

    failing = ""
    error: LaceError = StoreError("no disk", code=Code.STORE_FAILED)
    left = 0

    def _count(self, name: str) -> None:
        if name == self.failing:
            self.left -= 1
            if self.left < 0:
                raise self.error

    def recall(self, asked: m.Recall) -> m.Recalled:
        self._count("recall")
        return super().recall(asked)

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        self._count("evaluate")
        for part in super().evaluate(asked):
            self._count("evaluate in part")
            yield part

    def describe(self, asked: m.Describe) -> m.Described:
        self._count("describe")
        return super().describe(asked)

    def serve(self, asked: m.Serve) -> m.Served:
        self._count("serve")
        return super().serve(asked)

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        self._count("save")
        return super().save(records)

    def _keep(self, link: bytes, state: m.LinkState) -> None:
        self._count("remember")
        super()._keep(link, state)


ERRORS: list[LaceError] = [
    StoreError("no disk", code=Code.STORE_FAILED),
    LimitExceeded("work", configured=1, observed=2),
]


@pytest.mark.req("050-EVL-03", "050-ERR-17")
@pytest.mark.parametrize("error", ERRORS, ids=["store", "policy"])
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize(
    "failing", ["recall", "evaluate", "evaluate in part", "describe", "serve", "save"]
)
@pytest.mark.parametrize("index", [0, 1])
def test_a_store_or_policy_that_fails_is_this_sides_fault(
    failing: str, left: int, index: int, error: LaceError
) -> None:
    pair = joined(MANY, MANY_MORE)
    mine, other = pair.sides[index], pair.sides[1 - index]
    local = mine.local
    assert isinstance(local, Failing)
    local.failing, local.left, local.error = failing, left, error
    before = stored(mine), stored(other)
    pair.start(NOW)
    pair.run(NOW)
    pair.end(NOW)
    if failing == "recall" and left:  # it is asked but once
        assert all(isinstance(side.ended, m.Closed) for side in pair.sides)
        return
    assert isinstance(mine.ended, m.Aborted)
    assert (mine.ended.code, mine.ended.blame) == (error.code, m.Blame.LOCAL)
    assert isinstance(other.ended, m.Aborted)
    assert (other.ended.code, other.ended.blame) == (Code.INTERLACE_GONE, m.Blame.LINK)
    assert before[0] <= stored(mine)
    assert before[1] <= stored(other)


def test_what_cannot_be_remembered_harms_nothing() -> None:
    pair = joined(MANY, MANY_MORE)
    assert isinstance(pair.left.local, Failing)
    pair.left.local.failing = "remember"
    pair.start(NOW)
    pair.run(NOW)
    assert pair.left.local.left < 0
    assert all(isinstance(side.ended, m.Closed) for side in pair.sides)
    assert stored(pair.left) == stored(pair.right)


def joined(left: list[Record], right: list[Record]) -> Pair:
    sides = []
    for index, records in enumerate((left, right)):
        store = MemoryStore()
        store.save(records)
        side = Side(index=index, module=NOTES, parameters=SMALL, link=b"link")
        made = Participant(store, side, Exposure(default="selected"))
        made.local = Failing.of(store, side, Exposure(default="selected"))
        sides.append(made)
    return Pair(sides[0], sides[1])


class Breaking(StoreAnswers):
    """Answers from a file that somebody breaks just before one of them is given."""

    breaks = ""

    def _perhaps(self, name: str) -> None:
        assert isinstance(self.store, SqliteStore)
        if name == self.breaks:
            self.breaks = ""
            with closing(sqlite3.connect(self.store.path)) as other, other:
                for (table,) in other.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                ).fetchall():
                    other.execute(f"ALTER TABLE {table} RENAME TO lost_{table}")

    def recall(self, asked: m.Recall) -> m.Recalled:
        self._perhaps("recall")
        return super().recall(asked)

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated | Job]:
        self._perhaps("evaluate")
        yield from super().evaluate(asked)

    def describe(self, asked: m.Describe) -> m.Described:
        self._perhaps("describe")
        return super().describe(asked)

    def serve(self, asked: m.Serve) -> m.Served:
        self._perhaps("serve")
        return super().serve(asked)

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        self._perhaps("save")
        return super().save(records)

    def remember(self, told: m.Remember) -> None:
        self._perhaps("remember")
        super().remember(told)


@pytest.mark.req("050-ERR-17")
@pytest.mark.parametrize("breaks", ["recall", "evaluate", "describe", "serve", "save", "remember"])
def test_a_file_that_breaks_is_this_sides_fault(breaks: str, tmp_path: Path) -> None:
    exposure = Exposure(default="selected")
    sides = []
    for index, records in enumerate((MANY, MANY_MORE)):
        store = SqliteStore(tmp_path / f"{index}.lace")
        store.save(records)
        other = (BOB, AUTHORITY)[index].verifier
        side = Side(
            index=index, module=NOTES, parameters=SMALL, peer_verifier=other,
            verifier=(AUTHORITY, BOB)[index].verifier,
        )  # fmt: skip
        made = Participant(store, side, exposure)
        made.local = Breaking.of(store, side, exposure)
        sides.append(made)
    pair = Pair(sides[0], sides[1])
    local = pair.left.local
    assert isinstance(local, Breaking)
    local.breaks = breaks
    pair.start(NOW)
    pair.run(NOW)
    pair.end(NOW)
    left, right = pair.left.ended, pair.right.ended
    if breaks == "remember":  # all is said and done; the next exchange has more to do
        assert isinstance(left, m.Closed)
        assert isinstance(right, m.Closed)
        assert len(stored(pair.right)) == 9
    else:
        assert isinstance(left, m.Aborted)
        assert (left.code, left.blame) == (Code.STORE_FAILED, m.Blame.LOCAL)
        assert isinstance(right, m.Aborted)
        assert right.blame is m.Blame.LINK
    for each in pair.sides:
        each.store.close()
