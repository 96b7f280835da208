"""``lace get`` and ``lace list``: records by address and by selector, here or at a peer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

import click

from lace import blocking
from lace.api.handles import Lace, Peer, store_of
from lace.cli.arguments import (
    complete_peers,
    complete_people,
    field_option,
    key_option,
    lace_option,
    read_fields,
    read_time,
    read_verifier,
)
from lace.cli.exitcodes import Exit
from lace.cli.files import write_output
from lace.cli.names import key_names
from lace.cli.output import echo, write_text
from lace.cli.place import Place, find
from lace.cli.record import show_record
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.cli.shape import short_hashes, whole_hash
from lace.dates import iso_date, local_date
from lace.errors import Code, UsageError
from lace.ids import is_verifier
from lace.policy.module import PolicyModule
from lace.projection import HASH, OWN, cell_of, entry_of, field_names, newest_of
from lace.record.model import Record
from lace.settings import read_selector
from lace.tai import Tai
from lace.urc import Prefix, parse_urc
from lace.values import Cell

DATE: Final = "Date"
PLACE: Final = "Place"
"""Columns that are no fields: the local date of the time, and the whole place."""
_BRIEF: Final = (DATE, "App", "Name", "Signed-By", HASH)  # what fits on a terminal
_WHOLE: Final = (HASH, PLACE, DATE, "TAI", "Signed-By")  # then all fields, and the data
_DROP: Final = ("App", DATE, "Signed-By", "Data")  # the first to be left out first
_CELL: Final = 400
EVERYTHING: Final = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
_ORDERS: Final[dict[str, tuple[Callable[[Record], tuple[str, ...]], bool]]] = {
    "oldest": (lambda record: (record.time or "", record.hash), False),
    "newest": (lambda record: (record.time or "", record.hash), True),
    "place": (lambda record: (str(record.place), record.time or "", record.hash), False),
    "author": (lambda record: (record.author or "", record.time or "", record.hash), False),
}

from_option = click.option(
    "--from",
    "peer_text",
    metavar="NAME|ADDRESS",
    help="Ask this peer instead; nothing is stored here.",
    shell_complete=complete_peers,
)


@click.command()
@click.argument("address")
@click.option("--data", "only_data", is_flag=True, help="Write the payload, and nothing else.")
@click.option("--raw", is_flag=True, help="Write the whole record as it is stored.")
@click.option("-o", "--output", default="-", help="With --data or --raw: where to write it.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@form_option
@from_option
@key_option()
@lace_option
def get(
    address: str,
    only_data: bool,
    raw: bool,
    output: str,
    force: bool,
    form: str | None,
    peer_text: str | None,
    key_text: str | None,
    where: str | None,
) -> int:
    """Show the record at ADDRESS: a coordinate, a hash or its beginning, or one version.

    Of several versions it is the newest. A table on a terminal, one JSON object in a pipe. Exit
    code 6 if there is none. --raw is for pipes and files: a terminal might obey what is in it.

    \b
    Example:
      lace get //notes-demo//notes/message//msg/1
      lace get S.….H3 --data -o note.txt
      lace get //u//docs//index.html --from tcp:example.org:4790
    """
    if only_data and raw:
        raise click.UsageError("give --data or --raw, not both")
    if output != "-" and not (only_data or raw):
        raise click.UsageError("--output needs --data or --raw")
    settings = find(where) if peer_text is None else settings_or_none(where)
    with _open(settings, peer_text) as local:
        hash = whole_hash(local, address)
        asked = address if hash is None else f"////{hash}"
        found = blocking.get(_target(local, settings, peer_text, key_text), asked)
    if found is None:
        if peer_text is None:
            echo(f"nothing is at {address}; lace list shows what is here", err=True)
        else:
            echo(f"the peer shows nothing at {address}: it has it not, or shows it to others; "
                 "--key says who asks", err=True)  # fmt: skip
        return Exit.NOT_FOUND
    if only_data and output == "-" and _is_text(found.data):
        write_text(found.data)
        if sys.stdout.isatty() and not found.data.endswith(b"\n"):
            echo("")  # a pipe gets the data alone, a prompt begins on a line of its own
    elif only_data or raw:
        write_output(output, found.raw if raw else found.data, overwrite=force)
    else:
        show_record(found, form, requested=address)
    return Exit.OK


@click.command("list")
@click.argument("selector_text", metavar="[SELECTOR]", required=False)
@field_option
@click.option("--all", "everything", is_flag=True, help="Everything that is stored here.")
@click.option("--newest", is_flag=True, help="Only the newest record at each place.")
@click.option(
    "--since", metavar="TIME", help="Only what is not older: 2026-01-31, 12h, 7d, or TAI."
)
@click.option(
    "--author",
    metavar="NAME|VERIFIER",
    help="Only what this one signed.",
    shell_complete=complete_people,
)
@click.option("--limit", type=click.IntRange(1), metavar="NUMBER", help="At most so many.")
@click.option(
    "--sort",
    type=click.Choice(sorted(_ORDERS)),
    default="oldest",
    show_default=True,
    help="What comes first.",
)
@click.option(
    "--columns",
    metavar="NAME,NAME",
    help="Fields to show; Hash, Date, Place and Data too.",
)
@form_option
@from_option
@key_option()
@lace_option
def list_command(
    selector_text: str | None,
    fields: tuple[str, ...],
    everything: bool,
    newest: bool,
    since: str | None,
    author: str | None,
    limit: int | None,
    sort: str,
    columns: str | None,
    form: str | None,
    peer_text: str | None,
    key_text: str | None,
    where: str | None,
) -> int:
    """List the records that SELECTOR selects; by default what lace.toml selects.

    A table on a terminal; in a pipe one JSON object a line, of the same shape as lace get has. With
    --columns, an object has just these, with null where a record has no such field, and Data_b64
    where data is not text. Hashes are short in a table: as much of one as is shown will do wherever
    a hash is wanted.

    \b
    Example:
      lace list //notes-demo//notes/message// --columns Name,Title,Data
      lace list --newest --since 7d --author bob
      lace list | jq -r .hash
    """
    settings = find(where) if peer_text is None else settings_or_none(where)
    if everything and (selector_text is not None or fields):
        raise click.UsageError("--all is everything: give no SELECTOR and no --field")
    module = _module(settings, EVERYTHING if everything else selector_text, read_fields(fields))
    signer = None if author is None else read_verifier(author, "--author")
    begin = None if since is None else read_time(since, "--since")
    chosen = None if columns is None else _columns(columns)
    with _open(settings, peer_text) as local:
        prefix = None if peer_text or fields or everything else _prefix(settings, selector_text)
        if newest and prefix is not None:
            found = _tips(local, prefix, begin)
        else:
            found = blocking.list(_target(local, settings, peer_text, key_text), module)
    if selector_text is None:  # else it was narrowed itself
        for name, value in read_fields(fields).items():
            found = [record for record in found if cell_of(record, name) == value]
    if newest:
        found = newest_of(found)
    found = [
        record
        for record in found
        if (signer is None or record.author == signer)
        and (begin is None or (record.time or "") >= begin)
    ]
    key, backwards = _ORDERS[sort]
    found.sort(key=key, reverse=backwards)
    left_out = 0 if limit is None else max(0, len(found) - limit)
    found = found[:limit]
    show_records(found, chosen, form)
    more = f"; {left_out:,} more with a higher --limit" if left_out else ""
    echo(f"{_counted(len(found))}{more}", err=True)
    return Exit.OK


@click.command()
@click.argument("place", metavar="PLACE|HASH")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    metavar="NUMBER",
    help="At most so many.",
)
@form_option
@lace_option
def log(place: str, limit: int, form: str | None, where: str | None) -> int:
    """Show the versions of the record at PLACE, the newest first.

    To edit is to add a record at the same place, so this is its history. Of a hash, it is that of
    the place where the record is. Exit code 6 if there is none.

    \b
    Example:
      lace log //notes-demo//notes/message//msg/1
    """
    settings = find(where)
    with settings.open() as local:
        versions = blocking.history(local, _place_of(local, place), limit)
    show_records(versions, None, form, ("Date", "Signed-By", "Hash", "Data"))
    echo(_counted(len(versions), "version"), err=True)
    return Exit.OK if versions else Exit.NOT_FOUND


def _place_of(local: Lace, text: str) -> str:
    """Return the place that a text means: itself, or that of the record whose hash it is."""
    hash = whole_hash(local, text)
    if hash is None:
        return text
    found = blocking.get(local, hash)
    if found is None:
        raise UsageError(f"{text} is not here", code=Code.RECORD_ABSENT)
    if found.place is None:
        raise UsageError(
            f"{text} is at no place here",
            code=Code.URC_FORM,
            hint="Give //group//app//name.",
        )
    return str(found.place)


def show_records(
    records: Sequence[Record],
    columns: tuple[str, ...] | None,
    form: str | None,
    brief: tuple[str, ...] = _BRIEF,
) -> None:
    """Print records in the form that was chosen; without columns, JSON has them whole."""
    wanted = chosen_form(form)
    if wanted == "json" and columns is None:
        for record in records:
            print_json(entry_of(record))
        return
    names = set().union(*map(field_names, records))
    chosen = columns or (brief if wanted == "table" else (*_WHOLE, *sorted(names), "Data"))
    known = {*names, *OWN, HASH, DATE, PLACE, "Data"}
    if records and (unknown := [name for name in chosen if name not in known]):
        echo(
            f"no record here has {', '.join(unknown)}; names of fields are case-sensitive", err=True
        )
    dates = local_date if wanted == "table" else iso_date
    rows = [[_cell(record, name, dates) for name in chosen] for record in records]
    if wanted == "json":
        for row in rows:
            print_json(dict(map(_entry, chosen, row)))
    elif wanted == "csv":
        print_csv(chosen, [[_text(cell) for cell in row] for row in rows])
    elif rows:
        people = key_names()
        short = short_hashes(record.hash for record in records)
        shown = [
            [_shown(*item, people, short) for item in zip(chosen, row, strict=True)] for row in rows
        ]
        fitted_table(chosen, shown, whole=(HASH, DATE), drop=_DROP)


def _prefix(settings: Place | None, text: str | None) -> Prefix | None:
    """Return the prefix that selects, if nothing but a prefix does."""
    if text is None and settings is not None and settings.settings.room is None:
        text = settings.settings.select
    if text is None or not text.startswith("//") or ":-" in text:
        return None
    place = parse_urc(text)
    return place if isinstance(place, Prefix) else None


def _tips(local: Lace, prefix: Prefix, begin: str | None) -> list[Record]:
    """Return what the selector of a prefix would, of each place the newest, through the index.

    Such a selector asks for nothing but the place, and the index knows it; a list would look at
    every record that is here.
    """
    store = store_of(local)
    tips = [tip for tip in store.tips(prefix) if begin is None or tip[0] >= begin]
    with store.snapshot() as snapshot:
        return list(snapshot.records([hash for _, hash in tips]))


def _cell(record: Record, column: str, dates: Callable[[Tai], str | None]) -> Cell:
    if column == DATE:
        return None if record.time is None else dates(record.time)
    if column == PLACE:
        return None if record.place is None else str(record.place)
    return cell_of(record, column)


def _module(settings: Place | None, text: str | None, fields: dict[str, str]) -> PolicyModule:
    if fields and text is not None:
        return read_selector(text, fields=fields)
    if settings is None:
        if text is None:
            raise click.UsageError("give a SELECTOR")
        return read_selector(text)
    return settings.module(text)


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(
            "a column has no name", code=Code.INPUT_KEY, hint="Write --columns Name,Title."
        )
    return names


def settings_or_none(where: str | None) -> Place | None:
    """A peer can be asked from anywhere; settings only add what they know of it."""
    if where is not None:
        return find(where)
    try:
        return find(None)
    except UsageError as error:
        if error.code is not Code.SETTINGS_MISSING:
            raise
        return None


def _open(settings: Place | None, peer: str | None) -> Lace:
    return blocking.open() if settings is None or peer is not None else settings.open()


def _target(local: Lace, settings: Place | None, peer: str | None, key: str | None) -> Lace | Peer:
    if peer is None:
        return local
    known = settings or Place.nowhere()
    return known.peer(peer, key=known.signing_key(key))


def _entry(name: str, cell: Cell) -> tuple[str, str | None]:
    if isinstance(cell, bytes):
        try:
            return name, cell.decode()
        except UnicodeDecodeError:
            from base64 import b64encode  # seldom needed

            return f"{name}_b64", b64encode(cell).decode()
    return name, cell


def _text(cell: Cell) -> str:
    """Return a cell of CSV: nothing where there is none, Base64 where it is no text."""
    _, text = _entry("", cell)
    return text or ""


def _shown(column: str, cell: Cell, names: dict[str, str], short: dict[str, str]) -> str:
    """Return a cell for people: signers by the names they have here, hashes short."""
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        try:
            return cell[:_CELL].decode()
        except UnicodeDecodeError:
            return f"{len(cell)} bytes"
    if column == HASH:
        return short[cell]
    if is_verifier(cell):
        return names.get(cell, f"{cell[:10]}…")
    return cell[:_CELL]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _counted(number: int, word: str = "record") -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
