"""Finding out what the peer advertises: from listings and summaries to one current state.

The outcome is the same however it was reached: the advertisements of a valid full listing. What a
side may send itself, the peer would advertise in the same words; so a summary that equals what is
known together with what is expected settles a partition without a listing. One that differs is
listed if it is small, and narrowed if it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from lace.codes import Code
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError, StoreError
from lace.interlace.advertise import ADVERT_FACTS, Advertisement, gather
from lace.interlace.expected import joined_summary
from lace.interlace.listing import Listing
from lace.interlace.parameters import Parameters
from lace.interlace.partition import Partitions
from lace.interlace.rest import Rest
from lace.interlace.sketching import Sketching, check_asked
from lace.interlace.summary import (
    Summary,
    check_listing,
    parse_summary,
    payload,
)
from lace.interlace.telling import Told, told_table
from lace.policy.origin import SourceLabel

_LISTED: Final = "max_advertisement_records_listed"
_DELTA: Final = "max_advertisements_in_delta"
_CHILDREN: Final = 64  # a prefix has so many that are longer by one character


@dataclass(frozen=True, slots=True)
class AdvertChanges:
    """How the peer's advertisements changed; what was withdrawn goes first."""

    withdrawn: tuple[str, ...] = ()
    advertised: tuple[Advertisement, ...] = ()
    adopted: Collection[str] = ()
    named: tuple[str, ...] = ()
    """Partitions that the peer spoke of, changed or not: what is in them is advertised anew."""

    def __bool__(self) -> bool:
        return bool(self.withdrawn or self.advertised or self.adopted)


