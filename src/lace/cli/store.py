"""``lace store``: look after a record store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from lace.answering.checking import link_faults
from lace.cli.arguments import lace_option
from lace.cli.exitcodes import Exit
from lace.cli.output import echo
from lace.cli.place import find
from lace.cli.progress import ProgressLine
from lace.cli.render import (
    chosen_form,
    fitted_table,
    form_option,
    print_csv,
    print_entries,
    print_json,
    print_summary,
)
from lace.cli.shape import hash_among, short_hashes
from lace.errors import Code, StoreError, UsageError
from lace.ids import RECORD_TYPES, RecordHash
from lace.policy.own import evaluate_own
from lace.recordstore.sqlite import SqliteStore
from lace.settings import read_selector
from lace.text import shown
from lace.vocabulary import SELECT_HAVE

_HASHES: Final = tuple(f"{letter}." for letter in RECORD_TYPES)  # how one begins


def _meant(file: str | None, where: str | None) -> Path:
    """Return the store that is meant: of LACE, else of --lace, else of the lace you are in."""
    source = click.get_current_context().get_parameter_source("where")
    if file is not None and source is ParameterSource.COMMANDLINE:
        raise click.UsageError("the lace is named twice: give LACE or --lace")
    given = where if file is None else file
    return find(given).settings.store


_lace_argument = click.argument("file", metavar="[LACE]", required=False, type=click.Path())


@click.group()
def store() -> None:
    """Look after a record store: what is in it, whether it is sound, what to forget.

    \b
    Example:
      lace store info
      lace store check notes.lace
    """


@store.command()
@_lace_argument
@form_option
@lace_option
def info(file: str | None, form: str | None, where: str | None) -> None:
    """Print how many records LACE (its folder, or a store file) holds, and which schema it has.

    Without LACE it is that of --lace, else the one you are in.

    \b
    Example:
      lace store info
      lace store info notes.lace
    """
    path = _meant(file, where)
    with SqliteStore(path, read_only=True) as opened:
        made = {
            "forgotten": len(opened.all_kept_out()),
            "newest id": opened.high_water(),
            "quarantined": len(opened.quarantined()),
            "records": opened.count(),
            "schema": opened.schema,
        }
    wanted = chosen_form(form)
    if wanted == "json":
        print_json({name.replace(" ", "_"): value for name, value in made.items()})
    elif wanted == "csv":
        print_csv(("What", "Value"), [(name, str(value)) for name, value in made.items()])
    else:
        for name, value in made.items():
            echo(f"{name:12} {value}")


@store.command()
@_lace_argument
@form_option
@lace_option
def check(file: str | None, form: str | None, where: str | None) -> int:
    """Check every page, every record and every fact in LACE; print what is wrong.

    What is kept of links between exchanges is checked too. If anything is wrong, all of that is
    let go: the next exchanges find out anew what each side has, and may bring back what is lost.

    In a pipe each problem is a JSON object. The last object says how many records were checked, how
    many problems there are, and of how many links anything was let go.

    Without LACE it is that of --lace, else the one you are in.

    \b
    Example:
      lace store check
      lace store check notes.lace
    """
    problems = let_go = 0
    path = _meant(file, where)
    with (
        SqliteStore(path, read_only=True) as opened,
        ProgressLine("records checked") as line,
    ):
        count = opened.count()

        def found() -> Iterator[str]:
            nonlocal problems
            told = opened.check(lambda number: line.tell(number, number / count))
            for problem in chain(told, link_faults(opened)):
                problems += 1
                yield problem

        if chosen_form(form) == "table":
            for problem in found():
                echo(problem)
        else:
            print_entries(form, ("problem",), ({"problem": problem} for problem in found()))
        if problems and opened.links():
            let_go = _let_go_of_links(path)
        if chosen_form(form) == "json":
            print_json({"checked": opened.count(), "links_let_go": let_go, "problems": problems})
        echo(f"{opened.count()} records checked, {problems} problems", err=True)
    return Exit.SOME_REJECTED if problems else Exit.OK


def _let_go_of_links(path: Path) -> int:
    """Keep nothing of links any more, and say so; return of how many links that was."""
    try:
        with SqliteStore(path, create=False) as opened:
            count = opened.drop_links()
    except StoreError as error:
        echo(f"what is kept of links stays: {error}", err=True)
        return 0
    echo(f"what was kept of {count} links is let go: exchange again", err=True)
    return count


@store.command()
@click.argument("words", nargs=-1, metavar="[LACE] SELECTOR", required=True)
@click.option("--yes", is_flag=True, help="Really forget; without it, only say what would go.")
@click.option(
    "--may-return", is_flag=True, help="Keep nothing of them: whoever has them may send them again."
)
@form_option
@lace_option
def forget(
    words: tuple[str, ...], yes: bool, may_return: bool, form: str | None, where: str | None
) -> None:
    """Remove the records that SELECTOR selects from LACE, and from nowhere else.

    Without LACE it is that of --lace, else the one you are in. The hashes of the records are kept,
    and nothing else of them: neither an exchange nor a file of records brings them back, until
    lace store remember lets them.

    \b
    Example:
      lace store forget //notes-demo//notes/draft//
      lace store forget //notes-demo//notes/draft// --yes
      lace store forget notes.lace //notes-demo//notes/draft// --yes
    """
    if len(words) > 2:
        raise click.UsageError("give one SELECTOR, and at most one LACE before it")
    file = words[0] if len(words) == 2 else None
    module = read_selector(words[-1])
    with SqliteStore(_meant(file, where), read_only=not yes, create=False) as opened:
        with opened.snapshot() as snapshot:
            found = evaluate_own(module.program, snapshot, outputs=[SELECT_HAVE])
            rows = found.rows(SELECT_HAVE)
        hashes = [RecordHash(row[0]) for row in rows]
        gone = opened.forget(hashes, for_good=not may_return) if yes else len(rows)
        left = opened.count() if yes else opened.count() - gone
    would = f"{gone} of {gone + left} records would be forgotten; add --yes"
    done = f"{gone} record{'' if gone == 1 else 's'} forgotten, {left} left"
    said = (done if yes else would,)
    print_summary(form, {"forgotten": yes, "left": left, "records": gone}, said)


@store.command()
@_lace_argument
@form_option
@lace_option
def forgotten(file: str | None, form: str | None, where: str | None) -> None:
    """Print the hashes of what LACE has forgotten for good, sorted.

    Without LACE it is that of --lace, else the one you are in. In a table they are short: as much
    of one as is shown will do for lace store remember.

    \b
    Example:
      lace store forgotten
      lace store forgotten notes.lace
    """
    with SqliteStore(_meant(file, where), read_only=True) as opened:
        hashes = opened.all_kept_out()
    if chosen_form(form) != "table":
        print_entries(form, ("hash",), ({"hash": hash} for hash in hashes))
    elif hashes:
        short = short_hashes(hashes)
        fitted_table(("Hash",), [(short[hash],) for hash in hashes], whole=("Hash",))


@store.command()
@click.argument("words", nargs=-1, metavar="[LACE] [HASH]...")
@click.option("--all", "everything", is_flag=True, help="All that was forgotten for good.")
@form_option
@lace_option
def remember(words: tuple[str, ...], everything: bool, form: str | None, where: str | None) -> int:
    """Let records come back to LACE that it has forgotten for good; nothing is fetched.

    Without LACE it is that of --lace, else the one you are in. A HASH may be its beginning. A peer
    that has the records sends them with the next exchange, if your selector asks for them.

    \b
    Example:
      lace store remember S.hash
      lace store remember notes.lace --all
    """
    has_lace = bool(words) and not words[0].startswith(_HASHES)
    file, hashes = (words[0], words[1:]) if has_lace else (None, words)
    if bool(hashes) == everything:
        raise click.UsageError("give hashes, or --all")
    with SqliteStore(_meant(file, where), create=False) as opened:
        held = opened.all_kept_out()
        chosen = held if everything else [_forgotten_hash(held, hash) for hash in hashes]
        back = opened.remember(chosen)
        left = len(opened.all_kept_out())
    said = (f"{back} may come back, {left} are still forgotten",)
    print_summary(form, {"forgotten": left, "remembered": back}, said)
    return Exit.OK if back == len(set(chosen)) else Exit.NOT_FOUND


def _forgotten_hash(held: list[RecordHash], text: str) -> RecordHash:
    hint = "lace store forgotten lists those that may come back."
    found = hash_among(held, text, "nothing that was forgotten here", hint)
    if found is None:
        raise UsageError(f"{shown(text)} is no hash", code=Code.ID_MALFORMED, hint=hint)
    return RecordHash(found)
