"""``lace init``: make a lace, a folder with a store and its settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import click

from lace.api.handles import open as open_lace
from lace.cli.arguments import key_option, read_signing_key, read_verifier, select_option
from lace.errors import Code, UsageError
from lace.keyring import is_key_name
from lace.settings import FILE, STORE, is_file, parse, read_selector
from lace.transport.address import parse_address


@click.command()
@click.argument("path", default=".")
@key_option("The key that signs what is added.")
@select_option("What belongs: a place, rules, or a file of them.")
@click.option(
    "--room", metavar="NAME|VERIFIER", help="The place is a room, and this key admits its members."
)
@click.option("--delegation", is_flag=True, help="In a room: members may admit members.")
@click.option("--revocation", metavar="APP", help="In a room: the sub-app that ends memberships.")
@click.option(
    "--peer", "peers", multiple=True, metavar="NAME=ADDRESS", help="A peer by name; repeatable."
)
def init(
    path: str,
    key_text: str | None,
    select_text: str | None,
    room: str | None,
    delegation: bool,
    revocation: str | None,
    peers: tuple[str, ...],
) -> None:
    """Make a lace in the folder PATH: a store for records, and lace.toml with its settings.

    Other commands find it when they run in that folder, or when --lace names it. The settings are
    defaults; flags go before them. They are yours to edit. A file of rules is copied into the
    folder, so that the folder can be moved.

    \b
    Example:
      lace init notes --key alice --select //notes-demo//notes// --room alice
      lace init . --peer server=tcp:notes.example.org:4790
    """
    if room is None and (delegation or revocation):
        raise click.UsageError("--delegation and --revocation are about a room: give --room")
    if key_text is not None:
        read_signing_key(key_text, warns=False)
    lines = [
        "# A lace. docs/reference/settings.md says what may stand here.",
        f"store = {_quoted(STORE)}",
    ]
    if key_text is not None:
        lines.append(f"key = {_quoted(_key(key_text, Path(path)))}")
    rules = None
    if select_text is not None and is_file(select_text):
        if room is not None:
            raise click.UsageError("--room is about a place: give --select //group//app//")
        rules = Path(select_text.removeprefix("file:"))
        lines.append(f"select = {_quoted(f'file:{_inside(rules, Path(path)) or rules.name}')}")
    elif select_text is not None:
        lines.append(f"select = {_quoted(select_text)}")
    if room is not None:
        lines += ["", "[room]", f"authority = {_quoted(read_verifier(room, '--room'))}"]
        lines += ["delegation = true"] if delegation else []
        lines += [f"revocation = {_quoted(revocation)}"] if revocation else []
    for entry in peers:
        name, equals, address = entry.partition("=")
        if not equals or not is_key_name(name):
            raise click.UsageError(f"--peer {entry}: write NAME=ADDRESS")
        parse_address(address)
        lines += ["", f"[peers.{name}]", f"address = {_quoted(address)}"]
    _write(Path(path), "\n".join(lines) + "\n", rules)
    click.echo(f"{Path(path) / FILE} and {STORE} are ready", err=True)


def _write(folder: Path, text: str, rules: Path | None) -> None:
    made = parse(tomllib.loads(text), folder)
    copy = None if rules is None or _inside(rules, folder) else folder / rules.name
    if rules is not None:
        read_selector(str(rules))  # what cannot be used is not written down
    elif made.select is not None:
        made.module()
    for path in (folder / FILE, copy):
        if path is not None and path.exists():
            raise UsageError(
                f"{path} exists already",
                code=Code.SETTINGS_MALFORMED,
                hint="Edit it, or choose another folder.",
            )
    folder.mkdir(parents=True, exist_ok=True)
    if rules is not None and copy is not None:
        copy.write_bytes(rules.read_bytes())  # the folder can be moved, and brings its rules along
        click.echo(f"{rules} is copied to {copy}, which counts from now on", err=True)
    open_lace(made.store).close()
    with (folder / FILE).open("x", encoding="utf-8") as file:
        file.write(text)


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


def _quoted(text: str) -> str:
    """Return a TOML string; JSON has the same escapes, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
