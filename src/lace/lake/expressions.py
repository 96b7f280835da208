"""The tests of the rule language as Spark expressions, exactly as ``datalog.builtins`` has them.

Spark compares text by its UTF-8 bytes and counts its length in code points, as the language does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812

from lace.datalog.builtins import integer_compare, integer_key, text_compare, text_shape
from lace.datalog.program import ViewTest

if TYPE_CHECKING:
    from pyspark.sql import Column

Value = Callable[[int], "Column"]
"""The column of a numbered variable."""

_DIGITS: Final = "0123456789"
_NINES: Final = "9876543210"
_CHAINED: Final = 32


def test_column(test: ViewTest, value: Value) -> Column:
    """Return whether a test holds; the constants among its terms stay constants."""
    terms = (test.left, test.right, test.end)
    constants = [term for term in terms if isinstance(term, str)]
    if len(constants) == len(terms):
        return F.lit(_decide(test, *constants))
    left, right, end = (F.lit(t) if isinstance(t, str) else value(t) for t in terms)
    match test.kind:
        case "NotEqual":
            return left != right
        case "LexCompare":
            return _ordered(left, test.operator, right)
        case "IntCompare":
            return compare_integers(left, test.operator, right)
        case "TextShape":
            return _shape(left, right, test.operator, end)


def compare_integers(left: Column, operator: str, right: Column) -> Column:
    """Compare texts as integers of any length; false when either is none (A5)."""
    whole = _is_integer(left) & _is_integer(right)
    return whole & _ordered(_integer_key(left), operator, _integer_key(right))


def compare_count(count: Column, operator: str, bound: str | Column) -> Column:
    """Compare a number of rows with a bound, which may be no number at all."""
    if isinstance(bound, str):
        if integer_key(bound) is None:
            return F.lit(False)
        bound = F.lit(bound)
    return compare_integers(count.cast("string"), operator, bound)


def all_of(conditions: list[Column]) -> Column:
    return reduce(and_, conditions, F.lit(True))


def any_of(conditions: list[Column]) -> Column:
    """Return whether any of some conditions holds; there may be hundreds.

    A chain of so many would be as deep as it is long, and Spark's planner goes down by recursion.
    """
    if len(conditions) <= _CHAINED:
        return reduce(or_, conditions)
    groups = [conditions[at : at + _CHAINED] for at in range(0, len(conditions), _CHAINED)]
    return F.array_contains(F.array(*map(any_of, groups)), F.lit(True))


def _decide(test: ViewTest, left: str, right: str, end: str) -> bool:
    match test.kind:
        case "NotEqual":
            return left != right
        case "LexCompare":
            return text_compare(left, test.operator, right)
        case "IntCompare":
            return integer_compare(left, test.operator, right)
        case "TextShape":
            return text_shape(left, right, test.operator, end)


def _ordered(left: Column, operator: str, right: Column) -> Column:
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return left >= right


def _is_integer(text: Column) -> Column:
    return text.rlike(r"\A-?[0-9]+\z")


def _integer_key(text: Column) -> Column:
    digits = F.regexp_replace(text, r"\A-?0*", "")
    negative = text.startswith("-") & (digits != "")
    return F.struct(
        F.when(negative, 0).otherwise(1).alias("sign"),
        F.when(negative, -F.length(digits)).otherwise(F.length(digits)).alias("length"),
        F.when(negative, F.translate(digits, _DIGITS, _NINES)).otherwise(digits).alias("digits"),
    )


def _shape(text: Column, start: Column, delimiters: str, end: Column) -> Column:
    begins = text.startswith(start)
    if not delimiters:
        fits = F.length(text) >= F.length(start) + F.length(end)
        return begins & fits & text.endswith(end)
    some = "".join(f"\\x{{{ord(character):x}}}" for character in delimiters)
    rest = F.substr(text, F.length(start) + F.lit(1))
    segment = F.regexp_extract(rest, rf"\A([^{some}]+)[{some}]", 1)
    after = F.substr(rest, F.length(segment) + F.lit(2))
    return begins & (segment != "") & (after == end)
