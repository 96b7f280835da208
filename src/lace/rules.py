"""Rules over records: the rule engine, told the vocabulary of Lace."""

from __future__ import annotations

from collections.abc import Iterable

from lace.datalog import check, program, source
from lace.datalog.canonical import Lacegram
from lace.datalog.check import CheckedText
from lace.datalog.parse import Form
from lace.datalog.program import RuleProgram
from lace.datalog.roles import Role
from lace.datalog.source import Fact
from lace.limits import DEFAULT_LIMITS, Limits
from lace.vocabulary import EXCHANGE_SCHEMA, PLAIN, PLAIN_SCHEMA


def check_lacegram(
    source: str | bytes,
    role: Role = PLAIN,
    *,
    form: Form = "authoring",
    limits: Limits = DEFAULT_LIMITS,
) -> CheckedText:
    """Read a text and judge it under a role; never raises for what is in it."""
    return check.check_lacegram(source, role, form=form, limits=limits)


def compile_program(lacegram: Lacegram) -> RuleProgram:
    """Return the program of a checked lacegram; fields of one record are looked at together."""
    return program.compile_program(lacegram, PLAIN_SCHEMA)


class MemorySource(source.MemorySource):
    """Facts held in memory, no more of them than the limits allow."""

    def __init__(self, facts: Iterable[Fact] = (), limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(facts, limits, PLAIN_SCHEMA)


class LocalFacts(source.MemorySource):
    """What one side of an exchange knows, held in memory.

    Facts of its own records are not limited: no peer can count them by what it adds (L62). What a
    peer advertises has a limit of its own.
    """

    def __init__(self, facts: Iterable[Fact] = (), limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(facts, limits.own, EXCHANGE_SCHEMA)
