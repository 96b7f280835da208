"""The SQLite file of a record store: its schema by version, its connections, its failures."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final

from lace.errors import Code, StoreError

_BUSY_SECONDS: Final = 10.0
_CREATES: Final = "rwc"
_PAGES: Final = 1024  # copied between two looks at how far it is
#: Files that SQLite keeps beside a store, by what their names end in.
BESIDE: Final = ("-wal", "-shm", "-journal")
_COPY_TRIES: Final = 3

#: The scripts that bring a file from version n to n + 1; a new file gets all of them.
MIGRATIONS: Final = tuple(
    files("lace.recordstore").joinpath(name).read_text("utf-8")
    for name in ("schema.sql", *(f"schema-{number}.sql" for number in range(2, 9)))
)
VERSION: Final = len(MIGRATIONS)

_CODES: Final = {
    sqlite3.SQLITE_BUSY: Code.STORE_LOCKED,
    sqlite3.SQLITE_LOCKED: Code.STORE_LOCKED,
    sqlite3.SQLITE_READONLY: Code.STORE_READ_ONLY,
    sqlite3.SQLITE_FULL: Code.STORE_FULL,
    sqlite3.SQLITE_CORRUPT: Code.STORE_CORRUPT,
    sqlite3.SQLITE_NOTADB: Code.STORE_CORRUPT,
    sqlite3.SQLITE_CANTOPEN: Code.STORE_OPEN,
}
#: A disk that has no room is not always called full: not where it is the file that readers share
#: which cannot grow, and not where a limit on the size of files was reached.
_NO_ROOM: Final = frozenset((
    sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_FSYNC,
))  # fmt: skip


def connect(path: Path, mode: str) -> sqlite3.Connection:
    if mode == _CREATES:
        # A new file is for its owner alone; its log takes after it. One that is there stays so.
        with suppress(OSError):  # SQLite says what is wrong
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        address, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def copy_to_read(path: Path) -> TemporaryDirectory[str] | None:
    """Return a folder with a copy of a store, if it can be read in no other way.

    Even to be read, a store in use keeps files beside it. Where none can be made, as on a medium
    that may only be read, a copy is read, unless those files are there already.
    """
    folder = path.absolute().parent
    if not path.is_file() or os.access(folder, os.W_OK):
        return None
    made = TemporaryDirectory(prefix="lace-")
    try:
        for _ in range(_COPY_TRIES):
            before = _state_of(path)
            if before is None:
                break
            shutil.copyfile(path, Path(made.name, path.name))
            if _state_of(path) == before:  # nobody wrote meanwhile
                return made
    except OSError as error:
        made.cleanup()
        raise StoreError(
            f"{path} cannot be copied to be read: {error.strerror}", code=Code.STORE_OPEN
        ) from None
    made.cleanup()
    return None


def copy_pages(
    source: sqlite3.Connection, target: Path, listen: Callable[[int, int, int], None]
) -> int:
    """Copy a database into an empty file, without any file beside it; return how long it is."""
    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        # Nobody else has the file. The caller synchronises it, or removes it if this fails.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        source.backup(copy, pages=_PAGES, progress=listen)
    (size,) = source.execute(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    )
    return int(size[0])


def identity_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another one that takes its name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _state_of(path: Path) -> tuple[int, int] | None:
    """Return what changes when a store is written; None if somebody has it open to write."""
    if path.with_name(f"{path.name}-wal").exists():
        return None
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


class errors:  # noqa: N801 (it stands where a function would)
    """Turn what SQLite says into a StoreError with a code.

    (A class, because a generator would cost as much as many a query.)
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        path = self._path
        if isinstance(error, UnicodeDecodeError):
            raise StoreError(f"{path}: text that is no text", code=Code.STORE_CORRUPT) from error
        if isinstance(error, sqlite3.Error):
            found = getattr(error, "sqlite_errorcode", 0)
            code = _CODES.get(found & 0xFF, Code.STORE_FAILED)
            if is_full(error):
                code = Code.STORE_FULL
            if code is Code.STORE_READ_ONLY:
                check_rights(path)  # SQLite does not say which one is missing
            raise StoreError(f"{path}: {error}", code=code) from error


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk has no room for what was to be written."""
    found = getattr(error, "sqlite_errorcode", 0)
    return found in _NO_ROOM or _CODES.get(found & 0xFF) is Code.STORE_FULL


def check_rights(path: Path) -> None:
    """Raise ``StoreError`` if a right to write the file is missing; say which one."""
    what = None
    if not os.access(path, os.W_OK):
        what = "you have no right to write this file"
    elif not os.access(path.absolute().parent, os.W_OK):
        what = "you have no right to write into its folder, where a store in use keeps its log"
    if what is not None:
        raise StoreError(f"{path}: {what}", code=Code.STORE_READ_ONLY) from None
