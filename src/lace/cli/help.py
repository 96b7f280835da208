"""lace help: the help of commands, and the pages of the documentation, without a network."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from lace.cli.output import echo
from lace.errors import Code, UsageError
from lace.text import safe, shown

# An installed package carries them beside this package; a working copy has them at its root.
_PLACES: Final = (
    Path(__file__).parent.parent / "pages",
    Path(__file__).parent.parent.parent.parent / "docs",
)
_FOLDERS: Final = ("", "howto", "concepts", "reference")
_LEFT_OUT: Final = frozenset(("index", "contributing", "security", "conformance"))
"""Pages of the site and of the project, which say nothing about using it."""


def pages() -> dict[str, Path]:
    """Return the pages of the documentation by name."""
    for place in _PLACES:
        found = {
            path.stem: path
            for folder in _FOLDERS
            for path in sorted((place / folder).glob("*.md"))
            if path.stem not in _LEFT_OUT
        }
        if found:
            return found
    return {}


def title_of(page: Path) -> str:
    """Return the heading of a page."""
    with page.open(encoding="utf-8") as lines:
        return next((line[2:].strip() for line in lines if line.startswith("# ")), page.stem)


@click.command(name="help")
@click.option("--page", is_flag=True, help="The page, where a command has the same name.")
@click.argument("topic", nargs=-1, metavar="[COMMAND|PAGE]...")
@click.pass_context
def help_command(context: click.Context, topic: tuple[str, ...], page: bool) -> None:
    """Show the help of a command, or a page of the documentation; without either, what there is.

    \b
    Example:
      lace help
      lace help room admit
      lace help tutorial
      lace help --page policy
    """
    top = context.find_root()
    if not topic:
        echo(top.get_help())
        echo("\nPages, for lace help PAGE:")
        width = max(map(len, pages()), default=0)
        for name, path in sorted(pages().items()):
            echo(f"  {name:{width}}  {title_of(path)}")
        return
    if not page and _show_command(top, topic):
        return
    name = " ".join(topic)
    found = pages().get(name)
    if found is None:
        known = [*top.command.list_commands(top), *pages()]  # type: ignore[attr-defined]
        near = get_close_matches(name, known, n=2)
        raise UsageError(
            f"there is no command and no page {shown(name)}",
            code=Code.INPUT_FILE,
            hint=f"Did you mean {' or '.join(near)}?" if near else "lace help lists them.",
        )
    text = found.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        click.echo_via_pager(safe(text))
    else:
        echo(text.removesuffix("\n"))


def _show_command(top: click.Context, words: tuple[str, ...]) -> bool:
    """Show the help of a command if there is one; say if a page has the same name."""
    context = top
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            return False
        context = click.Context(found, info_name=word, parent=context)
    echo(context.get_help())
    if " ".join(words) in pages():
        echo(f"\nThere is a page too: lace help --page {words[0]}", err=True)
    return True
