"""Unsigned records against hashing alone: what is left is the cost of parsing in Python."""

from __future__ import annotations

import timeit
from collections.abc import Callable

from blake3 import blake3

from lace.b64a import encode_digest
from lace.errors import Outcome, Status
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS
from lace.record.grammar import MARKLINE_BYTES, PLEX
from lace.record.model import Plex, Record
from lace.record.validate import _extras_hold, recognise, validate_record
from measure import Effort, Result, Target, race
from records import make_plexes, payload, raw_of, size_note

_FLOOR = "2 BLAKE3"
_TARGET = Target(sign=">=", ratio=0.3)
_BLOB_DIGEST = 7  # its group number in the grammar of a Plex
_LOOPS = 500


def run(effort: Effort) -> list[Result]:
    plexes = make_plexes(effort.records)
    raws = raw_of(plexes)
    payloads = [(payload(plex), payload(plex.blob)) for plex in plexes]

    def recognise_all() -> None:
        for raw in raws:
            recognise(raw)

    def validate_all() -> None:
        for raw in raws:
            validate_record(raw)

    def hash_only() -> None:
        for plex, blob in payloads:
            blake3(plex).digest()
            blake3(blob).digest()

    recognised, validated, hashed = race(
        recognise_all, validate_all, hash_only, rounds=effort.rounds
    )
    return [
        Result(
            name="plex parsing: recognise",
            unit="records/s",
            count=len(raws),
            seconds=recognised,
            floor=_FLOOR,
            floor_seconds=hashed,
            target=_TARGET,
            notes=(size_note(raws), *_breakdown(plexes[0], effort.rounds)),
        ),
        Result(
            name="plex parsing: validate_record",
            unit="records/s",
            count=len(raws),
            seconds=validated,
            floor=_FLOOR,
            floor_seconds=hashed,
            target=_TARGET,
        ),
    ]


def _breakdown(plex: Plex, rounds: int) -> list[str]:
    """Return where the time of one ``validate_record`` goes, one line a step."""
    steps = _steps(plex.raw)
    jobs = [lambda: None, lambda: validate_record(plex.raw), *steps.values()]
    timers = [timeit.Timer(job) for job in jobs]
    least = race(*[lambda timer=timer: timer.timeit(_LOOPS) for timer in timers], rounds=rounds)
    # Each step is called through a lambda; the first job is that call and nothing else.
    whole, *costs = [(seconds - least[0]) / _LOOPS * 1e6 for seconds in least[1:]]
    shares = dict(zip(steps, costs, strict=True))
    shares["calls, branches, the rest"] = whole - sum(costs)
    lines = [f"  {name:<28}{cost:6.2f} µs {cost / whole:5.0%}" for name, cost in shares.items()]
    title = "where the time of one validate_record goes:"
    return [title, *lines, f"  {'in all':<28}{whole:6.2f} µs {1:5.0%}"]


def _steps(raw: bytes) -> dict[str, Callable[[], object]]:
    """Return the steps of ``recognise`` for a Plex, each by itself."""
    match = PLEX.match(raw)
    assert match is not None
    parts = match.groups()
    extras = parts[-3]
    blob_at = match.start(_BLOB_DIGEST) - (MARKLINE_BYTES - len(parts[-2]) - len(".H3\n"))
    digest = blake3(raw).digest()
    record: Record = Plex(RecordHash(""), raw, parts)

    def extract() -> object:
        groups = match.groups()
        return groups, int(groups[-1]), match.end(), match.start(_BLOB_DIGEST)

    def check_text() -> object:
        headers = raw[MARKLINE_BYTES:blob_at]
        return headers.isascii() and len(headers) > DEFAULT_LIMITS.header_line_bytes

    def hash_both() -> object:
        plex = blake3(raw[MARKLINE_BYTES:]).digest()
        return plex, blake3(raw[blob_at + MARKLINE_BYTES :]).digest()

    def spell_both() -> object:
        return encode_digest(digest) == parts[0], encode_digest(digest) == parts[-2]

    return {
        "hashing (the floor)": hash_both,
        "header grammar match": lambda: PLEX.match(raw),
        "group extraction": extract,
        "text and line length check": check_text,
        "extras check": lambda: _extras_hold(extras, DEFAULT_LIMITS),
        "digest to text": spell_both,
        "object: Plex": lambda: Plex(RecordHash(f"P.{parts[0].decode()}.H3"), raw, parts),
        "object: Outcome": lambda: Outcome(Status.ACCEPTED, record),
    }
