"""``lace plumb peer``, ``hostile``, ``matrix``: try another implementation. A contract, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import read_lines
from lace.cli.output import echo, write_text
from lace.cli.render import print_json
from lace.errors import Code, TransportError, UsageError
from lace.limits import FIXED
from lace.text import decode_utf8
from lace.transport.address import Address, parse_address

if TYPE_CHECKING:  # else each command would load all of it
    from lace.kit.cases import Case
    from lace.kit.courses import Course
    from lace.transport.base import ByteStream

_UNTIL_IT_LISTENS = 0.2
_TRIES = 50

_patience = click.option(
    "--patience",
    type=click.IntRange(1, FIXED.kit_seconds),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long the other side may say nothing.",
)
_listen = click.option(
    "--listen", is_flag=True, help="Listen at ADDRESS, and let the other side connect."
)


# --- peer ---


@click.command("peer")
@click.argument("address", required=False)
@click.option("--seed", type=click.IntRange(0, 2**63), help="Play the random case of this seed.")
@click.option(
    "--vectors", type=click.Path(path_type=Path), metavar="FILE", help="Play a case of this file."
)
@click.option("--case", "number", type=click.IntRange(0), help="Which case of FILE, from 0.")
@click.option("--course", metavar="NAME", help="Play a course: an exchange in which more happens.")
@click.option("--list", "listed", is_flag=True, help="List the courses, or the cases of FILE.")
@click.option(
    "--prepare",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Write what the other side starts with into FOLDER, and end.",
)
@click.option(
    "--contacts",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    help="How often to meet; from the second time on there must be nothing new.",
)
@_listen
@_patience
def peer(
    address: str | None,
    seed: int | None,
    vectors: Path | None,
    number: int | None,
    course: str | None,
    listed: bool,
    prepare: Path | None,
    contacts: int,
    listen: bool,
    patience: int,
) -> int:
    """Meet the implementation at ADDRESS as a scripted peer; print what differed, as JSON lines.

    A case has two sides, with selectors and records. The other side has to have what --prepare
    writes for it, and shows its peer's rules what its own selector selects; this command plays the
    first side of the case if it listens, else the second. Each line says what was looked at
    (check) and whether it was right (ok). Exit code 1 says that something was not.

    A course goes on after the first fixed point: records come later, selectors change, time
    passes, or several contacts begin from memory. The other side has to let anyone write, and to
    stay for as long as the kit does. In the course change it also has to go on with another
    selector whenever a line on standard error says so (now: changed.lacegram); give it time by
    --patience if that is done by hand.

    \b
    Example:
      lace plumb peer --seed 7 --prepare case
      lace plumb peer tcp:127.0.0.1:4790 --seed 7
      lace plumb peer --course open --prepare case
      lace plumb peer tcp:127.0.0.1:4790 --course open
    """
    if listed:
        _list(vectors)
        return Exit.OK
    mine = 0 if listen else 1
    played = None if course is None else _course(course)
    if played is None:
        case = _case(seed, vectors, number)
    elif seed is not None or vectors is not None:
        raise click.UsageError("give one of --seed, --vectors and --course")
    else:
        case = played.case(mine)
    if prepare is not None:
        from lace.kit.cases import prepare as write

        write(case, 1 - mine, prepare)
        return Exit.OK
    if address is None:
        raise UsageError("where is the other side? give an ADDRESS", code=Code.ADDRESS_MALFORMED)
    place = parse_address(address)
    if played is not None:
        return asyncio.run(_play_course(played, mine, place, patience))
    return asyncio.run(_play(case, mine, place, contacts, patience))


def _list(vectors: Path | None) -> None:
    from lace.kit.courses import COURSES

    if vectors is None:
        for course in COURSES.values():
            print_json({"about": course.about, "course": course.name})
        return
    for at, found in enumerate(_cases(vectors)):
        sides = [len(part.records) for part in found.parts]
        print_json({"case": at, "name": found.name, "records": sides})


def _course(name: str) -> Course:
    from lace.kit.courses import COURSES

    if name not in COURSES:
        raise click.UsageError(f"{name!r} is no course: there are {', '.join(COURSES)}")
    return COURSES[name]


def _case(seed: int | None, vectors: Path | None, number: int | None) -> Case:
    from lace.kit.cases import seeded

    if (seed is None) == (vectors is None):
        raise click.UsageError("give either --seed or --vectors, or --course")
    if seed is not None:
        return seeded(seed)
    assert vectors is not None
    if number is None:
        raise click.UsageError("--vectors needs --case, or --list")
    cases = _cases(vectors)
    if number >= len(cases):
        raise click.UsageError(f"{vectors.name} has the cases 0 to {len(cases) - 1}")
    return cases[number]


def _cases(vectors: Path) -> list[Case]:
    from lace.kit.cases import read_vectors

    return read_vectors(vectors)


async def _play(case: Case, mine: int, address: Address, contacts: int, patience: int) -> int:
    from lace.kit.playing import Player, verdict

    player = Player(case, mine, patience)
    fine = True
    async with _streams(address, listens=mine == 0) as (streams, dialled):
        for _ in range(contacts):
            findings = await player.meet(await streams(), dialled())
            for finding in findings:
                print_json(finding)
            fine = fine and verdict(findings)
    return Exit.OK if fine else Exit.BAD_INPUT


async def _play_course(course: Course, mine: int, address: Address, patience: int) -> int:
    from lace.kit.courses import play

    fine = True
    async with _streams(address, listens=mine == 0) as (streams, dialled):
        tell = lambda name: echo(f"now: {name}", err=True)  # noqa: E731
        async for finding in play(course, mine, streams, dialled, patience=patience, tell=tell):
            print_json(finding)
            fine = fine and finding["ok"]
    return Exit.OK if fine else Exit.BAD_INPUT


# --- hostile ---


@click.command("hostile")
@click.argument("address", required=False)
@click.option("--select", "select", metavar="PREFIX", help="What the other side exchanges.")
@click.option("--kind", "names", multiple=True, metavar="NAME", help="Only these; may be repeated.")
@click.option("--list", "listed", is_flag=True, help="List all kinds, and end.")
@_listen
@_patience
def hostile(
    address: str | None,
    select: str | None,
    names: tuple[str, ...],
    listed: bool,
    listen: bool,
    patience: int,
) -> int:
    """Misbehave towards the implementation at ADDRESS; print how it answers, as JSON lines.

    Each kind has a connection of its own and is honest up to one place. The other side has to end
    the exchange (ok), and should say why with the usual code (same_code); where expected is empty,
    it has to go on. ok is null where the exchange never came to the place. The last line is an
    honest contact. The other side should serve a PREFIX of the form //group//app// and let anyone
    write there: use one that is made for this. Exit code 1 says that something was not right.

    \b
    Example:
      lace plumb hostile --list
      lace plumb hostile tcp:127.0.0.1:4790 --select //kit//notes//
    """
    from lace.kit.misbehaviours import kinds

    known = kinds()
    if listed:
        for kind in known.values():
            print_json({"expected": list(kind.codes), "kind": kind.name, "needs": kind.needs})
        return Exit.OK
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"{unknown[0]!r} is no kind: --list shows them")
    if address is None or select is None:
        raise click.UsageError("give an ADDRESS and --select PREFIX")
    chosen = tuple(names) or tuple(known)
    return asyncio.run(_attack(parse_address(address), select, chosen, listen, patience))


async def _attack(
    address: Address, select: str, names: tuple[str, ...], listens: bool, patience: int
) -> int:
    from lace.kit.hostile import Attacker
    from lace.kit.misbehaviours import kinds
    from lace.selectors import selector
    from lace.urc import Prefix, parse_urc

    place = parse_urc(select)
    if not isinstance(place, Prefix) or place.name:
        raise click.UsageError("--select needs a prefix of the form //group//app//")
    attacker = Attacker(
        selector(select), place.group, place.app, index=0 if listens else 1, patience=patience
    )
    known = kinds()
    fine = True
    async with _streams(address, listens=listens) as (streams, dialled):
        for name in (*names, None):
            kind = None if name is None else known[name]
            finding = await attacker.meet(await streams(), dialled(), kind)
            print_json(finding)
            fine = fine and finding["ok"] is not False
    return Exit.OK if fine else Exit.BAD_INPUT


# --- matrix ---


@click.command("matrix")
@click.argument("results", nargs=-1, required=True, metavar="NAME=FILE...")
def matrix(results: tuple[str, ...]) -> int:
    """Print what several implementations did as one table, in Markdown.

    Each FILE has lines of lace plumb peer or hostile, of the implementation NAME.

    \b
    Example:
      lace plumb matrix mine=mine.jsonl lace=lace.jsonl
    """
    columns: dict[str, dict[str, str]] = {}
    for entry in results:
        name, equals, file = entry.partition("=")
        if not equals or not name or "|" in name:
            raise click.UsageError(f"{entry!r} is not NAME=FILE")
        columns[name] = _column(file)
    rows = list(dict.fromkeys(row for column in columns.values() for row in column))
    lines = [f"| | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|"]
    for row in rows:
        cells = [column.get(row, "-") for column in columns.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    write_text("".join(f"{line}\n" for line in lines).encode())
    return Exit.OK


def _column(file: str) -> dict[str, str]:
    """Return what a file says of each case and each kind; one wrong line makes a case wrong."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_lines(file), 1):
        try:
            entry = json.loads(decode_utf8(line))
            row = str(entry["kind"] if "kind" in entry else entry["case"]).replace("|", "\\|")
            ok = entry["ok"]
        except (ValueError, KeyError, TypeError, RecursionError):
            message = f"{file}, line {number}: not a line of lace plumb peer or hostile"
            raise UsageError(message, code=Code.INPUT_JSON) from None
        said = _word(entry, ok=ok)
        if found.get(row, "yes") == "yes":
            found[row] = said
    return found


