"""``lace plumb advert``: advertisements and their summaries. The output is a contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from lace import b64a
from lace.cli.exitcodes import Exit
from lace.cli.files import read_frames
from lace.cli.output import echo, write_text
from lace.cli.render import print_json, print_line
from lace.interlace.advertise import Advertisement, advertise
from lace.interlace.partition import Partitions
from lace.policy.origin import SourceLabel
from lace.record import BrokenFrame, fields, validate_record
from lace.text import fact_line, line_fault


def _options(command: Callable[..., int]) -> Callable[..., int]:
    for option in (
        click.option("--all-fields", is_flag=True, help="Advertise every field."),
        click.option("--fields", "names", metavar="A,B", help="Advertise these fields."),
        click.option("--source", required=True, metavar="LABEL", help="Who advertises."),
        click.option("--records", "file", required=True, metavar="FILE", help="The records."),
    ):
        command = option(command)
    return command


@click.group("advert")
def advert_group() -> None:
    """Print advertisements of records, their digests, and partition summaries.

    \b
    Example:
      lace plumb advert list --records bundle.records --source V.x --fields Group,App
    """


@advert_group.command("list")
@_options
def list_command(**options: Any) -> int:
    """Print canonical advertisements, sorted by hash.

    \b
    Example:
      lace plumb advert list --records bundle.records --source V.x --fields Group,App
    """
    adverts, code = _adverts(**options)
    for advert in adverts:
        write_text(advert.canonical())
    return code


@advert_group.command()
@_options
def digests(**options: Any) -> int:
    """Print the digest of each advertisement, sorted by hash.

    \b
    Example:
      lace plumb advert digests --records bundle.records --source V.x --all-fields
    """
    adverts, code = _adverts(**options)
    for advert in adverts:
        print_json({"digest": b64a.encode(advert.digest()), "hash": advert.record})
    return code


@advert_group.command()
@click.option(
    "--prefix-length", type=click.IntRange(0, 43), required=True, help="How long prefixes are."
)
@_options
def partitions(prefix_length: int, **options: Any) -> int:
    """Print the summaries of the non-empty partitions, sorted.

    \b
    Example:
      lace plumb advert partitions --prefix-length 2 --records r.records --source V.x --all-fields
    """
    adverts, code = _adverts(**options)
    made = Partitions.of({advert.record: advert.digest() for advert in adverts})
    for summary in made.summaries(prefix_length):
        name, *values = summary.fact()
        print_line(fact_line(name, values))
    return code


def _adverts(
    *, file: str, source: str, names: str | None, all_fields: bool
) -> tuple[list[Advertisement], int]:
    if line_fault(source) is not None:
        raise click.UsageError("--source takes one line of text")
    if (names is None) == (not all_fields):
        raise click.UsageError("give --fields or --all-fields")
    schema = None if names is None else frozenset(filter(None, names.split(",")))
    found: dict[str, Advertisement] = {}
    rejected = False
    for frame in read_frames(file):
        outcome = None if isinstance(frame, BrokenFrame) else validate_record(frame.raw)
        if outcome is None or outcome.value is None:
            rejected = True
            echo(f"{file}, byte {frame.offset}: not a valid record", err=True)
            continue
        record = outcome.value
        found[record.hash] = advertise(record.hash, SourceLabel(source), fields(record), schema)
    ordered = [found[hash] for hash in sorted(found)]
    return ordered, Exit.SOME_REJECTED if rejected else Exit.OK
