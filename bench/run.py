"""Run the benches and print their ratios. README.md says how they are made."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import following
import importing
import interlacing
import listing
import plex_parsing
import policy_update
import process_pool
import reconciling
import seal_validation
import sealing
import sketching
import splitting
import start
import streaming
from measure import FULL, QUICK, Result

BENCHES: Final = {
    "seal-validation": seal_validation.run,
    "plex-parsing": plex_parsing.run,
    "split": splitting.run,
    "pool": process_pool.run,
    "sealing": sealing.run,
    "start": start.run,
    "policy": policy_update.run,
    "import": importing.run,
    "interlace": interlacing.run,
    "reconcile": reconciling.run,
    "follow": following.run,
    "list": listing.run,
    "sketch": sketching.run,
    "stream": streaming.run,
}
_HEADINGS: Final = ("name", "rate", "floor", "floor rate", "ratio", "target", "met")
_MET: Final = {True: "yes", False: "no", None: "-"}


def main() -> None:
    options = _parse_arguments()
    effort = QUICK if options.quick else FULL
    results: list[Result] = []
    for name in options.only or BENCHES:
        results += BENCHES[name](effort)
    print(_table(results))
    for result in results:
        if result.notes:
            print(f"\n{result.name}")
            print("\n".join(f"  {note}" for note in result.notes))
    if options.json:
        options.json.write_text(_as_json(results, quick=options.quick), encoding="utf-8")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure lace, as ratios against floors.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a hint, not a measure")
    parser.add_argument(
        "--only", action="append", choices=BENCHES, metavar="NAME",
        help=f"run only this one; may be repeated: {', '.join(BENCHES)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    return parser.parse_args()


def _table(results: Sequence[Result]) -> str:
    rows = [_HEADINGS, *map(_row, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    return (
        result.name,
        f"{result.rate:,.0f} {result.unit}",
        result.floor,
        f"{result.floor_rate:,.0f} {result.unit}",
        f"{result.ratio:.2f}",
        str(result.target or "-"),
        _MET[result.met],
    )


def _as_json(results: Sequence[Result], *, quick: bool) -> str:
    content = {
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "quick": quick,
        "results": [
            {
                "name": result.name,
                "unit": result.unit,
                "rate": result.rate,
                "floor": result.floor,
                "floor_rate": result.floor_rate,
                "ratio": result.ratio,
                "target": str(result.target) if result.target else None,
                "met": result.met,
                "notes": result.notes,
            }
            for result in results
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
