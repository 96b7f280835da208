"""The tests of the language on plain text, exactly as specified; none of them can fail."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MEANINGS: Final = {
    "IntCompare(a,operator,b)": "Both texts are integers and compare so: `<`, `<=`, `>` or `>=`.",
    "LexCompare(a,operator,b)": "The texts compare so by their UTF-8 bytes.",
    "TextShape(text,start,delimiters,end)": (
        "The text begins with start and ends with end, without overlap. With delimiters, one "
        "non-empty segment stands between them, up to the first delimiter."
    ),
    "Cardinality(atom,operator,number)": "So many facts fit the atom.",
}
"""What each built-in of the language says, for references."""

_NINES: Final = str.maketrans("0123456789", "9876543210")

IntegerKey = tuple[int, int, str]
"""Orders as the integer it stands for; integers of any length, without converting them."""


def integer_key(text: str) -> IntegerKey | None:
    """Return a key that orders ``text`` as an integer, or None if it is none (A5, A6)."""
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal():
        return None
    digits = digits.lstrip("0")  # leading zeros change nothing, and -0 is 0
    if not digits or not text.startswith("-"):
        return 1, len(digits), digits
    return 0, -len(digits), digits.translate(_NINES)


def integer_compare(left: str, operator: str, right: str) -> bool:
    """Compare as integers; false when either is none."""
    a, b = integer_key(left), integer_key(right)
    return a is not None and b is not None and _ordered(a, operator, b)


def text_compare(left: str, operator: str, right: str) -> bool:
    """Compare by UTF-8 bytes, which is the order of code points and so of ``str``."""
    return _ordered(left, operator, right)


def text_shape(text: str, start: str, delimiters: str, end: str) -> bool:
    """Whether ``text`` is ``start``, something, ``end``; with delimiters, one non-empty segment.

    Without delimiters the middle is anything, and start and end do not overlap. With delimiters the
    segment after ``start`` runs to the first of them, and what follows it is exactly ``end``.
    """
    if not text.startswith(start):
        return False
    rest = text[len(start) :]
    if not delimiters:
        return rest.endswith(end)
    found = _any_of(delimiters).search(rest)
    return found is not None and found.start() > 0 and rest[found.end() :] == end


@lru_cache(maxsize=1024)
def _any_of(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(characters)}]")


def _ordered(left: str | IntegerKey, operator: str, right: str | IntegerKey) -> bool:
    if operator == "<":
        return left < right  # type: ignore[operator]
    if operator == "<=":
        return left <= right  # type: ignore[operator]
    if operator == ">":
        return left > right  # type: ignore[operator]
    return left >= right  # type: ignore[operator]
