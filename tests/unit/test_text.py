from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace import text, unicode
from lace.errors import Code, EncodingError


@pytest.mark.req("010-REC-08")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("plain", None),
        ("é", None),
        ("e\u0301", Code.TEXT_NFC),
        ("\u212b", Code.TEXT_NFC),  # ANGSTROM SIGN has a singleton decomposition
        ("\u0378", Code.TEXT_UNASSIGNED),
        ("\ufdd0", Code.TEXT_UNASSIGNED),
        ("\U0010ffff", Code.TEXT_UNASSIGNED),
        ("\ue000\U0010fffd", None),  # private use
        ("\ud800", Code.TEXT_UTF8),
        ("\u0301", None),  # a combining mark alone is in NFC
        ("\x85", None),  # C1 controls are not among the forbidden bytes
    ],
)
def test_the_text_rule(value: str, code: Code | None) -> None:
    assert text.fault(value) is code


@pytest.mark.parametrize("value", ["a\nb", "a\tb", "\x00", "\x1f", "\x7f"])
def test_a_line_has_no_control_characters(value: str) -> None:
    assert text.line_fault(value) is Code.TEXT_CONTROL


def test_a_line_is_not_empty() -> None:
    assert text.line_fault("") is Code.TEXT_EMPTY


def test_broken_utf8_says_where() -> None:
    with pytest.raises(EncodingError, match="byte 2"):
        text.decode_utf8(b"ab\xff")


def unquote(quoted: str) -> str:
    assert quoted[0] == quoted[-1] == "'"
    result, escaped = "", False
    for character in quoted[1:-1]:
        if escaped:
            assert character in "\\'"
            result, escaped = result + character, False
        elif character == "\\":
            escaped = True
        else:
            assert character != "'"
            result += character
    assert not escaped
    return result


@given(st.text(st.sampled_from("a\\' é"), max_size=10))
def test_quoting_is_reversible(value: str) -> None:
    assert unquote(text.quote(value)) == value


def test_fact_lines() -> None:
    assert text.fact_line("P", ("a", "it's")) == r"P('a','it\'s')"
    assert text.fact_line("Now", ()) == "Now()"


@given(st.text(max_size=100) | st.binary(max_size=100))
def test_shown_text_is_short_and_printable(value: str | bytes) -> None:
    shown = text.shown(value)
    assert shown.isprintable()
    assert len(shown) < 700


# Marks of several classes, characters that decompose, and characters that marks compose with.
_MARKS = "ae\u0301\u0323\u0327\u0338\u0344\u0f71\u0f72\u0f73\u1ea5\u1ea1\u3099か\u1100\u1161"


@pytest.mark.req("010-REC-08")
@given(st.text(st.sampled_from(_MARKS), max_size=12))
def test_the_text_rule_is_nfc_whatever_marks_follow_each_other(value: str) -> None:
    is_nfc = unicode.normalize("NFC", value) == value
    assert text.fault(value) is (None if is_nfc else Code.TEXT_NFC)
    found = text.fault_at(value)
    assert (found is None) is is_nfc
    if found is not None:
        code, at = found
        assert code is Code.TEXT_NFC
        assert 0 <= at < len(value)


@pytest.mark.parametrize(
    "value",
    [
        "a" + "\u0301\u0323" * 50_000,
        "\u0f71" + "\u0f73" * 50_000,
        "\u1ea5" + "\u0301\u0323" * 50_000,
        "a\u0323\u0301 " * 100 + "\u0301\u0323" * 50_000,
    ],
)
def test_no_run_of_marks_out_of_order_is_ever_normalised(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To order n marks takes n x n steps, in one call that nothing can interrupt.
    real = unicode.normalize
    longest = 0

    def normalize(form: str, given: str) -> str:
        nonlocal longest
        parts = "".join(real("NFD", character) for character in given[:1000])
        classes = map(unicode.combining, parts)
        if any(0 < b < a for a, b in itertools.pairwise(classes)):
            longest = max(longest, len(given))
        return str(real(form, given))

    monkeypatch.setattr(unicode, "normalize", normalize)
    assert text.fault(value) is Code.TEXT_NFC
    found = text.fault_at(value)
    assert found is not None
    assert found[0] is Code.TEXT_NFC
    assert longest < 2000
