from __future__ import annotations

import itertools
import zlib
from dataclasses import replace

import forge
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lace.errors import Code
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.record.grammar import MARK
from lace.selectors import selector
from lace.stream import items as i
from lace.stream import packing

NONCE = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcded"
MODULE = selector("//g//notes//")
PLAN = ExchangePlan(label_operands(Party(index=0, module=MODULE), Party(index=1, module=MODULE)))
FACT = b"MayRequest('P.x.H3')\n"
SMALL = replace(
    DEFAULT_LIMITS, header_line_bytes=97, extra_headers=0, blob_bytes=64, stream_line_bytes=40,
    max_fact_block_size=100, lacegram_bytes=2000,
)  # fmt: skip

PARTS = [
    i.preface(NONCE),
    FACT,
    FACT * 3,
    b"HelloAllAdvertisedFields()\n",
    b"# a word to people\n",
    b"#\n",
    i.resource(MODULE.id, MODULE.text.encode()),
    i.resource(PLAN.id, PLAN.transcript.encode()),
    i.resource("R." + "0" * 43, b"not what the id says"),
    forge.seal(),
    forge.plex(),
    forge.blob(b"\n\n" * 30),
    b"\n",
    b"\n\n",
]
BROKEN = [
    b"!",
    b"\r\n",
    b" MayRequest('x')\n",
    b"\xf0\x9f\x00",
    "🪢: ILTP/2\n".encode() + f"Nonce: {NONCE}\n\n".encode(),
    "🪢: ".encode() + b"x" * 300 + b"\n",
    "🧩: R.short\nData-Length: 3\n\nabc".encode(),
    f"🧩: {MODULE.id}\nData-Length: 999999999\n\n".encode(),
    MARK + b"x" * 2000,
    MARK + b"P.x.H3\nData-Length: 007\n\n",
    "⋯🖧: S".encode(),
    b"A" * 50,
    b"#" * 50,
]


def read(chunks: list[bytes], limits: Limits = DEFAULT_LIMITS) -> list[i.Item]:
    reader = i.ItemReader(limits)
    found = [item for chunk in chunks for item in reader.feed(chunk)]
    assert reader.held <= sum(map(len, chunks))
    found += reader.close()
    if reader.malformed is not None:
        assert found[-1] == reader.malformed
        assert reader.held == 0
        assert reader.feed(FACT) == []
    return found


def joined(items: list[i.Item]) -> list[i.Item]:
    """Put neighbouring lines of one kind together: only their blocks depend on the chunks."""
    out: list[i.Item] = []
    for item in items:
        last = out[-1] if out else None
        if (
            isinstance(item, i.FactLines)
            and isinstance(last, i.FactLines)
            and not (item.packed or last.packed)
        ):
            assert item.offset == last.offset + len(last.content)
            out[-1] = i.FactLines(last.offset, last.content + item.content)
        elif isinstance(item, i.Comments) and isinstance(last, i.Comments):
            assert item.offset == last.offset + len(last.content)
            out[-1] = i.Comments(last.offset, last.content + item.content)
        else:
            out.append(item)
    return out


@pytest.mark.req("060-TRN-03")
@given(
    parts=st.lists(st.sampled_from(PARTS + BROKEN), max_size=6),
    cuts=st.lists(st.integers(0, 3000), max_size=12),
    tail=st.integers(0, 8),
    limits=st.sampled_from([DEFAULT_LIMITS, SMALL]),
)
def test_items_do_not_depend_on_the_chunks(
    parts: list[bytes], cuts: list[int], tail: int, limits: Limits
) -> None:
    stream = b"".join(parts)
    stream = stream[: len(stream) - tail]
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges)]
    whole = joined(read([stream], limits))
    assert joined(read(chunks, limits)) == whole
    assert joined(read([bytes([byte]) for byte in stream], limits)) == whole


