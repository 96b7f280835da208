"""One contract for every crypto provider; on hostile input above all.

The curve is tried with each source of libsecp256k1 that this machine has, in one process.
"""

from __future__ import annotations

import ast
import inspect
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from blake3 import blake3
from forge import KEY
from hypothesis import given, settings
from hypothesis import strategies as st

from lace.crypto import CryptoProvider, SigningKey, hashing, libsecp256k1, reference
from lace.crypto import curve as own_curve
from lace.crypto.provider import ADHOC_KEY, AUX, CHALLENGE, NONCE, Claim, G, N, P
from lace.ids import digest_of


def curve_of(library: libsecp256k1.Library) -> ModuleType:
    """Return the module that does the arithmetic, over the library of one source."""
    spec = spec_from_file_location(f"curve_of_{library.source}", own_curve.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libsecp256k1, "LIBRARY", library)
        spec.loader.exec_module(module)
    return module


def curves() -> Iterator[ParameterSet]:
    for source in libsecp256k1.SOURCES:
        try:
            library = libsecp256k1.load(source)
        except ImportError as error:
            skip = pytest.mark.skip(reason=f"libsecp256k1 of {source}: {error}")
            yield pytest.param(None, id=source, marks=skip)
        else:
            yield pytest.param(curve_of(library), id=source)


FOUND = tuple(curves())
CURVES = pytest.mark.parametrize("curve", FOUND)
HASHES = pytest.mark.parametrize("provider", [hashing, reference], ids=["compiled", "plain"])
VERIFIERS = pytest.mark.parametrize("provider", [*FOUND, pytest.param(reference, id="plain")])
X = digest_of(KEY.verifier)
MESSAGE = bytes(range(32))
SIGNATURE = KEY.sign(MESSAGE, b"\x01" * 32)

# Where BLAKE3's tree changes shape: blocks of 64, chunks of 1024, subtrees of powers of two.
SIZES = (0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 5120, 8193)


@HASHES
@pytest.mark.parametrize("size", SIZES)
def test_digest(provider: CryptoProvider, size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert provider.digest(data) == blake3(data).digest()


def test_many_digests_are_those_of_each_text_alone() -> None:
    texts = [random.Random(size).randbytes(size) for size in (*SIZES, *reversed(SIZES))]
    assert hashing.digests(iter(texts)) == [reference.digest(text) for text in texts]
    assert hashing.digests([]) == []
    key = bytes(range(32))
    assert hashing.digests(texts, key=key) == [blake3(text, key=key).digest() for text in texts]


@pytest.mark.parametrize("cut", [0, 1, 64, 5000])
@pytest.mark.parametrize("kind", [{}, {"key": bytes(range(32))}, {"derive_key_context": CHALLENGE}])
def test_the_plain_hasher_does_what_the_package_does(kind: dict[str, Any], cut: int) -> None:
    data = random.Random(cut).randbytes(6000)
    ours, theirs = reference.Hasher(data[:cut], **kind), blake3(data[:cut], **kind)
    copy = ours.copy()
    assert ours.update(data[cut:]).digest() == theirs.update(data[cut:]).digest()
    assert ours.hexdigest(100) == theirs.hexdigest(length=100)
    assert copy.digest() == blake3(data[:cut], **kind).digest()
    assert ours.reset().digest(64) == blake3(**kind).digest(64)


@HASHES
def test_the_digest_of_nothing_is_blake3s(provider: CryptoProvider) -> None:
    known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert provider.digest(b"").hex() == known


@pytest.mark.req("009-SIG-03")
@HASHES
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
    assert len({hashing.derive(c, b"x") for c in contexts}) == 4


@pytest.mark.req("009-SIG-06")
@VERIFIERS
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


@CURVES
@pytest.mark.req("009-SIG-06")
@settings(max_examples=60, deadline=None)
@given(
    x=st.just(X) | hostile_words,
    message=st.just(MESSAGE) | hostile_words,
    r=st.just(SIGNATURE[:32]) | hostile_words,
    s=st.just(SIGNATURE[32:]) | hostile_words,
)
def test_providers_agree_on_hostile_input(
    curve: Any, x: bytes, message: bytes, r: bytes, s: bytes
) -> None:
    assert curve.verify(x, message, r + s) is reference.verify(x, message, r + s)


@CURVES
@pytest.mark.req("009-SIG-02", "009-SIG-06")
@settings(max_examples=25, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), st.integers(0, 95))
def test_providers_agree_on_honest_input_and_one_changed_byte(
    curve: Any, material: bytes, message: bytes, place: int
) -> None:
    key = SigningKey(material)
    x, signature = digest_of(key.verifier), key.sign(message)
    assert curve.verify(x, message, signature)
    assert reference.verify(x, message, signature)
    changed = bytearray(message + signature)
    changed[place] ^= 0x80
    assert not curve.verify(x, bytes(changed[:32]), bytes(changed[32:]))


