"""Answers under a plan that decides on each record apart: nothing is loaded, and little is kept.

Looked at are the records that came or went, and those that the peer spoke of. Everything is looked
at, in batches, when there is nothing to begin from: at first contact, when runtime facts changed
that rules look at, or when nobody knows what went. An answer may say again what is known already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, Protocol

from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import LimitExceeded
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, digests_of, gather
from lace.interlace.facts import read_block
from lace.interlace.partition import Partitions
from lace.policy.apart import Guard
from lace.policy.one_by_one import Entry, OneByOne
from lace.policy.origin import SourceLabel
from lace.record.model import Record
from lace.recordstore.base import FieldsOf, Snapshot

_FACT_BYTES: Final = 400  # as Python holds one


class Moment(Protocol):
    """What has to be known of the records of a moment to decide on some of them."""

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        """Yield the records that have a field of each of these names with this value."""

    def present(self, hashes: Sequence[str]) -> set[str]:
        """Return those of some records that were there, by name."""


@dataclass(slots=True)
class ApartAnswers:
    """What one side decides in one epoch, record by record."""

    rules: OneByOne
    schema: frozenset[str] | None
    """Fields that advertisements have; None for all."""
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Advertisements of the peer as they were kept when the epoch began."""
    own: Partitions | None = None
    """What this side advertised when that was kept last; None if it never was."""
    wanted: set[str] = field(default_factory=set)
    """What was requestable by the last answer."""
    runtime: bytes | None = None
    """A digest of what every decision depends on: the runtime facts that rules look at, and guards.
    None if nothing was decided yet."""
    told_by: frozenset[Guard] = frozenset()
    """How guards are told."""
    note: Callable[[Sequence[FieldsOf]], None] = lambda _described: None
    """Told what is advertised of the records that may be sent, before anybody asks."""
    _guards: list[Entry] = field(default_factory=list)
    _heard: dict[str, Advertisement | None] = field(default_factory=dict)
    """What the peer has said of records in this epoch; None for what it withdrew."""
    _offered: int = 0
    """How many facts that is."""

    def begin(
        self,
        texts: Mapping[str, bytes],
        own: Partitions | None,
        wanted: Iterable[str],
        runtime: bytes | None,
    ) -> None:
        """Begin with what was kept of the link, or what was told together with others."""
        self.texts, self.own, self.runtime = texts, own, runtime
        self.wanted = set(wanted)

    def perhaps_here(self, doubtful: AbstractSet[str]) -> set[str]:
        """Return what may have been here at the last answer, as far as that matters to the peer."""
        own = () if self.own is None else self.own.records("")
        offered = (advert.record for advert in self.adverts())
        return {*doubtful, *own, *offered} - self.wanted

    # --- guards ---

    def look_at_guards(self, snapshot: Moment) -> None:
        """Read the guards of a moment."""
        found = {
            record.hash: self.rules.entry(record, self._names)
            for values in self.told_by
            for record in snapshot.having(dict(values))
        }
        self._guards = [found[hash] for hash in sorted(found)]

    def has_many_guards(self, most: int, runtime: tuple[Fact, ...]) -> bool:
        """Whether the peer's rules can see more guards than so many; others do not count."""
        few = len(self._guards) <= most
        return not few and len(self.rules.shown(self._guards, runtime)) > most

    def basis(self, runtime: bytes) -> bytes:
        """Return a digest of what every decision depends on, beginning with the given one."""
        if not self.told_by:
            return runtime
        return runtime + digest("\n".join(guard.record for guard in self._guards).encode())

    def stands(self, runtime: bytes) -> bool:
        """Whether everything was decided by these runtime facts, whatever the guards are now."""
        return self.runtime is not None and self.runtime.startswith(runtime)

    # --- what the peer says ---

    def hear(self, asked: m.Evaluate) -> None:
        """Take note of what the peer advertises and what not any more."""
        for record in asked.withdrawn:
            self._hear(record, None)
        for advert in asked.advertised:
            self._hear(advert.record, advert)
        limit = self.rules.limits.advertised_facts
        if self._offered > limit:
            raise LimitExceeded("advertised_facts", configured=limit, observed=limit + 1)

    def _hear(self, record: str, advert: Advertisement | None) -> None:
        before, self._heard[record] = self._heard.get(record), advert
        for sign, one in ((-1, before), (1, advert)):
            if one is not None:
                self._offered += sign * (1 + len(one.fields))

    def advert(self, record: str) -> Advertisement | None:
        """Return what the peer is known to say of a record, in its own words."""
        if record in self._heard:
            return self._heard[record]
        text = self.texts.get(record)
        return None if text is None else self._read(record, text)

    def adverts(self) -> Iterator[Advertisement]:
        """Yield all that the peer is known to say in its own words."""
        for record, text in self.texts.items():
            if record not in self._heard:
                yield self._read(record, text)
        yield from filter(None, self._heard.values())

    def _read(self, record: str, text: bytes) -> Advertisement:
        return gather(read_block(text), self._peer)[record]

    @property
    def _peer(self) -> SourceLabel:
        return self.rules.plan.operands[1 - self.rules.index].source_label

    @property
    def memory(self) -> int:
        """About how many bytes are held."""
        return self._offered * _FACT_BYTES

    # --- deciding ---

    def decide_all(
        self, snapshot: Snapshot, doubtful: AbstractSet[str], runtime: tuple[Fact, ...]
    ) -> Iterator[m.Evaluated]:
        """Decide on everything; what is doubtful may or may not have been advertised before."""
        known = set() if self.own is None else set(self.own.records(""))
        before = known | doubtful
        for part in self.rules.sendable(self._everything(snapshot), runtime, self._guards):
            yield self._told(e for e in part if e.record not in known or e.record in doubtful)
            before.difference_update(entry.record for entry in part)
        yield m.Evaluated(unsendable=frozenset(before), more=True)
        yield self._gone(record for record in self.wanted if self.advert(record) is None)
        yield from self.decide_offers(snapshot, self.adverts(), runtime)

    def decide_some(
        self,
        snapshot: Moment,
        came: Iterable[Record],
        lost: AbstractSet[str],
        asked: m.Evaluate,
    ) -> Iterator[m.Evaluated]:
        """Decide on records that came, on some that may be lost, and on those spoken of."""
        here: set[str] = set()
        sendable: set[str] = set()
        for part in self.rules.sendable(self._entries(came, here), asked.runtime, self._guards):
            sendable.update(entry.record for entry in part)
            yield self._told(part)
        gone = lost - here
        yield m.Evaluated(unsendable=frozenset((here | gone) - sendable), more=True)
        yield self._gone(here)
        silent = {record for record in (*asked.withdrawn, *gone) if self.advert(record) is None}
        yield self._gone(silent)
        again = filter(None, map(self.advert, sorted(gone)))
        yield from self.decide_offers(snapshot, chain(asked.advertised, again), asked.runtime)

    def decide_offers(
        self, snapshot: Moment, offers: Iterable[Advertisement], runtime: tuple[Fact, ...]
    ) -> Iterator[m.Evaluated]:
        """Decide on what may be requested.

        Offers of records that are here are decided on as well: what the peer's rules do with what
        the peer says must not depend on what is here.
        """
        left = iter(offers)
        choose = self.rules.requests(runtime, self._guards)
        while batch := list(islice(left, self.rules.at_once)):
            found = {offer.record for offer in choose(batch)}
            found -= snapshot.present(sorted(found))
            self.wanted |= found
            yield m.Evaluated(requestable=frozenset(found), more=True)
            yield self._gone(a.record for a in batch if a.record not in found)

    def _told(self, entries: Iterable[Entry]) -> m.Evaluated:
        """Return the part of an answer that says what may be sent."""
        plan, index, schema = self.rules.plan, self.rules.index, self.schema
        labels = [plan.operands[i].source_label for i in (index, 1 - index)]
        described: Iterable[FieldsOf] = ((entry.record, entry.fields) for entry in entries)
        if schema is not None and schema != self._names:
            described = ((r, tuple(f for f in found if f[0] in schema)) for r, found in described)
        said = list(described)
        self.note(said)
        return m.Evaluated(sendable=digests_of(said, labels), more=True)

    def _gone(self, records: Iterable[str]) -> m.Evaluated:
        """Return the part of an answer that says what may not be requested."""
        unrequestable = frozenset(records)
        self.wanted -= unrequestable
        return m.Evaluated(unrequestable=unrequestable, more=True)

    # --- reading ---

    @property
    def _names(self) -> frozenset[str] | None:
        """The fields that anybody looks at; None for all of them."""
        looked_at = self.rules.names
        return None if looked_at is None or self.schema is None else looked_at | self.schema

    def _entries(self, records: Iterable[Record], hashes: set[str]) -> Iterator[list[Entry]]:
        """Yield records as rules look at them, and note their names."""
        left = iter(records)
        while batch := list(islice(left, self.rules.at_once)):
            hashes.update(record.hash for record in batch)
            yield [self.rules.entry(record, self._names) for record in batch]

    def _everything(self, snapshot: Snapshot) -> Iterator[list[Entry]]:
        names = frozenset[str]() if self.rules.needs_bytes else self._names
        for batch in snapshot.fields(names, self.rules.at_once):
            if self.rules.needs_bytes:
                records = snapshot.records([record for record, _ in batch])
                yield [self.rules.entry(record, self._names) for record in records]
            else:
                yield [Entry(*entry) for entry in batch]
