"""``lace store``: look after a record store."""

from __future__ import annotations

import click

from lace.cli.exitcodes import Exit
from lace.cli.output import echo
from lace.cli.place import store_file
from lace.cli.progress import ProgressLine
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
def info(file: str) -> None:
    """Print how many records LACE (its folder, or a store file) holds, and which schema it has.

    \b
    Example:
      lace store info notes.lace
    """
    path = store_file(file)
    with SqliteStore(path, read_only=True) as opened:
        echo(f"records      {opened.count()}")
        echo(f"newest id    {opened.high_water()}")
        echo(f"schema       {schema_version(path)}")
        echo(f"quarantined  {len(opened.quarantined())}")


@store.command()
@click.argument("file", metavar="LACE")
def check(file: str) -> int:
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
            echo(problem)
        echo(f"{opened.count()} records checked, {problems} problems", err=True)
    return Exit.SOME_REJECTED if problems else Exit.OK


@store.command()
@click.argument("file", metavar="LACE")
@click.argument("selector_text", metavar="SELECTOR")
@click.option("--yes", is_flag=True, help="Really forget; without it, only say what would go.")
def forget(file: str, selector_text: str, yes: bool) -> None:
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
        if yes:
            gone = opened.forget(RecordHash(row[0]) for row in rows)
            echo(f"{gone} records forgotten, {opened.count()} left")
        else:
            echo(f"{len(rows)} of {opened.count()} records would be forgotten; add --yes")
