"""From text to rules, reporting every problem at once (spec 030, A13).

The authoring form lets rules run over several lines and takes ``#`` comments and ``#:json`` notes
between rules. The core form has one rule a line and nothing else. Both allow blanks freely; only
``canonical`` decides on one spelling.

After a problem the parser goes on at the next rule: behind the next full stop that ends a line, or
at the next line that begins with a name.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, NoReturn

from lace import text
from lace.datalog.ast import (
    BUILTINS,
    KEYWORDS,
    OPERATORS,
    RETIRED,
    Anonymous,
    Atom,
    BodyAtom,
    Cardinality,
    Compare,
    Constant,
    Negated,
    NotEqual,
    Operator,
    Rule,
    Span,
    Term,
    TextShape,
    Truth,
    Variable,
)
from lace.datalog.canonical import Lacegram, RuleId, canonical_lacegram, canonical_rule, rule_id
from lace.errors import Code, Diagnostic, LacegramError
from lace.limits import DEFAULT_LIMITS, Limits

Form = Literal["authoring", "core"]

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\n]+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_~-]*)
      | (?P<constant>'(?:[^'\\\n\r]|\\[^\n\r])*')
      | (?P<mark>:-|!=|[(),.])
      | (?P<wrong>'[^\n]*|"[^"\n]*"?|-?[0-9][0-9A-Za-z.]*|[=<>!]=?|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PREDICATE: Final = re.compile(r"_?[A-Za-z][A-Za-z0-9_~-]*")
_VARIABLE: Final = re.compile(r"[A-Z][A-Za-z0-9_]*")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_COMMENT: Final = re.compile(r"^[ \t]*#(?P<note>:json)?(?P<rest>[^\n]*)$", re.MULTILINE)
_PROBLEMS_SHOWN: Final = 200
_PREFIX_TOKENS: Final = 8  # two terms with what stands around them, and one more to tell


class Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Problem(Exception):
    """Ends the reading of one rule."""


@dataclass(slots=True)
class ParsedText:
    """What a text says, and everything that is wrong with it."""

    rules: list[Rule] = field(default_factory=list)
    lines: list[tuple[int, int]] = field(default_factory=list)
    """The first and last line of each rule."""
    notes: dict[RuleId, dict[str, Any]] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def lacegram(self) -> Lacegram:
        """The canonical lacegram; raises ``LacegramError`` if anything is wrong with the text."""
        if self.diagnostics:
            raise LacegramError(tuple(self.diagnostics))
        return canonical_lacegram(self.rules, self.notes)


def parse_lacegram(
    source: str | bytes,
    form: Form = "authoring",
    limits: Limits = DEFAULT_LIMITS,
    *,
    most_problems: int = _PROBLEMS_SHOWN,
) -> ParsedText:
    """Read a text until it is done or has too many problems; never raises for what is in it."""
    return _Parser(source, form, limits, most_problems).parse()


def parse_canonical(source: bytes, limits: Limits = DEFAULT_LIMITS) -> Lacegram:
    """Return the lacegram of canonical bytes; any other spelling raises ``LacegramError``."""
    lacegram = parse_lacegram(source, "core", limits, most_problems=1).lacegram
    if lacegram.text.encode() != source:
        raise LacegramError((_not_canonical(lacegram.text, source.decode()),))
    return lacegram


def _not_canonical(expected: str, got: str) -> Diagnostic:
    """Say where a text leaves its canonical form."""
    pairs = zip(expected, got, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(got)))
    line_start = got.rfind("\n", 0, at) + 1
    return Diagnostic(
        code=Code.LACEGRAM_NOT_CANONICAL,
        message="the text is not in canonical form from here on",
        line=got.count("\n", 0, at) + 1,
        column=at - line_start + 1,
        hint=Code.LACEGRAM_NOT_CANONICAL.fix,
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _line_starts(source: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", source))]


class _Parser:
    def __init__(self, source: str | bytes, form: Form, limits: Limits, most_problems: int) -> None:
        self._form = form
        self._most_problems = most_problems
        self._limits = limits
        self._result = ParsedText()
        self._starts = [0]
        self._text = self._decode(source)
        self._tokens: list[Token] = []
        self._next = 0
        self._notes: deque[tuple[int, dict[str, Any]]] = deque()  # place, content; in order

    # --- the whole text ---

    def parse(self) -> ParsedText:
        body = self._take_comments()
        self._tokens = [
            Token(m.lastgroup or "", m.group(), m.start())
            for m in _TOKEN.finditer(body)
            if m.lastgroup != "blank"
        ]
        last_rule_end = -1
        while (
            self._next < len(self._tokens) and len(self._result.diagnostics) < self._most_problems
        ):
            first = self._next
            try:
                rule = self._rule()
                self._check_lines(self._tokens[first], last_rule_end)
                self._keep(rule, self._tokens[first].at)
            except _Problem:
                self._skip(first)
            last_rule_end = self._tokens[self._next - 1].at
        for at, _ in self._notes:
            self._report(at, Code.LACEGRAM_NOTE_ALONE, "no rule follows this note")
        self._result.diagnostics.sort(key=lambda d: (d.line, d.column))
        return self._result

    def _decode(self, source: str | bytes) -> str:
        """Return the text to parse: nothing, with the reason reported, if it is no text at all."""
        limit = self._limits.lacegram_bytes
        size = len(source) if isinstance(source, bytes) else len(source.encode("utf-8", "replace"))
        if size > limit:
            self._report(0, Code.LACEGRAM_TOO_LONG, f"the text is longer than {limit} bytes")
            return ""
        if isinstance(source, bytes):
            try:
                source = source.decode()
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode()
                self._starts = _line_starts(before)
                self._report(len(before), Code.TEXT_UTF8, "this byte is not valid UTF-8")
                return ""
        self._starts = _line_starts(source)
        carriage_return = source.find("\r")
        if carriage_return >= 0:
            hint = "End lines with LF only."
            self._report(carriage_return, Code.LACEGRAM_CHARACTER, "a carriage return", hint=hint)
            return ""
        fault = text.fault_at(source)
        if fault is not None:
            code, at = fault
            self._report(at, code, code.meaning)
            return ""
        return source

    def _take_comments(self) -> str:
        """Blank out comment lines, keeping the notes among them; places stay what they were."""

        def take(match: re.Match[str]) -> str:
            at = match.start() + len(match.group()) - len(match.group().lstrip())
            if self._form == "core":
                self._report(at, Code.LACEGRAM_COMMENT, "comments are not part of canonical text")
            elif match["note"]:
                self._note(at, match["rest"])
            return " " * len(match.group())

        return _COMMENT.sub(take, self._text)

    def _note(self, at: int, content: str) -> None:
        try:
            value = json.loads(content, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            self._notes.append((at, value))
        else:
            self._report(at, Code.LACEGRAM_NOTE, "a note is one JSON object on one line")

    def _keep(self, rule: Rule, start: int) -> None:
        end = self._tokens[self._next - 1].at
        self._result.rules.append(rule)
        self._result.lines.append((self._line(start), self._line(end)))
        while self._notes and self._notes[0][0] < end:
            at, note = self._notes.popleft()
            if at < start:
                self._result.notes.setdefault(rule_id(canonical_rule(rule)), {}).update(note)
            else:
                self._report(at, Code.LACEGRAM_COMMENT, "a note stands inside a rule")

    def _check_lines(self, first: Token, last_rule_end: int) -> None:
        if last_rule_end >= 0 and self._line(first.at) == self._line(last_rule_end):
            self._report(first.at, Code.LACEGRAM_TWO_RULES, "a second rule on this line")
        end = self._tokens[self._next - 1]
        if self._form == "core" and self._line(first.at) != self._line(end.at):
            self._report(first.at, Code.LACEGRAM_ONE_LINE, "a rule runs over several lines")
        inside = self._text[first.at : end.at]
        comment = _COMMENT.search(inside) if "\n" in inside and "#" in inside else None
        if comment and "\n" in inside[: comment.start() + 1]:
            self._report(
                first.at + comment.start(), Code.LACEGRAM_COMMENT, "a comment stands inside a rule"
            )

    def _skip(self, first: int) -> None:
        """Go to where the next rule probably begins."""
        self._next = max(self._next, first + 1)
        while self._next < len(self._tokens):
            before, token = self._tokens[self._next - 1], self._tokens[self._next]
            new_line = self._line(before.at) != self._line(token.at)
            if new_line and (before.text == "." or self._column(token.at) == 1):
                return
            self._next += 1

    # --- one rule ---

    def _rule(self) -> Rule:
        head = self._atom("a rule begins with its head")
        if self._peek("."):
            self._fail(self._tokens[self._next], Code.LACEGRAM_BODY, "the rule has no body")
        self._expect(":-", Code.LACEGRAM_SYNTAX, "':-' between head and body")
        if self._peek("."):
            self._fail(self._tokens[self._next], Code.LACEGRAM_BODY, "the body is empty")
        body = [self._part()]
        while self._accept(","):
            body.append(self._part())
        self._expect(".", Code.LACEGRAM_FULL_STOP, "'.' at the end of the rule")
        return Rule(head, tuple(body), head.span)

    def _part(self) -> BodyAtom:
        token = self._token("a body atom")
        following = self._tokens[self._next + 1].text if self._next + 1 < len(self._tokens) else ""
        if token.kind == "constant" or following == "!=":
            return self._not_equal()
        if following in {"=", "=="}:
            self._fail(
                self._tokens[self._next + 1],
                Code.LACEGRAM_EQUALITY,
                "'=' is not part of the language",
            )
        if token.text == "true" and following != "(":
            self._next += 1
            return Truth(self._span(token))
        if token.text == "not" and following != "(":
            self._next += 1
            return self._negated(token)
        match token.text:
            case "IntCompare" | "LexCompare":
                return self._compare(token)
            case "TextShape":
                return self._text_shape(token)
            case "Cardinality":
                return self._cardinality(token)
        return self._atom("a body atom is needed here")

    def _negated(self, start: Token) -> Negated:
        token = self._token("a predicate after 'not'")
        if token.text in BUILTINS or token.text in KEYWORDS or token.kind != "name":
            self._fail(token, Code.LACEGRAM_NEGATION, "'not' applies to predicates only")
        atom = self._atom("a predicate after 'not'")
        if self._peek("!="):
            self._fail(start, Code.LACEGRAM_NEGATION, "'not' applies to predicates only")
        return Negated(atom, self._span(start))

    def _not_equal(self) -> NotEqual:
        start = self._tokens[self._next]
        left = self._term()
        if self._next < len(self._tokens) and self._tokens[self._next].text in {"=", "=="}:
            self._fail(
                self._tokens[self._next], Code.LACEGRAM_EQUALITY, "'=' is not part of the language"
            )
        self._expect("!=", Code.LACEGRAM_SYNTAX, "'!=' after this term")
        return NotEqual(left, self._term(), self._span(start))

    def _compare(self, start: Token) -> Compare:
        arguments = self._arguments(start, 3)
        kind: Literal["IntCompare", "LexCompare"] = (
            "IntCompare" if start.text == "IntCompare" else "LexCompare"
        )
        (left, left_at), (operator, operator_at), (right, right_at) = arguments
        if kind == "IntCompare":
            self._check_integer(left, left_at)
            self._check_integer(right, right_at)
        return Compare(kind, left, self._operator(operator, operator_at), right, self._span(start))

    def _text_shape(self, start: Token) -> TextShape:
        (value, _), (begin, _), (delimiters, at), (end, _) = self._arguments(start, 4)
        if not isinstance(delimiters, Constant):
            self._fail(at, Code.LACEGRAM_DELIMITERS, "the delimiters are not a constant")
        return TextShape(value, begin, delimiters.value, end, self._span(start))

    def _cardinality(self, start: Token) -> Cardinality:
        self._next += 1
        self._expect("(", Code.LACEGRAM_SYNTAX, "'(' after Cardinality")
        token = self._token("a predicate to count")
        if token.text in BUILTINS or token.text in KEYWORDS or token.kind != "name":
            self._fail(token, Code.LACEGRAM_COUNTED, "only a predicate can be counted")
        atom = self._atom("a predicate to count")
        self._expect(",", Code.LACEGRAM_SYNTAX, "',' after the counted predicate")
        operator_at = self._token("an operator")
        operator = self._term()
        self._expect(",", Code.LACEGRAM_SYNTAX, "',' after the operator")
        bound_at = self._token("a number")
        bound = self._term()
        self._expect(")", Code.LACEGRAM_SYNTAX, "')' after the number")
        self._check_integer(bound, bound_at)
        if isinstance(bound, Anonymous):
            self._fail(bound_at, Code.LACEGRAM_ANONYMOUS, "'_' cannot be compared with")
        return Cardinality(atom, self._operator(operator, operator_at), bound, self._span(start))

    def _arguments(self, start: Token, count: int) -> list[tuple[Term, Token]]:
        self._next += 1
        self._expect("(", Code.LACEGRAM_SYNTAX, f"'(' after {start.text}")
        arguments = []
        while True:
            token = self._token("a term")
            arguments.append((self._term(), token))
            if not self._accept(","):
                break
        self._expect(")", Code.LACEGRAM_SYNTAX, f"')' after the arguments of {start.text}")
        if len(arguments) != count:
            self._fail(
                start,
                Code.LACEGRAM_ARITY,
                f"{start.text} takes {count} arguments, not {len(arguments)}",
            )
        return arguments

    def _operator(self, term: Term, at: Token) -> Operator:
        if isinstance(term, Constant):
            for operator in OPERATORS:
                if term.value == operator:
                    return operator
        return self._fail(at, Code.LACEGRAM_OPERATOR, "not one of '<' '<=' '>' '>='")

    def _check_integer(self, term: Term, at: Token) -> None:
        if isinstance(term, Constant) and not _INTEGER.fullmatch(term.value):
            self._fail(at, Code.LACEGRAM_INTEGER, f"{text.shown(term.value)} is not an integer")

    def _atom(self, what: str) -> Atom:
        token = self._token(what)
        if token.kind != "name" or not _PREDICATE.fullmatch(token.text):
            self._unexpected(token, what, Code.LACEGRAM_PREDICATE)
        if (
            token.text == RETIRED
            and self._next + 1 < len(self._tokens)
            and self._looks_like_prefix()
        ):
            self._fail(token, Code.LACEGRAM_PREFIX, "Prefix is not part of the language")
        if token.text in BUILTINS or token.text in KEYWORDS:
            self._fail(token, Code.LACEGRAM_RESERVED, f"{token.text} is part of the language")
        self._next += 1
        self._expect(
            "(", Code.LACEGRAM_SYNTAX, f"'(' after {token.text}", "Write () for no arguments."
        )
        terms: list[Term] = []
        if not self._accept(")"):
            terms.append(self._term())
            while self._accept(","):
                terms.append(self._term())
            self._expect(")", Code.LACEGRAM_SYNTAX, f"')' after the arguments of {token.text}")
        return Atom(token.text, tuple(terms), self._span(token))

    def _looks_like_prefix(self) -> bool:
        """Whether the retired two-argument test stands here (A3)."""
        depth = commas = 0
        for token in self._tokens[self._next + 1 : self._next + 1 + _PREFIX_TOKENS]:
            depth += (token.text == "(") - (token.text == ")")
            commas += token.text == ","
            if depth == 0:
                return commas == 1
        return False

    def _term(self) -> Term:
        token = self._token("a term")
        if token.kind == "constant":
            self._next += 1
            return Constant(self._unescape(token))
        if token.kind != "name":
            self._unexpected(token, "a term", Code.LACEGRAM_TERM)
        if self._next + 1 < len(self._tokens) and self._tokens[self._next + 1].text == "(":
            self._fail(token, Code.LACEGRAM_TERM, "a term cannot have arguments")
        if token.text == "_":
            self._next += 1
            return Anonymous()
        if _VARIABLE.fullmatch(token.text):
            self._next += 1
            return Variable(token.text)
        if token.text.startswith("_"):
            self._fail(
                token,
                Code.LACEGRAM_TERM,
                f"{token.text} is not a variable",
                f"Write _ or {token.text.strip('_').capitalize() or 'X'}.",
            )
        return self._fail(
            token,
            Code.LACEGRAM_TERM,
            f"{token.text} is neither a variable nor a constant",
            f"Write '{token.text}' for text; a variable begins with a capital and has no - or ~.",
        )

    def _unescape(self, token: Token) -> str:
        def one(match: re.Match[str]) -> str:
            if match.group(1) not in "\\'":
                at = Token("", match.group(), token.at + 1 + match.start())
                self._fail(at, Code.LACEGRAM_ESCAPE, f"{match.group()} is not an escape")
            return match.group(1)

        value = _ESCAPE.sub(one, token.text[1:-1])
        if len(value.encode()) > self._limits.value_bytes:
            limit = self._limits.value_bytes
            self._fail(token, Code.LACEGRAM_LIMIT, f"a constant is longer than {limit} bytes")
        return value

    # --- tokens and problems ---

    def _token(self, what: str) -> Token:
        if self._next >= len(self._tokens):
            self._fail(
                Token("end", "", max(0, len(self._text.rstrip()) - 1)),
                Code.LACEGRAM_SYNTAX,
                f"the text ends where {what} is needed",
            )
        return self._tokens[self._next]

    def _peek(self, mark: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].text == mark

    def _accept(self, mark: str) -> bool:
        if self._peek(mark):
            self._next += 1
            return True
        return False

    def _expect(self, mark: str, code: Code, what: str, hint: str = "") -> None:
        if self._accept(mark):
            return
        before = self._tokens[self._next - 1]
        ended = self._next >= len(self._tokens)
        if ended or self._line(before.at) != self._line(self._tokens[self._next].at):
            # What is missing is missing at the end of the line before.
            after = Token("end", "", before.at + len(before.text))
            self._fail(after, code, f"{what} is missing", hint)
        self._unexpected(self._tokens[self._next], what, code, hint)

    def _unexpected(self, token: Token, what: str, code: Code, hint: str = "") -> NoReturn:
        if token.kind == "wrong":
            first = token.text[0]
            if first == "'":
                self._fail(
                    token, Code.LACEGRAM_CONSTANT, "a constant has no closing quote on its line"
                )
            if first == '"':
                inner = token.text.strip('"')
                self._fail(token, Code.LACEGRAM_CONSTANT, "double quotes", f"Write '{inner}'.")
            if first in "=<>!":
                equality = token.text in {"=", "=="}
                self._fail(
                    token,
                    Code.LACEGRAM_EQUALITY if equality else Code.LACEGRAM_OPERATOR,
                    f"{token.text} is not part of the language",
                    "" if equality else "Compare with IntCompare, LexCompare or !=.",
                )
            if token.text.lstrip("-").isdigit() and code is Code.LACEGRAM_TERM:
                self._fail(token, code, "a bare number", f"Write '{token.text}'.")
            if token.text[0].isdigit():
                self._fail(token, code, f"{text.shown(token.text)} is no name")
            self._fail(
                token, Code.LACEGRAM_CHARACTER, f"{text.shown(token.text)} has no place here"
            )
        self._fail(token, code, f"expected {what}, found {text.shown(token.text)}", hint)

    def _fail(self, token: Token, code: Code, message: str, hint: str = "") -> NoReturn:
        self._report(token.at, code, message, length=max(1, len(token.text)), hint=hint)
        raise _Problem

    def _report(
        self, at: int, code: Code, message: str, *, length: int = 1, hint: str = ""
    ) -> None:
        line, column = self._line(at), self._column(at)
        self._result.diagnostics.append(
            Diagnostic(
                code=code,
                message=message,
                line=line,
                column=column,
                length=length,
                hint=hint or code.fix,
            )
        )

    def _line(self, at: int) -> int:
        return bisect_right(self._starts, at)

    def _column(self, at: int) -> int:
        return at - self._starts[self._line(at) - 1] + 1

    def _span(self, token: Token) -> Span:
        return Span(self._line(token.at), self._column(token.at), len(token.text))
