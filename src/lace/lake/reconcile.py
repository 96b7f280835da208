"""Two record sets side by side: which selected records each lacks, and the transfer in bulk.

Where both sides can be reached, comparing them by a join is far cheaper than by summaries: a
difference of one in a hundred touches nearly every partition. Each side is looked at as a lake; a
bundle or a SQLite lace becomes one for the time being.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from lace.datalog.program import RuleProgram
from lace.errors import Code, LakeError
from lace.lake.bundle import is_database
from lace.lake.export import export_bundles, export_to_store, validated
from lace.lake.ingest import ingest, run_step
from lace.lake.jobs import job
from lace.lake.reading import read_files
from lace.lake.rows import FORGOTTEN_SCHEMA
from lace.lake.select import Selection, select
from lace.lake.tables import Lake
from lace.lake.writing import write_found
from lace.limits import DEFAULT_LIMITS
from lace.recordstore.sqlite import SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["lake", "store", "bundle"]


@dataclass(frozen=True, slots=True)
class SideOfTwo:
    """A record set, looked at as a lake."""

    name: str
    kind: Kind
    lake: Lake
    put_aside: int = 0
    """Parts of a bundle that are no records."""

    def take(self, raws: DataFrame) -> int:
        """Bring in records by their bytes, validated; return how many were new."""
        work = f"lace-reconcile/{uuid4().hex}"
        rows = validated(raws.select("raw", "bundle", "offset"))
        stage = partial(write_found, rows)
        done = run_step(self.lake, stage, work, 1, work.replace("/", "-"), lambda _message: None)
        return done.records


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What one look at both sides found."""

    left_lacks: int
    right_lacks: int


@dataclass(slots=True)
class Reconciliation:
    """Two sides and one selector for both."""

    left: SideOfTwo
    right: SideOfTwo
    program: RuleProgram
    _selections: list[Selection] = field(default_factory=list)

    def close(self) -> None:
        """Give back what was kept on disk for what was lacking."""
        for selection in self._selections:
            selection.close()
        self._selections.clear()

    def lacking(self, here: SideOfTwo, there: SideOfTwo) -> DataFrame:
        """Return the records that are selected there and not here, until ``close``.

        What is forgotten here is not lacking.
        """
        self._selections.append(select(there.lake.snapshot(), self.program))
        selected = self._selections[-1].records()
        known = here.lake.snapshot().columns("hash")
        gone = here.lake.forgotten_files()
        if gone:
            known = known.unionByName(read_files(here.lake.spark, gone, FORGOTTEN_SCHEMA))
        return selected.join(known, "hash", "left_anti")

    def difference(self) -> Difference:
        with job("comparing"):
            found = Difference(
                left_lacks=self.lacking(self.left, self.right).count(),
                right_lacks=self.lacking(self.right, self.left).count(),
            )
        self.close()
        return found

    def transfer(self) -> Difference:
        """Bring each side what it lacks, until nothing changes; return how much that was.

        Evidence that arrives can select more records, so that one look is not always enough; there
        are at most as many as an exchange has loops.
        """
        left = right = 0
        for _ in range(DEFAULT_LIMITS.max_loop_iterations):
            with job("transferring"):
                to_left = self.left.take(self.lacking(self.left, self.right))
                to_right = self.right.take(self.lacking(self.right, self.left))
            self.close()
            left += to_left
            right += to_right
            if not to_left and not to_right:
                break
        return Difference(left_lacks=left, right_lacks=right)


@contextmanager
def open_sides(spark: SparkSession, *names: str) -> Iterator[list[SideOfTwo]]:
    """Look at record sets by name: lakes, SQLite laces, bundles or folders of bundles."""
    with TemporaryDirectory(prefix="lace-lake-") as folder:
        yield [_open(spark, name, Path(folder) / str(n)) for n, name in enumerate(names)]


def _open(spark: SparkSession, name: str, scratch: Path) -> SideOfTwo:
    kind = kind_of(name)
    if kind == "lake":
        return SideOfTwo(name, kind, Lake.open(spark, name))
    scratch.mkdir()
    lake = Lake.open(spark, str(scratch / "lake"), create=True)
    put_aside = 0
    if kind == "bundle":
        put_aside = ingest(lake, [name]).quarantined
    else:
        spool = scratch / "store.lace"
        _spool(Path(name), spool)
        if spool.stat().st_size:
            put_aside = ingest(lake, [str(spool)]).quarantined
    return SideOfTwo(name, kind, lake, put_aside)


def kind_of(name: str) -> Kind:
    """Say what a name names, by looking."""
    path = Path(name)
    if "://" in name or (path / "lake.json").exists():
        return "lake"
    if path.is_dir():
        return "bundle"
    if not path.is_file():
        raise LakeError(f"there is no {name}", code=Code.LAKE_INPUT)
    return "store" if is_database(name) else "bundle"


def _spool(store: Path, target: Path) -> None:
    """Write the records of a SQLite lace into a bundle."""
    with (
        SqliteStore(store, read_only=True) as opened,
        opened.snapshot() as snapshot,
        target.open("wb") as file,
    ):
        for _, raw in snapshot.raw_records():
            file.write(raw)


def write_back(side: SideOfTwo, version: int) -> int:
    """Bring what a side gained since a version of its lake to where the side came from.

    A SQLite lace gets the records; bundles are never changed: what they lack becomes a new bundle
    beside them. Returns how many records that were.
    """
    if side.kind == "lake":
        return 0
    now = side.lake.snapshot()
    gained = now.added_since(side.lake.snapshot(version)).records
    if side.kind == "store":
        with SqliteStore(side.name, create=False) as store:
            return export_to_store(gained, store).records
    if gained.isEmpty():
        return 0
    path = Path(side.name)
    target = path if path.is_dir() else path.parent
    written = export_bundles(gained, str(target / f"missing-{uuid4().hex[:8]}"), bundles=1)
    return written.records
