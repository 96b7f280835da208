"""Names in order, of any number: a few are held here, many are read from a file as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from lace.lake.jobs import carried
from lace.lake.places import filesystem
from lace.lake.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AT_ONCE: Final = 4096
_NAMES: Final = pa.schema([("hash", pa.string())])


@dataclass(frozen=True, slots=True)
class OrderedNames:
    """Names in order, each once; close them when they are done with."""

    held: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Where more of them lie, in order."""
    staging: Staging | None = None
    """What these files belong to."""

    @classmethod
    def of(cls, names: Iterable[str]) -> OrderedNames:
        return cls(tuple(sorted(set(names))))

    @classmethod
    def of_frame(cls, frame: DataFrame, root: str) -> OrderedNames:
        """Have a worker write down the names of a frame (one column ``hash``) in order."""
        staging = Staging(root)
        folder = staging.made_folder()

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            # A task may run twice: only the file of the one that is heard is read.
            uri = f"{folder}/{uuid4().hex}.parquet"
            system, path = filesystem(uri)
            with carried(), pq.ParquetWriter(path, _NAMES, filesystem=system) as file:
                for batch in batches:
                    file.write_batch(batch.cast(_NAMES))
            yield pa.RecordBatch.from_pydict({"uri": [uri]})

        ordered = frame.select("hash").repartition(1).sortWithinPartitions("hash")
        made = ordered.mapInArrow(work, "uri string").toArrow()
        return cls((), tuple(made.column("uri").to_pylist()), staging)

    def __iter__(self) -> Iterator[str]:
        yield from self.held
        before: str | None = None
        for name in self._read():
            if name != before:
                yield name
            before = name

    def _read(self) -> Iterator[str]:
        for uri in self.files:
            system, path = filesystem(uri)
            with pq.ParquetFile(path, filesystem=system) as file:
                for batch in file.iter_batches(_AT_ONCE):
                    yield from batch.column("hash").to_pylist()

    def close(self) -> None:
        if self.staging is not None:
            self.staging.close()


def changes(before: Iterable[str], now: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each name that is in one of two orders alone, and whether that is the second."""
    both = merge(((name, False) for name in before), ((name, True) for name in now))
    for name, found in groupby(both, itemgetter(0)):
        sides = [is_new for _, is_new in found]
        if len(sides) == 1:
            yield name, sides[0]
