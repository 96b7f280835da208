"""How results look: tables for people on a terminal, JSON lines for programs in a pipe.

The terminal only chooses the default; --table, --json and --csv say it. A table fits the terminal:
columns shrink to what is there, long cells are cut with …, and columns that find no room are left
out. JSON and CSV are never cut.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from lace.cli.output import echo, write_text
from lace.text import is_safe, safe

if TYPE_CHECKING:
    from rich.console import Console

_GAP: Final = "  "
_LEAST: Final = 6
"""A column that may shrink becomes no narrower than this."""
_USEFUL: Final = 12
"""Before columns become narrower than this, those that can be missed are left out."""
_CUT_IN_FRONT: Final = frozenset(("Place", "bundle"))
"""Columns of what tells most at its end."""


def form_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json, --table and --csv to a command, which gets what was chosen as ``form``."""
    for form, help in (
        ("csv", "Print comma-separated values."),
        ("table", "Print a table.  [default: on a terminal]"),
        ("json", "Print one JSON object a line.  [default: in a pipe]"),
    ):
        command = _form_flag(form, help)(command)
    return command


def words_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --table to a command that tells things in words on a terminal."""
    for form, help in (
        ("table", "Tell it in words, for people.  [default: on a terminal]"),
        ("json", "Print JSON objects, for programs.  [default: in a pipe]"),
    ):
        command = _form_flag(form, help)(command)
    return command


def _form_flag(form: str, help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a flag that chooses a form; another one beside it that chooses another is refused."""

    def choose(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
        before = context.params.setdefault("form", None)
        if is_given and before is not None:
            raise click.UsageError(f"give --{before} or --{form}, not both")
        if is_given:
            context.params["form"] = form

    return click.option(
        f"--{form}", f"form_{form}", is_flag=True, expose_value=False, callback=choose, help=help
    )


json_option = click.option(
    "--json", "form", flag_value="json", help="Print JSON objects, for programs."
)
"""For commands that tell things in words, in a pipe too."""


def chosen_form(form: str | None) -> str:
    """Return the form that was chosen, else the one that suits the output."""
    return form or ("table" if sys.stdout.isatty() else "json")


def json_line(value: dict[str, Any]) -> str:
    """Return the one spelling of an object: keys sorted, no blanks, UTF-8 unescaped.

    But characters that do something to a terminal are escaped, as JSON allows for any of them.
    """
    line = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    if line.isprintable():
        return line
    return "".join(c if is_safe(c) else json.dumps(c)[1:-1] for c in line)


def print_json(value: dict[str, Any]) -> None:
    print_line(json_line(value))


def print_line(line: str) -> None:
    """Write one line of data; always UTF-8, whatever the locale says."""
    write_text(line.encode("utf-8", "backslashreplace") + b"\n")


def print_csv(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    """Write rows as RFC 4180 has them, with LF at the end of lines."""
    writer = csv.writer(_Lines(), lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def print_entries(
    form: str | None,
    columns: Sequence[str],
    entries: Iterable[dict[str, Any]],
    *,
    whole: Iterable[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """Print objects in the form that was chosen; tables and CSV have these columns of them.

    JSON and CSV are written as the objects come; a table needs them all, to know how wide it is.
    """
    wanted = chosen_form(form)
    if wanted == "json":
        for entry in entries:
            print_json(entry)
        return
    rows = ([_cell(entry.get(name)) for name in columns] for entry in entries)
    if wanted == "csv":
        print_csv(columns, rows)
    elif found := list(rows):
        fitted_table(columns, found, whole=whole, drop=drop)


def print_summary(form: str | None, made: dict[str, Any], words: Iterable[str]) -> None:
    """Print one object in the form that was chosen; people get it in words."""
    wanted = chosen_form(form)
    if wanted == "json":
        print_json(made)
    elif wanted == "csv":
        print_csv(("What", "Value"), [(what, _cell(value)) for what, value in made.items()])
    else:
        for line in words:
            echo(line)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class _Lines:
    """Takes what a CSV writer writes: whole lines."""

    def write(self, text: str) -> None:
        write_text(text.encode("utf-8", "backslashreplace"))


def console() -> Console:
    """Return a console for people; it drops colours by itself where none are wanted."""
    from rich.console import Console  # costs more than many commands

    return Console(highlight=False, soft_wrap=True)


def terminal_width() -> int:
    """Return how many columns there are: of the terminal, else as COLUMNS says, else 80."""
    return max(20, shutil.get_terminal_size().columns)


def fitted_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    whole: Iterable[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """Print a table that fits the terminal.

    Columns of ``whole`` are never cut, so that what is in them can be copied. When there is no
    room, the columns of ``drop`` are left out, the first one first. If that is not enough, others
    are, from the last on, and it is said which.
    """
    from rich.cells import cell_len, set_cell_size  # knows how wide a character is

    kept = list(range(len(columns)))
    fixed = {columns.index(name) for name in whole if name in columns}
    widths = [
        max(map(cell_len, (columns[i], *(row[i] for row in rows)))) for i in range(len(columns))
    ]
    width = terminal_width()
    leaving = [columns.index(name) for name in drop if name in columns]
    while _least(kept, widths, fixed, _USEFUL) > width and leaving and len(kept) > 1:
        kept.remove(leaving.pop(0))
    missing: list[str] = []
    while _least(kept, widths, fixed, _LEAST) > width and len(kept) > 1:
        last = max(kept, key=lambda i: (i not in fixed, i))
        kept.remove(last)
        missing.insert(0, columns[last])
    _shrink(kept, widths, fixed, width)
    for row in (columns, *rows):
        cells = []
        for i in kept:
            text = safe(row[i], kept="")
            if cell_len(text) > widths[i]:
                text = _cut(text, widths[i], in_front=columns[i] in _CUT_IN_FRONT)
            cells.append(set_cell_size(text, widths[i]))
        print_line(_GAP.join(cells).rstrip())
    sys.stdout.buffer.flush()  # what is told of it on standard error comes after it
    if missing:
        echo(f"no room for {', '.join(missing)}; --json and --csv leave nothing out", err=True)


def _cut(text: str, width: int, *, in_front: bool) -> str:
    from rich.cells import cell_len, set_cell_size

    if not in_front:
        return f"{set_cell_size(text, width - 1)}…"
    while cell_len(text) > width - 1:
        text = text[1:]
    return f"…{text}"


def _least(kept: list[int], widths: list[int], fixed: set[int], least: int) -> int:
    """Return how narrow a table can become, with columns no narrower than ``least``."""
    parts = [widths[i] if i in fixed else min(widths[i], least) for i in kept]
    return sum(parts) + len(_GAP) * (len(kept) - 1)


def _shrink(kept: list[int], widths: list[int], fixed: set[int], width: int) -> None:
    """Make the widest columns narrower until the table fits, or until none can be narrower."""
    while sum(widths[i] for i in kept) + len(_GAP) * (len(kept) - 1) > width:
        loose = [i for i in kept if i not in fixed and widths[i] > _LEAST]
        if not loose:
            return
        widths[max(loose, key=lambda i: widths[i])] -= 1


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; long cells fold, nothing is cut off, and nothing in a cell is markup."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=safe(title) or None, title_justify="left", show_edge=False, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(safe(cell)) for cell in row))
    out = console()
    out.soft_wrap = False
    out.print(made)