@pytest.mark.req("060-TRN-03")
def test_every_kind_is_told_by_its_first_bytes() -> None:
    raw = forge.seal()
    text = MODULE.text.encode()
    stream = i.preface(NONCE) + i.resource(MODULE.id, text) + FACT + b"# hi\n\n" + raw + b"\n"
    found = read([stream])
    assert found[0] == i.Preface(0, NONCE)
    assert found[1] == i.Resource(len(i.preface(NONCE)), MODULE.id, text)
    kinds = [type(item) for item in found[2:]]
    assert kinds == [i.FactLines, i.Comments, i.PhaseEnd, i.RecordBytes, i.PhaseEnd]
    assert found[-2] == i.RecordBytes(len(stream) - 1 - len(raw), raw)
    assert [stream[item.offset : item.offset + 1] for item in found[2:5]] == [b"M", b"#", b"\n"]


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (b"!", Code.ILTP_ITEM),
        (b"\x00", Code.ILTP_ITEM),
        (b"'", Code.ILTP_ITEM),
        (b"\r\n", Code.ILTP_ITEM),
        ("é".encode(), Code.ILTP_ITEM),
        (b"\xf0\x9f\xaa\xa2x", Code.ILTP_ITEM),
        ("🪢: ILTP/2\n".encode() + f"Nonce: {NONCE}\n\n".encode(), Code.ILTP_VERSION),
        ("🪢: ILTP/1\n".encode() + f"Nonce: {NONCE[1:]}\n\n".encode(), Code.ILTP_PREFACE),
        ("🪢: ILTP/1\n".encode() + f"Nonce: {NONCE[:-1]}~\n\n".encode(), Code.ILTP_PREFACE),
        ("🪢: ILTP/1\n\n".encode(), Code.ILTP_PREFACE),
        ("🪢: ".encode() + b"x" * 500, Code.ILTP_PREFACE),
        (f"🧩: {MODULE.id}\nData-Length: 03\n\nabc".encode(), Code.ILTP_RESOURCE),
        (f"🧩: {MODULE.id}\nData-Length: 1048577\n\n".encode(), Code.ILTP_RESOURCE_SIZE),
        (f"🧩: Q{MODULE.id[1:]}\nData-Length: 3\n\nabc".encode(), Code.ILTP_RESOURCE),
        (b"A" * 16_385, Code.ILTP_LINE),
        (b"#" + b"x" * 16_384, Code.ILTP_LINE),
        (MARK + b"P.x.H3\nData-Length: 33554433\n\n", Code.RECORD_DATA_TOO_LARGE),
        (MARK + b"P.x.H3\nData-Length: x\n\n", Code.RECORD_DATA_LENGTH),
        ("⋯🖧: S".encode(), Code.RECORD_TRAILER_FORM),
        (b"A", Code.ILTP_TRUNCATED),
        ("🖧".encode(), Code.ILTP_TRUNCATED),
        (forge.seal()[:-1], Code.ILTP_TRUNCATED),
        (i.preface(NONCE)[:-1], Code.ILTP_TRUNCATED),
    ],
)
def test_what_is_malformed_has_a_code_and_a_place(broken: bytes, code: Code) -> None:
    before = i.preface(NONCE) + FACT + b"\n" + forge.seal()
    *good, last = read([before + broken])
    assert [type(item) for item in good] == [i.Preface, i.FactLines, i.PhaseEnd, i.RecordBytes]
    assert isinstance(last, i.Malformed)
    assert (last.code, last.offset) == (code, len(before))
    assert last.detail


@pytest.mark.req("060-TRN-06")
def test_a_resource_is_held_to_its_id() -> None:
    (item,) = read([i.resource(PLAN.id, PLAN.transcript.encode())])
    assert item == i.Resource(0, PLAN.id, PLAN.transcript.encode())
    (wrong,) = read([i.resource(MODULE.id, MODULE.text.encode() + b"\n")])
    assert isinstance(wrong, i.Malformed)
    assert wrong.code is Code.POLICY_MODULE_ID


