"""What crosses between two sides: kept in order, told apart by predicate, changed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lace.datalog.source import Fact, parse_facts
from lace.driving.pair import Tamper
from lace.interlace import messages as m


@dataclass(slots=True)
class Tap:
    """Passes everything on and keeps it; ``change`` may make something else of it first."""

    change: Tamper | None = None
    crossed: list[tuple[int, m.Incoming]] = field(default_factory=list)

    def __call__(self, side: int, crossing: m.Incoming) -> list[m.Incoming]:
        passed = [crossing] if self.change is None else self.change(side, crossing)
        self.crossed += [(side, item) for item in passed]
        return passed

    def by(self, side: int) -> list[m.Incoming]:
        """Return everything that one side said."""
        return [crossing for index, crossing in self.crossed if index == side]

    def blocks(self, side: int | None = None) -> list[bytes]:
        """Return the fact blocks that crossed."""
        return [
            crossing.content
            for index, crossing in self.crossed
            if isinstance(crossing, m.PeerFacts) and side in {None, index}
        ]

    def facts(self, name: str, side: int | None = None) -> list[Fact]:
        """Return the facts of one predicate, in the order in which they were said."""
        return [fact for fact in self._all(side) if fact[0] == name]

    def predicates(self) -> set[str]:
        return {fact[0] for fact in self._all(None)}

    def records(self, side: int | None = None) -> list[bytes]:
        """Return the record bytes that crossed."""
        return [
            crossing.raw
            for index, crossing in self.crossed
            if isinstance(crossing, m.PeerRecord) and side in {None, index}
        ]

    def bytes(self) -> bytes:
        """Return every byte that crossed, in order."""
        return b"".join(
            crossing.raw if isinstance(crossing, m.PeerRecord) else crossing.content
            for _, crossing in self.crossed
            if isinstance(crossing, m.PeerRecord | m.PeerFacts | m.PeerModule)
        )

    def _all(self, side: int | None) -> Iterator[Fact]:
        for content in self.blocks(side):
            yield from parse_facts(content)


def facts_of(side: int, change: Callable[[bytes], bytes | None], starts: bytes = b"") -> Tamper:
    """Return a tamperer that changes blocks of a side that start in some way; None drops them."""

    def tamper(index: int, crossing: m.Incoming) -> list[m.Incoming]:
        if index != side or not isinstance(crossing, m.PeerFacts):
            return [crossing]
        if not crossing.content.startswith(starts):
            return [crossing]
        changed = change(crossing.content)
        return [] if changed is None else [m.PeerFacts(changed)]

    return tamper


def instead(side: int, content: bytes, starts: bytes = b"") -> Tamper:
    """Return a tamperer that puts one block in the place of others."""
    return facts_of(side, lambda _: content, starts)


def records_of(side: int, change: Callable[[bytes], bytes]) -> Tamper:
    """Return a tamperer that changes the record bytes that a side sends."""

    def tamper(index: int, crossing: m.Incoming) -> list[m.Incoming]:
        if index == side and isinstance(crossing, m.PeerRecord):
            return [m.PeerRecord(change(crossing.raw))]
        return [crossing]

    return tamper
