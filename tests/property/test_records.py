"""Laws of records: round trips, no change goes unseen, chunking does not matter."""

from __future__ import annotations

import forge
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lace.errors import Code
from lace.record import (
    BrokenFrame,
    Frame,
    Plex,
    RecordSplitter,
    build_plex,
    facts,
    inspect_record,
    seal,
    split_records,
    validate_record,
)
from lace.record.grammar import RESERVED_NAMES
from lace.record.validate import recognise, validate_records

letters = st.sampled_from("abzAZ09.-_~+/|'\\:# ()éü世🖧\ue000")
values = st.text(letters, min_size=1, max_size=20)
segments = st.text(letters.filter(lambda c: c != "/"), min_size=1, max_size=6).filter(
    lambda s: s not in {".", "..", "|"}
)
paths = st.lists(segments, min_size=1, max_size=3).map("/".join)
names = st.text(letters.filter(lambda c: c not in ": "), min_size=1, max_size=8).filter(
    lambda n: n.encode() not in RESERVED_NAMES
)
tais = st.from_regex(r"[0-9]{10}:[0-9]{9}", fullmatch=True).filter(str.isascii)
plexes = st.builds(
    build_plex,
    group=paths,
    app=paths,
    name=paths,
    tai=tais,
    extras=st.lists(st.tuples(names, values), max_size=5),
    data=st.binary(max_size=50),
)
records = st.one_of(
    plexes, plexes.map(lambda plex: plex.blob), plexes.map(lambda p: seal(p, forge.KEY))
)


@pytest.mark.req("010-REC-05", "010-REC-07", "010-REC-10")
@given(plexes)
def test_building_and_reading_are_inverse(plex: Plex) -> None:
    read = validate_record(plex.raw).unwrap()
    assert isinstance(read, Plex)
    assert read.parts == plex.parts
    again = build_plex(
        group=read.group, app=read.app, name=read.name, tai=read.tai, extras=read.extras,
        data=read.data,
    )  # fmt: skip
    assert again == plex
    assert validate_record(read.blob.raw).value == plex.blob


@pytest.mark.req("010-REC-02", "010-REC-09")
@settings(max_examples=30)
@given(plexes, st.data())
def test_any_single_byte_changed_is_refused(plex: Plex, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from([plex.raw, plex.blob.raw, seal(plex, forge.KEY).raw]))
    for _ in range(20):
        place = data.draw(st.integers(0, len(raw) - 1))
        other = data.draw(st.integers(1, 255))
        changed = raw[:place] + bytes((raw[place] ^ other,)) + raw[place + 1 :]
        outcome = validate_record(changed)
        assert not outcome.ok
        assert outcome.code not in {None, Code.RECORD_MALFORMED}


@pytest.mark.req("010-REC-02", "010-REC-09")
@settings(max_examples=30)
@given(st.lists(records, max_size=6), st.data())
def test_many_records_are_judged_as_each_alone(some: list[Plex], data: st.DataObject) -> None:
    raws = [record.raw for record in some]
    for at in data.draw(st.sets(st.integers(0, len(raws) - 1))) if raws else ():
        place = data.draw(st.integers(0, len(raws[at]) - 1))
        raws[at] = raws[at][:place] + bytes((raws[at][place] ^ 1,)) + raws[at][place + 1 :]
    assert validate_records(raws) == [validate_record(raw) for raw in raws]


@pytest.mark.req("010-REC-02", "010-REC-09")
def test_every_single_bit_of_a_seal_counts() -> None:
    raw = forge.seal(forge.plex_with(b"Tag: a", b"Tag: b"))
    for place in range(len(raw)):
        for bit in range(8):
            changed = raw[:place] + bytes((raw[place] ^ 1 << bit,)) + raw[place + 1 :]
            assert recognise(changed) is None, (place, bit)


header_lines = st.one_of(
    st.sampled_from([
        b"Group: u", b"App: ding", b"Name: n", forge.TAI, b"A: 1", b"B: 2", b"", b"X:", b"X: ",
        b"Type: P", b"Data-Length: 0", b"+Link: x y", b"Name: a/../b", b"Group: /", b"Name: .a",
        "X: e\u0301".encode(), "X: \u0378".encode(), b"X: \xff", b"X: a\r", b"\xcc\x81: x",
    ]),
    st.builds(lambda n, v: f"{n}: {v}".encode(), names, values),
    st.binary(max_size=12).filter(lambda line: b"\n" not in line),
)  # fmt: skip


@pytest.mark.req("010-REC-06", "010-REC-10")
@settings(max_examples=400)
@given(
    st.lists(header_lines, max_size=4),
    st.lists(header_lines, max_size=4),
    st.sampled_from([b"Data-Length: 5", b"Data-Length: 05", b"Data-Length: 4", b"X"]),
    st.booleans(),
)
def test_the_fast_and_the_explaining_reading_agree(
    early: list[bytes], late: list[bytes], length: bytes, sealed: bool
) -> None:
    """Digests are right by construction, so that the grammar alone decides."""
    raw = forge.plex((*early, *forge.PLACE, *late), forge.blob(b"hello", length))
    if sealed:
        raw = forge.seal(raw)
    record = recognise(raw)
    fault = inspect_record(raw).fault
    assert (record is None) is (fault is not None)
    if record is not None:
        assert len(list(facts(record))) >= 8


@given(st.binary(max_size=80))
def test_any_bytes_have_an_outcome(raw: bytes) -> None:
    outcome = validate_record(raw)
    assert not outcome.ok
    assert outcome.code is not Code.RECORD_MALFORMED


junk = st.sampled_from([b"", b"x", b"\n", forge.blob(b"a", b"Data-Length: 01"), forge.seal()[:-1]])


@settings(max_examples=150)
@given(st.lists(records, max_size=4), junk, st.data())
def test_frames_do_not_depend_on_chunking(
    parts: list[Plex], tail: bytes, data: st.DataObject
) -> None:
    stream = b"".join(record.raw for record in parts) + tail
    whole = list(split_records([stream]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    splitter = RecordSplitter()
    pieces: list[Frame | BrokenFrame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        pieces += splitter.feed(stream[start:end])
    pieces += splitter.close()
    assert pieces == whole
    assert [frame.raw for frame in whole if isinstance(frame, Frame)] == [r.raw for r in parts]
