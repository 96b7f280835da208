from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable

import pytest
from forge import KEY

from lace import b64a
from lace.crypto import SigningKey, keys, native
from lace.crypto.provider import ADHOC_KEY, N
from lace.errors import Code, EncodingError, UsageError
from lace.ids import digest_of

MESSAGE = bytes(32)
SECRET = KEY.reveal()


@pytest.mark.req("009-SIG-01", "009-SIG-04")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "&..H3",
        SECRET[2:],
        SECRET[:-3],
        SECRET + "\n",
        SECRET.replace("&.", "V."),
        SECRET.replace(".H3", ".H9"),
        f"&.{b64a.encode(bytes(31))}.H3",
        f"&.{b64a.encode(bytes(33))}.H3",
        f"&&.{SECRET[2:]}",
        f"{SECRET}.H3",
        "&." + SECRET,
    ],
)
def test_malformed_secrets_are_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(EncodingError) as caught:
        SigningKey.from_secret_text(text)
    assert caught.value.code is Code.KEY_SECRET_MALFORMED
    assert SECRET[2:-3] not in f"{caught.value} {caught.value.to_dict()}"
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.req("009-SIG-04")
@pytest.mark.parametrize("size", [0, 31, 33])
def test_material_has_32_bytes(size: int) -> None:
    with pytest.raises(UsageError):
        SigningKey(bytes(size))


@pytest.mark.req("009-SIG-04")
def test_the_scalar_is_the_first_block_in_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 0 and of n and above are passed over; chance alone would never show it."""
    stream = bytes(32) + b"\xff" * 32 + N.to_bytes(32, "big") + (5).to_bytes(32, "big")

    def derive(context: str, _data: bytes, length: int) -> bytes:
        assert context == ADHOC_KEY
        return stream[:length]

    monkeypatch.setattr(native, "derive", derive)
    assert keys._derive_scalar(b"m" * 32) == (5).to_bytes(32, "big")


@pytest.mark.req("009-SIG-02")
def test_keys_have_even_y() -> None:
    for index in range(20):
        key = SigningKey(bytes([index]) * 32)
        assert native.public_point(key._scalar) == b"\x02" + digest_of(key.verifier)


@pytest.mark.req("009-SIG-05")
def test_each_signature_draws_fresh_randomness() -> None:
    assert KEY.sign(MESSAGE) != KEY.sign(MESSAGE)
    assert KEY.sign(MESSAGE, b"a" * 32) == KEY.sign(MESSAGE, b"a" * 32)


@pytest.mark.req("009-SIG-05")
@pytest.mark.parametrize("aux", [bytes(32), b"a" * 31, b"a" * 33, b""])
def test_unusable_randomness_is_refused(aux: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        KEY.sign(MESSAGE, aux)
    assert caught.value.code is Code.KEY_AUX


def test_only_digests_are_signed() -> None:
    with pytest.raises(UsageError) as caught:
        KEY.sign(b"a message")
    assert caught.value.code is Code.KEY_MESSAGE


def test_a_wrong_signature_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "verify", lambda *_: False)
    with pytest.raises(RuntimeError) as caught:
        KEY.sign(MESSAGE)
    assert SECRET[2:-3] not in str(caught.value)


@pytest.mark.req("009-SIG-07")
def test_a_key_does_not_show_its_secret(caplog: pytest.LogCaptureFixture) -> None:
    body = SECRET[2:-3]
    logging.getLogger("test").warning("key %s %r", KEY, KEY)
    shown = f"{KEY} {KEY!r} {vars(SigningKey)} {caplog.text} {KEY.__getstate__!r}"
    assert KEY.verifier in shown
    assert body not in shown
    assert KEY._scalar.hex() not in shown


@pytest.mark.req("009-SIG-07")
def test_a_key_is_not_copied_or_pickled_by_accident() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            attempt(KEY)


def test_keys_compare_by_verifier() -> None:
    again = SigningKey.from_secret_text(SECRET)
    assert again == KEY
    assert hash(again) == hash(KEY)
    assert SigningKey.generate() != KEY
    assert KEY != SECRET


@pytest.mark.parametrize("size", [0, 31, 33])
def test_scalars_have_their_32_bytes(size: int) -> None:
    """The library reads 32 bytes from wherever it is pointed to."""
    good, wrong = b"\1" * 32, b"\1" * size
    works: list[Callable[[], bytes]] = [
        lambda: native.public_point(wrong),
        lambda: native.negate(wrong),
        lambda: native.multiply_add(wrong, good, good),
        lambda: native.multiply_add(good, wrong, good),
        lambda: native.multiply_add(good, good, wrong),
    ]
    for work in works:
        with pytest.raises(ValueError, match="32 bytes"):
            work()
