"""A lake as a peer: a small one is held in memory, a large one answers from its tables.

What the peer sends is written down and committed before it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Final
from uuid import uuid4

import pyarrow as pa

from lace.answering.store import StoreAnswers
from lace.errors import Code, LakeError, Outcome, Status
from lace.ids import RecordHash
from lace.interlace.machine import Side
from lace.lake.answers import LakeAnswers
from lace.lake.delta import Conflict
from lace.lake.rows import RowBatch, as_records
from lace.lake.tables import Lake, Snapshot
from lace.lake.writing import write_here
from lace.policy.foreign import Foreign
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.recordstore.memory import MemoryStore
from lace.serving.quota import Meter, MeteredAnswers

MIRRORED: Final = 100_000
"""Records of a lake that is held in memory for an exchange."""
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
        missing: Container[str] = (),
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
        self._lake_remembered = 0

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
        remembered = self._lake_records.lake.remembered()
        if remembered != self._lake_remembered:
            self._forgets += 1  # and nobody can tell which: exchanges look at everything again
            self._lake_remembered = remembered
        self._lake_as_of = snapshot

    def kept_out(self, hashes: Collection[str]) -> set[str]:
        return self._lake_records.lake.forgotten(hashes)

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        wanted = list(records)
        missing = {record.hash for record in wanted if not self.has(record.hash)}
        outcomes = self._lake_records.save(wanted, missing, self._lake_as_of)
        MemoryStore.save(self, [r for r, o in zip(wanted, outcomes, strict=True) if o.ok])
        return outcomes


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
    return LakeAnswers(records, side.index, exposure, side.limits, side.parameters, meter)
