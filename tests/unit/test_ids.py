from __future__ import annotations

from collections.abc import Callable

import pytest

from lace import ids
from lace.errors import Code, EncodingError

HASH = "P.tyYEj0zIBrq7IDVBPzaErPIq5p03OhpTTm14ePsSz80.H3"
VERIFIER = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"


def test_ids_are_their_own_text() -> None:
    assert ids.parse_record_hash(HASH) == HASH
    assert ids.parse_verifier(VERIFIER) == VERIFIER
    assert ids.record_hash("P", ids.digest_of(ids.RecordHash(HASH))) == HASH
    assert ids.verifier_from_x(ids.digest_of(ids.Verifier(VERIFIER))) == VERIFIER


@pytest.mark.req("020-FAC-06")
def test_other_formats_may_be_named_but_are_no_record_hash() -> None:
    assert ids.parse_link_target("S.abc.H9") == "S.abc.H9"
    assert not ids.is_record_hash("S.abc.H9")
    assert not ids.is_link_target("S.abc.H3")  # the supported suffix has its length
    assert not ids.is_link_target("S.abc.h9")
    assert not ids.is_link_target("S..H9")


@pytest.mark.req("009-SIG-01")
@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (ids.parse_record_hash, ""),
        (ids.parse_record_hash, VERIFIER),
        (ids.parse_record_hash, HASH + "\n"),
        (ids.parse_record_hash, HASH[:-4] + "1.H3"),  # spare bits
        (ids.parse_record_hash, HASH.replace("H3", "H9")),
        (ids.parse_link_target, "X.abc.H9"),
        (ids.parse_verifier, HASH),
        (ids.parse_verifier, VERIFIER[:-3]),
        (ids.parse_verifier, VERIFIER[2:]),
    ],
)
def test_malformed(parse: Callable[[str], str], text: str) -> None:
    with pytest.raises(EncodingError) as caught:
        parse(text)
    assert caught.value.code is Code.ID_MALFORMED


@pytest.mark.req("009-SIG-01")
def test_a_signature_is_86_characters() -> None:
    assert ids.is_signature("0" * 86)
    assert not ids.is_signature("0" * 85)
    assert not ids.is_signature("0" * 85 + "1")
