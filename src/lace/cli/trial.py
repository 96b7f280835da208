"""``lace try``: what rules would select, send and ask for, without an exchange."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import click

from lace import blocking
from lace.api.handles import Lace
from lace.api.handles import open as open_lace
from lace.api.reasons import Explanation, Question, Trial, try_rules
from lace.cli.arguments import (
    complete_people,
    complete_scenarios,
    expose_option,
    lace_option,
    read_parameters,
    read_time,
    read_verifier,
    set_option,
)
from lace.cli.exitcodes import Exit
from lace.cli.names import key_names, place_for_people
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.cli.shape import short_hashes
from lace.cli.why import folder_of, refusal_entry, selected_by
from lace.ids import Verifier
from lace.policy.module import PolicyModule
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.settings import read_exposure, read_selector

_HEADS: Final = ("", "Place", "Signed-By", "Hash", "Why")
_VERDICTS: Final = {
    (Question.HERE, True): ("✓", "selected"),
    (Question.HERE, False): ("✗", "not selected"),
    (Question.SEND, True): ("→", "sent"),
    (Question.SEND, False): ("✗", "not sent"),
    (Question.REQUEST, True): ("←", "asked for"),
    (Question.REQUEST, False): ("✗", "not asked for"),
}


@dataclass(frozen=True, slots=True)
class _World:
    """The records that rules are tried on, and whom they meet."""

    local: Lace
    exposure: Exposure
    names: dict[str, str]
    """What names in braces stand for, and whom names mean."""
    peer: Verifier | None = None
    theirs: PolicyModule | None = None
    offered: tuple[Record, ...] = ()


@click.command("try")
@click.argument("rules", metavar="RULES")
@click.option("--scenario", metavar="NAME|FILE", shell_complete=complete_scenarios,
              help="Try them on the records of a scenario.")  # fmt: skip
@click.option("--as", "viewer", metavar="NAME|VERIFIER", shell_complete=complete_people,
              help="Meet this one, who has proven it.")  # fmt: skip
@click.option("--theirs", "their_text", metavar="SELECTOR",
              help="What they select.  [default: the same RULES]")  # fmt: skip
@click.option("--peer", "peer_text", metavar="FOLDER",
              help="Meet another lace on this machine: its key, selector and records.")  # fmt: skip
@click.option(
    "--at", "instant", metavar="TIME", help="The time that rules are told.  [default: now]"
)
@set_option
@expose_option
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, metavar="NUMBER",
              help="At most so many records.")  # fmt: skip
@form_option
@lace_option
def try_command(
    rules: str,
    scenario: str | None,
    viewer: str | None,
    their_text: str | None,
    peer_text: str | None,
    instant: str | None,
    assigned: tuple[str, ...],
    exposed: tuple[str, ...],
    limit: int,
    form: str | None,
    where: str | None,
) -> int:
    """Say what RULES would do with each record here: select it, send it, ask for it, and why.

    RULES is a selector: a place, rules, or a file of them. Alone it says what would be selected;
    with --as or --peer what would be sent to that peer through the view, and with --peer what of
    theirs would be asked for. Nothing is exchanged and nothing is stored. JSON has the rules and
    how far each got; lace why-not tells one record in full.

    \b
    Example:
      lace try notes.lacegram --set owner=V.….H3
      lace try notes.lacegram --as bob --at 2026-01-31
      lace try //notes-demo//notes// --peer ../bob
      lace try notes.lacegram --scenario notes-room
    """
    if scenario is not None and where is not None:
        raise click.UsageError("give --lace or --scenario, not both")
    if viewer is not None and peer_text is not None:
        raise click.UsageError("give --as or --peer, not both")
    with ExitStack() as stack:
        if scenario is not None:
            world = _of_scenario(scenario, viewer, exposed, stack)
        else:
            world = _of_lace(find(where), viewer, peer_text, exposed, stack)
        given = world.names | read_parameters(assigned)
        module = read_selector(rules, parameters=given)
        theirs = world.theirs
        if their_text is not None:
            theirs = read_selector(their_text, parameters=given)
        elif theirs is None and viewer is not None:
            theirs = module
        trial = try_rules(
            world.local,
            module,
            their_policy=theirs,
            peer=world.peer,
            expose=world.exposure,
            offered=world.offered,
            at=None if instant is None else read_time(instant, "--at"),
            limit=limit,
        )
        _show(world, trial, form)
    _sum_up(trial)
    return Exit.OK


def _of_lace(
    place: Place, viewer: str | None, peer: str | None, exposed: tuple[str, ...], stack: ExitStack
) -> _World:
    local = stack.enter_context(place.open(known_as=place.verifier()))
    exposure = place.exposure(exposed)
    names = dict(place.settings.parameters)
    if peer is None:
        who = None if viewer is None else read_verifier(viewer, "--as")
        return _World(local, exposure, names, who)
    there = folder_of(place, peer) or find(peer)
    theirs = selected_by(there)
    with there.open() as other:
        offered = blocking.list(other, theirs) if theirs is not None else []
    return _World(local, exposure, names, there.verifier(), theirs, tuple(offered))


def _of_scenario(
    name: str, viewer: str | None, exposed: tuple[str, ...], stack: ExitStack
) -> _World:
    from lace.scenario.library import find_scenario  # only this needs it

    built = find_scenario(name)
    local = stack.enter_context(open_lace(records=built.records.values()))
    if viewer is None:
        who = None
    elif viewer in built.keys:
        who = built.keys[viewer].verifier
    else:
        who = read_verifier(viewer, "--as")
    exposure = read_exposure(exposed)
    return _World(local, exposure, built.values, who)


def _show(world: _World, trial: Trial, form: str | None) -> None:
    wanted = chosen_form(form)
    made = (*trial.here, *trial.offered)
    known = {record.hash: record for record in world.offered}
    records = [
        known.get(one.record) or blocking.get(world.local, f"////{one.record}") for one in made
    ]
    if wanted == "json":
        for one, record in zip(made, records, strict=True):
            print_json(_entry(one, record))
        return
    names = key_names()
    short = short_hashes(one.record for one in made)
    rows = []
    for one, record in zip(made, records, strict=True):
        where = None if record is None else record.place
        place = place_for_people(where, {} if wanted == "csv" else names)
        author = "" if record is None or record.author is None else record.author
        hash = one.record if wanted == "csv" else short[one.record]
        sign, word = _VERDICTS[one.question, one.allowed]
        shown = word if wanted == "csv" else sign
        rows.append((shown, place, names.get(author, author[:10]), hash, _why(one)))
    if wanted == "csv":
        print_csv(("Verdict", *_HEADS[1:]), rows)
    elif rows:
        fitted_table(_HEADS, rows, whole=("", "Hash"), drop=("Signed-By", "Why"))


def _why(one: Explanation) -> str:
    """Return what decided, as short as it can be said."""
    if one.allowed:
        return next(iter(one.rules), "")
    obstacle = one.obstacle
    said = "" if obstacle is None else obstacle.name
    if one.refusals:
        closest = max(one.refusals, key=lambda refusal: refusal.satisfied)
        return f"{said}: fails at {closest.failed_atom}"
    return said


def _entry(one: Explanation, record: Record | None) -> dict[str, Any]:
    return {
        "allowed": one.allowed,
        "author": None if record is None else record.author,
        "hash": one.record,
        "obstacle": None if one.obstacle is None else one.obstacle.name,
        "place": None if record is None or record.place is None else str(record.place),
        "question": str(one.question),
        "refusals": [refusal_entry(one, refusal) for refusal in one.refusals],
        "rules": list(one.rules),
        "verdict": _VERDICTS[one.question, one.allowed][1],
    }


def _sum_up(trial: Trial) -> None:
    parts = []
    for made, of in ((trial.here, "here"), (trial.offered, "offered")):
        if made:
            yes = _VERDICTS[made[0].question, True][1]
            parts.append(f"{_count(made):,} of {len(made):,} {of} would be {yes}")
    if trial.left_out:
        parts.append(f"{trial.left_out:,} more with a higher --limit")
    echo("; ".join(parts) or "there are no records to try them on", err=True)


def _count(made: Iterable[Explanation]) -> int:
    return sum(one.allowed for one in made)
