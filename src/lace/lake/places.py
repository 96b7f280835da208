"""Where things are: paths of this machine, and addresses of other stores.

Three libraries look at one address: pyarrow in the workers, delta-rs for the logs, and Spark. Each
spells it differently and is told differently where the store is. That is decided here and nowhere
else, from the environment that Amazon's own tools read: ``AWS_ENDPOINT_URL``, ``AWS_REGION``, keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pyarrow import fs

from lace.errors import Code, LakeError
from lace.limits import MIB

CHUNK: Final = 4 * MIB
_FIRST_CHUNK: Final = 64 * 1024


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
