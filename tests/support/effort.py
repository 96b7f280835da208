"""How hard random tests try: LACE_TEST_EFFORT is 1 for an ordinary run, a quarter for a quick one."""

from __future__ import annotations

import os

EFFORT = float(os.environ.get("LACE_TEST_EFFORT", "1"))


def examples(count: int) -> int:
    """Return how many examples to try where ``count`` are enough for an ordinary run."""
    return max(1, round(count * EFFORT))
