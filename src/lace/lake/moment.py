"""One version of a lake, as far as decisions on some of its records look at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from lace.lake.facts import frame_of_table
from lace.lake.jobs import job
from lace.lake.staging import Staging
from lace.lake.tables import Lake, Snapshot
from lace.record.model import Record

SCANNED: Final = 20_000_000
"""So many records are looked through for hashes without Spark."""

Guards = dict[tuple[str, frozenset[tuple[str, str]]], list[Record]]
"""Records with certain fields, by file and fields."""


@dataclass(slots=True)
class Moment:
    """The records of one version of a lake, as far as decisions on some of them look at them."""

    lake: Lake
    snapshot: Snapshot
    guards: Guards
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
        if self.snapshot.version.rows <= SCANNED or not unknown:
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
