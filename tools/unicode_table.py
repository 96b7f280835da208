"""Write the table of ``lace/unicode.py`` again: which code points Unicode 16.0 assigns.

It is taken from tables of exactly that version: of Python 3.14, or of ``unicodedata2`` 16.0.0.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from lace import unicode

MODULE = Path(__file__).parent.parent / "src" / "lace" / "unicode.py"
CODE_POINTS = range(sys.maxunicode + 1)


def edges(category: Callable[[str], str]) -> list[int]:
    """Return where assigned code points begin, and where they end, by turns."""
    found: list[int] = []
    for number in CODE_POINTS:
        is_assigned = category(chr(number)) != "Cn"
        if is_assigned != len(found) % 2:
            found.append(number)
    return found


def table(found: list[int]) -> str:
    """Return the text of the table: how far each edge is from the one before it."""
    steps = (f"{edge - before:x}" for before, edge in zip([0, *found], found, strict=False))
    return "\n".join(textwrap.wrap(" ".join(steps), 98))


def main() -> None:
    if unicode.tables.unidata_version != unicode.VERSION:
        sys.exit(f"these are tables of Unicode {unicode.tables.unidata_version}")
    text = MODULE.read_text(encoding="utf-8")
    made = table(edges(unicode.tables.category))
    before, head, rest = text.partition('_STEPS: Final = """\n')
    end = rest.index('"""')
    MODULE.write_text(f"{before}{head}{made}\n{rest[end:]}", encoding="utf-8")


if __name__ == "__main__":
    main()