@CURVES
@pytest.mark.req("009-SIG-02", "009-SIG-06")
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_many_signatures_hold_if_each_does(curve: Any, count: int) -> None:
    """Sound, false, malformed and out of recovery's reach, in any order."""
    chance = random.Random(count)
    words = [X, MESSAGE, *map(scalar, (0, 1, N - 1, N, P - 1, P, 2**256 - 1)), b"short"]
    claims: list[Claim] = []
    for _ in range(count):
        message = chance.randbytes(32)
        claim = [X, message, KEY.sign(message)]
        if chance.random() < 0.5:
            at = chance.randrange(3)
            claim[at] = chance.choice(words) + (chance.choice(words) if at == 2 else b"")
        claims.append((claim[0], claim[1], claim[2]))
    wanted = [curve.verify(*claim) for claim in claims]
    assert curve.verify_all(claims) == wanted
    assert count < 2 or {True, False} == set(wanted)


KEYS = [SigningKey(bytes([number]) * 32) for number in range(1, 7)]


def signed(key: SigningKey, message: bytes) -> Claim:
    return digest_of(key.verifier), message, key.sign(message)


def shifted(claim: Claim, by: int) -> Claim:
    """Return a claim whose signature is off by a multiple of the generator."""
    x, message, signature = claim
    s = (int.from_bytes(signature[32:], "big") + by) % N
    return x, message, signature[:32] + scalar(s)


def turned(claim: Claim, key: SigningKey) -> Claim:
    """Return a claim with the right x-coordinate, and the other y: what its key alone can make."""
    x, message, signature = claim
    d = int.from_bytes(key._scalar, "big")
    e = int.from_bytes(hashing.derive(CHALLENGE, signature[:32] + x + message), "big") % N
    s = (2 * e * d - int.from_bytes(signature[32:], "big")) % N
    return x, message, signature[:32] + scalar(s)


