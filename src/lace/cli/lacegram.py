"""``lace check`` and ``lace fmt``: rules, for the people who write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from lace.cli.exitcodes import Exit
from lace.cli.files import STANDARD_INPUT, read_at_most, write_output
from lace.cli.output import echo, write_text
from lace.cli.render import json_option, print_json
from lace.datalog.ast import Rule
from lace.datalog.canonical import canonical_atom, canonical_part, canonical_rule
from lace.datalog.check import CheckedText
from lace.datalog.parse import parse_lacegram
from lace.datalog.roles import Role
from lace.errors import Diagnostic, LacegramError, Severity
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import feedback, foreign_faults, module_from_text
from lace.rulefiles import RuleText, read_rules
from lace.rules import check_lacegram
from lace.text import redact
from lace.vocabulary import (
    ALLOW_QUERY_RECORD,
    EXPOSE,
    PLAIN,
    ROLES,
    SELECT_ADVERTISED,
    SELECT_HAVE,
    SELECTOR,
)

_WIDTH: Final = 100

_FOREIGN: Final = "foreign"


def _role_option(*more: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    help = (
        "What the rules are for; it decides which names are reserved.  [default: told by what "
        "they define: SelectHave or SelectAdvertised a selector, AllowQueryRecord an expose module]"
    )
    return click.option("--role", type=click.Choice(sorted((*ROLES, *more))), help=help)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@_role_option(_FOREIGN)
@json_option
def check(files: tuple[str, ...], role: str | None, form: str | None) -> int:
    """Say everything that is wrong with the rules in each FILE: where, what, and how to mend it.

    The role foreign is that of a selector for somebody else's lace: it also says what a peer
    refuses because it costs too much.

    \b
    Example:
      lace check rules.lacegram
      lace check --role foreign rules.lacegram
    """
    failed = False
    for file in files:
        if file == STANDARD_INPUT:
            source, origins = _read(file), None
        else:
            origins = read_rules(Path(file))
            source = origins.text.encode()
        meant = _role(source, role)
        checked = check_lacegram(source, meant)
        if meant is SELECTOR and not checked.errors:
            more = tuple(feedback(checked.parsed.rules))
            if role == _FOREIGN:
                more += _foreign(source)
            checked = replace(checked, diagnostics=(*checked.diagnostics, *more))
        failed = failed or bool(checked.errors)
        if form == "json":
            _print(file, checked, origins)
        else:
            _show(file, source, checked, origins)
    return Exit.BAD_INPUT if failed else Exit.OK


@click.command()
@click.argument("file")
@_role_option()
@click.option("--write", is_flag=True, help="Replace FILE instead of printing.")
def fmt(file: str, role: str | None, write: bool) -> int:
    """Write the rules in FILE in one style; comments, notes and order stay.

    (For the canonical text that identifies a lacegram, see lace plumb lacegram canon.)

    \b
    Example:
      lace fmt rules.lacegram
    """
    source = _read(file)
    checked = check_lacegram(source, _role(source, role))
    if checked.errors:
        _show(file, source, checked)
        return Exit.BAD_INPUT
    text = "".join(f"{line}\n" for line in _styled(source.decode(), checked)).encode()
    if write and file != "-":
        write_output(file, text, overwrite=True)
    else:
        write_text(text)
    return Exit.OK


def _styled(source: str, checked: CheckedText) -> Iterator[str]:
    """Yield the lines of a text with each rule in the one style, and at most one blank between."""
    lines = source.rstrip().split("\n")
    done = 0
    blank = True
    rules = zip(checked.parsed.rules, checked.parsed.lines, strict=True)
    for rule, (first, last) in [*rules, (None, (len(lines) + 1, 0))]:
        for line in lines[done : first - 1]:
            if line.strip() or not blank:
                yield line.strip()
            blank = not line.strip()
        if rule is not None:
            yield from _rule_lines(rule)
            blank = False
        done = last


def _rule_lines(rule: Rule) -> list[str]:
    """Return a rule on one line if it fits, else its head and then one body atom a line."""
    line = canonical_rule(rule)
    if len(line) <= _WIDTH:
        return [line]
    *body, last = map(canonical_part, rule.body)
    return [f"{canonical_atom(rule.head)} :-", *(f"  {part}," for part in body), f"  {last}."]


def _role(source: bytes, named: str | None) -> Role:
    """Return the role that is named, else the one that the defined predicates tell."""
    if named is not None:
        return SELECTOR if named == _FOREIGN else ROLES[named]
    defined = {rule.head.predicate for rule in parse_lacegram(source).rules}
    if not defined.isdisjoint((SELECT_HAVE, SELECT_ADVERTISED)):
        return SELECTOR
    return EXPOSE if ALLOW_QUERY_RECORD in defined else PLAIN


def _foreign(source: bytes) -> tuple[Diagnostic, ...]:
    """Return why a peer would refuse a text that is sound under its role."""
    try:
        module = module_from_text(source)
    except LacegramError as error:
        return error.diagnostics
    return tuple(foreign_faults(module))


def _read(file: str) -> bytes:
    return read_at_most(file, DEFAULT_LIMITS.lacegram_bytes + 1)


def _print(file: str, checked: CheckedText, origins: RuleText | None) -> None:
    """Print what is wrong with rules as objects, then what they are."""
    for diagnostic in checked.diagnostics:
        path, there = (Path(file), diagnostic) if origins is None else origins.located(diagnostic)
        print_json(
            {
                "code": str(there.code),
                "column": there.column,
                "file": path.name,
                "hint": there.hint,
                "length": there.length,
                "line": there.line,
                "message": there.message,
                "severity": str(there.severity),
            }
        )
    fine = not checked.errors
    print_json(
        {
            "errors": len(checked.errors),
            "file": file,
            "id": checked.lacegram.id if fine else None,
            "rules": len(checked.lacegram.rules) if fine else None,
            "warnings": len(checked.diagnostics) - len(checked.errors),
        }
    )


def _show(file: str, source: bytes, checked: CheckedText, origins: RuleText | None = None) -> None:
    lines = source.decode("utf-8", "replace").split("\n")
    for diagnostic in checked.diagnostics:
        line = lines[diagnostic.line - 1] if diagnostic.line <= len(lines) else ""
        path, there = (Path(file), diagnostic) if origins is None else origins.located(diagnostic)
        echo("\n".join(_caret(path.name, line, there)), err=True)
    errors = len(checked.errors)
    warnings = _counted(len(checked.diagnostics) - errors, "warning")
    if errors:
        echo(f"{file}: {_counted(errors, 'error')}, {warnings}", err=True)
    else:
        rules = _counted(len(checked.lacegram.rules), "rule")
        echo(f"{file}: {rules}, {warnings}, {checked.lacegram.id}")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _caret(file: str, line: str, diagnostic: Diagnostic) -> list[str]:
    """Return the message, the line with a caret under the fault, and how to mend it."""
    word = "error" if diagnostic.severity is Severity.ERROR else "warning"
    place = f"{file}:{diagnostic.line}:{diagnostic.column}"
    number = f"{diagnostic.line:>5} | "
    carets = "^" * max(1, min(diagnostic.length, len(line) - diagnostic.column + 1))
    indent = " " * (len(number) + diagnostic.column - 1)
    return [
        f"{place}: {word}: {diagnostic.message} [{diagnostic.code}]",
        f"{number}{redact(line)}",
        f"{indent}{carets}",
        f"        {diagnostic.code.meaning}",
        f"        {diagnostic.hint}",
        "",
    ]
