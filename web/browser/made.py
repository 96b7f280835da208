"""The methods of dataclasses, compiled when the bundle was made.

A dataclass writes its methods as text and has it compiled when its module is loaded: in a page that
takes longer than all other loading. Here the same text is looked up, by its hash; a text that is
not there is compiled as ever.
"""

from __future__ import annotations

import importlib
import marshal
from _blake2 import blake2b  # hashlib would import much more
from typing import Any

_codes: dict[bytes, bytes] = {}


def use(part: str) -> None:
    """Know what was compiled for a part of the bundle."""
    _codes.update(importlib.import_module(f"lace_made_{part}").CODES)


def key(text: str) -> bytes:
    """Return what a text is known by."""
    return blake2b(text.encode(), digest_size=16).digest()


def run(text: str, names: dict[str, Any], made: dict[str, Any]) -> None:
    """Do what ``exec`` does, which dataclasses would call."""
    code = _codes.get(key(text))
    exec(text if code is None else marshal.loads(code), names, made)  # noqa: S102, S302
