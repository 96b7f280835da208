"""``lace plumb lacegram``: read, judge, evaluate and explain rules. The output is a contract."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import read_at_most, read_limited
from lace.cli.output import echo, write_text
from lace.cli.render import print_json, print_line
from lace.datalog.ast import Predicate
from lace.datalog.canonical import Lacegram
from lace.datalog.check import CheckedText
from lace.datalog.evaluate import Evaluation, evaluate
from lace.datalog.explain import Explainer, Proof
from lace.datalog.source import check_fact, parse_fact, parse_facts
from lace.errors import Code, Diagnostic, LacegramError, LimitExceeded, UsageError
from lace.limits import DEFAULT_LIMITS, FIXED, Limits
from lace.rules import MemorySource, check_lacegram, compile_program
from lace.text import fact_line, redact
from lace.vocabulary import ROLES

_PROOF_NODES = 1_000_000

role_option = click.option(
    "--role",
    type=click.Choice(sorted(ROLES)),
    default="plain",
    show_default=True,
    help="What the rules are for; it decides which names are reserved.",
)
limits_option = click.option(
    "--limits", "limits_json", metavar="JSON", help='Other limits, such as {"derived_facts": 10}.'
)
facts_option = click.option(
    "--facts", "facts_file", metavar="FILE", required=True, help="Base facts, one fact line each."
)


@click.group("lacegram")
def lacegram_group() -> None:
    """Read, judge, evaluate and explain rules.

    \b
    Example:
      lace plumb lacegram check rules.lacegram
      lace plumb lacegram eval rules.lacegram --facts facts.txt
    """


@lacegram_group.command()
@click.argument("file")
@role_option
@limits_option
def check(file: str, role: str, limits_json: str | None) -> int:
    """Print one diagnostic a line; exit 1 if any of them is an error.

    \b
    Example:
      lace plumb lacegram check rules.lacegram --role selector
    """
    checked = _check(file, role, _limits(limits_json))
    for diagnostic in checked.diagnostics:
        print_diagnostic(diagnostic)
    return Exit.BAD_INPUT if checked.errors else Exit.OK


@lacegram_group.command()
@click.argument("file")
@role_option
@limits_option
def canon(file: str, role: str, limits_json: str | None) -> int:
    """Print the canonical text.

    \b
    Example:
      lace plumb lacegram canon rules.lacegram
    """
    lacegram = _read(file, role, _limits(limits_json))
    if lacegram is None:
        return Exit.BAD_INPUT
    write_text(lacegram.text.encode())
    return Exit.OK


@lacegram_group.command("id")
@click.argument("file")
@role_option
@limits_option
def id_command(file: str, role: str, limits_json: str | None) -> int:
    """Print the id of the lacegram, and id, canonical line and notes of each rule.

    \b
    Example:
      lace plumb lacegram id rules.lacegram
    """
    lacegram = _read(file, role, _limits(limits_json))
    if lacegram is None:
        return Exit.BAD_INPUT
    rules = [
        {"id": id, "line": line, "notes": lacegram.notes.get(id, {})}
        for id, line in zip(lacegram.rule_ids, lacegram.lines, strict=True)
    ]
    print_json({"lacegram": lacegram.id, "rules": rules})
    return Exit.OK


@lacegram_group.command()
@click.argument("file")
@role_option
@limits_option
def strata(file: str, role: str, limits_json: str | None) -> int:
    """Print the stratum of each derived predicate.

    \b
    Example:
      lace plumb lacegram strata rules.lacegram
    """
    lacegram = _read(file, role, _limits(limits_json))
    if lacegram is None:
        return Exit.BAD_INPUT
    components = compile_program(lacegram).components
    entries = [(str(p), c.stratum) for c in components for p in c.predicates]
    for predicate, stratum in sorted(entries):
        print_json({"predicate": predicate, "stratum": stratum})
    return Exit.OK


@lacegram_group.command("eval")
@click.argument("file")
@facts_option
@click.option(
    "--predicate", "names", multiple=True, metavar="NAME[/ARITY]", help="Only this one; repeatable."
)
@click.option(
    "--engine", type=click.Choice(["memory", "spark"]), default="memory", show_default=True
)
@role_option
@limits_option
def eval_command(
    file: str,
    facts_file: str,
    names: tuple[str, ...],
    engine: str,
    role: str,
    limits_json: str | None,
) -> int:
    """Print the derived facts as fact lines, sorted bytewise.

    \b
    Example:
      lace plumb lacegram eval rules.lacegram --facts facts.txt --predicate Selected/1
    """
    limits = _limits(limits_json)
    lacegram = _read(file, role, limits)
    if lacegram is None:
        return Exit.BAD_INPUT
    wanted = _wanted(lacegram, names) if names else None
    facts: Iterable[tuple[Predicate, tuple[str, ...]]]
    try:
        if engine == "spark":
            facts = _evaluate_on_spark(lacegram, facts_file, wanted, limits)
        else:
            facts = _evaluate(lacegram, facts_file, wanted, limits).facts()
        lines = [
            fact_line(predicate.name, row).encode()
            for predicate, row in facts
            if wanted is None or predicate in wanted
        ]
    except (LacegramError, LimitExceeded) as error:
        return _refuse(error)
    for line in sorted(lines):
        write_text(line + b"\n")
    return Exit.OK


@lacegram_group.command()
@click.argument("file")
@facts_option
@click.option("--fact", "fact_text", required=True, metavar="FACT", help="The fact to explain.")
@role_option
@limits_option
def why(file: str, facts_file: str, fact_text: str, role: str, limits_json: str | None) -> int:
    """Print the smallest proof of a fact as a tree; exit 6 with what failed where it does not hold.

    \b
    Example:
      lace plumb lacegram why rules.lacegram --facts facts.txt --fact "Selected('P.x.H3')"
    """
    limits = _limits(limits_json)
    lacegram = _read(file, role, limits)
    if lacegram is None:
        return Exit.BAD_INPUT
    name, *values = parse_fact(fact_text)
    predicate, row = Predicate(name, len(values)), tuple(values)
    try:
        result = _evaluate(lacegram, facts_file, None, limits)
    except (LacegramError, LimitExceeded) as error:
        return _refuse(error)
    explainer = Explainer(result)
    proof = explainer.why(predicate, row)
    if proof is not None:
        if proof.size > _PROOF_NODES:
            print_json(
                LimitExceeded("proof nodes", configured=_PROOF_NODES, observed=proof.size).to_dict()
            )
            return Exit.LIMIT
        print_line(_proof_json(proof))
        return Exit.OK
    refusals = [
        {"id": r.id, "failed_atom": r.failed_atom, "bindings": r.bindings}
        for r in explainer.why_not(predicate, row)
    ]
    print_json({"fact": fact_line(name, values), "rules": refusals})
    return Exit.NOT_FOUND


def _proof_json(proof: Proof) -> str:
    """Write a proof as JSON without recursion: it may be deeper than Python's stack."""
    parts: list[str] = []
    stack: list[Proof | str] = [proof]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        fact = json.dumps(item.fact, ensure_ascii=False)
        rule = json.dumps(item.rule)
        stack.append(f'],"fact":{fact},"rule":{rule}}}')
        for index, premise in enumerate(reversed(item.because)):
            stack.append(premise)
            if index < len(item.because) - 1:
                stack.append(",")
        parts.append('{"because":[')
    return "".join(parts)


