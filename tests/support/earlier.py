"""Programs of earlier releases, run by this Python from their archives in ``tests/data``.

They take libsecp256k1 from ``coincurve``. Where that is not installed, as on Python 3.14, modules of
its name stand in for it; they use the package that Lace takes the library from now.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

STAND_INS = {
    "coincurve/__init__.py": "",
    "coincurve/_libsecp256k1.py": """
from _btclib_libsecp256k1 import ffi, lib as compiled

class Library:
    SECP256K1_EC_COMPRESSED = 258

    def __getattr__(self, name):
        return getattr(compiled, name)

lib = Library()
""",
    "coincurve/context.py": """
from coincurve._libsecp256k1 import lib

class GLOBAL_CONTEXT:
    ctx = lib.secp256k1_context_create(1)
""",
    "unicodedata2.py": "from unicodedata import *",
}


@cache
def _folders() -> tuple[str, ...]:
    if find_spec("coincurve") is not None:
        return ()
    folder = Path(tempfile.mkdtemp(prefix="lace-stand-ins-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, text in STAND_INS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return (str(folder),)


def environment_of(program: Path) -> dict[str, str]:
    """Return the environment variables with which ``python -m lace`` is this program."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(program), *_folders()])}
