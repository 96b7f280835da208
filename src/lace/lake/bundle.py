"""Bundles: files of concatenated records, and where they can be cut for many readers at once.

A cut is never guessed: looking for a markline would find records that lie inside the data of other
records. Cuts come from one pass over the bundle, and may be kept in an index beside it. An index is
not believed either: a reader that starts at a cut must end exactly at the next one, so that all
cuts are true if the first is, and the first is the beginning of the file. Behind damage, cuts lie
at records that prove to be ones (``lace.lake.salvage``).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import RawIOBase
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import pyarrow as pa
from pyarrow import fs

from lace.b64a import encode
from lace.crypto.hashing import blake3
from lace.errors import Code, LakeError
from lace.lake.places import CHUNK, Bytes, file_size, filesystem, read_range, write_whole
from lace.lake.salvage import boundaries
from lace.limits import DEFAULT_LIMITS, LAKE, MIB, Limits
from lace.record.split import Frame, RecordSplitter
from lace.recordstore.files import BEGIN

SEGMENT_BYTES: Final = 32 * MIB
"""Of one task, and so of one file, where there is much to read."""
CUT_BYTES: Final = 4 * MIB
"""Between cuts: what a task has at least, where there is little."""
SUFFIX: Final = ".records"
_COMPRESSED: Final = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES: Final = (SUFFIX, *(f"{SUFFIX}{ending}" for ending in _COMPRESSED))
EXPANDED_BYTES: Final = 64 << 30
"""What a compressed bundle may become; more is put aside."""
INDEX_SUFFIX: Final = ".cuts"
_WILD: Final = re.compile(r"[*?\[]")
_PATTERN: Final = re.compile(r"\*+|\?|\[!?[^\]]+\]|.")
_LACE: Final = "lace.toml"
_FORMAT: Final = 1
_SEGMENTS_A_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of whole records in a bundle."""

    bundle: str
    start: int
    end: int
    final: bool
    """Whether this is the last one: only there may a record be broken off."""

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a bundle found out."""

    bundle: str
    size: int
    digest: str
    cuts: tuple[int, ...]
    """Record boundaries at which the bundle can be cut."""

    def segments(self) -> list[Segment]:
        """Return what lies between the cuts; ``joined`` makes larger segments of them."""
        pairs = pairwise([0, *self.cuts, self.size])
        return [
            Segment(self.bundle, start, end, end == self.size)
            for start, end in pairs
            if end > start
        ]

    def to_json(self) -> dict[str, Any]:
        return {"bundle": self.bundle, "size": self.size, "digest": self.digest,
                "cuts": list(self.cuts)}  # fmt: skip

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Survey:
        return cls(value["bundle"], value["size"], value["digest"], tuple(value["cuts"]))


def joined(segments: Iterable[Segment], most: int) -> list[Segment]:
    """Return the same bytes in fewer segments: neighbours together, all of about the same size.

    There are as many as are needed for so many bytes each; one may have a cut more than that.
    """
    made: list[Segment] = []
    for run in _runs(segments):
        start, size = run[0].start, max(1, run[-1].end - run[0].start)
        count = -(-size // most)
        parts: dict[int, list[Segment]] = {}
        for segment in run:
            parts.setdefault((segment.start - start) * count // size, []).append(segment)
        made += (Segment(p[0].bundle, p[0].start, p[-1].end, p[-1].final) for p in parts.values())
    return made


def _runs(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return segments that follow one another in their bundle together."""
    runs: list[list[Segment]] = []
    for segment in segments:
        last = runs[-1][-1] if runs else None
        if last is not None and (last.bundle, last.end) == (segment.bundle, segment.start):
            runs[-1].append(segment)
        else:
            runs.append([segment])
    return runs


