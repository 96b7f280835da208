"""``lace room``: rooms, their members and their roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from lace import blocking
from lace.api.rooms import Membership, room_of
from lace.cli.arguments import complete_people, key_option, lace_option, read_verifier, typed
from lace.cli.files import name_and_value
from lace.cli.init import make_lace, peer_option
from lace.cli.names import key_names
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.dates import iso_date, local_date
from lace.errors import Code, UsageError
from lace.ids import is_verifier
from lace.keyring import is_key_name
from lace.limits import FIXED
from lace.rooms import EVERYWHERE, PLACES, READS, REMOVED, Room
from lace.text import shown

_HEADS = ("Member", "Role", "Since", "By", "")


def room_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the choices that a room has; they come in as ``removed`` and so on."""
    for option in (
        click.option(
            "--writes", "role_texts", multiple=True, metavar="ROLE=APP,APP",
            help="A role and the sub-apps it writes in, * for all, nothing for none; repeatable.  "
            "[default: writer=*, reader=]",
        ),
        click.option(
            "--delegation", type=click.IntRange(0, FIXED.delegation), metavar="DEPTH",
            help="How far the right to admit can be handed on.  [default: 0]",
        ),
        click.option(
            "--reads", type=click.Choice(READS), help="Who may read.  [default: members]"
        ),
        click.option(
            "--places", type=click.Choice(PLACES),
            help="Whether members write anywhere, or under names of their own.  [default: shared]",
        ),
        click.option(
            "--removed", type=click.Choice(REMOVED),
            help="What becomes of what a removed member wrote before.  [default: goes]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def read_room(prefix: str, authority: str, choices: dict[str, Any]) -> Room:
    """Return the room of options; what was not said is left to its default."""
    roles: dict[str, tuple[str, ...]] = {}
    for name, apps in map(name_and_value, choices.pop("role_texts")):
        if name in roles:
            raise UsageError(
                f"the role {shown(name)} is given twice",
                code=Code.POLICY_ROOM,
                hint="Write all its sub-apps in one --writes, with commas between them.",
            )
        roles[name] = tuple(filter(None, (app.strip() for app in apps.split(","))))
    said = {name: value for name, value in choices.items() if value is not None}
    if roles:
        said["roles"] = roles
    with typed():
        return Room(prefix=prefix, authority=authority, **said)


def room_lines(room: Room) -> list[str]:
    """Return the table of lace.toml that says the choices of a room."""
    default = Room(prefix=room.prefix, authority=room.authority)
    lines = ["", "[room]", f"authority = {json.dumps(room.authority)}"]
    lines += [
        f"{name} = {json.dumps(value)}"
        for name in ("removed", "places", "reads", "delegation")
        if (value := getattr(room, name)) != getattr(default, name)
    ]
    if not room.usual_roles:
        lines += ["", "[room.roles]"]
        lines += [f"{role} = {json.dumps(list(apps))}" for role, apps in room.roles.items()]
    return lines


@click.group()
def room() -> None:
    """Keep a room: a place where members write, and where you say who is one.

    Members, their roles and the ends of memberships are records like any others; lace sync brings
    them to everybody.

    \b
    Example:
      lace room new notes //notes-demo//notes// --key alice
      lace room admit bob --lace notes
      lace room members --lace notes
    """


@room.command()
@click.argument("path")
@click.argument("prefix")
@key_option("Your key: it is the authority of the room.", required=True)
@room_options
@peer_option
def new(path: str, prefix: str, key_text: str, peers: tuple[str, ...], **choices: Any) -> None:
    """Make a lace in the folder PATH for a new room at PREFIX, //group//app//.

    Your key is its authority, and its first member. Whoever takes part makes the same choices:
    lace invite writes them down for others, together with where to find you.

    \b
    Example:
      lace room new notes //notes-demo//notes// --key alice
      lace room new club //club//talk// --key alice --removed stays --writes guest=questions
    """
    key = Place.nowhere().signing_key(key_text)
    assert key is not None
    made = read_room(prefix, key.verifier, choices)
    make_lace(Path(path), key_text, prefix, room_lines(made), peers)
    own = _under(made, None, key_text, key.verifier)
    with find(path).open(key) as local:
        blocking.admit(local, key.verifier, room=made, under=own, may_admit=made.delegation)


@room.command()
@click.argument("member", metavar="NAME|VERIFIER", shell_complete=complete_people)
@click.option("--role", metavar="ROLE", help="What they may do.  [default: the first of the room]")
@click.option("--under", metavar="NAME", help="Their own names: all that begin with NAME/.")
@click.option(
    "--may-admit", type=click.IntRange(0, FIXED.delegation), default=0, metavar="DEPTH",
    help="Let them admit others, and those others, this deep.",
)  # fmt: skip
@key_option()
@lace_option
def admit(
    member: str,
    role: str | None,
    under: str | None,
    may_admit: int,
    key_text: str | None,
    where: str | None,
) -> None:
    """Make somebody a member of the room, or give a member another role.

    Of what you said about somebody, the newest counts: whom you removed, you can admit again. In a
    room where members have names of their own, these begin with --under, else with the name you
    gave, else with the verifier.

    \b
    Example:
      lace room admit bob
      lace room admit V.SEpnutoWnvlX4JF3xSA9vqWYAd~lL54TkiT9X~Kx9ZO.H3 --role reader
      lace room admit carol --may-admit 1
    """
    place = find(where)
    rules = _room(place)
    verifier = read_verifier(member, "MEMBER")
    key = _key(place, key_text)
    with place.open(key) as local:
        made = blocking.admit(
            local,
            verifier,
            role,
            room=rules,
            under=_under(rules, under, member, verifier),
            may_admit=may_admit,
        )
        listed = blocking.members(local, rules)
    if not any(one.verifier == verifier and one.since == made.tai for one in listed):
        echo("the room's rules do not hear this: you may not admit them so", err=True)
    echo(made.hash)


@room.command()
@click.argument("member", metavar="NAME|VERIFIER", shell_complete=complete_people)
@key_option()
@lace_option
def remove(member: str, key_text: str | None, where: str | None) -> None:
    """End a membership.

    What they wrote before goes with them or stays, as the room was made. The authority ends any
    membership; who was given the right to admit ends those that they granted.

    \b
    Example:
      lace room remove bob
    """
    place = find(where)
    rules = _room(place)
    verifier = read_verifier(member, "MEMBER")
    key = _key(place, key_text)
    with place.open(key) as local:
        known = [one for one in blocking.members(local, rules) if one.verifier == verifier]
        if not any(one.ended is None for one in known):
            raise UsageError(f"{member} is no member", code=Code.POLICY_ROOM,
                             hint="lace room members lists them.")  # fmt: skip
        made = blocking.remove(local, verifier, room=rules)
        still = [one for one in blocking.members(local, rules)
                 if one.verifier == verifier and one.ended is None]  # fmt: skip
    if verifier == rules.authority:
        echo("they are the authority, and still say who is a member", err=True)
    if still:
        echo("they are still a member, by somebody else's word", err=True)
    echo(made.hash)


@room.command()
@form_option
@lace_option
def members(form: str | None, where: str | None) -> None:
    """List who is a member, since when and by whose word, then who was one.

    \b
    Example:
      lace room members
    """
    place = find(where)
    rules = _room(place)
    with place.open() as local:
        found = blocking.members(local, rules)
    wanted = chosen_form(form)
    if wanted == "json":
        for one in found:
            print_json(_entry(one))
        return
    names = key_names()
    rows = [
        (
            names.get(one.verifier, one.verifier),
            one.role,
            local_date(one.since),
            names.get(one.by, one.by if wanted == "csv" else f"{one.by[:10]}…"),
            _remarks(one),
        )
        for one in found
    ]
    if wanted == "csv":
        print_csv((*_HEADS[:-1], "Remarks"), rows)
    else:
        fitted_table(_HEADS, rows, whole=("Role", "Since"), drop=("By", "Since", ""))


@room.command()
@form_option
@lace_option
def roles(form: str | None, where: str | None) -> None:
    """Say what each role may do, and which choices the room was made with.

    \b
    Example:
      lace room roles
    """
    rules = _room(find(where))
    wanted = chosen_form(form)
    if wanted == "json":
        for role, apps in rules.roles.items():
            print_json({"role": role, "writes": list(apps)})
        return
    rows = [(role, _where(apps, rules)) for role, apps in rules.roles.items()]
    if wanted == "csv":
        print_csv(("Role", "Writes"), rows)
        return
    fitted_table(("Role", "Writes"), rows, whole=("Role",))
    for sentence in sentences(rules):
        echo(sentence, err=True)


def sentences(room: Room) -> list[str]:
    """Return the choices of a room in words."""
    writes = {
        "shared": "Members write at any place.",
        "own": "Members write only under their own names.",
    }
    stays = {
        "goes": "What a removed member wrote goes with them.",
        "stays": "What a removed member wrote before stays.",
    }
    reads = {"members": "Only members read.", "anyone": "Anyone who can reach a member reads."}
    admits = (
        f"The right to admit can be handed on {room.delegation} deep."
        if room.delegation
        else "Only the authority admits."
    )
    return [writes[room.places], stays[room.removed], reads[room.reads], admits]


def _room(place: Place) -> Room:
    if place.settings.room is None:
        with place.open() as local:
            return room_of(local)  # says what is missing
    return place.settings.room


def _key(place: Place, text: str | None) -> Any:
    key = place.signing_key(text)
    if key is None:
        raise UsageError(
            "there is no key to sign with",
            code=Code.KEY_UNKNOWN,
            hint="Give --key NAME, or write key in lace.toml.",
        )
    return key


def _under(room: Room, under: str | None, called: str, verifier: str) -> str | None:
    """Return the names that a member gets where each has names of their own."""
    if room.places == "shared":
        return under
    if under is not None:
        return under
    return called if is_key_name(called) and not is_verifier(called) else verifier


def _entry(one: Membership) -> dict[str, Any]:
    return {
        "by": one.by,
        "ended": one.ended,
        "ended_date": None if one.ended is None else iso_date(one.ended),
        "may_admit": one.may_admit,
        "member": one.verifier,
        "moved": one.moved,
        "role": one.role,
        "since": one.since,
        "since_date": iso_date(one.since),
        "under": one.under,
    }


def _remarks(one: Membership) -> str:
    parts = []
    if one.ended is not None:
        parts.append(f"removed {local_date(one.ended)}")
    if one.under is not None:
        parts.append(f"under {one.under}")
    if one.moved is not None:
        parts.append(f"now {key_names().get(one.moved, one.moved)}")
    if one.may_admit:
        parts.append(f"admits {one.may_admit} deep")
    return ", ".join(parts)


def _where(apps: Sequence[str], room: Room) -> str:
    if not apps:
        return "nowhere"
    if EVERYWHERE in apps:
        return f"{room.prefix} and below"
    return ", ".join(f"//{room.group}//{room.app}/{app}//" for app in apps)
