"""Fixed limits that a test makes small, so that few records reach them."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from lace.limits import FIXED


def hold_to(patch: pytest.MonkeyPatch, **small: int) -> None:
    """Hold every loaded part of Lace to other fixed limits."""
    limits = replace(FIXED, **small)
    for name, module in tuple(sys.modules.items()):
        if name.startswith("lace.") and getattr(module, "FIXED", None) is not None:
            patch.setattr(module, "FIXED", limits)