def list_bundles(paths: Sequence[str], *, may_be_empty: bool = False) -> list[str]:
    """Return the bundles among files and folders, sorted; a folder is searched for ``*.records``.

    A path that nothing has may be a pattern: ``*``, ``?`` and ``[…]`` stand for parts of one name.
    """
    found: set[str] = set()
    for given in [one for path in paths for one in _expanded(path)]:
        path = given if "://" in given else os.path.abspath(given)  # noqa: PTH100 (or a URI)
        system, inner = filesystem(path)
        scheme = path[: len(path) - len(inner)] if "://" in path else ""
        info = system.get_file_info(inner)
        if info.type == fs.FileType.File:
            if is_database(path):
                raise _lace(path)
            found.add(path)
        elif info.type == fs.FileType.Directory:
            inside = system.get_file_info(fs.FileSelector(inner, recursive=True))
            if any(entry.path == f"{inner.rstrip('/')}/{_LACE}" for entry in inside):
                raise _lace(path)
            found |= {
                scheme + entry.path
                for entry in inside
                if entry.type == fs.FileType.File and entry.path.endswith(SUFFIXES)
            }
        else:
            raise LakeError(f"cannot read {path}: there is no such file", code=Code.LAKE_INPUT)
    if not found and not may_be_empty:
        raise LakeError(f"no bundles in {', '.join(paths)}", code=Code.LAKE_INPUT)
    return sorted(found)


def _expanded(given: str) -> list[str]:
    """Return what a pattern stands for; anything else stands for itself."""
    path = given if "://" in given else os.path.abspath(given)  # noqa: PTH100 (or a URI)
    system, inner = filesystem(path)
    first = _WILD.search(inner)
    if first is None or system.get_file_info(inner).type != fs.FileType.NotFound:
        return [path]
    scheme = path[: len(path) - len(inner)]
    base = inner[: first.start()].rpartition("/")[0]
    deep = "/" in inner[first.start() :]
    selector = fs.FileSelector(base or "/", recursive=deep, allow_not_found=True)
    try:
        fits = re.compile("/".join(map(_segment, inner.split("/"))))
    except re.error:
        raise LakeError(f"{given} is no pattern", code=Code.LAKE_INPUT) from None
    found = [e.path for e in system.get_file_info(selector) if fits.fullmatch(e.path)]
    if not found:
        raise LakeError(f"nothing fits {given}", code=Code.LAKE_INPUT)
    return [scheme + one for one in sorted(found)]


def _segment(pattern: str) -> str:
    """Return the regular expression of one name of a pattern; it never goes beyond that name."""
    parts = _PATTERN.findall(pattern)
    made = {"*": "[^/]*", "?": "[^/]"}
    return "".join(
        made.get(part[0])
        or (f"[{part[1:-1].replace('!', '^', 1)}]" if len(part) > 2 else re.escape(part))
        for part in parts
    )


def _lace(path: str) -> LakeError:
    hint = "Bring its records with lace lake reconcile --apply."
    return LakeError(f"{path} is a lace, no bundle", code=Code.LAKE_INPUT, hint=hint)


def is_database(bundle: str) -> bool:
    """Whether a file is a SQLite lace, and no bundle."""
    system, path = filesystem(bundle)
    with system.open_input_file(path) as file:
        return cast("bytes", file.read(len(BEGIN))) == BEGIN


def survey(bundle: str, limits: Limits = DEFAULT_LIMITS, cut_bytes: int = CUT_BYTES) -> Survey:
    """Return digest and cuts of a bundle; cuts of an index beside it are taken over."""
    size = file_size(bundle)
    if compression(bundle) is not None:  # cannot be read in parts
        return Survey(bundle, size, _digest(bundle, size), ())
    indexed = read_index(bundle, size)
    hasher = blake3()
    splitter = RecordSplitter(limits)
    cuts = [0]
    last = 0
    for chunk in read_range(bundle, 0, size):
        hasher.update(chunk)
        if indexed is None:
            for frame in splitter.feed(chunk):
                if isinstance(frame, Frame):
                    last = frame.offset
                    if last - cuts[-1] >= cut_bytes:
                        cuts.append(last)
    splitter.close()
    if splitter.broken is not None and size - last > cut_bytes:
        with Bytes(bundle) as file:
            for place in boundaries(file, last, limits):  # behind the damage
                if place - cuts[-1] >= cut_bytes:
                    cuts.append(place)
    digest = encode(hasher.digest())
    if indexed is not None:
        if indexed.digest != digest:
            raise LakeError(f"{bundle}{INDEX_SUFFIX} is of another bundle", code=Code.LAKE_INDEX)
        return indexed
    return Survey(bundle, size, digest, tuple(cuts[1:]))


