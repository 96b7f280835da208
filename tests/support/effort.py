"""How hard random tests try: quick by default, as long as you like with LACE_TEST_EFFORT."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("LACE_TEST_EFFORT", "1"))


def examples(count: int) -> int:
    """Return how many examples to try where ``count`` are enough for an ordinary run."""
    return count * EFFORT
