"""Finding out what the peer advertises: from listings and summaries to one current state.

The outcome is the same however it was reached: the advertisements of a valid full listing. What a
side may send itself, the peer would advertise in the same words; so a summary that equals what is
known together with what is expected settles a partition without a listing. One that differs is
listed if it is small, and narrowed if it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from lace import b64a
from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace.advertise import ADVERT_FACTS, Advertisement, gather
from lace.interlace.facts import decimal
from lace.interlace.listing import Listing
from lace.interlace.parameters import Parameters
from lace.interlace.partition import (
    Partitions,
    Summary,
    check_listing,
    is_digest,
    is_prefix,
    joined_summary,
    parse_summary,
    payload,
)
from lace.interlace.sketching import ASKS, Sketching
from lace.policy.origin import SourceLabel

_CHILDREN: Final = 64  # a prefix has so many that are longer by one character


@dataclass(frozen=True, slots=True)
class AdvertChanges:
    """How the peer's advertisements changed; what was withdrawn goes first."""

    withdrawn: tuple[str, ...] = ()
    advertised: tuple[Advertisement, ...] = ()
    adopted: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Partitions that the peer spoke of, changed or not: what is in them is advertised anew."""

    def __bool__(self) -> bool:
        return bool(self.withdrawn or self.advertised or self.adopted)


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
    base = bases.pop()[1] if bases else None
    if number is None or not all(map(is_digest, filter(None, (check, base)))):
        raise ProtocolError("a malformed table", code=Code.INTERLACE_SUMMARY)
    return Told(number, b64a.decode(check)), None if base is None else b64a.decode(base)


@dataclass(slots=True)
class PeerAdverts:
    """The current advertisements of the peer: claims, never more."""

    source: SourceLabel
    limits: Mapping[str, int]
    parameters: Parameters
    own: Partitions
    """What this side advertises; the second digests are those that the peer would have."""
    table: Partitions
    sketching: Sketching
    sent: Partitions = field(init=False)
    """What of ours was sent since the peer last spoke: it has this much, and maybe no more."""
    _to_list: list[Summary] = field(default_factory=list)
    """Partitions whose listing is still to be asked for."""
    _listing: dict[str, Summary] = field(default_factory=dict)
    """Partitions whose listing was asked for."""
    _narrowing: dict[str, Summary] = field(default_factory=dict)
    """Partitions whose children were asked for."""
    _withdrawn: list[str] = field(default_factory=list)
    _advertised: list[Advertisement] = field(default_factory=list)
    _adopted: list[str] = field(default_factory=list)
    _named: list[str] = field(default_factory=list)
    _has_changed: bool = False
    _told: Told | None = None
    """The table that the peer told, until it is known."""
    _sketched: bool = False
    """Whether the way by sketches was taken to find it out."""
    _narrowed: bool = False
    """Whether the way by partitions was taken to find it out."""
    _summaries: int = 0
    _start: int = 0
    """The length of prefixes that narrowing began from."""
    _first: bool = True

    def __post_init__(self) -> None:
        self.take_sent(())

    def begin_again(self) -> None:
        """Expect the peer to speak of all that it advertises."""
        self._first = True

    def begin_round(self) -> None:
        """Start counting summaries anew (A31)."""
        self._summaries = 0
        self.take_sent(())

    def take_sent(self, records: Iterable[str]) -> None:
        """Take note of all that was sent to the peer since it last spoke."""
        found = {record: self.own.find(record) for record in records}
        self.sent = Partitions(2, standard=self.own.standard)
        self.sent.put({record: digests for record, digests in found.items() if digests})

    # --- what the peer says ---

    def take_advertise(self, facts: list[Fact], start: int, listing: Listing) -> list[Fact]:
        """Take the peer's advertise phase; return what has to be asked."""
        summaries = self._parse(facts)
        listed = self._gather(facts, listing)
        first, self._first = self._first, False
        self._start = start
        self._told, base = told_table(facts)
        if self._told is not None:
            if summaries or (listed and base is None):
                raise ProtocolError("a table and more in one", code=Code.INTERLACE_BLOCK)
            self._start = 0
            self._take_table(self._told, base, listed)
            return self._ask()
        if not summaries:
            # A later phase that says nothing says that nothing changed.
            if first or listed:
                self._named.append("")
                self._check_count(len(listed))
                self._replace("", listed)
            return []
        if listed:
            raise ProtocolError("summaries and a listing in one", code=Code.INTERLACE_BLOCK)
        lengths = {start} if first else {start, self.parameters.standard_prefix}
        if any(len(s.prefix) not in lengths for s in summaries if s.prefix or s.count):
            raise ProtocolError("partitions of another length", code=Code.INTERLACE_SUMMARY)
        if first and start:
            # The first summaries name every partition that is not empty.
            named = {summary.prefix for summary in summaries}
            known = list(self.table.records(""))
            self._withdraw(r for r in known if payload(r)[:start] not in named)
        self._named += [summary.prefix for summary in summaries]
        self._compare(summaries, depth=0)
        return self._ask()

    def take_answer(self, facts: list[Fact], listing: Listing) -> list[Fact]:
        """Take the peer's answers; return what has to be asked next."""
        summaries = self._parse(facts)
        if self.sketching.is_on and self._told is not None:
            if summaries:
                raise ProtocolError("summaries nobody asked for", code=Code.INTERLACE_SUMMARY)
            return self._take_sketch(self._told, facts, self._gather(facts, listing))
        self._take_listings(self._gather(facts, listing))
        narrowing, self._narrowing = self._narrowing, {}
        children: dict[str, list[Summary]] = {prefix: [] for prefix in narrowing}
        for summary in summaries:
            if summary.prefix[:-1] not in children or not summary.prefix:
                raise ProtocolError("summaries nobody asked for", code=Code.INTERLACE_SUMMARY)
            children[summary.prefix[:-1]].append(summary)
        for parent in narrowing.values():
            found = children[parent.prefix]
            if sum(child.count for child in found) != parent.count:
                raise ProtocolError("children do not add up", code=Code.INTERLACE_SUMMARY)
            named = {child.prefix for child in found}
            length = len(parent.prefix) + 1
            known = list(self.table.records(parent.prefix))
            self._withdraw(r for r in known if payload(r)[:length] not in named)
            self._compare(found, depth=length - self._start)
        return self._ask()

    def _take_table(self, told: Told, base: bytes | None, listed: Listing) -> None:
        """Take the digest of all that the peer advertises, and what is new, if that was told."""
        self._named.append("")
        self._sketched = self._narrowed = False
        limit = self.limits["max_delta_advertisements"]
        if len(listed) > limit:
            raise LimitExceeded("max_delta_advertisements", configured=limit, observed=len(listed))
        for guess in self._guesses(told, base, listed):
            if told.fits(guess):
                self._become(guess, listed)
                return

    def _take_sketch(self, told: Told, facts: list[Fact], listed: Listing) -> list[Fact]:
        """Take what was said of a sketch; what it leads to counts if the digest agrees."""
        asks = self.sketching.take(facts, told.count)
        missing = self.sketching.missing
        if missing is None and listed:
            raise ProtocolError("advertisements nobody asked for", code=Code.INTERLACE_LISTING)
        if missing is not None:
            self._check_count(len(listed))
            guess = self.own.expected()
            guess.remove(missing)
            guess.put({record: leaf for record, (_, leaf) in listed.items()})
            if told.fits(guess):
                self._become(guess, listed)
        return asks or self._ask()

    def _guesses(self, told: Told, base: bytes | None, listed: Listing) -> Iterator[Partitions]:
        """Yield what the peer's table may be: the digest tells whether it is."""
        known = self.table
        yield known
        echoed = known.copy()  # the peer has what was just sent, and says so
        sent = {r: self.sent.digest(r, 1) or b"" for r in self.sent.records("")}
        echoed.put({r: leaf for r, leaf in sent.items() if r not in known})
        if sent:
            yield echoed
        if base is not None:
            fresh = {record: leaf for record, (_, leaf) in listed.items()}
            for begin in (known, echoed) if sent else (known,):
                if base in {known.check, begin.check}:
                    made = begin.copy()
                    made.put(fresh)
                    yield made
        if not len(known) and told.count == len(self.own):
            yield self.own.expected()

    # --- what follows from it ---

    def take_changes(self) -> AdvertChanges:
        """Return what changed since this was last asked."""
        changes = AdvertChanges(
            tuple(self._withdrawn), tuple(self._advertised), tuple(self._adopted),
            tuple(self._named),
        )  # fmt: skip
        self._withdrawn, self._advertised, self._adopted, self._named = [], [], [], []
        self._has_changed |= bool(changes)
        return changes

    def take_changed(self) -> bool:
        """Return whether anything has changed since this was last asked."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def _parse(self, facts: list[Fact]) -> list[Summary]:
        facts = list(dict.fromkeys(facts))  # a phase may come in many blocks
        summaries = [parse_summary(f) for f in facts if f[0] == "AdvertisementPartition"]
        self._summaries += sum(1 for summary in summaries if summary.prefix or summary.count)
        limit = self.limits["max_partition_summaries"]
        if self._summaries > limit:
            raise LimitExceeded(
                "max_partition_summaries", configured=limit, observed=self._summaries
            )
        if len({summary.prefix for summary in summaries}) != len(summaries):
            raise ProtocolError("two summaries of one partition", code=Code.INTERLACE_SUMMARY)
        return summaries

    def _compare(self, summaries: list[Summary], *, depth: int) -> None:
        """Settle what agrees; note of the rest whether it is to be narrowed or listed."""
        for summary in summaries:
            if self.table.summary(summary.prefix) == summary:
                continue
            expected = self._expected(summary)
            if expected is not None:
                self._adopt(summary.prefix, expected)
            elif not summary.count:
                self._replace(summary.prefix, {})
            else:
                self._settle_or_ask(summary, depth)

    def _settle_or_ask(self, summary: Summary, depth: int) -> None:
        if self._is_to_be_listed(summary, depth):
            self._check_count(summary.count)
            self._to_list.append(summary)
        else:
            self._narrowing[summary.prefix] = summary

    def _expected(self, summary: Summary) -> Partitions | None:
        """Return what the peer must have got of ours, if that explains its summary."""
        for ours in (self.sent, self.own):
            if joined_summary(self.table, ours, summary.prefix, summary.count) == summary:
                return ours
        return None

    def _is_to_be_listed(self, summary: Summary, depth: int) -> bool:
        if depth >= self.limits["max_narrowing_depth"]:
            return True
        most = self.limits["max_partition_summaries"] - self.limits["max_loop_iterations"]
        if self._summaries + _CHILDREN * (len(self._narrowing) + 1) > most:
            return True  # narrowing on would leave nothing for later loops, or break the limit
        most = self.limits["max_advertisement_records_listed"]
        if summary.count > min(self.parameters.list_at_once, most):
            return False
        if summary.count <= self.parameters.list_up_to:
            return True
        # Where nothing of ours lies, there is nothing that narrowing could settle.
        tables = (self.table, self.own)
        return all(next(table.records(summary.prefix), None) is None for table in tables)

    def _ask(self) -> list[Fact]:
        """Return what to ask now, each question once: a peer answers none of them twice."""
        asks: list[Fact] = [("NarrowAdvertisementPartition", prefix) for prefix in self._narrowing]
        size = 0
        most = self.parameters.list_at_once
        while self._to_list and (not size or size + self._to_list[0].count <= most):
            summary = self._to_list.pop(0)
            size += summary.count
            self._listing[summary.prefix] = summary
            asks.append(("ListAdvertisementPartition", summary.prefix))
        if asks or self._told is None:
            return asks
        return self._find_out(self._told)

    def _find_out(self, told: Told) -> list[Fact]:
        """Return what to ask to find out a table that is not known yet."""
        if not told.count and len(self.table):
            self._become(Partitions(standard=self.table.standard), {})
        if told.fits(self.table):
            self._told = None
            return []
        if self.sketching.is_on:
            return []  # the peer finds out the difference
        if not self._sketched and self._is_worth_a_sketch(told):
            self._sketched = True
            asks = self.sketching.begin(told.count, decodes=self._decodes(told))
            if asks:
                return asks
        if self._narrowed:
            raise ProtocolError(
                "the advertisements are not those of the table that was told",
                code=Code.INTERLACE_SUMMARY,
            )
        self._narrowed = True
        self._settle_or_ask(Summary("", told.count, b""), depth=0)
        return self._ask()

    @property
    def is_unsettled(self) -> bool:
        """Whether this side waits for something that the peer has to ask for."""
        return self._told is not None and self.sketching.is_on

    def _is_worth_a_sketch(self, told: Told) -> bool:
        """Whether most of what two tables have is likely to be the same."""
        least = min(told.count, len(self.own))
        most = max(told.count, len(self.own))
        return self.sketching.most > 0 and least >= max(self.parameters.sketch_from, most // 2, 1)

    def _decodes(self, told: Told) -> bool:
        """Whether this side finds out the difference; the other one decides on this likewise."""
        first = self.sketching.column == 0
        return (len(self.own), first) > (told.count, not first)

    def _gather(self, facts: list[Fact], listing: Listing) -> Listing:
        """Put together what was listed at one go with what came as facts, if any did."""
        said = [fact for fact in facts if fact[0] in ADVERT_FACTS]
        if not said:
            return listing
        said += (fact for advert, _ in listing.values() for fact in advert.facts())
        adverts = gather(said, self.source)
        return {record: (advert, advert.digest()) for record, advert in adverts.items()}

    def _take_listings(self, listed: Listing) -> None:
        wanted, self._listing = self._listing, {}
        found: dict[str, Listing] = {prefix: {} for prefix in wanted}
        lengths = sorted({len(prefix) for prefix in wanted})
        for record, told in listed.items():
            name = payload(record)
            prefix = next((name[:n] for n in lengths if name[:n] in wanted), None)
            if prefix is None:
                raise ProtocolError("advertisements nobody asked for", code=Code.INTERLACE_LISTING)
            found[prefix][record] = told
        for prefix, summary in wanted.items():
            check_listing(summary, {record: leaf for record, (_, leaf) in found[prefix].items()})
            self._replace(prefix, found[prefix])

    def _check_count(self, count: int) -> None:
        limit = self.limits["max_advertisement_records_listed"]
        if count > limit:
            raise LimitExceeded(
                "max_advertisement_records_listed", configured=limit, observed=count
            )

    # --- changes of the state ---

    def _replace(self, prefix: str, listed: Listing) -> None:
        table = self.table
        known = {record: table.digest(record) for record in table.records(prefix)}
        digests = {record: leaf for record, (_, leaf) in listed.items()}
        self._withdraw(r for r, leaf in known.items() if digests.get(r) != leaf)
        fresh = {r: leaf for r, leaf in digests.items() if known.get(r) != leaf}
        table.put(fresh)
        self._advertised += [listed[record][0] for record in fresh]

    def _become(self, table: Partitions, listed: Listing) -> None:
        """Take a table for the peer's; what was not listed it says as this side does."""
        for record in table.odd.keys() | self.table.odd.keys():
            self._move(record, self.table.odd.get(record), table.odd.get(record), listed)
        for run in table.differing(self.table):
            now, gone = table.moved(run, self.table.run(run))
            self._withdrawn += gone
            for record in now:
                self._move(record, None, b"", listed)
        self.table = table

    def _move(self, record: str, was: bytes | None, now: bytes | None, listed: Listing) -> None:
        if was == now:
            return
        if was is not None:
            self._withdrawn.append(record)
        if now is not None and record in listed:
            self._advertised.append(listed[record][0])
        elif now is not None:
            self._adopted.append(record)

    def _adopt(self, prefix: str, ours: Partitions) -> None:
        """Know that the peer advertises what this side does, in the same words."""
        fresh = {
            record: ours.digest(record, 1) or b""
            for record in ours.records(prefix)
            if record not in self.table
        }
        self.table.put(fresh)
        self._adopted += fresh

    def _withdraw(self, records: Iterable[str]) -> None:
        gone = list(records)
        self.table.remove(gone)
        self._withdrawn += gone


