from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace import b64a
from lace.errors import EncodingError


@pytest.mark.req("006-B64-01")
@given(st.binary(max_size=200))
def test_round_trip(data: bytes) -> None:
    text = b64a.encode(data)
    assert b64a.decode(text) == data
    assert len(text) == -(-8 * len(data) // 6)


@pytest.mark.req("006-B64-03")
@given(st.integers(0, 40), st.data())
def test_text_order_is_byte_order(size: int, data: st.DataObject) -> None:
    left, right = (data.draw(st.binary(min_size=size, max_size=size)) for _ in range(2))
    assert (b64a.encode(left) < b64a.encode(right)) is (left < right)


@pytest.mark.req("006-B64-02")
@given(st.text(st.sampled_from(b64a.ALPHABET.decode() + "=+/- \n\0é"), max_size=12))
def test_every_byte_string_has_one_spelling(text: str) -> None:
    try:
        data = b64a.decode(text)
    except EncodingError as error:
        assert str(error.code).startswith("b64a.")
    else:
        assert b64a.encode(data) == text


def test_a_lone_surrogate_is_refused_as_any_other_foreign_character() -> None:
    with pytest.raises(EncodingError):
        b64a.decode("\ud800")
