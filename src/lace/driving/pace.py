"""How much of what came is looked at before other connections have their turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lace.clock import thread_seconds

_TURN_SECONDS: Final = 0.004
_LEAST: Final = 1 << 12
_FULL_STEP: Final = 1 << 18


@dataclass(slots=True)
class Pace:
    """Bytes for one turn of a few milliseconds: more while they are quickly done, else fewer."""

    bytes: int = 1 << 14

    def note(self, seconds: float) -> None:
        """Take note of how long a turn took."""
        if seconds > _TURN_SECONDS:
            self.bytes = max(_LEAST, self.bytes // 2)
        elif seconds < _TURN_SECONDS / 4:
            self.bytes = min(_FULL_STEP, self.bytes * 2)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure a turn by what this thread has computed: to wait for others is no work."""
        began = thread_seconds()
        try:
            yield
        finally:
            self.note(thread_seconds() - began)
