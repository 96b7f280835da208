"""Tables that change in whole commits: Parquet files, and a Delta log that says which count.

Spark writes files that nobody knows of yet; one commit makes all of them part of the table. A
commit carries the id and number of the work it completes, so that the same work is never done
twice, and it fails if the table has changed since the writer looked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs

from lace.errors import Code, LakeError
from lace.lake.bundle import filesystem

_NOTE: Final = "lace"
DATA: Final = "data"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of a table."""

    path: str
    """Relative to the table."""
    size: int
    rows: int
    modified: int


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
        with _errors(self.root):
            DeltaTable.create(self.root, self.schema, mode="ignore")

    def version(self, number: int | None = None) -> TableVersion:
        with _errors(self.root):
            if number is not None:
                newest = DeltaTable(self.root).version()
                if not 0 <= number <= newest:
                    raise LakeError(
                        f"{self.root} has no version {number}: the newest is {newest}",
                        code=Code.LAKE_VERSION,
                    )
            table = DeltaTable(self.root, version=number)
            actions = pa.table(table.get_add_actions(flatten=True))
            schema = pa.schema(table.schema().to_arrow())
        missing = set(self.schema.names) - set(schema.names)
        if missing:
            raise LakeError(
                f"{self.root} has no column {', '.join(sorted(missing))}", code=Code.LAKE_FORMAT
            )
        columns = actions.select(["path", "size_bytes", "num_records", "modification_time"])
        rows = zip(*(column.to_pylist() for column in columns.columns), strict=True)
        return TableVersion(self.root, table.version(), tuple(sorted(
            (DataFile(unquote(path), size, count or 0, when) for path, size, count, when in rows),
            key=lambda file: file.path,
        )))  # fmt: skip

    def done(self, work: str) -> int:
        """Return the number of the last step of some work that was committed; 0 for none."""
        with _errors(self.root):
            return DeltaTable(self.root).transaction_version(work) or 0

    def notes(self, limit: int) -> list[dict[str, Any]]:
        """Return what the newest commits say of themselves, newest first."""
        with _errors(self.root):
            history = DeltaTable(self.root).history(limit)
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
            AddAction(f.path, f.size, {}, f.modified, True, json.dumps({"numRecords": f.rows}))
            for f in files
        ]
        properties = CommitProperties(
            custom_metadata={_NOTE: json.dumps(dict(note), sort_keys=True)},
            max_commit_retries=0,  # whoever was quicker may have added the same records
            app_transactions=[Transaction(work, step)],
        )
        with _errors(self.root):
            table = DeltaTable(self.root, version=expected)
            try:
                table.create_write_transaction(
                    actions,
                    "overwrite" if replace else "append",
                    self.schema,
                    commit_properties=properties,
                )
            except CommitFailedError as error:
                raise Conflict from error
        return expected + 1

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

    def paths_in(self, folder: str) -> list[str]:
        """Return all files in a folder of the table, whatever they are."""
        system, root = filesystem(self.root)
        selector = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        found = system.get_file_info(selector)
        return [i.path[len(root) + 1 :] for i in found if i.type == fs.FileType.File]

    def folders(self, stem: str) -> list[str]:
        """Return the folders of the table whose path begins like this."""
        system, root = filesystem(self.root)
        parent = stem.rpartition("/")[0]
        selector = fs.FileSelector(f"{root}/{parent}", allow_not_found=True)
        found = (info.path[len(root) + 1 :] for info in system.get_file_info(selector))
        return sorted(path for path in found if path.startswith(stem))

    def has_finished(self, folder: str) -> bool:
        """Whether a job wrote all of a folder."""
        system, root = filesystem(self.root)
        info = system.get_file_info(f"{root}/{folder}/_SUCCESS")
        return bool(info.type == fs.FileType.File)

    def remove(self, folder: str) -> None:
        """Delete a folder of files that are not part of the table."""
        system, root = filesystem(self.root)
        if system.get_file_info(f"{root}/{folder}").type == fs.FileType.Directory:
            system.delete_dir(f"{root}/{folder}")


class _errors:  # noqa: N801 (a context manager, used like a function)
    """Turn what the Delta library says into a LakeError with a code."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DeltaError | OSError):
            raise LakeError(f"{self._root}: {error}", code=Code.LAKE_FORMAT) from error
