"""``lace add``: make a record, seal it, store it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import click

from lace import blocking
from lace.api.handles import Lace, store_of
from lace.api.handles import open as open_lace
from lace.api.importing import Imported, Importer
from lace.api.reasons import explain
from lace.cli.arguments import key_option, lace_option, read_time, read_verifier, typed
from lace.cli.exitcodes import Exit
from lace.cli.files import name_and_value, open_input, read_limited
from lace.cli.output import echo
from lace.cli.place import Place, find
from lace.cli.progress import ProgressLine
from lace.cli.transfer import PutAside, counted, reading, tell_reasons, tell_signed_anew
from lace.clock import tai_now
from lace.errors import Code, Status, UsageError
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import PolicyModule
from lace.record import Record, build_plex, seal
from lace.rooms import ENDED_FIELD, MEMBER_FIELD, NEXT_FIELD, ROLE_FIELD
from lace.tai import NS_PER_SECOND, difference_ns
from lace.urc import Coordinate, parse_urc

_FUTURE_NS: Final = 60 * NS_PER_SECOND  # clocks differ by less


@click.command()
@click.argument("coordinate", required=False)
@click.option("--text", "text_data", help="The data, as UTF-8 text.")
@click.option("--file", "data_file", metavar="FILE", help="The data, from FILE (- is stdin).")
@click.option(
    "--field", "-f", "extras", multiple=True, metavar="NAME=VALUE",
    help="An extra header; repeatable.",
)  # fmt: skip
@click.option(
    "--tai", "instant", metavar="TIME",
    help="The record's time: 2026-01-31, 12h, 7d, or TAI.  [default: now]",
)  # fmt: skip
@click.option(
    "--batch", metavar="FILE", help="Make many: one JSON object a line, from FILE (- is stdin)."
)
@click.option("--unsigned", is_flag=True, help="Do not sign, though there is a key.")
@key_option()
@lace_option
def add(
    coordinate: str | None,
    text_data: str | None,
    data_file: str | None,
    extras: tuple[str, ...],
    instant: str | None,
    batch: str | None,
    unsigned: bool,
    key_text: str | None,
    where: str | None,
) -> int:
    """Make a record at COORDINATE (//group//app//name), sign it, store it, and print its hash.

    To edit is to add another record at the same place. Nothing is ever changed, and nothing leaves
    this lace before you interlace. In grants and revocations of a room, -f Member=NAME takes a name
    of the keyring or a contact, and stores its verifier.

    With --batch each line is an object with "place", and if it likes "fields", "data" or
    "data_b64", and "tai". What your newest record at a place says already is not stored again, and
    what is refused is put aside, with exit code 3.

    \b
    Example:
      lace add //notes-demo//notes/message//msg/1 -f Title=Hello --text "My first note."
      lace add //u//docs//index.html --file index.html --unsigned
      echo '{"place": "//u//docs//a", "data": "A", "fields": {"Title": "a"}}' | lace add --batch -
    """
    if unsigned and key_text is not None:
        raise click.UsageError("give --key or --unsigned, not both")
    if batch is not None:
        if coordinate or extras or instant or text_data is not None or data_file is not None:
            raise click.UsageError("--batch says everything: give no COORDINATE and no content")
        return _add_batch(find(where), batch, key_text, unsigned)
    if coordinate is None:
        raise click.UsageError("give a COORDINATE, //group//app//name, or --batch FILE")
    if text_data is not None and data_file is not None:
        raise click.UsageError("give --text or --file, not both")
    if text_data is None and data_file is None and not extras:
        raise click.UsageError(
            "there is nothing to store: give --text, --file or --field (--text '' means empty)"
        )
    settings = find(where)
    place = exact_place(coordinate)
    data = (text_data or "").encode("utf-8", "surrogateescape")  # any bytes a shell can pass
    if data_file is not None:
        data = read_limited(data_file, DEFAULT_LIMITS.blob_bytes)
    key = None if unsigned else settings.signing_key(key_text)
    if key is None and not unsigned:
        raise UsageError(
            "there is no key to sign with",
            code=Code.KEY_UNKNOWN,
            hint="Give --key NAME, write key in lace.toml, or say --unsigned.",
        )
    with typed():
        plex = build_plex(
            group=place.group,
            app=place.app,
            name=place.name,
            tai=tai_now() if instant is None else read_time(instant, "--tai"),
            extras=_by_verifier(settings, place, map(name_and_value, extras)),
            data=data,
        )
    made = plex if key is None else seal(plex, key)
    with settings.open() as local:
        (outcome,) = blocking.store(local, [made])
        if outcome.status is Status.DUPLICATE:
            echo("it was here already", err=True)
        if settings.settings.select is not None:
            _warn_of_what_is_left_out(local, made, settings.module(None))
    if difference_ns(plex.tai, tai_now()) > _FUTURE_NS:
        echo("its time is in the future: until then it stays the newest there", err=True)
    echo(made.hash)
    return Exit.OK


def _add_batch(settings: Place, file: str, key_text: str | None, unsigned: bool) -> int:
    """Make the records that the lines of a file ask for."""
    key = None if unsigned else settings.signing_key(key_text)
    with (
        settings.open() as local,
        PutAside() as aside,
        open_input(file) as source,
        ProgressLine("read") as line,
    ):
        aside.begin(file)
        work = Importer(store_of(local), None, "jsonl", key, unsigned, aside.take)
        work.change_fields = lambda place, pairs: list(_by_verifier(settings, place, pairs))
        tell = reading(line, source)
        count = Imported()
        for count in work.steps(source):
            tell(count)
    tell_reasons(file, count)
    echo(counted(count), err=True)
    tell_signed_anew(count)
    return Exit.SOME_REJECTED if count.refused else Exit.OK


def _warn_of_what_is_left_out(local: Lace, made: Record, module: PolicyModule) -> None:
    """Say so if the selector does not select what was just stored."""
    with open_lace(records=[made]) as alone:  # most selectors look at one record only
        if explain(alone, made.hash, module).allowed:
            return
    if not explain(local, made.hash, module).allowed:
        echo(f"your selector does not select it; lace why-not {made.hash}", err=True)


def _by_verifier(
    settings: Place, place: Coordinate, pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield extra headers; in a grant, the member by verifier, whatever it was called."""
    names_members = settings.settings.grants_at(place)
    given = list(pairs)
    if names_members and not {name for name, _ in given} & {ROLE_FIELD, ENDED_FIELD, NEXT_FIELD}:
        # The rules would pass over it, and nobody would be told.
        raise UsageError(
            f"a grant says {ROLE_FIELD}, the end of one says {ENDED_FIELD}",
            code=Code.POLICY_ROOM,
            hint="lace room admit and lace room remove make them.",
        )
    for name, value in given:
        is_member = names_members and name == MEMBER_FIELD
        yield name, read_verifier(value, MEMBER_FIELD) if is_member else value


def exact_place(text: str) -> Coordinate:
    """Return a coordinate that a record can be made at, or raise."""
    place = parse_urc(text)
    if not isinstance(place, Coordinate) or place.selector is not None:
        raise UsageError(
            f"{text} is not an exact place", code=Code.URC_FORM, hint="Write //group//app//name."
        )
    return place
