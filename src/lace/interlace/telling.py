"""What a side says of its advertisements: a listing, summaries, or one digest and what is new."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lace import b64a
from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace import messages as m
from lace.interlace.deferring import GO_ON
from lace.interlace.facts import decimal
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.interlace.rest import Rest
from lace.interlace.runs import Entries
from lace.interlace.sketching import ASKS, Sketching
from lace.interlace.summary import (
    Summary,
    is_digest,
    is_prefix,
)

_COMING_BYTES: Final = 400  # of a record and its digests, as Python holds them
_QUESTION_BYTES: Final = 300  # of a question about a partition


@dataclass(frozen=True, slots=True)
class Told:
    """How many records a side advertises, and the digest of all of it."""

    count: int
    check: bytes

    def fits(self, table: Partitions) -> bool:
        """Whether this is what was told of a table."""
        return len(table) == self.count and table.check == self.check

    def fact(self) -> Fact:
        return "AdvertisementTable", str(self.count), b64a.encode(self.check)


def told_table(facts: list[Fact]) -> tuple[Told | None, bytes | None]:
    """Return the table that a phase tells, and the one that it begins from, if there are any."""
    tables = {fact for fact in facts if fact[0] == "AdvertisementTable"}
    bases = {fact for fact in facts if fact[0] == "AdvertisementDelta"}
    if len(tables) > 1 or len(bases) > len(tables):
        raise ProtocolError("more than one table, or none", code=Code.INTERLACE_SUMMARY)
    if not tables:
        return None, None
    _, count, check = tables.pop()
    number = decimal(count)
    base = [fact[1] for fact in bases]
    if number is None or not all(map(is_digest, (check, *base))):
        raise ProtocolError("a malformed table", code=Code.INTERLACE_SUMMARY)
    return Told(number, b64a.decode(check)), b64a.decode(base[0]) if base else None


@dataclass(frozen=True, slots=True)
class Saying:
    """What a phase is to say: facts, and records whose advertisements go with them."""

    facts: list[Fact] = field(default_factory=list)
    listing: list[str] = field(default_factory=list)

    @property
    def leads_there(self) -> bool:
        """Whether it says all that is new since the table that was told last."""
        return any(name == "AdvertisementDelta" for name, *_ in self.facts)


@dataclass(slots=True)
class OwnAdverts:
    """What this side advertises: exactly what it may send, under the negotiated schema.

    What a phase says follows from the table, from what was told in this exchange, and from the
    agreement; never from how the table came to be known.
    """

    limits: Mapping[str, int]
    parameters: Parameters
    table: Partitions
    sketching: Sketching
    base: bytes | None = None
    """The digest of the table that the peer was told last; the table knows what changed since."""
    told: int = 0
    """How many records the last advertise phase spoke of, changed or not."""
    _has_told: bool = False
    """Whether an advertise phase of this exchange has spoken of everything."""
    _summaries: int = 0
    """How many were said in this round; the peer counts them too (A31)."""
    _answered: set[Fact] = field(default_factory=set)
    """Questions about partitions that were asked in this loop."""
    _listed: list[str] = field(default_factory=list)
    """Prefixes whose listing was asked for in this loop, in order: none contains another."""
    _deferred: list[str] = field(default_factory=list)
    """Records whose advertisements did not fit the last phase (L67)."""
    _refused: set[str] = field(default_factory=set)
    """Asked for, and not to be had just then."""
    _told_again: set[str] = field(default_factory=set)
    """Told again in this round after they had been refused."""
    _start: int = 0
    """The length of the prefixes that the last advertise phase spoke of."""
    _coming: dict[str, bytes] = field(default_factory=dict)
    """What is to be put into the table, while an answer about policy is not complete."""
    _packed: Entries | None = None
    """The same, in less room: all of it is put into the table together."""

    def take_evaluation(self, given: m.Evaluated) -> None:
        """Bring the table in line with a part of an answer about policy."""
        if given.unsendable:
            self._put()
            self.table.remove(given.unsendable)
        self._coming |= given.sendable
        if not given.more:
            self._put()
        elif len(self._coming) >= self.parameters.put_at_once:
            self._pack()

    @property
    def memory(self) -> int:
        """About how many bytes wait for the end of an answer, or are held of what was asked."""
        packed = 0 if self._packed is None else self._packed.memory
        questions = len(self._answered) * _QUESTION_BYTES + self.sketching.memory
        return len(self._coming) * _COMING_BYTES + packed + questions

    def _pack(self) -> None:
        self._packed = self._packed or Entries(self.table.standard)
        self._packed.add(self._coming)
        self._coming = {}

    def _put(self) -> None:
        if self._coming or self._packed is not None:
            self._pack()
            assert self._packed is not None
            self.table.put_entries(self._packed)
            self._packed = None

    def begin_again(self) -> None:
        """Speak of everything in the next advertise phase."""
        self._has_told = False

    def begin_round(self) -> None:
        """Start counting summaries anew (A31)."""
        self._summaries = 0
        self._told_again = set()

    def begin_loop(self) -> None:
        """Let the peer ask anew."""
        self._answered, self._listed = set(), []
        self._deferred = []

    def defer(self, records: list[str]) -> None:
        """Put advertisements off that do not fit a phase: the peer may ask for them in the next."""
        limit = self.limits["max_deferred_advertisements"]
        if len(records) > limit:
            raise LimitExceeded(
                "max_deferred_advertisements", configured=limit, observed=len(records)
            )
        self._deferred = records

    def refuse(self, records: Iterable[str]) -> None:
        """Take note that the peer was told that records are not available."""
        self._refused.update(records)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left open here but what the table and its digest say."""
        return not (self._coming or self._packed or self._refused or self.has_changed)

    @property
    def start(self) -> int:
        """The length of the prefixes that the last advertise phase spoke of."""
        return self._start

    def stand_as(self, rest: Rest) -> None:
        """Stand as another side does that is at rest."""
        standing = rest.standing
        self.table, self.base, self._start = rest.own.copy(), standing.base, standing.starts[0]

    @property
    def has_changed(self) -> bool:
        """Whether there is anything that the peer has not been told."""
        return not self._has_told or bool(self.table.changed())

    @property
    def tells_tables(self) -> bool:
        """Whether both sides offered to go by digests of whole tables."""
        return self.limits["max_advertisements_in_delta"] > 0

    def advertise(self, start: int, received: Collection[str] = ()) -> Saying:
        """Return an advertise phase: a short listing, or the summaries that changed.

        What was refused and can be sent after all is spoken of again, once a round; else the peer
        would not know that it may ask. What was just received from the peer is not told to it.
        """
        again = {record for record in self._refused if record in self.table} - self._told_again
        self.table.touch(again)
        self._told_again |= again
        self._refused = set()
        changed = self.table.changed()
        self.told = len(self.table)
        saying = self._say(changed, start, received)
        self.table.mark()
        self.base = self.table.check if self.tells_tables else None
        return saying

    def _say(self, changed: list[int], start: int, received: Collection[str]) -> Saying:
        if not self._has_told:
            self._has_told = True
            self._start = start
            few = min(self.parameters.list_up_to, self.limits["max_advertisement_records_listed"])
            if len(self.table) <= few:
                return Saying(listing=list(self.table.records("")))
            if self.tells_tables:
                return self._tell_table(changed, received)
            return self._summarize(list(self.table.summaries(start)), start)
        if not changed:
            return Saying()  # which says so
        if self.tells_tables:
            told = self._tell_table(changed, received)
            if told.leads_there or len(changed) > self.parameters.summarize_up_to:
                return told
        self._start = self.parameters.standard_prefix
        prefixes = [self.table.standard_prefix(run) for run in changed]
        return self._summarize([self.table.summary(prefix) for prefix in prefixes], start)

    def _tell_table(self, changed: list[int], received: Collection[str]) -> Saying:
        """Return the digest of everything, and what is new if that leads to it."""
        self._start = 0
        told = Told(len(self.table), self.table.check).fact()
        if self.base is None or not changed:
            return Saying([told])
        now, gone = self.table.moved_in(changed, self.table.before)
        come = set(now)
        fresh = come.difference(received)
        most = min(
            self.limits["max_advertisements_in_delta"],
            self.parameters.tell_at_once,
            self.parameters.listed_at_once(self.limits),
        )
        left = [record for record in received if record not in come]
        lost = bool(gone) or len(self.table.among(left)) < len(left)
        if lost or len(fresh) > most:
            return Saying([told])
        return Saying([told, ("AdvertisementDelta", b64a.encode(self.base))], sorted(fresh))

    def _summarize(self, summaries: list[Summary], start: int) -> Saying:
        """Return summaries, or one for all, or a listing, as the peer's limit allows."""
        room = min(
            self.limits["max_partition_summaries"] - self._summaries,
            self.parameters.summarized_at_once(self.limits),
        )
        later = 0 if start else self.limits["max_loop_iterations"]  # one for all, in each loop
        if sum(1 for summary in summaries if summary.prefix or summary.count) > room - later:
            if not len(self.table):
                return Saying([self.table.summary("").fact()])  # no listing could say this
            if start or room < 1:
                return Saying(listing=self._list(""))
            summaries, self._start = [self.table.summary("")], start
        self._summaries += sum(1 for summary in summaries if summary.prefix or summary.count)
        return Saying([summary.fact() for summary in summaries])

    def answer(self, asks: list[Fact]) -> Saying:
        """Return what a peer asked for, and nothing else."""
        deferred, self._deferred = self._deferred, []
        if GO_ON in asks:
            if len(asks) > 1 or not deferred:
                raise ProtocolError("a question for what fitted", code=Code.INTERLACE_PHASE)
            return Saying(listing=deferred)
        facts: list[Fact] = []
        listing: list[str] = []
        self._check_questions(ask for ask in asks if ask[0] not in ASKS)
        self.sketching.look_up(asks)
        for ask in asks:
            if ask[0] in ASKS:
                cells, records = self.sketching.answer(ask)
                facts += cells
                listing += records
                continue
            name, prefix = ask
            if name == "ListAdvertisementPartition":
                self._check_apart(prefix)
                listing += self._list(prefix)
            else:
                self._check_depth(len(prefix) - self._start)
                children = [child.fact() for child in self.table.children(prefix)]
                self._count(len(children))
                facts += children
        return Saying(facts, listing + self.sketching.listed_unasked())

    def _check_questions(self, asks: Iterable[Fact]) -> None:
        """Raise for questions about partitions that an honest peer does not ask, before any work.

        It asks about each partition that was summarised at most once in a loop, and about
        everything.
        """
        limit = self.limits["max_partition_summaries"]
        for ask in asks:
            if not is_prefix(ask[1]):
                raise ProtocolError("a question about no partition", code=Code.INTERLACE_SUMMARY)
            if ask in self._answered:
                raise ProtocolError("a question asked twice", code=Code.INTERLACE_PHASE)
            self._answered.add(ask)
            if len(self._answered) > limit + 1:
                raise LimitExceeded(
                    "max_partition_summaries", configured=limit, observed=len(self._answered) - 1
                )

    def _count(self, summaries: int) -> None:
        """Count what an answer says; raise if a round has no room for it: nobody may ask for it."""
        self._summaries += summaries
        limit = self.limits["max_partition_summaries"]
        if self._summaries > limit:
            raise LimitExceeded(
                "max_partition_summaries", configured=limit, observed=self._summaries
            )

    def _check_apart(self, prefix: str) -> None:
        """Raise if a listing of this loop has any of these records: nobody needs them twice."""
        # One that contains it, or lies within it, would be the next one before or behind it.
        at = bisect_left(self._listed, prefix)
        before, behind = self._listed[max(0, at - 1) : at], self._listed[at : at + 1]
        if any(map(prefix.startswith, before)) or any(one.startswith(prefix) for one in behind):
            raise ProtocolError("a listing asked for twice", code=Code.INTERLACE_PHASE)
        self._listed.insert(at, prefix)

    def _check_depth(self, steps: int) -> None:
        limit = self.limits["max_narrowing_depth"]
        if steps >= limit:
            raise LimitExceeded("max_narrowing_depth", configured=limit, observed=steps + 1)

    def _list(self, prefix: str) -> list[str]:
        records = list(self.table.records(prefix))
        limit = self.limits["max_advertisement_records_listed"]
        if len(records) > limit:
            raise LimitExceeded(
                "max_advertisement_records_listed", configured=limit, observed=len(records)
            )
        return records
