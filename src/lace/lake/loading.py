"""Single records of a lake for an exchange: a few straight from the files, many by partition."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from lace.ids import RecordHash
from lace.lake.jobs import job
from lace.lake.packed import PackedTable, pack_records, packed_record, run_number
from lace.lake.places import filesystem
from lace.lake.tables import Snapshot
from lace.limits import MIB
from lace.record.model import Record
from lace.record.validate import reread_intact

if TYPE_CHECKING:
    from lace.lake.peer import LakeStore

DIRECT: Final = 4096
"""Records that are looked for in the files before a spool is written."""
_RECENT_BYTES: Final = 8 * MIB


@dataclass(slots=True)
class Loading:
    """The records that one exchange asks for."""

    records: LakeStore
    standard: int
    """Of partitions: how many characters of a hash name one."""
    _recent: OrderedDict[str, Record] = field(default_factory=OrderedDict)
    memory: int = 0
    """Bytes of the records that are held."""
    _loaded: int = 0
    _spool: PackedTable | None = None

    def load(
        self,
        hashes: Sequence[str],
        snapshot: Snapshot,
        sendable: Callable[[], PackedTable | None],
    ) -> Iterator[Record | None]:
        """Yield records in the order asked; None for what is not here.

        What is described is asked for soon after: the records read last are held. Of many,
        ``sendable`` says which may be asked for; None: any.
        """
        held = {hash: self._recent[hash] for hash in hashes if hash in self._recent}
        left = [hash for hash in hashes if hash not in held]
        self._loaded += len(left)
        if self._spool is None and self._loaded > DIRECT:
            self._spool = self._write_spool(snapshot, sendable())
        direct: dict[str, Record] = {}
        if self._spool is None and left:
            direct = self.records.load_all(left, snapshot)
            self._hold(direct.values())
        for hash in hashes:
            found = held.get(hash) or direct.get(hash)
            if found is None and self._spool is not None:
                found = self._spooled(self._spool, hash, snapshot)
            yield found

    def _hold(self, records: Iterable[Record]) -> None:
        for record in records:
            self._recent[record.hash] = record
            self.memory += len(record.raw)
        while self.memory > _RECENT_BYTES:
            self.memory -= len(self._recent.popitem(last=False)[1].raw)

    def _spooled(self, spool: PackedTable, hash: str, snapshot: Snapshot) -> Record | None:
        raw = packed_record(spool.run(run_number(hash, self.standard)), hash)
        if raw is None:  # it came after the spool was written
            return self.records.load_all([hash], snapshot).get(RecordHash(hash))
        return reread_intact(raw)

    def _write_spool(self, snapshot: Snapshot, now: PackedTable | None) -> PackedTable:
        """Have the workers write what may be sent by partition: it is asked for in this order."""
        lake = self.records.lake
        folder = f"{lake.root}/spool/{uuid4().hex}"
        with job("what may be sent, by partition"):
            rows = snapshot.columns("hash", "raw")
            if now is not None:
                rows = rows.join(now.frame(lake.spark).select("hash"), "hash", "left_semi")
            return pack_records(rows, folder, snapshot.version.rows, self.standard)

    def close(self) -> None:
        """Drop what was written for this exchange alone."""
        if self._spool is not None:
            system, path = filesystem(self._spool.folder)
            system.delete_dir(path)
            self._spool = None


def bounded(records: Iterator[Record | None], most: int) -> Iterator[Record | None]:
    """Yield records until so many bytes are reached."""
    size = 0
    for record in records:
        yield record
        size += 0 if record is None else len(record.raw)
        if size >= most:
            return
