"""Validating and storing may happen elsewhere, in any order: nobody can tell from what comes of it."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from effort import examples
from wires import EVERYTHING, NOW, OPEN, hashes, nonce, notes, store_of

from lace.answering.store import StoreAnswers
from lace.crypto import SigningKey
from lace.driving.connection import Connection
from lace.driving.saving import Job, Saving, Storing, Validation, saved
from lace.errors import Code, Outcome, StoreError
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.policy.origin import SourceLabel
from lace.record import Record, build_blob, build_plex, seal
from lace.record.facts import fields
from lace.recordstore import MemoryStore
from lace.stream.binding import Endpoint

KEY = SigningKey(b"\x0d" * 32)
FEW = Parameters(
    serve_at_once=3, save_at_once=7, validate_at_once=2, hold_bytes=3000, request_at_once=40
)
CHUNK = 500


class Watching(StoreAnswers):
    """Answers that note what is stored, and of which the store fails after so many times."""

    fails_after = 1000
    saved: list[list[str]]

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        if len(self.saved) >= self.fails_after:
            raise StoreError("no disk", code=Code.STORE_FAILED)
        self.saved.append([str(record.hash) for record in records])
        return super().save(records)


@dataclass
class End:
    """One connection, with what is under way to it and what it has others do."""

    store: MemoryStore
    accepting: bool
    hands_out: bool
    fails_after: int = 1000
    waiting: deque[bytes] = field(default_factory=deque)
    jobs: list[Job] = field(default_factory=list)
    done: list[Job] = field(default_factory=list)
    events: list[m.Event] = field(default_factory=list)
    saved: list[list[str]] = field(default_factory=list)
    most: int = 0
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        endpoint = Endpoint(accepting=self.accepting, nonce=nonce(), addresses=("here",))
        side = Side(index=0, module=EVERYTHING, parameters=FEW)
        self.connection = Connection.over(
            endpoint, EVERYTHING, self._answers, base=side, hands_out=self.hands_out
        )

    def _answers(self, side: Side) -> Watching:
        made = Watching.of(self.store, side, OPEN)
        assert isinstance(made, Watching)
        made.saved, made.fails_after = self.saved, self.fails_after
        return made

    def choices(self) -> Iterator[str]:
        """Yield what a driver may do next."""
        if self.connection.has_work:
            yield "work"
        elif self.waiting and not self.connection.is_full:
            yield "take"
        if self.jobs:
            yield "job"
        if self.done:
            yield "done"

    def do(self, choice: str, chance: random.Random) -> None:
        most = chance.choice((None, 1, 500))  # turns of any length come to the same, too
        match choice:
            case "work":
                self.connection.work(NOW, most)
            case "take":
                self.connection.receive_data(self.waiting.popleft(), NOW, most)
            case "job":
                job = self.jobs.pop(chance.randrange(len(self.jobs)))
                job.run()
                self.done.append(job)
            case "done":
                job = self.done.pop(chance.randrange(len(self.done)))
                self.connection.receive_done(job, NOW, most)
        self.jobs += self.connection.jobs()
        self.events += self.connection.events()
        under_way = [due for due in self.connection._due if isinstance(due, Saving)]
        self.most = max(self.most, sum(s.size for s in under_way if s.is_under_way))


def run(ends: tuple[End, End], seed: int, change: tuple[bytes, bytes] | None = None) -> None:
    """Let chance choose who does what next, until nothing is left to do."""
    chance = random.Random(seed)
    while True:
        for end, other in (ends, ends[::-1]):
            data = b"".join(end.connection.data_to_send())
            if change is not None:
                data = data.replace(*change)
            other.waiting.extend(data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
        choices = [(end, choice) for end in ends for choice in end.choices()]
        if not choices:
            return
        end, choice = chance.choice(choices)
        end.do(choice, chance)


def pair(
    left: list[Record], right: list[Record], *, hands_out: bool, fails_after: int = 1000
) -> tuple[End, End]:
    one = End(store_of(left), accepting=True, hands_out=hands_out)
    other = End(store_of(right), accepting=False, hands_out=hands_out, fails_after=fails_after)
    return one, other


def of_records(events: list[m.Event]) -> list[m.Event]:
    return [
        e for e in events if isinstance(e, m.RecordSaved | m.RecordRejected | m.RecordDuplicate)
    ]


@pytest.mark.req("050-STA-07", "050-VLD-05", "050-ERR-15")
@pytest.mark.parametrize("seed", range(examples(12)))
def test_whoever_validates_and_stores_and_when_it_comes_to_the_same(seed: int) -> None:
    """Both sides receive, records of all sizes, one of them changed on its way."""
    left = [*notes(60, key=KEY), build_blob(b"big" * 2000), *notes(20, start=100)]
    right = [*notes(40, start=50, key=KEY), build_blob(b"BIG" * 3000)]
    broken = build_blob(b"to be changed")
    change = b"to be changed", b"To be changed"
    ends = pair([*left, broken], right, hands_out=True)
    plain = pair([*left, broken], right, hands_out=False)
    run(ends, seed, change)
    run(plain, 0, change)
    assert not plain[0].jobs
    assert not plain[1].done
    for end, alike in zip(ends, plain, strict=True):
        ended = end.connection.ended
        assert isinstance(ended, m.Closed), ended
        assert ended.ending is m.Ending.FIXED_POINT
        assert of_records(end.events) == of_records(alike.events)
        assert end.saved == alike.saved
        assert hashes(end.store) == hashes(alike.store)
        # What is under way is bounded: so much, and one batch more.
        assert end.most < 2 * FEW.hold_bytes + 9000
    received = ends[1].connection.ended
    assert received is not None
    assert received.result.rejected == (broken.hash,)
    (rejected,) = [e for e in ends[1].events if isinstance(e, m.RecordRejected)]
    assert rejected.code is Code.RECORD_HASH_MISMATCH
    assert broken.hash not in hashes(ends[1].store)
    assert not any(broken.hash in batch for batch in ends[1].saved)


@pytest.mark.req("050-ERR-17")
@pytest.mark.parametrize("seed", range(examples(6)))
def test_a_store_that_fails_elsewhere_ends_the_exchange_here(seed: int) -> None:
    ends = pair(notes(60), [], hands_out=True, fails_after=2)
    run(ends, seed)
    ended = ends[1].connection.ended
    assert isinstance(ended, m.Aborted)
    assert (ended.code, ended.blame) == (Code.STORE_FAILED, m.Blame.LOCAL)
    stored = [hash for batch in ends[1].saved for hash in batch]
    assert list(ended.result.received) == stored
    assert hashes(ends[1].store) == set(stored)
    assert len(stored) == 2 * FEW.save_at_once


def test_records_are_taken_while_others_are_stored_until_there_is_no_more_room() -> None:
    ends = pair(notes(40), [], hands_out=True)
    one, other = ends
    chance = random.Random(0)
    while not (other.connection.is_full and not one.connection.has_work and not one.waiting):
        for end, peer in (ends, ends[::-1]):
            data = b"".join(end.connection.data_to_send())
            peer.waiting.extend(data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
            choice = next((c for c in end.choices() if c in {"work", "take"}), None)
            if choice is not None:
                end.do(choice, chance)
    assert len(other.connection._saving) > 1  # while the first is under way, others came
    assert other.most >= FEW.hold_bytes
    assert not other.saved
    assert all(isinstance(job, Validation) for job in other.jobs)
    assert other.connection.memory >= other.most
    assert other.connection.timer is not None
    other.connection.receive_timer(other.connection.timer, NOW)  # it works: that is no silence
    assert not other.connection.closed
    run(ends, 1)
    assert isinstance(other.connection.ended, m.Closed)
    assert other.store.count() == 40


def asked_for(records: Sequence[Record], schema: frozenset[str] | None = None) -> m.Save:
    """Return the question to store records that were advertised as what they are."""
    source = SourceLabel("Opq_one")
    return m.Save(
        tuple(record.hash for record in records),
        tuple(m.PeerRecord(record.raw) for record in records),
        tuple(advertise(r.hash, source, fields(r), schema).digest() for r in records),
        source,
        schema,
    )


@pytest.mark.req("050-ADF-04")
@pytest.mark.parametrize("schema", [None, frozenset(), frozenset({"Group", "App", "Signed-By"})])
def test_only_what_was_advertised_as_what_it_is_is_stored(schema: frozenset[str] | None) -> None:
    """Rules decided by claims; so claims that are false in any part let nothing in."""
    plain = build_plex(
        group="g", app="a", name="n", tai="1700000000:000000000",
        extras=[("Tag", "one"), ("Tag", "two"), ("É", "ü")], data=b"x",
    )  # fmt: skip
    records: list[Record] = [plain, seal(plain, KEY), build_blob(b"blob"), *notes(3, key=KEY)]
    side = Side(index=0, module=EVERYTHING, parameters=FEW)
    for lie in range(len(records) + 1):
        asked = asked_for(records, schema)
        if lie < len(records):
            claims = list(asked.claims)
            claims[lie] = claims[lie - 1]
            asked = replace(asked, claims=tuple(claims))
        store = MemoryStore()
        (answer,) = saved(asked, side, StoreAnswers.of(store, side, OPEN))
        assert isinstance(answer, m.Saved)
        refused = [(hash, outcome.code) for hash, outcome in answer.outcomes if not outcome.ok]
        assert refused == [(record.hash, Code.INTERLACE_CLAIM) for record in records[lie : lie + 1]]
        assert hashes(store) == {str(r.hash) for r in records} - {str(h) for h, _ in refused}


def test_nothing_is_stored_before_all_of_a_batch_is_validated() -> None:
    records = notes(7, key=KEY)
    asked = asked_for(records)
    side = Side(index=0, module=EVERYTHING, parameters=FEW)
    saving = Saving.of(asked, side)
    store = MemoryStore()
    answers = StoreAnswers.of(store, side, OPEN)
    assert [len(part.came) for part in saving.validations] == [2, 2, 2, 1]
    for part in saving.validations:
        assert saving.begin_storing(answers) == []
        part.run()
    (job,) = saving.begin_storing(answers)
    assert isinstance(job, Storing)
    assert saving.begin_storing(answers) == []
    assert list(saving) == []
    job.run()
    (answer,) = saving
    assert m.fits(asked, answer)
    assert list(saving) == []  # it answers once
    assert not saving.is_under_way
    assert hashes(store) == {record.hash for record in records}
