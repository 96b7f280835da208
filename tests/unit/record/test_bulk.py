from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import forge
import pytest

from lace.errors import Code, Outcome
from lace.limits import Limits
from lace.record import Record, build_blob, bulk, validate_record
from lace.record.bulk import Verdict, validate_frames

KILLER = b"kills whoever looks at it"


def stream(count: int) -> list[bytes]:
    """Return valid records with a bad one here and there."""
    raws = [build_blob(b"%d" % index).raw for index in range(count)]
    raws[::97] = [forge.seal()[:-1] + b"X"] * len(raws[::97])
    return raws


def summary(outcomes: Iterator[Outcome[Record]]) -> list[tuple[str | None, Code | None]]:
    return [(o.value.hash if o.value else None, o.code) for o in outcomes]


@pytest.mark.parametrize("workers", [1, 2])
def test_order_is_kept_and_nothing_is_lost(workers: int) -> None:
    raws = stream(3000)
    expected = summary(validate_record(raw) for raw in raws)
    assert summary(validate_frames(iter(raws), workers=workers)) == expected


def test_limits_reach_the_workers() -> None:
    outcomes = list(
        validate_frames([build_blob(b"12345").raw], workers=2, limits=Limits(blob_bytes=4))
    )
    assert [o.code for o in outcomes] == [Code.RECORD_DATA_TOO_LARGE]


def test_nothing_gives_nothing() -> None:
    assert list(validate_frames([], workers=2)) == []


def test_memory_is_bounded_by_reading_only_a_few_batches_ahead() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        raw = build_blob(b"x").raw
        while True:
            taken += 1
            yield raw

    outcomes = validate_frames(endless(), workers=2)
    for _ in range(10):
        next(outcomes)
    assert taken <= 2 * bulk._BATCHES_PER_WORKER * bulk._BATCH_RECORDS
    outcomes.close()  # type: ignore[attr-defined]


real_judge = bulk.judge


def deadly_judge(joined: bytes, lengths: list[int], limits: Limits) -> list[Verdict]:
    if KILLER in joined:
        os.kill(os.getpid(), signal.SIGKILL)
    return real_judge(joined, lengths, limits)


def once_deadly_judge(joined: bytes, lengths: list[int], limits: Limits) -> list[Verdict]:
    flag = Path(os.environ["LACE_TEST_FLAG"])
    if KILLER in joined and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return real_judge(joined, lengths, limits)


def test_a_record_that_kills_workers_is_found_and_the_rest_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "judge", deadly_judge)
    raws = stream(2000)
    raws[700] = KILLER
    crashes: list[int] = []
    outcomes = summary(validate_frames(iter(raws), workers=2, on_crash=crashes.append))
    expected = summary(validate_record(raw) for raw in raws)
    expected[700] = (None, Code.RECORD_WORKER_CRASH)
    assert outcomes == expected
    assert len(crashes) >= 2  # once in the crowd, then in ever smaller company
    assert crashes[-1] == 1


def test_a_worker_killed_from_outside_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bulk, "judge", once_deadly_judge)
    monkeypatch.setenv("LACE_TEST_FLAG", str(tmp_path / "flag"))
    raws = stream(2000)
    raws[700] = KILLER
    crashes: list[int] = []
    outcomes = summary(validate_frames(iter(raws), workers=2, on_crash=crashes.append))
    assert outcomes == summary(validate_record(raw) for raw in raws)
    assert len(crashes) == 1
