"""Where validated records are kept: in memory, or in one SQLite file."""

from lace.recordstore.base import RecordStore, Snapshot, StoredRecord, StoreRecordId
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore

__all__ = [
    "MemoryStore",
    "RecordStore",
    "Snapshot",
    "SqliteStore",
    "StoreRecordId",
    "StoredRecord",
]
