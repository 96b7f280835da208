"""How results look: tables for people on a terminal, JSON lines for programs in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def json_line(value: dict[str, Any]) -> str:
    """Return the one spelling of an object: keys sorted, no blanks, UTF-8 unescaped."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def print_json(value: dict[str, Any]) -> None:
    print_line(json_line(value))


def print_line(line: str) -> None:
    """Write one line of data; always UTF-8, whatever the locale says."""
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")


def console() -> Console:
    """Return a console for people; it drops colours by itself where none are wanted."""
    from rich.console import Console  # costs more than many commands

    return Console(highlight=False, soft_wrap=True)


def table(
    title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], *, whole: str = ""
) -> None:
    """Print a table; long cells fold, nothing is cut off, and nothing in a cell is markup.

    ``whole`` names a column that does not fold, so that what is in it can be copied.
    """
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title or None, title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column == whole)
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    out = console()
    out.soft_wrap = False
    out.print(made)
