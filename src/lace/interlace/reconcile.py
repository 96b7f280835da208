"""Finding out what the peer advertises: from listings and summaries to one current state.

The outcome is the same however it was reached: the advertisements of a valid full listing. A
summary that equals what is known already costs nothing more; one that differs is listed if it is
small, and narrowed if it is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace.advertise import Advertisement, gather
from lace.interlace.partition import Partitions, Summary, check_listing, parse_summary, payload
from lace.policy.origin import SourceLabel

_LIST_UP_TO: Final = 64  # a listing of so many costs less than another round trip


@dataclass(slots=True)
class PeerAdverts:
    """The current advertisements of the peer: claims, never more."""

    source: SourceLabel
    limits: dict[str, int]
    adverts: dict[str, Advertisement] = field(default_factory=dict)
    _partitions: Partitions = field(default_factory=Partitions)
    _wanted: dict[str, Summary] = field(default_factory=dict)
    """Summaries whose listing was asked for."""
    _narrowed: dict[str, Summary] = field(default_factory=dict)
    """Summaries whose children were asked for."""
    _added: list[Fact] = field(default_factory=list)
    _removed: list[Fact] = field(default_factory=list)
    _summaries: int = 0
    _first: bool = True

    def begin_round(self) -> None:
        """Start counting summaries anew (A31)."""
        self._summaries = 0

    def take_advertise(self, facts: list[Fact], start: int) -> list[Fact]:
        """Take the peer's advertise phase; return what has to be asked."""
        summaries = self._parse(facts)
        listed = _adverts_in(facts)
        if not summaries:
            # A later phase that says nothing says that nothing changed.
            if self._first or listed:
                self._replace_all(gather(listed, self.source))
            self._first = False
            return []
        if any(fact[0] == "Advertised" for fact in facts):
            raise ProtocolError("summaries and a listing in one", code=Code.INTERLACE_BLOCK)
        if any(len(summary.prefix) != start for summary in summaries):
            raise ProtocolError("partitions of another length", code=Code.INTERLACE_SUMMARY)
        if self._first:
            # The first summaries name every partition that is not empty.
            named = {summary.prefix for summary in summaries}
            for record in list(self.adverts):
                if payload(record)[:start] not in named:
                    self._drop(record)
        self._first = False
        return self._compare(summaries, depth=0)

    def take_answer(self, facts: list[Fact], start: int) -> list[Fact]:
        """Take the peer's answers; return what has to be asked next."""
        summaries = self._parse(facts)
        listed = gather(_adverts_in(facts), self.source)
        if len(listed) > self.limits["max_advertisement_records_listed"]:
            raise ProtocolError("too many advertisements listed", code=Code.INTERLACE_LISTING)
        for prefix, summary in self._wanted.items():
            mine = {r: a for r, a in listed.items() if payload(r).startswith(prefix)}
            check_listing(summary, {record: advert.digest() for record, advert in mine.items()})
            self._replace(prefix, mine)
            listed = {r: a for r, a in listed.items() if r not in mine}
        if listed:
            raise ProtocolError("advertisements nobody asked for", code=Code.INTERLACE_LISTING)
        self._wanted = {}
        asks: list[Fact] = []
        narrowed, self._narrowed = self._narrowed, {}
        for parent in narrowed.values():
            children = [
                s for s in summaries
                if s.prefix[:-1] == parent.prefix and len(s.prefix) == len(parent.prefix) + 1
            ]  # fmt: skip
            if sum(child.count for child in children) != parent.count:
                raise ProtocolError("children do not add up", code=Code.INTERLACE_SUMMARY)
            summaries = [s for s in summaries if s not in children]
            named = {child.prefix for child in children}
            length = len(parent.prefix) + 1
            for record in list(self._partitions.records(parent.prefix)):
                if payload(record)[:length] not in named:
                    self._drop(record)
            asks += self._compare(children, depth=length - start)
        if summaries:
            raise ProtocolError("summaries nobody asked for", code=Code.INTERLACE_SUMMARY)
        return asks

    def take_changes(self) -> tuple[tuple[Fact, ...], tuple[Fact, ...]]:
        """Return the facts that came and went since this was last asked."""
        added, removed = tuple(self._added), tuple(self._removed)
        self._added, self._removed = [], []
        return added, removed

    def _parse(self, facts: list[Fact]) -> list[Summary]:
        summaries = [parse_summary(f) for f in facts if f[0] == "AdvertisementPartition"]
        self._summaries += len(summaries)
        limit = self.limits["max_partition_summaries"]
        if self._summaries > limit:
            raise LimitExceeded(
                "max_partition_summaries", configured=limit, observed=self._summaries
            )
        if len({summary.prefix for summary in summaries}) != len(summaries):
            raise ProtocolError("two summaries of one partition", code=Code.INTERLACE_SUMMARY)
        return summaries

    def _compare(self, summaries: list[Summary], *, depth: int) -> list[Fact]:
        asks: list[Fact] = []
        for summary in summaries:
            known = self._partitions.summary(summary.prefix)
            if (known.count, known.root) == (summary.count, summary.root):
                continue
            if not summary.count:
                self._replace(summary.prefix, {})
            elif summary.count <= _LIST_UP_TO or depth >= self.limits["max_narrowing_depth"]:
                self._wanted[summary.prefix] = summary
                asks.append(("ListAdvertisementPartition", summary.prefix))
            else:
                self._narrowed[summary.prefix] = summary
                asks.append(("NarrowAdvertisementPartition", summary.prefix))
        return asks

    def _replace_all(self, adverts: dict[str, Advertisement]) -> None:
        if len(adverts) > self.limits["max_advertisement_records_listed"]:
            raise ProtocolError("too many advertisements listed", code=Code.INTERLACE_LISTING)
        self._replace("", adverts)

    def _replace(self, prefix: str, adverts: dict[str, Advertisement]) -> None:
        for record in list(self._partitions.records(prefix)):
            if adverts.get(record) != self.adverts[record]:
                self._drop(record)
        for record, advert in adverts.items():
            if record not in self.adverts:
                self.adverts[record] = advert
                self._partitions.put(record, advert.digest())
                self._added += advert.facts()

    def _drop(self, record: str) -> None:
        self._removed += self.adverts.pop(record).facts()
        self._partitions.remove(record)


