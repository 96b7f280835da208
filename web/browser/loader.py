"""In place of Pyodide's loader of packages: a page loads none.

Pyodide asks for these names when it starts and when an archive is unpacked. Its own loader imports
a good part of the standard library for formats that no archive of Lace has.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

SITE_PACKAGES = Path("/lib/site-packages")
DSO_DIR = Path("/usr/lib")
_ENTRY = struct.Struct("<4s5H3I2H")
_STORED = 0


def init_loaded_packages() -> None:
    """There are none."""


def unpack_buffer(buffer: Any, *, extract_dir: str, **_how: object) -> None:
    """Unpack an archive whose entries are as they are, as those of Lace's parts."""
    data = buffer.to_bytes()
    at = 0
    while data[at : at + 4] == b"PK\3\4":
        _, _, _, method, _, _, _, _, size, named, more = _ENTRY.unpack_from(data, at)
        if method != _STORED:
            raise ValueError("the archive is not one of Lace")
        start = at + _ENTRY.size + named + more
        place = Path(extract_dir) / data[at + _ENTRY.size : at + _ENTRY.size + named].decode()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data[start : start + size])
        at = start + size
