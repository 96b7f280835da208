"""Fuzz the text forms (B64A, addresses, TAI) and signature verification. See README.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Final
from zlib import crc32

import atheris

from fuzzing import Choices, noise, start, vector_texts

# The reference is left alone: it is slow enough, and its branches are not what is explored here.
with atheris.instrument_imports(include=["lace"], exclude=["lace.crypto.reference"]):
    from lace import b64a, tai
    from lace.crypto import native, reference
    from lace.crypto.provider import CHALLENGE, G, N, P
    from lace.errors import EncodingError
    from lace.ids import RecordHash
    from lace.limits import DEFAULT_LIMITS
    from lace.urc import Coordinate, Prefix, parse_urc

_SECOND: Final = tai.NS_PER_SECOND
_LEAP_2017: Final = 1483228800
_B64A_32: Final = re.compile(b64a.PATTERN_32)
_B64A_64: Final = re.compile(b64a.PATTERN_64)
_BAD_SEGMENT: Final = re.compile(r"(?:^|/)(?:\.|\.\.|\||)(?:/|\Z)")
_DIGEST: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcde0"
_URC_PARTS: Final = (
    "", "//", "////", "/", "/|", "|", "/a", ".", "..", "a", "b/c", "é", "e\u0301", "\u0378",
    "\udc80", "\n", "plex", "/plex", "/seal", "/1700000000:000000001", "/170000000١:000000001",
    f"/V.{_DIGEST}.H3", f"/B.{_DIGEST}.H3", f"/P.{_DIGEST}.H3", f"/S.{_DIGEST}.H3",
    "/P.a.H3", "/S.~.X9", "/P.a.X9", f"////S.{_DIGEST}.H3",
)  # fmt: skip
_HOSTILE: Final = (
    0, 1, 2, N // 2, N // 2 + 1, N - 1, N, N + 1, N + 2, P - N, P - 1, P, P + 1, 2**256 - 1, *G,
)  # fmt: skip


def check(data: bytes) -> None:
    """Let the first byte choose what the other bytes are taken for."""
    if not data:
        return
    mode, rest = data[0] % 8, data[1:]
    if mode < 2:
        check_b64a(rest)
    elif mode == 2:
        check_urc(rest.decode("utf-8", "surrogateescape"))
    elif mode < 5:
        check_urc(_urc(Choices(rest)))
    elif mode < 7:
        check_tai(rest)
    else:
        check_verify(Choices(rest), with_reference=crc32(rest) % 8 == 0)


def check_b64a(data: bytes) -> None:
    """Each byte string has one spelling, each accepted text is one, and order is kept."""
    text = b64a.encode_ascii(data)
    assert b64a.fault(text) is None
    assert b64a.decode(text) == b64a.decode(b64a.encode(data)) == data
    if len(data) == 32:
        assert b64a.encode_digest(data) == text
    half = len(data) // 2
    left, right = data[:half], data[half:]
    assert (left < right) == (b64a.encode(left) < b64a.encode(right))

    near = bytes(b64a.ALPHABET[byte % 64] for byte in data)  # right letters, perhaps wrong bits
    for candidate in (data, near, near[:43], near[:86]):
        fault = b64a.fault(candidate)
        decoded, code = None, None
        try:
            decoded = b64a.decode(candidate)
        except EncodingError as error:
            code = error.code
        assert code is fault
        assert decoded is None or b64a.encode_ascii(decoded) == candidate
        for pattern, size in ((_B64A_32, 43), (_B64A_64, 86)):
            matches = pattern.fullmatch(candidate) is not None
            assert matches == (fault is None and len(candidate) == size)


def check_urc(address: str) -> None:
    """An address parses to something that is written the same way, or is refused politely."""
    urc, message = None, ""
    try:
        urc = parse_urc(address)
    except EncodingError as error:
        message = error.message
    assert message.isprintable()
    assert len(message) < 1000
    if urc is None:
        return
    assert str(urc) == address
    size = len(address.encode())
    assert parse_urc(address, replace(DEFAULT_LIMITS, urc_bytes=size)) == urc
    if isinstance(urc, Coordinate):
        assert not any(map(_BAD_SEGMENT.search, (urc.group, urc.app, urc.name)))
        assert urc.matches(urc.group, urc.app, urc.name)
        which = urc.selector
        if which and which.hash and which.tai:
            record = RecordHash(which.hash)
            assert which.selects(hash=record, tai=which.tai, signed_by=which.verifier)
    if isinstance(urc, Prefix):
        assert urc.matches(urc.group, urc.app, urc.name + "x")


def check_tai(data: bytes) -> None:
    """Text and nanoseconds go both ways without loss, and keep their order."""
    for text in (data.decode("utf-8", "surrogateescape"), _digits(data)):
        try:
            instant = tai.parse_tai(text)
        except EncodingError:
            continue
        assert instant == text
        assert tai.from_ns(tai.to_ns(instant)) == instant
    half = len(data) // 2
    left, right = (
        int.from_bytes(part[:9], "big", signed=True) for part in (data[:half], data[half:])
    )
    first, second = _instant(left), _instant(right)
    if first and second:
        assert (first < second) == (left < right)
        assert tai.add_ns(first, tai.difference_ns(second, first)) == second
    for unix in (left, (_LEAP_2017 - 50) * _SECOND + left % (100 * _SECOND)):
        with suppress(EncodingError):
            instant = tai.from_unix_ns(unix)
            assert tai.to_unix_ns(instant) == unix
            assert tai.to_ns(instant) - unix in range(10 * _SECOND, 38 * _SECOND, _SECOND)


def _instant(nanoseconds: int) -> tai.Tai | None:
    """Return the instant exactly when there is one."""
    try:
        instant = tai.from_ns(nanoseconds)
    except EncodingError:
        assert not 0 <= nanoseconds < 10**10 * _SECOND
        return None
    assert tai.to_ns(tai.parse_tai(instant)) == nanoseconds
    return instant


def check_verify(choices: Choices, *, with_reference: bool) -> None:
    """The quick verification decides as the definition does, above all for hostile values."""
    scalar, nonce = choices.number(1, 2**62), choices.number(1, 2**62)
    message = native.digest(choices.bytes(4))
    good: bool | None
    x, signature, good = _sign(scalar, nonce, message, choices.number(0, 3))
    fields = [x, message, signature[:32], signature[32:]]
    for _ in range(choices.pick((0, 0, 1, 2))):
        index = choices.number(0, 3)
        old = int.from_bytes(fields[index], "big")
        new = choices.pick(
            (old ^ 1 << choices.number(0, 255), N - old, P - old, N + old, *_HOSTILE)
        )
        fields[index] = (new % 2**256).to_bytes(32, "big")
        good = None
    if choices.number(0, 15) == 15:
        index = choices.number(0, 3)
        fields[index] = choices.bytes(40)
        good = None
    arguments = fields[0], fields[1], fields[2] + fields[3]
    answer = native.verify(*arguments)
    assert good is None or answer is good
    if with_reference or (answer and good is None):
        assert reference.verify(*arguments) is answer


def _sign(scalar: int, nonce: int, message: bytes, trick: int) -> tuple[bytes, bytes, bool]:
    """Return x, a signature, and whether it must hold; tricks aim at rules of their own.

    0, 1: none; 2: the nonce's point keeps an odd y; 3: the point that r is compared with is
    infinity.
    """
    key_point, nonce_point = _point(scalar), _point(nonce)
    d = N - scalar if key_point[0] == 3 else scalar
    odd = nonce_point[0] == 3
    k = N - nonce if odd != (trick == 2) else nonce
    x, r = key_point[1:], nonce_point[1:]
    e = int.from_bytes(native.derive(CHALLENGE, r + x + message), "big") % N
    s = (e * d + (0 if trick == 3 else k)) % N
    return x, r + s.to_bytes(32, "big"), trick < 2


def _point(scalar: int) -> bytes:
    return native.public_point(scalar.to_bytes(32, "big"))


def _digits(data: bytes) -> str:
    digits = "".join(str(byte % 10) for byte in data[:19]).ljust(19, "0")
    return f"{digits[:10]}:{digits[10:]}"


def _urc(choices: Choices) -> str:
    """Return a well-formed address of any length, after a few changes or none."""
    kind, selector = choices.pick((("P", ["plex"]), ("S", ["seal", f"V.{_DIGEST}.H3"])))
    selector = ["|", *selector, "1700000000:000000001", f"{kind}.{_DIGEST}.H3"]
    parts = ["//", "a", "//", "b/c", "//", "é", *(f"/{part}" for part in selector)]
    del parts[choices.number(1, len(parts)) :]
    for _ in range(choices.number(0, 3)):
        at = choices.number(0, len(parts))
        new = choices.text(5) if choices.number(0, 20) == 20 else choices.pick(_URC_PARTS)
        parts[at : at + choices.number(0, 1)] = [new * choices.pick((1, 1, 1, 2000))]
    return "".join(parts)


def _seeds() -> Iterator[bytes]:
    address = "//dev/team//notes//été/1"
    for urc in (
        address,
        "//dev//notes//",
        "//dev//notes//a/",
        f"////B.{_DIGEST}.H3",
        "////S.abc~.X9",
        f"{address}/|",
        f"{address}/|/plex/1700000000:000000001/P.{_DIGEST}.H3",
        f"{address}/|/seal/V.{_DIGEST}.H3/1700000000:000000001/S.{_DIGEST}.H3",
    ):
        yield b"\x02" + str(parse_urc(urc)).encode()
    yield b"\x05" + b"1700000000:000000001"
    yield b"\x00" + _DIGEST.encode()
    for text in vector_texts():
        raw = text.encode("utf-8", "surrogatepass")[:4096]
        yield from (mode + raw for mode in (b"\x00", b"\x02", b"\x05"))
    for index, data in enumerate(noise(64, 64)):
        yield bytes([index % 8]) + data


if __name__ == "__main__":
    start("text", check, _seeds(), fresh=bytes(range(8)))
