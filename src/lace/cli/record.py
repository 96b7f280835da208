"""``lace record``: make, seal, show and verify records."""

from __future__ import annotations

from collections.abc import Iterator

import click

from lace.cli.arguments import key_option, read_signing_key, read_time, typed
from lace.cli.exitcodes import Exit
from lace.cli.files import name_and_value, read_frames, read_limited, write_output
from lace.cli.names import named
from lace.cli.output import echo
from lace.cli.render import chosen_form, form_option, print_csv, print_json, table
from lace.clock import tai_now
from lace.dates import local_date
from lace.errors import Code, RecordError, UsageError
from lace.limits import DEFAULT_LIMITS
from lace.projection import entry_of
from lace.record import (
    BrokenFrame,
    Frame,
    Inspection,
    Plex,
    Record,
    build_plex,
    fields,
    inspect_record,
    seal,
    validate_record,
)
from lace.urc import Coordinate, parse_urc

_SHOWN_DATA = 400

output_option = click.option(
    "-o", "--output", default="-", show_default="standard output", help="Where to write the record."
)
force_option = click.option("--force", is_flag=True, help="Replace an existing output file.")


@click.group()
def record() -> None:
    """Make, seal, show and verify records.

    \b
    Example:
      lace record make //notes-demo//notes/message//msg/1 --text Hello --key me.key -o note.records
      lace record show note.records
      lace record verify note.records
    """


@record.command()
@click.argument("coordinate")
@click.option("--text", "text_data", help="The data, as UTF-8 text.")
@click.option(
    "--data", "data_file", metavar="FILE", help="The data, from FILE (- is standard input)."
)
@click.option(
    "--field",
    "-f",
    "extras",
    multiple=True,
    metavar="NAME=VALUE",
    help="An extra header; repeatable.",
)
@click.option(
    "--tai",
    "instant",
    metavar="TIME",
    help="The record's time: 2026-01-31, 12h, 7d, or TAI.  [default: now]",
)
@key_option("Sign with this key.")
@output_option
@force_option
def make(
    coordinate: str,
    text_data: str | None,
    data_file: str | None,
    extras: tuple[str, ...],
    instant: str | None,
    key_text: str | None,
    output: str,
    force: bool,
) -> None:
    """Make a record at COORDINATE (//group//app//name); with --key, a signed one.

    \b
    Example:
      lace record make //notes-demo//notes/message//msg/1 -f Title=Hello --text "Hi" -o note.records
    """
    if text_data is not None and data_file is not None:
        raise click.UsageError("give --text or --data, not both")
    place = parse_urc(coordinate)
    if not isinstance(place, Coordinate) or place.selector is not None:
        raise UsageError(
            f"{coordinate} is not an exact place",
            code=Code.URC_FORM,
            hint="Write //group//app//name.",
        )
    data = (text_data or "").encode("utf-8", "surrogateescape")  # any bytes a shell can pass
    if data_file is not None:
        data = read_limited(data_file, DEFAULT_LIMITS.blob_bytes)
    with typed():
        plex = build_plex(
            group=place.group,
            app=place.app,
            name=place.name,
            tai=tai_now() if instant is None else read_time(instant, "--tai"),
            extras=map(name_and_value, extras),
            data=data,
        )
    _write(seal(plex, read_signing_key(key_text)) if key_text else plex, output, force)


@record.command("seal")
@click.argument("file")
@key_option("Sign with this key.", required=True)
@output_option
@force_option
def seal_command(file: str, key_text: str, output: str, force: bool) -> None:
    """Sign the one Plex in FILE.

    \b
    Example:
      lace record seal draft.records --key me.key -o note.records
    """
    records = [validate_record(frame.raw).unwrap() for frame in _whole_frames(file)]
    if len(records) != 1 or not isinstance(records[0], Plex):
        found = ", ".join(r.type for r in records[:5]) or "nothing"
        raise UsageError(
            f"{file}: expected one Plex, found {found}",
            code=Code.RECORD_TYPE,
            hint="Make an unsigned record first: lace record make, without --key.",
        )
    _write(seal(records[0], read_signing_key(key_text)), output, force)


