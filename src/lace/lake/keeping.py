"""What a lake keeps for its exchanges: a folder for each plan, with tables and how links stood.

All of it can be made anew. So it is bounded, old parts are removed without asking anybody, and what
is damaged or missing counts as not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from pyarrow import fs

from lace.clock import unix_ms
from lace.crypto.native import digest
from lace.lake.packed import ROW, PackedTable
from lace.lake.places import filesystem, write_whole
from lace.limits import LAKE, MIB

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "exchange"
GRACE_MS: Final = 3_600_000
"""What was written within this time may be in use."""
_FORMAT: Final = 4
_CHECK: Final = 16
"""Bytes of a digest at the end of an index, of all that is before them."""
_INDEX_BYTES: Final = 64 * MIB


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept for one plan."""

    folder: str
    session: SparkSession | None
    temporary: bool = False
    """Whether it is removed with the exchange that it was made for."""

    @classmethod
    def of(cls, root: str, basis: bytes, session: SparkSession | None) -> Kept:
        """Return the place for a plan; where there are too many, one long unused makes room."""
        system, path = filesystem(f"{root}/{FOLDER}")
        name = digest(basis)[:16].hex()
        there = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        if len(there) < LAKE.plans or any(info.base_name == name for info in there):
            return cls(f"{root}/{FOLDER}/{name}", session)
        used = {info.path: _newest_ms(system, info) for info in there}
        oldest = min(used, key=lambda path: used[path])
        if unix_ms() - used[oldest] < GRACE_MS:
            return cls(f"{root}/spool/{uuid4().hex}", session, temporary=True)
        system.delete_dir(oldest)
        return cls(f"{root}/{FOLDER}/{name}", session)

    # --- tables ---

    def newest(self, decided: bytes) -> PackedTable | None:
        """Return the newest table that was decided on by the same; its note has the version."""
        system, path = filesystem(self.folder)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        names = [info.base_name for info in infos if info.base_name.startswith(_name(decided))]
        for name in sorted(names, reverse=True):
            found = load_index(f"{self.folder}/{name}", self.session)
            if found is not None and found[0][0].is_readable():
                return replace(found[0][0], note=found[1])
        return None

    def save(self, table: PackedTable, decided: bytes, version: int) -> PackedTable:
        """Keep the table of a version of the lake."""
        note = {"lake": version}
        save_index([table], f"{self.folder}/{_name(decided)}{version:012d}.index", note)
        return replace(table, note=note)

    # --- links ---

    def link(self, key: bytes) -> tuple[PackedTable, PackedTable, Mapping[str, Any]] | None:
        """Return what both sides of a link advertised at its last fixed point, and a note."""
        found = load_index(self._link_place(key), self.session)
        if found is None or len(found[0]) != 2 or not found[0][1].is_readable():
            return None
        (own, peers), note = found
        return own, peers, note

    def keep_link(self, key: bytes, tables: Sequence[PackedTable], note: Mapping[str, Any]) -> None:
        """Keep what both sides of a link advertise, and remove what is no longer needed."""
        save_index(tables, self._link_place(key), note)
        tidy(self.folder, unix_ms() - GRACE_MS)

    def _link_place(self, key: bytes) -> str:
        return f"{self.folder}/link-{digest(key)[:16].hex()}.index"

    def close(self) -> None:
        """Remove what is kept for one exchange alone."""
        system, path = filesystem(self.folder)
        if self.temporary and system.get_file_info(path).type == fs.FileType.Directory:
            system.delete_dir(path)


def _name(decided: bytes) -> str:
    return f"table-{digest(decided)[:8].hex()}-"


def _newest_ms(system: fs.FileSystem, folder: fs.FileInfo) -> int:
    inside = system.get_file_info(fs.FileSelector(folder.path))
    return max((info.mtime_ns or 0) // 1_000_000 for info in [folder, *inside])


def tidy(folder: str, before: int, *, dry_run: bool = False) -> tuple[int, int]:
    """Remove what nobody goes by any more and was written before a time, in milliseconds.

    Returns how many files that were, and how many bytes.
    """
    system, root = filesystem(folder)
    infos = system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    infos.sort(key=lambda info: (info.mtime_ns or 0, info.base_name), reverse=True)
    indexes = [info for info in infos if info.base_name.endswith(".index")]
    links = [info for info in indexes if info.base_name.startswith("link-")]
    newest: dict[str, fs.FileInfo] = {}
    for info in sorted(indexes, key=lambda info: info.base_name):
        if info not in links:
            newest[info.base_name.rpartition("-")[0]] = info
    going_by = {i.path for i in (*links[: LAKE.links], *newest.values())}
    young = {i.path for i in infos if (i.mtime_ns or 0) // 1_000_000 >= before}
    needed = going_by | young
    for info in indexes:
        if info.path in needed:
            needed |= {f"{root}/{name}" for name in _files_of(f"{folder}/{info.base_name}")}
    gone = [info for info in infos if info.path not in needed and info.type == fs.FileType.File]
    for info in gone if not dry_run else ():
        system.delete_file(info.path)
    return len(gone), sum(info.size or 0 for info in gone)


def _files_of(index: str) -> Iterable[str]:
    found = load_index(index, None)
    return () if found is None else [name for table in found[0] for name in table.files]


# --- indexes ---


def save_index(tables: Sequence[PackedTable], place: str, note: Mapping[str, Any]) -> None:
    """Write where tables are; what others are like goes first."""
    head = {
        "format": _FORMAT,
        "note": dict(note),
        "tables": [{"files": t.files, "columns": t.columns, "bytes": len(t.rows)} for t in tables],
    }
    data = b"".join((json.dumps(head).encode(), b"\n", *(table.rows for table in tables)))
    write_whole(place, data + digest(data)[:_CHECK])


def load_index(
    place: str, session: SparkSession | None
) -> tuple[list[PackedTable], Mapping[str, Any]] | None:
    """Return tables and the note with them; None if there are none that this engine wrote."""
    system, path = filesystem(place)
    if system.get_file_info(path).type != fs.FileType.File:
        return None
    with system.open_input_file(path) as file:
        data = cast("bytes", file.read(_INDEX_BYTES))
    data, check = data[:-_CHECK], data[-_CHECK:]
    if digest(data)[:_CHECK] != check:
        return None
    line, _, rest = data.partition(b"\n")
    folder = place.rpartition("/")[0]
    try:
        head = json.loads(line)
        if head["format"] != _FORMAT:
            return None
        tables: list[PackedTable] = []
        for one in head["tables"]:
            rows, rest = rest[: one["bytes"]], rest[one["bytes"] :]
            if len(rows) != one["bytes"] or len(rows) % ROW.size or not rows:
                return None
            like = tables[0] if tables else None
            files, columns = tuple(map(str, one["files"])), int(one["columns"])
            tables.append(PackedTable(folder, files, rows, columns, like, session))
        return (tables, dict(head["note"])) if tables else None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
