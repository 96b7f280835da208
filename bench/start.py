"""The time until the command line answers, against an interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time

from measure import Effort, Result, Target, race


def run(effort: Effort) -> list[Result]:
    seconds, floor_seconds = race(
        lambda: _run("-m", "lace", "--version"),
        lambda: _run("-c", "pass"),
        rounds=effort.starts,
        clock=time.perf_counter,
    )
    return [
        Result(
            name="start: lace --version",
            unit="starts/s",
            count=1,
            seconds=seconds,
            floor="python -c pass",
            floor_seconds=floor_seconds,
            target=Target(sign="<=", ratio=1.8),
            notes=(
                f"{seconds * 1e3:.1f} ms against {floor_seconds * 1e3:.1f} ms, wall clock",
                "this ratio is time over time: smaller is better",
            ),
        )
    ]


def _run(*arguments: str) -> None:
    command = [sys.executable, *arguments]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603 (our own command)
