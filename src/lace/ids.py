"""Typed identifiers: what each looks like, and the only ways to get one from text."""

from __future__ import annotations

import re
from typing import Final, NewType

from lace import b64a
from lace.errors import Code, EncodingError
from lace.text import shown

RecordHash = NewType("RecordHash", str)
"""``B.``, ``P.`` or ``S.``, 43 B64A characters, ``.H3``: a record this engine can validate."""

LinkTarget = NewType("LinkTarget", str)
"""A typed record hash of any suffix: it may be named, but only ``H3`` can become local."""

Verifier = NewType("Verifier", str)
"""``V.<43>.H3``: the x-coordinate of a public key with even y."""

Signature = NewType("Signature", str)
"""86 B64A characters for 64 bytes."""

RECORD_TYPES: Final = "BPS"
SUFFIX: Final = "H3"
DIGEST_LENGTH: Final = 43

_B32 = b64a.PATTERN_32.decode("ascii")
RECORD_HASH: Final = rf"[{RECORD_TYPES}]\.{_B32}\.{SUFFIX}"
"""The pattern of a ``RecordHash``."""
_RECORD_HASH = re.compile(RECORD_HASH)
_VERIFIER = re.compile(rf"V\.{_B32}\.{SUFFIX}")
_SIGNATURE = re.compile(b64a.PATTERN_64.decode("ascii"))
_OTHER_TARGET = re.compile(rf"[{RECORD_TYPES}]\.[0-9A-Z_a-z~]+\.(?!{SUFFIX}$)[A-Z][A-Z0-9]*")


def is_record_hash(text: str) -> bool:
    return _RECORD_HASH.fullmatch(text) is not None


def is_link_target(text: str) -> bool:
    """Whether ``text`` names a record in any hash format, supported or not (G12)."""
    return is_record_hash(text) or _OTHER_TARGET.fullmatch(text) is not None


def is_verifier(text: str) -> bool:
    return _VERIFIER.fullmatch(text) is not None


def is_signature(text: str) -> bool:
    return _SIGNATURE.fullmatch(text) is not None


def parse_record_hash(text: str) -> RecordHash:
    """Return ``text`` as the id of a record in the supported format, or raise."""
    if not is_record_hash(text):
        raise EncodingError(f"{shown(text)} is not a record hash", code=Code.ID_MALFORMED)
    return RecordHash(text)


def parse_link_target(text: str) -> LinkTarget:
    """Return ``text`` as a typed hash of any format, or raise."""
    if not is_link_target(text):
        raise EncodingError(f"{shown(text)} is not a typed hash", code=Code.ID_MALFORMED)
    return LinkTarget(text)


def parse_verifier(text: str) -> Verifier:
    """Return ``text`` as a verifier, or raise."""
    if not is_verifier(text):
        raise EncodingError(f"{shown(text)} is not a verifier", code=Code.ID_MALFORMED)
    return Verifier(text)


def record_hash(type_letter: str, digest: bytes) -> RecordHash:
    """Return the id of a record of that type with that payload digest."""
    return RecordHash(f"{type_letter}.{b64a.encode(digest)}.{SUFFIX}")


def verifier_from_x(x: bytes) -> Verifier:
    """Return the verifier text of a 32-byte x-coordinate."""
    return Verifier(f"V.{b64a.encode(x)}.{SUFFIX}")


def digest_of(identifier: RecordHash | Verifier) -> bytes:
    """Return the 32 bytes inside a supported record hash or verifier."""
    return b64a.decode_trusted(identifier[2 : 2 + DIGEST_LENGTH].encode("ascii"))
