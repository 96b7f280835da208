"""What ingests have read, kept beside the tables: which bundles, and how far.

The tables name an ingest by its id alone. Its notes say what the id stands for, so that bundles
that were read to the end are known again, and where a step came out of a bundle, so that the next
one goes on there. Notes are written before what depends on them; without them bundles are read
again, and nothing is lost or doubled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from pyarrow import fs

from lace.b64a import encode
from lace.crypto.hashing import blake3
from lace.crypto.native import digest
from lace.errors import Code, LakeError
from lace.lake.parts import Input, Part, Staged, boundary, bundle_digest
from lace.lake.places import Bytes, filesystem
from lace.limits import LAKE

if TYPE_CHECKING:
    from lace.lake.tables import Lake

_FOLDER: Final = "ingests"
_KEY: Final = b"lace-lake-name/v1"
_BLOCK_BYTES: Final = 32
_RACY_MS: Final = 2_000
"""A bundle that was written so shortly before it was read may have been written again unseen."""


def key_of(work: str) -> str:
    """Return what stands for some work in names of files: nothing that any store would escape."""
    return digest(_KEY + work.encode()).hex()[:32]


@dataclass(frozen=True, slots=True)
class Finished:
    """A bundle that was read to the end."""

    digest: str
    modified: int
    begun: int
    """When the ingest looked at it first, in milliseconds."""

    def surely(self, now: Input) -> bool:
        """Whether a bundle is the same without doubt, by the time at which it was written."""
        return self.modified == now.modified and now.modified < (self.begun - _RACY_MS) * 1_000_000


def finished_inputs(
    lake: Lake, work: Callable[[str], str]
) -> dict[tuple[str, int], list[Finished]]:
    """Return the bundles of all ingests that came to their end, by name and size."""
    system, root = filesystem(lake.root)
    selector = fs.FileSelector(f"{root}/{_FOLDER}", allow_not_found=True)
    notes = [
        _read(system, info.path)
        for info in system.get_file_info(selector)
        if info.extension == "json" and "-" not in info.base_name
    ]
    # Those of older engines have none. What was let in again may be in any bundle.
    since = lake.remembered()
    notes = [n for n in notes if "steps" in n and n.get("remembered", 0) == since]
    done = lake.records_log.all_done({work(note["ingest"]): note["steps"] for note in notes})
    found: dict[tuple[str, int], list[Finished]] = {}
    for note in notes:
        if work(note["ingest"]) not in done:
            continue
        inputs = note["inputs"]
        if not all(entry[2] for entry in inputs):  # broken off at the very end
            inputs = Notes(lake.root, note["ingest"]).end()
        for bundle, size, known, *times in inputs:
            modified, begun = times or (0, 0)
            found.setdefault((bundle, size), []).append(Finished(known, modified, begun))
    return found


def digests_of(bundle: str, block: int) -> tuple[str, str]:
    """Return what a bundle is known by, and what older engines know it by."""
    whole = blake3()
    parts = []
    with Bytes(bundle) as file:
        for piece in file.pieces(0, file.size, block):
            whole.update(piece)
            parts.append(blake3(piece).digest())
    return bundle_digest(parts), encode(whole.digest())


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of one ingest."""

    root: str
    """Of the lake."""
    ingest: str

    def begin(self, inputs: Sequence[Input], steps: int, begun: int, remembered: int) -> None:
        """Write down what an ingest reads, before it reads it."""
        entries = [[entry.bundle, entry.size, "", entry.modified, begun] for entry in inputs]
        content = {
            "ingest": self.ingest, "steps": steps, "inputs": entries, "remembered": remembered,
        }  # fmt: skip
        with suppress(FileNotFoundError):
            before = self._read("")
            content["inputs"] = before["inputs"]  # of a run that was broken off
        self._write("", content)

    def step(self, number: int, staged: Staged) -> None:
        """Write down where a step came out, before it is committed."""
        self._write(f"-{number}", {"behind": staged.behind, "digests": staged.digests})

    def begins(self, step: Iterable[Part], number: int) -> dict[str, int]:
        """Return where a step has to begin in the bundles that an earlier one has read in part."""
        begun = [part for part in step if part.start]
        behind: dict[str, int] = {}
        if begun:
            with suppress(FileNotFoundError):
                behind = self._read(f"-{number - 1}")["behind"]
        return {
            part.bundle: behind[part.bundle]
            if part.bundle in behind
            else boundary(part.bundle, part.start)
            for part in begun
        }

    def end(self) -> list[Any]:
        """Write down what the bundles are known by, and remove what was noted of the steps."""
        note = self._read("")
        names = [f"-{number + 1}" for number in range(note["steps"])]
        try:
            steps = [self._read(name) for name in names]
        except FileNotFoundError:
            return list(
                note["inputs"]
            )  # another process was quicker, or they are gone: then times have to do
        blocks: dict[str, bytes] = {}
        for step in steps:
            for bundle, text in step["digests"].items():
                blocks[bundle] = blocks.get(bundle, b"") + bytes.fromhex(text)
        for entry in note["inputs"]:
            whole = blocks.get(entry[0], b"")
            parts = (whole[at : at + _BLOCK_BYTES] for at in range(0, len(whole), _BLOCK_BYTES))
            entry[2] = bundle_digest(parts)
        self._write("", note)
        system, _ = filesystem(self.root)
        for name in names:
            with suppress(FileNotFoundError):
                system.delete_file(self._path(name))
        return list(note["inputs"])

    def _path(self, ending: str) -> str:
        _, root = filesystem(self.root)
        return f"{root}/{_FOLDER}/{key_of(self.ingest)}{ending}.json"

    def _read(self, ending: str) -> dict[str, Any]:
        system, _ = filesystem(self.root)
        return _read(system, self._path(ending))

    def _write(self, ending: str, content: dict[str, Any]) -> None:
        system, root = filesystem(self.root)
        system.create_dir(f"{root}/{_FOLDER}", recursive=True)
        path = self._path(ending)
        draft = f"{path}.{uuid4().hex}"  # another process may be at the same ingest
        with system.open_output_stream(draft) as file:
            file.write(json.dumps(content).encode())
        system.move(draft, path)


def _read(system: fs.FileSystem, path: str) -> dict[str, Any]:
    with system.open_input_file(path) as file:
        if file.size() > LAKE.manifest_bytes:
            raise LakeError(f"{path} is too large", code=Code.LAKE_FORMAT)
        return cast("dict[str, Any]", json.loads(cast("bytes", file.read())))
