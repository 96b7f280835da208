"""How long work goes on: a line on standard error with count, rate and rest, on terminals only."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

import click

from lace.cli.loudness import shows_progress
from lace.text import safe

_PATIENCE_SECONDS: Final = 1.0
_FRAME_SECONDS: Final = 0.1
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR: Final = "\r\x1b[K"


class ProgressLine:
    """Shows that work goes on, once it has taken a second; it leaves nothing behind."""

    def __init__(self, what: str, *, title: str = "") -> None:
        self._what = what
        self._title = f"{title}: " if title else ""
        self._wanted = shows_progress()
        self._begun = self._shown = time.monotonic()
        self._frame = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._frame:
            click.echo(_CLEAR, nl=False, err=True)

    def tell(self, count: int, done: float | None = None) -> None:
        """Say how many there are so far, and which part of the whole that is, if it is known."""
        now = time.monotonic()
        if (
            not self._wanted
            or now - self._begun < _PATIENCE_SECONDS
            or now - self._shown < _FRAME_SECONDS
        ):
            return
        self._shown = now
        self._frame += 1
        line = progress_text(count, self._what, now - self._begun, done)
        sign = _FRAMES[self._frame % len(_FRAMES)]
        click.echo(f"{_CLEAR}{sign} {safe(self._title + line)}", nl=False, err=True)


def progress_text(count: int, what: str, seconds: float, done: float | None) -> str:
    """Return count and rate, and how long the rest will take if it goes on like this."""
    if count == 1:
        what = what.replace("records", "record", 1).replace("tasks", "task", 1)
    rate = count / seconds
    parts = [f"{count:,} {what}", f"{rate:,.1f}/s" if 0 < rate < 1 else f"{rate:,.0f}/s"]
    if done:
        left = seconds * (1 - min(done, 1)) / done
        minutes, rest = divmod(round(left), 60)
        parts.append(f"{min(done, 1):.0%}")
        parts.append(f"{minutes} min {rest} s left" if minutes else f"{rest} s left")
    return ", ".join(parts)
