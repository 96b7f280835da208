"""Building, reading, validating and explaining records."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import forge
import pytest

from lace import b64a
from lace.crypto import SigningKey, native, reference
from lace.errors import Code, RecordError, Status, UsageError
from lace.limits import DEFAULT_LIMITS
from lace.record import (
    Blob,
    Plex,
    Record,
    Seal,
    build_blob,
    build_plex,
    facts,
    inspect_record,
    links,
    seal,
    validate_record,
)
from lace.record.bulk import validate_frames
from lace.record.validate import reread

PLACE: dict[str, Any] = {
    "group": "u",
    "app": "ding",
    "name": "links/1",
    "tai": "1640995200:000000000",
}


@pytest.mark.req("010-REC-01", "010-REC-03", "010-REC-05", "010-REC-09")
def test_what_is_built_is_valid_and_reads_back() -> None:
    plex = build_plex(**PLACE, extras=[("Tag", "b"), ("Note", " a: b "), ("Tag", "a")], data=b"hi")
    sealed = seal(plex, forge.KEY)
    for made in (build_blob(b"hi"), plex, sealed):
        read = validate_record(made.raw).unwrap()
        assert read == made
        assert (type(read), read.hash, read.parts) == (type(made), made.hash, made.parts)
        assert read.data == b"hi"
        assert read.data_length == 2
        assert reread(made.raw).parts == made.parts
    assert (plex.group, plex.app, plex.name, plex.tai) == tuple(PLACE.values())
    assert plex.extras == (("Note", " a: b "), ("Tag", "b"), ("Tag", "a"))
    assert (sealed.group, sealed.extras) == (plex.group, plex.extras)
    assert sealed.signed_by == forge.KEY.verifier
    assert sealed.plex == plex
    assert sealed.plex_hash == plex.hash
    assert sealed.blob == plex.blob == build_blob(b"hi")
    assert str(sealed.coordinate) == "//u//ding//links/1"


def test_records_are_values() -> None:
    blob = build_blob(b"x")
    assert blob == build_blob(b"x")
    assert hash(blob) == hash(build_blob(b"x"))
    assert blob != build_blob(b"y")
    assert blob != "x"
    assert repr(blob) == f"<Blob {blob.hash}>"
    with pytest.raises(FrozenInstanceError):
        blob.raw = b""  # type: ignore[misc]


@pytest.mark.req("010-REC-06", "010-REC-07", "010-REC-08", "010-REC-10", "020-FAC-08")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"group": ""}, Code.TEXT_EMPTY),
        ({"group": "a\nApp: b"}, Code.TEXT_CONTROL),
        ({"app": "a//b"}, Code.PATH_EMPTY_SEGMENT),
        ({"name": "a/.."}, Code.PATH_RESERVED_SEGMENT),
        ({"tai": "now"}, Code.TAI_MALFORMED),
        ({"tai": "1640995200:000000000\n"}, Code.TAI_MALFORMED),
        ({"extras": [("X", "")]}, Code.TEXT_EMPTY),
        ({"extras": [("X", "a\nY: b")]}, Code.TEXT_CONTROL),
        ({"extras": [("X", "e\u0301")]}, Code.TEXT_NFC),
        ({"extras": [("e\u0301", "x")]}, Code.TEXT_NFC),
        ({"extras": [("X", "\u0378")]}, Code.TEXT_UNASSIGNED),
        ({"extras": [("X", "\ud800")]}, Code.TEXT_UTF8),
        ({"extras": [("\ud800", "x")]}, Code.TEXT_UTF8),
        ({"extras": [("", "x")]}, Code.RECORD_HEADER_SYNTAX),
        ({"extras": [("a b", "x")]}, Code.RECORD_HEADER_SYNTAX),
        ({"extras": [("a:", "x")]}, Code.RECORD_HEADER_SYNTAX),
        ({"extras": [("a\n", "x")]}, Code.RECORD_HEADER_SYNTAX),
        ({"extras": [("Type", "x")]}, Code.RECORD_HEADER_RESERVED),
        ({"extras": [("🖧", "x")]}, Code.RECORD_HEADER_RESERVED),
        ({"extras": [("X", "a" * 1022)]}, Code.RECORD_HEADER_TOO_LONG),
        ({"name": "n" * 1019}, Code.RECORD_HEADER_TOO_LONG),
        ({"extras": [("X", "a")] * 513}, Code.RECORD_HEADER_COUNT),
    ],
)
def test_what_cannot_become_valid_is_not_built(change: dict[str, Any], code: Code) -> None:
    with pytest.raises(RecordError) as caught:
        build_plex(**(PLACE | change))
    assert caught.value.code is code


def test_a_header_that_is_too_long_is_named() -> None:
    with pytest.raises(RecordError, match="header 'Note' has 3006 bytes, at most 1024"):
        build_plex(**PLACE, extras=[("Title", "t"), ("Note", "a" * 3000)])


@pytest.mark.req("010-REC-12")
def test_the_size_limit_is_enforced_and_configurable() -> None:
    small = replace(DEFAULT_LIMITS, blob_bytes=4)
    assert build_blob(b"1234", limits=small).data_length == 4
    with pytest.raises(RecordError) as caught:
        build_blob(b"12345", limits=small)
    assert caught.value.code is Code.RECORD_DATA_TOO_LARGE
    for made in (build_blob(b"12345"), build_plex(**PLACE, data=b"12345")):
        outcome = validate_record(made.raw, small)
        assert (outcome.status, outcome.code) == (Status.REJECTED, Code.RECORD_DATA_TOO_LARGE)
        assert validate_record(made.raw, replace(small, blob_bytes=5)).ok


@pytest.mark.req("010-REC-08", "010-REC-10")
def test_header_limits_are_configurable() -> None:
    made = build_plex(**PLACE, extras=[("X", "a" * 200), ("Y", "b")])
    assert validate_record(made.raw, replace(DEFAULT_LIMITS, header_line_bytes=203)).ok
    shorter = validate_record(made.raw, replace(DEFAULT_LIMITS, header_line_bytes=202))
    assert shorter.code is Code.RECORD_HEADER_TOO_LONG
    fewer = validate_record(made.raw, replace(DEFAULT_LIMITS, extra_headers=1))
    assert fewer.code is Code.RECORD_HEADER_COUNT


@pytest.mark.req("010-REC-02", "010-REC-09")
def test_large_records_are_read_as_well() -> None:
    """Beyond a certain size no copies are made for hashing; the answer is the same."""
    made = seal(build_plex(**PLACE, data=bytes(200_000)), forge.KEY)
    assert validate_record(made.raw).value == made
    assert validate_record(made.raw[:-1] + b"\1").code is Code.RECORD_HASH_MISMATCH


@pytest.mark.req("010-REC-02")
def test_an_inspection_lists_every_digest_with_expected_and_got() -> None:
    sealed = forge.seal()
    good = inspect_record(sealed)
    assert good.fault is None
    assert good.headers_hold
    bad = inspect_record(sealed[:-1] + b"X")
    assert bad.headers_hold
    failed = [check for check in bad.checks if not check.ok]
    assert [check.rule for check in failed] == [
        "Blob digest",
        "Plex digest",
        "Seal digest",
        "signature",
    ]
    for check in failed[:3]:
        assert check.expected != check.got
        assert f"expected {check.expected}, got {check.got}" in check.detail
    assert not inspect_record(sealed.replace(b"App: ", b"App:")).headers_hold


def test_an_inspection_says_where() -> None:
    raw = forge.plex_with(b"B: 1", b"A: 1")
    fault = inspect_record(raw).fault
    assert fault is not None
    assert raw[fault.offset :].startswith(b"A: 1")


@pytest.mark.req("020-FAC-02", "020-FAC-04", "020-FAC-05", "020-FAC-07")
def test_facts_of_each_type() -> None:
    plex = build_plex(**PLACE, extras=[("Role", "writer")], data=b"hello")
    sealed = seal(plex, forge.KEY, aux=forge.AUX)
    assert list(facts(plex.blob)) == [
        ("Have", plex.blob_hash),
        ("Field", plex.blob_hash, "Type", "0", "B"),
        ("Field", plex.blob_hash, "Data-Length", "0", "5"),
    ]
    placed = [
        ("Group", "0", "u"),
        ("App", "0", "ding"),
        ("Name", "0", "links/1"),
        ("TAI", "0", "1640995200:000000000"),
        ("Role", "0", "writer"),
        ("Data-Length", "0", "5"),
    ]
    assert list(facts(plex)) == [
        ("Have", plex.hash),
        ("Field", plex.hash, "Type", "0", "P"),
        *[("Field", plex.hash, *field) for field in placed],
        ("BlobHash", plex.hash, plex.blob_hash),
    ]
    assert list(facts(sealed)) == [
        ("Have", sealed.hash),
        ("Field", sealed.hash, "Type", "0", "S"),
        ("Field", sealed.hash, "Signed-By", "0", forge.KEY.verifier),
        ("Field", sealed.hash, "Signature", "0", sealed.signature),
        *[("Field", sealed.hash, *field) for field in placed],
        ("PlexHash", sealed.hash, plex.hash),
    ]


@pytest.mark.req("020-FAC-03")
def test_repeated_names_are_numbered_in_author_order() -> None:
    plex = build_plex(**PLACE, extras=[("Tag", "z"), ("A", "1"), ("Tag", "a")])
    tags = [fact[2:] for fact in facts(plex) if fact[2:3] in {("Tag",), ("A",)}]
    assert tags == [("A", "0", "1"), ("Tag", "0", "z"), ("Tag", "1", "a")]


@pytest.mark.req("010-REC-13", "020-FAC-06")
def test_links() -> None:
    target = build_blob(b"x").hash
    plex = build_plex(
        **PLACE,
        extras=[
            ("+Link", f"evidence of this {target}"),
            ("+Link", "nothing"),
            ("+Link", f" {target}"),
            ("+Link", "later S.abc.H9"),
            ("+Link", "short S.abc.H3"),
            ("Type+Link", f"x {target}"),
            ("+Linked", f"x {target}"),
            ("Link", f"x {target}"),
        ],
    )
    assert [(ln.name, ln.index, ln.data, ln.target) for ln in links(plex)] == [
        ("+Link", 0, "evidence of this", target),
        ("+Link", 3, "later", "S.abc.H9"),
        ("Type+Link", 0, "x", target),
    ]
    named = [fact for fact in facts(plex) if fact[0] == "RecordLink"]
    assert ("RecordLink", plex.hash, "+Link", "0", "evidence of this", target) in named
    assert len([fact for fact in facts(plex) if fact[2:3] == ("+Link",)]) == 5 + len(named) - 1


@pytest.mark.req("020-FAC-01", "020-FAC-06")
def test_unsupported_formats_never_become_records() -> None:
    raw = forge.blob().replace(b".H3\n", b".H9\n", 1)
    outcome = validate_record(raw)
    assert (outcome.value, outcome.code) == (None, Code.RECORD_MARKLINE)


@pytest.mark.req("020-FAC-01")
def test_reread_is_for_valid_bytes_only() -> None:
    with pytest.raises(RecordError):
        reread(b"not a record")


def test_both_readings_agree_on_types() -> None:
    for raw, kind in ((forge.blob(), Blob), (forge.plex(), Plex), (forge.seal(), Seal)):
        assert isinstance(validate_record(raw).value, kind)
        assert inspect_record(raw, provider=reference).fault is None


def test_what_all_records_have_is_asked_in_one_way() -> None:
    plex = build_plex(
        group="g", app="a", name="n", tai="1700000000:000000000",
        extras=[("Tag", "x"), ("Tag", "y"), ("Title", "t")], data=b"d",
    )  # fmt: skip
    key = SigningKey(b"k" * 32)
    sealed = seal(plex, key)
    records: list[Record] = [sealed, plex, plex.blob]
    assert [str(r.place) for r in records] == ["//g//a//n", "//g//a//n", "None"]
    assert [r.time for r in records] == ["1700000000:000000000", "1700000000:000000000", None]
    assert [r.author for r in records] == [key.verifier, None, None]
    assert [dict(r.fields) for r in records] == [{"Tag": "x", "Title": "t"}] * 2 + [{}]


@pytest.mark.parametrize("change", [bytearray, memoryview, lambda _: None, lambda _: "text"])
def test_what_may_change_is_no_record(change: Callable[[bytes], Any]) -> None:
    raw = build_plex(group="g", app="a", name="n", tai="0000000001:000000000").raw
    for validate in (validate_record, lambda raw: next(validate_frames([raw], workers=1))):
        with pytest.raises(UsageError) as caught:
            validate(change(raw))
        assert caught.value.code is Code.INPUT_TYPE


@pytest.mark.req("010-REC-12")
def test_headers_without_end_take_little_memory() -> None:
    """A regular expression that gives back would keep a note of each header."""
    blob = build_blob(b"").raw
    head = b"Group: g\nApp: a\nName: n\nTAI: 0000000000:000000000\n" + b"a: b\n" * 1_000_000
    digest = b64a.encode_digest(native.digest(head + blob))
    raw = "🖧: P.".encode() + digest + b".H3\n" + head + blob
    tracemalloc.start()
    try:
        assert validate_record(raw).code is Code.RECORD_HEADER_COUNT
        assert tracemalloc.get_traced_memory()[1] < 4 * len(raw)
    finally:
        tracemalloc.stop()
