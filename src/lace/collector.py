"""The cyclic collector of Python, kept still where much is allocated and nothing is cyclic."""

from __future__ import annotations

import gc


class paused:  # noqa: N801 (it stands where a function would)
    """Keep the collector from walking over and over through values that form no cycles."""

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