def _word(entry: dict[str, Any], *, ok: object) -> str:
    if ok is None:
        return "not reached"
    if not ok:
        return f"**no** ({entry.get('check', entry.get('detail', ''))})".replace("|", "\\|")
    return "yes" if entry.get("same_code", True) else f"yes, says {entry.get('said') or 'nothing'}"


# --- connections ---

_Next = Callable[[], Any]


@asynccontextmanager
async def _streams(
    address: Address, *, listens: bool
) -> AsyncIterator[tuple[_Next, Callable[[], str]]]:
    """Yield what makes or takes the next connection, and the address that is dialled for it."""
    from lace.transport.dial import connect
    from lace.transport.dial import listen as take

    if not listens:

        async def dial() -> ByteStream:
            for left in reversed(range(_TRIES)):
                try:
                    return await connect(address)
                except TransportError:
                    if not left:
                        raise
                await asyncio.sleep(_UNTIL_IT_LISTENS)
            raise AssertionError

        yield dial, lambda: str(address)
        return
    waiting: asyncio.Queue[ByteStream] = asyncio.Queue()
    ended = asyncio.Event()

    async def keep(stream: ByteStream) -> None:
        await waiting.put(stream)
        await ended.wait()  # whoever takes connections closes them when this returns

    listener = await take(address, keep)
    echo(f"listening at {listener.address}", err=True)
    try:
        yield waiting.get, lambda: listener.address
    finally:
        ended.set()
        await listener.close()
