"""Run seeded simulations for as long as asked; a seed that fails is printed and can be replayed."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from simulator import SIMULATIONS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: soak.py --seconds 600; soak.py --only hostile --seed 7",
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", choices=SIMULATIONS)
    parser.add_argument("--seed", type=int, help="replay this one and stop")
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(SIMULATIONS)
    if options.seed is not None:
        for kind in kinds:
            SIMULATIONS[kind](options.seed)
        return 0
    begin, shown, seed = time.monotonic(), 0.0, 1_000_000
    runs = 0
    while (passed := time.monotonic() - begin) < options.seconds:
        for kind in kinds:
            try:
                SIMULATIONS[kind](seed)
            except BaseException:
                print(f"failed: --only {kind} --seed {seed}")
                raise
            runs += 1
        seed += 1
        if passed - shown > 10:
            shown = passed
            print(f"{passed:.0f} s: {runs} schedules", file=sys.stderr)
    rate = runs / time.process_time() * 60
    print(f"{runs} schedules, {rate:.0f} in a minute of processor time, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
