"""Answers without a single shortcut: everything is evaluated afresh, every time it is asked for.

What ``StoreAnswers`` says must be what this says, byte for byte, however it came to know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from links import link_of

from lace.answering.following import Position
from lace.answering.memory import Known, basis_of, change_of, read_known, runtime_of
from lace.errors import Outcome
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import read_block
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.origin import SourceLabel
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, facts, fields
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.rules import LocalFacts

_ALL = 10**9


@dataclass(slots=True)
class PlainAnswers:
    """The plain reading of ``Answers``."""

    store: RecordStore
    side: Side
    exposure: Exposure
    limits: Limits = DEFAULT_LIMITS
    memory: int = 0
    _asked: m.Recall | None = None
    _adverts: dict[str, Advertisement] = field(default_factory=dict)
    """What the peer is known to have said of records, or to say as this side would."""
    _sendable: dict[str, bytes] = field(default_factory=dict)
    _wanted: set[str] = field(default_factory=set)
    _runtime: bytes = b""
    _position: Position = field(default_factory=lambda: Position(0, 0))
    _forgets: int | None = None
    _records: dict[str, Record] = field(default_factory=dict)
    """As they were at the last evaluation."""

    # --- memory ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        self._asked, self._records = asked, self._stored()
        self._adverts, self._sendable, self._wanted = {}, {}, set()
        if self._forgets is None:
            self._forgets = self.store.forgets()
        ticks = self.exposure.looks_at_time(asked.plan.operands[1 - self.side.index].viewer)
        kept = None if asked.link is None else link_of(self.store, asked.link)
        known = None if kept is None else read_known(kept, self.side.parameters.standard_prefix)
        if known is None or known.basis != self._basis(asked.plan):
            return m.Recalled(ticks=ticks)
        state = known.state
        peers = state.peers.copy()
        for record in state.peers.records(""):
            if record in known.texts:
                told = gather(read_block(known.texts[record]), self._theirs(asked.plan))
                self._adverts[record] = told[record]
            elif record in self._records:
                if not asked.plan.adverts_stand_alone:
                    self._adverts[record] = self._describe(record, self._theirs(asked.plan))
            else:
                peers.remove([record])
        self._sendable = {r: state.own.find(r) or b"" for r in state.own.records("")}
        self._wanted = set(state.wanted)
        return m.Recalled(m.LinkState(state.own, peers, state.wanted), ticks)

    def at_hand(self, asked: m.Question) -> None:
        """Look at everything anew, each time."""

    def rest(self) -> None:
        """Hold nothing that others wait for, at any time."""

    def remember(self, told: m.Remember) -> None:
        if told.link is None or told.state is None:
            return
        plan, state = self._plan, told.state
        texts: dict[str, bytes] = {}
        for record in list(state.peers.records("")):
            claimed = state.peers.digest(record)
            if claimed == state.own.digest(record, 1):
                continue
            known = self._adverts.get(record)
            if known is None and record in self._records:
                known = self._describe(record, self._theirs(plan))
            if known is not None and known.digest() == claimed:
                texts[record] = known.canonical()
            else:
                state.peers.remove([record])
        made = Known(self._basis(plan), self._position, self._runtime, state, texts)
        self.store.keep_link(told.link, change_of(made, None)[1])

    # --- evaluation ---

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated]:
        assert self._forgets is not None
        theirs, mine = self._theirs(asked.plan), self._mine(asked.plan)
        told = self.store.forgotten(self._forgets)
        lost = list(self._records) if told is None else told  # None: more than it keeps track of
        self._forgets = self.store.forgets()
        self._records = self._stored()
        self._position = Position(self.store.high_water(), self._forgets)
        self._runtime = runtime_of(asked.plan, self.exposure, asked.runtime)
        for record in asked.withdrawn:
            self._adverts.pop(record, None)
        self._adverts |= {advert.record: advert for advert in asked.advertised}
        if not asked.plan.adverts_stand_alone:
            here = [record for record in asked.adopted if record in self._records]
            self._adverts |= {record: self._describe(record, theirs) for record in here}
        source = LocalFacts(asked.runtime)
        for advert in self._adverts.values():
            for fact in advert.facts():
                source.add(fact)
        for stored in self._records.values():
            for fact in facts(stored):
                source.add(fact)
        policy = ExchangePolicy(asked.plan, self.side.index, source, self.exposure, self.limits)
        sendable = {
            record: self._describe(record, mine).digest() + self._describe(record, theirs).digest()
            for (record,) in policy.may_send
            if record in self._records
        }
        wanted = {record for (record,) in policy.may_request if record not in self._records}
        before, self._sendable = self._sendable, sendable
        waited, self._wanted = self._wanted, wanted
        yield m.Evaluated(
            sendable={r: digests for r, digests in sendable.items() if r not in before},
            unsendable=frozenset(before.keys() - sendable.keys()),
            requestable=frozenset(wanted - waited),
            unrequestable=frozenset(waited - wanted),
            forgotten=frozenset(hash for hash in lost if hash not in self._records),
        )

    # --- records ---

    def describe(self, asked: m.Describe) -> m.Described:
        mine = self._mine(asked.plan)
        here = [record for record in asked.records if record in self._records]
        return m.Described(tuple(self._describe(record, mine) for record in here))

    def serve(self, asked: m.Serve) -> m.Served:
        found = []
        size = 0
        for hash in asked.hashes:
            record = self.store.load(RecordHash(hash))
            found.append(record)
            size += len(record.raw) if record else 0
            if size >= asked.bytes:
                break
        return m.Served(tuple(found))

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        return self.store.save(records)

    def close(self) -> None:
        pass

    # --- small things ---

    def _stored(self) -> dict[str, Record]:
        entries = self.store.read(StoreRecordId(0), _ALL)
        return {e.hash: record for e in entries if (record := self.store.load(e.hash)) is not None}

    def _describe(self, hash: str, source: SourceLabel) -> Advertisement:
        record = self._records[hash]
        return advertise(record.hash, source, fields(record, self._schema), self._schema)

    def _basis(self, plan: ExchangePlan) -> bytes:
        link = None if self._asked is None else self._asked.link
        return basis_of(plan, self.side.index, self._schema, self.exposure, self.limits, link)

    @property
    def _plan(self) -> ExchangePlan:
        assert self._asked is not None
        return self._asked.plan

    @property
    def _schema(self) -> frozenset[str] | None:
        assert self._asked is not None
        return self._asked.schema

    def _mine(self, plan: ExchangePlan) -> SourceLabel:
        return plan.operands[self.side.index].source_label

    def _theirs(self, plan: ExchangePlan) -> SourceLabel:
        return plan.operands[1 - self.side.index].source_label
