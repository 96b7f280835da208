"""``lace init``: make a lace, a folder with a store and its settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final

import click

from lace.api.handles import open as open_lace
from lace.cli.arguments import (
    key_option,
    read_own_verifier,
    read_parameters,
    read_verifier,
    select_option,
    set_option,
)
from lace.cli.output import echo
from lace.drafts import write_file
from lace.errors import Code, StoreError, UsageError
from lace.keyring import is_key_name
from lace.rulefiles import read_rules
from lace.settings import FILE, STORE, check_store, is_file, load, parse, read_selector
from lace.transport.address import parse_address

peer_option: Final = click.option(
    "--peer", "peers", multiple=True, metavar="NAME=ADDRESS", help="A peer by name; repeatable."
)


@click.command()
@click.argument("path", default=".")
@key_option("The key that signs what is added.")
@select_option("What belongs: a place, rules, or a file of them.")
@click.option(
    "--room",
    metavar="NAME|VERIFIER",
    help="The place is a room, and this is its authority; lace room new makes one of your own.",
)
@set_option
@peer_option
def init(
    path: str,
    key_text: str | None,
    select_text: str | None,
    room: str | None,
    assigned: tuple[str, ...],
    peers: tuple[str, ...],
) -> None:
    """Make a lace in the folder PATH: a store for records, and lace.toml with its settings.

    Other commands find it when they run in that folder, or when --lace names it. The settings are
    defaults; flags go before them. They are yours to edit. A file of rules is copied into the
    folder, so that the folder can be moved. In the folder of a lace whose store is gone, and with
    no other flags, it makes an empty store and leaves the settings as they are.

    \b
    Example:
      lace init notes --key alice --select //notes-demo//notes// --room alice
      lace init . --peer server=tcp:notes.example.org:4790
    """
    if not (key_text or select_text or room or assigned or peers) and _made_again(Path(path)):
        return
    if key_text is not None:
        read_own_verifier(key_text)  # says that there is none
    if room is not None and select_text is not None and is_file(select_text):
        raise click.UsageError("--room is about a place: give --select //group//app//")
    table = []
    if room is not None:
        table = ["", "[room]", f"authority = {quoted(read_verifier(room, '--room'))}"]
    values = read_parameters(assigned)
    if values:
        table += ["", "[parameters]"]
        table += [f"{quoted(name)} = {quoted(value)}" for name, value in values.items()]
    make_lace(Path(path), key_text, select_text, table, peers)


def _made_again(folder: Path) -> bool:
    """Make the store of a lace that has lost it; return whether it had."""
    if not (folder / FILE).is_file():
        return False
    store = load(folder).store
    try:
        check_store(store)
    except StoreError as error:
        if error.code is not Code.STORE_MISSING:
            raise
        open_lace(store).close()
        echo(f"{store} is a new store, without records", err=True)
        return True
    return False


def make_lace(
    folder: Path,
    key_text: str | None,
    select_text: str | None,
    table: list[str],
    peers: tuple[str, ...] = (),
) -> None:
    """Write the settings of a new lace and make its store; ``table`` stands before the peers."""
    lines = [
        "# A lace. lace help settings says what may stand here.",
        f"store = {quoted(STORE)}",
    ]
    if key_text is not None:
        lines.append(f"key = {quoted(_key(key_text, folder))}")
    rules = None
    if select_text is not None and is_file(select_text):
        rules = Path(select_text.removeprefix("file:"))
        lines.append(f"select = {quoted(f'file:{_inside(rules, folder) or rules.name}')}")
    elif select_text is not None:
        lines.append(f"select = {quoted(select_text)}")
    lines += table
    for entry in peers:
        name, equals, address = entry.partition("=")
        if not equals or not is_key_name(name):
            raise click.UsageError(f"--peer {entry}: write NAME=ADDRESS")
        parse_address(address)
        lines += ["", f"[peers.{name}]", f"address = {quoted(address)}"]
    _write(folder, "\n".join(lines) + "\n", rules)
    echo(f"{folder / FILE} and {STORE} are ready", err=True)


def _write(folder: Path, text: str, rules: Path | None) -> None:
    made = parse(tomllib.loads(text), folder)
    copy = None if rules is None or _inside(rules, folder) else folder / rules.name
    if rules is not None:
        # What cannot be used is not written down.
        read_selector(str(rules), parameters=made.parameters)
    elif made.select is not None:
        made.module()
    if folder.exists() and not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, and a lace is a folder",
            code=Code.INPUT_FILE,
            hint="Choose another name.",
        )
    for path in (folder / FILE, copy):
        if path is not None and path.exists():
            raise UsageError(
                f"{path} exists already",
                code=Code.SETTINGS_MALFORMED,
                hint="Edit it, or choose another folder.",
            )
    folder.mkdir(parents=True, exist_ok=True)
    if rules is not None and copy is not None:
        # The folder can be moved, and brings its rules along, with all that they include.
        write_file(copy, read_rules(rules).text, overwrite=False)
        echo(f"{rules} is copied to {copy}, which counts from now on", err=True)
    open_lace(made.store).close()
    write_file(folder / FILE, text, overwrite=False)


def _key(text: str, folder: Path) -> str:
    """Return a name as it is; a file from the folder if it is in there, else by its full path.

    A key outside is not copied: a secret has one place.
    """
    if is_key_name(text):
        return text
    inside = _inside(Path(text), folder)
    return f"./{inside}" if inside else str(Path(text).absolute())


def _inside(file: Path, folder: Path) -> str:
    """Return the path of a file from a folder that it is in, or nothing."""
    absolute, base = file.resolve(), folder.resolve()
    return absolute.relative_to(base).as_posix() if absolute.is_relative_to(base) else ""


def quoted(text: str) -> str:
    """Return a TOML string; JSON has the same escapes, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
