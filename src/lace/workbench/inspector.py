"""A record under glass: its bytes by part, each rule of its format, and the facts it gives."""

from __future__ import annotations

from typing import Any, Final

from lace.errors import Code, UsageError
from lace.limits import WORKBENCH
from lace.record.facts import facts
from lace.record.inspect import inspect_record
from lace.record.validate import validate_record
from lace.text import fact_line

_MARK: Final = "🖧: ".encode()
_KIND: Final = {"S": "Seal", "P": "Plex", "B": "Blob"}

Json = dict[str, Any]


def inspection_json(raw: bytes) -> Json:
    """Return everything there is to see of some bytes, valid or not."""
    checks = [
        {
            "rule": check.rule, "ok": check.ok, "detail": check.detail,
            "code": str(check.code) if check.code else None,
            "meaning": check.code.meaning if check.code else "",
            "expected": check.expected, "got": check.got,
        }
        for check in inspect_record(raw).checks
    ]  # fmt: skip
    outcome = validate_record(raw)
    record = outcome.value
    return {
        "size": len(raw),
        "ok": record is not None,
        "code": str(outcome.code) if outcome.code else None,
        "detail": outcome.detail,
        "parts": parts_json(raw),
        "checks": checks,
        "facts": [] if record is None else [fact_line(f[0], f[1:]) for f in facts(record)],
    }


def parts_json(raw: bytes) -> list[Json]:
    """Return the lines of the headers and then the data, each with its range and its part."""
    parts: list[Json] = []
    at, kind = 0, "bytes"
    while at < len(raw):
        end = raw.find(b"\n", at)
        line = raw[at:end] if end >= 0 else raw[at:]
        if end < 0 or len(parts) > 1000:
            break
        if not line:
            parts.append(_part(at, end + 1, "blank line", ""))
            at = end + 1
            break
        if line.startswith(_MARK):
            kind = _KIND.get(line[6:7].decode("ascii", "replace"), "unknown")
            parts.append(_part(at, end + 1, f"{kind} markline", _shown(line)))
        else:
            parts.append(_part(at, end + 1, f"{kind} header", _shown(line)))
        at = end + 1
    if at < len(raw):
        data = raw[at : at + WORKBENCH.data_bytes]
        part = _part(at, len(raw), "data", _shown(data))
        if len(raw) - at > WORKBENCH.data_bytes:
            part["cut"] = len(raw) - at - WORKBENCH.data_bytes
        parts.append(part)
    return parts


def flip(raw: bytes, offset: int) -> bytes:
    """Return bytes with the lowest bit of one byte turned over."""
    if not 0 <= offset < len(raw):
        raise UsageError(f"there is no byte {offset}", code=Code.SCENARIO_VALUE)
    changed = bytearray(raw)
    changed[offset] ^= 1
    return bytes(changed)


def _part(start: int, end: int, part: str, text: str) -> Json:
    return {"start": start, "end": end, "part": part, "text": text}


def _shown(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")
