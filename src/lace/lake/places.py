"""Where things are: paths of this machine, and addresses of other stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from pyarrow import fs

from lace.errors import Code, LakeError
from lace.limits import MIB

CHUNK: Final = 4 * MIB
_FIRST_CHUNK: Final = 64 * 1024


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    if "://" in uri:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return found
    return fs.LocalFileSystem(), uri


def file_size(uri: str) -> int:
    """Return how many bytes a file has; raise ``LakeError`` if there is none."""
    system, path = filesystem(uri)
    info = system.get_file_info(path)
    if info.type != fs.FileType.File:
        raise LakeError(f"cannot read {uri}: there is no such file", code=Code.LAKE_INPUT)
    return int(info.size)


def read_range(uri: str, start: int, end: int, chunk: int = CHUNK) -> Iterator[bytes]:
    """Yield the bytes of a range in bounded chunks; raise if the file has become shorter."""
    return _read_range(uri, start, end, chunk, chunk)


def read_growing(uri: str, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a range, a little at first: not all of it may be wanted."""
    return _read_range(uri, start, end, _FIRST_CHUNK, CHUNK)


def _read_range(uri: str, start: int, end: int, first: int, most: int) -> Iterator[bytes]:
    system, path = filesystem(uri)
    with system.open_input_file(path) as file:
        file.seek(start)
        at, chunk = start, first
        while at < end:
            data = cast("bytes", file.read(min(chunk, end - at)))
            if not data:
                raise LakeError(f"{uri} ended at byte {at}", code=Code.LAKE_CHANGED)
            at += len(data)
            chunk = min(4 * chunk, most)
            yield data
