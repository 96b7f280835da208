"""``lace lake``: records in bulk, on Spark. Spark itself is loaded when a command needs it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import name_and_value
from lace.cli.loudness import shows_progress
from lace.cli.output import echo, write_text
from lace.cli.progress import ProgressLine
from lace.cli.render import (
    chosen_form,
    form_option,
    print_csv,
    print_entries,
    print_json,
    print_summary,
)
from lace.errors import Code, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lace.lake.doctor import Finding
    from lace.lake.ingest import IngestResult
    from lace.lake.query import Question
    from lace.lake.session import SparkOptions
    from lace.lake.tables import Lake

_SMALL_BYTES: Final = 64 << 20

# More commands, each in a file of its own. Name: module and attribute.
_ELSEWHERE: Final = {
    "demo": "lace.cli.lake_demo:demo_command",
    "select": "lace.cli.lake_rules:select_command",
    "why": "lace.cli.lake_rules:why_command",
    "summarize": "lace.cli.lake_rules:summarize_command",
    "export": "lace.cli.lake_exchange:export_command",
    "reconcile": "lace.cli.lake_exchange:reconcile_command",
    "forget": "lace.cli.lake_upkeep:forget_command",
    "forgotten": "lace.cli.lake_upkeep:forgotten_command",
    "remember": "lace.cli.lake_upkeep:remember_command",
    "quarantine": "lace.cli.lake_quarantine:quarantine",
    "run": "lace.cli.lake_run:run_command",
    "shell": "lace.cli.lake_shell:shell_command",
    "maintain": "lace.cli.lake_upkeep:maintain_command",
    "stream": "lace.cli.lake_stream:stream_command",
    "serve": "lace.cli.lake_peer:serve_command",
    "sync": "lace.cli.lake_peer:sync_command",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _ELSEWHERE:
            return super().get_command(ctx, name)
        module, attribute = _ELSEWHERE[name].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how Spark is started; the command gets them as one ``spark``."""

    @wraps(command)
    def gathered(
        *, master: str | None, memory: str, spark_log: str | None, settings: tuple[str, ...],
        **others: Any,
    ) -> Any:  # fmt: skip
        log = None if spark_log is None else Path(spark_log)
        chosen = Spark(master, memory, log, dict(map(name_and_value, settings)))
        return command(spark=chosen, **others)

    for option in (
        click.option(
            "--master", metavar="URL",
            help="Where Spark runs.  [default: $LACE_LAKE_MASTER, else local[*]]",
        ),
        click.option("--memory", default="2g", show_default=True, help="Heap of the driver."),
        click.option("--spark-log", metavar="FILE", help="Where all that Spark says goes."),
        click.option("--conf", "settings", multiple=True, metavar="NAME=VALUE",
                     help="A setting of Spark; repeatable."),
    ):  # fmt: skip
        gathered = option(gathered)
    return gathered


@dataclass(frozen=True, slots=True)
class Spark:
    """How the command line wants Spark to be started."""

    master: str | None
    memory: str
    log: Path | None
    settings: dict[str, str]

    def open(self, *, small: bool = False) -> SparkSession:
        """Start Spark, or take the session that runs; ``small`` work wants a quick start."""
        from lace.lake.session import open_session

        return open_session(self.options(small=small))

    def options(self, *, small: bool = False) -> SparkOptions:
        from lace.lake.session import SparkOptions

        return SparkOptions(
            master=self.master, memory=self.memory, log=self.log, settings=self.settings,
            quick_start=small,
        )  # fmt: skip


version_option = click.option(
    "--version",
    type=click.IntRange(0),
    help="As of this version of the lake.  [default: the newest]",
)


