"""Records as an attacker would make them: any header lines, any lies, yet with the right digests.

A record that is wrong in one respect only shows which rule refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lace import b64a
from lace.crypto import SigningKey
from lace.crypto.native import digest
from lace.record.grammar import MARK, MARKLINE_BYTES

KEY = SigningKey(bytes(range(32)))
AUX = b"\x01" * 32
TAI = b"TAI: 1640995200:000000000"
PLACE = (b"Group: u", b"App: ding", b"Name: links/1", TAI)


def mark(letter: bytes, payload: bytes) -> bytes:
    """Put the markline with the right digest before a payload."""
    return MARK + letter + b"." + b64a.encode_ascii(digest(payload)) + b".H3\n" + payload


def blob(data: bytes = b"hello", length_line: bytes | None = None) -> bytes:
    line = b"Data-Length: %d" % len(data) if length_line is None else length_line
    return mark(b"B", line + b"\n\n" + data)


def plex(lines: Iterable[bytes] = PLACE, embedded: bytes | None = None) -> bytes:
    return mark(b"P", b"".join(line + b"\n" for line in lines) + (embedded or blob()))


def plex_with(*extras: bytes) -> bytes:
    return plex((*PLACE, *extras))


def seal(
    embedded: bytes | None = None,
    *,
    key: SigningKey = KEY,
    signed_by: bytes | None = None,
    signature: bytes | None = None,
    lines: Iterable[bytes] | None = None,
) -> bytes:
    """Return a Seal; every part of it can be replaced by a lie."""
    inner = plex() if embedded is None else embedded
    if signature is None:
        signature = b64a.encode_ascii(key.sign(digest(inner[MARKLINE_BYTES:]), AUX))
    if lines is None:
        lines = (b"Signed-By: " + (signed_by or key.verifier.encode()), b"Signature: " + signature)
    return mark(b"S", b"".join(line + b"\n" for line in lines) + inner)
