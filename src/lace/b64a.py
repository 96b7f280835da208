"""Base64-Ascend: text whose byte order is the order of the bytes it stands for (spec 006).

The standard library does the bit work; only the alphabet differs, and the decoder is strict:
each byte string has exactly one spelling.
"""

from __future__ import annotations

import binascii

from lace.errors import Code, EncodingError

ALPHABET = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_ASCEND = bytes.maketrans(_STANDARD, ALPHABET)
_TO_STANDARD = bytes.maketrans(ALPHABET, _STANDARD)

# Last characters whose unused low bits are zero, by text length mod 4.
_LAST = {2: ALPHABET[::16], 3: ALPHABET[::4]}


def _bytes_pattern(size: int) -> bytes:
    whole, rest = divmod(size * 8, 6)
    return rb"[0-9A-Z_a-z~]{%d}" % whole + (b"[%s]" % ALPHABET[:: 1 << (6 - rest)] if rest else b"")


#: Regular expressions for the one canonical spelling of 32 and of 64 bytes.
PATTERN_32 = _bytes_pattern(32)
PATTERN_64 = _bytes_pattern(64)


def encode_ascii(data: bytes) -> bytes:
    """Return the canonical spelling of ``data`` as ASCII bytes."""
    return binascii.b2a_base64(data, newline=False).translate(_TO_ASCEND).rstrip(b"=")


def encode_digest(digest: bytes) -> bytes:
    """Return the 43 characters of a 32-byte digest; the shortest way for the hottest path."""
    return binascii.b2a_base64(digest, newline=False).translate(_TO_ASCEND, b"=")


def encode(data: bytes) -> str:
    """Return the canonical spelling of ``data``."""
    return encode_ascii(data).decode("ascii")


def fault(text: bytes) -> Code | None:
    """Return why ``text`` is not canonical B64A, or None if it is."""
    if text.translate(None, ALPHABET):
        return Code.B64A_ALPHABET
    remainder = len(text) % 4
    if remainder == 1:
        return Code.B64A_LENGTH
    if remainder and text[-1] not in _LAST[remainder]:
        return Code.B64A_SPARE_BITS
    return None


def decode_trusted(text: bytes) -> bytes:
    """Decode text that is already known to be canonical, for example by ``PATTERN_32``."""
    return binascii.a2b_base64(text.translate(_TO_STANDARD) + b"==="[: -len(text) % 4])


def decode(text: str | bytes) -> bytes:
    """Return the bytes that ``text`` stands for, or raise ``EncodingError``."""
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    code = fault(raw)
    if code is not None:
        raise EncodingError(code.meaning, code=code)
    return decode_trusted(raw)
