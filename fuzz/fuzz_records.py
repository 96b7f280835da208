"""Fuzz validation, explanation, building and splitting of records. See README.md."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, takewhile
from typing import Final

import atheris

from fuzzing import Choices, noise, start, vector_texts

with atheris.instrument_imports(include=["lace"]):
    from lace.errors import Code, RecordError, Status
    from lace.limits import DEFAULT_LIMITS, Limits
    from lace.record.build import build_blob, build_plex, seal
    from lace.record.facts import facts
    from lace.record.grammar import MARK, RESERVED_NAMES, TRAILER_MARK
    from lace.record.inspect import inspect_record
    from lace.record.model import Plex, Record, Seal, Versioned
    from lace.record.split import BrokenFrame, Frame, RecordSplitter, split_records
    from lace.record.validate import recognise, reread, validate_record
    from lace.urc import parse_urc
    from shapes import FRAGMENTS, KEY, chosen_shape, valid_shape

_LIMITS: Final = (
    DEFAULT_LIMITS,
    replace(DEFAULT_LIMITS, header_line_bytes=97, extra_headers=0, blob_bytes=0),
    replace(DEFAULT_LIMITS, header_line_bytes=97, extra_headers=3, blob_bytes=64),
    replace(DEFAULT_LIMITS, header_line_bytes=128, extra_headers=64, blob_bytes=1 << 16),
)
_RESERVED: Final = sorted(name.decode() for name in RESERVED_NAMES)
_CHUNK_SIZES: Final = (0, 1, 2, 3, 5, 8, 50, 130, 1000, 100_000)


def check(data: bytes) -> None:
    """Let the first byte choose the limits and what the other bytes are taken for."""
    if not data:
        return
    limits_index, mode = divmod(data[0] % (4 * len(_LIMITS)), 4)
    limits = _LIMITS[limits_index]
    if mode == 0:
        check_bytes(data[1:], limits)
    elif mode == 1:
        check_bytes(_record_bytes(Choices(data[1:])), limits)
    elif mode == 2:
        check_stream(Choices(data[1:]), limits)
    else:
        check_building(Choices(data[1:]), limits)


def check_bytes(raw: bytes, limits: Limits) -> None:
    """The fast reading and the slow one agree, and what they accept is usable in every way."""
    record = recognise(raw, limits)
    fault = inspect_record(raw, limits).fault
    assert (record is None) == (fault is not None), fault
    outcome = validate_record(raw, limits)
    assert outcome.code is not Code.RECORD_MALFORMED
    if record is None:
        assert outcome.status is Status.REJECTED
        assert outcome.value is None
        assert fault is not None
        assert outcome.code == fault.code
        return
    assert outcome.status is Status.ACCEPTED
    assert outcome.value == record
    check_accepted(record, limits)


def check_accepted(record: Record, limits: Limits) -> None:
    """Every part of a valid record can be had, stands alone, and builds the same record again."""
    _same(record, reread(record.raw))
    assert list(split_records([record.raw], limits)) == [Frame(0, record.raw)]
    assert all(isinstance(part, str) for fact in facts(record) for part in fact)
    assert len(record.data) == record.data_length
    if not isinstance(record, Versioned):
        _same(record, build_blob(record.data, limits=limits))
        return
    _same(record.blob, recognise(record.blob.raw, limits))
    assert parse_urc(str(record.coordinate)) == record.coordinate
    plex = record.plex if isinstance(record, Seal) else record
    assert isinstance(plex, Plex)
    _same(plex, recognise(plex.raw, limits))
    built = build_plex(
        group=record.group,
        app=record.app,
        name=record.name,
        tai=record.tai,
        extras=record.extras,
        data=record.data,
        limits=limits,
    )
    _same(plex, built)


def check_stream(choices: Choices, limits: Limits) -> None:
    """Frames do not depend on the chunks, cover the stream, and need little memory."""
    pieces = [_piece(choices, limits) for _ in range(choices.number(1, 4))]
    stream = b"".join(pieces)
    whole = list(split_records([stream], limits))
    frames: list[Frame | BrokenFrame] = []
    splitter = RecordSplitter(limits)
    for chunk in _chunks(stream, choices):
        frames += splitter.feed(chunk)
        assert splitter.held <= limits.record_head_bytes + limits.blob_bytes + len(chunk)
    frames += splitter.close()
    assert frames == whole, (frames, whole)
    if splitter.broken is not None:
        assert splitter.feed(stream) == []
        assert splitter.held == 0

    good = [frame.raw for frame in whole if isinstance(frame, Frame)]
    assert stream.startswith(b"".join(good))
    assert all(isinstance(frame, Frame) for frame in whole[:-1])
    leading = list(takewhile(lambda piece: recognise(piece, limits), pieces))
    assert good[: len(leading)] == leading
    if len(good) == len(whole):
        assert b"".join(good) == stream
    for raw in good:
        check_bytes(raw, limits)


def check_building(choices: Choices, limits: Limits) -> None:
    """Whatever text is given, what is built is valid, and all else is a ``RecordError``."""
    extras = [
        (choices.pick((_text(choices), choices.pick(_RESERVED))), _text(choices))
        for _ in range(choices.number(0, 4))
    ]
    try:
        plex = build_plex(
            group=_text(choices),
            app=_text(choices),
            name=_text(choices),
            tai=choices.pick(("1700000000:000000001", _text(choices))),
            extras=extras,
            data=choices.bytes(70),
            limits=limits,
        )
    except RecordError:
        return
    for record in (plex, seal(plex, KEY, aux=b"\x01" * 32)):
        _same(record, recognise(record.raw, limits))
        check_accepted(record, limits)


def _record_bytes(choices: Choices) -> bytes:
    """Return a changed record with right digests; sometimes hurt it after that."""
    raw = chosen_shape(choices).assemble()
    if choices.number(0, 7) < 7:
        return raw
    at = choices.number(0, len(raw))
    return raw[:at] + choices.bytes(8) + raw[at + choices.pick((0, 1, 8, 1 << 20)) :]


def _piece(choices: Choices, limits: Limits) -> bytes:
    kind = choices.number(0, 3)
    if kind < 2:
        return _record_bytes(choices)
    if kind == 2:
        return choices.pick((choices.bytes(30), *FRAGMENTS))
    # Headers, good or not, that are about as long as they may be
    tail = b"\nData-Length: 1\n\n"
    size = min(limits.record_head_bytes, 10_000) + choices.number(-2, 2)
    return MARK.ljust(size - len(tail), b"x") + tail + b"."


def _text(choices: Choices) -> str:
    pieces = (
        choices.text(4)
        if choices.number(0, 9) == 9
        else choices.pick((b"a", b"b/c", "é".encode(), *FRAGMENTS)).decode(
            "utf-8", "surrogateescape"
        )
        for _ in range(choices.number(1, 3))
    )
    return "".join(pieces) * choices.pick((1, 1, 1, 90, 1000))


def _chunks(stream: bytes, choices: Choices) -> Iterator[bytes]:
    sizes = cycle([choices.pick(_CHUNK_SIZES) for _ in range(4)] + [1])
    least = len(stream) // 1000  # keeps long streams quick
    at = 0
    while at < len(stream):
        size = max(least, next(sizes))
        yield stream[at : at + size]
        at += size


def _same(left: Record, right: Record | None) -> None:
    assert right is not None
    assert (left.hash, left.raw, left.parts) == (right.hash, right.raw, right.parts)
    assert type(left) is type(right)


def _seeds() -> Iterator[bytes]:
    extras = (
        "Tag: ü".encode(),
        b"Tag: b",
        "题: 好".encode(),
        b"Ref+Link: re P." + b"0" * 43 + b".H3",
    )
    many = tuple(b"X%03d: v" % index for index in range(512))
    for kind in "BPS":
        for some in ((), extras, many):
            yield b"\x00" + valid_shape(kind, some).assemble()
    yield b"\x00" + TRAILER_MARK + valid_shape("P").assemble()
    for text in vector_texts():
        for raw in _spelled(text):
            if raw.startswith(MARK):
                yield b"\x00" + raw
    for index, data in enumerate(noise(64)):
        yield bytes([index % (4 * len(_LIMITS))]) + data


def _spelled(text: str) -> Iterator[bytes]:
    """Yield what a string in a vector may stand for: itself, or Base64 of other bytes."""
    yield text.encode("utf-8", "surrogatepass")
    with suppress(ValueError):
        yield b64decode(text, validate=True)


if __name__ == "__main__":
    start("records", check, _seeds(), fresh=bytes(b for b in range(4 * len(_LIMITS)) if b % 4))
