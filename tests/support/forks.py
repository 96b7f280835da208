"""Children of the test process: to be killed, or to have limits of their own."""

from __future__ import annotations

import os
import warnings


def fork() -> int:
    """Fork; the child does little and ends by itself.

    Python warns where other threads run, for they may hold locks. Those of a test run hold none that
    such a child takes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
