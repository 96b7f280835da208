"""``lace import`` and ``lace export``: records from files and into files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import count as count_from
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

import click

from lace import blocking
from lace.answering.selection import Selection
from lace.api.exporting import BY_SUFFIX, Exported
from lace.api.handles import Lace, store_of
from lace.api.handles import open as open_lace
from lace.api.importing import Form, Imported, Refused
from lace.api.rows import RowMap
from lace.cli.arguments import key_option, lace_option, read_fields
from lace.cli.exitcodes import Exit
from lace.cli.files import STANDARD_INPUT, open_input
from lace.cli.output import echo
from lace.cli.place import find
from lace.cli.progress import ProgressLine
from lace.cli.records import EVERYTHING
from lace.drafts import DraftFile, exists_already
from lace.errors import Code, UsageError
from lace.policy.module import PolicyModule
from lace.recordstore.base import StoreRecordId
from lace.recordstore.files import keep_store

_TOLD: Final = 5
_TOGETHER: Final = 1000
_FORMS: Final = ("records", "jsonl", "csv", "parquet")


@click.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE|-...")
@click.option(
    "--format", "form", type=click.Choice(_FORMS[:3]),
    help="What the files are.  [default: told by their content]",
)  # fmt: skip
@click.option(
    "--to", metavar="PREFIX", help="Where rows go: //group//app// or //group//app//name/."
)
@click.option("--name", metavar="COLUMN", help="The column that names a record within --to.")
@click.option("--data", metavar="COLUMN", help="The column that becomes the data.")
@click.option("--time", metavar="COLUMN", help="The column with the time.  [default: now]")
@click.option(
    "--column", "columns", multiple=True, metavar="FIELD=COLUMN",
    help="A field and its column; repeatable.  [default: every other column, by its name]",
)  # fmt: skip
@click.option(
    "--refused", metavar="FILE",
    help="Where to put aside what is refused.  "
    "[default: NAME.refused.jsonl, here, or the next free name]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing file of --refused.")
@click.option("--unsigned", is_flag=True, help="Do not sign rows, though there is a key.")
@key_option("Signs rows.  [default: the one in lace.toml]")
@lace_option
def import_command(
    files: tuple[str, ...],
    form: str | None,
    to: str | None,
    name: str | None,
    data: str | None,
    time: str | None,
    columns: tuple[str, ...],
    refused: str | None,
    force: bool,
    unsigned: bool,
    key_text: str | None,
    where: str | None,
) -> int:
    """Store the records of each FILE; - is standard input.

    Files of records (*.records, what lace export and lace get --raw write) are validated and stored
    as they are. Lines of JSON and CSV become records, signed with your key: --to and --name say
    where they go; an object of JSON may name its place itself, as lace add --batch reads it. What
    your newest record at a place says already is not stored again, so that an import that was cut
    off, or a table that grew, can be imported again. What is refused is put aside with its reason,
    and the exit code is 3.

    \b
    Example:
      lace import archive.records
      lace import people.csv --to //club//people// --name email --data notes --time joined
      curl -s https://example.org/feed.jsonl | lace import - --to //club//feed// --name id
    """
    rows = _row_map(to, name, data, time, read_fields(columns))
    if unsigned and key_text is not None:
        raise click.UsageError("give --key or --unsigned, not both")
    settings = find(where)
    key = None if unsigned else settings.signing_key(key_text)
    total = Imported()
    with settings.open(key) as local, PutAside(refused, replaces=force, read=files) as aside:
        begin = store_of(local).high_water()
        for file in files:
            aside.begin(file)
            with open_input(file) as source, ProgressLine("records read") as line:
                tell = Last(reading(line, source))
                try:
                    count = blocking.import_file(
                        local,
                        source,
                        rows=rows,
                        form=cast("Form | None", form),
                        unsigned=unsigned,
                        put_aside=aside.take,
                        listen=tell,
                    )
                except KeyboardInterrupt:
                    echo(
                        f"interrupted: {counted(added(total, tell.count))}; what is new is stored. "
                        "Run it again to go on",
                        err=True,
                    )
                    raise
            aside.end()
            tell_reasons(file, count)
            total = added(total, count)
        echo(counted(total), err=True)
        tell_signed_anew(total)
        if settings.settings.select is not None and total.new:
            _tell_left_out(local, begin, settings.module(None))
    return Exit.SOME_REJECTED if total.refused else Exit.OK


@click.command("export")
@click.argument("selector_text", metavar="[SELECTOR]", required=False)
@click.option("-o", "--output", default=STANDARD_INPUT, metavar="FILE", help="Where to write.")
@click.option(
    "--format", "form", type=click.Choice(_FORMS),
    help="The form.  [default: told by the name of FILE; else records]",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Everything that is stored here.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@lace_option
def export_command(
    selector_text: str | None,
    output: str,
    form: str | None,
    everything: bool,
    force: bool,
    where: str | None,
) -> int:
    """Write the records that SELECTOR selects; by default what lace.toml selects.

    Names of files tell the form: *.records has the records as they are, one after another, and any
    lace can import them; *.jsonl and *.csv are for other programs, and have no signatures;
    *.parquet needs the extra arrow. A file appears under its name when it is complete. If a record
    of a damaged store cannot be read, the others are written, and the exit code is 3.

    \b
    Example:
      lace export -o archive.records
      lace export //club//people// -o people.csv
      lace export --format jsonl | jq -r .place
    """
    if everything and selector_text is not None:
        raise click.UsageError("--all is everything: give no SELECTOR")
    settings = find(where)
    module = settings.module(EVERYTHING if everything else selector_text)
    chosen = cast("Form | None", form)
    to_output = output == STANDARD_INPUT
    if to_output:
        chosen = chosen or "records"
        if chosen == "parquet" or (chosen == "records" and sys.stdout.isatty()):
            raise click.UsageError(f"{chosen} are no text: give --output FILE")
    elif chosen is None and Path(output).suffix not in BY_SUFFIX:
        raise UsageError(
            f"{output} does not tell its form; names that do end in {', '.join(BY_SUFFIX)}",
            code=Code.INPUT_FILE,
            hint="Choose such a name, or say --format.",
        )
    with settings.open() as local, ProgressLine("records written") as line:

        def tell(count: Exported) -> None:
            line.tell(count.records, count.records / count.of if count.of else None)

        target: str | BinaryIO = sys.stdout.buffer if to_output else output
        try:
            count = blocking.export_file(
                local, target, module, form=chosen, overwrite=force, listen=tell
            )
        except KeyboardInterrupt:
            what = "the output is not complete" if to_output else f"{output} was not written"
            echo(f"interrupted: {what}. Run it again for a whole one", err=True)
            raise
    sys.stdout.buffer.flush()
    tell_first_only(count.first_only)
    _tell_base64(count.in_base64)
    echo(f"{count.records:,} record{'' if count.records == 1 else 's'}", err=True)
    if count.missing:
        echo(
            f"{count.missing:,} more could not be read, and are not in the file; "
            "lace store check says what is wrong",
            err=True,
        )
        return Exit.SOME_REJECTED
    return Exit.OK


class PutAside:
    """Files for what is refused; each is made when there is something to put in it.

    Without a name, each file that is read gets one of its own. No existing file is replaced, unless
    it was named and that was allowed.
    """

    def __init__(
        self, name: str | None = None, *, replaces: bool = False, read: Collection[str] = ()
    ) -> None:
        if name is not None and not replaces and Path(name).is_file():
            raise exists_already(name)
        if name is not None:
            keep_store(name)
            _keep_read(name, read)
        self._name = name
        self._of = ""
        self._draft: DraftFile | None = None

    def begin(self, file: str) -> None:
        """Say which file is read from now on."""
        self._of = file

    def end(self) -> None:
        """Say that it was read."""
        if self._name is None:
            self._close()

    def take(self, refused: Refused) -> None:
        line = json.dumps(refused.to_dict() | {"file": self._of}, sort_keys=True)
        with self._errors():
            if self._draft is None:
                path = next(self._names())
                self._draft = DraftFile(path, overwrite=self._name is not None)
            self._draft.file.write(f"{line}\n".encode())

    def _close(self) -> None:
        draft, self._draft = self._draft, None
        if draft is None:
            return
        with self._errors():
            try:
                name = self._commit(draft)
            finally:
                draft.discard()
        echo(f"what was refused is in {name}", err=True)

    def _commit(self, draft: DraftFile) -> Path:
        for path in self._names():
            with suppress(FileExistsError):  # another import took it meanwhile
                draft.commit(path)
                return path
        raise AssertionError("there is always another name")

    def _names(self) -> Iterator[Path]:
        """Yield where it may be put aside."""
        if self._name is not None:
            yield Path(self._name)
        else:
            yield from (Path(n) for n in _aside_names(self._of) if not os.path.lexists(n))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(
                f"cannot write {self._name or next(_aside_names(self._of))}: {error.strerror}",
                code=Code.INPUT_FILE,
                hint="Say with --refused where to put aside what is refused.",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()


def tell_reasons(file: str, count: Imported) -> None:
    """Say of the first things that were refused where they stand, and why."""
    for refused in count.reasons[:_TOLD]:
        echo(f"{file}, {refused.where}: {refused.detail} [{refused.code}]", err=True)
    if count.refused > _TOLD:
        echo(f"{file}: {count.refused - _TOLD:,} more were refused", err=True)


def tell_signed_anew(count: Imported) -> None:
    """Say so if rows of others became records that others did not sign."""
    if count.signed_anew:
        echo(
            f"{count.signed_anew:,} of them name another author, and are not signed by that author "
            "now: lines have no signatures. To import records with their original signatures, take "
            "the form .records: lace export -o FILE.records there, lace import FILE.records here",
            err=True,
        )


def _tell_left_out(local: Lace, begin: StoreRecordId, module: PolicyModule) -> None:
    """Say how many of the records that were just stored the selector does not select."""
    store = store_of(local)
    left: list[str] = []
    while read := store.read(begin, _TOGETHER):
        begin = read[-1].id
        hashes = [one.hash for one in read]
        found = [record for record in map(store.load, hashes) if record is not None]
        with open_lace(records=found) as alone:  # most selectors look at one record only
            selected = Selection(store_of(alone), module, local.limits).hashes()
        left += [record.hash for record in found if record.hash not in selected]
    if left:
        selected = Selection(store, module, local.limits).hashes()
        left = [hash for hash in left if hash not in selected]
    if left:
        echo(
            f"your selector does not select {len(left):,} of the new ones; lace why-not {left[0]}",
            err=True,
        )


def tell_first_only(names: Collection[str]) -> None:
    """Say which fields a table does not have in full."""
    if names:
        echo(
            f"a table has one value of each field, and records have several of {', '.join(names)}: "
            "only the first is there; .jsonl and .records have all",
            err=True,
        )


def _tell_base64(records: int) -> None:
    """Say so if a table has data in another form than records have it."""
    if records:
        echo(
            f"the data of {records:,} of them is no text: the table has it in base64; "
            ".jsonl marks such data, .records has it as it is",
            err=True,
        )


def counted(count: Imported) -> str:
    """Return what became of everything, in words."""
    parts = [f"{count.new:,} new", f"{count.present:,} here already"]
    if count.forgotten:
        parts.append(f"{count.forgotten:,} forgotten here for good")
    if count.refused:
        parts.append(f"{count.refused:,} refused")
    return ", ".join(parts)


def added(one: Imported, other: Imported) -> Imported:
    """Return two counts together."""
    return Imported(
        new=one.new + other.new,
        present=one.present + other.present,
        forgotten=one.forgotten + other.forgotten,
        refused=one.refused + other.refused,
        signed_anew=one.signed_anew + other.signed_anew,
    )


def _row_map(
    to: str | None,
    name: str | None,
    data: str | None,
    time: str | None,
    columns: dict[str, str],
) -> RowMap | None:
    if to is not None and name is not None:
        return RowMap(to=to, name=name, data=data, time=time, fields=columns or None)
    if to is None and name is None and not (data or time or columns):
        return None
    raise click.UsageError("--to and --name belong together, and the other columns need both")


def _keep_read(name: str, read: Collection[str]) -> None:
    """Raise ``UsageError`` if a file that is about to be replaced is one of those that are read."""
    target = Path(name)
    if any(Path(file).exists() and target.exists() and target.samefile(file) for file in read):
        raise UsageError(
            f"{name} is read by this command, and cannot be replaced by it",
            code=Code.INPUT_FILE,
            hint="Choose another name for what is refused.",
        )


def _aside_names(file: str) -> Iterator[str]:
    """Yield where what is refused of a file may be put aside, if nothing else is said."""
    name = "import" if file == STANDARD_INPUT else Path(file).name
    yield f"{name}.refused.jsonl"
    for number in count_from(2):
        yield f"{name}.refused-{number}.jsonl"


class Last:
    """Passes counts on, and keeps the last one."""

    def __init__(self, tell: Callable[[Imported], None]) -> None:
        self._tell = tell
        self.count = Imported()

    def __call__(self, count: Imported) -> None:
        self.count = count
        self._tell(count)


def reading(line: ProgressLine, source: BinaryIO) -> Callable[[Imported], None]:
    """Return what tells a line how far a file was read."""
    size = _size(source)

    def tell(count: Imported) -> None:
        line.tell(count.read, count.bytes_read / size if size else None)

    return tell


def _size(source: BinaryIO) -> int | None:
    """Return how long a file is; None for what comes through a pipe."""
    try:
        return os.fstat(source.fileno()).st_size or None
    except (OSError, ValueError):
        return None
