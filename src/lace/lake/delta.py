"""Tables that change in whole commits: Parquet files, and a Delta log that says which count.

Spark writes files that nobody knows of yet; one commit makes all of them part of the table. A
commit carries the id and number of the work it completes, so that the same work is never done
twice, and it fails if the table has changed since the writer looked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Field as DeltaField
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from lace.clock import unix_ms
from lace.errors import Code, LakeError
from lace.lake.places import delta_place, filesystem

_NOTE: Final = "lace"
DATA: Final = "data"
_LATER: Final = frozenset({"time", "arrived"})
"""Columns that older tables do not have, and get with the first commit."""
_BOUNDS: Final = ("min.group", "min.app", "min.tai")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table."""

    path: str
    """Relative to the table."""
    size: int
    rows: int
    modified: int
    stats: str = ""
    """What the log is to say of its rows; empty: how many there are."""
    least: tuple[str, ...] = field(default=(), compare=False)
    """The least group, app and time in it, as far as the log says so."""
    logged: str = field(default="", compare=False)
    """Its path as the log spells it."""


class Listed(NamedTuple):
    """Where a file is, and all that a reader would otherwise ask its store about it."""

    uri: str
    size: int
    modified: int
    """In milliseconds."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table holds as of one commit."""

    root: str
    number: int
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def uris(self, files: Iterable[DataFile] | None = None) -> list[str]:
        return [f"{self.root}/{f.path}" for f in (self.files if files is None else files)]

    def listed(self, files: Iterable[DataFile] | None = None) -> list[Listed]:
        """Return the files as the log lists them."""
        return [
            Listed(f"{self.root}/{f.path}", f.size, f.modified)
            for f in (self.files if files is None else files)
        ]

    def added_since(self, older: TableVersion) -> list[DataFile]:
        """Return the files that an older version did not have."""
        known = {file.path for file in older.files}
        return [file for file in self.files if file.path not in known]


