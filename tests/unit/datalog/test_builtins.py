"""The built-in tests, alone and in rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lacegrams import derive
from showing import showing

from lace import b64a
from lace.datalog.builtins import integer_compare, integer_key, text_compare, text_shape

BIG = "1" + "0" * 400


def holds(test: str) -> bool:
    return derive(f"A('y') :- {test}.") == {"A('y')"}


@pytest.mark.req("030-INT-01", "030-INT-02", "030-INT-03", "030-INT-04")
@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        ("9", "<", "10", True),
        ("10", "<=", "10", True),
        ("10", "<", "10", False),
        ("10", ">", "9", True),
        ("10", ">=", "11", False),
        (BIG, "<", BIG[:-1] + "1", True),
        (str(2**64), "<", str(2**64 + 1), True),
        (str(2**53), "<", str(2**53 + 1), True),
        ("-10", "<", "-9", True),
        ("-9", "<", "0", True),
        ("0", "<", "3", True),
        ("-" + BIG, "<", "-1", True),
        ("007", "<=", "7", True),
        ("007", ">=", "7", True),
        ("-0", ">=", "0", True),
        ("-0", "<=", "0", True),
        ("-007", "<", "-6", True),
    ],
)
def test_integers(left: str, operator: str, right: str, expected: bool) -> None:
    assert integer_compare(left, operator, right) is expected
    assert holds(f"IntCompare('{left}','{operator}','{right}')") is expected


@pytest.mark.req("030-INT-07")
@pytest.mark.parametrize(
    "value", ["", "+1", "1.0", " 1", "1e3", "٣", "abc", "-", "--1", "1_0", "1\n"]
)
def test_what_is_no_integer_makes_the_test_false(value: str) -> None:
    assert integer_key(value) is None
    facts = ["B('5')"] if "\n" in value else [f"B('{value}')", "B('5')"]
    rule = "A(X) :- B(X), IntCompare(X,'>=','-9').\n"
    assert derive(rule, facts) == {"A('5')"}
    assert derive("A(X) :- B(X), B(Y), IntCompare(Y,'<',X).\n", facts) == set()


@pytest.mark.req("030-INT-02")
@given(st.integers(), st.integers())
def test_integers_order_as_integers(a: int, b: int) -> None:
    for operator in ("<", "<=", ">", ">="):
        assert integer_compare(str(a), operator, str(b)) is eval(f"a {operator} b")  # noqa: S307


@pytest.mark.req("030-LEX-01", "030-LEX-02", "030-LEX-03", "030-LEX-04", "030-LEX-05", "030-LEX-06")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Z", "a"),
        ("z", "é"),
        ("\ufffd", "\U00010000"),
        ("", "a"),
        ("a", "aa"),
        ("10", "9"),
        ("1640995200:000000000", "1640995200:000000001"),
        ("1640995200:000000001", "1640995201:000000000"),
    ],
)
def test_text_order(left: str, right: str) -> None:
    assert holds(f"LexCompare('{left}','<','{right}')")
    assert not holds(f"LexCompare('{right}','<=','{left}')")
    assert holds(f"LexCompare('{left}','<=','{left}')")
    assert not holds(f"LexCompare('{left}','<','{left}')")
    assert not holds(f"LexCompare('{left}','>','{left}')")


@pytest.mark.req("030-LEX-01", "030-LEX-02")
@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_text_order_is_the_order_of_utf8_bytes(a: str, b: str) -> None:
    assert text_compare(a, "<", b) is (a.encode() < b.encode())


@pytest.mark.req("030-LEX-07")
def test_digest_text_orders_as_digests() -> None:
    chance = random.Random(3)
    for _ in range(1000):
        a, b = chance.randbytes(32), chance.randbytes(32)
        assert text_compare(b64a.encode(a), "<", b64a.encode(b)) is (a < b)


FAMILY = "👩\u200d👧"


SHAPES = {
    "case counts": ("links/a", "Links/", "", "", False),
    "a prefix": ("links/a", "links/", "", "", True),
    "shorter than the prefix": ("link", "links/", "", "", False),
    "a suffix": ("a.json", "", "", ".json", True),
    "shorter than the suffix": ("a.jso", "", "", ".json", False),
    "prefix and suffix": ("links/a.md", "links/", "", ".md", True),
    "nothing between prefix and suffix": ("links/.md", "links/", "", ".md", True),
    "prefix and suffix overlap": ("aba", "ab", "", "ba", False),
    "prefix and suffix meet": ("abba", "ab", "", "ba", True),
    "one letter for both": ("a", "a", "", "a", False),
    "two letters for both": ("aa", "a", "", "a", True),
    "nothing at all": ("", "", "", "", True),
    "anything": ("x", "", "", "", True),
    "the prefix itself": ("links/", "links/", "", "", True),
    "a segment up to a slash": ("links/bob/msg", "links/", "./", "msg", True),
    "a segment up to a dot": ("links/bob.msg", "links/", "./", "msg", True),
    "no delimiter": ("links/msg", "links/", "./", "msg", False),
    "two segments": ("links/bob/alice/msg", "links/", "./", "msg", False),
    "the first delimiter counts": ("a/b/c", "", "/", "c", False),
    "a delimiter after the start": ("links/.msg", "links/", "./", "msg", False),
    "a delimiter at the start": ("/msg", "", "/", "msg", False),
    "delimiters in the start": ("a/b/c/d", "a/b/", "/", "d", True),
    "delimiters in the end": ("x/y/z", "", "/", "y/z", True),
    "a delimiter at the end": ("links/bob/", "links/", "/", "", True),
    "more after the delimiter": ("links/bob/x", "links/", "/", "", False),
    "no delimiter and no end": ("links/bob", "links/", "/", "", False),
    "a delimiter named twice": ("links/bob/msg", "links/", "//", "msg", True),
    "a delimiter named twice and not there": ("links/msg", "links/", "//", "msg", False),
    "half of another letter": ("aèb", "", "é", "b", False),
    "a letter beyond the first plane": ("a😀b", "", "😀", "b", True),
    "inside a cluster": (FAMILY, "", "\u200d", "👧", True),
}
SHAPES_SHOW = {
    "case counts": "030-TXT-04",
    "a prefix": "030-TXT-05",
    "shorter than the prefix": "030-TXT-05",
    "a suffix": "030-TXT-06",
    "shorter than the suffix": "030-TXT-06",
    "prefix and suffix": "030-TXT-07",
    "nothing between prefix and suffix": "030-TXT-07",
    "prefix and suffix overlap": "030-TXT-08",
    "prefix and suffix meet": "030-TXT-08",
    "one letter for both": "030-TXT-08",
    "two letters for both": "030-TXT-08",
    "nothing at all": "030-TXT-09",
    "anything": "030-TXT-09",
    "the prefix itself": "030-TXT-10",
    "a segment up to a slash": "030-TXT-11",
    "a segment up to a dot": "030-TXT-11",
    "no delimiter": "030-TXT-12",
    "two segments": "030-TXT-13",
    "the first delimiter counts": "030-TXT-13",
    "a delimiter after the start": "030-TXT-14",
    "a delimiter at the start": "030-TXT-14",
    "delimiters in the start": "030-TXT-15",
    "delimiters in the end": "030-TXT-16",
    "a delimiter at the end": "030-TXT-17",
    "more after the delimiter": "030-TXT-17",
    "no delimiter and no end": "030-TXT-12 030-TXT-17",
    "a delimiter named twice": "030-TXT-18",
    "a delimiter named twice and not there": "030-TXT-18",
    "half of another letter": "030-TXT-19",
    "a letter beyond the first plane": "030-TXT-19",
    "inside a cluster": "030-TXT-20",
}


@pytest.mark.parametrize(
    ("text", "start", "delimiters", "end", "expected"), showing(SHAPES, SHAPES_SHOW)
)
def test_text_shape(text: str, start: str, delimiters: str, end: str, expected: bool) -> None:
    assert text_shape(text, start, delimiters, end) is expected
    assert holds(f"TextShape('{text}','{start}','{delimiters}','{end}')") is expected
    # Once more with the text from a fact, where the test is made part of what is loaded.
    rule = f"A(K) :- B(K), TextShape(K,'{start}','{delimiters}','{end}').\n"
    assert derive(rule, [f"B('{text}')"]) == ({f"A('{text}')"} if expected else set())


@pytest.mark.req("030-TXT-03")
def test_start_and_end_may_come_from_facts() -> None:
    facts = ["Name('links/a')", "Name('other/a')", "Pre('links/')", "End('a')"]
    rule = "A(K) :- Name(K), Pre(S), End(E), TextShape(K,S,'',E).\n"
    assert derive(rule, facts) == {"A('links/a')"}


@pytest.mark.req("030-EQ-04")
def test_inequality_is_of_text() -> None:
    assert not holds("'a' != 'a'")
    assert holds("'01' != '1'")
