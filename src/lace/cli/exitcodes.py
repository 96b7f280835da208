"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    BAD_INPUT = 1
    """The input is wrong; diagnostics were printed."""
    USAGE = 2
    SOME_REJECTED = 3
    """Some records were rejected, the rest is done."""
    ABORTED = 4
    LIMIT = 5
    """A limit stopped the work; the partial result was printed."""
    NOT_FOUND = 6
    """Not found, or refused by policy."""
    INTERRUPTED = 130