# --- reading ------------------------------------------------------------------------------------


def _check(file: str, role: str, limits: Limits) -> CheckedText:
    source = read_at_most(file, limits.lacegram_bytes + 1)  # one more, so that too long is seen
    return check_lacegram(source, ROLES[role], limits=limits)


def _read(file: str, role: str, limits: Limits) -> Lacegram | None:
    """Return the lacegram, or None after its errors were printed."""
    checked = _check(file, role, limits)
    for diagnostic in checked.errors:
        print_diagnostic(diagnostic)
    return None if checked.errors else checked.lacegram


def print_diagnostic(diagnostic: Diagnostic) -> None:
    print_json(
        {
            "code": diagnostic.code,
            "severity": diagnostic.severity,
            "line": diagnostic.line,
            "column": diagnostic.column,
            "message": diagnostic.message,
            "hint": diagnostic.hint,
        }
    )


def _evaluate(
    lacegram: Lacegram, facts_file: str, wanted: set[Predicate] | None, limits: Limits
) -> Evaluation:
    facts = parse_facts(read_limited(facts_file, FIXED.facts_file_bytes))
    source = MemorySource(facts, limits)
    return evaluate(compile_program(lacegram), source, outputs=wanted, limits=limits)


def _evaluate_on_spark(
    lacegram: Lacegram, facts_file: str, wanted: set[Predicate] | None, limits: Limits
) -> Iterator[tuple[Predicate, tuple[str, ...]]]:
    from lace.lake.session import SparkOptions, open_session

    spark = open_session(SparkOptions(quick_start=True))
    from lace.lake.evaluate import evaluate_on_spark
    from lace.lake.facts import GivenFacts
    from lace.lake.placing import Placement

    facts = parse_facts(read_limited(facts_file, FIXED.facts_file_bytes))
    for fact in facts:
        check_fact(fact, limits)
    given = GivenFacts.of(spark, facts)
    program = compile_program(lacegram)
    placement = Placement(rows=0)  # whoever asks for Spark wants to see Spark work
    return evaluate_on_spark(
        program, given, outputs=wanted, limits=limits, placement=placement
    ).all_facts()


def _refuse(error: LacegramError | LimitExceeded) -> int:
    """Print why there is no result; return the exit code."""
    if isinstance(error, LimitExceeded):
        print_json(error.to_dict())
        return Exit.LIMIT
    for diagnostic in error.diagnostics:
        print_diagnostic(diagnostic)
    return Exit.BAD_INPUT


def _wanted(lacegram: Lacegram, names: tuple[str, ...]) -> set[Predicate]:
    derived = {rule.head.predicate for rule in lacegram.rules}
    wanted: set[Predicate] = set()
    for name in names:
        found = {p for p in derived if name in {p.name, str(p)}}
        if not found:
            echo(f"no rule defines {redact(name)}", err=True)
        wanted |= found
    return wanted


def _limits(text: str | None) -> Limits:
    if text is None:
        return DEFAULT_LIMITS
    names = {field.name for field in dataclasses.fields(Limits)}
    hint = f"Known limits: {', '.join(sorted(names))}."
    try:
        given: Any = json.loads(text)
        if isinstance(given, dict) and all(type(value) is int for value in given.values()):
            return dataclasses.replace(DEFAULT_LIMITS, **given)
        reason = "not a JSON object of whole numbers"
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        reason = "nested too deeply"
    except TypeError:
        reason = "an unknown limit"
    raise UsageError(f"--limits: {reason}", code=Code.INPUT_JSON, hint=hint)
