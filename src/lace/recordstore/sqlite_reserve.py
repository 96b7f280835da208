"""The reserve of a store: room on its disk that is given up so that records can be forgotten."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from lace.limits import FIXED

_BLOCK: Final = 1 << 16
_PARTS: Final = 4


class Reserve:
    """A file beside a store that holds nothing. It is there while little is free on the disk."""

    def __init__(self, store: Path, size: int | None = None, below: int | None = None) -> None:
        self.path = store.with_name(f"{store.name}-reserve")
        self._size = FIXED.reserve_bytes if size is None else size
        self._below = FIXED.reserve_below_bytes if below is None else below

    def keep(self) -> bool:
        """Make the file if little is free on the disk; return False if it has to be smaller.

        It takes at most a quarter of the disk, and is removed when enough is free again.
        """
        try:
            disk = shutil.disk_usage(self.path.parent)
            if disk.free >= self._below:
                self.path.unlink(missing_ok=True)
                return True
            there = self.path.stat().st_size if self.path.exists() else 0
            wanted = min(self._size, disk.total // _PARTS)
            return there >= wanted or self._grow(wanted, there, disk.free) >= wanted
        except OSError:
            return True  # SQLite will say what is wrong

    def is_needed(self) -> bool:
        """Whether little is free on the disk."""
        try:
            return shutil.disk_usage(self.path.parent).free < self._below
        except OSError:
            return False

    def give_up(self) -> bool:
        """Remove the file; return whether there was one."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def _grow(self, wanted: int, there: int, free: int) -> int:
        """Make the file as large as is wanted, or as is possible; return how large that is."""
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(self.path, flags, 0o600)
        try:
            size = min(wanted, there + free)
            while size > there:
                try:
                    _fill(file, size)
                except OSError:
                    size = max(size // 2, there)
                else:
                    return size
            return there
        finally:
            os.close(file)


def _fill(file: int, size: int) -> None:
    """Give a file blocks of the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    for at in range(0, size, _BLOCK):
        os.write(file, bytes(min(_BLOCK, size - at)))
    os.fsync(file)
