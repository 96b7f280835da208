"""The reserve of a store: room on its disk that is given up so that records can be forgotten."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from lace.limits import FIXED

_BLOCK: Final = 1 << 16
_PARTS: Final = 4
#: Links are not followed, and a pipe keeps nobody waiting.
_AS_IT_IS: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)


class Reserve:
    """A file beside a store that holds nothing. It is there while little is free on the disk.

    Anything else that has its name is neither removed nor written to.
    """

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
                self._remove()
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
            return self._remove()
        except OSError:
            return False

    def _remove(self) -> bool:
        """Remove the file; return whether there was one."""
        try:
            os.close(self._open(os.O_RDONLY))
        except FileNotFoundError:
            return False
        self.path.unlink()
        return True

    def _open(self, flags: int) -> int:
        """Open the file, if it is one and holds nothing."""
        file = os.open(self.path, flags | _AS_IT_IS, 0o600)
        if _holds_nothing(file):
            return file
        os.close(file)
        raise FileExistsError(errno.EEXIST, "holds something", str(self.path))

    def _grow(self, wanted: int, there: int, free: int) -> int:
        """Make the file as large as is wanted, or as is possible; return how large that is."""
        file = self._open(os.O_RDWR | os.O_CREAT)
        try:
            if hasattr(os, "fchmod"):
                with suppress(OSError):  # all who may write to the store see that it holds nothing
                    os.fchmod(file, 0o644)
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


def _holds_nothing(file: int) -> bool:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return False
    blocks = iter(lambda: os.read(file, _BLOCK), b"")
    return not any(block.strip(b"\0") for block in blocks)


def _fill(file: int, size: int) -> None:
    """Give a file blocks of the disk."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
        return
    os.lseek(file, 0, os.SEEK_SET)
    for at in range(0, size, _BLOCK):
        os.write(file, bytes(min(_BLOCK, size - at)))
    os.fsync(file)
