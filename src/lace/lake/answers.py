"""What an exchange asks, answered from a lake of any size.

What may be sent is a table of digests in files of the lake (``lace.lake.packed``). The workers make
it, an exchange reads the partitions that it looks at, and the next exchange follows it by what the
lake's log says has come. Of a link is kept what both sides advertised at the last fixed point.

Rules that decide on each record apart are asked here about what came. All others are asked by Spark
about everything, whenever something came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lace.answering.apart import ApartAnswers
from lace.answering.memory import basis_of, runtime_of
from lace.datalog.source import Fact
from lace.errors import LaceError, LimitExceeded, Outcome
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import read_block
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.interlace.partition import Partitions
from lace.lake.adverts import StagedAdverts
from lace.lake.changes import differences, moved
from lace.lake.facts import frame_of_table
from lace.lake.jobs import job
from lace.lake.keeping import Kept
from lace.lake.loading import Loading, bounded
from lace.lake.ordered import OrderedNames, changes
from lace.lake.packed import PackedTable, peers_table, write_changed
from lace.lake.plan import sending_depends_on_adverts
from lace.lake.rows import PROMOTED
from lace.lake.sendable import FEW, Sendable
from lace.lake.staging import Staging
from lace.lake.summarize import Advertising, adverts_here
from lace.lake.tables import Lake, Snapshot
from lace.limits import DEFAULT_LIMITS, LAKE, Limits
from lace.policy.one_by_one import OneByOne
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.serving.quota import READ_ONLY, Meter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lace.lake.peer import LakeStore

_AT_ONCE: Final = 1000  # records decided on together
_LINK_TEXTS: Final = 10_000
"""So many advertisements in other words than ours are kept with a link."""


@dataclass(slots=True)
class LakeAnswers:
    """The lake's half of one exchange; nothing is held that grows with the lake."""

    records: LakeStore
    index: int
    exposure: Exposure = field(default_factory=Exposure)
    limits: Limits = DEFAULT_LIMITS
    parameters: Parameters = DEFAULT_PARAMETERS
    meter: Meter | None = None
    """Counts what the peer gives, and says whether anything of it is stored; None takes all."""
    _plan: ExchangePlan | None = None
    _schema: frozenset[str] | None = None
    _snapshot: Snapshot | None = None
    """What the last evaluation looked at."""
    _sendable: Sendable | None = None
    """What may be sent, at any version."""
    _table: PackedTable | None = None
    """The table that the exchange began from."""
    _said: Partitions | None = None
    """What may be sent by all that was answered so far."""
    _decided: bytes | None = None
    """A digest of what all decisions depend on, beside the records and what the peer says."""
    _later: list[m.Evaluated] = field(default_factory=list)
    """What the next answer says first."""
    _requests: OrderedNames = field(default_factory=OrderedNames)
    """What may be requested, whether it is here or not."""
    _missing: Partitions = field(default_factory=lambda: Partitions(0))
    """What may be requested and was not here at the last evaluation: 33 bytes each."""
    _adverts: StagedAdverts = field(init=False)
    """What the peer advertises, unless that is decided on apart."""
    _told: int = 0
    """How many advertisements in words of its own it has sent."""
    _loading: Loading = field(init=False)
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.lake.root)
        self._adverts = StagedAdverts(self.lake.root)
        self._loading = Loading(self.records, self.parameters.standard_prefix)

    @property
    def lake(self) -> Lake:
        return self.records.lake

    @property
    def memory(self) -> int:
        """About how many bytes are held."""
        apart = 0 if self._apart is None else self._apart.memory
        said = 0 if self._said is None else self._said.memory
        spoken_of = self._adverts.memory + self._missing.memory
        return said + apart + self._loading.memory + spoken_of

    @property
    def _apart(self) -> ApartAnswers | None:
        """Decides on records apart, where the plan allows it."""
        return None if self._sendable is None else self._sendable.apart

    @property
    def _tables(self) -> Sendable:
        assert self._sendable is not None
        return self._sendable

    # --- the beginning: a table of what may be sent ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Bring the table up to date; return it, and how the link stood if that is known."""
        self._plan, self._schema = asked.plan, asked.schema
        self._snapshot = snapshot = self.lake.snapshot()
        self._later = []
        self._ask_for(OrderedNames())
        self._missing = Partitions(0, standard=self.parameters.standard_prefix)
        self._adverts.close()
        self._told = 0
        basis = basis_of(asked.plan, self.index, asked.schema, self.exposure, self.limits)
        standard = self.parameters.standard_prefix
        self._let_go()
        # What is let in again after it was forgotten was not asked for when links were kept.
        basis += bytes([standard]) + self.lake.remembered().to_bytes(4, "big")
        kept = Kept.of(self.lake.root, basis, self.lake.session)
        self._sendable = Sendable(
            self.lake, self.index, self.exposure, self.parameters, asked.plan, asked.schema, kept,
            self._adverts, self._staging, self.limits,
        )  # fmt: skip
        self._sendable.apart = self._decides_apart(asked)
        ticks = self.exposure.looks_at_time(asked.plan.operands[1 - self.index].viewer)
        self._decided = self._basis(asked.runtime)
        # Nothing was advertised yet, whatever depends on it.
        now = self._tables.current(snapshot, asked.runtime, self._decided)
        state = None if asked.link is None else self._known(asked.link, now)
        if state is None:
            self._table, self._said = now, now.partitions
            state = m.LinkState(self._said.copy(), Partitions(standard=standard))
        return m.Recalled(state, ticks)

    def _decides_apart(self, asked: m.Recall) -> ApartAnswers | None:
        """Return what decides on records apart, if the plan allows it and guards are few."""
        told_by = OneByOne.guards(asked.plan, self.index, self.exposure)
        if told_by is None or any(not dict(g).keys() & PROMOTED.keys() for g in told_by):
            return None
        most = min(self.parameters.answer_at_once, _AT_ONCE)
        rules = OneByOne(asked.plan, self.index, self.exposure, self.limits, most)
        apart = ApartAnswers(rules, asked.schema, told_by=told_by)
        assert self._snapshot is not None
        apart.look_at_guards(self._tables.moment(self._snapshot))
        many = apart.has_many_guards(self.parameters.most_guards, asked.runtime)
        return None if many else apart

    def _basis(self, runtime: tuple[Fact, ...]) -> bytes:
        assert self._plan is not None
        found = runtime_of(self._plan, self.exposure, runtime)
        return found if self._apart is None else self._apart.basis(found)

    # --- how decisions changed ---

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated]:
        """Look at the lake as it is now, and yield how decisions changed, in parts."""
        snapshot = self.lake.snapshot()
        for part in self._later:
            yield part
        self._later = []
        apart = self._apart
        if apart is not None:
            answer = self._evaluate_apart(apart, asked, snapshot)
        else:
            answer = self._evaluate_all(asked, snapshot)
        for part in answer:
            assert self._said is not None
            self._said.remove(part.unsendable)
            self._said.put(part.sendable)
            wanted = part.requestable if self._takes else frozenset[str]()
            yield replace(part, requestable=wanted, more=True)
        self._snapshot = snapshot
        yield m.Evaluated()

    def _evaluate_apart(
        self, apart: ApartAnswers, asked: m.Evaluate, snapshot: Snapshot
    ) -> Iterator[m.Evaluated]:
        """Decide here on what came and on what the peer spoke of."""
        assert self._snapshot is not None
        moment, before = self._tables.moment(snapshot), self._snapshot.version.number
        apart.hear(asked)
        moment.look_up(advert.record for advert in asked.advertised)
        if snapshot.version.number != before:
            apart.look_at_guards(moment)
        decided = self._basis(asked.runtime)
        came = self._tables.came(snapshot, before) if decided == self._decided else None
        self._decided = decided
        if came is not None:
            yield from apart.decide_some(moment, came.read_all(), frozenset(), asked)
            return
        yield from self._begin_again(snapshot, asked.runtime)
        silent = frozenset(record for record in apart.wanted if apart.advert(record) is None)
        apart.wanted -= silent
        yield m.Evaluated(unrequestable=silent)
        yield from apart.decide_offers(moment, apart.adverts(), asked.runtime)

    def _evaluate_all(self, asked: m.Evaluate, snapshot: Snapshot) -> Iterator[m.Evaluated]:
        """Have Spark decide on everything, where anything changed that decisions depend on."""
        self._hear(asked, snapshot)
        assert self._snapshot is not None
        decided, before = self._basis(asked.runtime), self._snapshot
        is_same = decided == self._decided and snapshot.version.number == before.version.number
        self._decided = decided
        has_spoken = bool(asked.withdrawn or asked.advertised or asked.adopted)
        if not is_same or (has_spoken and sending_depends_on_adverts(asked.plan)):
            yield from self._begin_again(snapshot, asked.runtime)
        yield from self._came(snapshot.added_since(before))
        over = self._tables.over(snapshot, asked.runtime)
        try:
            requests = over.may_request()
        finally:
            over.close()
            self._staging.close()
        last, self._requests = self._requests, requests
        try:
            yield from self._told_apart(changes(last, requests), snapshot)
        finally:
            last.close()

    def _told_apart(
        self, differing: Iterator[tuple[str, bool]], snapshot: Snapshot
    ) -> Iterator[m.Evaluated]:
        """Yield in parts what may be requested that may not have been before, and what no more."""
        while part := list(islice(differing, self.parameters.put_at_once)):
            added = [name for name, is_new in part if is_new]
            removed = [name for name, is_new in part if not is_new]
            here = self._tables.moment(snapshot).present(added)
            missing = frozenset(added) - here
            self._missing.remove(removed)
            self._missing.put(dict.fromkeys(missing, b""))
            yield m.Evaluated(requestable=missing, unrequestable=frozenset(removed))

    def _hear(self, asked: m.Evaluate, snapshot: Snapshot) -> None:
        """Take note of what the peer advertises and what not any more."""
        self._told += len(asked.advertised)
        if self._told > LAKE.peer_adverts:
            raise LimitExceeded("peer_adverts", configured=LAKE.peer_adverts, observed=self._told)
        self._adverts.withdraw(asked.withdrawn)
        self._adverts.say(asked.advertised)
        if not asked.plan.adverts_stand_alone:  # else what is said of records here changes nothing
            self._adverts.say_as_here(asked.adopted)
            self._say_here(asked, snapshot)

    def _came(self, fresh: Snapshot) -> Iterator[m.Evaluated]:
        """Yield that what has come since it was missing may not be requested any more."""
        if not len(self._missing):
            return
        for names in fresh.hashes_in_parts():
            came = frozenset(self._missing.among(names))
            if came:
                self._missing.remove(came)
                yield m.Evaluated(unrequestable=came)

    def _ask_for(self, requests: OrderedNames) -> None:
        self._requests.close()
        self._requests = requests

    def _begin_again(self, snapshot: Snapshot, runtime: tuple[Fact, ...]) -> Iterator[m.Evaluated]:
        """Decide on everything; yield how that differs from what was said."""
        assert self._said is not None
        assert self._plan is not None
        if sending_depends_on_adverts(self._plan):
            now = self._tables.made(snapshot, runtime, self._table)
        else:
            assert self._decided is not None
            now = self._tables.current(snapshot, runtime, self._decided)
        yield from differences(now.partitions, self._said)

    def _say_here(self, asked: m.Evaluate, snapshot: Snapshot) -> None:
        """Make the advertisements that are as here, if they are few; else the workers make them."""
        records, schema = self._adverts.held_as_here(), asked.schema
        if self._adverts.are_written or not records:
            return
        if not self._adverts.has_room_for(
            len(records), len(PROMOTED if schema is None else schema)
        ):
            self._adverts.write()
            return
        peer = asked.plan.operands[1 - self.index].source_label
        saying = Advertising(selection=asked.plan.id, source=peer, schema=schema)
        with job("what the peer advertises"):
            self._adverts.say(adverts_here(self._chosen(snapshot, records), saying))

    def _chosen(self, snapshot: Snapshot, hashes: Iterable[str]) -> DataFrame:
        names = pa.table({"hash": pa.array(sorted(hashes), pa.string())})
        wanted = frame_of_table(self.lake.spark, names, self._staging)
        return snapshot.records.join(wanted, "hash", "left_semi")

    # --- single records ---

    def serve(self, asked: m.Serve) -> m.Served:
        """Return requested records as far as they fit."""
        return m.Served(tuple(bounded(self._load(asked.hashes), asked.bytes)))

    def _load(self, hashes: Sequence[str]) -> Iterator[Record | None]:
        snapshot = self._snapshot or self.lake.snapshot()
        return self._loading.load(hashes, snapshot, self._now)

    def _now(self) -> PackedTable | None:
        """Return a table of what may be sent by all that was answered so far, if there is one."""
        if self._table is None or self._said is None:
            return None
        return write_changed(self._said, self._table)

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Write records down and commit them before they are acknowledged."""
        return self._save(records) if self.meter is None else self.meter.save(self._save, records)

    def _save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        missing = self._missing if self._apart is None else self._apart.wanted
        return self.records.save(records, missing, self._snapshot)

    @property
    def _takes(self) -> bool:
        return self.meter is None or self.meter.takes

    def describe(self, asked: m.Describe) -> m.Described:
        assert self._plan is not None
        mine = self._plan.operands[self.index].source_label
        made = [
            advertise(record.hash, mine, fields(record), self._schema)
            for record in self._load(asked.records)
            if record is not None
        ]
        return m.Described(tuple(made))

    # --- what is kept of a link ---

    def _known(self, link: bytes, now: PackedTable) -> m.LinkState | None:
        """Return how a link stood; note what has changed in what may be sent since."""
        assert self._plan is not None
        found = self._tables.kept.link(link if self._takes else link + READ_ONLY)
        if found is None:
            return None
        own, peers, note = found
        texts = {str(r): str(text).encode() for r, text in note.get("texts", {}).items()}
        wanted = frozenset(map(str, note.get("wanted", ())))
        if self._apart is not None:
            self._apart.texts = texts
            self._apart.wanted = set(wanted)
        else:
            source = self._plan.operands[1 - self.index].source_label
            for text in texts.values():
                self._adverts.say(gather(read_block(text), source).values())
            self._ask_for(OrderedNames.of(wanted))
            self._missing.put(dict.fromkeys(wanted, b""))
        before, after = own.partitions, now.partitions
        differing = after.differing(before)
        most = sum(after.content(run)[0] for run in differing)
        if most > FEW and sum(1 for _ in moved(after, before, differing)) > FEW:
            # Too much to tell as news: the peer finds out by itself what this side has.
            self._table, self._said = now, after
        else:
            self._table, self._said = own, before
            self._later = [replace(p, more=True) for p in differences(after, before)]
        state = m.LinkState(self._said.copy(), peers.partitions, wanted)
        for part in self._later:
            self._said.remove(part.unsendable)
            self._said.put(part.sendable)
        self._later += self._stale(wanted)
        return state

    def _stale(self, wanted: frozenset[str]) -> Iterator[m.Evaluated]:
        """Yield that what was wanted and is here by now is wanted no more."""
        assert self._snapshot is not None
        here = self._tables.moment(self._snapshot).present(sorted(wanted))
        if self._apart is None:
            self._missing.remove(here)
        else:
            self._apart.wanted -= here
        yield m.Evaluated(unrequestable=frozenset(here), more=True)

    def at_hand(self, asked: m.Question) -> None:
        """Return nothing: every answer has to be looked for."""

    def rest(self) -> None:
        """Do nothing: nobody waits for what is read from a lake."""

    def remember(self, told: m.Remember) -> None:
        """Keep how the link stands, if both sides are known and little of it is in other words."""
        if told.link is None or told.state is None or self._table is None or self._plan is None:
            return
        if not self._plan.adverts_stand_alone:
            return
        with suppress(LaceError, OSError):  # without it the next exchange has more to do
            self._keep(told.link, told.state)

    def _keep(self, link: bytes, state: m.LinkState) -> None:
        assert self._table is not None
        assert self._snapshot is not None
        assert self._decided is not None
        kept = self._tables.kept
        own = write_changed(state.own, self._table)
        kept.save(own, self._decided, self._snapshot.version.number)
        expected = state.own.expected()
        differing = moved(state.peers, expected, state.peers.differing(expected))
        names = list(islice((now for now, _ in differing if now), _LINK_TEXTS + 1))
        if len(names) > _LINK_TEXTS or len(state.wanted) > _LINK_TEXTS:
            return
        adverts = self._said_of(names)
        texts = {name: advert.canonical().decode() for name, advert in adverts.items()}
        lost = [name for name in names if name not in adverts]
        peers = state.peers.copy()
        peers.remove(lost)
        note = {"texts": texts, "wanted": sorted(state.wanted)}
        link = link if self._takes else link + READ_ONLY
        kept.keep_link(link, [own, peers_table(peers, own)], note)

    def _said_of(self, records: Sequence[str]) -> dict[str, Advertisement]:
        """Return what the peer says of some records in words of its own."""
        if self._apart is not None:
            found = ((record, self._apart.advert(record)) for record in records)
            return {record: advert for record, advert in found if advert is not None}
        assert self._plan is not None
        source = self._plan.operands[1 - self.index].source_label
        return self._adverts.find(self.lake.spark, records, source)

    def close(self) -> None:
        """End: drop what was written for this exchange alone."""
        self._loading.close()
        self._staging.close()
        self._adverts.close()
        self._requests.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._sendable is not None:
            self._sendable.kept.close()
            self._sendable = None
