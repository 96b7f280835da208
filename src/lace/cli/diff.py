"""``lace diff``: what two laces do not have in common."""

from __future__ import annotations

from contextlib import ExitStack

import click

from lace import blocking
from lace.api.handles import Lace, Peer
from lace.cli.arguments import is_address, key_option, select_option
from lace.cli.exitcodes import Exit
from lace.cli.names import key_names, place_for_people
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.records import settings_or_none
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.cli.shape import short_hashes
from lace.dates import iso_date, local_date
from lace.policy.module import PolicyModule
from lace.projection import entry_of
from lace.record.model import Record

_HEADS = ("", "Date", "Place", "Signed-By", "Hash")


@click.command()
@click.argument("names", metavar="[A] B", nargs=-1, required=True)
@select_option("What is compared.  [default: what the settings of each say]")
@key_option("Proven to peers at addresses.  [default: the one in lace.toml]")
@form_option
def diff(
    names: tuple[str, ...], select_text: str | None, key_text: str | None, form: str | None
) -> int:
    """Show what only A has (<) and what only B has (>).

    Each is the folder of a lace, a store file, the address of a peer, or a name of a peer in the
    lace that you are in. Without A it is that lace. Nothing is exchanged. A peer is asked by what
    the other one selects, and shows what it would give.

    \b
    Example:
      lace diff alice bob
      lace diff tcp:notes.example.org:4790
      lace diff server --select //notes-demo//notes/message// --json
    """
    if len(names) > 2:
        raise click.UsageError("only two can be compared: give A and B")
    around = settings_or_none(None)
    here = [] if len(names) == 2 else [str(find(None).settings.folder)]
    left, right = (*here, *names)
    with ExitStack() as stack:
        sides = [_side(text, around, key_text, stack) for text in (left, right)]
        modules = [_module(place, select_text) for _, place in sides]
        known = next((module for module in modules if module is not None), None)
        if known is None:
            raise click.UsageError(
                "say with --select what is compared: neither has settings that say it"
            )
        found = blocking.diff(
            sides[0][0], sides[1][0], modules[0] or known, their_policy=modules[1] or known
        )
    records = [("<", record) for record in found.left] + [(">", record) for record in found.right]
    _show(records, form)
    where = "here" if here else f"in {left}"
    echo(
        f"{len(found.left):,} only {where}, {len(found.right):,} only in {right}, "
        f"{found.both:,} in both",
        err=True,
    )
    return Exit.OK


def _side(
    text: str, around: Place | None, key_text: str | None, stack: ExitStack
) -> tuple[Lace | Peer, Place | None]:
    known = around or Place.nowhere()
    if text in known.settings.peers or is_address(text):
        return known.peer(text, key=known.signing_key(key_text)), None
    place = find(text)
    return stack.enter_context(place.open()), place


def _module(place: Place | None, select: str | None) -> PolicyModule | None:
    if select is not None:
        return (place or Place.nowhere()).module(select)
    if place is None or place.settings.select is None:
        return None
    return place.module(None)


def _show(records: list[tuple[str, Record]], form: str | None) -> None:
    wanted = chosen_form(form)
    if wanted == "json":
        for sign, record in records:
            print_json(entry_of(record) | {"only_in": "A" if sign == "<" else "B"})
        return
    names = {} if wanted == "csv" else key_names()  # programs get verifiers
    dates = iso_date if wanted == "csv" else local_date
    short = short_hashes(record.hash for _, record in records)
    rows = [
        (
            sign,
            "" if record.time is None else dates(record.time) or "",
            place_for_people(record.place, names),
            "" if record.author is None else names.get(record.author, record.author),
            record.hash if wanted == "csv" else short[record.hash],
        )
        for sign, record in records
    ]
    if wanted == "csv":
        print_csv(("Only in", *_HEADS[1:]), rows)
    elif rows:
        fitted_table(_HEADS, rows, whole=("", "Hash", "Date"), drop=("Date", "Signed-By"))
