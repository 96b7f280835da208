"""Is this a record? Decided fast; explained, when the answer is no, by ``inspect`` (spec 010).

One regular expression takes the headers apart; the rules it cannot express follow in the order of
their cost; the signature comes last (G1). A valid record never pays for explanations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from lace import text
from lace.b64a import decode_trusted, encode_digest
from lace.crypto.hashing import blake3
from lace.crypto.native import verify, verify_all
from lace.crypto.provider import Claim
from lace.errors import Code, Outcome, RecordError, Status, wrong_type
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import inspect
from lace.record.grammar import (
    BLOB,
    HEADER_NAMES,
    KNOWN,
    MARK,
    MARKLINE_BYTES,
    PLEX,
    RESERVED_NAMES,
    SEAL,
    SEAL_HEAD_BYTES,
)
from lace.record.model import Blob, Plex, Record, Seal

_ACCEPTED: Final = Status.ACCEPTED
_TYPE_AT: Final = len(MARK)
_BLOB_DIGEST_AT: Final = len(MARK) + len("B.")
_SEALED_PAYLOAD_AT: Final = SEAL_HEAD_BYTES + MARKLINE_BYTES
_COPY_BELOW: Final = 1 << 16  # slicing small bytes is cheaper than a memoryview of them

_HASH_END: Final = MARKLINE_BYTES - len("\n")
# Where the parts of embedded records begin among those of a Seal.
_PLEX_PARTS: Final = 3
_BLOB_PARTS: Final = 9

# The number of the group that holds the Blob digest, by pattern.
_PLEX_BLOB: Final = 7
_SEAL_BLOB: Final = 10


def validate_record(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> Outcome[Record]:
    """Return the record that ``raw`` is, or why it is none; never raises for bad bytes."""
    record = recognise(checked_bytes(raw), limits)
    if record is not None:
        return Outcome(_ACCEPTED, record)
    return rejection(raw, limits)


def checked_bytes(raw: bytes) -> bytes:
    """Return what is bytes, or raise ``UsageError``; what may change is no record."""
    if isinstance(raw, bytes):
        return raw
    raise wrong_type("bytes", raw, "A record keeps them: give bytes(…) of what may change.")


def validate_records(
    raws: Iterable[bytes], limits: Limits = DEFAULT_LIMITS
) -> list[Outcome[Record]]:
    """Return the outcome of each; it costs less in threads than one after the other would."""
    claims: list[Claim] = []

    def verify_later(verifier_x: bytes, message: bytes, signature: bytes) -> bool:
        claims.append((verifier_x, message, signature))
        return True

    found = [(raw, recognise(raw, limits, verify_later)) for raw in raws]
    holds = iter(verify_all(claims))  # one for each Seal that is sound but for its signature
    return [
        rejection(raw, limits)
        if record is None or (isinstance(record, Seal) and not next(holds))
        else Outcome(_ACCEPTED, record)
        for raw, record in found
    ]


def rejection(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> Outcome[Record]:
    """Return the outcome for bytes that ``recognise`` refused."""
    fault = inspect.inspect_record(raw, limits).fault
    if fault is None or fault.code is None:
        # Never seen: the two readings of the grammar agree. Refusing is the safe side.
        return Outcome(Status.REJECTED, None, Code.RECORD_MALFORMED, Code.RECORD_MALFORMED.meaning)
    return Outcome(Status.REJECTED, None, fault.code, fault.detail)


def recognise(
    raw: bytes, limits: Limits = DEFAULT_LIMITS, verify: Callable[..., bool] = verify
) -> Record | None:
    """Return the record that ``raw`` is, or None; ``verify`` decides on its signature, at last."""
    kind = raw[_TYPE_AT : _TYPE_AT + 1]
    if kind == b"S":
        match = SEAL.match(raw, 0, limits.record_head_bytes)
        payload_at = _SEALED_PAYLOAD_AT
        blob_group = _SEAL_BLOB
    elif kind == b"P":
        match = PLEX.match(raw, 0, limits.record_head_bytes)
        payload_at = MARKLINE_BYTES
        blob_group = _PLEX_BLOB
    else:
        return _recognise_blob(raw, limits)
    if match is None:
        return None

    parts = match.groups()
    length = int(parts[-1])
    if length > limits.blob_bytes or match.end() + length != len(raw):
        return None
    blob_at = match.start(blob_group) - _BLOB_DIGEST_AT
    headers = raw[payload_at:blob_at]
    if not headers.isascii() and not _is_text(headers):
        return None
    if len(headers) > limits.header_line_bytes and not _lines_fit(headers, limits):
        return None
    if parts[-3] and not _extras_hold(parts[-3], limits):
        return None

    body = raw if len(raw) < _COPY_BELOW else memoryview(raw)
    blob_digest = blake3(body[blob_at + MARKLINE_BYTES :]).digest()
    if encode_digest(blob_digest) != parts[-2]:
        return None
    plex_digest = blake3(body[payload_at:]).digest()
    if encode_digest(plex_digest) != parts[-8]:
        return None
    if kind == b"P":
        return Plex(RecordHash(f"P.{parts[0].decode()}.H3"), raw, parts)
    seal_digest = blake3(body[MARKLINE_BYTES:]).digest()
    if encode_digest(seal_digest) != parts[0]:
        return None
    verifier_x = decode_trusted(parts[1])
    if not verify(verifier_x, plex_digest, decode_trusted(parts[2])):
        return None
    return Seal(RecordHash(f"S.{parts[0].decode()}.H3"), raw, parts)


def reread(raw: bytes) -> Record:
    """Return the record of bytes that are known to be valid; they are not hashed again."""
    match = KNOWN.match(raw)
    if match is None:
        raise RecordError("these bytes were never valid", code=Code.RECORD_MALFORMED)
    hash = RecordHash(raw[_TYPE_AT:_HASH_END].decode())
    parts = match.groups()
    if parts[0] is not None:
        return Seal(hash, raw, parts)
    if parts[_PLEX_PARTS] is not None:
        return Plex(hash, raw, parts[_PLEX_PARTS:])
    return Blob(hash, raw, parts[_BLOB_PARTS:])


def reread_intact(raw: bytes, hash: str | None = None) -> Record | None:
    """Return the record of bytes that were valid once, or None if they have changed since.

    One digest is computed: it covers everything after the first line, and so all that is embedded.
    Bytes of somebody else need ``validate_record``: a digest can be made to fit.
    """
    body = raw if len(raw) < _COPY_BELOW else memoryview(raw)
    digest = encode_digest(blake3(body[MARKLINE_BYTES:]).digest())
    if digest != raw[_BLOB_DIGEST_AT : _BLOB_DIGEST_AT + len(digest)]:
        return None
    try:
        record = reread(raw)
    except (RecordError, UnicodeDecodeError):
        return None
    return record if hash is None or record.hash == hash else None


def _recognise_blob(raw: bytes, limits: Limits) -> Record | None:
    match = BLOB.match(raw)
    if match is None:
        return None
    parts = match.groups()
    length = int(parts[-1])
    if length > limits.blob_bytes or match.end() + length != len(raw):
        return None
    body = raw if len(raw) < _COPY_BELOW else memoryview(raw)
    digest = blake3(body[MARKLINE_BYTES:]).digest()
    if encode_digest(digest) != parts[0]:
        return None
    return Blob(RecordHash(f"B.{parts[0].decode()}.H3"), raw, parts)


def _is_text(headers: bytes) -> bool:
    """Whether all names and values obey the text rule.

    Judging the block at once is exact: names and values stand between ': ' and LF, which neither
    compose with what follows them nor let combining marks move across.
    """
    try:
        return text.fault(headers.decode()) is None
    except UnicodeDecodeError:
        return False


def _lines_fit(headers: bytes, limits: Limits) -> bool:
    return max(map(len, headers.split(b"\n"))) <= limits.header_line_bytes


def _extras_hold(extras: bytes, limits: Limits) -> bool:
    """Whether extra headers are few enough, sorted by name, and none bears a reserved name (G2)."""
    names = HEADER_NAMES.findall(extras)
    return (
        len(names) <= limits.extra_headers
        and (len(names) == 1 or names == sorted(names))
        and RESERVED_NAMES.isdisjoint(names)
    )