class Conflict(Exception):
    """Another commit was quicker."""


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of one table."""

    root: str
    schema: pa.Schema

    def create(self) -> None:
        """Make the table unless it is there."""
        place, options = delta_place(self.root)
        with _errors(self.root):
            DeltaTable.create(place, self.schema, mode="ignore", storage_options=options)

    def _table(self, version: int | None = None) -> DeltaTable:
        place, options = delta_place(self.root)
        return DeltaTable(place, version=version, storage_options=options)

    def version(self, number: int | None = None) -> TableVersion:
        with _errors(self.root):
            if number is not None:
                newest = self._table().version()
                if not 0 <= number <= newest:
                    raise LakeError(
                        f"{self.root} has no version {number}: the newest is {newest}",
                        code=Code.LAKE_VERSION,
                    )
            table = self._table(number)
            actions = pa.table(table.get_add_actions(flatten=True))
            schema = pa.schema(table.schema().to_arrow())
        missing = set(self.schema.names) - set(schema.names) - _LATER
        if missing:
            raise LakeError(
                f"{self.root} has no column {', '.join(sorted(missing))}", code=Code.LAKE_FORMAT
            )
        columns = actions.select(["path", "size_bytes", "num_records", "modification_time"])
        bounds = [name for name in _BOUNDS if name in actions.column_names]
        least = zip(*(actions.column(name).to_pylist() for name in bounds), strict=True)
        lows = [tuple(value or "" for value in row) for row in least] or [()] * len(columns)
        rows = zip(*(column.to_pylist() for column in columns.columns), lows, strict=True)
        return TableVersion(self.root, table.version(), tuple(sorted(
            (DataFile(unquote(path), size, count or 0, when, "", low, path)
             for path, size, count, when, low in rows),
            key=lambda file: file.path,
        )))  # fmt: skip

    def done(self, work: str) -> int:
        """Return the number of the last step of some work that was committed; 0 for none."""
        with _errors(self.root):
            return self._table().transaction_version(work) or 0

    def all_done(self, works: Mapping[str, int]) -> set[str]:
        """Return those of some works of which all steps, so many, were committed."""
        with _errors(self.root):
            table = self._table()
            return {w for w, steps in works.items() if (table.transaction_version(w) or 0) >= steps}

    def time_of(self, version: int) -> int:
        """Return when a version was committed, in milliseconds."""
        with _errors(self.root):
            history = self._table(version).history(1)
        return int(history[0]["timestamp"])

    def notes(self, limit: int | None) -> list[dict[str, Any]]:
        """Return what the newest commits say of themselves, newest first; None: all."""
        with _errors(self.root):
            history = self._table().history(limit)
        return [
            json.loads(entry[_NOTE]) | {"version": entry["version"], "time": entry["timestamp"]}
            for entry in history
            if _NOTE in entry
        ]

    def commit(
        self,
        files: Iterable[DataFile],
        *,
        work: str,
        step: int,
        expected: int,
        note: Mapping[str, Any],
        replace: bool = False,
    ) -> int:
        """Make files part of the table; raise ``Conflict`` if it is no longer as expected.

        With ``replace`` they are all of it from now on. Returns the number of the version that
        this made.
        """
        actions: list[AddAction | RemoveAction] = [
            AddAction(f.path, f.size, {}, f.modified, True, f.stats or _count_alone(f.rows))
            for f in files
        ]
        properties = CommitProperties(
            custom_metadata={_NOTE: json.dumps(dict(note), sort_keys=True)},
            max_commit_retries=0,  # whoever was quicker may have added the same records
            app_transactions=[Transaction(work, step)],
        )
        with _errors(self.root):
            table = self._table(expected)
            try:
                self._widen(table)
                table.create_write_transaction(
                    actions,
                    "overwrite" if replace else "append",
                    self.schema,
                    commit_properties=properties,
                )
            except CommitFailedError as error:
                raise Conflict from error
        return expected + 1

    def _widen(self, table: DeltaTable) -> None:
        """Add the columns that an older table lacks; raise ``Conflict`` if there were any."""
        there = set(pa.schema(table.schema().to_arrow()).names)
        missing = [field for field in self.schema if field.name not in there]
        if missing:
            table.alter.add_columns([DeltaField.from_arrow(field) for field in missing])
            raise Conflict

    @property
    def name(self) -> str:
        """What people call the table: the last part of its place."""
        return self.root.rpartition("/")[2]

    def columns(self) -> list[str]:
        """Return the names of the columns that the table has."""
        with _errors(self.root):
            return list(pa.schema(self._table().schema().to_arrow()).names)

    def exists(self) -> bool:
        with _errors(self.root):
            place, options = delta_place(self.root)
            return DeltaTable.is_deltatable(place, storage_options=options)

    def replace(
        self,
        old: Iterable[DataFile],
        new: Iterable[DataFile],
        *,
        expected: int,
        note: Mapping[str, Any],
        changes_data: bool = False,
        done: Transaction | None = None,
    ) -> int:
        """Put files in the place of others; raise ``Conflict`` if the table is not as expected.

        ``done`` says what the commit completes, as that of ``commit`` does.
        """
        now = unix_ms()
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(f.logged or f.path, changes_data, now, f.size) for f in old
        ]
        actions += [
            AddAction(f.path, f.size, {}, f.modified, changes_data, f.stats or _count_alone(f.rows))
            for f in new
        ]
        properties = CommitProperties(
            custom_metadata={_NOTE: json.dumps(dict(note), sort_keys=True)},
            max_commit_retries=0,
            app_transactions=None if done is None else [done],
        )
        with _errors(self.root):
            table = self._table(expected)
            try:
                self._widen(table)
                table.create_write_transaction(
                    actions, "append", self.schema, commit_properties=properties
                )
            except CommitFailedError as error:
                raise Conflict from error
        return expected + 1

    def removed_since(self, when: int) -> set[str]:
        """Return the files that commits took out of the table since some time, in milliseconds."""
        removed: set[str] = set()
        for _, action in self._actions():
            entry = action.get("remove")
            if entry is not None and int(entry.get("deletionTimestamp") or 0) >= when:
                removed |= {entry["path"], unquote(entry["path"])}
        return removed

    def came_since(self, version: TableVersion, older: int) -> list[DataFile] | None:
        """Return the files of what came after an older version; None if that cannot be told.

        It cannot where something was taken out since, where what came was merged with what was
        there, or where the log does not go back so far.
        """
        commits: set[int] = set()
        added: set[str] = set()
        for number, action in self._actions(older):
            if number > version.number:
                break
            commits.add(number)
            if action.get("remove", {}).get("dataChange"):
                return None
            if action.get("add", {}).get("dataChange"):
                added.add(unquote(action["add"]["path"]))
        found = [file for file in version.files if file.path in added]
        whole = commits == set(range(older + 1, version.number + 1)) and len(found) == len(added)
        return found if whole else None

    def _actions(self, after: int = -1) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield what the log says, commit by commit, as far as it is not summed up and removed."""
        system, root = filesystem(self.root)
        selector = fs.FileSelector(f"{root}/_delta_log", allow_not_found=True)
        for info in sorted(system.get_file_info(selector), key=lambda info: info.path):
            number = info.base_name.removesuffix(".json")
            if info.base_name.endswith(".json") and number.isdigit() and int(number) > after:
                with system.open_input_file(info.path) as file:
                    for line in cast("bytes", file.read()).splitlines():
                        yield int(number), json.loads(line)

    def commits_since_checkpoint(self) -> int:
        """Return how many commits have to be read one by one."""
        system, root = filesystem(self.root)
        newest = self.version().number
        path = f"{root}/_delta_log/_last_checkpoint"
        if system.get_file_info(path).type != fs.FileType.File:
            return newest
        with system.open_input_file(path) as file:
            return newest - int(json.loads(cast("bytes", file.read()))["version"])

    def checkpoint(self) -> None:
        """Sum up the log, and let go of what is older than its own retention."""
        with _errors(self.root):
            table = self._table()
            table.create_checkpoint()
            table.cleanup_metadata()

    def files_in(self, folder: str) -> list[DataFile]:
        """Return the Parquet files that a job wrote into a folder of the table."""
        system, root = filesystem(self.root)
        selector = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        found = []
        for info in system.get_file_info(selector):
            if info.type == fs.FileType.File and info.base_name.endswith(".parquet"):
                rows = pq.read_metadata(info.path, filesystem=system).num_rows
                relative = info.path[len(root) + 1 :]
                modified = int((info.mtime_ns or 0) / 1e6)
                found.append(DataFile(relative, info.size, rows, modified))
        return sorted(found, key=lambda file: file.path)

    def drop(self, paths: Iterable[str]) -> None:
        """Delete those of some files that are not part of the table."""
        system, root = filesystem(self.root)
        there = {p for p in paths if system.get_file_info(f"{root}/{p}").type == fs.FileType.File}
        if there:
            for path in there - {file.path for file in self.version().files}:
                system.delete_file(f"{root}/{path}")


def _count_alone(rows: int) -> str:
    return json.dumps({"numRecords": rows})


class _errors:  # noqa: N801 (a context manager, used like a function)
    """Turn what the Delta library says into a LakeError with a code."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DeltaError | OSError):
            raise LakeError(f"{self._root}: {error}", code=Code.LAKE_FORMAT) from error
