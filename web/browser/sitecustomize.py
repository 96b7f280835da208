"""Python imports this before all else: it loads modules of the archive by their place in it.

The importer of the standard library opens the archive for each module, and reads and unmarshals it
twice: in a page that takes a good part of the time until a lace is open. Nothing is imported here
that is not there already.
"""

from __future__ import annotations

import marshal
import sys
from _frozen_importlib import ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_ENTRY = 30  # bytes of an entry of the archive before its name
_HEAD = 16  # bytes of a compiled module before its code


class Archive:
    """Finds and loads the modules of an archive that has them compiled and not compressed."""

    def __init__(self, path: str, entries: dict[str, tuple[int, ...]]) -> None:
        self._path = path
        self._file = open(path, "rb", buffering=0)  # noqa: PTH123, SIM115 (as long as Python runs)
        self._entries = entries

    def find_spec(self, name: str, *_where: object) -> ModuleSpec | None:
        place = name.replace(".", "/")
        for inner in (f"{place}/__init__.pyc", f"{place}.pyc"):
            if inner in self._entries:
                spec = ModuleSpec(name, self, origin=f"{self._path}/{inner}", loader_state=inner)
                spec.has_location = True
                if inner.endswith("__init__.pyc"):
                    spec.submodule_search_locations = [f"{self._path}/{place}"]
                return spec
        return None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Have an ordinary one made."""

    def exec_module(self, module: ModuleType) -> None:
        inner = module.__spec__.loader_state
        entry = self._entries[inner]
        size, start = entry[2], entry[4]
        self._file.seek(start + _ENTRY + len(inner.encode()) + _HEAD)
        code = marshal.loads(self._file.read(size - _HEAD))  # noqa: S302 (it came with this file)
        exec(code, module.__dict__)  # noqa: S102


_found = sys.path_importer_cache[next(path for path in sys.path if path.endswith(".zip"))]
sys.meta_path.insert(2, Archive(_found.archive, _found._get_files()))  # noqa: SLF001
