"""The record grammar as regular expressions, innermost part first (spec 010).

A well-formed record matches exactly one of these; what they cannot say (digests, sorted extras,
normal form, limits) is checked beside them in ``validate``. No quantifier can backtrack into
another, so a match costs time in proportion to its headers.
"""

from __future__ import annotations

import re
from typing import Final

from lace import b64a, tai

MARK: Final = "🖧: ".encode()
TRAILER_MARK: Final = "⋯🖧: ".encode()

_HASH: Final = rb"\.(" + b64a.PATTERN_32 + rb")\.H3\n"
_TEXT: Final = rb"[^\x00-\x1f\x7f]++"
_NAME: Final = rb"[^\x00-\x20\x7f:]++"

_BLOB: Final = MARK + rb"B" + _HASH + rb"Data-Length: (0|[1-9][0-9]{0,14})\n\n"
_PLEX: Final = (
    MARK + rb"P" + _HASH
    + rb"Group: (" + _TEXT + rb")\n"
    + rb"App: (" + _TEXT + rb")\n"
    + rb"Name: (" + _TEXT + rb")\n"
    + rb"TAI: (" + tai.PATTERN + rb")\n"
    + rb"((?:(?!" + MARK + rb")" + _NAME + rb": " + _TEXT + rb"\n)*+)"
    + _BLOB
)  # fmt: skip
_SEAL: Final = (
    MARK + rb"S" + _HASH
    + rb"Signed-By: V\.(" + b64a.PATTERN_32 + rb")\.H3\n"
    + rb"Signature: (" + b64a.PATTERN_64 + rb")\n"
    + _PLEX
)  # fmt: skip

BLOB: Final = re.compile(_BLOB)
PLEX: Final = re.compile(_PLEX)
SEAL: Final = re.compile(_SEAL)

HEADER_NAMES: Final = re.compile(rb"(" + _NAME + rb"): [^\n]*+\n")
HEADERS: Final = re.compile(rb"(" + _NAME + rb"): ([^\n]*+)\n")

# Before every empty or reserved path segment stands one of these pairs; a rare good one has it too.
SUSPECT_SEGMENT: Final = re.compile(rb"[ /][./|\n]")

MARKLINE_BYTES: Final = len(MARK) + len("B.") + 43 + len(".H3\n")
SEAL_HEAD_BYTES: Final = (
    MARKLINE_BYTES + len("Signed-By: V.") + 43 + len(".H3\n") + len("Signature: ") + 86 + len("\n")
)

FIXED_HEADERS: Final = ("Group", "App", "Name", "TAI")
#: Names an extra header may not bear (G2).
RESERVED_NAMES: Final = frozenset(
    name.encode() for name in (*FIXED_HEADERS, "Data-Length", "Signed-By", "Signature", "Type", "🖧")
)
