"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    BAD_INPUT = 1
    """What was read is wrong: rules, records, a store; or a check found something."""
    USAGE = 2
    """What was asked for cannot be: words, values, settings, keys, files that are not there."""
    SOME_REJECTED = 3
    """Some records were rejected, the rest is done."""
    ABORTED = 4
    LIMIT = 5
    """A limit stopped the work; the partial result was printed."""
    NOT_FOUND = 6
    """No such record, or refused by policy."""
    INTERRUPTED = 130
