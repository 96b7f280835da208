"""Everything that can go wrong, in one place.

Three kinds of failure, never mixed:

* ``Diagnostic`` — a value; a text can have many of them, each with a place and a hint.
* ``Outcome`` — a value per record; bad bytes are data, never an exception.
* ``LaceError`` — an exception; it ends the operation that raised it.

The exception tree::

    LaceError
    ├── UsageError          the caller asked for something that cannot be
    ├── EncodingError       a text form (B64A, TAI, id, URC, UTF-8, NFC) is malformed
    ├── RecordError         a record cannot be built as asked
    ├── LacegramError       rules that cannot be used; carries its diagnostics
    ├── PolicyError         a policy that cannot be used
    ├── LimitExceeded       a configured limit stopped the work; says which, configured, observed
    ├── InterlaceAborted    an exchange ended early; carries reason, blame and partial result
    ├── ProtocolError       a peer did not keep to the protocol
    ├── StoreError          the record store cannot do what was asked; nothing stored is lost
    ├── TransportError      the byte stream failed
    └── LakeError           the bulk pipeline failed

Every exception and every rejected outcome names a ``Code``: stable text that programs may rely on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from lace.codes import Code as Code  # noqa: PLC0414  (errors and their codes come together)
from lace.codes import install_line

T = TypeVar("T")


class Status(StrEnum):
    """What became of one record."""

    ACCEPTED = "accepted"
    """It is valid, and new."""
    DUPLICATE = "duplicate"
    """It is valid, and was here already."""
    REJECTED = "rejected"
    """It is not valid."""
    REFUSED = "refused"
    """It is valid, and was not taken."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of one record; ``value`` is there exactly when it was accepted or a duplicate."""

    status: Status
    """What became of it."""
    value: T | None = None
    """The record, if there is one."""
    code: Code | None = None
    """Why there is none, for programs."""
    detail: str = ""
    """Why, in words."""

    @property
    def ok(self) -> bool:
        """Whether there is a record."""
        return self.value is not None

    def unwrap(self) -> T:
        """Return the value, or raise the ``RecordError`` that this outcome stands for."""
        if self.value is None:
            raise RecordError(self.detail or self.status, code=self.code or Code.RECORD_MALFORMED)
        return self.value


class Severity(StrEnum):
    ERROR = "error"
    """It cannot be used so."""
    WARNING = "warning"
    """It can be used, but is probably not what was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem in a text, with its place (1-based) and a hint."""

    code: Code
    """What is wrong, for programs."""
    message: str
    """What is wrong, in words."""
    line: int
    """The line, from 1."""
    column: int
    """The character in the line, from 1."""
    length: int = 1
    """How many characters it is about."""
    severity: Severity = Severity.ERROR
    """Whether it is an error, or only a warning."""
    hint: str = ""
    """What to do about it."""


class LaceError(Exception):
    """Root of the tree; ``code`` is stable, ``hint`` says what to do."""

    def __init__(self, message: str, *, code: Code, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint or code.fix
        self.add_note(self.hint)  # a traceback shows it below the message

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON: code, detail and hint."""
        return {"code": str(self.code), "detail": self.message, "hint": self.hint}


class UsageError(LaceError):
    """The caller asked for something that cannot be."""


def wrong_type(wanted: str, given: object, hint: str = "") -> UsageError:
    """Return the error for an argument of another type than is wanted."""
    return UsageError(f"this takes {wanted}, not {a_kind(given)}", code=Code.INPUT_TYPE, hint=hint)


def a_kind(given: object) -> str:
    """Return the type of an argument in words."""
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


class MissingExtra(UsageError):
    """An optional part of Lace is not installed; ``hint`` holds the line that installs it.

    Where this Python cannot have it yet, ``hint`` says why, and which Pythons can.
    """

    def __init__(self, extra: str, message: str, *, code: Code, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint or install_line(extra))
        self.extra = extra


class EncodingError(LaceError):
    """A text form is malformed."""


class RecordError(LaceError):
    """A record cannot be built as asked, or was needed valid and is not."""


class LacegramError(LaceError):
    """Rules that cannot be used; ``diagnostics`` says everything that is wrong with them."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        first = diagnostics[0]
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(
            f"line {first.line}, column {first.column}: {first.message}{more}",
            code=first.code,
            hint=first.hint,
        )
        self.diagnostics = diagnostics


class PolicyError(LaceError):
    """A policy, operand or plan that cannot be used."""


class ProtocolError(LaceError):
    """A peer did not keep to the protocol; it ends the exchange, and nothing else."""


class LocalProtocolError(LaceError):
    """Whoever drives an exchange did something that has no place there: a fault of this side."""


class InterlaceAborted(LaceError):
    """An exchange ended early; ``blame`` says where the reason lies, ``result`` what was done."""

    def __init__(self, message: str, *, code: Code, blame: str, result: Any) -> None:
        super().__init__(message, code=code)
        self.blame = blame
        self.result = result

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON: code, detail, hint and blame."""
        return super().to_dict() | {"blame": str(self.blame)}


class StoreError(LaceError):
    """The record store cannot do what was asked; what was stored stays stored."""


class TransportError(LaceError):
    """The byte stream could not be had, or failed."""


class LakeError(LaceError):
    """The bulk pipeline cannot do what was asked; what was committed stays committed."""


class LimitExceeded(LaceError):
    """A configured limit stopped the work."""

    def __init__(self, limit: str, *, configured: int, observed: int) -> None:
        super().__init__(
            f"limit {limit} is {configured}, observed {observed}", code=Code.LIMIT_EXCEEDED
        )
        self.limit = limit
        self.configured = configured
        self.observed = observed

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON: also the limit, its value, and what was observed."""
        return super().to_dict() | {
            "limit": self.limit,
            "configured": self.configured,
            "observed": self.observed,
        }
