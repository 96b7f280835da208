"""``lace get`` and ``lace list``: records by address and by selector, here or at a peer."""

from __future__ import annotations

import sys

import click

from lace import blocking
from lace.api.handles import Lace, Peer
from lace.cli.arguments import field_option, key_option, lace_option, read_fields
from lace.cli.exitcodes import Exit
from lace.cli.files import write_output
from lace.cli.names import key_names
from lace.cli.place import Place, find
from lace.cli.record import show_record
from lace.cli.render import print_json, table
from lace.errors import Code, UsageError
from lace.ids import is_record_hash
from lace.policy.module import PolicyModule
from lace.projection import HASH, SIGNED_BY, STANDARD, Cell, Projection
from lace.settings import read_selector

_BRIEF = ("App", "Name", "Signed-By", "Hash")  # what fits on a terminal
_CELL = 60

from_option = click.option(
    "--from",
    "peer_text",
    metavar="NAME|ADDRESS",
    help="Ask this peer instead; nothing is stored here.",
)


@click.command()
@click.argument("address")
@click.option("--data", "only_data", is_flag=True, help="Write the payload, and nothing else.")
@click.option("--raw", is_flag=True, help="Write the whole record as it is stored.")
@click.option("-o", "--output", default="-", help="With --data or --raw: where to write it.")
@from_option
@key_option()
@lace_option
def get(
    address: str,
    only_data: bool,
    raw: bool,
    output: str,
    peer_text: str | None,
    key_text: str | None,
    where: str | None,
) -> int:
    """Show the record at ADDRESS: a coordinate, a hash, or one version of a coordinate.

    Of several versions it is the newest. A table on a terminal, one JSON object in a pipe. Exit
    code 6 if there is none.

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
    asked = f"////{address}" if is_record_hash(address) else address
    settings = find(where) if peer_text is None else _settings_or_none(where)
    with _open(settings, peer_text) as local:
        found = blocking.get(_target(local, settings, peer_text, key_text), asked)
    if found is None:
        click.echo(f"nothing is at {address}; lace list shows what is here", err=True)
        return Exit.NOT_FOUND
    if only_data or raw:
        write_output(output, found.raw if raw else found.data, overwrite=False)
    else:
        show_record(found, requested=address)
    return Exit.OK


@click.command("list")
@click.argument("selector_text", metavar="[SELECTOR]", required=False)
@field_option
@click.option(
    "--columns",
    metavar="NAME,NAME",
    help="Fields to show; Hash and Data too.  [default: on a terminal App,Name,Signed-By,Hash]",
)
@from_option
@key_option()
@lace_option
def list_command(
    selector_text: str | None,
    fields: tuple[str, ...],
    columns: str | None,
    peer_text: str | None,
    key_text: str | None,
    where: str | None,
) -> int:
    """List the records that SELECTOR selects, oldest first; by default what lace.toml selects.

    A table on a terminal; in a pipe one JSON object a line, with null where a record has no such
    field, and Data_b64 where data is not text.

    \b
    Example:
      lace list //notes-demo//notes/message// --columns Name,Title,Data
      lace list | jq -r .Hash
    """
    settings = find(where) if peer_text is None else _settings_or_none(where)
    module = _module(settings, selector_text, read_fields(fields))
    is_terminal = sys.stdout.isatty()
    chosen = _columns(columns) if columns is not None else _BRIEF if is_terminal else STANDARD
    with _open(settings, peer_text) as local:
        rows = blocking.table(_target(local, settings, peer_text, key_text), module, chosen)
    if not is_terminal:
        for row in rows:
            print_json(dict(_entry(name, cell) for name, cell in row.items()))
    elif rows:
        names = key_names()
        shown = [[_shown(name, row[name], names) for name in chosen] for row in rows]
        table("", chosen, shown, whole=HASH)
    click.echo(_counted(rows), err=True)
    return Exit.OK


def _module(settings: Place | None, text: str | None, fields: dict[str, str]) -> PolicyModule:
    if fields:
        if text is None:
            raise click.UsageError("--field narrows a SELECTOR: give one")
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


def _settings_or_none(where: str | None) -> Place | None:
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


def _shown(column: str, cell: Cell, names: dict[str, str]) -> str:
    """Return a cell for people: signers by the names they have here, long texts cut short."""
    if cell is None:
        return ""
    if column == SIGNED_BY and isinstance(cell, str):
        return names.get(cell, f"{cell[:10]}…")
    if isinstance(cell, bytes):
        try:
            cell = cell.decode()
        except UnicodeDecodeError:
            return f"{len(cell)} bytes"
    text = "".join(c if c.isprintable() else "·" for c in cell[: _CELL + 1])
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _counted(rows: Projection) -> str:
    return f"{len(rows)} record{'' if len(rows) == 1 else 's'}"
