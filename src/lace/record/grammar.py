"""The record grammar as regular expressions, innermost part first (spec 010).

A well-formed record matches exactly one of these; what they cannot say (digests, sorted extras,
normal form, limits) is checked beside them in ``validate``. Whatever a quantifier gives back cannot
be matched by what follows it, so a match costs time in proportion to the headers. (Possessive
quantifiers stand on single characters only: over groups they fail in Python before 3.11.5.)
"""

from __future__ import annotations

import re
from typing import Final

from lace import b64a, tai

MARK: Final = "🖧: ".encode()
TRAILER_MARK: Final = "⋯🖧: ".encode()

# Any 43 bytes: whoever matches compares them with the digest of what follows, which is stricter.
_HASH: Final = rb"\.((?s:.{43}))\.H3\n"
_TEXT: Final = rb"[^\x00-\x1f\x7f]++"
_NAME: Final = rb"[^\x00-\x20\x7f:]++"
_SEGMENT: Final = rb"(?!(?:\.\.?|\|)[/\n])[^\x00-\x1f\x7f/]++"
_PATH: Final = _SEGMENT + rb"(?:/" + _SEGMENT + rb")*"

_BLOB: Final = MARK + rb"B" + _HASH + rb"Data-Length: (0|[1-9][0-9]{0,14})\n\n"
_PLEX: Final = (
    MARK + rb"P" + _HASH
    + rb"Group: (" + _PATH + rb")\n"
    + rb"App: (" + _PATH + rb")\n"
    + rb"Name: (" + _PATH + rb")\n"
    + rb"TAI: (" + tai.PATTERN + rb")\n"
    + rb"((?:(?!" + MARK + rb")" + _NAME + rb": " + _TEXT + rb"\n)*)"
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

# For blocks of headers that have matched the grammar already.
HEADER_NAMES: Final = re.compile(rb"([^:]++)[^\n]++\n")
HEADERS: Final = re.compile(rb"([^:]++): ([^\n]++)\n")
HEADERS_OF_TEXT: Final = re.compile(HEADERS.pattern.decode())

# For records that are known to be valid: only where the parts are.
_LINE: Final = rb"[^\n]++"
KNOWN: Final = re.compile(
    rb"(?:" + MARK + rb"S\.(.{43})\.H3\nSigned-By: V\.(.{43})\.H3\nSignature: (.{86})\n)?"
    rb"(?:" + MARK + rb"P\.(.{43})\.H3\nGroup: (" + _LINE + rb")\nApp: (" + _LINE + rb")\n"
    rb"Name: (" + _LINE + rb")\nTAI: (.{20})\n((?:(?!" + MARK + rb"B)" + _LINE + rb"\n)*))?"
    + MARK + rb"B\.(.{43})\.H3\nData-Length: ([0-9]++)\n\n"
)  # fmt: skip

MARKLINE_BYTES: Final = len(MARK) + len("B.") + 43 + len(".H3\n")
SEAL_HEAD_BYTES: Final = (
    MARKLINE_BYTES + len("Signed-By: V.") + 43 + len(".H3\n") + len("Signature: ") + 86 + len("\n")
)

FIXED_HEADERS: Final = ("Group", "App", "Name", "TAI")
#: Names an extra header may not bear (G2).
RESERVED_NAMES: Final = frozenset(
    name.encode() for name in (*FIXED_HEADERS, "Data-Length", "Signed-By", "Signature", "Type", "🖧")
)
