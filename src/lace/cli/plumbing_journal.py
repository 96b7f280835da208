"""``lace plumb journal``: run recorded exchanges again. The output is a contract."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import read_lines
from lace.cli.render import print_json
from lace.text import decode_utf8


@click.group("journal")
def journal_group() -> None:
    """Run recorded exchanges again.

    \b
    Example:
      lace plumb journal replay exchange.jsonl
    """


@journal_group.command("replay")
@click.argument("file")
def replay_command(file: str) -> int:
    """Run a journal through the machine; stop at the first difference.

    \b
    Example:
      lace plumb journal replay exchange.jsonl
    """
    from lace.driving.journal import replay

    steps, difference = replay(_lines(file))
    if difference is None:
        print_json({"ok": True, "steps": steps})
        return Exit.OK
    print_json(
        {
            "expected": difference.expected,
            "found": difference.found,
            "ok": False,
            "step": difference.step,
            "steps": steps,
        }
    )
    return Exit.BAD_INPUT


def _lines(file: str) -> Iterator[str]:
    return (decode_utf8(line) for line in read_lines(file))