@dataclass(frozen=True, slots=True)
class Alike(Collection[str]):
    """The records of a table but for a few: read from it when somebody wants to know."""

    table: Partitions
    without: frozenset[str]

    def __len__(self) -> int:
        return len(self.table) - len(self.without)

    def __iter__(self) -> Iterator[str]:
        return (record for record in self.table.records("") if record not in self.without)

    def __contains__(self, record: object) -> bool:
        return record in self.table and record not in self.without


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
    _echo: Partitions | None = None
    """The table of a peer that has all of that, until it speaks."""
    _may_look_ahead: bool = False
    """Whether the peer has not spoken since, and nobody has tried to foresee what it will say."""
    _to_list: list[Summary] = field(default_factory=list)
    """Partitions whose listing is still to be asked for."""
    _listing: dict[str, Summary] = field(default_factory=dict)
    """Partitions whose listing was asked for."""
    _to_narrow: list[Summary] = field(default_factory=list)
    """Partitions whose children are still to be asked for."""
    _narrowing: dict[str, Summary] = field(default_factory=dict)
    """Partitions whose children were asked for."""
    _withdrawn: list[str] = field(default_factory=list)
    _advertised: list[Advertisement] = field(default_factory=list)
    _adopted: list[str] = field(default_factory=list)
    _alike: Alike | None = None
    """What was adopted at one go, if that is too much to hold."""
    _named: list[str] = field(default_factory=list)
    _has_changed: bool = False
    _told: Told | None = None
    """The table that the peer told, until it is known."""
    _sketched: bool = False
    """Whether the way by sketches was taken to find it out."""
    _narrowed: bool = False
    """Whether the way by partitions was taken to find it out."""
    _mirror: tuple[bytes, Partitions] | None = None
    """The digest of the own table, and the table of a peer that has all of it."""
    _summaries: int = 0
    _start: int = 0
    """The length of prefixes that narrowing began from."""
    _first: bool = True

    def __post_init__(self) -> None:
        self.sent = Partitions(2, standard=self.own.standard)

    def begin_again(self) -> None:
        """Expect the peer to speak of all that it advertises."""
        self._first = True

    def begin_round(self) -> None:
        """Start counting summaries anew (A31)."""
        self._summaries = 0
        self.take_sent(())

    def take_sent(self, records: Iterable[str]) -> None:
        """Take note of all that was sent to the peer since it last spoke."""
        found = self.own.among(list(records))
        if found or len(self.sent):  # else it is empty, and stays so
            self.sent = Partitions(2, standard=self.own.standard)
            self.sent.put(found)
        self._echo, self._may_look_ahead = None, True

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is left open here but what the table says."""
        open_questions = self._to_list, self._listing, self._to_narrow, self._narrowing
        untold = self._withdrawn, self._advertised, self._adopted, self._named
        if self._first or self._told is not None or self._alike is not None:
            return False
        return not any(open_questions) and not any(untold)

    @property
    def start(self) -> int:
        """The length of prefixes that narrowing began from."""
        return self._start

    def stand_as(self, rest: Rest, own: Partitions) -> None:
        """Stand as another side does that is at rest; ``own`` is what this one advertises now."""
        self.own, self.table, self._start = own, rest.peers.copy(), rest.standing.starts[1]
        self._mirror = None
        self.take_sent(())

    @property
    def can_look_ahead(self) -> bool:
        """Whether it is worth while to find out what the peer will say, before it does."""
        many = len(self.sent) >= max(1, self.parameters.foresee_from)
        return many and self._may_look_ahead and self._goes_by_tables

    def look_ahead(self) -> None:
        """Find out what a peer that has what it was sent will say, if that is possible."""
        self._may_look_ahead = False
        with suppress(StoreError):  # it is looked up again when the peer speaks, and fails then
            self._foresee().check  # noqa: B018 (known from now on)

    @property
    def _goes_by_tables(self) -> bool:
        return self.limits["max_advertisements_in_delta"] > 0

    @property
    def memory(self) -> int:
        """About how many bytes are held until the peer speaks."""
        return self.sent.memory * (1 if self._echo is None else 2)

    def take_back(self, records: Collection[str]) -> None:
        """Take note that records are not to be sent any more: the peer need not have them."""
        if len(self.sent) and self.sent.among(records):
            self.sent.remove(records)
            self._echo = None

    def _foresee(self) -> Partitions:
        """Return the table of a peer that has what was just sent, and says so."""
        if self._echo is None:
            echo = self.table.copy()
            sent = dict(self.sent.items(1))
            known = echo.among(sent)
            echo.put({r: leaf for r, leaf in sent.items() if r not in known})
            self._echo = echo
        return self._echo

    def _forget_foreseen(self) -> None:
        """Take note that the peer speaks: what it has then is not what this was made from."""
        self._echo, self._may_look_ahead = None, False

    # --- what the peer says ---

    def take_advertise(self, facts: list[Fact], start: int, listing: Listing) -> list[Fact]:
        """Take the peer's advertise phase; return what has to be asked."""
        summaries = self._parse(facts)
        told = any(fact[0] == "AdvertisementTable" for fact in facts)
        self._check_count(_count(facts, listing), _DELTA if told else _LISTED)
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
        self._forget_foreseen()
        if not summaries:
            # A later phase that says nothing says that nothing changed.
            if first or listed:
                self._named.append("")
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
            self._check_count(_count(facts, listing))
            return self._take_sketch(self._told, facts, self._gather(facts, listing))
        check_asked(facts)
        if _count(facts, listing) > sum(summary.count for summary in self._listing.values()):
            raise ProtocolError("advertisements nobody asked for", code=Code.INTERLACE_LISTING)
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
            guess = self._mirrored().copy()
            guess.remove(missing)
            guess.put({record: leaf for record, (_, leaf) in listed.items()})
            if told.fits(guess):
                self._become(guess, listed)
        return asks or self._ask()

    def _guesses(self, told: Told, base: bytes | None, listed: Listing) -> Iterator[Partitions]:
        """Yield what the peer's table may be: the digest tells whether it is."""
        known = self.table
        begins = [known, self._foresee()] if len(self.sent) else [known]
        self._forget_foreseen()
        yield from begins
        if base is not None:
            fresh = {record: leaf for record, (_, leaf) in listed.items()}
            for begin in begins:
                if base in {known.check, begin.check}:
                    made = begin.copy()
                    made.put(fresh)
                    yield made
        if not len(known) and told.count == len(self.own):
            yield self._mirrored()

    def _mirrored(self) -> Partitions:
        """Return the table of a peer that has all of ours and no more."""
        if self._mirror is None or self._mirror[0] != self.own.check:
            self._mirror = self.own.check, self.own.expected()
        return self._mirror[1]

    # --- what follows from it ---

    def take_changes(self) -> AdvertChanges:
        """Return what changed since this was last asked."""
        adopted: Collection[str] = tuple(self._adopted)
        if self._alike is not None:
            adopted = self._alike if not adopted else (*self._alike, *adopted)
        changes = AdvertChanges(
            tuple(self._withdrawn), tuple(self._advertised), adopted, tuple(self._named)
        )
        self._withdrawn, self._advertised, self._adopted, self._named = [], [], [], []
        self._alike = None
        self._has_changed |= bool(changes)
        return changes

    def take_changed(self) -> bool:
        """Return whether anything has changed since this was last asked."""
        changed, self._has_changed = self._has_changed, False
        return changed

    def _parse(self, facts: list[Fact]) -> list[Summary]:
        # A phase may come in many blocks, and say the same in two of them.
        said = dict.fromkeys(fact for fact in facts if fact[0] == "AdvertisementPartition")
        self._summaries += sum(1 for _, prefix, count, _ in said if prefix or count != "0")
        limit = self.limits["max_partition_summaries"]
        if self._summaries > limit:
            raise LimitExceeded(
                "max_partition_summaries", configured=limit, observed=self._summaries
            )
        summaries = list(map(parse_summary, said))
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
            self._to_narrow.append(summary)

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
        if self._summaries + _CHILDREN * (len(self._to_narrow) + 1) > most:
            return True  # narrowing on would leave nothing for later loops, or break the limit
        if summary.count > self.parameters.listed_at_once(self.limits):
            return False
        if summary.count <= self.parameters.list_up_to:
            return True
        # Where nothing of ours lies, there is nothing that narrowing could settle.
        tables = (self.table, self.own)
        return all(next(table.records(summary.prefix), None) is None for table in tables)

    def _ask(self) -> list[Fact]:
        """Return what to ask now, each question once: a peer answers none of them twice."""
        few = self.parameters.narrowed_at_once(self.limits)
        self._narrowing = {summary.prefix: summary for summary in self._to_narrow[:few]}
        del self._to_narrow[:few]
        asks: list[Fact] = [("NarrowAdvertisementPartition", prefix) for prefix in self._narrowing]
        if asks and not self.parameters.lists_beside(self.limits):
            return asks
        size = 0
        most = self.parameters.listed_at_once(self.limits)
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
        if self.limits["max_fact_block_size"] < self.parameters.sketch_block:
            return False
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
        adverts = gather(dict.fromkeys(said), self.source)  # a fact that is said twice is one
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

    def _check_count(self, count: int, name: str = _LISTED) -> None:
        limit = self.limits[name]
        if count > limit:
            raise LimitExceeded(name, configured=limit, observed=count)

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
        self._mirror = None
        if not len(self.table) and len(table) > self.parameters.list_at_once:
            known = [record for record in listed if record in table]
            self._advertised += [listed[record][0] for record in known]
            self._alike = Alike(table.copy(), frozenset(known))
            self.table = table
            return
        for record in sorted(table.odd.keys() | self.table.odd.keys()):
            self._move(record, self.table.odd.get(record), table.odd.get(record), listed)
        come, gone = table.moved_in(table.differing(self.table), self.table.run)
        self._withdrawn += gone
        for record in come:
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


def _count(facts: list[Fact], listing: Listing) -> int:
    """Return how many records are listed, before anything is made of what was said of them."""
    said = {fact[1] for fact in facts if fact[0] == "Advertised"}
    return len(listing) + len(said - listing.keys())
