"""What a peer advertises to a lake, of any size: a little is held here, much is written down.

Each record is advertised in words of the peer's own, or just as the lake would advertise it. The
last word counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.source import Fact
from lace.interlace.advertise import Advertisement
from lace.lake.delta import Listed
from lace.lake.facts import frame_of_table
from lace.lake.reading import read_files
from lace.lake.staging import Staging
from lace.limits import MIB
from lace.policy.origin import SourceLabel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD_BYTES: Final = 16 * MIB
"""About what is held here; more is written down."""
_NAME_BYTES: Final = 200  # of a record that is spoken of, as Python holds it
_FIELD_BYTES: Final = 300
_FIELDS: Final = pa.list_(
    pa.struct([("name", pa.string()), ("index", pa.string()), ("value", pa.string())])
)
_CHANGES: Final = pa.schema([
    ("hash", pa.string()), ("at", pa.int64()), ("there", pa.bool_()), ("fields", _FIELDS)
])  # fmt: skip


class _Said(Enum):
    """What is said of a record where no words have to be held."""

    NOTHING = "nothing"
    AS_HERE = "as here"


_Words = Advertisement | _Said


@dataclass(slots=True)
class StagedAdverts:
    """The advertisements of one peer; close it when its frames are done with."""

    root: str
    """Of the lake."""
    memory: int = 0
    """About how many bytes are held."""
    _held: dict[str, _Words] = field(default_factory=dict)
    """The last changes."""
    _written: list[Listed] = field(default_factory=list)
    """Files with the changes before these, in order."""
    _staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self._staging = Staging(self.root)

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._held or self._written)

    @property
    def are_written(self) -> bool:
        """Whether workers have to be asked; else all of them are held here."""
        return bool(self._written)

    # --- changes ---

    def say(self, adverts: Iterable[Advertisement]) -> None:
        """Take what is said in other words."""
        for advert in adverts:
            self._change(advert.record, advert)

    def say_as_here(self, records: Iterable[str]) -> None:
        """Take that records are advertised as the lake would advertise them."""
        for record in records:
            self._change(record, _Said.AS_HERE)

    def withdraw(self, records: Iterable[str]) -> None:
        for record in records:
            if self._written:
                self._change(record, _Said.NOTHING)
            else:
                self._let_go(record)

    def _change(self, record: str, words: _Words) -> None:
        self._let_go(record)
        self._held[record] = words
        self.memory += _bytes_of(words)
        if self.memory >= HELD_BYTES:
            self.write()

    def _let_go(self, record: str) -> None:
        before = self._held.pop(record, None)
        self.memory -= 0 if before is None else _bytes_of(before)

    def write(self) -> None:
        """Write down what is held."""
        if self._held:
            self._written.append(self._staging.write(self._table()))
            self._held, self.memory = {}, 0

    def _table(self) -> pa.Table:
        said = self._held.values()
        at = pa.repeat(pa.scalar(len(self._written), pa.int64()), len(said))
        there = [words is not _Said.NOTHING for words in said]
        return pa.table([list(self._held), at, there, list(map(_fields_of, said))], schema=_CHANGES)

    # --- what is held here ---

    def facts(self) -> Iterator[Fact]:
        """Yield the facts that are held here, of what is said in other words."""
        for words in self._held.values():
            if isinstance(words, Advertisement):
                yield from words.facts()

    def held_as_here(self) -> list[str]:
        """Return the records that are advertised as here, as far as they are held."""
        return [record for record, words in self._held.items() if words is _Said.AS_HERE]

    def has_room_for(self, adverts: int, fields: int) -> bool:
        """Whether so many more, of so many fields each, can be held here."""
        return self.memory + adverts * (_NAME_BYTES + fields * _FIELD_BYTES) < HELD_BYTES

    # --- what the workers see ---

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return each record (``hash``) with its ``fields``; null: as the lake advertises it."""
        self.write()
        changes = read_files(spark, self._written, _CHANGES)
        if len(self._written) > 1:
            last = F.max_by(F.struct("there", "fields"), "at").alias("last")
            changes = changes.groupBy("hash").agg(last).select("hash", "last.*")
        return changes.where("there").select("hash", "fields")

    def find(
        self, spark: SparkSession, records: Iterable[str], source: SourceLabel
    ) -> dict[str, Advertisement]:
        """Return those of some records that are advertised in other words."""
        found: dict[str, Advertisement] = {}
        elsewhere: list[str] = []
        for record in records:
            words = self._held.get(record)
            if isinstance(words, Advertisement):
                found[record] = words
            elif words is None:
                elsewhere.append(record)
        if self._written and elsewhere:
            wanted = pa.table({"hash": pa.array(sorted(elsewhere), pa.string())})
            staging = Staging(self.root)
            names = frame_of_table(spark, wanted, staging)
            rows = self.frame(spark).where("fields is not null").join(names, "hash", "left_semi")
            for row in rows.toArrow().to_pylist():
                fields = tuple((f["name"], int(f["index"]), f["value"]) for f in row["fields"])
                found[row["hash"]] = Advertisement(row["hash"], source, fields)
            staging.close()
        return found

    def close(self) -> None:
        self._held, self._written, self.memory = {}, [], 0
        self._staging.close()


def _bytes_of(words: _Words) -> int:
    if not isinstance(words, Advertisement):
        return _NAME_BYTES
    values = sum(len(value) for _, _, value in words.fields)
    return _NAME_BYTES + values + _FIELD_BYTES * len(words.fields)


def _fields_of(words: _Words) -> list[dict[str, str]] | None:
    if not isinstance(words, Advertisement):
        return None
    return [{"name": n, "index": str(index), "value": value} for n, index, value in words.fields]
