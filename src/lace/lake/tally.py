"""What a stream and a run tell operators: numbers for Prometheus, and one entry for each event."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lace.clock import tai_now, unix_ms
from lace.dates import iso_date
from lace.drafts import write_file
from lace.errors import Code, LakeError
from lace.serving.metrics import Metrics, with_labels

if TYPE_CHECKING:
    from lace.lake.pipeline import Done
    from lace.lake.stream import Batch
    from lace.lake.tables import Lake

STREAM_METRICS: Final = {
    "lace_lake_records": ("gauge", "Records in the lake."),
    "lace_lake_version": ("gauge", "The newest version of the lake's records."),
    "lace_lake_batches_total": ("counter", "Batches that were committed."),
    "lace_lake_rows_total": (
        "counter",
        "Records that were read from bundles, by what became of them (outcome).",
    ),
    "lace_lake_batch_seconds": ("gauge", "How long the last batch took."),
    "lace_lake_batch_time_seconds": ("gauge", "When the last batch was committed, in Unix time."),
}
RUN_METRICS: Final = {
    "lace_lake_step_seconds": ("gauge", "How long each step of the last run took."),
    "lace_lake_step_changed": ("gauge", "Whether each step changed anything: 1 or 0."),
    "lace_lake_step_put_aside": ("gauge", "How many records each step put aside."),
    "lace_lake_run_failed": ("gauge", "Whether the last run ended before its last step: 1 or 0."),
    "lace_lake_run_time_seconds": (
        "gauge",
        "When the last run ended, or its last step, in Unix time.",
    ),
}
_OUTCOMES: Final = ("records", "duplicates", "repeated", "forgotten", "quarantined")


@dataclass(slots=True)
class StreamTally:
    """Counts the batches of a stream."""

    lake: Lake
    metrics: Metrics = field(default_factory=lambda: Metrics(known=STREAM_METRICS))
    _seconds: float = 0.0
    _when_ms: int = 0

    def __post_init__(self) -> None:
        log = self.lake.records_log
        self.metrics.stored |= {
            "lace_lake_records": lambda: log.version().rows,
            "lace_lake_version": lambda: log.version().number,
        }
        self.metrics.gauges |= {
            "lace_lake_batch_seconds": lambda: round(self._seconds, 3),
            "lace_lake_batch_time_seconds": lambda: self._when_ms // 1000,
        }

    def take(self, batch: Batch) -> dict[str, Any]:
        """Count a batch, and return it as an entry for a log."""
        counts = {name: int(getattr(batch.result, name)) for name in _OUTCOMES}
        self._seconds, self._when_ms = batch.seconds, unix_ms()
        self.metrics.add("lace_lake_batches_total")
        for name, number in counts.items():
            self.metrics.add("lace_lake_rows_total", number, outcome=name)
        return {
            "event": "batch",
            "date": iso_date(tai_now()),
            "batch": batch.number,
            "version": batch.result.version,
            **counts,
            "seconds": round(batch.seconds, 3),
            "rows_per_second": batch.rate,
        }


@dataclass(slots=True)
class RunTally:
    """Counts the steps of a run; each counts with how it ended last."""

    metrics: Metrics = field(default_factory=lambda: Metrics(known=RUN_METRICS))
    _steps: dict[str, tuple[Done, float]] = field(default_factory=dict)

    def take(self, done: Done, seconds: float) -> None:
        """Count a step that was done, and how long it took."""
        self._steps[done.step] = done, seconds
        self.tell(failed=False)

    def tell(self, *, failed: bool) -> None:
        """Bring the numbers up to date."""
        values: dict[str, float] = {}
        for name, (done, seconds) in self._steps.items():
            label = {"step": name}
            values[with_labels("lace_lake_step_seconds", label)] = round(seconds, 3)
            values[with_labels("lace_lake_step_changed", label)] = int(done.changed)
            values[with_labels("lace_lake_step_put_aside", label)] = done.put_aside
        values["lace_lake_run_failed"] = int(failed)
        values["lace_lake_run_time_seconds"] = unix_ms() // 1000
        # All at once: another thread may be telling them.
        gauges = {name: (lambda value=value: value) for name, value in values.items()}
        self.metrics.gauges = dict(gauges)


def write_metrics(text: str, path: Path) -> None:
    """Write numbers into a file in one step: whoever collects them reads all or the ones before."""
    try:
        write_file(path, text, overwrite=True)
    except OSError as error:
        raise LakeError(f"cannot write {path}: {error.strerror}", code=Code.LAKE_INPUT) from None
