"""In place of lace.recordstore.sqlite: a page has no files, and keeps its records in IndexedDB."""

from __future__ import annotations

from lace.errors import Code, UsageError


class SqliteStore:
    """A store that cannot be had here."""

    def __init__(self, path: object, **_how: object) -> None:
        raise UsageError(
            f"a page has no store files such as {path}", code=Code.INPUT_FILE,
            hint="Open a lace that the browser keeps, with IndexedDbLace.open.",
        )  # fmt: skip