@record.command()
@click.argument("file")
@form_option
def show(file: str, form: str | None) -> int:
    """Show the records in FILE as tables; as JSON lines when piped.

    \b
    Example:
      lace record show note.records
    """
    rejected = False
    for frame in read_frames(file):
        if isinstance(frame, Frame):
            outcome = validate_record(frame.raw)
            if outcome.value is not None:
                show_record(outcome.value, form)
                continue
            code, detail = outcome.code, outcome.detail
        else:
            code, detail = frame.code, frame.detail
        rejected = True
        echo(f"{file}, byte {frame.offset}: not a valid record: {detail} [{code}]", err=True)
    return Exit.SOME_REJECTED if rejected else Exit.OK


@record.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--all", "everything", is_flag=True, help="Show every check, not only failed ones.")
def verify(files: tuple[str, ...], everything: bool) -> int:
    """Check every record in each FILE against every rule; say what was expected and what was found.

    \b
    Example:
      lace record verify note.records
      lace record verify --all note.records
    """
    good = bad = 0
    for file in files:
        for frame in read_frames(file):
            if isinstance(frame, BrokenFrame):
                bad += 1
                echo(f"✗ {file} byte {frame.offset}: {frame.detail} [{frame.code}]")
                echo("  no later record can be found in this file")
                continue
            inspection = inspect_record(frame.raw)
            good, bad = (good + 1, bad) if inspection.fault is None else (good, bad + 1)
            for line in _verdict(file, frame, inspection, everything=everything):
                echo(line)
    echo(f"{good} valid, {bad} not")
    return Exit.SOME_REJECTED if bad else Exit.OK


def _verdict(file: str, frame: Frame, inspection: Inspection, *, everything: bool) -> Iterator[str]:
    place = f"{file} byte {frame.offset}"
    fault = inspection.fault
    if fault is None:
        yield f"✓ {place}: {inspection.checks[0].detail}"
    else:
        yield f"✗ {place}: {fault.code.meaning if fault.code else ''} [{fault.code}]"
    for check in inspection.checks:
        if check.ok and not everything:
            continue
        yield f"    {'✓' if check.ok else '✗'} {check.rule}"
        if check.ok or not (check.expected and check.got):
            yield f"        {check.detail}"
        else:
            yield f"        expected {check.expected}"
            yield f"        got      {check.got}"
    if fault is not None and fault.code is not None:
        yield f"    {fault.code.fix}"


def show_record(shown: Record, form: str | None, *, requested: str | None = None) -> None:
    """Print a record in the form that was chosen; JSON says what was asked for (110-EVT-06)."""
    wanted = chosen_form(form)
    if wanted == "json":
        print_json(entry_of(shown) | ({} if requested is None else {"requested": requested}))
        return
    rows = [
        (name if index == 0 else f"{name} ({index})", value) for name, index, value in fields(shown)
    ]
    if wanted == "csv":
        print_csv(("Field", "Value"), [("Hash", shown.hash), *rows])
        return
    if shown.author is not None and named(shown.author) != shown.author:
        rows.append(("author", named(shown.author)))
    if shown.time is not None:
        rows.append(("date", local_date(shown.time)))
    data = shown.data[:_SHOWN_DATA]
    try:
        preview = data.decode()
    except UnicodeDecodeError:
        preview = data[:64].hex(" ")
    if len(shown.data) > len(data):
        preview += " …"
    table(shown.hash, ("Field", "Value"), [*rows, ("data", preview)])
    echo()


def _whole_frames(file: str) -> Iterator[Frame]:
    for frame in read_frames(file):
        if isinstance(frame, BrokenFrame):
            raise RecordError(f"{file}, byte {frame.offset}: {frame.detail}", code=frame.code)
        yield frame


def _write(made: Record, output: str, force: bool) -> None:
    write_output(output, made.raw, overwrite=force)
    echo(made.hash, err=output == "-")
