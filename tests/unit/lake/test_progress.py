"""How far jobs are: tasks add up over the stages of a part of the work, and begin anew with each."""

from __future__ import annotations

import sys

import pytest

from lace.cli.lake import JobLine
from lace.lake.progress import Stages


def test_stages_that_are_over_stay_counted() -> None:
    told: list[tuple[int, int]] = []
    stages = Stages(lambda done, total: told.append((done, total)))
    stages.see({})
    stages.see({1: (0, 4)})
    stages.see({1: (3, 4), 2: (0, 2)})
    stages.see({2: (1, 2)})  # the first one is not at work any more: it is done
    stages.see({})
    stages.see({3: (5, 10)})
    assert told == [(0, 4), (3, 6), (5, 6), (11, 16)]


def test_a_line_says_what_is_done_how_fast_and_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    now = 100.0
    monkeypatch.setattr("lace.cli.progress.time.monotonic", lambda: now)
    line = JobLine()
    line.begin("selecting")
    now += 2
    line.tell(0, 8)
    now += 2
    line.tell(2, 8)
    line.begin("writing")
    now += 10
    line.tell(9, 12)  # eight of them belong to what was before
    line.end()
    frames = [frame[2:] for frame in capsys.readouterr().err.split("\r\x1b[K") if frame]
    assert frames == [
        "selecting: 0 tasks, 0/s",
        "selecting: 2 tasks, 0.5/s, 25%, 12 s left",
        "writing: 1 task, 0.1/s, 25%, 30 s left",
    ]
