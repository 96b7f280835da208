"""A lake: records and what was put aside, as tables that anything can read.

``records`` is the one table that is stored wide; fields, links and embedded hashes are views of it.
Everything that is read together is read from one ``Snapshot``, so that a writer never shows.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import lace.lake.required  # noqa: F401  (first: its error says what to install)

# isort: split
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812 (as everybody writes it)

from lace.errors import Code, LakeError
from lace.lake import prints
from lace.lake.delta import DeltaLog, Listed, TableVersion
from lace.lake.places import filesystem
from lace.lake.reading import read_files
from lace.lake.rows import FORGOTTEN_SCHEMA, PROMOTED, QUARANTINE_SCHEMA, RECORDS_SCHEMA
from lace.record.facts import fields
from lace.record.model import Record
from lace.record.validate import reread_intact

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMAT: Final = 1
_MARKER: Final = "lake.json"
_MARKER_BYTES: Final = 65536
TABLES: Final = ("records", "wide", "fields", "links", "embedded", "quarantine")
_HASHES_AT_ONCE: Final = 16_384
REMEMBERING: Final = "lace-remember"
NOT_WIDE: Final = ("raw", "bundle", "offset", "ingest")
"""Columns of the records that ``wide`` leaves out."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder of tables; made by ``ingest``, read by everything else."""

    session: SparkSession | None
    root: str

    @property
    def spark(self) -> SparkSession:
        """The session; raises if the lake was opened without one."""
        return needed_session(self.session, self.root)

    @classmethod
    def open(cls, spark: SparkSession | None, root: str, *, create: bool = False) -> Lake:
        """Return the lake in a folder; raise ``LakeError`` if it is none.

        Without a session, only what needs no Spark can be asked of it.
        """
        root = root.rstrip("/")
        system, path = filesystem(root)
        if "://" not in root:
            root = path = str(_absolute(root))
        lake = cls(spark, root)
        info = system.get_file_info(f"{path}/{_MARKER}")
        if info.type == fs.FileType.File:
            lake._check_marker(system, path)
        elif not create:
            raise LakeError(f"{root} is no lake", code=Code.LAKE_ABSENT)
        else:
            lake._create(system, path)
        return lake

    @property
    def records_log(self) -> DeltaLog:
        return DeltaLog(f"{self.root}/records", RECORDS_SCHEMA)

    @property
    def quarantine_log(self) -> DeltaLog:
        return DeltaLog(f"{self.root}/quarantine", QUARANTINE_SCHEMA)

    @property
    def forgotten_log(self) -> DeltaLog:
        """The hashes of what the lake has forgotten; not there before anything was."""
        return DeltaLog(f"{self.root}/forgotten", FORGOTTEN_SCHEMA)

    def forgotten_files(self) -> list[Listed]:
        """Return where the hashes of forgotten records are."""
        log = self.forgotten_log
        return log.version().listed() if log.exists() else []

    def remembered(self) -> int:
        """Return how often something forgotten was let in again.

        What was decided before that may be decided otherwise now.
        """
        log = self.forgotten_log
        return log.done(REMEMBERING) if log.exists() else 0

    def forgotten(self, hashes: Collection[str]) -> set[str]:
        """Return those of some hashes that the lake has forgotten, and is not to have again."""
        files = self.forgotten_files() if hashes else []
        return _present(self.root, [file.uri for file in files], hashes)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the records as of a version (None: the newest)."""
        return Snapshot(self.session, self.records_log.version(version))

    def quarantine(self, version: int | None = None) -> DataFrame:
        """Return what was put aside: bytes that are no records, with code, bundle and offset.

        With a version of the records: what had been put aside by then.
        """
        return read_files(self.spark, self.put_aside(version).listed(), QUARANTINE_SCHEMA)

    def put_aside(self, version: int | None = None) -> TableVersion:
        """Return the version of the quarantine that belongs to one of the records."""
        number = None if version is None else self._quarantine_at(version)
        return self.quarantine_log.version(number)

    def _quarantine_at(self, version: int) -> int:
        """Return which version the quarantine had when the records got one."""
        self.records_log.version(version)  # raises if there is none
        if not version:
            return 0
        notes = {note["version"]: note for note in self.records_log.notes(None)}
        found = notes.get(version, {}).get("quarantine")
        if found is not None:
            return int(found)
        when = self.records_log.time_of(version)
        log = self.quarantine_log
        newest = log.version().number
        return max((n for n in range(newest + 1) if log.time_of(n) <= when), default=0)

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """Return a table or view by name; the page of the lake lists their columns."""
        if name == "quarantine":
            return self.quarantine(version)
        return self.snapshot(version).table(name)

    def _create(self, system: fs.FileSystem, path: str) -> None:
        if system.get_file_info(path).type == fs.FileType.Directory and system.get_file_info(
            fs.FileSelector(path)
        ):
            raise LakeError(f"{self.root} holds something else already", code=Code.LAKE_FORMAT)
        system.create_dir(path, recursive=True)
        # The marker goes first: a lake that is half made is made whole by whoever opens it next.
        with system.open_output_stream(f"{path}/{_MARKER}") as file:
            file.write(json.dumps({"format": FORMAT}).encode())
        self._create_tables()

    def _create_tables(self) -> None:
        self.records_log.create()
        self.quarantine_log.create()

    def _check_marker(self, system: fs.FileSystem, path: str) -> None:
        try:
            with system.open_input_file(f"{path}/{_MARKER}") as file:
                found = json.loads(cast("bytes", file.read(_MARKER_BYTES)))["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LakeError(f"{self.root} is no lake", code=Code.LAKE_FORMAT) from None
        if found != FORMAT:
            raise LakeError(
                f"{self.root} has format {found}, this engine knows {FORMAT}",
                code=Code.LAKE_FORMAT,
            )
        if system.get_file_info(f"{path}/quarantine/_delta_log").type == fs.FileType.NotFound:
            self._create_tables()


@dataclass(frozen=True)
class Snapshot:
    """The records of one version of a lake."""

    session: SparkSession | None
    version: TableVersion

    @property
    def spark(self) -> SparkSession:
        """The session; raises if the lake was opened without one."""
        return needed_session(self.session, self.lake_root)

    @property
    def lake_root(self) -> str:
        """Where the lake is that this is a version of."""
        return self.version.root.rpartition("/")[0]

    @cached_property
    def records(self) -> DataFrame:
        """One row a record; see ``lace.lake.rows`` for the columns."""
        return read_files(self.spark, self.version.listed(), RECORDS_SCHEMA)

    def columns(self, *names: str) -> DataFrame:
        """Return some columns of the records, and read no others."""
        schema = pa.schema([RECORDS_SCHEMA.field(name) for name in names])
        return read_files(self.spark, self.version.listed(), schema)

    def added_since(self, older: Snapshot) -> Snapshot:
        """Return the records that came after an older version of the same lake."""
        files = tuple(self.version.added_since(older.version))
        version = TableVersion(self.version.root, self.version.number, files)
        return Snapshot(self.session, version)

    def table(self, name: str) -> DataFrame:
        match name:
            case "records":
                return self.records
            case "wide":
                return self.records.drop(*NOT_WIDE)
            case "fields":
                return self._fields()
            case "links":
                exploded = self.records.select("hash", F.explode("links").alias("link"))
                return exploded.select("hash", "link.*")
            case "embedded":
                embedded = F.when(F.col("type") == "S", F.col("plex_hash"))
                embedded = embedded.when(F.col("type") == "P", F.col("blob_hash"))
                found = self.records.select("hash", "type", embedded.alias("embedded"))
                return found.where(F.col("embedded").isNotNull())
        raise LakeError(f"no table {name}: {', '.join(TABLES)}", code=Code.LAKE_TABLE)

    def _fields(self) -> DataFrame:
        exploded = self.records.select("hash", F.explode(all_fields()).alias("field"))
        return exploded.select("hash", "field.*")

    # --- single records, without Spark ---

    def read_all(self) -> Iterator[Record]:
        """Yield every record, read straight from the files."""
        system, _ = filesystem(self.version.root)
        for uri in self.version.uris():
            with pq.ParquetFile(filesystem(uri)[1], filesystem=system) as file:
                for batch in file.iter_batches(1000, columns=["raw"]):
                    for raw in batch.column("raw").to_pylist():
                        yield _intact(raw, uri)

    def hashes(self) -> set[str]:
        """Return the hashes of all records, read straight from the files."""
        return set(chain.from_iterable(self.hashes_in_parts()))

    def hashes_in_parts(self) -> Iterator[list[str]]:
        """Yield the hashes of all records in bounded parts, read straight from the files."""
        system, _ = filesystem(self.version.root)
        for uri in self.version.uris():
            with pq.ParquetFile(filesystem(uri)[1], filesystem=system) as file:
                for batch in file.iter_batches(_HASHES_AT_ONCE, columns=["hash"]):
                    yield batch.column("hash").to_pylist()

    def present(self, hashes: Collection[str]) -> set[str]:
        """Return those of some hashes that are here, read straight from the files."""
        return _present(self.lake_root, self.version.uris() if hashes else [], hashes)

    def having(self, values: Mapping[str, str]) -> Iterator[Record]:
        """Yield the records that have a field of each of these names with this value.

        At least one of them must be a field with a column of its own.
        """
        system, _ = filesystem(self.version.root)
        columns = {PROMOTED[name]: value for name, value in values.items() if name in PROMOTED}
        wanted = set(values.items())
        for uri in self.version.uris():
            with pq.ParquetFile(filesystem(uri)[1], filesystem=system) as file:
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=list(columns))
                    found = reduce(pc.and_, (
                        pc.equal(table.column(name).cast(pa.string()), value)
                        for name, value in columns.items()
                    ))  # fmt: skip
                    if not pc.any(found).as_py():
                        continue
                    raws = file.read_row_group(group, columns=["raw"]).column("raw")
                    for raw in raws.filter(found).to_pylist():
                        record = _intact(raw, uri)
                        if wanted <= {(name, value) for name, _, value in fields(record)}:
                            yield record

    def load(self, hashes: Collection[str]) -> Iterator[Record]:
        """Yield the records of these hashes that are here, read straight from the files.

        Prints are looked at first; bytes are read only from the row groups that have one of them.
        """
        wanted = pa.array(sorted(hashes), pa.string())
        uris = self.version.uris() if hashes else []
        for uri, table in prints.rows_of(self.lake_root, uris, wanted, ["raw"]):
            for raw in table.column("raw").to_pylist():
                yield _intact(raw, uri)


def _present(root: str, uris: list[str], hashes: Collection[str]) -> set[str]:
    wanted = pa.array(sorted(hashes), pa.string())
    found: set[str] = set()
    for _, table in prints.rows_of(root, uris, wanted, ["hash"]):
        found.update(table.column("hash").to_pylist())
    return found


def _intact(raw: bytes, uri: str) -> Record:
    record = reread_intact(raw)
    if record is None:
        raise LakeError(f"{uri}: the bytes of a record have changed", code=Code.STORE_CORRUPT)
    return record


def needed_session(session: SparkSession | None, root: str) -> SparkSession:
    """Return a session, or raise ``LakeError`` if there is none."""
    if session is None:
        raise LakeError(
            f"{root} was opened without Spark",
            code=Code.LAKE_START,
            hint="Open it with a session: Lake.open(open_session(), …).",
        )
    return session


def all_fields() -> Column:
    """Return all fields of a record as one list: the promoted ones, then the other headers."""
    promoted = [
        F.when(F.col(column).isNotNull(), F.struct(
            F.lit(name).alias("name"), F.lit(0).alias("index"),
            F.col(column).cast("string").alias("value"),
        ))
        for name, column in PROMOTED.items()
    ]  # fmt: skip
    return F.concat(F.array_compact(F.array(*promoted)), F.col("extras"))


def _absolute(root: str) -> Any:
    from pathlib import Path

    return Path(root).absolute()
