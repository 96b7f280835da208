"""Records in memory that somebody else keeps: every change is told, and all of it can be put back.

For places where storage answers later, such as a browser's: the engine reads and writes at once,
and whoever keeps the changes says when they are safe. Changes are told in order, as ``Change``
values that need no knowledge of records: a table, a key, and a value or None where it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, NamedTuple

from lace.errors import Outcome, Status
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record.model import Record
from lace.record.validate import reread
from lace.recordstore.base import LinkChange, LinkMemory, StoreRecordId
from lace.recordstore.memory import MemorySnapshot, MemoryStore

Key = tuple[int | bytes | str, ...]
Table = Literal["records", "links", "numbers"]
_LAST: Final = "last"
_FORGETS: Final = "forgets"
_KEPT_OUT: Final = "kept out"


class Change(NamedTuple):
    """One thing that is to be kept, or that is gone."""

    table: Table
    key: Key
    """Of ``records`` an id; of ``links`` a link, for its head, or a link and the name of a part.

    Of ``numbers`` a name; a name and a hash for what was forgotten for good.
    """
    value: bytes | int | None


Tell = Callable[[list[Change]], None]


class MirroredStore(MemoryStore):
    """Keeps records in memory and tells every change; what was told once can be given back."""

    def __init__(self, tell: Tell, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._tell = tell
        self._latest: tuple[tuple[int, int], MemorySnapshot] | None = None

    def restore(self, kept: Iterable[tuple[Table, Key, bytes | int]]) -> None:
        """Take back what was told, in any order; the store must be new.

        Bytes of records were valid when they were told, and are not hashed again.
        """
        records: list[tuple[int, bytes]] = []
        links: dict[bytes, dict[Key, bytes]] = {}
        numbers: dict[Key, int] = {}
        for table, key, value in kept:
            if isinstance(value, int):
                numbers[key] = value
            elif table == "records":
                records.append((_number(key[0]), value))
            else:
                links.setdefault(_bytes(key[0]), {})[key[1:]] = value
        tell, self._tell = self._tell, _nobody
        for id, raw in sorted(records):
            self._last = StoreRecordId(id - 1)
            super().save([reread(raw)])
        self._last = StoreRecordId(max(self._last, numbers.get((_LAST,), 0)))
        self._forgets = numbers.get((_FORGETS,), 0)
        self._kept_out = {str(key[1]) for key in numbers if key[0] == _KEPT_OUT}
        for link, parts in links.items():
            head = parts.pop((), None)
            if head is not None:
                named = {_bytes(name): data for (name,), data in parts.items()}
                self._links[link] = LinkMemory(head, named)
        self._tell = tell

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        outcomes = super().save(records)
        fresh = [
            Change("records", (self._records[one.value.hash][0],), one.value.raw)
            for one in outcomes
            if one.status is Status.ACCEPTED and one.value is not None
        ]
        if fresh:
            self._tell([*fresh, Change("numbers", (_LAST,), self._last)])
        return outcomes

    def forget(self, hashes: Iterable[RecordHash], *, for_good: bool = False) -> int:
        wanted = dict.fromkeys(hashes)
        gone = [
            Change("records", (self._records[hash][0],), None)
            for hash in wanted
            if hash in self._records
        ]
        out = [
            Change("numbers", (_KEPT_OUT, hash), 1)
            for hash in wanted
            if for_good and hash not in self._kept_out
        ]
        count = super().forget(wanted, for_good=for_good)
        if gone or out:
            self._tell([*gone, *out, Change("numbers", (_FORGETS,), self._forgets)])
        return count

    def remember(self, hashes: Iterable[RecordHash]) -> int:
        wanted = dict.fromkeys(hashes)
        back = [
            Change("numbers", (_KEPT_OUT, hash), None) for hash in wanted if hash in self._kept_out
        ]
        count = super().remember(wanted)
        if back:
            self._tell([*back, Change("numbers", (_FORGETS,), self._forgets)])
        return count

    def keep_link(self, key: bytes, change: LinkChange) -> bool:
        before = dict(self._links)
        is_kept = super().keep_link(key, change)
        told = self._gone_since(before)
        if is_kept and (kept := self._links.get(key)) is not None:
            told += [Change("links", (key, name), kept.parts[name]) for name in change.put]
            told.append(Change("links", (key,), kept.head))
        if told:
            self._tell(told)
        return is_kept

    def drop_link(self, key: bytes, head: bytes) -> None:
        before = dict(self._links)
        super().drop_link(key, head)
        if told := self._gone_since(before):
            self._tell(told)

    def _gone_since(self, before: Mapping[bytes, LinkMemory]) -> list[Change]:
        """Return what has to be told of links and parts that are not kept any more."""
        told: list[Change] = []
        for other, memory in before.items():
            new = self._links.get(other)
            if new is memory:
                continue
            if new is None:
                told.append(Change("links", (other,), None))
            left = {} if new is None else new.parts
            told += [
                Change("links", (other, name), None) for name in memory.parts if name not in left
            ]
        return told

    def snapshot(self) -> MemorySnapshot:
        """Return the facts as they are now; of an unchanged store they are made once."""
        moment = (self._last, self._forgets)
        if self._latest is None or self._latest[0] != moment:
            self._latest = moment, super().snapshot()
        return self._latest[1]


def _nobody(_changes: list[Change]) -> None:
    """Take what is told of what was told before."""


def _number(part: float | bytes | str) -> int:
    assert isinstance(part, int)
    return part


def _bytes(part: float | bytes | str) -> bytes:
    assert isinstance(part, bytes)
    return part
