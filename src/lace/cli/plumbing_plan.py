"""``lace plumb plan``: exchange plans and what they permit. The output is a contract."""

from __future__ import annotations

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import read_at_most, read_facts, read_limited
from lace.cli.output import echo, write_text
from lace.cli.plumbing_lacegram import print_diagnostic
from lace.datalog.source import parse_facts
from lace.errors import LacegramError, LimitExceeded
from lace.ids import Verifier, is_verifier
from lace.limits import DEFAULT_LIMITS, FIXED
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Operand, Origin
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.text import fact_line

_LOCAL = Origin("Opq_0")
_PEER = Origin("Opq_1")


@click.group("plan")
def plan_group() -> None:
    """Make exchange plans, and say what they permit.

    \b
    Example:
      lace plumb plan transcript --operand0 a --operand1 b --origin0 Opq_3 --origin1 Opq_x
    """


@plan_group.command()
@click.option("--operand0", required=True, metavar="FILE", help="The selector of operand 0.")
@click.option("--operand1", required=True, metavar="FILE", help="The selector of operand 1.")
@click.option("--origin0", required=True, metavar="LABEL", help="The origin of operand 0.")
@click.option("--origin1", required=True, metavar="LABEL", help="The origin of operand 1.")
@click.option("--id", "only_id", is_flag=True, help="Print only the id of the plan.")
def transcript(operand0: str, operand1: str, origin0: str, origin1: str, only_id: bool) -> int:
    """Print the canonical transcript of a plan.

    \b
    Example:
      lace plumb plan transcript --operand0 a --operand1 b --origin0 Opq_3 --origin1 Opq_x --id
    """
    try:
        modules = [_module(file, Facet.SELECTOR) for file in (operand0, operand1)]
    except LacegramError as error:
        return _refused(error)
    plan = ExchangePlan(
        (
            Operand(index=0, module=modules[0], origin=Origin(origin0)),
            Operand(index=1, module=modules[1], origin=Origin(origin1)),
        )
    )
    text = f"{plan.id}\n" if only_id else plan.transcript
    write_text(text.encode())
    return Exit.OK


@plan_group.command("evaluate")
@click.option("--local", "local_file", required=True, metavar="FILE", help="The local selector.")
@click.option("--peer", "peer_file", required=True, metavar="FILE", help="The peer's selector.")
@click.option("--index", type=click.Choice(["0", "1"]), required=True, help="Which one is local.")
@click.option("--expose", "expose_files", multiple=True, metavar="FILE", help="Expose modules.")
@click.option("--viewer", required=True, help="Whose view the peer's rules get.")
@click.option("--records", "records_file", required=True, metavar="FILE", help="Local records.")
@click.option("--runtime", "runtime_file", metavar="FILE", help="Runtime facts.")
@click.option("--adverts", "adverts_file", metavar="FILE", help="Advertisement facts.")
def evaluate_command(
    local_file: str,
    peer_file: str,
    index: str,
    expose_files: tuple[str, ...],
    viewer: str,
    records_file: str,
    runtime_file: str | None,
    adverts_file: str | None,
) -> int:
    """Print the MaySend and MayRequest facts of the lowered policy, sorted.

    Without --expose the peer's rules see no local record at all.

    \b
    Example:
      lace plumb plan evaluate --local a --peer b --index 0 --viewer V.x --records r.records
    """
    source, rejected = read_facts(records_file)
    for offset, code, detail in rejected:
        echo(f"{records_file}, byte {offset}: {detail} [{code}]", err=True)
    try:
        local = _module(local_file, Facet.SELECTOR)
        peer = _module(peer_file, Facet.SELECTOR)
        exposure = Exposure(tuple(_module(file, Facet.EXPOSE) for file in expose_files))
        for file in (runtime_file, adverts_file):
            if file is not None:
                for fact in parse_facts(read_limited(file, FIXED.facts_file_bytes)):
                    source.add(fact)
    except LacegramError as error:
        return _refused(error)
    here = int(index)
    verifier = Verifier(viewer) if is_verifier(viewer) else None
    origin = _PEER if verifier else Origin(viewer)
    operands = {
        here: Operand(index=here, module=local, origin=_LOCAL),
        1 - here: Operand(index=1 - here, module=peer, origin=origin, verifier=verifier),
    }
    try:
        policy = ExchangePolicy(ExchangePlan((operands[0], operands[1])), here, source, exposure)
    except LimitExceeded as error:
        echo(error.message, err=True)
        return Exit.LIMIT
    lines = [fact_line("MaySend", row).encode() for row in policy.may_send]
    lines += [fact_line("MayRequest", row).encode() for row in policy.may_request]
    for line in sorted(lines):
        write_text(line + b"\n")
    return Exit.SOME_REJECTED if rejected else Exit.OK


def _module(file: str, facet: Facet) -> PolicyModule:
    return module_from_text(read_at_most(file, DEFAULT_LIMITS.lacegram_bytes + 1), facet)


def _refused(error: LacegramError) -> int:
    for diagnostic in error.diagnostics:
        print_diagnostic(diagnostic)
    return Exit.BAD_INPUT
