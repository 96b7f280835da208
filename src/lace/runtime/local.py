"""The local half of an exchange: a store, an exposure, and the policy that follows a plan.

Answers what a machine asks about policy and advertisements. Facts are loaded once for a plan, only
those that its rules look at, and then follow what is stored; an answer costs in proportion to what
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.roles import RECORD_FACTS
from lace.datalog.source import Fact, MemorySource, Row
from lace.errors import StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import read_block
from lace.interlace.partition import Partitions, Settled
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.mentions import Mentions
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.base import RecordStore, Snapshot, StoreRecordId
from lace.runtime.mark import Mark, setting_of
from lace.runtime.resting import AtRest, Resting

_READ: Final = 1000
_HOLD_BYTES: Final = 64 * 1024 * 1024
_ANSWER: Final = 5000  # records in one part of an answer
_HAVE: Final = Predicate("Have", 1)
_ADVERTISED: Final = Predicate("Advertised", 2)
_ADVERTISED_FIELD: Final = Predicate("AdvertisedField", 5)

Schema = frozenset[str] | None


@dataclass(slots=True)
class LocalPolicy:
    """What one side of one exchange decides, over its store as it is."""

    store: RecordStore
    index: int
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    resting: Resting | None = None
    """Where the next exchange finds what this one leaves behind."""
    policy: ExchangePolicy | None = None
    """The plan made executable; None before the first evaluation."""
    _schema: Schema = None
    _mentions: Mentions | None = None
    _seen: StoreRecordId = field(default_factory=lambda: StoreRecordId(0))
    _runtime: tuple[Fact, ...] = ()
    _forgets: int = 0
    _forgot: bool = False
    """Whether anything was forgotten meanwhile; only the next exchange may ask for it again."""
    _recalled: list[Fact] = field(default_factory=list)
    _snapshot: Snapshot | None = None
    _is_held: bool = False
    """Whether the next evaluation has to go by this very snapshot."""
    _fresh: dict[str, Record] = field(default_factory=dict)
    """Records that this exchange has just stored, so that they need not be read again."""
    _fresh_bytes: int = 0

    def saved(self, records: Iterable[Record]) -> None:
        """Keep records at hand until they were evaluated, as far as there is room."""
        for record in records:
            if self._fresh_bytes < _HOLD_BYTES:
                self._fresh[record.hash] = record
                self._fresh_bytes += len(record.raw)

    # --- evaluation ---

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated]:
        """Answer ``Evaluate``, in parts of a bounded size."""
        forgets = self._forgets if self._is_held else self._look()
        self._is_held = False
        if self.policy is None or not _is_same(self.policy.plan, asked.plan):
            policy = self._begin(asked)
            self._forgets = forgets
            send, request = set(policy.may_send), set(policy.may_request)
            yield from self._answer(send, set(), request, set())
            return
        assert self._mentions is not None
        here: set[Row] = set()
        came: list[Fact] = []
        for record in self._new_records():
            here.add((record.hash,))
            came += self._mentions.facts(record)
        change = self.policy.apply(
            added=(*came, *self._advert_facts(asked), *asked.runtime),
            removed=(
                *(fact for fact in self._runtime if fact not in asked.runtime),
                *self._withdrawn_facts(asked.withdrawn, self._peer_label(asked.plan)),
                *(self._forgotten_facts() if forgets != self._forgets else ()),
            ),
        )
        self._forgot |= forgets != self._forgets
        self._runtime, self._forgets = asked.runtime, forgets
        sent, asked_for = change.may_send, change.may_request
        # Rules may have spoken of a record before it was here; to them nothing has changed then.
        sendable = {row for row in here if row in self.policy.may_send}
        yield from self._answer(
            sent.added | sendable, sent.removed, asked_for.added, asked_for.removed | here
        )

    def _look(self) -> int:
        """Take a snapshot for the next evaluation; return how often records were forgotten."""
        self.rest()
        forgets = self.store.forgets()  # before the snapshot: what comes between is seen next time
        self._snapshot = self.store.snapshot()
        return forgets

    def _begin(self, asked: m.Evaluate) -> ExchangePolicy:
        """Load what a plan's rules look at, and evaluate it in full."""
        assert self._snapshot is not None
        plan = asked.plan
        viewer = plan.operands[1 - self.index].viewer
        modules = [operand.module for operand in plan.operands]
        self._mentions = Mentions.of([*modules, *self.exposure.modules_for(viewer)])
        self._schema = asked.schema
        source = MemorySource(limits=self.limits)
        self._mentions.load(self._snapshot, source)
        self._seen = self._snapshot.high_water
        for fact in (*self._recalled, *self._advert_facts(asked), *asked.runtime):
            source.add(fact)
        self._recalled = []
        self._runtime = asked.runtime
        self.policy = ExchangePolicy(plan, self.index, source, self.exposure, self.limits)
        return self.policy

    def _answer(
        self, send: set[Row], unsend: set[Row], request: set[Row], unrequest: set[Row]
    ) -> Iterator[m.Evaluated]:
        assert self.policy is not None
        mine, theirs = self.policy.local.source_label, self.policy.peer.source_label
        here = self.policy.source
        missing = [row[0] for row in request if not here.has(("Have", *row))]
        for part in _parts(sorted(row[0] for row in send)):
            sendable, expected = self._digests(part, mine, theirs)
            yield m.Evaluated(sendable=sendable, expected=expected, more=True)
        yield m.Evaluated(
            unsendable=frozenset(row[0] for row in unsend),
            requestable=frozenset(missing),
            unrequestable=frozenset(row[0] for row in unrequest),
        )
        self._fresh, self._fresh_bytes = {}, 0

    def _new_records(self) -> Iterator[Record]:
        """Yield what was stored since the last evaluation, by whomever, up to the snapshot."""
        assert self._snapshot is not None
        for id, record in stored_after(self.store, self._seen, self._fresh):
            if id > self._snapshot.high_water:
                break  # it belongs to the next evaluation: this one goes by one moment
            if record is not None:
                yield record
        self._seen = self._snapshot.high_water

    def _forgotten_facts(self) -> Iterator[Fact]:
        """Yield the facts of records that are no longer here."""
        assert self.policy is not None
        assert self._snapshot is not None
        source = self.policy.source
        for (hash,) in list(source.iterate(_HAVE)):
            if self._snapshot.record(RecordHash(hash)) is None:
                for predicate in RECORD_FACTS:
                    for row in source.query(predicate, hash):
                        yield predicate.name, *row

    # --- advertisements ---

    def describe(self, asked: m.Describe) -> m.Described:
        """Answer ``Describe``, from the store as it was at the last evaluation."""
        assert self.policy is not None
        mine = self.policy.local.source_label
        made = {advert.record: advert for advert in self._describe(asked.records, mine)}
        return m.Described(tuple(made[hash] for hash in asked.records if hash in made))

    def _digests(self, records: list[str], *sources: SourceLabel) -> list[dict[str, bytes]]:
        """Return the digests of advertisements, by source."""
        found: list[dict[str, bytes]] = [{} for _ in sources]
        for described in self._describe(records, sources[0]):
            hash = described.record
            for source, digests in zip(sources, found, strict=True):
                digests[hash] = Advertisement(hash, source, described.fields).digest()
        return found

    def _describe(self, hashes: Sequence[str], source: SourceLabel) -> Iterator[Advertisement]:
        """Yield the advertisements of those records that are here, in any order."""
        if self._snapshot is None:
            self._snapshot = self.store.snapshot()
        schema = self._schema
        at_hand = filter(None, map(self._fresh.get, hashes))
        others = [hash for hash in hashes if hash not in self._fresh]
        for record in chain(at_hand, self._snapshot.records(others)):
            yield advertise(record.hash, source, fields(record, schema), schema)

    def _advert_facts(self, asked: m.Evaluate) -> Iterator[Fact]:
        for advert in asked.advertised:
            yield from advert.facts()
        if not asked.plan.adverts_stand_alone:
            for advert in self._describe(asked.adopted, self._peer_label(asked.plan)):
                yield from advert.facts()

    def _withdrawn_facts(self, records: Iterable[str], source: SourceLabel) -> Iterator[Fact]:
        for record in records:
            yield from self._known_facts(record, source)

    def _known_facts(self, record: str, source: SourceLabel) -> Iterator[Fact]:
        assert self.policy is not None
        for predicate in (_ADVERTISED, _ADVERTISED_FIELD):
            for row in self.policy.source.query(predicate, record, source):
                yield predicate.name, *row

    def _peer_label(self, plan: ExchangePlan) -> SourceLabel:
        return plan.operands[1 - self.index].source_label

    # --- cursors ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Answer ``Recall``: that nothing has changed, or what the peer advertised before."""
        settled = self._settled(asked)
        if settled is not None:
            return m.Recalled(settled=settled)
        self._schema = asked.schema
        tables = self._wake_up(asked)
        if tables is not None:
            return m.Recalled(tables=tables)
        source = self._peer_label(asked.plan)
        kept: dict[str, bytes] = {}
        with suppress(StoreError):
            kept = self.store.cursor(asked.link)
        adverts: dict[str, bytes] = {}
        for advert in self._describe([hash for hash, text in kept.items() if not text], source):
            adverts[advert.record] = advert.digest()
            if not asked.plan.adverts_stand_alone:
                self._recalled += advert.facts()
        for text in filter(None, kept.values()):
            for hash, advert in gather(read_block(text), source).items():
                adverts[hash] = advert.digest()
                self._recalled += advert.facts()
        return m.Recalled(adverts)

    def _settled(self, asked: m.Recall) -> Settled | None:
        """Return the last fixed point of a link, if all that it depended on is as it was."""
        text = None
        with suppress(StoreError):  # a file that is only read may be of an earlier version
            text = self.store.mark(asked.link)
        if text is None:
            return None
        mark = Mark.decode(text) if asked.settles else None
        if mark is None:
            with suppress(StoreError):  # whatever is wrong with it, it is not used again
                self.store.move_cursor(asked.link, {}, ())
            return None
        forgets = self._look()
        assert self._snapshot is not None
        setting = setting_of(asked.plan, asked.schema, self.exposure, asked.runtime)
        now = setting, self._snapshot.high_water, forgets
        if now != (mark.setting, mark.high_water, mark.forgets):
            return None
        self._is_held, self._forgets = True, forgets
        return mark.settled

    def _wake_up(self, asked: m.Recall) -> tuple[Partitions, Partitions] | None:
        """Go on from where the last exchange over this link left off, if that is still at hand."""
        found = None if self.resting is None else self.resting.take(asked.link)
        setting = setting_of(asked.plan, asked.schema, self.exposure, asked.runtime)
        if found is None or (found.setting, found.forgets) != (setting, self.store.forgets()):
            return None
        self.policy, self._mentions = found.policy, found.mentions
        self._seen, self._runtime, self._forgets = found.seen, found.runtime, found.forgets
        return found.own, found.peers

    def remember(self, told: m.Remember, tables: tuple[Partitions, Partitions]) -> None:
        """Keep a cursor; what the peer says in our own words is kept as a mere name."""
        assert self.policy is not None
        source = self.policy.peer.source_label
        kept = dict.fromkeys(told.alike, b"")
        for hash in told.known:
            known = gather(self._known_facts(hash, source), source).get(hash)
            if known is not None:
                kept[hash] = known.canonical()
        with suppress(StoreError):  # without it the next exchange has more to do, and no more
            if kept or told.gone:
                self.store.move_cursor(told.link, kept, told.gone)
        if told.settled is not None and not self._forgot:
            self._leave(told.link, told.settled, *tables)

    def _leave(self, link: bytes, settled: Settled, own: Partitions, peers: Partitions) -> None:
        """Leave behind what this exchange knows; it is at a fixed point, and ends there."""
        assert self.policy is not None
        assert self._mentions is not None
        setting = setting_of(self.policy.plan, self._schema, self.exposure, self._runtime)
        with suppress(StoreError):
            mark = Mark(setting, self._seen, self._forgets, settled)
            self.store.set_mark(link, mark.encode())
        if self.resting is not None:
            side = AtRest(
                setting, self.policy, self._mentions, self._seen, self._forgets, self._runtime,
                own, peers,
            )  # fmt: skip
            self.resting.put(link, side)

    # --- the end ---

    def rest(self) -> None:
        """Let go of the moment that was looked at last."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
        self._is_held = False

    close = rest


def stored_after(
    store: RecordStore, seen: StoreRecordId, at_hand: Mapping[str, Record]
) -> Iterator[tuple[StoreRecordId, Record | None]]:
    """Yield what was stored after an id, in order; None for what is gone again."""
    while batch := store.read(seen, _READ):
        for stored in batch:
            yield stored.id, at_hand.get(stored.hash) or store.load(stored.hash)
        seen = batch[-1].id


def _is_same(one: ExchangePlan, other: ExchangePlan) -> bool:
    """Whether a policy made for one plan serves the other: same rules, same parties."""
    return one.id == other.id and all(
        a.viewer == b.viewer for a, b in zip(one.operands, other.operands, strict=True)
    )


def _parts(records: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(records), _ANSWER):
        yield records[start : start + _ANSWER]
