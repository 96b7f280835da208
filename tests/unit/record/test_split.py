from __future__ import annotations

from dataclasses import replace

import forge
import pytest

from lace.errors import Code
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import BrokenFrame, Frame, RecordSplitter, split_records, validate_record

RECORDS = [forge.seal(), forge.blob(b""), forge.plex(), forge.blob(b"\n\n" * 50)]


def broken(stream: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Code, int]:
    last = list(split_records([stream], limits))[-1]
    assert isinstance(last, BrokenFrame)
    assert last.detail
    return last.code, last.offset


def test_frames_are_the_records_with_their_offsets() -> None:
    frames = list(split_records([b"".join(RECORDS)]))
    assert [frame.raw for frame in frames if isinstance(frame, Frame)] == RECORDS
    offsets = [0]
    for record in RECORDS[:-1]:
        offsets.append(offsets[-1] + len(record))
    assert [frame.offset for frame in frames] == offsets


def test_nothing_is_nothing() -> None:
    assert list(split_records([])) == []
    assert list(split_records([b"", b""])) == []


def test_a_wrong_record_does_not_hide_the_next() -> None:
    wrong_digest = RECORDS[0][:-1] + b"X"
    wrong_header = forge.plex_with(b"B: 1", b"A: 1")
    frames = [
        f for f in split_records([wrong_digest + wrong_header + RECORDS[2]]) if isinstance(f, Frame)
    ]
    codes = [validate_record(frame.raw).code for frame in frames]
    assert codes == [Code.RECORD_HASH_MISMATCH, Code.RECORD_HEADER_ORDER, None]


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        (b"x", Code.RECORD_MARKLINE),
        (b"\n", Code.RECORD_MARKLINE),
        ("🖧;".encode(), Code.RECORD_MARKLINE),
        ("⋯🖧: P".encode(), Code.RECORD_TRAILER_FORM),
        ("⋯".encode(), Code.RECORD_TRUNCATED),
        ("🖧".encode(), Code.RECORD_TRUNCATED),
        (RECORDS[0][:-1], Code.RECORD_TRUNCATED),
        (RECORDS[0][:60], Code.RECORD_TRUNCATED),
        (forge.blob(b"a", b"Data-Length: 01"), Code.RECORD_DATA_LENGTH),
        (forge.blob(b"a", b"Data-Length: 1 "), Code.RECORD_DATA_LENGTH),
        (forge.blob(b"a", b"Length: 1"), Code.RECORD_DATA_LENGTH),
        (forge.blob(b"a", b"Data-Length: 33554433"), Code.RECORD_DATA_TOO_LARGE),
        (forge.blob(b"a", b"Data-Length: " + b"9" * 5000), Code.RECORD_DATA_TOO_LARGE),
    ],
)
def test_where_no_boundary_can_be_found_the_stream_ends(tail: bytes, code: Code) -> None:
    head = RECORDS[1]
    assert broken(head + tail) == (code, len(head))
    splitter = RecordSplitter()
    seen = splitter.feed(head + tail) + splitter.close()
    assert splitter.broken is seen[-1]
    assert splitter.feed(RECORDS[0]) == []
    assert splitter.close() == []
    assert splitter.held == 0


def test_endless_headers_are_cut_off_at_the_limit() -> None:
    limits = replace(DEFAULT_LIMITS, extra_headers=2)
    splitter = RecordSplitter(limits)
    frames = splitter.feed(RECORDS[0][:-6])
    fed = len(RECORDS[0]) - 6
    while not frames:
        frames = splitter.feed(b"X: " + b"a" * 500 + b"\n")
        fed += 504
        assert splitter.held <= limits.record_head_bytes + 504
    assert isinstance(frames[0], BrokenFrame)
    assert frames[0].code is Code.RECORD_HEADER_TOO_LONG
    assert fed >= limits.record_head_bytes


@pytest.mark.req("010-REC-12")
def test_no_memory_is_taken_for_a_length_over_the_limit() -> None:
    limits = replace(DEFAULT_LIMITS, blob_bytes=10)
    splitter = RecordSplitter(limits)
    frames = splitter.feed(forge.blob(b"", b"Data-Length: 11"))
    assert isinstance(frames[0], BrokenFrame)
    assert splitter.held == 0


def test_a_small_feed_does_not_rescan_what_it_has_seen() -> None:
    """One byte at a time through the largest head must stay linear: this would take minutes."""
    head = b"X: " + b"a" * 1020 + b"\n"
    record = forge.plex_with(*[head[:-1]] * 500)
    splitter = RecordSplitter()
    frames = [frame for byte in record for frame in splitter.feed(bytes((byte,)))]
    assert [frame.raw for frame in frames if isinstance(frame, Frame)] == [record]
