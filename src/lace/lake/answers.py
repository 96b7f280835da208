"""What an exchange asks, answered from a lake of any size.

What may be sent is a table of digests in files of the lake (``lace.lake.packed``). The workers make
it, an exchange reads the partitions that it looks at, and the next exchange follows it by what the
lake's log says has come. Of a link is kept what both sides advertised at the last fixed point.

Rules that decide on each record apart are asked here about what came. All others are asked by Spark
about everything, whenever something came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from lace.answering.apart import ApartAnswers
from lace.answering.memory import basis_of, runtime_of
from lace.datalog.source import Fact
from lace.errors import LaceError, Outcome
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import read_block
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.interlace.partition import Partitions
from lace.lake.evaluate import LAKE_LIMITS
from lace.lake.facts import frame_of_table
from lace.lake.jobs import job
from lace.lake.keeping import Kept
from lace.lake.packed import (
    PackedTable,
    pack,
    pack_records,
    packed_record,
    peers_table,
    run_number,
    write_changed,
)
from lace.lake.places import filesystem
from lace.lake.plan import PeerAdverts, PlanOverLake, sending_depends_on_adverts
from lace.lake.rows import PROMOTED
from lace.lake.staging import Staging
from lace.lake.summarize import Advertising, adverts_here, digest_pairs
from lace.lake.tables import Lake, Snapshot
from lace.limits import DEFAULT_LIMITS, MIB, Limits
from lace.policy.one_by_one import OneByOne
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.record.validate import reread_intact
from lace.serving.quota import READ_ONLY, Meter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lace.lake.peer import LakeStore

FEW: Final = 20_000
"""So many records that came are looked at without Spark."""
_FILES_BEFORE_REWRITE: Final = 64  # that a table is in before it is written anew
_SCANNED: Final = 5_000_000  # records of which hashes are looked up without Spark
_AT_ONCE: Final = 1000  # records decided on together
_ANSWER: Final = 5000  # records in one part of an answer
_DIRECT: Final = 4096  # records that are looked for in the files before a spool is written
_RECENT_BYTES: Final = 8 * MIB
_ADVERT_BYTES: Final = 1000
_ADOPTED: Final = 100_000
"""So many adopted advertisements are made here; more are made by the workers."""
_LINK_TEXTS: Final = 10_000
"""So many advertisements in other words than ours are kept with a link."""


@dataclass(slots=True)
class _Moment:
    """The records of one version of a lake, as far as decisions on some of them look at them."""

    lake: Lake
    snapshot: Snapshot
    guards: dict[tuple[str, frozenset[tuple[str, str]]], list[Record]]
    """Those of files that were looked at; a file never changes."""
    _here: dict[str, bool] = field(default_factory=dict)

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        wanted = frozenset(values.items())
        for file in self.snapshot.version.files:
            found = self.guards.get((file.path, wanted))
            if found is None:
                version = replace(self.snapshot.version, files=(file,))
                found = list(Snapshot(None, version).having(values))
                self.guards[file.path, wanted] = found
            yield from found

    def look_up(self, hashes: Iterable[str]) -> None:
        """Find out at one go which of some records are here."""
        unknown = {hash for hash in hashes if hash not in self._here}
        # What is forgotten is not asked for, as if it were here.
        if self.snapshot.version.rows <= _SCANNED or not unknown:
            found = self.snapshot.present(unknown)
        else:
            staging = Staging(self.lake.root)
            names = pa.table({"hash": pa.array(sorted(unknown), pa.string())})
            with job("what is here"):
                wanted = frame_of_table(self.lake.spark, names, staging)
                here = self.snapshot.columns("hash").join(wanted, "hash", "left_semi").toArrow()
            staging.close()
            found = set(here.column("hash").to_pylist())
        found |= self.lake.forgotten(unknown)
        self._here |= {hash: hash in found for hash in unknown}

    def present(self, hashes: Sequence[str]) -> set[str]:
        self.look_up(hashes)
        return {hash for hash in hashes if self._here[hash]}


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
    _kept: Kept | None = None
    """What the lake keeps for this plan."""
    _table: PackedTable | None = None
    """The table that the exchange began from."""
    _said: Partitions | None = None
    """What may be sent by all that was answered so far."""
    _decided: bytes | None = None
    """A digest of what all decisions depend on, beside the records and what the peer says."""
    _apart: ApartAnswers | None = None
    _later: list[m.Evaluated] = field(default_factory=list)
    """What the next answer says first."""
    _guards: dict[tuple[str, frozenset[tuple[str, str]]], list[Record]] = field(
        default_factory=dict
    )
    _requests: set[str] = field(default_factory=set)
    """What may be requested, whether it is here or not."""
    _missing: set[str] = field(default_factory=set)
    """What may be requested and was not here at the last evaluation."""
    _adverts: dict[str, Advertisement] = field(default_factory=dict)
    _adopted: set[str] = field(default_factory=set)
    _recent: OrderedDict[str, Record] = field(default_factory=OrderedDict)
    _recent_bytes: int = 0
    _loaded: int = 0
    _spool: PackedTable | None = None
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.lake.root)

    @property
    def lake(self) -> Lake:
        return self.records.lake

    @property
    def memory(self) -> int:
        """About how many bytes are held."""
        apart = 0 if self._apart is None else self._apart.memory
        said = 0 if self._said is None else self._said.memory
        return said + apart + self._recent_bytes + _ADVERT_BYTES * len(self._adverts)

    # --- the beginning: a table of what may be sent ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Bring the table up to date; return it, and how the link stood if that is known."""
        self._plan, self._schema = asked.plan, asked.schema
        self._snapshot = snapshot = self.lake.snapshot()
        self._later, self._requests, self._missing = [], set(), set()
        self._adverts, self._adopted = {}, set()
        basis = basis_of(asked.plan, self.index, asked.schema, self.exposure, self.limits)
        standard = self.parameters.standard_prefix
        self._let_go()
        self._kept = Kept.of(self.lake.root, basis + bytes([standard]), self.lake.session)
        self._apart = self._decides_apart(asked)
        ticks = self.exposure.looks_at_time(asked.plan.operands[1 - self.index].viewer)
        if sending_depends_on_adverts(asked.plan):  # and nothing was advertised yet
            self._table, self._decided = None, None
            self._said = Partitions(2, standard=standard)
            return m.Recalled(ticks=ticks)
        self._decided = self._basis(asked.runtime)
        now = self._current(snapshot, asked.runtime)
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
        apart.look_at_guards(self._moment(self._snapshot))
        many = apart.has_many_guards(self.parameters.most_guards, asked.runtime)
        return None if many else apart

    def _moment(self, snapshot: Snapshot) -> _Moment:
        return _Moment(self.lake, snapshot, self._guards)

    def _basis(self, runtime: tuple[Fact, ...]) -> bytes:
        assert self._plan is not None
        found = runtime_of(self._plan, self.exposure, runtime)
        return found if self._apart is None else self._apart.basis(found)

    def _current(self, snapshot: Snapshot, runtime: tuple[Fact, ...]) -> PackedTable:
        """Return the table of a version: kept, followed from one that was, or made."""
        assert self._kept is not None
        assert self._decided is not None
        version = snapshot.version.number
        before = self._kept.newest(self._decided)
        if before is not None and before.note["lake"] == version:
            return before
        table = None if before is None else self._followed(before, snapshot, runtime)
        table = table or self._made(snapshot, runtime, before)
        return self._kept.save(table, self._decided, version)

    def _followed(
        self, kept: PackedTable, snapshot: Snapshot, runtime: tuple[Fact, ...]
    ) -> PackedTable | None:
        """Return a table with what came since decided on; None if that is not to be done here."""
        came = self._came(snapshot, kept.note["lake"])
        if self._apart is None or came is None or len(kept.files) > _FILES_BEFORE_REWRITE:
            return None
        assert self._plan is not None
        asked = m.Evaluate(plan=self._plan, schema=self._schema, runtime=runtime)
        table = kept.partitions
        moment = self._moment(snapshot)
        for part in self._apart.decide_some(moment, came.read_all(), frozenset(), asked):
            table.remove(part.unsendable)
            table.put(part.sendable)
        return write_changed(table, kept)

    def _came(self, snapshot: Snapshot, older: int) -> Snapshot | None:
        """Return what came after an older version; None if that is unknown, or too much."""
        files = self.lake.records_log.came_since(snapshot.version, older)
        if files is None or sum(file.rows for file in files) > FEW:
            return None
        return Snapshot(None, replace(snapshot.version, files=tuple(files)))

    def _made(
        self, snapshot: Snapshot, runtime: tuple[Fact, ...], kept: PackedTable | None
    ) -> PackedTable:
        """Have Spark make a table; digests that are known are not made again."""
        assert self._plan is not None
        over = self._over(snapshot, self._plan, runtime)
        try:
            return self._packed(over, snapshot, kept)
        finally:
            over.close()
            self._staging.close()

    def _packed(
        self, over: PlanOverLake, snapshot: Snapshot, kept: PackedTable | None
    ) -> PackedTable:
        plan, spark = over.plan, self.lake.spark
        sides = [
            Advertising(
                selection=plan.id, source=plan.operands[i].source_label, schema=self._schema
            )
            for i in (self.index, 1 - self.index)
        ]
        with job("what may be sent"):
            sendable = over.may_send()
            fresh = snapshot.records.join(sendable, "hash", "left_semi")
            known: DataFrame | None = None
            if kept is not None and kept.count:
                frame = kept.frame(spark)
                here = snapshot.columns("hash").join(sendable, "hash", "left_semi")
                known = frame.join(here, "hash", "left_semi")
                fresh = fresh.join(frame.select("hash"), "hash", "left_anti")
            made = digest_pairs(fresh, *sides)
            everything = made if known is None else made.unionByName(known)
            assert self._kept is not None
            rows, standard = snapshot.version.rows, self.parameters.standard_prefix
            return pack(everything, self._kept.folder, rows, standard)

    def _over(
        self, snapshot: Snapshot, plan: ExchangePlan, runtime: tuple[Fact, ...]
    ) -> PlanOverLake:
        return PlanOverLake(
            snapshot=snapshot,
            plan=plan,
            index=self.index,
            exposure=self.exposure,
            runtime=runtime,
            adverts=PeerAdverts(listed=self._adverts, adopted=frozenset(self._adopted)),
            schema=self._schema,
            limits=LAKE_LIMITS,
        )

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
        if apart is not None:
            self._missing = apart.wanted
        yield m.Evaluated()

    def _evaluate_apart(
        self, apart: ApartAnswers, asked: m.Evaluate, snapshot: Snapshot
    ) -> Iterator[m.Evaluated]:
        """Decide here on what came and on what the peer spoke of."""
        assert self._snapshot is not None
        moment, before = self._moment(snapshot), self._snapshot.version.number
        apart.hear(asked)
        moment.look_up(advert.record for advert in asked.advertised)
        if snapshot.version.number != before:
            apart.look_at_guards(moment)
        decided = self._basis(asked.runtime)
        came = self._came(snapshot, before) if decided == self._decided else None
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
        for hash in asked.withdrawn:
            self._adverts.pop(hash, None)
            self._adopted.discard(hash)
        for advert in asked.advertised:
            self._adverts[advert.record] = advert
        if not asked.plan.adverts_stand_alone:  # else what is said of records here changes nothing
            self._adopt(asked, snapshot)
        assert self._snapshot is not None
        decided, before = self._basis(asked.runtime), self._snapshot.version.number
        is_same = decided == self._decided and snapshot.version.number == before
        self._decided = decided
        if not is_same or sending_depends_on_adverts(asked.plan):
            yield from self._begin_again(snapshot, asked.runtime)
        over = self._over(snapshot, asked.plan, asked.runtime)
        try:
            requests = over.may_request()
        finally:
            over.close()
            self._staging.close()
        added, removed = requests - self._requests, self._requests - requests
        self._requests = requests
        here = self._moment(snapshot).present(sorted(added))
        self._missing = (self._missing - removed) | (added - here)
        yield m.Evaluated(requestable=frozenset(added - here), unrequestable=frozenset(removed))

    def _begin_again(self, snapshot: Snapshot, runtime: tuple[Fact, ...]) -> Iterator[m.Evaluated]:
        """Decide on everything; yield how that differs from what was said."""
        assert self._said is not None
        assert self._plan is not None
        if sending_depends_on_adverts(self._plan):
            now = self._made(snapshot, runtime, None)
        else:
            now = self._current(snapshot, runtime)
        yield from _differences(now.partitions, self._said)

    def _adopt(self, asked: m.Evaluate, snapshot: Snapshot) -> None:
        """Take over what the peer advertises in our words: here while it is little, else there."""
        adopted = self._adopted | set(asked.adopted)
        if len(adopted) + len(self._adverts) > _ADOPTED:
            self._adopted = adopted
            return
        if adopted:
            peer = asked.plan.operands[1 - self.index].source_label
            saying = Advertising(selection=asked.plan.id, source=peer, schema=asked.schema)
            with job("what the peer advertises"):
                for advert in adverts_here(self._chosen(snapshot, adopted), saying):
                    self._adverts[advert.record] = advert

    def _chosen(self, snapshot: Snapshot, hashes: Iterable[str]) -> DataFrame:
        names = pa.table({"hash": pa.array(sorted(hashes), pa.string())})
        wanted = frame_of_table(self.lake.spark, names, self._staging)
        return snapshot.records.join(wanted, "hash", "left_semi")

    # --- single records ---

    def serve(self, asked: m.Serve) -> m.Served:
        """Return requested records as far as they fit."""
        return m.Served(tuple(_bounded(self._load(asked.hashes), asked.bytes)))

    def save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        """Write records down and commit them before they are acknowledged."""
        return self._save(records) if self.meter is None else self.meter.save(self._save, records)

    def _save(self, records: Sequence[Record]) -> list[Outcome[Record]]:
        return self.records.save(records, self._missing, self._snapshot)

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

    def _load(self, hashes: Sequence[str]) -> Iterator[Record | None]:
        """Yield records in the order asked; None for what is not here.

        What is described is asked for soon after: the records read last are held.
        """
        snapshot = self._snapshot or self.lake.snapshot()
        held = {hash: self._recent[hash] for hash in hashes if hash in self._recent}
        left = [hash for hash in hashes if hash not in held]
        self._loaded += len(left)
        if self._spool is None and self._loaded > _DIRECT:
            self._spool = self._write_spool(snapshot)
        direct: dict[str, Record] = {}
        if self._spool is None and left:
            direct = self.records.load_all(left, snapshot)
            self._hold(direct.values())
        for hash in hashes:
            found = held.get(hash) or direct.get(hash)
            yield found if found is not None or self._spool is None else self._spooled(hash)

    def _hold(self, records: Iterable[Record]) -> None:
        for record in records:
            self._recent[record.hash] = record
            self._recent_bytes += len(record.raw)
        while self._recent_bytes > _RECENT_BYTES:
            self._recent_bytes -= len(self._recent.popitem(last=False)[1].raw)

    def _spooled(self, hash: str) -> Record | None:
        assert self._spool is not None
        number = run_number(hash, self.parameters.standard_prefix)
        raw = packed_record(self._spool.run(number), hash)
        if raw is None:  # it came after the spool was written
            return self.records.load_all([hash], self._snapshot).get(RecordHash(hash))
        return reread_intact(raw)

    def _write_spool(self, snapshot: Snapshot) -> PackedTable:
        """Have the workers write what may be sent by partition: it is asked for in this order."""
        assert self._said is not None
        folder = f"{self.lake.root}/spool/{uuid4().hex}"
        with job("what may be sent, by partition"):
            rows = snapshot.columns("hash", "raw")
            if self._table is not None:
                now = write_changed(self._said, self._table)
                rows = rows.join(now.frame(self.lake.spark).select("hash"), "hash", "left_semi")
            return pack_records(
                rows, folder, snapshot.version.rows, self.parameters.standard_prefix
            )

    # --- what is kept of a link ---

    def _known(self, link: bytes, now: PackedTable) -> m.LinkState | None:
        """Return how a link stood; note what has changed in what may be sent since."""
        assert self._plan is not None
        assert self._kept is not None
        found = self._kept.link(link if self._takes else link + READ_ONLY)
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
                self._adverts |= gather(read_block(text), source)
            self._requests = set(wanted)
        self._missing = set(wanted)
        before, after = own.partitions, now.partitions
        differing = after.differing(before)
        most = sum(after.root(run)[0] for run in differing)
        if most > FEW and sum(1 for _ in _moved(after, before, differing)) > FEW:
            # Too much to tell as news: the peer finds out by itself what this side has.
            self._table, self._said = now, after
        else:
            self._table, self._said = own, before
            self._later = [replace(p, more=True) for p in _differences(after, before)]
        state = m.LinkState(self._said.copy(), peers.partitions, wanted)
        for part in self._later:
            self._said.remove(part.unsendable)
            self._said.put(part.sendable)
        self._later += self._stale(wanted)
        return state

    def _stale(self, wanted: frozenset[str]) -> Iterator[m.Evaluated]:
        """Yield that what was wanted and is here by now is wanted no more."""
        assert self._snapshot is not None
        here = self._moment(self._snapshot).present(sorted(wanted))
        self._missing -= here
        if self._apart is not None:
            self._apart.wanted -= here
        yield m.Evaluated(unrequestable=frozenset(here), more=True)

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
        assert self._kept is not None
        assert self._decided is not None
        own = write_changed(state.own, self._table)
        self._kept.save(own, self._decided, self._snapshot.version.number)
        texts: dict[str, str] = {}
        lost: list[str] = []
        expected = state.own.expected()
        for now, _ in _moved(state.peers, expected, state.peers.differing(expected)):
            advert = self._advert(now) if now else None
            if now and advert is None:
                lost.append(now)
            elif advert is not None:
                texts[now] = advert.canonical().decode()
        if len(texts) > _LINK_TEXTS or len(state.wanted) > _LINK_TEXTS:
            return
        peers = state.peers.copy()
        peers.remove(lost)
        note = {"texts": texts, "wanted": sorted(state.wanted)}
        link = link if self._takes else link + READ_ONLY
        self._kept.keep_link(link, [own, peers_table(peers, own)], note)

    def _advert(self, record: str) -> Advertisement | None:
        if self._apart is not None:
            return self._apart.advert(record)
        return self._adverts.get(record)

    def close(self) -> None:
        """End: drop what was written for this exchange alone."""
        if self._spool is not None:
            system, path = filesystem(self._spool.folder)
            system.delete_dir(path)
            self._spool = None
        self._staging.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


def _bounded(records: Iterator[Record | None], most: int) -> Iterator[Record | None]:
    size = 0
    for record in records:
        yield record
        size += 0 if record is None else len(record.raw)
        if size >= most:
            return


def _moved(now: Partitions, before: Partitions, runs: Collection[int]) -> Iterator[tuple[str, str]]:
    """Yield each record of some partitions whose entry is new, or second each that is gone."""
    for run in runs:
        came, gone = now.moved(run, before.run(run))
        yield from ((record, "") for record in came)
        yield from (("", record) for record in gone)


def _differences(now: Partitions, before: Partitions) -> Iterator[m.Evaluated]:
    """Yield how one table differs from another, in parts."""
    come: dict[str, bytes] = {}
    for run in now.differing(before):
        came, gone = now.moved(run, before.run(run))
        for record in came:
            come[record] = now.find(record) or b""
        unsendable = frozenset(gone).difference(came)
        if unsendable:
            yield m.Evaluated(unsendable=unsendable)
        if len(come) >= _ANSWER:
            yield m.Evaluated(sendable=come)
            come = {}
    if come:
        yield m.Evaluated(sendable=come)
