"""``lace policy``: what a selector becomes, and what a peer can learn."""

from __future__ import annotations

from typing import Any

import click

from lace.cli.arguments import (
    expose_option,
    field_option,
    read_fields,
    read_parameters,
    read_verifier,
    set_option,
)
from lace.cli.exitcodes import Exit
from lace.cli.files import read_facts
from lace.cli.output import echo
from lace.cli.render import json_option, print_json
from lace.cli.room import read_room, room_options
from lace.policy.audit import audit
from lace.policy.executable import ExchangePolicy, Verdict
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.selectors import with_support
from lace.settings import read_exposure, read_selector


@click.group()
def policy() -> None:
    """Look at policies: what a selector becomes, and what a peer can learn.

    \b
    Example:
      lace policy show //notes-demo//notes//
      lace policy audit --local //u//docs// --peer their.lacegram --records mine.records
    """


@policy.command()
@click.argument("selector_text", metavar="SELECTOR")
@field_option
@click.option(
    "--room", "authority", metavar="NAME|VERIFIER", help="A room whose members this key admits."
)
@room_options
@set_option
@click.option("--support", metavar="TAG", help="Also select what is linked to with this tag.")
def show(
    selector_text: str,
    fields: tuple[str, ...],
    authority: str | None,
    assigned: tuple[str, ...],
    support: str | None,
    **choices: Any,
) -> None:
    """Print the rules that SELECTOR (a coordinate, prefix, hash address or file) becomes.

    \b
    Example:
      lace policy show //notes-demo//notes//
      lace policy show //notes-demo//notes// --room alice --removed stays
    """
    if authority is not None:
        verifier = read_verifier(authority, "--room")
        module = read_room(selector_text, verifier, choices).module
    else:
        given = read_parameters(assigned)
        module = read_selector(selector_text, fields=read_fields(fields), parameters=given)
    if support is not None:
        module = with_support(module, support)
    echo(module.text, nl=False)
    echo(module.id, err=True)


@policy.command("audit")
@click.option("--local", "local_text", required=True, metavar="SELECTOR", help="Your own selector.")
@click.option("--peer", "peer_text", required=True, metavar="SELECTOR", help="The peer's selector.")
@expose_option
@click.option("--viewer", metavar="NAME|VERIFIER", help="Whom the peer has proven to be.")
@click.option("--records", required=True, metavar="FILE", help="The records you hold.")
@click.option("--why", metavar="HASH", help="Also say why this record may or may not be sent.")
@json_option
def audit_command(
    local_text: str,
    peer_text: str,
    exposed: tuple[str, ...],
    viewer: str | None,
    records: str,
    why: str | None,
    form: str | None,
) -> int:
    """Say in plain words what a peer can learn, and try it out on the actual records.

    \b
    Example:
      lace policy audit --local //u//docs// --peer their.lacegram --records mine.records
    """
    source, rejected = read_facts(records)
    proven = None if viewer is None else read_verifier(viewer, "--viewer")
    plan = ExchangePlan(
        label_operands(
            Party(index=0, module=read_selector(local_text)),
            Party(index=1, module=read_selector(peer_text), verifier=proven),
        )
    )
    executable = ExchangePolicy(plan, 0, source, read_exposure(exposed))
    report = audit(executable)
    verdict = None if why is None else executable.explain_send(why)
    if form == "json":
        told = {} if verdict is None else {"why": _verdict_entry(verdict)}
        print_json({"holds": report.holds, "sentences": list(report.sentences())} | told)
    else:
        for sentence in report.sentences():
            echo(f"- {sentence}")
        if verdict is not None:
            _explain(verdict)
    if rejected:
        echo(f"{len(rejected)} records of {records} are not valid: left out", err=True)
    if not report.holds:
        return Exit.BAD_INPUT
    return Exit.SOME_REJECTED if rejected else Exit.OK


def _verdict_entry(verdict: Verdict) -> dict[str, Any]:
    return {
        "allowed": verdict.allowed,
        "detail": verdict.detail,
        "layer": str(verdict.layer),
        "record": verdict.record,
    }


def _explain(verdict: Verdict) -> None:
    word = "may be sent" if verdict.allowed else f"may not be sent; {verdict.layer} decided"
    echo(f"- {verdict.record} {word}: {verdict.detail}.")
    for refusal in verdict.refusals:
        bound = ", ".join(f"{name} = {value}" for name, value in sorted(refusal.bindings.items()))
        given = f" with {bound}" if bound else ""
        echo(f"    {refusal.id} failed at {refusal.failed_atom}{given}")
