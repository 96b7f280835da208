"""Which rows of a file say what their place says already: rows that have no time of their own.

The rows of a place are its versions, in their order. When a file comes again, or goes on after it
was cut off, the newest versions there are what its first rows became. So the first rows are here
already as far as the newest versions say the same in the same order, and no other row is. Of
several such beginnings the longest counts. Then it makes no difference where an import was cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Final, NamedTuple

from lace.crypto.native import digest
from lace.limits import MIB
from lace.record.model import Plex
from lace.record.validate import reread
from lace.urc import Coordinate

__all__: list[str] = []

_IN_MEMORY: Final = 64 * MIB
_KEY_BYTES: Final = 16


class Decided(NamedTuple):
    """What became of a row, and of rows of its place that waited for it."""

    here: int = 0
    """How many are here already."""
    new: Sequence[Plex] = ()
    """Those that are new, in their order."""


@dataclass(slots=True)
class _Open:
    """A place of which it is not known yet how many of its first rows are here already."""

    versions: Sequence[bytes]
    """What the versions there say, the oldest first, nothing twice on end."""
    at: list[int]
    """Which of them may be the one that says what the last row says."""
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Where the rows are held that would be new if none of these is."""


class Repeats:
    """Decides row by row; holds rows that cannot be decided yet, on disk if there are many."""

    def __init__(
        self, versions: Callable[[Coordinate], Sequence[bytes]], *, in_memory: int = _IN_MEMORY
    ) -> None:
        """``versions`` returns what those at a place say; it is asked once for each place."""
        self._versions = versions
        self._open: dict[bytes, _Open] = {}
        self._said: dict[bytes, bytes] = {}  # of each place, by the row before
        self._in_memory = in_memory
        self._held: SpooledTemporaryFile[bytes] | None = None
        self._held_bytes = 0

    def take(self, place: Coordinate, saying: bytes, row: Plex) -> Decided:
        """Take the next row of a place; ``saying`` stands for what it says."""
        key = _key(place)
        before = self._said.get(key)
        if before == saying:
            return Decided(here=1)  # what was said just now need not be said again
        self._said[key] = saying
        if before is None:
            versions = self._versions(place)
            at = [number for number, said in enumerate(versions) if said == saying]
            found = _Open(versions, at)
        elif key in self._open:
            found = self._open.pop(key)
            found.at = [at + 1 for at in found.at if found.versions[at + 1] == saying]
        else:
            return Decided(new=(row,))
        here = 0
        if found.at and found.at[-1] == len(found.versions) - 1:
            here = len(found.rows) + 1  # this row says what the newest version says
            found.rows = []
            found.at.pop()
            if not found.at:
                return Decided(here)
        elif not found.at:
            return Decided(new=(*map(self._read, found.rows), row))
        else:
            found.rows.append(self._hold(row))
        self._open[key] = found
        return Decided(here)

    def end(self) -> Iterator[Plex]:
        """Yield the rows that are held: no others follow that would make them known."""
        for found in self._open.values():
            yield from map(self._read, found.rows)
        self._open.clear()

    def close(self) -> None:
        """Let go of what is held."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _hold(self, row: Plex) -> tuple[int, int]:
        if self._held is None:
            self._held = SpooledTemporaryFile(self._in_memory)  # noqa: SIM115 (`close` ends it)
        begin = self._held_bytes
        self._held.seek(begin)
        self._held.write(row.raw)
        self._held_bytes += len(row.raw)
        return begin, len(row.raw)

    def _read(self, held: tuple[int, int]) -> Plex:
        begin, length = held
        assert self._held is not None
        self._held.seek(begin)
        row = reread(self._held.read(length))
        assert isinstance(row, Plex)
        return row


def _key(place: Coordinate) -> bytes:
    """Return what stands for a place: a file may have millions."""
    return digest(f"{place.group}\n{place.app}\n{place.name}".encode())[:_KEY_BYTES]
