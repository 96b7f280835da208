"""``lace status`` and ``lace peers``: how things stand in a lace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from lace import blocking
from lace.api.handles import Lace, store_of
from lace.cli.arguments import lace_option
from lace.cli.exitcodes import Exit
from lace.cli.met import Meeting, meetings
from lace.cli.names import key_names
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.cli.shape import short_hashes
from lace.clock import tai_now
from lace.dates import iso_date, local_date
from lace.errors import LaceError
from lace.recordstore.base import StoreRecordId
from lace.rooms import Room
from lace.settings import Settings
from lace.tai import NS_PER_SECOND, Tai, add_ns

_BATCH: Final = 10_000
_NAMED: Final = 5  # records, in a problem
_FUTURE_NS: Final = 60 * NS_PER_SECOND  # clocks differ by less
_HEADS: Final = ("Name", "Address", "Expected", "Last met", "")


@click.command()
@form_option
@lace_option
def peers(form: str | None, where: str | None) -> None:
    """List the peers of lace.toml: where they are, and when they were last met.

    Last met is when lace sync or lace follow last came to a fixed point with one. The default is
    the one that lace sync means without a PEER: the peer of lace.toml, or the only one.

    \b
    Example:
      lace peers
    """
    settings = find(where).settings
    entries = list(_peers(settings))
    wanted = chosen_form(form)
    if wanted == "json":
        for entry in entries:
            print_json(entry)
        return
    names = key_names()
    rows = [
        (
            entry["name"],
            entry["address"],
            "" if entry["expect"] is None else names.get(entry["expect"], entry["expect"]),
            "never" if entry["last_met"] is None else local_date(entry["last_met"]),
            "default" if entry["default"] else "",
        )
        for entry in entries
    ]
    if wanted == "csv":
        print_csv((*_HEADS[:-1], "Default"), rows)
    elif rows:
        fitted_table(_HEADS, rows, whole=("Name", "Last met"), drop=("Expected", "Address", ""))
    else:
        echo("no peers yet: write [peers.NAME] with an address into lace.toml", err=True)


@click.command()
@form_option
@lace_option
def status(form: str | None, where: str | None) -> int:
    """Say how things stand: what is here, who was met when, what waits, and what is wrong.

    What waits for a peer are the records that belong and were stored since it was last met. Of a
    room it says what you are there, as far as it is known here. Exit code 3 if there are problems.

    \b
    Example:
      lace status
    """
    place = find(where)
    with place.open() as local:
        made = _status(place, local)
    wanted = chosen_form(form)
    if wanted == "json":
        print_json(made)
    else:
        rows = list(_lines(made))
        if wanted == "csv":
            print_csv(("What", "Value"), rows)
        else:
            for what, value in rows:
                echo(f"{what:9} {value}".rstrip())
    return Exit.SOME_REJECTED if made["problems"] else Exit.OK


def _peers(settings: Settings) -> Iterator[dict[str, Any]]:
    met = meetings(settings)
    for name, peer in settings.peers.items():
        last = met.get(name)
        yield {
            "address": peer.address,
            "default": name == settings.default_peer,
            "expect": peer.expect,
            "last_met": None if last is None else last.tai,
            "last_met_date": None if last is None else iso_date(last.tai),
            "name": name,
        }


def _status(place: Place, local: Lace) -> dict[str, Any]:
    settings = place.settings
    problems: list[str] = []
    store = store_of(local)
    chosen: list[tuple[Tai | None, str]] = []
    selects = settings.select is not None
    if selects:
        try:
            found = blocking.list(local, place.module(None))
            chosen = [(record.time, record.hash) for record in found]
        except LaceError as error:
            problems.append(f"the selector cannot be used: {error.message}")
    try:
        key = place.verifier()
    except LaceError as error:
        key = None
        problems.append(f"the key cannot be used: {error.message}")
    soon = add_ns(tai_now(), _FUTURE_NS)
    future = [hash for time, hash in sorted(chosen, key=str) if time is not None and time > soon]
    if future:
        problems.append(_of_the_future(future))
    hashes = {hash for _, hash in chosen}
    met = meetings(settings)
    waiting = {name: _waiting(local, met.get(name), hashes) for name in settings.peers}
    return {
        "folder": str(settings.folder),
        "key": key,
        "newest": max((time for time, _ in chosen if time is not None), default=None),
        "peers": [entry | {"waiting": waiting[entry["name"]]} for entry in _peers(settings)],
        "problems": problems,
        "records": store.count(),
        "room": _standing(local, settings.room, key),
        "selected": len(chosen) if selects else None,
    }


def _of_the_future(hashes: list[str]) -> str:
    """Return which records have a time that has not come."""
    short = short_hashes(hashes)
    named = ", ".join(short[hash] for hash in hashes[:_NAMED])
    if len(hashes) == 1:
        return f"1 record that belongs has a time in the future: {named}"
    more = f" and {len(hashes) - _NAMED:,} more" if len(hashes) > _NAMED else ""
    return f"{len(hashes):,} records that belong have a time in the future: {named}{more}"


def _standing(local: Lace, room: Room | None, own: str | None) -> dict[str, Any] | None:
    """Return whose room it is, and what one is there by what is here."""
    if room is None:
        return None
    roles = [one.role for one in blocking.members(local, room)
             if one.verifier == own and one.ended is None and one.moved is None]  # fmt: skip
    return {"authority": room.authority, "role": next(iter(roles), None)}


def _waiting(local: Lace, last: Meeting | None, selected: set[str]) -> int:
    """Return how many records that belong were stored since a meeting."""
    if last is None:
        return len(selected)
    number = 0
    after = StoreRecordId(last.mark)
    while batch := store_of(local).read(after, _BATCH):
        number += sum(1 for stored in batch if stored.hash in selected)
        after = batch[-1].id
    return number


def _lines(made: dict[str, Any]) -> Iterator[tuple[str, str]]:
    names = key_names()
    yield "lace", made["folder"]
    belong = "" if made["selected"] is None else f", {made['selected']:,} belong"
    yield "records", f"{made['records']:,} here{belong}"
    if made["newest"] is not None:
        yield "newest", local_date(made["newest"])
    yield "key", "none" if made["key"] is None else names.get(made["key"], made["key"])
    if made["room"] is not None:
        authority, role = made["room"]["authority"], made["room"]["role"]
        what = "no member by what is here" if role is None else role
        yield "room", f"of {names.get(authority, authority)}, where you are {what}"
    for peer in made["peers"]:
        last = peer["last_met"]
        when = "never met" if last is None else f"met {local_date(last)}"
        default = ", default" if peer["default"] else ""
        yield "peer", f"{peer['name']}: {when}, {peer['waiting']:,} waiting{default}"
    for problem in made["problems"]:
        yield "problem", problem
