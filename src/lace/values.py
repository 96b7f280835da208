"""Values of declared types: what a text or data of a record stands for, exactly or not at all.

A text stands for the same value on every machine and in every language: digits are 0 to 9, nothing
stands around or between them, JSON is that of RFC 8259, and a time without a zone is in UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from math import isinf
from typing import Any, Final, Literal, cast

from lace.dates import moment, read_instant
from lace.errors import Code, LaceError, UsageError
from lace.text import shown

DATA: Final = "Data"
"""The column of the payload, which is no field (A42)."""

Type = Literal["text", "bytes", "int", "decimal", "datetime", "json"]
Cell = str | bytes | None
"""What stands in a record."""
Value = Cell | int | Decimal | datetime | dict[str, Any] | list[Any] | float | bool
"""The same, by its declared type."""

MOST_DIGITS: Final = 38
_INT_BITS: Final = 63
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[Ee][+-]?[0-9]+)?")


class NoValue(ValueError):
    """A text is not of a type; its message says so."""


def check_types(types: Mapping[str, Type]) -> None:
    """Raise ``UsageError`` unless every one of these is a type."""
    for name, type in types.items():
        if type not in READERS:
            raise UsageError(
                f"{shown(str(type))} is no type for {name}; there are {', '.join(READERS)}",
                code=Code.INPUT_TYPE,
            )


def read_value(text: str | bytes, type: Type) -> Value:
    """Return a value of a declared type, or raise ``NoValue`` if the text is none."""
    try:
        return READERS[type](text)
    except NoValue as error:
        raise NoValue(f"{shown(text)} is not of type {type}: {error}") from None
    except (ValueError, ArithmeticError, RecursionError, LaceError):
        raise NoValue(f"{shown(text)} is not of type {type}") from None


def _text(cell: str | bytes) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell


def _bytes(cell: str | bytes) -> bytes:
    return cell if isinstance(cell, bytes) else cell.encode()


def _int(cell: str | bytes) -> int:
    text = _text(cell)
    if not _WHOLE.fullmatch(text):
        raise ValueError
    if len(text) > MOST_DIGITS or not -(1 << _INT_BITS) <= int(text) < 1 << _INT_BITS:
        raise NoValue(f"it goes from {-(1 << _INT_BITS)} to {(1 << _INT_BITS) - 1}")
    return int(text)


def _decimal(cell: str | bytes) -> Decimal:
    text = _text(cell)
    if not _NUMBER.fullmatch(text):
        raise ValueError
    if len(text) > MOST_DIGITS:
        raise NoValue(f"it has at most {MOST_DIGITS} characters")
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > MOST_DIGITS // 2:
        raise NoValue(f"its exponent goes from {-MOST_DIGITS // 2} to {MOST_DIGITS // 2}")
    return number


def _datetime(cell: str | bytes) -> datetime:
    # Local time would be another instant on another machine.
    found = moment(read_instant(_text(cell), UTC))
    if found is None:
        raise ValueError
    return found


def _json(cell: str | bytes) -> Value:
    made = json.loads(_text(cell), parse_constant=_no_json, parse_float=_finite)
    return cast("Value", made)


def _no_json(word: str) -> float:
    raise NoValue(f"JSON has no {word}")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise NoValue(f"{shown(text)} is too large a number")
    return number


READERS: Final[dict[str, Callable[[str | bytes], Value]]] = {
    "text": _text,
    "bytes": _bytes,
    "int": _int,
    "decimal": _decimal,
    "datetime": _datetime,
    "json": _json,
}
