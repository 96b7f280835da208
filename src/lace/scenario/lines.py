"""Which line of a TOML text a value stands on, so that messages can point at it.

The standard library reads TOML without places. This follows headers, keys and the items of arrays
in the layout that people write; where it cannot follow, it answers with the nearest line it knows.
It never decides what a text means.
"""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str | int, ...]

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-\"' ]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_\-]+|\"[^\"]*\"|'[^']*')\s*=\s*(.*)$")
_STRINGS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_BLOCKS: Final = ("'''", '"""')


class Places:
    """The lines of a text by path."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._scan(text.split("\n"))

    def line(self, *path: str | int) -> int:
        """Return the 1-based line of a path, or of the nearest part of it that is known."""
        for length in range(len(path), 0, -1):
            found = self._lines.get(path[:length])
            if found is not None:
                return found
        return 1

    def block_start(self, *path: str | int) -> int:
        """Return the line on which the text of a multi-line string begins."""
        return self._lines.get((*path, "'''"), self.line(*path))

    def _scan(self, lines: list[str]) -> None:
        table: Path = ()
        counts: dict[Path, int] = {}
        block = ""
        array: Path | None = None
        depth = items = 0
        for number, line in enumerate(lines, 1):
            if block:
                if block in line:
                    block = ""
                continue
            if array is not None:
                bare = line.strip()
                if depth == 1 and bare[:1] in {'"', "'", "{"}:
                    self._lines[*array, items] = number
                    items += 1
                depth += _opened(line)
                if depth <= 0:
                    array = None
                continue
            header = _HEADER.match(line)
            if header is not None:
                table = tuple(part.strip(" \"'") for part in header.group(2).split("."))
                if header.group(1) == "[[":
                    counts[table] = counts.get(table, -1) + 1
                table = _with_counts(table, counts)
                self._lines[table] = number
                continue
            key = _KEY.match(line)
            if key is None:
                continue
            path = (*table, key.group(1).strip("\"'"))
            self._lines[path] = number
            value = key.group(2)
            for mark in _BLOCKS:
                if value.startswith(mark):
                    rest = value.removeprefix(mark)
                    self._lines[*path, "'''"] = number if rest else number + 1
                    block = "" if mark in rest else mark
            if value.startswith("["):
                depth = _opened(value)
                array, items = (path, 0) if depth > 0 else (None, 0)


def _with_counts(table: Path, counts: dict[Path, int]) -> Path:
    """Return a table's path with the number of each array of tables in it."""
    path: list[str | int] = []
    for length in range(1, len(table) + 1):
        path.append(table[length - 1])
        if table[:length] in counts:
            path.append(counts[table[:length]])
    return tuple(path)


def _opened(line: str) -> int:
    bare = _STRINGS.sub("", line).partition("#")[0]
    return bare.count("[") - bare.count("]")
