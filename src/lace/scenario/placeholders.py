"""Names in braces: ``{bob}`` stands for Bob's verifier or for the hash of the record of that name.

Rules and fields in a scenario cannot spell out hashes that follow from the scenario itself. What is
filled in remembers where it stood, so that a message about filled-in rules can point into the text
that its author wrote. Braces around anything but a name are just braces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from lace.errors import Diagnostic

NAME: Final = r"[a-z0-9]+(?:-[a-z0-9]+)*"
_PLACEHOLDER: Final = re.compile(rf"\{{({NAME})\}}")


@dataclass(frozen=True, slots=True)
class _Filling:
    """One placeholder: where it ends in the filled text, and what the author's text has there."""

    line: int
    start: int
    end: int
    authored_start: int
    authored_end: int


@dataclass(frozen=True, slots=True)
class Filled:
    """A text without placeholders that knows where they stood."""

    text: str
    fillings: tuple[_Filling, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names in braces that stand for nothing."""

    def authored_column(self, line: int, column: int) -> int:
        """Return the column in the author's text for a 1-based place in the filled text."""
        for filling in reversed(self.fillings):
            if filling.line == line and column >= filling.start:
                if column >= filling.end:
                    return column - filling.end + filling.authored_end
                return filling.authored_start  # inside of what was filled in
        return column

    def authored(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return a diagnostic about the filled text with its place in the author's text."""
        line = diagnostic.line
        start = self.authored_column(line, diagnostic.column)
        end = self.authored_column(line, diagnostic.column + diagnostic.length)
        return replace(diagnostic, column=start, length=max(1, end - start))


def placeholders(text: str) -> list[str]:
    """Return the names that a text has in braces."""
    return _PLACEHOLDER.findall(text)


def fill(text: str, values: Mapping[str, str]) -> Filled:
    """Return the text with every known name in braces replaced by what it stands for."""
    lines: list[str] = []
    fillings: list[_Filling] = []
    unknown: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        made, at = "", 0
        for found in _PLACEHOLDER.finditer(line):
            value = values.get(found.group(1))
            if value is None:
                unknown.append(found.group(1))
                continue
            made += line[at : found.start()]
            start = len(made) + 1
            made += value
            at = found.end()
            fillings.append(
                _Filling(number, start, len(made) + 1, found.start() + 1, found.end() + 1)
            )
        lines.append(made + line[at:])
    return Filled("\n".join(lines), tuple(fillings), tuple(unknown))
