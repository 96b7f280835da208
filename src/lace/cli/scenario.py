"""``lace scenario``: stories of two or more laces that meet, told and held to their word."""

from __future__ import annotations

import sys
import textwrap

import click

from lace.cli.arguments import complete_scenarios
from lace.cli.exitcodes import Exit
from lace.cli.output import echo
from lace.cli.render import chosen_form, fitted_table, form_option, print_csv, print_json
from lace.errors import Code
from lace.interlace import messages as m
from lace.scenario.build import Built
from lace.scenario.library import find_scenario, library, scenario_text
from lace.scenario.model import ScenarioError
from lace.scenario.run import Meeting, Run, StepRun, run_scenario
from lace.text import redact, safe


@click.group()
def scenario() -> None:
    """Run stories of laces that meet, with real records, rules and machines.

    \b
    Example:
      lace scenario run notes-room
      lace scenario test my-scenario.toml
    """


@scenario.command("list")
@form_option
def list_command(form: str | None) -> None:
    """List the scenarios that come with Lace.

    \b
    Example:
      lace scenario list
    """
    found = [(name, find_scenario(name).scenario) for name in library()]
    wanted = chosen_form(form)
    if wanted == "json":
        for name, one in found:
            print_json({"name": name, "peers": [peer.id for peer in one.peers], "title": one.title})
        return
    rows = [(name, one.title, ", ".join(p.title for p in one.peers)) for name, one in found]
    if wanted == "csv":
        print_csv(("Name", "Title", "Peers"), rows)
    else:
        fitted_table(("Name", "Title", "Peers"), rows, whole=("Name",), drop=("Peers",))


@scenario.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=complete_scenarios)
def run(name: str) -> int:
    """Tell what happens in a scenario, step by step, and check what it expects.

    \b
    Example:
      lace scenario run notes-room
    """
    built = _load(name)
    if built is None:
        return Exit.BAD_INPUT
    talk = sys.stdout.isatty()
    if talk:
        click.secho(safe(built.scenario.title), bold=True)
        echo(textwrap.fill(" ".join(built.scenario.story.split()), 96))
    done = run_scenario(built, lambda step: _tell(step, built) if talk else _print(step, built))
    return Exit.OK if done.ok else Exit.BAD_INPUT


@scenario.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...", shell_complete=complete_scenarios)
def test(names: tuple[str, ...]) -> int:
    """Check that scenarios keep their word; all that come with Lace, unless some are named.

    \b
    Example:
      lace scenario test my-scenario.toml
    """
    failed = 0
    for name in names or tuple(library()):
        built = _load(name)
        if built is None:
            failed += 1
            continue
        done = run_scenario(built)
        _report(name, done)
        failed += not done.ok
    return Exit.BAD_INPUT if failed else Exit.OK


def _load(name: str) -> Built | None:
    """Return the scenario, or print everything that is wrong with it."""
    try:
        return find_scenario(name)
    except ScenarioError as error:
        lines = scenario_text(name)[1].split("\n")
        for problem in error.diagnostics:
            line = lines[problem.line - 1] if problem.line <= len(lines) else ""
            place = f"{name}:{problem.line}:{problem.column}"
            echo(f"{place}: error: {redact(problem.message)} [{problem.code}]", err=True)
            echo(f"{problem.line:>5} | {redact(line)}", err=True)
            echo(f"        {redact(problem.hint)}\n", err=True)
        return None


def _report(name: str, done: Run) -> None:
    good = sum(check.ok for check in done.checks)
    whole = len(done.checks)
    if not sys.stdout.isatty():
        failures = [
            {"code": str(Code.SCENARIO_FAILED), "detail": check.detail, "expect": check.text,
             "line": check.line}
            for check in done.checks if not check.ok
        ]  # fmt: skip
        print_json({"checks": whole, "failures": failures, "name": name, "ok": done.ok})
        return
    echo(f"{'✓' if done.ok else '✗'} {name}: {good} of {whole} expectations hold")
    for step in done.steps:
        for check in step.checks:
            if not check.ok:
                where = f"step {step.number + 1}, line {check.line}"
                echo(f"    ✗ {where}: {check.text}\n      found: {check.detail}")


def _print(step: StepRun, built: Built) -> None:
    """Print a step for programs."""
    print_json(
        {
            "checks": [{"detail": c.detail, "expect": c.text, "ok": c.ok} for c in step.checks],
            "held": {peer: sorted(map(built.id_of, hashes)) for peer, hashes in step.held.items()},
            "outcome": step.meeting.outcome if step.meeting else None,
            "say": step.say,
            "step": step.number + 1,
            "travelled": _travelled(step.meeting, built) if step.meeting else [],
        }
    )


def _tell(step: StepRun, built: Built) -> None:
    """Print a step for people."""
    click.secho(f"\n{step.number + 1}", bold=True, nl=False)
    echo(f". {step.say}")
    if step.meeting is not None:
        for one in _travelled(step.meeting, built):
            word = f"rejected: {one['rejected']}" if one["rejected"] else "stored"
            echo(f"     loop {one['loop']}  {one['from']} → {one['to']}  {one['record']}  {word}")
        count = len(step.meeting.deliveries)
        echo(f"     {step.meeting.outcome} after {count} messages")
    for check in step.checks:
        click.secho("   ✓" if check.ok else "   ✗", fg="green" if check.ok else "red", nl=False)
        found = "" if check.ok else f"  (found: {check.detail})"
        echo(f" {check.text}{found}")


def _travelled(meeting: Meeting, built: Built) -> list[dict[str, str | int | None]]:
    """Return the records that crossed, in order, with what became of them."""
    found: list[dict[str, str | int | None]] = []
    for delivery in meeting.deliveries:
        for event in delivery.events:
            if isinstance(event, m.RecordSaved | m.RecordRejected):
                code = str(event.code) if isinstance(event, m.RecordRejected) else None
                found.append(
                    {
                        "from": meeting.pair[1 - delivery.to],
                        "loop": delivery.loop,
                        "record": built.id_of(event.hash),
                        "rejected": code,
                        "to": meeting.pair[delivery.to],
                    }
                )
    return found
