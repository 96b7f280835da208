"""``lace backup`` and ``lace restore``: the whole store in one file, and back again."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from lace import blocking
from lace.cli.arguments import lace_option
from lace.cli.exitcodes import Exit
from lace.cli.init import make_lace
from lace.cli.output import echo
from lace.cli.place import find
from lace.cli.progress import ProgressLine
from lace.errors import Code, StoreError, UsageError
from lace.recordstore.sqlite import SqliteStore
from lace.settings import FILE, load

_ANOTHER = (
    "Take an older backup, or another copy of this one; or get the records from a peer: lace sync."
)


@click.command()
@click.argument("file", metavar="FILE")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@lace_option
def backup(file: str, force: bool, where: str | None) -> int:
    """Write all records of this lace into one FILE, as they are at one moment.

    Others may go on writing meanwhile, a server too. To copy the store file instead is no backup:
    what was stored last may stand in another file beside it (…-wal), and two files that are copied
    at two moments fit together by luck. FILE is a store itself, and can be looked at like one. Keep
    lace.toml and your keys with it; they are not in there.

    \b
    Example:
      lace backup /backups/notes-monday.lace
      lace store check /backups/notes-monday.lace
    """
    with find(where).open() as local, ProgressLine("pages") as line:

        def tell(written: int, of: int) -> None:
            line.tell(written, written / of if of else None)

        count = blocking.backup(local, file, overwrite=force, listen=tell)
    echo(f"{count:,} record{'' if count == 1 else 's'} in {file}", err=True)
    return Exit.OK


@click.command()
@click.argument("file", metavar="FILE")
@click.argument("folder", metavar="FOLDER")
def restore(file: str, folder: str) -> int:
    """Make the store of the lace in FOLDER from a backup, after every record in it was checked.

    FOLDER is new, or the folder of a lace whose store is empty or gone; its settings stay. Nothing
    that is there is replaced: to bring two stores together, lace sync or lace import does. Peers
    send what came after the backup, at the next lace sync.

    \b
    Example:
      lace restore /backups/notes-monday.lace notes
    """
    place = Path(folder)
    if not Path(file).exists():
        raise UsageError(f"there is no {file}", code=Code.INPUT_FILE)
    with SqliteStore(_sound(file), read_only=True) as opened:
        if not (place / FILE).is_file():
            make_lace(place, None, None, [])
        store = load(place).store
        if store.exists():
            with SqliteStore(store) as there:
                if there.count():
                    raise UsageError(
                        f"{store} has {there.count():,} records already",
                        code=Code.STORE_OPEN,
                        hint=f"Restore into another folder, or bring what belongs into this one: "
                        f"lace sync {shlex.quote(file)} --lace {shlex.quote(folder)}.",
                    )
        count = opened.back_up(store)
    echo(f"{count:,} record{'' if count == 1 else 's'} in {store}", err=True)
    return Exit.OK


def _sound(file: str) -> Path:
    """Return the store of a backup after every record in it was checked, or raise."""
    try:
        path = find(file).settings.store
        with SqliteStore(path, read_only=True) as opened:
            problems = list(opened.check())
    except StoreError as error:
        if error.code not in {Code.STORE_CORRUPT, Code.STORE_MISSING}:
            raise
        raise StoreError(error.message, code=error.code, hint=_ANOTHER) from None
    for problem in problems[:20]:
        echo(problem, err=True)
    if problems:
        said = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        raise StoreError(
            f"{file} has {said}, and was not restored", code=Code.STORE_CORRUPT, hint=_ANOTHER
        )
    return path
