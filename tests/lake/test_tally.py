"""What a stream tells operators is what became of its batches."""

from __future__ import annotations

from pathlib import Path
from urllib.request import urlopen

import pytest

from lace.errors import TransportError
from lace.lake.ingest import StepResult
from lace.lake.pipeline import Done
from lace.lake.stream import Batch
from lace.lake.tables import Lake
from lace.lake.tally import RUN_METRICS, STREAM_METRICS, RunTally, StreamTally
from lace.serving.metrics import Metrics, metrics_at


def test_batches_are_counted_and_answered(tmp_path: Path) -> None:
    tally = StreamTally(Lake.open(None, str(tmp_path / "lake"), create=True))
    result = StepResult(version=4, records=90, duplicates=5, repeated=3, forgotten=1, quarantined=1)
    told = tally.take(Batch(7, result, 2.0))
    assert told.pop("date").startswith("20")
    assert told == {
        "event": "batch", "batch": 7, "version": 4, "records": 90, "duplicates": 5, "repeated": 3,
        "forgotten": 1, "quarantined": 1, "seconds": 2.0, "rows_per_second": 50,
    }  # fmt: skip
    tally.take(Batch(8, StepResult(version=5, records=10), 0.0))
    with metrics_at(tally.metrics, 0) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
        with pytest.raises(TransportError), metrics_at(tally.metrics, port):
            pass
    with pytest.raises(OSError):
        urlopen(f"http://127.0.0.1:{port}/metrics")
    for line in (
        "lace_lake_batches_total 2",
        'lace_lake_rows_total{outcome="records"} 100',
        'lace_lake_rows_total{outcome="quarantined"} 1',
        "lace_lake_records 0",
    ):
        assert f"{line}\n" in text
    assert [line.split()[2] for line in text.splitlines() if "# TYPE" in line] == [*STREAM_METRICS]


def test_names_of_steps_cannot_break_a_line() -> None:
    done = Done(step='a "b" \\ \n', changed=True, read={}, wrote={}, put_aside=2)
    tally = RunTally()
    tally.take(done, 1.5)
    assert "lace_lake_run_failed 0\n" in tally.metrics.text()
    tally.tell(failed=True)
    text = tally.metrics.text()
    assert "lace_lake_run_failed 1\n" in text
    assert 'lace_lake_step_seconds{step="a \\"b\\" \\\\ \\n"} 1.5\n' in text
    assert {line.split("{")[0].split()[0] for line in text.splitlines() if line[0] != "#"} == set(
        RUN_METRICS
    )
    assert Metrics().text().startswith("# HELP lace_connections ")