@pytest.mark.req("050-LIM-02", "050-ERR-12")
def test_a_block_is_held_to_its_limit_however_it_is_cut() -> None:
    limits = replace(DEFAULT_LIMITS, max_fact_block_size=5 * len(FACT))
    assert len(joined(read([FACT * 5 + b"\n" + FACT * 5 + b"\n"], limits))) == 4
    for chunks in ([FACT * 6], [FACT] * 6):
        lines, last = joined(read(chunks, limits))
        assert lines == i.FactLines(0, FACT * 5)
        assert isinstance(last, i.Malformed)
        assert (last.code, last.offset) == (Code.INTERLACE_BLOCK_SIZE, 5 * len(FACT))
    # Comments count too: a flood of them is no way around the limit.
    last = read([b"# x\n" * 1000], limits)[-1]
    assert isinstance(last, i.Malformed)
    assert last.code is Code.INTERLACE_BLOCK_SIZE


def test_lengths_are_refused_before_their_bytes_come() -> None:
    reader = i.ItemReader()
    (item,) = reader.feed(MARK + b"B.x.H3\nData-Length: 999999999\n\n")
    assert isinstance(item, i.Malformed)
    assert reader.held == 0


def test_the_longest_line_is_allowed() -> None:
    line = b"A" * DEFAULT_LIMITS.stream_line_bytes + b"\n"
    assert joined(read([line])) == [i.FactLines(0, line)]
    assert joined(read([line[:100], line[100:]])) == [i.FactLines(0, line)]


def lines(items: list[i.Item]) -> list[bytes]:
    assert all(isinstance(item, i.FactLines | i.Comments) for item in items)
    return [item.content for item in items if isinstance(item, i.FactLines | i.Comments)]


@pytest.mark.parametrize("unit", [b"#\n", b"# a word for people\n", b"A()\n", FACT])
def test_tiny_lines_come_together_and_in_pieces(unit: bytes) -> None:
    """A megabyte of them makes some dozens of items: no step of its own for each line."""
    stream = unit * ((1 << 20) // len(unit))
    pieces = lines(read([stream]))
    assert b"".join(pieces) == stream
    assert len(pieces) <= len(stream) / (1 << 14)
    assert max(map(len, pieces)) <= 1 << 15


def test_packed_lines_come_in_pieces_too() -> None:
    stream = FACT * ((1 << 18) // len(FACT))
    reader = i.ItemReader(unpacks=True)
    pieces = lines([item for piece in packing.pack(stream) for item in reader.feed(piece)])
    assert b"".join(pieces) == stream
    assert max(map(len, pieces)) <= 1 << 15


def test_nothing_is_read_that_nobody_takes() -> None:
    reader = i.ItemReader()
    items = reader.read(b"\n" * 1000 + b"!")
    assert [next(items).offset for _ in range(3)] == [0, 1, 2]
    assert reader.malformed is None


def test_packed_lines_are_unpacked_one_block_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk may hold hundreds of blocks of a mebibyte each: nobody has them all at once."""
    lines = b"Fact('x')\n" * 90_000
    packed = zlib.compress(lines, 9)
    head = f"deflate\nData-Length: {len(packed)}\nFull-Length: {len(lines)}\n\n"
    block = packing.MARK + head.encode() + packed
    unpacked = 0
    unpack = packing.unpack

    def counted(packed: bytes, length: int) -> bytes | None:
        nonlocal unpacked
        unpacked += 1
        return unpack(packed, length)

    monkeypatch.setattr(packing, "unpack", counted)
    reader = i.ItemReader(unpacks=True)
    items = reader.read(block * 100)
    for count in (1, 2):
        taken = 0
        while taken < len(lines):
            item = next(items)
            assert isinstance(item, i.FactLines)
            taken += len(item.content)
        assert taken == len(lines)
        assert unpacked == count
    rest = list(items)
    assert isinstance(rest[-1], i.Malformed)
    assert rest[-1].code is Code.INTERLACE_BLOCK_SIZE
    assert unpacked == DEFAULT_LIMITS.max_fact_block_size // len(lines)
