"""Where things are: paths of this machine, and addresses of other stores.

Three libraries look at one address: pyarrow in the workers, delta-rs for the logs, and Spark. Each
spells it differently and is told differently where the store is. That is decided here and nowhere
else, from the environment that Amazon's own tools read: ``AWS_ENDPOINT_URL``, ``AWS_REGION``, keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Self, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

from pyarrow import fs

from lace.crypto.hashing import blake3
from lace.errors import Code, LakeError
from lace.limits import MIB

CHUNK: Final = 4 * MIB
_FIRST_CHUNK: Final = 64 * 1024
_HELD_BLOCKS: Final = 2


_S3: Final = frozenset({"s3", "s3a", "s3n"})
_SPARK_SCHEMES: Final = {"s3": "s3a", "s3n": "s3a"}
_DELTA_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
KNOWN: Final = frozenset({"", "file", "hdfs", "gs", "abfs", "abfss", *_S3})


def scheme_of(uri: str) -> str:
    """Return what kind of store an address names; empty for a path of this machine."""
    return uri.partition("://")[0].lower() if "://" in uri else ""


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    scheme = scheme_of(uri)
    if not scheme:
        return fs.LocalFileSystem(), uri
    if scheme not in KNOWN:
        raise LakeError(
            f"{uri}: no store is known by {scheme}://",
            code=Code.LAKE_INPUT,
            hint=f"Give a path, or one of {', '.join(sorted(f'{k}://' for k in KNOWN if k))}.",
        )
    if scheme in _S3:
        return _s3(*_s3_settings()), uri.partition("://")[2]
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    return found


def write_whole(uri: str, content: bytes) -> None:
    """Write a small file in one step: another process may be reading it, or writing it too."""
    system, path = filesystem(uri)
    draft = f"{path}.{uuid4().hex}.draft"
    with system.open_output_stream(draft) as file:
        file.write(content)
    system.move(draft, path)


def _s3_settings() -> tuple[str | None, str | None]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return endpoint, region


@lru_cache(maxsize=8)
def _s3(endpoint: str | None, region: str | None) -> fs.FileSystem:
    options: dict[str, Any] = {}
    if endpoint is not None:
        place = urlsplit(endpoint)
        options |= {"endpoint_override": place.netloc, "scheme": place.scheme}
    if region is not None:
        options["region"] = region
    return fs.S3FileSystem(**options)


def delta_place(uri: str) -> tuple[str, dict[str, str] | None]:
    """Return an address as delta-rs spells it, and what it has to be told of the store.

    A commit is a put that fails if the object is there already; the store must know such puts.
    """
    scheme = scheme_of(uri)
    if scheme not in _S3:
        return uri, None
    endpoint, region = _s3_settings()
    options = {"aws_conditional_put": "etag"}
    if endpoint is not None:
        options["aws_endpoint_url"] = endpoint
        if endpoint.startswith("http:"):
            options["aws_allow_http"] = "true"
    if region is not None:
        options["aws_region"] = region
    return f"{_DELTA_SCHEMES.get(scheme, scheme)}://{uri.partition('://')[2]}", options


def spark_place(uri: str) -> str:
    """Return an address as Spark spells it."""
    scheme = scheme_of(uri)
    return (
        f"{_SPARK_SCHEMES[scheme]}://{uri.partition('://')[2]}" if scheme in _SPARK_SCHEMES else uri
    )


def spark_url(uri: str) -> str:
    """Return an address as Spark spells it where it takes nothing but URLs."""
    place = spark_place(uri)
    scheme, _, rest = place.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme or 'file'}://{host}{slash}{quote(path)}"


def file_info(uri: str) -> Any:
    """Return what a store says of a file; raise ``LakeError`` if there is none."""
    system, path = filesystem(uri)
    info = system.get_file_info(path)
    if info.type != fs.FileType.File:
        raise LakeError(f"cannot read {uri}: there is no such file", code=Code.LAKE_INPUT)
    return info


def file_size(uri: str) -> int:
    """Return how many bytes a file has; raise ``LakeError`` if there is none."""
    return int(file_info(uri).size)


def read_range(uri: str, start: int, end: int, chunk: int = CHUNK) -> Iterator[bytes]:
    """Yield the bytes of a range in bounded chunks; raise if the file has become shorter."""
    with Bytes(uri) as file:
        if end > file.size:
            raise LakeError(f"{uri} ended at byte {file.size}", code=Code.LAKE_CHANGED)
        yield from file.pieces(start, end, chunk)


class Bytes:
    """A file that is read at any place, each of its chosen blocks once.

    Blocks that are chosen are read whole, kept for a while, and digested as they come, so that
    whoever goes through them needs no second read for their digests.
    """

    def __init__(self, uri: str, blocks: range = range(0), block: int = CHUNK) -> None:
        self.uri = uri
        system, path = filesystem(uri)
        try:
            self._file = system.open_input_file(path)
        except FileNotFoundError:
            raise LakeError(
                f"cannot read {uri}: there is no such file", code=Code.LAKE_INPUT
            ) from None
        self.size = int(self._file.size())
        self._block = block
        self._chosen = blocks
        self._held: dict[int, bytes] = {}
        self._digests: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, at: int, length: int) -> bytes:
        """Return the bytes at a place; fewer at the end of the file."""
        parts = []
        end = min(at + length, self.size)
        while at < end:
            number = at // self._block
            if number in self._chosen:
                begin = number * self._block
                part = self._whole(number)[at - begin : end - begin]
            else:
                edge = self._chosen.start * self._block
                part = self._direct(at, (min(end, edge) if at < edge else end) - at)
            parts.append(part)
            at += len(part)
        return b"".join(parts) if len(parts) != 1 else parts[0]

    def growing(self, start: int, end: int) -> Iterator[bytes]:
        """Yield the bytes of a range, a little at first: not all of it may be wanted."""
        at, chunk = start, _FIRST_CHUNK
        last = self._chosen.stop * self._block
        while at < end:
            most = min(chunk, end - at)
            if at < last:
                most = min(most, last - at)
            data = self.read(at, most)
            if not data:
                raise LakeError(f"{self.uri} ended at byte {at}", code=Code.LAKE_CHANGED)
            at += len(data)
            chunk = _FIRST_CHUNK if at == last else min(4 * chunk, CHUNK)
            yield data

    def pieces(self, start: int, end: int, length: int) -> Iterator[bytes]:
        """Yield the bytes of a range in pieces of a length."""
        for at in range(start, end, length):
            yield self.read(at, min(length, end - at))

    def digests(self) -> list[bytes]:
        """Return the digests of all chosen blocks; those that nobody has read yet are read now."""
        for number in self._chosen:
            if number not in self._digests:
                self._whole(number)
        return [self._digests[number] for number in self._chosen]

    def _whole(self, number: int) -> bytes:
        held = self._held.get(number)
        if held is None:
            held = self._direct(number * self._block, self._block)
            if number not in self._digests:
                self._digests[number] = blake3(held).digest()
            if len(self._held) >= _HELD_BLOCKS:
                del self._held[next(iter(self._held))]
            self._held[number] = held
        return held

    def _direct(self, at: int, length: int) -> bytes:
        wanted = min(length, self.size - at)
        data = cast("bytes", self._file.read_at(wanted, at))
        if len(data) != wanted:
            raise LakeError(f"{self.uri} ended at byte {at + len(data)}", code=Code.LAKE_CHANGED)
        return data
