"""Requests by place: whoever lists a record has said its hash, so that nobody need repeat it (L66).

Both sides number what a side lists in one loop: each record once, by name, from 0. A request names
a span of these numbers. What was listed goes by what crossed, and by nothing else that either side
knows; so a place can stand for no record that the peer was not told of in this very loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import ProtocolError
from lace.interlace.facts import decimal
from lace.limits import FIXED

_NAME_BYTES: Final = 120  # as Python holds one in a set, beside its characters


def check_requests(facts: Iterable[Fact], advertised: int) -> None:
    """Raise if more records are requested in full than a side that advertises so many is asked for.

    Each costs an answer, and work to decide on it.
    """
    requests = {fact for fact in facts if fact[0] == "MayRequest"}
    if len(requests) > advertised + FIXED.unadvertised_requests:
        raise ProtocolError(
            f"{len(requests)} requests, and {advertised} records are advertised",
            code=Code.INTERLACE_REQUEST,
        )


@dataclass(slots=True)
class Listed:
    """The records that one side has listed in this loop."""

    most: int
    """With more than so many, nothing has a place."""
    memory: int = 0
    """About how many bytes this takes."""
    _names: set[str] = field(default_factory=set)
    _is_over: bool = False

    def add(self, records: Iterable[str]) -> None:
        """Take note of what was listed."""
        if self._is_over or not self.most:
            return
        for record in records:
            if record not in self._names:
                self._names.add(record)
                self.memory += _NAME_BYTES + len(record)
                if len(self._names) > self.most:  # however many more there are
                    self._names, self._is_over, self.memory = set(), True, 0
                    return

    def __len__(self) -> int:
        return len(self._names)

    def requests(self, records: Sequence[str]) -> list[Fact]:
        """Return requests for records in the order of their names, by place where they have one."""
        places = {name: place for place, name in enumerate(sorted(self._names))}
        facts: list[Fact] = []
        spans: list[tuple[int, int]] = []
        for record in records:
            place = places.get(record)
            if place is None:
                facts += map(_span_fact, spans)
                spans = []
                facts.append(("MayRequest", record))
            elif spans and spans[-1][1] == place:
                spans[-1] = spans[-1][0], place + 1
            else:
                spans.append((place, place + 1))
        return facts + list(map(_span_fact, spans))

    def requested(self, facts: Iterable[Fact]) -> Iterator[str]:
        """Yield the records that requests name, in their order; raise for places out of order.

        Spans rise and share no place: what they cost is bounded by what was listed.
        """
        names: list[str] | None = None
        last = 0
        for fact in dict.fromkeys(facts):  # a phase may come in many blocks
            if fact[0] == "MayRequest":
                yield fact[1]
                continue
            names = sorted(self._names) if names is None else names
            first, end = decimal(fact[1]), decimal(fact[2])
            if first is None or end is None or not last <= first < end <= len(names):
                raise ProtocolError("places of no listing", code=Code.INTERLACE_REQUEST)
            yield from names[first:end]
            last = end


def _span_fact(span: tuple[int, int]) -> Fact:
    return "RequestListed", str(span[0]), str(span[1])
