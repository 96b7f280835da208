"""Splitting a bundle and validating what comes out, against validating alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lace.limits import MIB
from lace.record.model import Record
from lace.record.split import Frame, split_records
from lace.record.validate import validate_record
from measure import Effort, Result, race
from records import make_plexes, make_seals, raw_of, size_note

_CHUNK_BYTES: Final = MIB


def run(effort: Effort) -> list[Result]:
    """Measure Seals, the usual content, and Plexes, where splitting weighs most."""
    return [
        _measure("split + validate: seals", make_seals(effort.bundle_records), effort),
        _measure("split + validate: plexes", make_plexes(effort.bundle_records), effort),
    ]


def _measure(name: str, records: Sequence[Record], effort: Effort) -> Result:
    raws = raw_of(records)
    bundle = b"".join(raws)
    chunks = [bundle[at : at + _CHUNK_BYTES] for at in range(0, len(bundle), _CHUNK_BYTES)]

    def split_only() -> int:
        return sum(isinstance(frame, Frame) for frame in split_records(chunks))

    def split_and_validate() -> None:
        for frame in split_records(chunks):
            if isinstance(frame, Frame):
                validate_record(frame.raw)

    def validate() -> None:
        for raw in raws:
            validate_record(raw)

    if split_only() != len(raws):
        raise RuntimeError("the bundle did not split into the records it was made of")
    seconds, floor_seconds, split_seconds = race(
        split_and_validate, validate, split_only, rounds=effort.bundle_rounds
    )
    megabytes = len(bundle) / 1e6
    return Result(
        name=name,
        unit="records/s",
        count=len(raws),
        seconds=seconds,
        floor="validate alone",
        floor_seconds=floor_seconds,
        notes=(
            f"{size_note(raws)}, fed in {len(chunks)} chunks of at most 1 MiB",
            f"split + validate: {megabytes / seconds:.1f} MB/s",
            f"split alone: {megabytes / split_seconds:.0f} MB/s",
        ),
    )