def compression(bundle: str) -> str | None:
    """Return how a bundle is compressed, by its name; None if it is not."""
    return next((kind for end, kind in _COMPRESSED.items() if bundle.endswith(end)), None)


def _digest(bundle: str, size: int) -> str:
    hasher = blake3()
    for chunk in read_range(bundle, 0, size):
        hasher.update(chunk)
    return encode(hasher.digest())


@contextmanager
def expanded(segment: Segment, packed: Bytes | None = None) -> Iterator[tuple[Segment, str]]:
    """Give a segment as plain bytes while the block runs, and what is wrong with the rest.

    A compressed bundle becomes a file beside the worker: reading on behind damage needs to go back.
    ``packed`` is what it is read from, once from the beginning to the end.
    """
    kind = compression(segment.bundle)
    if kind is None:
        yield segment, ""
        return
    with TemporaryDirectory(prefix="lace-bundle-") as folder:
        plain = Path(folder) / f"plain{SUFFIX}"
        fault = ""
        opened = Bytes(segment.bundle) if packed is None else nullcontext(packed)
        with plain.open("wb") as out, opened as file:
            size = 0
            try:
                with pa.CompressedInputStream(_Forward(file), kind) as stream:
                    while chunk := stream.read(CHUNK):
                        size += len(chunk)
                        if size > EXPANDED_BYTES:
                            fault = f"it expands to more than {EXPANDED_BYTES:,} bytes"
                            break
                        out.write(chunk)
            except OSError as error:
                fault = f"it cannot be decompressed: {error}"
        yield Segment(str(plain), 0, plain.stat().st_size, final=True), fault


class _Forward(RawIOBase):
    """A file that is read from its beginning to its end."""

    def __init__(self, file: Bytes) -> None:
        self._file, self._at = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def cut(bundle: str, limits: Limits = DEFAULT_LIMITS, most: int = SEGMENT_BYTES) -> list[Segment]:
    """Return the segments of a bundle; only a large one without an index has to be read for it."""
    size = file_size(bundle)
    if compression(bundle) is not None:
        return Survey(bundle, size, "", ()).segments()
    indexed = read_index(bundle, size)
    if indexed is None and size > most:
        indexed = survey(bundle, limits)
    return joined((indexed or Survey(bundle, size, "", ())).segments(), most)


def segment_bytes(total: int, cores: int) -> int:
    """Return how large segments should be, so that all cores end at about the same time."""
    each = max(_SEGMENTS_A_CORE, -(-total // (SEGMENT_BYTES * cores)))
    return max(CUT_BYTES, -(-total // (each * cores)))


def write_index(found: Survey) -> str:
    """Keep a survey beside its bundle; return the name of the file."""
    if compression(found.bundle) is not None:
        raise LakeError(
            f"{found.bundle} is compressed, and cannot be read in parts",
            code=Code.LAKE_INPUT,
            hint="Decompress it first; smaller compressed bundles are read side by side.",
        )
    content = found.to_json() | {"format": _FORMAT}
    del content["bundle"]  # an index stays true when both files are moved
    write_whole(found.bundle + INDEX_SUFFIX, json.dumps(content, sort_keys=True).encode())
    return found.bundle + INDEX_SUFFIX


def read_index(bundle: str, size: int) -> Survey | None:
    """Return the survey kept beside a bundle, or None; raise if it cannot be of this bundle."""
    system, path = filesystem(bundle)
    info = system.get_file_info(path + INDEX_SUFFIX)
    if info.type != fs.FileType.File:
        return None
    problem = LakeError(f"{bundle}{INDEX_SUFFIX} does not fit {bundle}", code=Code.LAKE_INDEX)
    if info.size > LAKE.index_bytes:
        raise problem
    try:
        with system.open_input_file(path + INDEX_SUFFIX) as file:
            content = json.loads(cast("bytes", file.read()))
        kept = Survey.from_json(content | {"bundle": bundle})
        edges = [0, *kept.cuts, size]
        fits = content["format"] == _FORMAT and kept.size == size and isinstance(kept.digest, str)
        ordered = all(type(b) is int and a < b for a, b in pairwise(edges))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise problem from None
    if not fits or not (ordered or not kept.cuts):
        raise problem
    return kept
