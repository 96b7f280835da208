"""Eight characters of each hash, file by file: whether a file can hold a record, and in which rows.

A file of a table never changes, so neither do its prints. They lie in the folder ``prints`` of the
lake, in the order of the rows, and are made by whoever writes the file, or by the first who asks.
Nothing depends on their being there: what is missing or damaged is made again from the file. Equal
prints are a reason to look, and no more: whoever finds them compares the hashes themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from lace.crypto.hashing import blake3
from lace.lake.places import filesystem

FOLDER: Final = "prints"
_KEY: Final = b"lace-lake-prints/v1"
_DIGEST_BYTES: Final = 32
_WIDTH: Final = 8
_BEGIN: Final = 2
"""Behind the letter and the dot of a hash."""
_SUFFIX: Final = ".parquet"
_TOGETHER: Final = 8_000_000
"""Rows that are compared at once."""


def prints_of(hashes: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the prints of hashes: eight characters each, seen as a number."""
    if isinstance(hashes, pa.ChunkedArray):
        hashes = hashes.combine_chunks()
    end = _BEGIN + _WIDTH
    parts = pc.binary_slice(hashes.cast(pa.binary()), _BEGIN, end)
    parts = pc.binary_join_element_wise(parts, b" " * _WIDTH, b"")  # what is too short is filled up
    fixed = pc.binary_slice(parts, 0, _WIDTH).cast(pa.binary(_WIDTH))
    if fixed.offset:
        fixed = pa.concat_arrays([fixed])
    return pa.Array.from_buffers(pa.int64(), len(fixed), [None, fixed.buffers()[1]])


def keep(root: str, name: str, prints: Sequence[pa.Array]) -> None:
    """Write the prints of a file down; a store that cannot be written to has none."""
    system, path = filesystem(_place(root, name))
    data = b"".join(part.buffers()[1][8 * part.offset :][: 8 * len(part)] for part in prints)
    with suppress(OSError):
        system.create_dir(path.rpartition("/")[0], recursive=True)
        with system.open_output_stream(path) as file:
            file.write(data)
            file.write(_digest(name, data))


def read(root: str, uri: str) -> pa.Array:
    """Return the prints of the rows of a file of a lake, in order; they are made where needed."""
    name = uri.rpartition("/")[2]
    system, path = filesystem(_place(root, name))
    try:
        with system.open_input_file(path) as file:
            data = cast("bytes", file.read())
    except OSError:  # there are none, or they cannot be read
        data = b""
    content = memoryview(data)[:-_DIGEST_BYTES]
    if len(content) % _WIDTH == 0 and data[-_DIGEST_BYTES:] == _digest(name, content):
        return pa.Array.from_buffers(
            pa.int64(), len(content) // _WIDTH, [None, pa.py_buffer(content)]
        )
    system, path = filesystem(uri)
    made = prints_of(pq.read_table(path, columns=["hash"], filesystem=system).column("hash"))
    keep(root, name, [made])
    return made


def matching(root: str, uris: Iterable[str], wanted: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield each file of which some prints are wanted, with these."""
    held: list[tuple[str, pa.Array]] = []
    rows = 0
    for uri in uris:
        held.append((uri, read(root, uri)))
        rows += len(held[-1][1])
        if rows >= _TOGETHER:
            yield from _matching(held, wanted)
            held, rows = [], 0
    yield from _matching(held, wanted)


def _matching(
    held: Sequence[tuple[str, pa.Array]], wanted: pa.Array
) -> Iterator[tuple[str, pa.Array]]:
    # At once: what is wanted is prepared for each comparison anew.
    whole = pa.chunked_array([prints for _, prints in held], pa.int64())
    found = pc.is_in(whole, wanted).combine_chunks()
    at = 0
    for uri, prints in held:
        some = prints.filter(found.slice(at, len(prints)))
        at += len(prints)
        if len(some):
            yield uri, some


def rows_of(
    root: str, uris: Iterable[str], hashes: pa.Array, columns: Sequence[str]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows with one of some hashes; only row groups that may have one are read."""
    wanted = prints_of(hashes)
    for uri, _ in matching(root, uris, wanted):
        rows = pc.indices_nonzero(pc.is_in(read(root, uri), wanted)).to_pylist()
        system, path = filesystem(uri)
        with pq.ParquetFile(path, filesystem=system) as file:
            for group in _groups(file, rows):
                column = file.read_row_group(group, columns=["hash"]).column("hash")
                found = pc.is_in(column, hashes)
                if pc.any(found).as_py():
                    table = file.read_row_group(group, columns=list(columns))
                    yield uri, table.filter(found)


def _groups(file: pq.ParquetFile, rows: Sequence[int]) -> list[int]:
    """Return the row groups of a file that hold some rows, which are in order."""
    sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    ends = list(accumulate(sizes))
    found: list[int] = []
    group = 0
    for row in rows:
        while row >= ends[group]:
            group += 1
        if not found or found[-1] != group:
            found.append(group)
    return found


def tidy(root: str, there: set[str], before_ms: int, *, dry_run: bool) -> tuple[int, int]:
    """Remove prints of files that are no longer there; return how many, and their bytes."""
    system, path = filesystem(f"{root}/{FOLDER}")
    known = {name.removesuffix(_SUFFIX) for name in there}
    gone = [
        info
        for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        if info.base_name not in known and (info.mtime_ns or 0) // 1_000_000 < before_ms
    ]
    for info in gone if not dry_run else ():
        system.delete_file(info.path)
    return len(gone), sum(info.size or 0 for info in gone)


def _place(root: str, name: str) -> str:
    return f"{root}/{FOLDER}/{name.removesuffix(_SUFFIX)}"


def _digest(name: str, content: bytes | memoryview) -> bytes:
    hasher = blake3(_KEY + name.encode() + b"\n")
    hasher.update(content)
    return hasher.digest()
