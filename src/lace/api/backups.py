"""Backups: one file with the store as it was at one moment, made while others write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lace.api.handles import Lace, as_lace, in_worker, store_of
from lace.errors import Code, UsageError
from lace.recordstore.sqlite import SqliteStore

__all__ = ["backup"]


async def backup(
    local: Lace,
    target: str | Path,
    *,
    overwrite: bool = False,
    listen: Callable[[int, int], None] | None = None,
) -> int:
    """Write the whole store of a lace into one new file; return how many records it has.

    It is the store of one moment, whoever writes meanwhile, and nobody has to wait. The file is a
    store itself: ``lace.open`` and ``lace restore`` take it. ``listen`` is told how many pages are
    written, and of how many.
    """
    store = store_of(as_lace(local))
    path = Path(target)
    if not isinstance(store, SqliteStore):
        raise UsageError(
            "what is in memory has no file to back up",
            code=Code.INPUT_TYPE,
            hint="Write its records with lace.export_file.",
        )

    return await in_worker(local, lambda: store.back_up(path, listen, overwrite=overwrite))
