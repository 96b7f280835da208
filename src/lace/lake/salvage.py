"""Records behind damage: a bundle is read on at the next place that proves to be a record.

Nothing is guessed. A place counts only if the bytes there are a whole, valid record, digest and
signature included, and are not the inside of a larger record's head. What lies before it is put
aside. A frame whose digest does not fit and that is followed by no frame may have a wrong length:
then it is searched too. All of this follows from the bytes of the bundle alone, so that readers of
parts find what a reader of the whole finds.

Data that was quoted in a damaged record can come to light this way. It is signed by whoever signed
it, and says no more than anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lace.errors import Code, LakeError, Outcome
from lace.lake.places import Bytes
from lace.limits import DEFAULT_LIMITS, MIB, Limits
from lace.record import grammar
from lace.record.model import Record
from lace.record.split import Frame, RecordSplitter, find_end
from lace.record.validate import validate_record, validate_records

Judge = Callable[[Sequence[bytes]], list[Outcome[Record]]]
"""Says of each of some bytes whether they are a record."""

ALLOWANCE: Final = MIB
"""Bytes that may be looked at in search of a record, beside some for each byte passed over."""
_A_BYTE: Final = 32
_AT_ONCE: Final = 256 * 1024
"""Bytes of records that are judged together: so many stay in the caches of a core meanwhile."""
_LOOK: Final = 1024
_LINE: Final = 1024
_WINDOW: Final = 64 * 1024
_WINDOW_BYTES: Final = 4 * MIB
_HEADER: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+-]*: ")
#: The digest fits, so that the length is what its author wrote.
_PROVEN: Final = frozenset({Code.RECORD_SIGNATURE, Code.RECORD_WORKER_CRASH})


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a bundle that are no records."""

    start: int
    end: int
    code: Code
    detail: str


Judged = tuple[list[Frame], list[Outcome[Record]]]


def judge_here(raws: Sequence[bytes]) -> list[Outcome[Record]]:
    return validate_records(raws)


def walk(
    file: Bytes,
    start: int,
    end: int,
    *,
    final: bool,
    judge: Judge = judge_here,
    limits: Limits = DEFAULT_LIMITS,
    allowance: int = ALLOWANCE,
) -> Iterator[Judged | Stretch]:
    """Yield the frames of a part of a bundle with what they are, and the stretches that are none.

    ``start`` is a record boundary, and ``end`` too; of the last part it is the end of the bundle.
    Raises ``LakeError`` if ``end`` turns out to be no boundary.
    """
    at = start
    while at < end:
        splitter = RecordSplitter(limits, at)
        held: Judged = ([], [])  # a doubtful frame, until what follows it is known
        for chunk in _cut_up(file.growing(at, end)):
            frames = [found for found in splitter.feed(chunk) if isinstance(found, Frame)]
            if frames:
                outcomes = [*held[1], *judge([frame.raw for frame in frames])]
                frames = [*held[0], *frames]
                split = len(frames) - _is_doubtful(outcomes[-1])
                held = (frames[split:], outcomes[split:])
                yield frames[:split], outcomes[:split]
            if splitter.broken is not None:
                break
        splitter.close()
        broken = splitter.broken
        if broken is None:
            yield held
            return
        place, code, detail = broken.offset, broken.code, broken.detail
        if code is Code.RECORD_TRUNCATED:
            detail = "the bundle ends within this record"
        if code is Code.RECORD_TRUNCATED and not final:
            crossing = _crossing(file, place, judge, limits)
            if crossing is not None:
                yield held
                held = ([], [])
                code, detail = crossing.code or code, crossing.detail
        if held[0]:
            (frame,), (outcome,) = held
            place, code = frame.offset, outcome.code or Code.RECORD_MALFORMED
            detail = outcome.detail
        found = next_record(file, place + 1, end, judge, limits, allowance)
        if found is None and not final:
            raise _no_boundary(file.uri, end)
        yield Stretch(place, end if found is None else found, code, detail)
        if found is None:
            return
        at = found


