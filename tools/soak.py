"""Run seeded simulations on all cores; a seed that fails is printed and can be replayed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from choir import CHOIRS
from liars import LIARS
from simulator import SIMULATIONS as EXCHANGES
from stories import STORIES

SIMULATIONS = EXCHANGES | STORIES | LIARS | CHOIRS
_AT_ONCE = 10
_SHOW_SECONDS = 10


def run(kind: str, first: int, count: int) -> tuple[int, float, int | None]:
    """Return how many seeds passed, the processor seconds, and the seed that failed, if one did."""
    begin = time.process_time()
    for seed in range(first, first + count):
        try:
            SIMULATIONS[kind](seed)
        except BaseException as error:  # noqa: BLE001 (whatever it is, the seed is told)
            print(f"{type(error).__name__}: {str(error)[:500]}", file=sys.stderr)
            return seed - first, time.process_time() - begin, seed
    return count, time.process_time() - begin, None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="examples: soak.py --seconds 600; soak.py --only secret --seed 7",
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--count", type=int, help="this many seeds of each kind instead")
    parser.add_argument("--first", type=int, default=1_000_000, help="the first seed")
    parser.add_argument("--only", choices=SIMULATIONS)
    parser.add_argument("--seed", type=int, help="replay this one and stop")
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(SIMULATIONS)
    if options.seed is not None:
        for kind in kinds:
            SIMULATIONS[kind](options.seed)
        return 0
    begin = shown = time.monotonic()
    passed: Counter[str] = Counter()
    spent = 0.0
    workers = os.cpu_count() or 1
    rounds = max(1, 4 * workers // len(kinds))  # so that no core waits for long where kinds are few
    with ProcessPoolExecutor(workers) as pool:
        first = options.first
        while True:
            if options.count is not None:
                left = options.first + options.count - first
            else:
                left = _AT_ONCE * rounds * (time.monotonic() - begin < options.seconds)
            if left <= 0:
                break
            end = first + min(_AT_ONCE * rounds, left)
            jobs = {
                pool.submit(run, kind, start, min(_AT_ONCE, end - start)): kind
                for kind in kinds
                for start in range(first, end, _AT_ONCE)
            }
            for job in as_completed(jobs):
                count, seconds, failed = job.result()
                passed[jobs[job]] += count
                spent += seconds
                if failed is not None:
                    print(f"failed: --only {jobs[job]} --seed {failed}", flush=True)
                    for child in active_children():  # the others need not go on
                        child.kill()
                    os._exit(1)
            first = end
            if time.monotonic() - shown > _SHOW_SECONDS:
                shown = time.monotonic()
                print(f"{shown - begin:.0f} s: {passed.total()} seeds", file=sys.stderr)
    rate = passed.total() / (time.monotonic() - begin) * 60
    each = ", ".join(f"{kind} {count}" for kind, count in passed.items())
    print(
        f"{passed.total()} seeds ({each}), {rate:.0f} a minute on {workers} cores,"
        f" {spent:.0f} processor seconds, none failed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
