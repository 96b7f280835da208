"""A file of signed records imported, against validating and saving the same records by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from lace import blocking, validate_frames
from lace.recordstore import SqliteStore
from measure import Effort, Result, Target, race
from records import make_seals

_BATCH = 1000


def run(effort: Effort) -> list[Result]:
    raws = [record.raw for record in make_seals(effort.import_records)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = folder / "all.records"
        bundle.write_bytes(b"".join(raws))

        def store_all(path: Path) -> None:
            with SqliteStore(path) as store:
                for at in range(0, len(raws), _BATCH):
                    outcomes = validate_frames(raws[at : at + _BATCH], workers=1)
                    store.save([outcome.unwrap() for outcome in outcomes])

        def import_all(path: Path) -> None:
            with blocking.open(path) as local:
                count = blocking.import_file(local, bundle)
            assert count.new == len(raws)

        seconds, floor_seconds = race(
            _afresh(folder, import_all), _afresh(folder, store_all), rounds=effort.import_rounds
        )
    return [
        Result(
            name="import",
            unit="records/s",
            count=len(raws),
            seconds=seconds,
            floor="validate and SqliteStore.save",
            floor_seconds=floor_seconds,
            target=Target(sign=">=", ratio=0.7),
            notes=("the import also reads and splits the file, and looks whether each is there",),
        )
    ]


def _afresh(folder: Path, work: Callable[[Path], None]) -> Callable[[], None]:
    """Return the work on an empty store each time."""
    numbers = iter(range(1 << 30))
    return lambda: work(folder / f"{work.__name__}-{next(numbers)}.lace")
