"""Whether an ingest is linear, and what a few records more cost in a large lake.

    .venv/bin/python bench/lake_ingest.py                          # 200,000 and 1,000,000 records
    .venv/bin/python bench/lake_ingest.py 200000 1000000 2000000
    .venv/bin/python bench/lake_ingest.py --folder FOLDER          # keep the bundles for next time

The records are unsigned, so that nothing hides what the lake adds to validation. All is told in CPU
seconds of all processes, Java and its Python included; the floor is validating the same records in
one plain process. Then 10,000 records go into an empty lake and into the largest one, new ones and
such that are there already.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lace.lake.ingest import IngestResult, ingest
from lace.lake.session import SparkOptions, open_session
from lace.lake.tables import Lake
from lace.record.build import build_plex
from lace.record.split import Frame, split_records
from lace.record.validate import validate_record
from told import cpu_of_all, java, peak_mib

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIZES: Final = (200_000, 1_000_000)
_MORE: Final = 10_000
_DATA: Final = b"x" * 200
_FLOOR: Final = 50_000
_BATCH: Final = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sizes", type=int, nargs="*", default=_SIZES, help="records")
    parser.add_argument("--memory", default="2g", help="heap of Spark's driver")
    parser.add_argument("--folder", type=Path, help="keep the bundles here")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="lace-lake-ingest-"))
    folder.mkdir(parents=True, exist_ok=True)
    lakes = Path(tempfile.mkdtemp(prefix="lakes-", dir=folder))
    try:
        _measure(folder, lakes, sorted(options.sizes), options.memory)
    finally:
        shutil.rmtree(lakes if options.folder else folder, ignore_errors=True)


def _measure(folder: Path, lakes: Path, sizes: list[int], memory: str) -> None:
    spark = open_session(SparkOptions(master="local[2]", memory=memory))
    for number in range(3):  # compiles, and starts the workers
        _ingest(spark, lakes / "warm", bundle_of(folder, number * _MORE, _MORE))
    floor = _floor(bundle_of(folder, 0, max(sizes[0], _FLOOR)))
    print(f"  validating alone  {floor * 1e6:6.1f} CPU s a million")
    for size in sizes:
        bundle = bundle_of(folder, 0, size)
        spent, seconds, done = _ingest(spark, lakes / f"lake-{size}", bundle)
        _check(done.records == size)
        print(
            f"  {size:>9,} records {spent * 1e6 / size:6.1f} CPU s a million,"
            f" {seconds * 1e6 / size:.1f} s by the clock,"
            f" {floor * size / spent:.2f} of validating alone",
            flush=True,
        )
    some = bundle_of(folder, 10**9, _MORE)
    alone, large = f"lake-alone-{_MORE}", f"lake-{sizes[-1]}"
    for name in (alone, large):
        spent, seconds, done = _ingest(spark, lakes / name, some)
        _check(done.records == _MORE)
        print(f"  {_MORE:,} new into {name:18} {spent:6.2f} CPU s, {seconds:.2f} s by the clock")
    again = shutil.copy(some, folder / "again.records")
    for name in (alone, large):
        spent, seconds, done = _ingest(spark, lakes / name, Path(again))
        _check(done.duplicates == _MORE)
        print(f"  {_MORE:,} known to {name:19} {spent:6.2f} CPU s, {seconds:.2f} s by the clock")
    print(
        f"  at most {peak_mib():,.0f} MiB in the driver's Python, {peak_mib(java()):,.0f} in Java"
    )
    spark.stop()


def _ingest(spark: SparkSession, root: Path, bundle: Path) -> tuple[float, float, IngestResult]:
    lake = Lake.open(spark, str(root), create=True)
    cpu, clock = cpu_of_all(), time.perf_counter()
    done = ingest(lake, [str(bundle)])
    return cpu_of_all() - cpu, time.perf_counter() - clock, done


def _floor(bundle: Path) -> float:
    """Return the CPU seconds that one record takes to be cut out and validated."""
    with bundle.open("rb") as file:
        raw = file.read(_FLOOR * 400)
    begin = time.process_time()
    frames = [frame.raw for frame in split_records([raw]) if isinstance(frame, Frame)]
    if not all(validate_record(frame).ok for frame in frames):
        raise RuntimeError("a valid record was refused")
    return (time.process_time() - begin) / len(frames)


def bundle_of(folder: Path, start: int, count: int) -> Path:
    """Return a bundle of so many unsigned records, made unless it is there."""
    path = folder / f"{start}-{count}.records"
    if not path.exists():
        with (folder / "making").open("wb") as file:
            for at in range(start, start + count, _BATCH):
                file.writelines(_raw(n) for n in range(at, min(at + _BATCH, start + count)))
        (folder / "making").rename(path)
    return path


def _raw(number: int) -> bytes:
    return build_plex(
        group="g", app="notes", name=f"n/{number}",
        tai=f"{1_700_000_000 + number % 1_000_000_000}:000000000", data=_DATA,
    ).raw  # fmt: skip


def _check(holds: bool) -> None:
    if not holds:
        raise RuntimeError("the lake has something else than it was given")


if __name__ == "__main__":
    main()
