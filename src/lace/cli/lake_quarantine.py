"""``lace lake quarantine``: what was put aside. Needs no Spark."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from lace.cli.exitcodes import Exit
from lace.cli.output import echo, write_bytes
from lace.cli.render import form_option, print_entries, print_summary

if TYPE_CHECKING:
    from lace.lake.tables import Lake

_COLUMNS: Final = ("code", "offset", "length", "bundle", "detail")


@click.group("quarantine")
def quarantine() -> None:
    """Look at what was put aside, and judge it again.

    \b
    Example:
      lace lake quarantine list notes.lake
      lace lake quarantine show notes.lake archive.records 10240
      lace lake quarantine replay notes.lake
    """


def _open(name: str) -> Lake:
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.tables import Lake

    return Lake.open(None, name)


@quarantine.command("list")
@click.argument("name", metavar="LAKE")
@click.option("--bundle", metavar="NAME", help="Only of bundles whose name ends like this.")
@click.option("--code", metavar="CODE", help="Only with this code.")
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="At most so many."
)
@form_option
def list_command(
    name: str, bundle: str | None, code: str | None, limit: int, form: str | None
) -> int:
    """Print each place in a bundle that holds no record: code, offset, length, bundle, reason.

    \b
    Example:
      lace lake quarantine list notes.lake --code record.signature
    """
    opened = _open(name)
    from lace.lake.quarantine import places

    found = [
        place
        for place in places(opened)
        if (code is None or place.code == code)
        and (bundle is None or place.bundle.endswith(bundle))
    ]
    entries = (
        {
            "code": place.code, "bundle": place.bundle, "offset": place.offset,
            "length": place.length, "detail": place.detail, "ingest": place.ingest,
        }
        for place in found[:limit]
    )  # fmt: skip
    print_entries(
        form, _COLUMNS, entries, whole=("code", "offset", "length"), drop=("length", "detail")
    )
    if len(found) > limit:
        echo(f"{len(found) - limit:,} more; --limit shows them", err=True)
    return Exit.OK


@quarantine.command("show")
@click.argument("name", metavar="LAKE")
@click.argument("bundle")
@click.argument("offset", type=click.IntRange(0))
def show_command(name: str, bundle: str, offset: int) -> int:
    """Print the bytes that were put aside at OFFSET of BUNDLE, as they are.

    \b
    Example:
      lace lake quarantine show notes.lake archive.records 10240 > bytes
    """
    opened = _open(name)
    from lace.lake.quarantine import find, read

    for piece in read(opened, find(opened, bundle, offset)):
        write_bytes(piece)
    return Exit.OK


@quarantine.command("replay")
@click.argument("name", metavar="LAKE")
@click.option("--bundle", metavar="NAME", help="Only of bundles whose name ends like this.")
@click.option("--code", metavar="CODE", help="Only with this code.")
@form_option
def replay_command(name: str, bundle: str | None, code: str | None, form: str | None) -> int:
    """Judge again what was put aside; records among it go to LAKE, the rest stays.

    The search behind damage has no bound here, and a newer engine may know more. What was found is
    told; exit code 3 if something is left.

    \b
    Example:
      lace lake quarantine replay notes.lake
    """
    opened = _open(name)
    from lace.lake.quarantine import places, replay

    chosen = [
        place
        for place in places(opened)
        if (code is None or place.code == code)
        and (bundle is None or place.bundle.endswith(bundle))
    ]
    done = replay(opened, chosen)
    words = (
        f"{done.places:,} places judged again, {done.records:,} records found",
        f"quarantine   {done.left:,} of them hold no record",
    )
    print_summary(form, asdict(done), words)
    return Exit.SOME_REJECTED if done.left else Exit.OK
