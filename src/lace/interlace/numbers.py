"""numpy, where it is installed: it makes the same bytes sooner, and nothing needs it."""

from __future__ import annotations

import sys
from typing import Any


def numpy_for(count: int, *, to_use: int, to_load: int) -> Any:
    """Return numpy if it is installed and so many things are worth it, else None.

    ``to_use`` is how many are worth a call of it, ``to_load`` how many are worth loading it.
    """
    if count < (to_use if "numpy" in sys.modules else to_load):
        return None
    try:
        import numpy as np  # takes a tenth of a second, so not at the start
    except ImportError:
        return None
    return np
