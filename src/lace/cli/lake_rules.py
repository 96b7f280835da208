"""``lace lake select``, ``why`` and ``summarize``: rules over a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lace.cli.exitcodes import Exit
from lace.cli.lake import (
    Spark,
    open_lake,
    print_text,
    progress,
    read_given,
    read_program,
    spark_options,
    version_option,
)
from lace.cli.output import echo
from lace.cli.render import print_line
from lace.datalog.ast import Predicate
from lace.datalog.program import RuleProgram
from lace.ids import parse_record_hash
from lace.text import fact_line, line_fault

if TYPE_CHECKING:
    from lace.lake.tables import Snapshot

_given_option = click.option(
    "--facts", "facts_file", metavar="FILE", help="Runtime facts, one fact line each."
)
_predicate_option = click.option(
    "--predicate", metavar="NAME[/ARITY]", help="SELECTOR is a file of any rules; look at this."
)


@click.command("select")
@click.argument("name", metavar="LAKE")
@click.argument("selector_text", metavar="SELECTOR")
@_predicate_option
@_given_option
@click.option("--count", is_flag=True, help="Print only how many there are.")
@click.option(
    "--explain", "is_explained", is_flag=True, help="Say how it would be done; do nothing."
)
@version_option
@spark_options
def select_command(
    name: str, selector_text: str, predicate: str | None, facts_file: str | None, count: bool,
    is_explained: bool, version: int | None, spark: Spark
) -> int:  # fmt: skip
    """Print the hashes of the records that SELECTOR selects in LAKE, sorted.

    SELECTOR is an address, rules, or a file of rules. With --predicate the facts of that predicate
    are printed, as fact lines. A lake of up to 300,000 records is looked at without Spark, unless
    --master says where Spark runs. With --explain it is said where each rule would run, in what
    order and why; Spark is not started.

    \b
    Example:
      lace lake select notes.lake //notes-demo//notes// --count
      lace lake select notes.lake rules.lacegram --explain
      lace lake select notes.lake rules.lacegram --predicate Member/1
    """
    program, wanted, _ = read_program(selector_text, predicate)
    given = read_given(facts_file)
    if is_explained:
        return _say_plan(name, version, program, wanted)
    small = _small_snapshot(name, version, spark)
    if small is not None:
        from lace.lake.here import evaluate_here

        rows = evaluate_here(small, program, [wanted], given).rows(wanted)
        if count:
            echo(f"{len(rows)}")
            return Exit.OK
        for row in sorted(rows):
            print_line(row[0] if predicate is None else fact_line(wanted.name, row))
        return Exit.OK
    session = spark.open()
    snapshot = open_lake(name, session).snapshot(version)
    from lace.lake.jobs import job
    from lace.lake.select import select

    with progress(session) as report:
        report("selecting")
        selection = select(snapshot, program, predicate=wanted, given=given)
        facts = selection.evaluation.frame(wanted)
        with job("select"):
            if count:
                echo(f"{facts.count()}")
                return Exit.OK
            for row in facts.orderBy(*facts.columns).toLocalIterator(prefetchPartitions=True):
                values = tuple(row)[: wanted.arity]
                print_line(row[0] if predicate is None else fact_line(wanted.name, values))
    return Exit.OK


def _small_snapshot(name: str, version: int | None, spark: Spark) -> Snapshot | None:
    """Return a snapshot that needs no Spark to be looked at; None if the lake is too large."""
    from lace.lake.session import check_packages, is_chosen

    check_packages()
    from lace.lake.here import HERE_ROWS
    from lace.lake.tables import Lake

    if is_chosen(spark.options()):
        return None
    snapshot = Lake.open(None, name).snapshot(version)
    return snapshot if snapshot.version.rows <= HERE_ROWS else None


def _say_plan(name: str, version: int | None, program: RuleProgram, wanted: Predicate) -> int:
    from lace.lake.session import check_packages

    check_packages()
    from lace.lake.placing import lines, plan
    from lace.lake.tables import Lake

    there = Lake.open(None, name).records_log.version(version)
    echo(f"{there.rows:,} records in {len(there.files):,} files, version {there.number}")
    for line in lines(plan(program, [wanted])):
        print_line(line)
    return Exit.OK


@click.command("why")
@click.argument("name", metavar="LAKE")
@click.argument("selector_text", metavar="SELECTOR")
@click.argument("record", metavar="HASH")
@_given_option
@spark_options
def why_command(
    name: str, selector_text: str, record: str, facts_file: str | None, spark: Spark
) -> int:  # fmt: skip
    """Say why SELECTOR selects the record HASH in LAKE, or how far each rule got (exit 6).

    \b
    Example:
      lace lake why notes.lake //notes-demo//notes// S.hash
    """
    program, wanted, _ = read_program(selector_text, None)
    given = read_given(facts_file)
    from lace.datalog.explain import Proof

    small = _small_snapshot(name, None, spark)
    parse_record_hash(record)
    if small is not None:
        from lace.lake.here import explain_here

        found = explain_here(small, program, (record,), predicate=wanted, given=given)
    else:
        session = spark.open(small=True)
        snapshot = open_lake(name, session).snapshot()
        from lace.lake.select import explain

        with progress(session) as report:
            report("looking for the records that matter")
            found = explain(snapshot, program, (record,), predicate=wanted, given=given)
    if isinstance(found, Proof):
        _show(found)
        return Exit.OK
    echo(f"{record} is not selected")
    for refusal in found:
        bound = ", ".join(f"{name} = {value}" for name, value in sorted(refusal.bindings.items()))
        echo(f"  {refusal.id} failed at {refusal.failed_atom}{f' with {bound}' if bound else ''}")
        for miss in refusal.near_misses:
            echo(f"    there is {miss}")
    return Exit.NOT_FOUND


def _show(proof: object) -> None:
    """Print a proof as an indented tree, without recursion: it may be deep."""
    from lace.datalog.explain import Proof

    stack: list[tuple[int, object]] = [(0, proof)]
    while stack:
        depth, item = stack.pop()
        assert isinstance(item, Proof)
        rule = f"   by {item.rule}" if item.rule else ""
        echo(f"{'  ' * depth}{item.fact}{rule}")
        for condition in item.conditions:
            echo(f"{'  ' * (depth + 1)}and {condition}")
        stack += [(depth + 1, premise) for premise in reversed(item.because)]


@click.command("summarize")
@click.argument("name", metavar="LAKE")
@click.argument("selector_text", metavar="SELECTOR")
@click.option("--source", required=True, metavar="LABEL", help="Who advertises.")
@click.option("--fields", "names", metavar="A,B", help="Advertise these fields.")
@click.option("--all-fields", is_flag=True, help="Advertise every field.")
@click.option(
    "--prefix-length",
    type=click.IntRange(0, 6),
    default=2,
    show_default=True,
    help="How long prefixes are.",
)
@click.option("--adverts", is_flag=True, help="Print the advertisements instead.")
@spark_options
def summarize_command(
    name: str, selector_text: str, source: str, names: str | None, all_fields: bool,
    prefix_length: int, adverts: bool, spark: Spark
) -> int:  # fmt: skip
    """Print the partition summaries of what SELECTOR selects in LAKE, as an exchange has them.

    They are kept in the lake; the next time only what has changed is computed.

    \b
    Example:
      lace lake summarize notes.lake //notes-demo//notes// --source V.x --all-fields
    """
    if line_fault(source) is not None:
        raise click.UsageError("--source takes one line of text")
    if (names is None) == (not all_fields):
        raise click.UsageError("give --fields or --all-fields")
    schema = None if names is None else frozenset(filter(None, names.split(",")))
    program, _, identity = read_program(selector_text, None)
    session = spark.open()
    opened = open_lake(name, session)
    from lace.lake.select import select
    from lace.lake.summarize import Advertising, SummaryTables, advertisements, summarize

    advertising = Advertising(
        selection=identity, source=source, schema=schema, prefix_length=prefix_length
    )
    snapshot = opened.snapshot()
    with progress(session) as report:
        report("summarising")
        if adverts:
            rows = advertisements(select(snapshot, program).records(), advertising)
            for row in rows.orderBy("hash").toLocalIterator():
                print_text(bytes(row.advertisement))
            return Exit.OK
        made = summarize(
            snapshot, lambda: select(snapshot, program).hashes(), SummaryTables(opened, advertising)
        )
    for summary in made.partitions:
        predicate, *values = summary.fact()
        print_line(fact_line(predicate, values))
    echo(
        f"{made.count:,} advertisements of version {made.version}; {made.digested:,} digests and "
        f"{made.rooted:,} roots were computed", err=True,
    )  # fmt: skip
    return Exit.OK
