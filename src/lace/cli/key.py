"""``lace key``: make and look at signing keys."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import click

from lace import blocking
from lace.api.rooms import room_of
from lace.cli.arguments import key_option, lace_option
from lace.cli.files import read_key, write_key
from lace.cli.init import quoted
from lace.cli.names import key_names
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.crypto.keys import SigningKey
from lace.drafts import write_file
from lace.errors import Code, LaceError, UsageError
from lace.keyring import Keyring
from lace.settings import FILE


@click.group()
def key() -> None:
    """Make and look at signing keys.

    \b
    Example:
      lace key new me.key
      lace key show me.key
    """


@key.command("new")
@click.argument("file")
def new(file: str) -> None:
    """Make a key and keep its secret in FILE, readable by you alone; print the verifier.

    The verifier is what others know you by; share it freely. An existing file is never replaced.

    \b
    Example:
      lace key new me.key
    """
    made = SigningKey.generate()
    write_key(file, made)
    echo(made.verifier)


@key.command("show")
@click.argument("file")
def show(file: str) -> None:
    """Print the verifier of the key in FILE (- reads the secret from standard input).

    \b
    Example:
      lace key show me.key
    """
    echo(read_key(file).verifier)


@key.command("rotate")
@click.argument("name", metavar="NEW")
@key_option("The key that is replaced.  [default: the one in lace.toml]")
@lace_option
def rotate(name: str, key_text: str | None, where: str | None) -> None:
    """Let the key called NEW stand for yours in this room from now on; make it if it is not there.

    A record says so, signed with the old key. Where only members read, nobody knows the new key
    before that record has come: meet somebody once more with the old one, lace sync --key OLD.

    What the old key signed before belongs as it did, what it signs from now on does not. The
    membership goes over, the right to admit does not: it is given again. If lace.toml names the old
    key, it names the new one then. The old one stays in the keyring until you remove it. The
    authority of a room cannot be exchanged.

    \b
    Example:
      lace key rotate bob-2027
    """
    place = find(where)
    old = place.signing_key(key_text)
    if old is None:
        raise UsageError("there is no key to replace", code=Code.KEY_UNKNOWN)
    ring = Keyring()
    there = {entry.name for entry in ring.known()}
    with place.open(old) as local:
        room = place.settings.room or room_of(local)  # says what is missing
        if old.verifier == room.authority:
            blocking.move(local, old.verifier, room=room)  # says why not, before a key is made
        known = [one for one in blocking.members(local, room) if one.verifier == old.verifier]
        if not any(one.ended is None and one.moved is None for one in known):
            raise UsageError(
                "this key has no place in the room that it could hand on",
                code=Code.POLICY_ROOM,
                hint="lace room members lists who has one.",
            )
        new = ring.get(name) if name in there else ring.add(name)
        made = blocking.move(local, new.verifier, room=room)
    if key_text is None or _is_of_settings(place, old):
        _name_key(place.settings.folder / FILE, name)
    echo(f"{name} stands for the old key from now on: {new.verifier}", err=True)
    called = key_names().get(old.verifier) or key_text or "OLD"
    echo(f"lace sync --key {called} brings the news; after that the new key will do", err=True)
    echo(made.hash)


def _is_of_settings(place: Place, key: SigningKey) -> bool:
    """Whether lace.toml names this key, by whatever name it was given here."""
    with suppress(LaceError):  # what it names is not there: it is not this one
        return place.verifier() == key.verifier
    return False


def _name_key(settings: Path, name: str) -> None:
    """Write another key into lace.toml; everything else in it stays as it is."""
    text = settings.read_text(encoding="utf-8")
    changed, count = re.subn(r"(?m)^key\s*=.*$", f"key = {quoted(name)}", text, count=1)
    if count:
        write_file(settings.resolve(), changed, overwrite=True)  # where a link leads
    else:
        echo(f"write key = {quoted(name)} into {settings}", err=True)
