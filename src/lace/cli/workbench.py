"""``lace workbench``: see laces converge, step by step, in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lace.cli.output import echo
from lace.errors import Code, UsageError
from lace.extras import require
from lace.scenario.library import library, scenario_text
from lace.text import shown

if TYPE_CHECKING:
    from lace.workbench.server import Workbench


_PAGE: Final = re.compile(r"https?://[^\s#\"'<>]{1,2000}")
_FRAGMENT: Final = re.compile(r"[rsz]=[\w.~%&=+-]{1,100000}", re.ASCII)


@click.command()
@click.argument("name", metavar="[SCENARIO|LINK]", default="notes-room")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes any free port.")
@click.option(
    "--host", default="127.0.0.1", show_default=True,
    help="The address to listen on; others than loopback let others in who have the link.",
)  # fmt: skip
@click.option(
    "--export", "directory", type=click.Path(path_type=Path), metavar="DIR",
    help="Write a page that needs no engine, instead of serving one.",
)  # fmt: skip
@click.option(
    "--engine", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="BUNDLE",
    help="With --export: a browser bundle, so that the page can change things.",
)  # fmt: skip
@click.option(
    "--links-to", "links", default="", metavar="URL",
    help="Where links lead that the page makes: an exported page that others can reach.",
)  # fmt: skip
def workbench(
    name: str, port: int, host: str, directory: Path | None, engine: Path | None, links: str
) -> None:
    """See two laces converge, step by step, in a browser.

    Takes a scenario by name or by file, or a link that somebody copied from their workbench. Works
    without any network. Uses demo keys only; never give it a real secret.

    \b
    Example:
      lace workbench notes-room
      lace workbench my-scenario.toml
      lace workbench --export site
    """
    if links and not _PAGE.fullmatch(links):
        raise UsageError(
            f"{shown(links)} is no address of a page", code=Code.INPUT_KEY,
            hint="It begins with https:// and has no #.",
        )  # fmt: skip
    fragment = ""
    if directory is None and name.startswith(("http://", "https://")):
        name, fragment = "notes-room", _fragment(name)
    scenario_text(name)  # says now what would go wrong later
    if directory is not None:
        from lace.workbench.export import export

        names = list(library())
        names = [name, *(other for other in names if other != name)]
        with click.progressbar(length=len(names), label="Recording", show_pos=True) as bar:
            export(directory, names, lambda _name: bar.update(1), engine, links)
        echo(f"{directory / 'index.html'}: serve this folder with any web server")
        echo(f"{directory / 'workbench.html'}: all of it in one file, to open or to send")
        return
    require("workbench", "the workbench's server")
    from lace.workbench.server import Workbench, serve

    serve(Workbench(name, port, host, fragment=fragment, links=links), _ready)


def _fragment(link: str) -> str:
    """Return what a link carries behind its #; the rest of it is of somebody else's machine."""
    fragment = link.partition("#")[2]
    if not _FRAGMENT.fullmatch(fragment):
        raise UsageError(
            "the link carries no scenario", code=Code.INPUT_FILE,
            hint="Copy the whole link with Copy link in the Scenario tab, and put it in quotes.",
        )  # fmt: skip
    return fragment


def _ready(running: Workbench) -> None:
    echo(f"Workbench: {running.url}")
    echo("Press Ctrl-C to stop.", err=True)