def _adverts_in(facts: list[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact[0] in {"Advertised", "AdvertisedField"}]


@dataclass(slots=True)
class OwnAdverts:
    """What this side advertises: exactly what it may send, under the negotiated schema."""

    source: SourceLabel
    schema: frozenset[str] | None
    limits: dict[str, int]
    adverts: dict[str, Advertisement] = field(default_factory=dict)
    _partitions: Partitions = field(default_factory=Partitions)
    _told: dict[str, Summary] | None = None
    """What the last advertise phase said, by prefix; None before the first."""

    def put(self, advert: Advertisement) -> None:
        self.adverts[advert.record] = advert
        self._partitions.put(advert.record, advert.digest())

    def remove(self, record: str) -> None:
        if self.adverts.pop(record, None) is not None:
            self._partitions.remove(record)

    def advertise(self, start: int) -> list[Fact]:
        """Return the facts of an advertise phase: a short listing, or summaries that changed."""
        now = {summary.prefix: summary for summary in self._partitions.summaries(start)}
        told, self._told = self._told, now
        if told is None:
            if len(self.adverts) <= _LIST_UP_TO:
                return [f for record in sorted(self.adverts) for f in self.adverts[record].facts()]
            told = {}
        gone = [Summary(prefix, 0, _EMPTY_ROOT) for prefix in told if prefix not in now]
        changed = [summary for prefix, summary in now.items() if told.get(prefix) != summary]
        return [summary.fact() for summary in sorted(gone + changed, key=lambda s: s.prefix)]

    def answer(self, asks: list[Fact]) -> list[Fact]:
        """Return what a peer asked for, and nothing else."""
        facts: list[Fact] = []
        for name, prefix in asks:
            if name == "ListAdvertisementPartition":
                for record in self._partitions.records(prefix):
                    facts += self.adverts[record].facts()
            else:
                facts += [child.fact() for child in self._partitions.children(prefix)]
        return facts


_EMPTY_ROOT: Final = Partitions().summary("").root
