"""Rules as values. Nodes know where they stood in the text, but compare by what they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

OPERATORS: Final = ("<", "<=", ">", ">=")
Operator = Literal["<", "<=", ">", ">="]

#: Names that are part of the language; no rule may define or use them as ordinary predicates (A4).
BUILTINS: Final = ("IntCompare", "LexCompare", "TextShape", "Cardinality")
KEYWORDS: Final = ("not", "true")
RETIRED: Final = "Prefix"


class Predicate(NamedTuple):
    """A name together with an arity: ``A/1`` and ``A/2`` are two predicates."""

    name: str
    arity: int

    def __str__(self) -> str:
        return f"{self.name}/{self.arity}"

    def __call__(self, *terms: Term) -> Atom:
        """Return the atom of this predicate with these terms."""
        assert len(terms) == self.arity, f"{self} has no {len(terms)} terms"
        return Atom(self.name, terms)


class Span(NamedTuple):
    """A place in a text: line and column from 1, and how many characters it covers."""

    line: int
    column: int
    length: int = 1


NOWHERE: Final = Span(1, 1)


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: str


@dataclass(frozen=True, slots=True)
class Anonymous:
    """``_``: matches anything, binds nothing, each use on its own."""


Term = Variable | Constant | Anonymous


@dataclass(frozen=True, slots=True)
class Atom:
    """``Name(term,…)``."""

    name: str
    terms: tuple[Term, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def predicate(self) -> Predicate:
        return Predicate(self.name, len(self.terms))


@dataclass(frozen=True, slots=True)
class Negated:
    """``not Name(term,…)``."""

    atom: Atom
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NotEqual:
    """``X != Y``."""

    left: Term
    right: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """``IntCompare(A,Op,B)`` or ``LexCompare(A,Op,B)``."""

    kind: Literal["IntCompare", "LexCompare"]
    left: Term
    operator: Operator
    right: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TextShape:
    """``TextShape(Text,Start,Delims,End)``; the delimiters are a constant."""

    text: Term
    start: Term
    delimiters: str
    end: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``Cardinality(Name(term,…),Op,N)``."""

    atom: Atom
    operator: Operator
    bound: Term
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Truth:
    """``true``."""

    span: Span = field(default=NOWHERE, compare=False)


Test = NotEqual | Compare | TextShape
"""Decides on bound values alone."""

BodyAtom = Atom | Negated | NotEqual | Compare | TextShape | Cardinality | Truth


@dataclass(frozen=True, slots=True)
class Rule:
    """``head :- body.``"""

    head: Atom
    body: tuple[BodyAtom, ...]
    span: Span = field(default=NOWHERE, compare=False)


def variables(terms: tuple[Term, ...]) -> Iterator[str]:
    """Yield the names of the variables among ``terms``, repeats too."""
    return (term.name for term in terms if isinstance(term, Variable))


def tested_terms(test: Test) -> tuple[Term, ...]:
    """Return the terms that a test looks at."""
    if isinstance(test, TextShape):
        return test.text, test.start, test.end
    return test.left, test.right


def atom_of(part: BodyAtom) -> Atom | None:
    """Return the predicate atom in a body atom, whatever stands around it."""
    if isinstance(part, Atom):
        return part
    return part.atom if isinstance(part, Negated | Cardinality) else None
