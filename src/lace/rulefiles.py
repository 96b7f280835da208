"""Files of rules: with parts in other files, and with names in braces that are filled in.

``#:include "members.lacegram"`` on a line of its own stands for the lines of that file, which lies
in the folder of the first file or below it. ``'{owner}'`` stands for a value that is given with the
rules. What comes out is an ordinary text of rules; each line knows where it came from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn

from lace.errors import Code, Diagnostic, LacegramError, UsageError
from lace.limits import DEFAULT_LIMITS, FIXED
from lace.policy.module import Facet, PolicyModule, filled, module_from_text
from lace.text import shown

__all__ = ["module_from_file"]

_INCLUDE: Final = re.compile(r"\s*#:include\b(.*)")
_QUOTED: Final = re.compile(r"\s*\"([^\"]+)\"\s*")


@dataclass(frozen=True, slots=True)
class RuleText:
    """The text of rules, and of each line the file and the line there."""

    text: str
    origins: tuple[tuple[Path, int], ...]

    def located(self, diagnostic: Diagnostic) -> tuple[Path, Diagnostic]:
        """Return the file that a diagnostic is about, and the diagnostic with its line there."""
        number = min(diagnostic.line, len(self.origins)) - 1
        path, line = self.origins[max(0, number)] if self.origins else (Path(), diagnostic.line)
        return path, replace(diagnostic, line=line)


def read_rules(path: Path) -> RuleText:
    """Return the rules of a file with all that it includes; raise ``UsageError`` if it cannot."""
    lines: list[str] = []
    origins: list[tuple[Path, int]] = []
    _Reader(path, lines, origins).read(path, ())
    return RuleText("\n".join(lines), tuple(origins))


def module_from_file(
    path: str | Path,
    facet: Facet = Facet.SELECTOR,
    **parameters: str,
) -> PolicyModule:
    """Return the module of a file of rules, with what it includes and with its names filled in.

    ``parameters`` gives each name in braces its value; one that is left open is refused, since it
    would match nothing. Raises ``LacegramError`` with everything that is wrong with the rules.
    """
    found = read_rules(Path(path))
    try:
        return filled(module_from_text(found.text, facet), parameters)
    except LacegramError as error:
        raise LacegramError(tuple(_named(found, d) for d in error.diagnostics)) from None


def _named(found: RuleText, diagnostic: Diagnostic) -> Diagnostic:
    path, there = found.located(diagnostic)
    many = len({origin for origin, _ in found.origins}) > 1
    return replace(there, message=f"{path.name}: {there.message}") if many else there


class _Reader:
    """Reads a file and what it includes, once each."""

    def __init__(self, first: Path, lines: list[str], origins: list[tuple[Path, int]]) -> None:
        self._root = first.resolve().parent
        self._lines = lines
        self._origins = origins
        self._bytes = 0
        self._seen: set[Path] = set()

    def read(self, path: Path, chain: tuple[Path, ...]) -> None:
        if path.resolve() in chain:
            _refuse(f"{path} includes itself")
        if path.resolve() in self._seen:
            return  # rules that stand twice say nothing new
        self._seen.add(path.resolve())
        if len(self._seen) > FIXED.included_files:
            _refuse(f"more than {FIXED.included_files} files are included")
        for number, line in enumerate(self._content(path).split("\n"), 1):
            include = _INCLUDE.match(line)
            if include is None:
                self._lines.append(line)
                self._origins.append((path, number))
                continue
            name = _QUOTED.fullmatch(include[1])
            if name is None:
                _refuse(f'{path}, line {number}: write #:include "file.lacegram"')
            inner = path.parent / name[1]
            if Path(name[1]).is_absolute() or not inner.resolve().is_relative_to(self._root):
                _refuse(
                    f"{path}, line {number}: {shown(name[1])} is not in the folder of the rules"
                )
            self.read(inner, (*chain, path.resolve()))

    def _content(self, path: Path) -> str:
        limit = DEFAULT_LIMITS.lacegram_bytes
        try:
            with path.open("rb") as file:
                content = file.read(limit + 1)
        except OSError as error:
            _refuse(f"cannot read {path}: {error.strerror}")
        self._bytes += len(content)
        try:
            # Whoever reads the rules says that they are too long; the end does not matter then.
            return content.decode("utf-8", "replace" if self._bytes > limit else "strict")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{path}: byte {error.start} is not UTF-8", code=Code.TEXT_UTF8
            ) from None


def _refuse(message: str) -> NoReturn:
    raise UsageError(message, code=Code.INPUT_FILE) from None
