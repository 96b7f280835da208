"""``lace store``: look after a record store."""

from __future__ import annotations

import click

from lace.cli.exitcodes import Exit
from lace.cli.output import echo
from lace.cli.place import store_file
from lace.cli.progress import ProgressLine
from lace.cli.render import chosen_form, form_option, print_csv, print_json, words_option
from lace.ids import RecordHash
from lace.policy.own import evaluate_own
from lace.recordstore.sqlite import SqliteStore
from lace.recordstore.sqlite_file import schema_version
from lace.settings import read_selector
from lace.vocabulary import SELECT_HAVE


@click.group()
def store() -> None:
    """Look after a record store: what is in it, whether it is sound, what to forget.

    \b
    Example:
      lace store info notes.lace
      lace store check notes.lace
    """


@store.command()
@click.argument("file", metavar="LACE")
@form_option
def info(file: str, form: str | None) -> None:
    """Print how many records LACE (its folder, or a store file) holds, and which schema it has.

    \b
    Example:
      lace store info notes.lace
    """
    path = store_file(file)
    with SqliteStore(path, read_only=True) as opened:
        made = {
            "newest id": opened.high_water(),
            "quarantined": len(opened.quarantined()),
            "records": opened.count(),
            "schema": schema_version(path),
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
@click.argument("file", metavar="LACE")
@words_option
def check(file: str, form: str | None) -> int:
    """Check every page, every record and every fact in LACE; print what is wrong.

    \b
    Example:
      lace store check notes.lace
    """
    problems = 0
    with (
        SqliteStore(store_file(file), read_only=True) as opened,
        ProgressLine("records checked") as line,
    ):
        count = opened.count()
        for problem in opened.check(lambda number: line.tell(number, number / count)):
            problems += 1
            if chosen_form(form) == "json":
                print_json({"problem": problem})
            else:
                echo(problem)
        echo(f"{opened.count()} records checked, {problems} problems", err=True)
    return Exit.SOME_REJECTED if problems else Exit.OK


@store.command()
@click.argument("file", metavar="LACE")
@click.argument("selector_text", metavar="SELECTOR")
@click.option("--yes", is_flag=True, help="Really forget; without it, only say what would go.")
@words_option
def forget(file: str, selector_text: str, yes: bool, form: str | None) -> None:
    """Remove the records that SELECTOR selects from LACE, and from nowhere else.

    A peer that still has them may send them again if your selector asks for them.

    \b
    Example:
      lace store forget notes.lace //notes-demo//notes/draft// --yes
    """
    module = read_selector(selector_text)
    with SqliteStore(store_file(file), read_only=not yes, create=False) as opened:
        with opened.snapshot() as snapshot:
            found = evaluate_own(module.program, snapshot, outputs=[SELECT_HAVE])
            rows = found.rows(SELECT_HAVE)
        gone = opened.forget(RecordHash(row[0]) for row in rows) if yes else len(rows)
        left = opened.count() if yes else opened.count() - gone
    if chosen_form(form) == "json":
        print_json({"forgotten": yes, "left": left, "records": gone})
    elif yes:
        echo(f"{gone} records forgotten, {left} left")
    else:
        echo(f"{gone} of {gone + left} records would be forgotten; add --yes")