def _cut_up(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for at in range(0, len(chunk), _AT_ONCE):
            yield chunk[at : at + _AT_ONCE]


def boundaries(file: Bytes, start: int, limits: Limits = DEFAULT_LIMITS) -> Iterator[int]:
    """Yield where frames begin behind other frames, from a record boundary to the end."""
    at, size = start, file.size
    while at < size:
        splitter = RecordSplitter(limits, at)
        last: Frame | None = None
        for chunk in file.growing(at, size):
            for found in splitter.feed(chunk):
                if isinstance(found, Frame):
                    if last is not None:
                        yield found.offset
                    last = found
            if splitter.broken is not None:
                break
        splitter.close()
        if splitter.broken is None:
            return
        place = splitter.broken.offset
        if last is not None and _is_doubtful(validate_record(last.raw, limits)):
            place = last.offset
        following = next_record(file, place + 1, size, judge_here, limits)
        if following is None:
            return
        at = following


def next_record(
    file: Bytes,
    begin: int,
    stop: int,
    judge: Judge,
    limits: Limits = DEFAULT_LIMITS,
    allowance: int = ALLOWANCE,
) -> int | None:
    """Return the first place from ``begin`` on, before ``stop``, that proves to be a record.

    How many bytes are looked at is bounded by how many are passed over, so that made-up heads with
    long claims cost little. A valid record can be passed over for that; its bytes are put aside.
    """
    spent, at, width = 0, begin, _WINDOW
    while at < stop:
        window = file.read(at, min(width, stop - at) + len(grammar.MARK) - 1)
        hit = window.find(grammar.MARK)
        while hit >= 0:
            place = at + hit
            left = allowance + _A_BYTE * (place - begin) - spent
            if left >= _LOOK:
                cost, is_record = _try(file, place, left, judge, limits)
                if is_record:
                    return place
                spent += cost
            hit = window.find(grammar.MARK, hit + 1)
        at += min(width, stop - at)
        width = min(2 * width, _WINDOW_BYTES)
    return None


def _try(file: Bytes, place: int, left: int, judge: Judge, limits: Limits) -> tuple[int, bool]:
    """Return how many bytes a look at a place costs, and whether it is a record."""
    cost = _LOOK
    data = file.read(place, _LOOK)
    if data[len(grammar.MARK) : len(grammar.MARK) + 1] != b"S" and _is_in_head(file, place):
        return cost, False
    end = find_end(data, 0, 0, limits)
    if end == 0 and place + len(data) < file.size:
        cost += limits.record_head_bytes
        if cost > left:
            return _LOOK, False
        end = find_end(file.read(place, limits.record_head_bytes), 0, 0, limits)
    if not isinstance(end, int) or not end or place + end > file.size or cost + end > left:
        return cost, False
    (outcome,) = judge([file.read(place, end)])
    return cost + end, outcome.ok


def _is_in_head(file: Bytes, place: int) -> bool:
    """Whether the line before a place is a header: then this is the inside of another record."""
    before = file.read(max(0, place - _LINE), min(place, _LINE))
    if not before.endswith(b"\n"):
        return False
    line_at = before.rfind(b"\n", 0, -1)
    if line_at < 0 and len(before) == _LINE:
        return True  # a line that long may be a header
    return _HEADER.match(before, line_at + 1) is not None


def _crossing(file: Bytes, place: int, judge: Judge, limits: Limits) -> Outcome[Record] | None:
    """Return what a frame is that crosses the end of a part; None if the bundle ends within it.

    Raises ``LakeError`` if its length is right: then the part should not end there.
    """
    size = file.size
    end = find_end(file.read(place, limits.record_head_bytes), 0, 0, limits)
    if not isinstance(end, int) or not end or place + end > size:
        return None
    (outcome,) = judge([file.read(place, end)])
    behind = place + end
    following = find_end(file.read(behind, limits.record_head_bytes), 0, 0, limits)
    is_frame = isinstance(following, int) and 0 < following <= size - behind
    if not _is_doubtful(outcome) or is_frame or behind == size:
        raise LakeError(
            f"{file.uri}: a part ends within the record at {place}", code=Code.LAKE_INDEX
        )
    return outcome


def _is_doubtful(outcome: Outcome[Record]) -> bool:
    return not outcome.ok and outcome.code not in _PROVEN


def _no_boundary(bundle: str, place: int) -> LakeError:
    message = f"{bundle}: byte {place} is no record boundary"
    return LakeError(message, code=Code.LAKE_INDEX)
