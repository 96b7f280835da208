"""``lace workbench``: see laces converge, step by step, in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lace.cli.files import read_lines
from lace.cli.names import key_names
from lace.cli.output import echo
from lace.cli.place import find
from lace.errors import Code, UsageError
from lace.extras import require
from lace.scenario.library import library, scenario_text
from lace.settings import STORE
from lace.text import decode_utf8, shown

if TYPE_CHECKING:
    from lace.workbench.live import Live
    from lace.workbench.real import RealLace
    from lace.workbench.server import Workbench
    from lace.workbench.session import Real


_JOURNAL: Final = b'{"journal":'
_LOCAL: Final = re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}/?")
_PAGE: Final = re.compile(r"https?://[^\s#\"'<>]{1,2000}")
_FRAGMENT: Final = re.compile(r"[rsz]=[\w.~%&=+-]{1,100000}", re.ASCII)


@click.command()
@click.argument("name", metavar="[SCENARIO|LINK|LACE|JOURNAL]", default="notes-room")
@click.argument("other", metavar="[LACE]", required=False)
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
@click.option(
    "--watch", metavar="URL", help="Look at the exchanges of a lace serve --watch on this machine."
)
@click.option(
    "--watch-token", type=click.Path(path_type=Path), metavar="FILE",
    help="With --watch: the file with its token.",
)  # fmt: skip
def workbench(
    name: str, other: str | None, port: int, host: str, directory: Path | None,
    engine: Path | None, links: str, watch: str | None, watch_token: Path | None,
) -> None:  # fmt: skip
    """See two laces converge, step by step, in a browser.

    Takes a scenario by name or by file, or a link that somebody copied from their workbench. Works
    without any network. Uses demo keys only; never give it a real secret.

    Of two laces on this machine it shows what would happen if they met now; of one, what a newcomer
    with the same rules would get. They are opened for reading, and nothing is stored or sent.

    Of a journal it shows what really happened; give the lace that kept it too, for the reasons.

    \b
    Example:
      lace workbench notes-room
      lace workbench my-scenario.toml
      lace workbench alice bob
      lace workbench exchange.jsonl alice
      lace workbench --watch http://127.0.0.1:9200 --watch-token watch.token
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
    live = None
    if watch is not None:
        live = _live(watch, watch_token, name)
        name = "notes-room"
    real = None
    journal = is_journal(name)
    if journal or is_lace(name) or other is not None:
        if directory is not None:
            raise click.UsageError("--export takes scenarios; the page saves what it shows")
        real = real_journal(name, other) if journal else real_laces(name, other)
        name = "notes-room"
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

    serve(Workbench(name, port, host, fragment=fragment, links=links, real=real, live=live), _ready)


def _live(address: str, token: Path | None, lace: str) -> Live:
    """Return the exchanges of a server; a lace that is named beside it is its own."""
    from lace.serving.watching import read_token
    from lace.workbench.live import Live

    if not _LOCAL.fullmatch(address):
        raise UsageError(
            f"{shown(address)} is no address on this machine", code=Code.INPUT_KEY,
            hint="It is what lace serve --watch tells: http://127.0.0.1:PORT. Of another machine, "
            "carry the port over with ssh -L.",
        )  # fmt: skip
    if token is None:
        raise click.UsageError("--watch needs --watch-token FILE")
    known = _opened(lace) if is_lace(lace) else None
    live = Live(address.rstrip("/"), read_token(token), known, key_names())
    live.listed()  # says now what would go wrong later
    return live


def is_lace(name: str) -> bool:
    """Whether an argument means a lace on this machine: a folder with settings, or a store."""
    path = Path(name)
    return name not in library() and (path.is_dir() or (path.suffix == ".lace" and path.exists()))


def is_journal(name: str) -> bool:
    """Whether an argument means a journal: by its first line, whatever it is called."""
    try:
        with Path(name).open("rb") as file:
            return file.read(len(_JOURNAL)) == _JOURNAL
    except (OSError, ValueError):
        return False


def real_journal(name: str, lace: str | None) -> Real:
    """Return what a journal tells, with the lace that kept it if it is named."""
    from lace.workbench.retold import NAME, retold
    from lace.workbench.session import Real

    lines = (decode_utf8(line) for line in read_lines(name))
    known = None if lace is None else _opened(lace)
    return Real(name=NAME, recording=retold(lines, Path(name).stem, known, key_names()))


def real_laces(name: str, other: str | None) -> Real:
    """Return the meeting of two laces as it would be now, or that of one with a newcomer."""
    from lace.clock import tai_now
    from lace.workbench.real import NAME, newcomer, rehearsal
    from lace.workbench.recording import record_run
    from lace.workbench.session import Real

    here = _opened(name)
    there = newcomer(here) if other is None else _opened(other)
    built = rehearsal(here, there, tai_now(), key_names())
    return Real(name=NAME, recording=record_run(built, text=""), built=built)


def _opened(name: str) -> RealLace:
    from lace.workbench.real import RealLace, read_records

    place = find(name)
    settings = place.settings
    return RealLace(
        title=settings.folder.resolve().name
        if settings.store.name == STORE
        else settings.store.stem,
        records=read_records(settings.store),
        module=settings.module(),
        exposure=settings.exposure(),
        verifier=place.verifier(),
    )


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
