"""``lace scenario``: stories of two or more laces that meet, told and held to their word."""

from __future__ import annotations

import textwrap
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

import click

from lace.cli.arguments import complete_scenarios
from lace.cli.exitcodes import Exit
from lace.cli.files import write_output
from lace.cli.output import echo
from lace.cli.render import (
    chosen_form,
    fitted_table,
    form_option,
    print_csv,
    print_json,
    words_option,
)
from lace.errors import Code, UsageError
from lace.interlace import messages as m
from lace.scenario.build import Built
from lace.scenario.library import find_scenario, library, scenario_text
from lace.scenario.model import ScenarioError
from lace.scenario.run import Meeting, Run, StepRun, run_scenario
from lace.text import redact, safe

if TYPE_CHECKING:
    from lace.workbench.drawing import Theme

_SUFFIXES: Final = (".svg", ".png", ".apng")


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
@words_option
def run(name: str, form: str | None) -> int:
    """Tell what happens in a scenario, step by step, and check what it expects.

    \b
    Example:
      lace scenario run notes-room
    """
    built = _load(name)
    if built is None:
        return Exit.BAD_INPUT
    talk = chosen_form(form) == "table"
    if talk:
        click.secho(safe(built.scenario.title), bold=True)
        echo(textwrap.fill(" ".join(built.scenario.story.split()), 96))
    done = run_scenario(built, lambda step: _tell(step, built) if talk else _print(step, built))
    return Exit.OK if done.ok else Exit.BAD_INPUT


@scenario.command()
@click.argument("names", nargs=-1, metavar="[NAME|FILE]...", shell_complete=complete_scenarios)
@words_option
def test(names: tuple[str, ...], form: str | None) -> int:
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
        _report(name, done, chosen_form(form))
        failed += not done.ok
    return Exit.BAD_INPUT if failed else Exit.OK


@scenario.command()
@click.argument("name", metavar="NAME|FILE", shell_complete=complete_scenarios)
@click.option(
    "-o", "--output", required=True, metavar="FILE",
    help="Where to write it: .svg, .png, or .apng, which moves.",
)  # fmt: skip
@click.option("--scene", type=click.IntRange(1), help="Which one; the first in which two meet.")
@click.option("--moving", is_flag=True, help="Show both laces, and what flies between them.")
@click.option(
    "--theme", type=click.Choice(["light", "dark"]),
    help="The colours; an SVG follows the reader's unless they are chosen, a PNG is light.",
)  # fmt: skip
@click.option(
    "--scale", type=click.IntRange(1, 4), default=1, show_default=True,
    help="Of a PNG: how many times larger it is.",
)  # fmt: skip
@click.option(
    "--font", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Of a PNG: the letters to use; the ones that come with it are Latin.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def picture(
    name: str, output: str, scene: int | None, moving: bool, theme: Theme | None, scale: int,
    font: Path | None, force: bool,
) -> int:  # fmt: skip
    """Draw an exchange of a scenario: every message, or two laces that converge.

    An SVG needs nothing more. A PNG needs the extra "picture". Without motion, and for those who
    asked their system for none, an SVG that moves shows how it ends.

    \b
    Example:
      lace scenario picture notes-room -o notes-room.svg
      lace scenario picture notes-room --moving -o notes-room.apng
    """
    suffix = PurePath(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"{output} does not say what kind of picture it is", code=Code.INPUT_FILE,
            hint=f"End its name with one of {', '.join(_SUFFIXES)}.",
        )  # fmt: skip
    built = _load(name)
    if built is None:
        return Exit.BAD_INPUT
    from lace.workbench.drawing import Frame, as_moving_svg, as_svg  # not needed just to start
    from lace.workbench.picture import moving as moving_picture
    from lace.workbench.picture import scene_of, still
    from lace.workbench.recording import record_run

    chosen = scene_of(record_run(built), scene)
    moving = moving or suffix == ".apng"
    frames = moving_picture(chosen) if moving else [Frame(still(chosen), 0)]
    if suffix != ".svg":
        from lace.workbench.raster import as_png

        content = as_png(frames, theme or "light", scale, font)
    elif moving:
        content = as_moving_svg(frames, theme).encode()
    else:
        content = as_svg(frames[0].picture, theme).encode()
    write_output(output, content, overwrite=force)
    many = f"{sum(f.milliseconds for f in frames) / 1000:.0f} s" if moving else "still"
    echo(f"{output}: {many}, {len(content):,} bytes", err=True)
    return Exit.OK


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


def _report(name: str, done: Run, form: str) -> None:
    good = sum(check.ok for check in done.checks)
    whole = len(done.checks)
    if form == "json":
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
