"""Values of declared types: what a text or data of a record stands for, exactly or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
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


def check_types(types: Mapping[str, Type]) -> None:
    """Raise ``UsageError`` unless every one of these is a type."""
    for name, type in types.items():
        if type not in READERS:
            raise UsageError(
                f"{shown(str(type))} is no type for {name}; there are {', '.join(READERS)}",
                code=Code.INPUT_TYPE,
            )


def read_value(text: str | bytes, type: Type) -> Value:
    """Return a value of a declared type, or raise ``ValueError`` if the text is none."""
    try:
        return READERS[type](text)
    except (ArithmeticError, RecursionError, LaceError):
        raise ValueError(f"not of type {type}") from None


def _text(cell: str | bytes) -> str:
    return cell.decode() if isinstance(cell, bytes) else cell


def _bytes(cell: str | bytes) -> bytes:
    return cell if isinstance(cell, bytes) else cell.encode()


def _int(cell: str | bytes) -> int:
    text = _text(cell)
    if len(text) > MOST_DIGITS:
        raise ValueError
    number = int(text)
    if not -(1 << _INT_BITS) <= number < 1 << _INT_BITS:
        raise ValueError
    return number


def _decimal(cell: str | bytes) -> Decimal:
    text = _text(cell)
    if len(text) > MOST_DIGITS:
        raise ValueError
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > MOST_DIGITS // 2:
        raise InvalidOperation
    return number


def _datetime(cell: str | bytes) -> datetime:
    found = moment(read_instant(_text(cell)))
    if found is None:
        raise ValueError
    return found


def _json(cell: str | bytes) -> Value:
    return cast("Value", json.loads(_text(cell)))


READERS: Final[dict[str, Callable[[str | bytes], Value]]] = {
    "text": _text,
    "bytes": _bytes,
    "int": _int,
    "decimal": _decimal,
    "datetime": _datetime,
    "json": _json,
}
