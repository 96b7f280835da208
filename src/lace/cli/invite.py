"""``lace invite`` and ``lace join``: one line that says where to meet whom, about what."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from lace.cli.arguments import key_option, lace_option, read_own_verifier
from lace.cli.files import STANDARD_INPUT
from lace.cli.init import make_lace, quoted
from lace.cli.names import named
from lace.cli.output import echo
from lace.cli.place import find
from lace.cli.room import room_lines, sentences
from lace.drafts import write_file
from lace.errors import Code, UsageError
from lace.invitations import Invitation, is_invitation
from lace.keyring import is_key_name
from lace.limits import FIXED
from lace.settings import FILE, nothing_selects

_RULES = "invitation.lacegram"


@click.command()
@click.argument("address")
@key_option()
@lace_option
def invite(address: str, key_text: str | None, where: str | None) -> None:
    """Print one line with which others can join: ADDRESS, your verifier, and what belongs here.

    ADDRESS is where they reach you: what lace serve listens at, by the name that others know. The
    line holds no secret, and makes nobody a member: in a room, lace room admit does.

    \b
    Example:
      lace invite tcp:notes.example.org:4790
    """
    place = find(where)
    settings = place.settings
    if settings.select is None:
        raise nothing_selects()
    verifier = place.verifier(key_text)
    if verifier is None:
        echo("there is no key: nobody can tell you from somebody else there", err=True)
    module = settings.module()
    is_place = settings.select.startswith("//")
    made = Invitation(
        address=address,
        select=settings.select if is_place else module.text,
        expect=verifier,
        room=settings.room,
    )
    echo(made.text)


@click.command()
@click.argument("path")
@click.argument("invitation", metavar="INVITATION|-", required=False)
@key_option("The key that signs what is added.")
@click.option("--as", "peer", default="host", show_default=True, help="What to call the peer here.")
def join(path: str, invitation: str | None, key_text: str | None, peer: str) -> None:
    """Make a lace in the folder PATH as INVITATION says; - reads it from standard input.

    It writes lace.toml: what belongs, the room with its choices, and the peer that sent it. Look at
    what is printed: an invitation is only somebody's word. Then lace sync meets the peer.

    \b
    Example:
      lace join notes lace-invitation-1.… --key bob
      lace sync --lace notes
    """
    if invitation is None:
        missing = "PATH, a new folder," if is_invitation(path) else "the invitation"
        raise click.UsageError(f"{missing} is missing: lace join PATH INVITATION")
    if is_invitation(path):
        path, invitation = invitation, path  # the line comes to mind first
    if not is_key_name(peer):
        raise UsageError(f"{peer} cannot be the name of a peer", code=Code.INPUT_KEY)
    text = (
        sys.stdin.read(FIXED.invitation_bytes + 1) if invitation == STANDARD_INPUT else invitation
    )
    found = Invitation.read(text)
    if key_text is not None:
        read_own_verifier(key_text)  # says that there is none
    folder = Path(path)
    is_place = found.select.startswith("//")
    table = [] if found.room is None else room_lines(found.room)
    table += ["", f"[peers.{peer}]", f"address = {quoted(found.address)}"]
    if found.expect is not None:
        table.append(f"expect = {quoted(found.expect)}")
    if is_place:
        table.append(f"select = {quoted(found.select)}")
    rules = folder / _RULES
    for taken in (folder / FILE, *(() if is_place else (rules,))):
        if taken.exists():
            raise UsageError(
                f"{taken} exists already",
                code=Code.SETTINGS_MALFORMED,
                hint="Choose another folder.",
            )
    if not is_place:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(rules, found.module().text, overwrite=False)
    make_lace(folder, key_text, found.select if is_place else f"file:{rules}", table)
    who = "whoever answers" if found.expect is None else named(found.expect)
    echo(f"{peer} is {who} at {found.address}", err=True)
    echo(f"what belongs: {found.select if is_place else rules}", err=True)
    if found.room is not None:
        echo(f"a room of {named(found.room.authority)}", err=True)
        for sentence in sentences(found.room):
            echo(sentence, err=True)
