"""Drafts: a file has its name only once it is complete, and nothing half is ever left under it.

Every whole file that Lace writes on this machine is written here. A draft stands in the folder of
its target under a random name, and is locked while it is written: the next draft for the same
target removes those that no process holds any more. A name that is a link is replaced, not
followed: a caller that means the file behind it resolves the name first. A device, a pipe and the
output of this process have no draft: they are written to, and never replaced.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from lace.errors import Code, UsageError

try:
    import fcntl
except ImportError:  # Windows: a file that is open can be neither removed nor renamed
    _lock = None
else:
    _lock = fcntl.flock

_NO_LINKS: Final = getattr(os, "O_NOFOLLOW", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINKS | _BINARY
_NAME_BYTES: Final = 200  # of the target in the name of its draft, of the 255 that a name may have
_TRIES: Final = 100
_EVERYBODY: Final = 0o666  # less what the process does not allow
_OWNER: Final = 0o600
_OUTPUTS: Final = (1, 2)  # the descriptors to which /dev/stdout and /dev/stderr lead
#: What a folder says that cannot be synchronised by itself, or not by us.
_NO_SYNC: Final = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EBADF))


class DraftFile:
    """The draft of one file: to be written, and then given the name of its target, or removed.

    ``mode`` holds the permissions of the file; without one it keeps mode and owner of the
    file that it replaces. Without ``overwrite`` nothing that has the name is replaced. Every method
    raises ``OSError``; a draft that was not committed leaves nothing behind.
    """

    def __init__(self, target: Path, *, overwrite: bool, mode: int | None = None) -> None:
        self.target = target
        self._overwrite = overwrite
        self.path: Path | None = None
        """Where the draft is; None for a device, a pipe or the output of this process."""
        replaced = _stat(target)
        if not overwrite and (replaced is not None or os.path.lexists(target)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        if replaced is not None and stat.S_ISDIR(replaced.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
        stream = None if replaced is None else _stream(target, replaced)
        if stream is not None:
            self.file: BinaryIO = os.fdopen(stream, "wb")
            return
        _sweep(target)
        like = replaced if mode is None else None
        if mode is None:  # what has the rights of another file has none before
            mode = _EVERYBODY if like is None else _OWNER
        self.path, descriptor = _made(target, mode)
        self.file = os.fdopen(descriptor, "wb")
        if like is not None:
            try:
                _take_after(descriptor, like)
            except BaseException:
                self.discard()
                raise

    def commit(self, target: Path | None = None) -> None:
        """Give the draft its name, once its content is on the disk.

        ``target`` is another name in the same folder. A name that is taken leaves the draft as it
        was, to be committed under another one.
        """
        target = self.target if target is None else target
        self.file.flush()
        if self.path is None:
            self.file.close()
            return
        descriptor = self.file.fileno()
        os.fsync(descriptor)
        self.check()
        if _lock is None:
            self.file.close()
        if self._overwrite:
            self.path.replace(target)
        else:
            _name_new(self.path, target)
        self.path.unlink(missing_ok=True)
        self.path = None
        self.file.close()
        _sync_folder(target.parent)

    def check(self) -> None:
        """Raise unless the draft is still what its name leads to."""
        if self.path is None or not _is(self.path, self.file.fileno()):
            raise FileNotFoundError(
                errno.ENOENT, "another program removed or replaced the draft", str(self.path)
            )

    def discard(self) -> None:
        """Remove the draft, if it was not committed."""
        try:
            if self.path is not None and (self.file.closed or _is(self.path, self.file.fileno())):
                if _lock is None:
                    self._close()
                with suppress(OSError):
                    self.path.unlink()
        finally:
            self.path = None
            self._close()

    def _close(self) -> None:
        with suppress(OSError):  # what could not be written is not wanted any more
            self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.commit()
        finally:
            self.discard()


def write_file(
    target: Path, content: bytes | str, *, overwrite: bool, mode: int | None = None
) -> None:
    """Write a whole file or none, as ``DraftFile`` does; a text in UTF-8 and as it is."""
    with DraftFile(target, overwrite=overwrite, mode=mode) as draft:
        draft.file.write(content.encode() if isinstance(content, str) else content)


def exists_already(path: str | Path) -> UsageError:
    """Return the error for a file that is there and was not to be replaced."""
    return UsageError(
        f"{path} exists already",
        code=Code.INPUT_FILE,
        hint="Choose another name, or add --force (in Python: overwrite=True).",
    )


def _made(target: Path, mode: int) -> tuple[Path, int]:
    """Make a draft that is there and locked; one that another process swept away is made again."""
    for _ in range(_TRIES):
        path = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}.part")
        descriptor = os.open(path, _NEW, mode)
        if _lock is None:
            return path, descriptor
        try:
            _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process sweeps it, or has no business with it
            path.unlink(missing_ok=True)
        except OSError:
            pass  # no locks here: drafts of other processes are not swept either
        if _is(path, descriptor):
            return path, descriptor
        os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, "another program removes every draft", str(target))


def _sweep(target: Path) -> None:
    """Remove the drafts of a target that no process writes any more."""
    left = re.compile(rf"{re.escape(_stem(target))}[0-9a-f]{{16}}\.part")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for path in [Path(entry.path) for entry in entries if left.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_left(path)


def _remove_left(path: Path) -> None:
    if _lock is None:
        path.unlink()
        return
    descriptor = os.open(path, os.O_RDONLY | _NO_LINKS | os.O_NONBLOCK)
    try:
        _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is(path, descriptor):
            path.unlink()
    finally:
        os.close(descriptor)


def _stem(target: Path) -> str:
    name = os.fsencode(target.name)[:_NAME_BYTES].decode("utf-8", "ignore")
    return f".{name}."


def _take_after(descriptor: int, replaced: os.stat_result) -> None:
    """Give a file the owner and the group, where that is allowed, and the mode of another one.

    A group that is another one than before may do only what everybody may.
    """
    if not hasattr(os, "fchmod"):
        return
    mode = replaced.st_mode & 0o777
    with suppress(PermissionError):
        os.fchown(descriptor, -1, replaced.st_gid)
        os.fchown(descriptor, replaced.st_uid, -1)
    if os.fstat(descriptor).st_gid != replaced.st_gid:
        mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _stream(target: Path, found: os.stat_result) -> int | None:
    """Open what is written to and never replaced; return None for a file."""
    if stat.S_ISREG(found.st_mode):
        outputs = _OUTPUTS if target.is_symlink() else ()
        return next((os.dup(each) for each in outputs if _is_open_as(each, found)), None)
    descriptor = os.open(target, os.O_WRONLY | _BINARY)
    if _is_open_as(descriptor, found):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError(errno.ENOENT, "another program replaced it", str(target))


def _is_open_as(descriptor: int, found: os.stat_result) -> bool:
    """Whether a descriptor is that of a file that was found."""
    try:
        return os.path.samestat(os.fstat(descriptor), found)
    except OSError:
        return False


def _name_new(draft: Path, target: Path) -> None:
    """Give a draft a name that nothing has."""
    try:
        os.link(draft, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError, AttributeError):  # no such links on this disk
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        draft.rename(target)


def _sync_folder(folder: Path) -> None:
    """Have the disk know the new name."""
    if os.name == "nt":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is(path: Path, descriptor: int) -> bool:
    """Whether a name leads to the file that is open."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))
