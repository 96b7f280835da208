"""Make records. What leaves here is valid; what cannot become valid raises ``RecordError``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NoReturn

from lace import b64a, text, urc
from lace.crypto.keys import SigningKey
from lace.crypto.native import digest
from lace.errors import Code, RecordError
from lace.ids import RecordHash, digest_of, record_hash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import grammar
from lace.record.model import Blob, Plex, Seal
from lace.tai import PATTERN as TAI_PATTERN
from lace.tai import Tai

_NAME: Final = re.compile(r"[^\x00-\x20\x7f:]+")
_TAI: Final = re.compile(TAI_PATTERN.decode("ascii"))


def build_blob(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Blob:
    """Return the Blob of ``data``."""
    if len(data) > limits.blob_bytes:
        _refuse(Code.RECORD_DATA_TOO_LARGE, f"{len(data)} bytes, at most {limits.blob_bytes}")
    digits = b"%d" % len(data)
    hash, raw = _mark("B", b"Data-Length: %s\n\n%s" % (digits, data))
    return Blob(hash, raw, (hash[2:-3].encode(), digits))


def build_plex(
    *,
    group: str,
    app: str,
    name: str,
    tai: Tai | str,
    extras: Iterable[tuple[str, str]] = (),
    data: bytes = b"",
    limits: Limits = DEFAULT_LIMITS,
) -> Plex:
    """Return a Plex; extra headers are sorted by name, equal names keep their order (G2)."""
    for field, path in (("Group", group), ("App", app), ("Name", name)):
        code = urc.path_fault(path)
        if code is not None:
            _refuse(code, f"{field} {text.shown(path)} is not a path")
    if not _TAI.fullmatch(tai):
        _refuse(Code.TAI_MALFORMED, f"TAI {text.shown(tai)} is malformed")
    lines = [_header(name, value) for name, value in extras]
    if len(lines) > limits.extra_headers:
        _refuse(Code.RECORD_HEADER_COUNT, f"{len(lines)} headers, at most {limits.extra_headers}")
    lines.sort(key=lambda line: line[0])
    extra_block = b"".join(b"%s: %s\n" % line for line in lines)
    values = (group.encode(), app.encode(), name.encode(), tai.encode())
    head = b"Group: %s\nApp: %s\nName: %s\nTAI: %s\n" % values + extra_block
    longest = max(head.split(b"\n"), key=len)
    if len(longest) > limits.header_line_bytes:
        called = text.shown(longest.partition(b":")[0])
        message = f"header {called} has {len(longest)} bytes, at most {limits.header_line_bytes}"
        _refuse(Code.RECORD_HEADER_TOO_LONG, message)
    blob = build_blob(data, limits=limits)
    hash, raw = _mark("P", head + blob.raw)
    return Plex(hash, raw, (hash[2:-3].encode(), *values, extra_block, *blob.parts))


def seal(plex: Plex, key: SigningKey, *, aux: bytes | None = None) -> Seal:
    """Return ``plex`` with the key's signature; ``aux`` is for vectors, else it is drawn fresh."""
    signature = b64a.encode_ascii(key.sign(digest_of(plex.hash), aux))
    signed_by = key.verifier.encode()
    head = b"Signed-By: %s\nSignature: %s\n" % (signed_by, signature)
    hash, raw = _mark("S", head + plex.raw)
    return Seal(hash, raw, (hash[2:-3].encode(), signed_by[2:-3], signature, *plex.parts))


def _mark(letter: str, payload: bytes) -> tuple[RecordHash, bytes]:
    hash = record_hash(letter, digest(payload))
    return hash, grammar.MARK + hash.encode() + b"\n" + payload


def check_name(name: str) -> None:
    """Raise ``RecordError`` unless an extra header may have this name."""
    if not _NAME.fullmatch(name):
        _refuse(Code.RECORD_HEADER_SYNTAX, f"header name {text.shown(name)} is malformed")
    if name.encode("utf-8", "surrogatepass") in grammar.RESERVED_NAMES:
        _refuse(Code.RECORD_HEADER_RESERVED, f"header name {name} is reserved")
    code = text.fault(name)
    if code is not None:
        _refuse(code, f"header {text.shown(name)}: {code.meaning}")


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    check_name(name)
    # Control characters are refused here above all: a line break would smuggle in a header.
    code = text.line_fault(value)
    if code is not None:
        _refuse(code, f"header {text.shown(name)}: {code.meaning}")
    return name.encode(), value.encode()


def _refuse(code: Code, message: str) -> NoReturn:
    raise RecordError(message, code=code)
