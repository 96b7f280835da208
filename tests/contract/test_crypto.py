"""One contract for every crypto provider; on hostile input above all."""

from __future__ import annotations

import random

import pytest
from blake3 import blake3
from forge import KEY
from hypothesis import given, settings
from hypothesis import strategies as st

from lace.crypto import CryptoProvider, SigningKey, native, reference
from lace.crypto.provider import ADHOC_KEY, AUX, CHALLENGE, NONCE, N, P
from lace.ids import digest_of

PROVIDERS = pytest.mark.parametrize("provider", [native, reference], ids=["native", "reference"])
X = digest_of(KEY.verifier)
MESSAGE = bytes(range(32))
SIGNATURE = KEY.sign(MESSAGE, b"\x01" * 32)

# Where BLAKE3's tree changes shape: blocks of 64, chunks of 1024, subtrees of powers of two.
SIZES = (0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 5120, 8193)


@PROVIDERS
@pytest.mark.parametrize("size", SIZES)
def test_digest(provider: CryptoProvider, size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert provider.digest(data) == blake3(data).digest()


@PROVIDERS
def test_the_digest_of_nothing_is_blake3s(provider: CryptoProvider) -> None:
    known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert provider.digest(b"").hex() == known


@pytest.mark.req("009-SIG-03")
@PROVIDERS
@pytest.mark.parametrize("context", [ADHOC_KEY, AUX, NONCE, CHALLENGE])
def test_derive(provider: CryptoProvider, context: str) -> None:
    for length in (32, 64, 100):
        expected = blake3(b"input", derive_key_context=context).digest(length=length)
        assert provider.derive(context, b"input", length) == expected


@pytest.mark.req("009-SIG-03")
def test_the_four_contexts_are_exact_and_give_different_keys() -> None:
    contexts = (ADHOC_KEY, AUX, NONCE, CHALLENGE)
    assert [c.encode() for c in contexts] == [
        b"lace-\xf0\x9f\x96\xa7/adhoc-key",
        b"lace-\xf0\x9f\x96\xa7/aux",
        b"lace-\xf0\x9f\x96\xa7/nonce",
        b"lace-\xf0\x9f\x96\xa7/challenge",
    ]
    assert len({native.derive(c, b"x") for c in contexts}) == 4


@pytest.mark.req("009-SIG-06")
@PROVIDERS
@pytest.mark.parametrize(
    ("x", "message", "signature"),
    [
        (X[:-1], MESSAGE, SIGNATURE),
        (X, MESSAGE[:-1], SIGNATURE),
        (X, MESSAGE, SIGNATURE[:-1]),
        (X, MESSAGE, SIGNATURE + b"\0"),
        (b"", b"", b""),
    ],
)
def test_wrong_sizes_do_not_verify(
    provider: CryptoProvider, x: bytes, message: bytes, signature: bytes
) -> None:
    assert provider.verify(X, MESSAGE, SIGNATURE)
    assert not provider.verify(x, message, signature)


def scalar(value: int) -> bytes:
    return value.to_bytes(32, "big")


hostile_words = st.one_of(
    st.sampled_from([0, 1, 2, N - 1, N, N + 1, P - 1, P, P + 1, 2**256 - 1]).map(scalar),
    st.binary(min_size=32, max_size=32),
)


@pytest.mark.req("009-SIG-06")
@settings(max_examples=60, deadline=None)
@given(
    x=st.just(X) | hostile_words,
    message=st.just(MESSAGE) | hostile_words,
    r=st.just(SIGNATURE[:32]) | hostile_words,
    s=st.just(SIGNATURE[32:]) | hostile_words,
)
def test_providers_agree_on_hostile_input(x: bytes, message: bytes, r: bytes, s: bytes) -> None:
    assert native.verify(x, message, r + s) is reference.verify(x, message, r + s)


@pytest.mark.req("009-SIG-02", "009-SIG-06")
@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(0, 95))
def test_providers_agree_on_honest_input_and_one_changed_byte(
    material: bytes, message: bytes, place: int
) -> None:
    key = SigningKey(material)
    x, signature = digest_of(key.verifier), key.sign(message)
    assert native.verify(x, message, signature)
    assert reference.verify(x, message, signature)
    changed = bytearray(message + signature)
    changed[place] ^= 0x80
    assert not native.verify(x, bytes(changed[:32]), bytes(changed[32:]))


@pytest.mark.req("009-SIG-06")
def test_the_slow_way_decides_like_the_fast_way() -> None:
    """Recovery cannot take e = 0 or x >= n; what stands in for it must give the same answers."""
    e = int.from_bytes(native.derive(CHALLENGE, SIGNATURE[:32] + X + MESSAGE), "big") % N
    assert native._verify_slowly(X, e, SIGNATURE)
    assert not native._verify_slowly(X, e, SIGNATURE[:-1] + bytes([SIGNATURE[-1] ^ 1]))
    assert not native._verify_slowly(X, (e + 1) % N, SIGNATURE)
    assert not native._verify_slowly(scalar(P), e, SIGNATURE)
    point = native.public_point(scalar(7))
    even = scalar(7) if point[0] == 2 else scalar(N - 7)
    assert native._verify_slowly(X, 0, point[1:] + even)  # e = 0: R' = s·G
    assert not native._verify_slowly(X, 0, point[1:] + scalar(0))  # infinity
    d = int.from_bytes(KEY._scalar, "big")
    assert not native._verify_slowly(X, 5, point[1:] + scalar(5 * d % N))  # infinity
