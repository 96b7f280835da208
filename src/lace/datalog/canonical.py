"""The one spelling of rules and lacegrams, and the identifiers that follow from it (G5).

One rule a line, sorted by bytes, without duplicates, LF after each; no blanks inside atoms, one
after each comma between body atoms, one on both sides of ``:-`` and ``!=``. The order of atoms and
the names of variables are the author's and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NewType

from lace import b64a
from lace.crypto.native import digest
from lace.datalog.ast import (
    Anonymous,
    Atom,
    BodyAtom,
    Cardinality,
    Constant,
    Negated,
    Rule,
    Term,
    TextShape,
    Truth,
    Variable,
)
from lace.datalog.ast import Compare as CompareAtom
from lace.errors import Code, EncodingError
from lace.text import quote, shown

LacegramId = NewType("LacegramId", str)
"""``R.`` and the BLAKE3 hash of the canonical text."""

RuleId = NewType("RuleId", str)
"""``U.`` and the BLAKE3 hash of a domain string and one canonical line, without its LF."""

_RULE_DOMAIN: Final = b"lace-rule/v1"
_LACEGRAM_ID: Final = re.compile(rf"R\.{b64a.PATTERN_32.decode()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacegram:
    """Rules in canonical order, with the notes that their authors attached."""

    rules: tuple[Rule, ...]
    lines: tuple[str, ...]
    """The canonical line of each rule, without LF."""
    notes: dict[RuleId, dict[str, Any]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def id(self) -> LacegramId:
        return LacegramId(f"R.{b64a.encode(digest(self.text.encode()))}")

    @property
    def rule_ids(self) -> tuple[RuleId, ...]:
        return tuple(map(rule_id, self.lines))


def canonical_lacegram(
    rules: Iterable[Rule], notes: dict[RuleId, dict[str, Any]] | None = None
) -> Lacegram:
    """Return rules in canonical order: sorted by the bytes of their lines, duplicates dropped."""
    by_line = {canonical_rule(rule): rule for rule in rules}
    ordered = sorted(by_line.items(), key=lambda item: item[0].encode())
    return Lacegram(
        rules=tuple(rule for _, rule in ordered),
        lines=tuple(line for line, _ in ordered),
        notes=notes or {},
    )


def parse_lacegram_id(text: str) -> LacegramId:
    """Return ``text`` as a lacegram id, or raise; record, rule and plan ids are none."""
    if not _LACEGRAM_ID.fullmatch(text):
        raise EncodingError(f"{shown(text)} is not a lacegram id", code=Code.ID_MALFORMED)
    return LacegramId(text)


def rule_id(line: str) -> RuleId:
    """Return the id of a canonical line."""
    return RuleId(f"U.{b64a.encode(digest(_RULE_DOMAIN + line.encode()))}")


def canonical_rule(rule: Rule) -> str:
    """Return the one spelling of a rule."""
    return f"{canonical_atom(rule.head)} :- {', '.join(map(canonical_part, rule.body))}."


def canonical_part(part: BodyAtom) -> str:
    """Return the one spelling of a body atom."""
    match part:
        case Atom():
            return canonical_atom(part)
        case Negated():
            return f"not {canonical_atom(part.atom)}"
        case CompareAtom():
            return _call(part.kind, _term(part.left), quote(part.operator), _term(part.right))
        case TextShape():
            start, end = _term(part.start), _term(part.end)
            return _call("TextShape", _term(part.text), start, quote(part.delimiters), end)
        case Cardinality():
            counted = canonical_atom(part.atom)
            return _call("Cardinality", counted, quote(part.operator), _term(part.bound))
        case Truth():
            return "true"
    return f"{_term(part.left)} != {_term(part.right)}"


def canonical_atom(atom: Atom) -> str:
    return _call(atom.name, *map(_term, atom.terms))


def _call(name: str, *arguments: str) -> str:
    return f"{name}({','.join(arguments)})"


def _term(term: Term) -> str:
    match term:
        case Variable():
            return term.name
        case Constant():
            return quote(term.value)
        case Anonymous():
            return "_"