def record_set(name: str, *, gives: bool = False) -> str:
    """Return what a name names: the folder of a lace stands for its store.

    A lace that ``gives`` records does so as its settings say, or not at all.
    """
    from lace.settings import FILE, check_store, load

    if not (Path(name) / FILE).is_file():
        return name
    settings = load(Path(name))
    if gives and settings.expose not in {(), ("selected",)}:
        raise UsageError(
            f"{name}: expose in {FILE} is not honoured here: no peer's rules are looked at",
            code=Code.SETTINGS_UNUSABLE,
            hint=f"Name the store itself, {settings.store}, if all of it may be compared.",
        )
    check_store(settings.store)
    return str(settings.store)


def open_lake(name: str, spark: SparkSession, *, create: bool = False) -> Lake:
    from lace.lake.tables import Lake

    return Lake.open(spark, name, create=create)


@contextmanager
def progress(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Show how far jobs are: on a terminal with rate and rest, elsewhere a line for each part."""
    if not shows_progress():
        yield lambda message: echo(message, err=True)
        return
    from lace.lake.progress import watching

    line = JobLine()
    try:
        with watching(spark, line.tell):
            yield line.begin
    finally:
        line.end()


class JobLine:
    """Shows what is worked at and how far it is, in one line that leaves nothing behind."""

    def __init__(self) -> None:
        self._line = ProgressLine("tasks")
        self._total = self._before = 0

    def begin(self, message: str) -> None:
        """Begin another part of the work."""
        self.end()
        self._line = ProgressLine("tasks", title=message)
        self._before = self._total

    def tell(self, done: int, total: int) -> None:
        """Say how many tasks are done of all that are known, without those of earlier parts."""
        self._total = total
        done, total = done - self._before, total - self._before
        self._line.tell(max(done, 0), done / total if total > 0 and done > 0 else None)

    def end(self) -> None:
        """Take the line away."""
        self._line.__exit__(None, None, None)


@click.group(cls=_Group)
def lake() -> None:
    """Work with records in bulk, on Spark: ingest, select, summarise, reconcile.

    \b
    Example:
      lace lake ingest notes.lake archive/ more.records
      lace lake select notes.lake //notes-demo//notes// --count
    """


@lake.command()
@click.argument("name", metavar="[LAKE]", required=False)
@form_option
@spark_options
def doctor(name: str | None, form: str | None, spark: Spark) -> int:
    """Say whether everything is there that a lake needs, and what to do where it is not.

    It looks at Python, Java, memory and temporary space, and runs a tiny job. With LAKE it also
    tries what is stored there, or can be.

    \b
    Example:
      lace lake doctor
      lace lake doctor notes.lake
    """
    from lace.lake.doctor import examine

    ill: list[Finding] = []

    def findings() -> Iterator[Finding]:
        for finding in examine(spark.options(small=True), name):
            if not finding.ok:
                ill.append(finding)
            yield finding

    if chosen_form(form) == "table":  # as it is found: some of it takes a while
        for finding in findings():
            echo(f"{'ok ' if finding.ok else 'NO '} {finding.what:15} {finding.detail}")
            if finding.fix:
                echo(f"    {finding.fix}")
    else:
        print_entries(form, ("what", "ok", "detail", "fix"), map(asdict, findings()))
    return Exit.BAD_INPUT if ill else Exit.OK


@lake.command()
@click.argument("name", metavar="LAKE")
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
@form_option
@spark_options
def ingest(name: str, bundles: tuple[str, ...], form: str | None, spark: Spark) -> int:
    """Validate the records of bundles, and of folders of *.records files, into LAKE.

    What is no record goes to the table "quarantine". Running it again changes nothing; a run that
    was broken off is completed by the next one.

    \b
    Example:
      lace lake ingest notes.lake archive/ more.records
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.bundle import list_bundles
    from lace.lake.ingest import ingest as run
    from lace.lake.places import file_size

    size = sum(map(file_size, list_bundles(bundles)))
    session = spark.open(small=size < _SMALL_BYTES)
    opened = open_lake(name, session, create=True)
    with progress(session) as report:
        done = run(opened, list(bundles), report=report)
    print_summary(form, asdict(done), _ingested(done))
    return Exit.SOME_REJECTED if done.quarantined else Exit.OK


def _ingested(done: IngestResult) -> Iterator[str]:
    if done.skipped_steps and not done.steps:
        yield "nothing to do: the same bundles were ingested before"
    yield (
        f"records      {done.records:,} new, {done.duplicates:,} were there already, "
        f"{done.repeated:,} came more than once"
    )
    if done.forgotten:
        yield f"forgotten    {done.forgotten:,} left out"
    yield f"quarantine   {done.quarantined:,} places hold no record"
    yield f"version      {done.version}"


@lake.command()
@click.argument("name", metavar="LAKE")
@form_option
def info(name: str, form: str | None) -> None:
    """Print how much LAKE holds, and its newest changes. Needs no Spark.

    \b
    Example:
      lace lake info notes.lake
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.tables import Lake

    opened = Lake.open(None, name)
    records, aside = opened.records_log.version(), opened.quarantine_log.version()
    size = sum(file.size for file in records.files)
    made = {
        "records": records.rows, "files": len(records.files), "bytes": size,
        "quarantined": aside.rows, "version": records.number,
    }  # fmt: skip
    notes = opened.records_log.notes(10)
    wanted = chosen_form(form)
    if wanted == "json":
        print_json({**made, "changes": list(notes)})
    elif wanted == "csv":
        print_csv(("What", "Value"), [(what, str(value)) for what, value in made.items()])
    else:
        echo(f"records      {records.rows:,} in {len(records.files)} files, {size:,} bytes")
        echo(f"quarantine   {aside.rows:,}")
        echo(f"version      {records.number}")
        for note in notes:
            echo(f"  {note['version']:>6}  {_told(note)}")


def _told(note: dict[str, Any]) -> str:
    """Return what a commit says of itself."""
    if "maintain" in note:
        return f"{note['maintain']:,} files merged"
    if "forgotten" in note and "ingest" not in note:
        return f"{note['forgotten']:,} records forgotten"
    return (
        f"{note['records']:,} new records, {note['duplicates']:,} duplicates, "
        f"step {note['step']} of {note['ingest']}"
    )


@lake.command()
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
@form_option
def index(bundles: tuple[str, ...], form: str | None) -> None:
    """Write an index beside each BUNDLE, so that it can be read in parts without being searched.

    \b
    Example:
      lace lake index archive/2024.records
    """
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.bundle import list_bundles, survey, write_index

    def made() -> Iterator[dict[str, Any]]:
        for bundle in list_bundles(bundles):
            found = survey(bundle)
            yield {"bundle": bundle, "index": write_index(found), "parts": len(found.cuts) + 1}

    if chosen_form(form) == "table":
        for one in made():
            echo(f"{one['index']}: {one['parts']} parts")
    else:
        print_entries(form, ("bundle", "index", "parts"), made())


@lake.command()
@click.argument("name", metavar="LAKE")
@click.argument("query")
@click.option(
    "--view",
    "views",
    multiple=True,
    metavar="NAME=SELECTOR",
    help="A table of what SELECTOR selects; repeatable.",
)
@click.option("--columns", metavar="NAME,NAME", help="Of views: fields, and Hash and Data too.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "duckdb", "spark"]),
    default="auto",
    show_default=True,
    help="What answers; auto takes DuckDB where it gives the same answer.",
)
@form_option
@version_option
@spark_options
def sql(
    name: str, query: str, views: tuple[str, ...], columns: str | None, engine: str,
    form: str | None, version: int | None, spark: Spark,
) -> None:  # fmt: skip
    """Run an SQL QUERY over the tables of LAKE and print its rows.

    Queries are those of Spark SQL. A lake of up to 5,000,000 records is asked without Spark where
    DuckDB is installed and all of the query means the same to both, unless --master says where
    Spark runs.

    The tables are records, wide (records without their bytes), fields, links, embedded and
    quarantine. A --view is a projection: one row a record that its selector selects, one column a
    field, null where a record has none; of a field that occurs again, the first one counts.

    \b
    Example:
      lace lake sql notes.lake "SELECT app, count(*) AS n FROM wide GROUP BY app ORDER BY n DESC"
      lace lake sql notes.lake "SELECT code, bundle, offset FROM quarantine"
      lace lake sql notes.lake "SELECT Tag, count(*) AS n FROM notes GROUP BY Tag"
          --view notes=//notes-demo//notes// --columns Hash,Name,Tag
    """
    from lace.lake.session import check_packages

    check_packages()
    chosen = [_view(entry) for entry in views]
    if columns is not None and not views:
        raise click.UsageError("--columns are those of a --view")
    wanted = () if columns is None else tuple(dict.fromkeys(columns.split(",")))
    from lace.lake.query import Question
    from lace.lake.tables import Lake
    from lace.projection import STANDARD

    question = Question(
        query=query, version=version, views=tuple(chosen), columns=wanted or STANDARD
    )
    print_answer(Lake.open(None, name), question, engine, form, spark)


def print_answer(
    lake: Lake, question: Question, engine: str, form: str | None, spark: Spark
) -> None:
    """Print what a query gives; on a terminal it is said why Spark has to be started for it."""
    from lace.lake.query import Engine, ask
    from lace.lake.session import check_options, heap_bytes, is_chosen

    options = spark.options(small=True)
    check_options(options)
    if is_chosen(options) and engine == Engine.AUTO:
        engine = Engine.SPARK
    answer = ask(
        lake, question, lambda: spark.open(small=True), engine=Engine(engine),
        memory=heap_bytes(spark.memory) or 0,
        tell=lambda reason: echo(reason, err=True) if sys.stderr.isatty() else None,
    )  # fmt: skip
    print_entries(form, answer.columns, map(_plain, answer.rows))


def _view(entry: str) -> tuple[str, Any]:
    """Return the name and the program of a --view."""
    from lace.lake.tables import TABLES

    view, text = name_and_value(entry)
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,63}", view) or view.lower() in TABLES:
        raise click.UsageError(f"a view cannot be named {view!r}")
    return view, read_program(text, None)[0]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; bytes become hexadecimal text."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def read_program(text: str, predicate: str | None) -> tuple[Any, Any, str]:
    """Return the program, the predicate to look at and the lacegram's id of what was given.

    Without a predicate, ``text`` is a selector: an address, rules, or a file of rules, of which
    SelectHave alone counts. With one, it is a file of any rules.
    """
    from lace.cli.files import read_at_most
    from lace.datalog.ast import Predicate
    from lace.errors import LacegramError
    from lace.limits import DEFAULT_LIMITS
    from lace.rules import check_lacegram, compile_program
    from lace.settings import is_file, read_selector
    from lace.vocabulary import SELECT_HAVE

    if predicate is None and text.startswith("//"):
        module = read_selector(text)
        return module.program, SELECT_HAVE, module.id
    rules: str | bytes = text
    if predicate is not None or is_file(text):
        rules = read_at_most(text.removeprefix("file:"), DEFAULT_LIMITS.lacegram_bytes + 1)
    checked = check_lacegram(rules)
    if checked.errors:
        raise LacegramError(tuple(checked.errors))
    program = compile_program(checked.lacegram)
    predicate = predicate or str(SELECT_HAVE)
    found = [p for p in program.derived if predicate in {p.name, str(p)}]
    if len(found) != 1:
        known = ", ".join(sorted(map(str, program.derived)))
        raise UsageError(f"no one predicate {predicate}: there are {known}", code=Code.INPUT_KEY)
    return program, Predicate(*found[0]), checked.lacegram.id


def read_given(file: str | None) -> list[tuple[str, ...]]:
    """Return the facts of a file that stand beside a lake."""
    from lace.cli.files import read_limited
    from lace.datalog.source import parse_facts

    return [] if file is None else parse_facts(read_limited(file, 1 << 30))


def print_text(content: bytes) -> None:
    """Write text of an exact form."""
    write_text(content)
