"""The allocator of the C library: what large buffers took goes back to the system when they go.

glibc maps large buffers apart, and gives them back at once when they are let go. But each one that
it has given back raises the size from which it does so, up to 32 MiB. From then on records of some
MiB lie between smaller values, in the memory of each thread, and stay there. A size that is set by
the program is never raised.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from lace.limits import MIB

_MMAP_THRESHOLD: Final = -3  # as malloc.h of glibc has it
_SETTINGS: Final = ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def give_back_large(size: int = MIB) -> bool:
    """Give back what is unused now, and from now on buffers of so many bytes when they are let go.

    Return whether that is so. It holds for the whole process. Where the C library is another one,
    and where the environment says how the allocator works, nothing is changed.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _SETTINGS):
        return False
    try:
        import ctypes

        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 (others have no such function)
        done = bool(library.mallopt(_MMAP_THRESHOLD, size))
        library.malloc_trim(0)  # what has stayed until now
    except (ImportError, OSError, AttributeError):
        return False
    return done