@dataclass(frozen=True, slots=True)
class Saying:
    """What a phase is to say: facts, and records whose advertisements go with them."""

    facts: list[Fact] = field(default_factory=list)
    listing: list[str] = field(default_factory=list)


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
    _has_told: bool = False
    """Whether an advertise phase of this exchange has spoken of everything."""
    _summaries: int = 0
    """How many were said in this round; the peer counts them too (A31)."""
    _answered: set[Fact] = field(default_factory=set)
    _listed: set[str] = field(default_factory=set)
    """Prefixes whose listing was asked for in this loop, and all that are shorter than they."""
    _refused: set[str] = field(default_factory=set)
    """Asked for, and not to be had just then."""
    _told_again: set[str] = field(default_factory=set)
    """Told again in this round after they had been refused."""
    _start: int = 0
    """The length of the prefixes that the last advertise phase spoke of."""

    def begin_again(self) -> None:
        """Speak of everything in the next advertise phase."""
        self._has_told = False

    def begin_round(self) -> None:
        """Start counting summaries anew (A31)."""
        self._summaries = 0
        self._told_again = set()

    def begin_loop(self) -> None:
        """Let the peer ask anew."""
        self._answered, self._listed = set(), set()

    def refuse(self, records: Iterable[str]) -> None:
        """Take note that the peer was told that records are not available."""
        self._refused.update(records)

    @property
    def has_changed(self) -> bool:
        """Whether there is anything that the peer has not been told."""
        return not self._has_told or bool(self.table.changed())

    @property
    def tells_tables(self) -> bool:
        """Whether both sides offered to go by digests of whole tables."""
        return self.limits["max_delta_advertisements"] > 0

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
        if self.tells_tables and len(changed) > self.parameters.summarize_up_to:
            return self._tell_table(changed, received)
        self._start = self.parameters.standard_prefix
        prefixes = [self.table.standard_prefix(run) for run in changed]
        return self._summarize([self.table.summary(prefix) for prefix in prefixes], start)

    def _tell_table(self, changed: list[int], received: Collection[str]) -> Saying:
        """Return the digest of everything, and what is new if that leads to it."""
        self._start = 0
        told = Told(len(self.table), self.table.check).fact()
        if self.base is None or not changed:
            return Saying([told])
        moved = [self.table.moved(run, self.table.before(run)) for run in changed]
        fresh = [record for now, _ in moved for record in now if record not in received]
        most = min(self.limits["max_delta_advertisements"], self.parameters.tell_at_once)
        lost = any(gone for _, gone in moved) or any(r not in self.table for r in received)
        if lost or len(fresh) > most:
            return Saying([told])
        return Saying([told, ("AdvertisementDelta", b64a.encode(self.base))], sorted(fresh))

    def _summarize(self, summaries: list[Summary], start: int) -> Saying:
        """Return summaries, or one for all, or a listing, as the peer's limit allows."""
        room = self.limits["max_partition_summaries"] - self._summaries
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
        facts: list[Fact] = []
        listing: list[str] = []
        for ask in asks:
            if ask[0] in ASKS:
                cells, records = self.sketching.answer(ask)
                facts += cells
                listing += records
                continue
            name, prefix = ask
            if not is_prefix(prefix):
                raise ProtocolError("a question about no partition", code=Code.INTERLACE_SUMMARY)
            if ask in self._answered:  # each costs work; an honest peer asks once a loop
                raise ProtocolError("a question asked twice", code=Code.INTERLACE_PHASE)
            self._answered.add(ask)
            if name == "ListAdvertisementPartition":
                self._check_apart(prefix)
                listing += self._list(prefix)
            else:
                self._check_depth(len(prefix) - self._start)
                facts += [child.fact() for child in self.table.children(prefix)]
        self._summaries += sum(1 for fact in facts if fact[0] == "AdvertisementPartition")
        return Saying(facts, listing + self.sketching.listed_unasked())

    def _check_apart(self, prefix: str) -> None:
        """Raise if a listing of this loop has any of these records: nobody needs them twice."""
        above = [prefix[:length] for length in range(len(prefix) + 1)]
        if prefix in self._listed or any(
            ("ListAdvertisementPartition", part) in self._answered for part in above[:-1]
        ):
            raise ProtocolError("a listing asked for twice", code=Code.INTERLACE_PHASE)
        self._listed.update(above)

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
