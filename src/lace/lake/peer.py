"""A lake as a peer: what an exchange asks for, answered from tables.

Sets come from Spark: what may be sent, with digests made by the workers, and what may be requested.
Single records are read straight from the files, many of them from a spool that one pass over the
lake writes. What the peer sends is written down and committed before it is acknowledged.

Nothing is remembered of links: an exchange with a lake begins with summaries each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa

from lace.answering.store import StoreAnswers
from lace.datalog.source import Fact
from lace.errors import Code, LakeError, Outcome, Status
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise
from lace.interlace.machine import Side
from lace.lake.delta import Conflict
from lace.lake.evaluate import LAKE_LIMITS
from lace.lake.export import export_bundles
from lace.lake.facts import frame_of_table
from lace.lake.jobs import job
from lace.lake.places import filesystem, read_range
from lace.lake.plan import PeerAdverts, PlanOverLake, sending_depends_on_adverts
from lace.lake.rows import RowBatch, as_records
from lace.lake.staging import Staging
from lace.lake.summarize import Advertising, adverts_here, digest_pairs
from lace.lake.tables import Lake, Snapshot
from lace.lake.writing import write_here
from lace.policy.foreign import Foreign
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.record.split import Frame, RecordSplitter
from lace.record.validate import reread
from lace.recordstore.base import StoreRecordId
from lace.recordstore.memory import MemoryStore
from lace.serving.quota import Meter, MeteredAnswers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ANSWER: Final = 5000  # records in one part of an answer
_DIRECT: Final = 1024  # records that are read one by one before a spool is written
_SENDABLE_BYTES: Final = 300
_ADVERT_BYTES: Final = 1000
MIRRORED: Final = 100_000
"""Records of a lake, or advertisements of a peer, that are held in memory for an exchange."""
_TRIES: Final = 20
_EVERYTHING: Final = 1 << 31


@dataclass
class LakeStore:
    """Single records of a lake: read, and written so that they stay."""

    lake: Lake
    label: str = "interlace"
    """What the column ``bundle`` says of records that came this way."""
    _lock: RLock = field(default_factory=RLock)

    def load_all(
        self, hashes: Iterable[str], snapshot: Snapshot | None = None
    ) -> dict[str, Record]:
        """Return the records of these hashes that are here."""
        snapshot = snapshot or self.lake.snapshot()
        return {record.hash: record for record in snapshot.load(set(hashes))}

    def save(
        self,
        records: Sequence[Record],
        missing: Collection[str] = (),
        as_of: Snapshot | None = None,
        offsets: Mapping[RecordHash, int] | None = None,
    ) -> list[Outcome[Record]]:
        """Write records down in one commit; say of each whether it was new.

        ``missing`` are hashes that are known not to be in a snapshot; the others are looked up.
        ``offsets`` say where in a bundle records were found.
        """
        with self._lock:
            before = as_of or self.lake.snapshot()
            doubtful = {r.hash for r in records if as_of is None or r.hash not in missing}
            known: set[str] = set(self.load_all(doubtful, before)) if doubtful else set()
            for _ in range(_TRIES):
                now = self.lake.snapshot()
                known |= self.load_all(
                    {r.hash for r in records} - known, now.added_since(before)
                ).keys()
                before = now
                gone = self.lake.forgotten({r.hash for r in records})
                fresh = {r.hash: r for r in records if r.hash not in known | gone}
                if fresh:
                    try:
                        self._commit(list(fresh.values()), now.version.number, offsets or {})
                    except Conflict:
                        continue
                return [_outcome(record, fresh, gone) for record in records]
            raise LakeError(f"{self.lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)

    def _commit(
        self, records: list[Record], expected: int, offsets: Mapping[RecordHash, int]
    ) -> None:
        batch = RowBatch(self.label)
        for number, record in enumerate(records):
            place = offsets.get(record.hash, number)
            batch.add(place, record.raw, Outcome(Status.ACCEPTED, record))
        name = f"interlace-{uuid4().hex}"
        table = as_records(pa.Table.from_batches([batch.take()]), name)
        log = self.lake.records_log
        file = write_here(table, log)
        note = {"ingest": name, "step": 1, "records": len(table), "duplicates": 0, "quarantined": 0}
        try:
            log.commit([file], work=f"lace-{name}", step=1, expected=expected, note=note)
        except Conflict:
            log.drop([file.path])
            raise


def _outcome(
    record: Record, fresh: Mapping[RecordHash, Record], gone: Collection[str]
) -> Outcome[Record]:
    if record.hash in gone:
        code = Code.LAKE_FORGOTTEN
        return Outcome(Status.REFUSED, None, code, code.meaning)
    return Outcome(Status.ACCEPTED if record.hash in fresh else Status.DUPLICATE, record)


class Mirror(MemoryStore):
    """A small lake, held in memory for the time of an exchange; what is saved is in the lake first.

    Where the whole lake fits, the in-process engine answers in milliseconds what takes Spark
    seconds. It is brought up to date at the beginning of each exchange.
    """

    def __init__(self, records: LakeStore) -> None:
        super().__init__()
        self._lake_records = records
        self._lake_as_of: Snapshot | None = None

    def refresh(self, snapshot: Snapshot) -> None:
        """Take in what has come to the lake since the last time."""
        older = self._lake_as_of
        fresh = snapshot if older is None else snapshot.added_since(older)
        MemoryStore.save(self, fresh.read_all())
        if older is not None and older.added_since(snapshot).version.files:
            # Files are gone: they were merged with others, or written again without something.
            there = snapshot.hashes()
            held = [entry.hash for entry in self.read(StoreRecordId(0), _EVERYTHING)]
            self.forget(hash for hash in held if hash not in there)
        self._lake_as_of = snapshot

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        wanted = list(records)
        missing = {record.hash for record in wanted if not self.has(record.hash)}
        outcomes = self._lake_records.save(wanted, missing, self._lake_as_of)
        MemoryStore.save(self, [r for r, o in zip(wanted, outcomes, strict=True) if o.ok])
        return outcomes


@dataclass(slots=True)
class _Spool:
    """Records written out by one pass over the lake, found by their offsets."""

    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    @classmethod
    def write(cls, records: DataFrame, folder: str) -> _Spool:
        spool = cls()
        for bundle in export_bundles(records, folder).bundles:
            splitter = RecordSplitter()
            info = filesystem(bundle)[0].get_file_info(filesystem(bundle)[1])
            for chunk in read_range(bundle, 0, info.size):
                for frame in splitter.feed(chunk):
                    assert isinstance(frame, Frame)
                    record = reread(frame.raw)
                    spool.places[record.hash] = (bundle, frame.offset, len(frame.raw))
        return spool

    def read(self, hash: str) -> Record | None:
        place = self.places.get(hash)
        if place is None:
            return None
        bundle, offset, length = place
        return reread(b"".join(read_range(bundle, offset, offset + length)))


@dataclass(slots=True)
class LakeAnswers:
    """Answers from a lake: sets from Spark, single records from the files."""

    records: LakeStore
    index: int
    exposure: Exposure = field(default_factory=Exposure)
    meter: Meter | None = None
    """Counts what the peer gives, and says whether anything of it is stored; None takes all."""
    _schema: frozenset[str] | None = None
    _snapshot: Snapshot | None = None
    """What the last evaluation looked at."""
    _plan: ExchangePlan | None = None
    _digests: dict[str, bytes] = field(default_factory=dict)
    """Of each record that may be sent: its digest, and the one that the peer would make."""
    _requests: set[str] = field(default_factory=set)
    """What may be requested, whether it is here or not."""
    _missing: set[str] = field(default_factory=set)
    """What may be requested and was not here at the last evaluation."""
    _adverts: dict[str, Advertisement] = field(default_factory=dict)
    _adopted: set[str] = field(default_factory=set)
    _runtime: tuple[Fact, ...] = ()
    _spool: _Spool | None = None
    _spool_folder: str = ""
    _loaded: int = 0
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.lake.root)

    @property
    def lake(self) -> Lake:
        return self.records.lake

    @property
    def memory(self) -> int:
        """About how many bytes are held: names and digests of what may be sent."""
        return _SENDABLE_BYTES * len(self._digests) + _ADVERT_BYTES * len(self._adverts)

    # --- sets ---

    def evaluate(self, asked: m.Evaluate) -> Iterator[m.Evaluated]:
        snapshot = self.lake.snapshot()
        for hash in asked.withdrawn:
            self._adverts.pop(hash, None)
            self._adopted.discard(hash)
        for advert in asked.advertised:
            self._adverts[advert.record] = advert
        if not asked.plan.adverts_stand_alone:  # else what is said of records here changes nothing
            self._adopt(asked, snapshot)
        over = PlanOverLake(
            snapshot=snapshot,
            plan=asked.plan,
            index=self.index,
            exposure=self.exposure,
            runtime=asked.runtime,
            adverts=PeerAdverts(listed=self._adverts, adopted=frozenset(self._adopted)),
            schema=asked.schema,
            limits=LAKE_LIMITS,
        )
        try:
            yield from self._evaluate(asked, snapshot, over)
        finally:
            over.close()
            self._staging.close()

    def _evaluate(
        self, asked: m.Evaluate, snapshot: Snapshot, over: PlanOverLake
    ) -> Iterator[m.Evaluated]:
        is_new_plan = self._plan is None or self._plan.id != asked.plan.id
        is_new_lake = (
            self._snapshot is None or self._snapshot.version.number != snapshot.version.number
        )
        before = dict.fromkeys(self._digests)
        if is_new_plan:
            self._digests = {}
        if (
            is_new_plan
            or is_new_lake
            or asked.runtime != self._runtime
            or sending_depends_on_adverts(asked.plan)
        ):
            self._refresh_sendable(over, snapshot, asked)
        self._plan, self._schema, self._runtime = asked.plan, asked.schema, asked.runtime
        self._snapshot = snapshot
        requests = over.may_request()
        added, removed = requests - self._requests, self._requests - requests
        self._requests = requests
        here = self._here(snapshot, added)
        self._missing = (self._missing - removed) | (added - here)
        fresh = sorted(self._digests.keys() - before.keys())
        gone = before.keys() - self._digests.keys()
        for part in _parts(fresh):
            yield m.Evaluated(sendable={hash: self._digests[hash] for hash in part}, more=True)
        yield m.Evaluated(
            unsendable=frozenset(gone),
            requestable=frozenset(added - here if self._takes else ()),
            unrequestable=frozenset(removed),
        )

    def _adopt(self, asked: m.Evaluate, snapshot: Snapshot) -> None:
        """Take over what the peer advertises in our words: here while it is little, else there."""
        adopted = self._adopted | set(asked.adopted)
        if len(adopted) + len(self._adverts) > MIRRORED:
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

    def _refresh_sendable(self, over: PlanOverLake, snapshot: Snapshot, asked: m.Evaluate) -> None:
        operands = asked.plan.operands
        sides = [
            Advertising(
                selection=asked.plan.id, source=operands[i].source_label, schema=asked.schema
            )
            for i in (self.index, 1 - self.index)
        ]
        with job("what may be sent"):
            sendable = over.may_send()
            names = sendable.toArrow().column("hash").to_pylist()
            unknown = [name for name in names if name not in self._digests]
            chosen = self._chosen(snapshot, unknown)
            made = digest_pairs(chosen, *sides).toArrow() if unknown else None
        kept = {name: self._digests[name] for name in names if name in self._digests}
        if made is not None:
            columns = (made.column("hash").to_pylist(), made.column("digest").to_pylist())
            kept.update(zip(*columns, strict=True))
        self._digests = kept

    def _here(self, snapshot: Snapshot, hashes: set[str]) -> set[str]:
        """Return those of some hashes that are in the lake."""
        if not hashes:
            return set()
        with job("what is here"):
            found = self._chosen(snapshot, hashes).select("hash").toArrow()
        # What is forgotten is not asked for, as if it were here.
        return set(found.column("hash").to_pylist()) | self.lake.forgotten(hashes)

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

    def _load(self, hashes: Sequence[str]) -> Iterator[Record | None]:
        """Yield records in the order asked; None for what is not here."""
        snapshot = self._snapshot or self.lake.snapshot()
        self._loaded += len(hashes)
        if self._spool is None and self._loaded > _DIRECT:
            self._spool = self._write_spool(snapshot)
        spool = self._spool
        left = [hash for hash in hashes if spool is None or hash not in spool.places]
        direct = self.records.load_all(left, snapshot) if left else {}
        for hash in hashes:
            yield direct.get(hash) or (None if spool is None else spool.read(hash))

    def _write_spool(self, snapshot: Snapshot) -> _Spool:
        self._spool_folder = f"{self.lake.root}/spool/{uuid4().hex}"
        return _Spool.write(self._chosen(snapshot, self._digests), self._spool_folder)

    def describe(self, asked: m.Describe) -> m.Described:
        assert self._plan is not None
        mine = self._plan.operands[self.index].source_label
        made = [
            advertise(record.hash, mine, fields(record), self._schema)
            for record in self._load(asked.records)
            if record is not None
        ]
        return m.Described(tuple(made))

    # --- no memory of links ---

    def recall(self, asked: m.Recall) -> m.Recalled:
        """Begin from nothing."""
        self._schema = asked.schema
        viewer = asked.plan.operands[1 - self.index].viewer
        return m.Recalled(ticks=self.exposure.looks_at_time(viewer))

    def remember(self, told: m.Remember) -> None:
        """Keep nothing."""

    def close(self) -> None:
        if self._spool_folder:
            system, path = filesystem(self._spool_folder)
            system.delete_dir(path)
            self._spool, self._spool_folder = None, ""
        self._staging.close()


def _bounded(records: Iterator[Record | None], most: int) -> Iterator[Record | None]:
    size = 0
    for record in records:
        yield record
        size += 0 if record is None else len(record.raw)
        if size >= most:
            return


def _parts(hashes: list[str]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(hashes), _ANSWER):
        yield tuple(hashes[start : start + _ANSWER])


def lake_answers(
    records: LakeStore,
    side: Side,
    exposure: Exposure,
    *,
    mirror: Mirror | None = None,
    meter: Meter | None = None,
    foreign: Foreign | None = None,
) -> StoreAnswers | LakeAnswers:
    """Return who answers for a lake in one exchange.

    A lake of few records is mirrored (``mirror`` is one to go on with, ``foreign`` where rules of
    the peer are evaluated then); a larger one is left where it is, and Spark is asked. ``meter``
    counts what the peer gives.
    """
    snapshot = records.lake.snapshot()
    if snapshot.version.rows <= MIRRORED:
        mirror = mirror or Mirror(records)
        mirror.refresh(snapshot)
        made = MeteredAnswers.of(mirror, side, exposure, side.limits, foreign=foreign)
        assert isinstance(made, MeteredAnswers)
        made.meter = meter
        return made
    return LakeAnswers(records, side.index, exposure, meter)
