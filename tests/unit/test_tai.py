from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace import tai
from lace.errors import Code, EncodingError

LAST_NS = 10**19 - 1
instants = st.integers(0, LAST_NS)


@pytest.mark.req("010-REC-11")
@given(instants)
def test_round_trip(nanoseconds: int) -> None:
    instant = tai.from_ns(nanoseconds)
    assert tai.to_ns(instant) == nanoseconds
    assert tai.parse_tai(instant) == instant


@pytest.mark.req("010-REC-11")
@given(instants, instants)
def test_text_order_is_time_order_and_differences_are_exact(a: int, b: int) -> None:
    left, right = tai.from_ns(a), tai.from_ns(b)
    assert (left < right) is (a < b)
    assert tai.add_ns(right, tai.difference_ns(left, right)) == left


@pytest.mark.req("010-REC-11")
def test_nanoseconds_carry_into_seconds() -> None:
    almost = tai.parse_tai("1640995200:999999999")
    assert tai.add_ns(almost, 1) == "1640995201:000000000"
    assert tai.add_ns(tai.Tai("1640995201:000000000"), -1) == almost


@pytest.mark.req("010-REC-11")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1640995200",
        "1640995200:00000000",
        "164099520:0000000000",
        "1640995200:0000000000",
        " 1640995200:000000000",
        "1640995200:000000000\n",
        "1640995200.000000000",
        "-640995200:000000000",
        "١640995200:000000000",
    ],
)
def test_malformed(text: str) -> None:
    with pytest.raises(EncodingError) as caught:
        tai.parse_tai(text)
    assert caught.value.code is Code.TAI_MALFORMED


@pytest.mark.req("010-REC-11")
@pytest.mark.parametrize("nanoseconds", [-1, LAST_NS + 1])
def test_out_of_range(nanoseconds: int) -> None:
    with pytest.raises(EncodingError) as caught:
        tai.from_ns(nanoseconds)
    assert caught.value.code is Code.TAI_RANGE


def unix(*date: int) -> int:
    return int(datetime(*date, tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("seconds", "offset"),
    [
        (0, 10),
        (unix(1972, 6, 30), 10),
        (unix(1972, 7, 1), 11),
        (unix(1999, 1, 1) - 1, 31),
        (unix(1999, 1, 1), 32),
        (unix(2016, 12, 31), 36),
        (unix(2017, 1, 1), 37),
        (unix(2026, 1, 1), 37),
    ],
)
def test_offset_in_force(seconds: int, offset: int) -> None:
    assert tai.offset_at_unix(seconds) == offset
    assert tai.from_unix_ns(seconds * 10**9) == f"{seconds + offset:010d}:000000000"


@given(st.integers(0, 4_000_000_000 * 10**9))
def test_unix_round_trip(nanoseconds: int) -> None:
    assert tai.to_unix_ns(tai.from_unix_ns(nanoseconds)) == nanoseconds


def test_a_leap_second_maps_to_the_second_after_it() -> None:
    leap = tai.add_ns(tai.from_unix_ns((unix(2017, 1, 1) - 1) * 10**9), 10**9)
    assert tai.to_unix_ns(leap) == unix(2017, 1, 1) * 10**9
