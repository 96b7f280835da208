"""Hashes in the input and output of commands: as short as they can be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from lace.api.handles import Lace, store_of
from lace.errors import Code, UsageError
from lace.ids import RecordHash, is_record_hash
from lace.recordstore.base import StoreRecordId
from lace.text import shown

_SHORT: Final = 8
_SHORT_HASH: Final = re.compile(r"[BPS]\.[0-9A-Z_a-z~]{4,43}(\.H?3?)?…?")
_TOO_SHORT: Final = re.compile(r"[BPS]\.[0-9A-Z_a-z~]{0,3}…?")
_BATCH: Final = 10_000
_HASHES_SHOWN: Final = 5


def short_hashes(hashes: Iterable[str]) -> dict[str, str]:
    """Return each hash as short as it can be among these, and no shorter than eight characters."""
    ordered = sorted(set(hashes))
    found: dict[str, str] = {}
    for number, hash in enumerate(ordered):
        near = ordered[max(0, number - 1) : number] + ordered[number + 1 : number + 2]
        length = _SHORT
        while any(other[: length + 2] == hash[: length + 2] for other in near):
            length += 1
        found[hash] = hash[: length + 2]
    return found


def whole_hash(local: Lace, text: str) -> str | None:
    """Return the hash that a text means: itself, or the one here that begins like it.

    None if the text is no hash; raises ``UsageError`` if none or several begin so.
    """
    return hash_among(_stored(local), text)


def _stored(local: Lace) -> Iterator[RecordHash]:
    store = store_of(local)
    after = StoreRecordId(0)
    while batch := store.read(after, _BATCH):
        yield from (stored.hash for stored in batch)
        after = batch[-1].id


def hash_among(
    hashes: Iterable[RecordHash], text: str, none: str = "no record here", hint: str = ""
) -> str | None:
    """Return the hash that a text means: itself, or the one of these that begins like it.

    None if the text is no hash; raises ``UsageError`` if none or several begin so.
    """
    if is_record_hash(text):
        return text
    if _TOO_SHORT.fullmatch(text):
        raise UsageError(
            f"{shown(text)} is too short for a hash",
            code=Code.ID_MALFORMED,
            hint="Give at least four characters behind the dot.",
        )
    if not _SHORT_HASH.fullmatch(text):
        return None
    begin = text.removesuffix("…")
    found = [hash for hash in hashes if hash.startswith(begin)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"{none} begins with {shown(text)}", code=Code.RECORD_ABSENT, hint=hint)
    names = ", ".join(short_hashes(found).values()) if len(found) <= _HASHES_SHOWN else "many"
    raise UsageError(
        f"{shown(text)} may mean {len(found)} records: {names}",
        code=Code.ID_MALFORMED,
        hint="Give more characters of the hash.",
    )
