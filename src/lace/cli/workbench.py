"""``lace workbench``: see laces converge, step by step, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lace.errors import Code, UsageError
from lace.scenario.library import library, scenario_text

if TYPE_CHECKING:
    from lace.workbench.server import Workbench


@click.command()
@click.argument("name", metavar="[SCENARIO]", default="notes-room")
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
def workbench(name: str, port: int, host: str, directory: Path | None, engine: Path | None) -> None:
    """See two laces converge, step by step, in a browser.

    Works without any network. Uses demo keys only; never give it a real secret.

    \b
    Example:
      lace workbench notes-room
      lace workbench --export site
    """
    scenario_text(name)  # says now what would go wrong later
    if directory is not None:
        from lace.workbench.export import export

        names = list(library())
        names = [name, *(other for other in names if other != name)]
        with click.progressbar(length=len(names), label="Recording", show_pos=True) as bar:
            export(directory, names, lambda _name: bar.update(1), engine)
        click.echo(f"{directory / 'index.html'}: serve this folder with any web server")
        return
    try:
        from lace.workbench.server import Workbench, serve
    except ImportError:
        raise UsageError(
            "the workbench's server is not installed", code=Code.WORKBENCH_MISSING
        ) from None
    serve(Workbench(name, port, host), _ready)


def _ready(running: Workbench) -> None:
    click.echo(f"Workbench: {running.url}")
    click.echo("Press Ctrl-C to stop.", err=True)
