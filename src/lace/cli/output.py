"""What commands write: text that no record can turn into commands for the terminal.

Whatever comes from records, peers and files may hold sequences that move the cursor, change colours
or the title, turn the direction of writing, or cannot be seen. On a terminal such characters are
shown as dots. A pipe gets everything as it is, but for what is told on standard error.
"""

from __future__ import annotations

import sys

import click

from lace.errors import Code, UsageError
from lace.text import safe


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print text for people; on a terminal, and always on standard error, it is made safe."""
    said = str(text)
    click.echo(safe(said) if err or sys.stdout.isatty() else said, err=err, nl=nl)


def write_text(content: bytes) -> None:
    """Write text of an exact form: as it is into a pipe, made safe on a terminal."""
    if sys.stdout.isatty():
        content = safe(content.decode("utf-8", "backslashreplace")).encode()
    sys.stdout.buffer.write(content)


def write_bytes(content: bytes) -> None:
    """Write bytes as they are into a pipe or a file; refuse to show them on a terminal."""
    if sys.stdout.isatty():
        raise UsageError(
            "these bytes may be commands for the terminal",
            code=Code.OUTPUT_TERMINAL,
            hint="Write them to a file with -o FILE, or into a pipe.",
        )
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