@CURVES
@pytest.mark.req("009-SIG-02", "009-SIG-06")
@settings(max_examples=40, deadline=None)
@given(
    made=st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from(["sound"] * 12 + ["off", "turned", "again", "swapped", "cut", "no R"]),
        ),
        max_size=40,
    ),
    by=st.sampled_from([1, 2, N - 1, N // 2, own_curve._HALVING]),
)
def test_signatures_by_several_keys_hold_together_as_they_do_alone(
    curve: Any, made: list[tuple[int, str]], by: int
) -> None:
    claims: list[Claim] = []
    for number, (place, kind) in enumerate(made):
        key = KEYS[place]
        claim = signed(key, number.to_bytes(32, "big"))
        x, message, signature = claim
        claims.append({
            "sound": claim,
            "off": shifted(claim, by),
            "turned": turned(claim, key),
            "again": claims[-1] if claims else claim,
            "swapped": (x, message, signature[32:] + signature[:32]),
            "cut": (x, message, signature[:-1]),
            "no R": (x, message, scalar(5) + signature[32:]),  # no point has this coordinate
        }[kind])  # fmt: skip
    assert curve.verify_all(claims) == [reference.verify(*claim) for claim in claims]


@CURVES
@pytest.mark.req("009-SIG-06")
def test_faults_that_would_cancel_out_do_not(curve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one signature has too much, another has too little: the plain sum of both is right."""
    sound = [signed(KEY, bytes([number]) * 32) for number in range(8)]
    claims = [shifted(sound[0], 1), shifted(sound[1], N - 1), *sound[2:]]
    wanted = [False, False, *[True] * 6]
    for _ in range(50):
        assert curve.verify_all(claims) == wanted
    with monkeypatch.context() as weightless:
        weightless.setattr(curve, "_weights", lambda count: [1] * count)
        assert curve.verify_all(claims) == [True] * 8  # so it is the weights that tell
    guessed = [1, *curve._weights(7)]  # whoever knew them could make faults that fit
    claims = [shifted(sound[0], guessed[1]), shifted(sound[1], N - 1), *sound[2:]]
    monkeypatch.setattr(curve, "_weights", lambda _: guessed[1:])
    assert curve.verify_all(claims) == [True] * 8
    monkeypatch.undo()
    assert curve.verify_all(claims) == wanted


@CURVES
def test_weights_are_short_for_the_library_and_all_different(curve: Any) -> None:
    beta, other = curve._HALVING, pow(curve._HALVING, 2, N)
    assert beta != 1
    assert (1 + beta + other) % N == 0  # a third root of one
    generator = curve.public_point(scalar(1))
    # It keeps y, as multiplying a point by a third root of one does.
    assert curve.public_point(scalar(beta))[0] == generator[0]
    drawn = curve._weights(1000)
    assert len(set(drawn)) == 1000
    assert all(0 < weight < N for weight in drawn)
    assert max(map(int.bit_length, drawn)) > 250
    assert curve._weights(0) == []
    assert set(drawn).isdisjoint(curve._weights(1000))


@CURVES
@pytest.mark.req("009-SIG-06")
def test_sums_that_the_library_has_no_point_for_are_looked_at_one_by_one(
    curve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of all R is infinity, or a weight is zero, or the sum of all challenges is."""
    sound = [signed(KEY, bytes([number]) * 32) for number in range(3)]
    for weights in ([0, 0], [0, 5]):
        monkeypatch.setattr(curve, "_weights", lambda _, weights=weights: weights)
        assert curve.verify_all(sound) == [True] * 3
    twice = [sound[0]] * 3
    for weights in ([N - 1, 1], [1, N - 2]):  # the second sum is infinity
        monkeypatch.setattr(curve, "_weights", lambda _, weights=weights: weights)
        assert curve.verify_all(twice) == [True] * 3


@CURVES
@pytest.mark.req("009-SIG-06")
@pytest.mark.parametrize("name", ["_prepare_point", "_weights", "_is_at"])
def test_whoever_verifies_in_the_middle_of_another_one_disturbs_nobody(
    curve: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler may do so, in the same thread."""
    sound = [signed(key, bytes([number]) * 32) for number in range(6) for key in KEYS[:2]]
    claims = [shifted(sound[0], 1), *sound[1:], signed(KEYS[2], bytes(32))]
    others = [signed(KEYS[3], bytes([number]) * 32) for number in range(4)]
    others += [shifted(others[0], 1), (scalar(5), bytes(32), others[0][2])]
    wanted = [reference.verify(*claim) for claim in others]
    real = getattr(curve, name)

    def interrupted(*given: object) -> object:
        found = real(*given)
        with monkeypatch.context() as inside:
            inside.setattr(curve, name, real)
            assert curve.verify_all(others) == wanted
            assert [curve.verify(*claim) for claim in others] == wanted
        return found

    monkeypatch.setattr(curve, name, interrupted)
    assert curve.verify_all(claims) == [False, *[True] * 12]
    assert [curve.verify(*claim) for claim in claims] == [False, *[True] * 12]


@CURVES
def test_threads_that_verify_do_not_disturb_each_other(curve: Any) -> None:
    chance = random.Random(1)
    claims: list[Claim] = []
    for number in range(400):
        message = chance.randbytes(32)
        signature = KEY.sign(message if number % 3 else MESSAGE)
        claims.append((X, message, signature))
    wanted = [bool(number % 3) for number in range(400)]
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(curve.verify_all, [claims] * 8):
            assert found == wanted


@CURVES
@pytest.mark.req("009-SIG-06")
def test_the_slow_way_decides_like_the_fast_way(curve: Any) -> None:
    """Recovery cannot take e = 0 or x >= n; what stands in for it must give the same answers."""
    e = int.from_bytes(hashing.derive(CHALLENGE, SIGNATURE[:32] + X + MESSAGE), "big") % N
    assert curve._verify_slowly(X, e, SIGNATURE)
    assert not curve._verify_slowly(X, e, SIGNATURE[:-1] + bytes([SIGNATURE[-1] ^ 1]))
    assert not curve._verify_slowly(X, (e + 1) % N, SIGNATURE)
    assert not curve._verify_slowly(scalar(P), e, SIGNATURE)
    point = curve.public_point(scalar(7))
    even = scalar(7) if point[0] == 2 else scalar(N - 7)
    assert curve._verify_slowly(X, 0, point[1:] + even)  # e = 0: R' = s·G
    assert not curve._verify_slowly(X, 0, point[1:] + scalar(0))  # infinity
    d = int.from_bytes(KEY._scalar, "big")
    assert not curve._verify_slowly(X, 5, point[1:] + scalar(5 * d % N))  # infinity


@pytest.mark.req("009-SIG-02")
@CURVES
@settings(max_examples=25, deadline=None)
@given(*[st.integers(1, N - 1)] * 3)
def test_what_is_done_with_secrets_is_arithmetic(curve: Any, a: int, b: int, c: int) -> None:
    point = reference.multiply(a, G)
    assert point is not None
    assert curve.public_point(scalar(a)) == bytes([2 + point[1] % 2]) + scalar(point[0])
    assert curve.negate(scalar(a)) == scalar(N - a)
    if (a * b + c) % N:
        assert curve.multiply_add(scalar(a), scalar(b), scalar(c)) == scalar((a * b + c) % N)


@CURVES
def test_secrets_out_of_range_are_refused(curve: Any) -> None:
    one = scalar(1)
    for wrong in (scalar(0), scalar(N), scalar(N + 1), scalar(2**256 - 1)):
        with pytest.raises(ValueError, match="out of range"):
            curve.public_point(wrong)
        with pytest.raises(ValueError, match="out of range"):
            curve.negate(wrong)
        with pytest.raises(ValueError, match="out of range"):
            curve.multiply_add(one, wrong, one)
    with pytest.raises(ValueError, match="out of range"):
        curve.multiply_add(one, one, scalar(N - 1))  # the sum is zero


def test_every_name_that_is_used_of_the_library_is_asked_for() -> None:
    """Two of the sources are private modules: what they lack is noticed before it is needed."""
    used = {
        node.attr
        for module in (own_curve, libsecp256k1)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and node.attr.startswith("secp256k1_")
    }
    assert used == set(libsecp256k1.FUNCTIONS)


@pytest.mark.parametrize("source", libsecp256k1.SOURCES)
def test_the_package_that_lace_installs_has_every_name(source: str) -> None:
    """Also the constant and the sizes that this project writes down itself."""
    try:
        library = libsecp256k1.load(source)
    except ImportError as error:
        assert source != "btclib_libsecp256k1", error
        pytest.skip(f"libsecp256k1 of {source}: {error}")
    assert all(hasattr(library.lib, name) for name in libsecp256k1.FUNCTIONS)
    assert getattr(library.lib, "SECP256K1_EC_COMPRESSED", 258) == libsecp256k1.COMPRESSED
    memory = library.memory
    if isinstance(memory, libsecp256k1._CffiMemory):
        for pointer, size in ((memory.point(), 64), (memory.signature(), 65)):
            assert memory._ffi.sizeof(memory._ffi.typeof(pointer).item) == size


def test_a_wheel_for_any_python_brings_the_library_beside_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its compiled module has no functions: the package around it loads them."""
    package = pytest.importorskip("btclib_libsecp256k1")
    monkeypatch.setitem(sys.modules, "_btclib_libsecp256k1", SimpleNamespace(ffi=package.ffi))
    assert libsecp256k1.load("btclib_libsecp256k1").lib is package.lib


def test_the_package_that_lace_installs_comes_first() -> None:
    assert libsecp256k1.LIBRARY is not None
    assert libsecp256k1.LIBRARY.source == next(iter(libsecp256k1.SOURCES)) == "btclib_libsecp256k1"


class Wrong:
    """A library that lacks a function, or one whose answers are wrong."""

    def __init__(self, lib: Any, **other: Any) -> None:
        self.lib, self.other = lib, other

    def __getattr__(self, name: str) -> Any:
        if name not in self.other:
            return getattr(self.lib, name)
        if self.other[name] is None:
            raise AttributeError(name)
        return self.other[name]


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ({"secp256k1_ecdsa_recover": None}, "it lacks secp256k1_ecdsa_recover"),
        ({"secp256k1_ec_pubkey_create": lambda *_: 1}, "it gives wrong answers"),
        ({"secp256k1_context_randomize": lambda *_: 0}, "its context cannot be randomised"),
        ({"secp256k1_context_create": lambda: None}, "takes 0 positional arguments"),
    ],
)
def test_a_library_that_cannot_be_used_is_passed_over(
    other: dict[str, Any], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert libsecp256k1.LIBRARY is not None
    lib, memory = Wrong(libsecp256k1.LIBRARY.lib, **other), libsecp256k1.LIBRARY.memory
    monkeypatch.setitem(libsecp256k1.SOURCES, "wrong", lambda: (lib, memory))
    with pytest.raises(ImportError, match=fault):
        libsecp256k1.load("wrong")
