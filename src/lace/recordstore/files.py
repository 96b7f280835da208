"""How the file of a store can be told from other files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lace.errors import Code, UsageError

BEGIN: Final = b"SQLite format 3\x00"


def keep_store(path: str | Path) -> None:
    """Raise ``UsageError`` if a file that is about to be replaced is a store."""
    try:
        with Path(path).open("rb") as file:
            begin = file.read(len(BEGIN))
    except OSError:
        return  # there is none; or writing it will say why it cannot be written
    if begin == BEGIN:
        raise UsageError(
            f"{path} is a store; nothing else replaces it",
            code=Code.INPUT_FILE,
            hint="Choose another name. Remove the store yourself if that is what you mean.",
        )
