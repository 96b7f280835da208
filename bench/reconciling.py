"""Finding out what differs between two large tables, and nothing else of an exchange.

Who answers has the digests of its advertisements ready: nothing is read, no rule is looked at, and
nothing is requested. What is left is tables, sketches, digests, and what is said.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from lace import b64a, collector
from lace.crypto.native import digests
from lace.driving.connection import Connection, MakeAnswers
from lace.driving.pair import Pair
from lace.errors import Outcome
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, FieldValue, digests_of
from lace.interlace.machine import Side
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.record import Record
from lace.selectors import selector
from lace.stream.packing import pack
from lace.tai import Tai
from measure import Effort, Result, Target, judged

_NOW = Tai("1700000000:000000000")
_NOTES = selector("//notes-demo//notes//")
_FIELDS: tuple[FieldValue, ...] = (("App", 0, "notes"), ("Group", 0, "notes-demo"))
_DIFFERENCES = 1000
_SECONDS_A_MILLION = 6.0
_HASHES = 1  # of a record on each side: its name
_SAMPLE = 200_000
_MOST_PACKED = 75_000


@dataclass(slots=True)
class _Ready:
    """Answers that cost next to nothing; the time they take all the same is counted apart."""

    index: int
    records: Sequence[str]
    seconds: float = 0.0
    memory: int = 0
    _told: bool = False

    def recall(self, asked: m.Recall) -> m.Recalled:  # noqa: ARG002 (nothing is known)
        return m.Recalled()

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated]:
        first, self._told = not self._told, True
        left = iter(self.records if first else ())
        labels = [asked.plan.operands[i].source_label for i in (self.index, 1 - self.index)]
        while True:
            begin = time.process_time()
            part = list(islice(left, DEFAULT_PARAMETERS.answer_at_once))
            made = digests_of(((record, _FIELDS) for record in part), labels)
            self.seconds += time.process_time() - begin
            if not part:
                break
            yield m.Evaluated(sendable=made, more=True)
        yield m.Evaluated()

    def describe(self, asked: m.Describe) -> m.Described:
        label = asked.plan.operands[self.index].source_label
        return m.Described(tuple(Advertisement(r, label, _FIELDS) for r in asked.records))

    def serve(self, asked: m.Serve) -> m.Served:  # noqa: ARG002
        raise AssertionError("nothing is requested")

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:  # noqa: ARG002
        raise AssertionError("nothing is sent")

    def at_hand(self, asked: m.Question) -> None:
        """Leave everything to the other methods."""

    def remember(self, told: m.Remember) -> None:
        """Keep nothing."""

    def rest(self) -> None:
        """Hold nothing that others wait for."""

    def close(self) -> None:
        """End."""


def run(effort: Effort) -> list[Result]:
    chance = random.Random(1)
    each = _DIFFERENCES // 2
    names = [f"P.{b64a.encode(chance.randbytes(32))}.H3" for _ in range(effort.ids + 2 * each)]
    sides = [_Ready(0, names[each:]), _Ready(1, names[:-each])]
    left, right = (
        Connection(Side(index=side.index, module=_NOTES), _answering(side)) for side in sides
    )
    pair = Pair(left, right)
    packed = 0

    def listen(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        nonlocal packed
        if isinstance(crossing, m.PeerFacts):
            packed += sum(map(len, pack(crossing.content)))
        return [crossing]

    pair.tamper = listen
    with collector.paused():
        begin = time.process_time()
        pair.start(_NOW)
        pair.run(_NOW)
        spent = time.process_time() - begin - sum(side.seconds for side in sides)
    for side, connection in enumerate((left, right)):
        own, peers = connection.machine.tables
        if set(peers.records("")) != set(sides[1 - side].records):
            raise RuntimeError("the difference was not found out")
        assert len(own) == effort.ids + each
    return [
        Result(
            name=f"reconcile: {effort.ids:,} records, {_DIFFERENCES:,} differences",
            unit="exchanges/s",
            count=1,
            seconds=spent,
            floor=f"{_SECONDS_A_MILLION:g} s a million",
            floor_seconds=_SECONDS_A_MILLION * effort.ids / 1e6,
            target=Target(sign="<=", ratio=1.0),
            notes=(
                f"{spent:.1f} s of processor for both sides: tables, sketches, digests, words",
                f"{_hashing(2 * effort.ids):.1f} s would be a hash for each name, and no more",
                f"{judged(packed, _MOST_PACKED, 'bytes')} both ways, packed, set-up included",
                "nothing is read, no rules, nothing is requested: see the other benches for that",
            ),
        )
    ]


def _answering(ready: _Ready) -> MakeAnswers:
    return lambda _side: ready


def _hashing(records: int) -> float:
    """Return the processor seconds of as many hashes as so many records need, and nothing else."""
    texts = [chance.to_bytes(4, "big") * 16 for chance in range(_SAMPLE)]
    with collector.paused():
        begin = time.process_time()
        digests(texts)
        return (time.process_time() - begin) * _HASHES * records / _SAMPLE
