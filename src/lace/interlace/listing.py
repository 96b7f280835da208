"""Listings read at one go: advertisements in their one spelling, as honest peers send them.

Anything else (another spelling or order, escapes, text beyond ASCII) is left to the general reading
of fact blocks, which also says what is wrong if anything is. Both readings agree on what they both
take; the digest is that of the text as it came.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from lace.ids import RECORD_HASH
from lace.interlace.advertise import Advertisement, FieldValue, digest_of
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.origin import SourceLabel

Listing = dict[str, tuple[Advertisement, bytes]]
"""Advertisements with their digests, by record."""

_VALUE: Final = r"[^'\\\n\r]*"
_ADVERT: Final = re.compile(
    rf"Advertised\('({RECORD_HASH})','({_VALUE})'\)\n"
    rf"((?:AdvertisedField\('\1','\2','{_VALUE}','(?:0|[1-9][0-9]{{0,8}})','{_VALUE}'\)\n)*)"
)
_END: Final = len("')\n")
_BEGINNING: Final = b"Advertised('"
_FIELD: Final = b"AdvertisedField('"
# One text for each of the names that nearly all records have, however many there are.
_NAMES: Final = {
    name: name
    for name in ("App", "Data-Length", "Group", "Name", "Signature", "Signed-By", "TAI", "Type")
}


def read_listing(
    content: bytes, source: SourceLabel, limits: Limits = DEFAULT_LIMITS
) -> Listing | None:
    """Return the advertisements of a block, or None if it has to be read fact by fact."""
    if not content.isascii() or len(content) > limits.max_fact_block_size:
        return None
    text = content.decode("ascii")
    found: Listing = {}
    seen: dict[str, FieldValue] = {}  # most records share some of their fields
    at = 0
    while at < len(text):
        match = _ADVERT.match(text, at)
        if match is None:
            return None
        record, claimed, lines = match.groups()
        beginning = f"AdvertisedField('{record}','{claimed}','"
        fields = _fields(lines, beginning, limits.value_bytes, seen)
        if claimed != source or record in found or fields is None:
            return None
        found[record] = Advertisement(record, source, fields), digest_of(content[at : match.end()])
        at = match.end()
    return found


def last_advert(content: bytes) -> int | None:
    """Return where the last advertisement of a listing begins; None if something else ends it."""
    last = content.rfind(b"\n" + _BEGINNING) + 1
    fields = content.count(b"\n" + _FIELD, last)
    if not content.startswith(_BEGINNING, last) or content.count(b"\n", last) != fields + 1:
        return None
    return last


def _fields(
    lines: str, beginning: str, longest: int, seen: dict[str, FieldValue]
) -> tuple[FieldValue, ...] | None:
    """Return the fields of lines that all begin alike, or None if they are long or in disorder."""
    fields: list[FieldValue] = []
    for rest in lines.split(beginning)[1:]:
        field = seen.get(rest)
        if field is None:
            if len(rest) > longest:
                return None
            name, index, value = rest[:-_END].split("','")
            field = seen[rest] = _NAMES.get(name, name), int(index), value
        fields.append(field)
    if any(one[:2] >= other[:2] for one, other in pairwise(fields)):
        return None
    return tuple(fields)
